"""Run PyTorch's own tests of autograd on jitgrad, and count.

    python tests/peer/pytorch_suite.py PATH [-k REGEX] [-v]

PATH is the folder ``test`` of PyTorch's sources, which its wheels don't hold. Every file runs twice, with torch
and with jitgrad in its place, both times on ``pytorch_framework`` instead of PyTorch's internal test framework. A
test counts where torch passes it. Where jitgrad lacks a module or a name altogether (sparse tensors, the JIT,
``torch._C``), a stand-in takes its place; tests that touch one are counted apart, as not applicable.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import itertools
import json
import math
import multiprocessing
import os
import pkgutil
import random
import re
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import warnings
from pathlib import Path

import numpy
from pytorch_framework import Finder, NotApplicable, decorator, framework, stand_in
from pytorch_layers import complete_framework

FILES = {
    "autograd": ["test_autograd.py", "autograd/test_functional.py", "autograd/test_complex.py"],
    "module hooks": ["nn/test_module_hooks.py"],
    "func": ["functorch/test_eager_transforms.py"],
    "vmap": ["functorch/test_vmap.py"],
    "checkpoint": ["test_utils.py"],
    "views": ["test_view_ops.py"],
    "indexing": ["test_indexing.py"],
    "type promotion": ["test_type_promotion.py"],
    "reductions": ["test_reductions.py"],
    "shapes": ["test_shape_ops.py"],
    "scatter, gather": ["test_scatter_gather_ops.py"],
    "sorting": ["test_sort_and_select.py"],
    "creation": ["test_tensor_creation_ops.py"],
    "unary": ["test_unary_ufuncs.py"],
    "binary": ["test_binary_ufuncs.py"],
    "linalg": ["test_linalg.py"],
    "nn": ["test_nn.py"],
    "layers": [f"nn/test_{name}.py" for name in ("convolution", "dropout", "embedding", "pooling")],
    "module state": ["nn/test_lazy_modules.py", "nn/test_load_state_dict.py"],
    "nn.init": ["nn/test_init.py"],
    "nn.utils": ["nn/test_packed_sequence.py", "nn/test_parametrization.py", "nn/test_pruning.py", "test_stateless.py"],
    "attention": ["nn/test_multihead_attention.py", "test_transformers.py"],
    "optimisers": ["test_optim.py", "optim/test_lrscheduler.py", "optim/test_swa_utils.py"],
    "distributions": [
        f"distributions/test_{name}.py" for name in ("constraints", "distributions", "transforms", "utils")
    ],
    "data": ["test_dataloader.py"],
    "checkpoints": ["test_serialization.py"],
    "sparse": ["test_sparse.py", "test_sparse_csr.py"],
    "overrides": ["test_overrides.py"],
}
ONLY = {"test/test_utils.py": "TestCheckpoint"}  # the other classes of a file have nothing to do with autograd
SECONDS = 60  # a test that takes longer has failed

# -- one file under one library ---------------------------------------------------------------------


class SoftImports(ast.NodeTransformer):
    """``from torch.x import y`` gives a stand-in where there is no y."""

    def visit_ImportFrom(self, node):
        """Look each name up by itself."""
        if node.module is None or node.module.split(".")[0] not in ("torch", "functorch"):
            return node
        lines = "\n".join(f"{a.asname or a.name} = import_softly({node.module!r}, {a.name!r})" for a in node.names)
        return [ast.copy_location(n, node) for n in ast.parse(lines).body]


def import_softly(module, name):
    """A name of a module, or its submodule of that name, or a stand-in."""
    with contextlib.suppress(AttributeError, ModuleNotFoundError):
        return getattr(importlib.import_module(module), name)
    with contextlib.suppress(ImportError):
        return importlib.import_module(f"{module}.{name}")
    return stand_in(f"{module}.{name}")


def load(path, case):
    """The test classes of a file."""
    text = re.sub(r"(?m)^from autograd\.test_\w+ import .*$", "", path.read_text())  # those files run by themselves
    tree = ast.fix_missing_locations(SoftImports().visit(ast.parse(text)))
    module = types.ModuleType(path.stem)
    module.__file__, module.import_softly = str(path), import_softly
    sys.modules[path.stem] = module
    sys.path[:0] = [str(path.parent)]
    if path.parent.name == "functorch":  # decorators that look up tables of ops
        shared = importlib.import_module("common_utils")
        tables = "decorate", "opsToleranceOverride", "skip", "skipOps", "tol1", "xfail", "xfailIf"
        vars(shared).update(dict.fromkeys(tables, lambda *args, **kwargs: decorator))
    exec(compile(tree, str(path), "exec"), vars(module))
    found = {n: c for n, c in vars(module).items() if isinstance(c, type) and issubclass(c, case)}
    found["Functions"] = type("Functions", (case,), dict(functions_of(module), __module__=path.stem))
    only = ONLY.get("/".join(path.parts[-2:]))
    return {n: c for n, c in found.items() if c.__module__ == path.stem and only in (None, n)}


def functions_of(module):
    """(name, method) of the functions that are tests for pytest, one for each set of parameters."""
    for name, function in list(vars(module).items()):
        if not name.startswith("test_") or getattr(function, "__module__", None) != module.__name__:
            continue
        marks = [mark.args for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
        for number, chosen in enumerate(itertools.product(*[values for _, values in marks])):
            if any(m.name == "skipif" and m.args[0] for v in chosen for m in getattr(v, "marks", ())):
                continue
            given = {}
            for (labels, _), entry in zip(marks, chosen, strict=True):
                labels = labels.replace(",", " ").split() if isinstance(labels, str) else labels
                given |= zip(labels, entry.values if hasattr(entry, "marks") else entry if labels[1:] else [entry])
            yield f"{name}_{number}", lambda self, function=function, given=given: function(**given)


class Outcomes(unittest.TestResult):
    """What became of each test, by name."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def note(self, test, word):
        """Remember the outcome of a test."""
        name = test.id().partition(".")[2].replace("test_jitgrad", "test_torch")
        # Tests that are made for each op are named after the module that it is from.
        name = re.sub(r"test_torch_(linalg|special|fft)_", r"test_torch__C__\1_\1_", name)
        self.found[re.sub(r"test_Tensor_(\w+)___get__", r"test_TensorBase_\1___get__", name)] = word

    def addSuccess(self, test):
        """It passed."""
        self.note(test, "ok")

    def addSkip(self, test, reason):
        """It needs something else, a GPU perhaps."""
        self.note(test, "skip")

    def addExpectedFailure(self, test, error):
        """It is marked as failing."""
        self.note(test, "skip")

    def addError(self, test, error):
        """It raised."""
        kind, value = error[0], error[1]
        refused = kind is NotImplementedError and "is not in jitgrad" in str(value)  # the name says what to do
        lacking = refused or issubclass(kind, NotApplicable)
        text = " ".join(str(value).split())[:200]
        self.note(test, f"not here: {value}" if lacking else f"{kind.__name__}: {text}")

    addFailure = addError


