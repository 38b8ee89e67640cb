"""All fuzzers in turns for some seconds of processor time: ``python -m tests.peer.fuzz 3600 --seed 1``.

All differences come into one report: where pytest stops at the first, this goes on. A program is drawn from the seed,
the fuzzer's name and a number, which are printed before each difference; with the number of the last one a crash of the
process is found again.
"""

import argparse
import random
import sys
import time
from importlib import import_module
from pathlib import Path

FUZZERS = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))


def difference(fuzzer, seed, number):
    """What a fuzzer finds in the program of that number; "" for nothing."""
    try:
        import_module(f".{fuzzer}", __package__).check(random.Random(f"{seed} {fuzzer} {number}"))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # pytest's failures are no Exceptions
        return f"{type(error).__name__}: {error}"
    return ""


def run(fuzzers, seconds, seed, first):
    """Rounds of one program of each fuzzer; how many programs ran and how many differed, by fuzzer."""
    counts = {fuzzer: [0, 0] for fuzzer in fuzzers}
    end, number = time.process_time() + seconds, first
    while time.process_time() < end:
        for fuzzer in fuzzers:
            print(f"\r{fuzzer} {number}", end="", file=sys.stderr, flush=True)
            text = difference(fuzzer, seed, number)
            counts[fuzzer][0] += 1
            if text:
                counts[fuzzer][1] += 1
                print(f"--- seed {seed}, {fuzzer} {number}\n{text}", flush=True)
        number += 1
    return counts


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.peer.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--first", type=int, default=0, help="the number of the first program of each fuzzer")
    parser.add_argument("fuzzers", nargs="*", help=f"some of {', '.join(FUZZERS)}; all by default")
    options = parser.parse_intermixed_args()
    counts = run(options.fuzzers or FUZZERS, options.seconds, options.seed, options.first)
    for fuzzer, (programs, differences) in counts.items():
        print(f"{fuzzer}: {programs} programs, {differences} differences")


if __name__ == "__main__":
    main()
