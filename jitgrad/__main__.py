"""``python -m jitgrad``: demo, info, cache, warmup, run, stubs."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from jitgrad.kernels.cache_files import cache_directory

__all__ = ["main"]


# Each command is imported by the function that runs it: what one command needs, such as tqdm, must not keep the others
# from running, least of all ``info``, which is there to find out what is wrong.


def demo(args: argparse.Namespace) -> int:
    """Train a classifier of handwritten digits."""
    from jitgrad.commands.demo import run

    run(args.epochs, args.seed)
    return 0


def info(args: argparse.Namespace) -> int:
    """Print versions, processor, threads, BLAS, kernel cache, CUDA."""
    from jitgrad.commands.info import report

    lines = report()
    width = max(map(len, lines))
    for topic, text in lines.items():
        print(f"{topic:<{width}}  {text}")
    return 0


def cache(args: argparse.Namespace) -> int:
    """Show the kernel cache, or clear it."""
    from jitgrad.commands.info import cache_size

    folder = Path(args.path) if args.path else cache_directory().parent
    kernels, size = cache_size(folder)
    if not folder.is_dir():
        print(f"{folder}: no cache there yet")
        return 0
    if not args.clear:
        print(f"{folder}: {kernels} kernels, {size / 2**20:.1f} MiB")
        return 0
    return _clear(folder, kernels, size)


def _clear(folder: Path, kernels: int, size: int) -> int:
    """Remove the subfolders that hold compiled kernels, and nothing else."""
    # One subfolder for each version of Numba. A user may have given any folder, so only those of that name are removed.
    ours = [folder] if folder.name.startswith("numba") else [p for p in folder.iterdir() if p.name.startswith("numba")]
    for path in ours:
        shutil.rmtree(path)
    print(f"{folder}: removed {kernels} kernels, {size / 2**20:.1f} MiB")
    return 0


def warmup(args: argparse.Namespace) -> int:
    """Compile the common kernels, or those of a script, into the cache."""
    from jitgrad.commands.warmup import warmup_like

    if args.like is None:
        return _warmup_all(args)
    if not args.like or not Path(args.like[0]).is_file():
        print(f"warmup --like: no such script: {' '.join(args.like[:1]) or 'none is named'}", file=sys.stderr)
        return 2
    used = warmup_like(args.like[0], args.like[1:])
    if not used.compiled + used.loaded:
        print(f"{args.like[0]} used no kernels. Where import torch shall mean jitgrad: python -m jitgrad run SCRIPT, "
              "which keeps its kernels as well.")  # fmt: skip
        return used.status
    print(
        f"{args.like[0]} used {used.compiled + used.loaded} kernels: {used.compiled} compiled now, {used.loaded} were "
        f"on disk; {cache_directory()} has them for every process from now on."
    )
    return used.status


def _warmup_all(args: argparse.Namespace) -> int:
    import jitgrad
    from jitgrad.commands.warmup import warmup as compile_all

    dtypes = [getattr(jitgrad, name) for name in args.dtype or ["float32"]]
    count = compile_all(dtypes, processes=args.processes)
    print(f"{count} kernels compiled; {cache_directory()} has them for every process from now on.")
    return 0


def run(args: argparse.Namespace) -> int:
    """Run a script, or a module with -m, for which ``import torch`` means jitgrad."""
    from jitgrad.commands.run import run_module, run_script

    if args.module is not None:
        return run_module(args.module[0], args.module[1:])
    if not args.script:
        print("python -m jitgrad run: a script, or -m and a module, is missing", file=sys.stderr)
        return 2
    return run_script(args.script[0], args.script[1:])


def stubs(args: argparse.Namespace) -> int:
    """Write the stubs that type checkers read, for those who change ops."""
    from jitgrad.commands.stubs import stale, write

    files = stale() if args.check else write()
    for path in files:
        print(f"{path}: {'stale; run python -m jitgrad stubs' if args.check else 'written'}")
    return 1 if args.check and files else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m jitgrad", description="PyTorch's autograd over pairs of Numba kernels."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for called in (demo, info, cache, warmup, run, stubs):
        text = (called.__doc__ or "").rstrip(".")
        command = commands.add_parser(called.__name__, help=text, description=f"{text}.")
        command.set_defaults(run=called)
        _OPTIONS.get(called.__name__, lambda command: None)(command)
    return parser


def _demo_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--epochs", type=int, default=20, help="passes over the training digits (20)")
    command.add_argument("--seed", type=int, default=0, help="seed of split, weights and order (0)")


def _cache_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("path", nargs="?", help="the cache's folder (default: where kernels are kept)")
    command.add_argument("--clear", action="store_true", help="remove all compiled kernels")


def _warmup_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dtype", action="append", choices=["float32", "float64"], help="for this dtype; may be repeated (float32)"
    )
    command.add_argument(
        "--processes", type=int, default=_cores(), help="how many compile at the same time (all cores: %(default)s)"
    )
    command.add_argument(
        "--like", nargs=argparse.REMAINDER,
        help="SCRIPT [ARGUMENT ...]: run this script instead, and keep the kernels that the run uses",
    )  # fmt: skip


def _cores() -> int:
    """The cores that this process may use, whatever the setting for threads."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_options(command: argparse.ArgumentParser) -> None:
    rest = argparse.REMAINDER
    command.add_argument("-m", dest="module", nargs=rest, metavar="MODULE", help="run this module, with its arguments")
    command.add_argument("script", nargs=rest, metavar="SCRIPT [ARGUMENT ...]", help="run this script")


def _stubs_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--check", action="store_true", help="write nothing; fail where a stub is stale, and name it")


_OPTIONS = {"demo": _demo_options, "cache": _cache_options, "warmup": _warmup_options, "run": _run_options,
            "stubs": _stubs_options}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit status."""
    args = _parser().parse_args(arguments)
    try:
        return args.run(args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130  # what shells report for a program that Ctrl-C ended: 128 + SIGINT


if __name__ == "__main__":
    sys.exit(main())