def out_of_time(*args):
    """A test took too long."""
    raise TimeoutError(f"more than {SECONDS} s")


def prepared(mode, path):
    """The library, and the class that its tests derive from, with all modules in place that tests import."""
    library = importlib.import_module(mode)
    if mode == "jitgrad":
        # What is not imported yet would be taken for missing.
        for found in pkgutil.walk_packages(library.__path__, "jitgrad."):
            if not found.name.endswith("__main__"):
                with contextlib.suppress(ImportError):  # of a package that is not installed
                    importlib.import_module(found.name)
        sys.modules.update({"torch" + n.removeprefix("jitgrad"): m for n, m in list(sys.modules.items())
                            if n == "jitgrad" or n.startswith("jitgrad.")})  # fmt: skip
    sys.meta_path.insert(0, Finder(mode))
    case = framework(mode, library, numpy)
    complete_framework(library, path.read_text(), SoftImports, import_softly)
    return library, case


def run(mode, path, pattern):
    """Run a file's tests; their outcomes by name."""
    library, case = prepared(mode, path)
    outcomes = Outcomes()
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, out_of_time)
    with contextlib.redirect_stdout(open(os.devnull, "w")), warnings.catch_warnings():
        for name, cls in load(path, case).items():
            for test in unittest.defaultTestLoader.loadTestsFromTestCase(cls):
                if re.search(pattern, f"{name}.{test._testMethodName}"):
                    run_one(library, test, outcomes)
    for child in multiprocessing.active_children():  # of a test that was out of time: Python would wait for it
        child.kill()
    return outcomes.found


def run_one(library, test, outcomes):
    """One test, from the state that tests expect, within its time."""
    for start in (library.manual_seed, random.seed, numpy.random.seed):
        start(0)
    if hasattr(signal, "SIGALRM"):
        signal.alarm(SECONDS)
    try:
        test.run(outcomes)
    finally:
        if hasattr(signal, "SIGALRM"):
            signal.alarm(0)
        library.set_grad_enabled(True)
        library.autograd.set_detect_anomaly(False)
        library.set_default_dtype(library.float32)
        if library.__name__ == "jitgrad":  # tests take hooks of all modules away by private names
            from jitgrad.nn.modules import global_hooks

            global_hooks.call_hooks.clear()
            global_hooks._full_backward.clear()


# -- both, side by side -----------------------------------------------------------------------------


def outcomes_of(mode, path, pattern):
    """The outcomes of a file's tests, run in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, __file__, str(path), "-k", pattern, "--one", mode, out.name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{path.name} does not run with {mode}:\n{done.stderr[-2000:]}")
        return json.loads(Path(out.name).read_text())


def main():
    """Count, a line per group of files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("-k", default="", help="regular expression: only tests whose Class.name it finds")
    parser.add_argument("-g", default="", help="regular expression: only groups of files whose name it finds")
    parser.add_argument("-v", action="store_true", help="list the tests that fail, and those that don't apply")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        Path(given.one[1]).write_text(json.dumps(run(given.one[0], given.path, given.k)))
        return
    print(f"{'':16}{'torch':>8}{'apply':>8}{'jitgrad':>9}")
    total = [0, 0, 0]
    for group, names in FILES.items():
        if not re.search(given.g, group):
            continue
        wanted, found = {}, {}
        for name in names:
            theirs = outcomes_of("torch", given.path / name, given.k)
            wanted |= {test: word for test, word in theirs.items() if word == "ok"}
            found |= outcomes_of("jitgrad", given.path / name, given.k)
        words = {test: found.get(test, "missing") for test in wanted}
        lacking = [t for t, word in words.items() if word.startswith("not here") or word == "skip"]
        if group == "overrides":  # its tests are made for each op there is
            lacking += [t for t, word in words.items() if word == "missing"]
        passed = [t for t, word in words.items() if word == "ok"]
        counts = [len(wanted), len(wanted) - len(lacking), len(passed)]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        print_line(group, counts)
        for test in words if given.v else ():
            if words[test] != "ok":
                print(f"    {test}: {words[test]}")
    print_line("all", total)


def print_line(group, counts):
    """How many tests torch passes, how many of them apply, how many of those pass."""
    share = f"{counts[2] / counts[1]:8.1%}" if counts[1] and math.isfinite(counts[1]) else ""
    print(f"{group:16}{counts[0]:8}{counts[1]:8}{counts[2]:9}{share}", flush=True)


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__" and "--one" in sys.argv:  # a process that a test spawns has to find its functions
    load(Path(sys.argv[1]), prepared(sys.argv[sys.argv.index("--one") + 1], Path(sys.argv[1]))[1])
