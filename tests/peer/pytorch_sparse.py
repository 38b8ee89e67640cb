"""What PyTorch's tests of sparse tensors ask of its test framework."""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import itertools
import math
from pathlib import Path


def names(torch):
    """The names of ``common_utils`` that make and look at sparse tensors."""

    def coalesced_on_and_off(test):
        @functools.wraps(test)
        def both(*args, **kwargs):
            for coalesced in (True, False):
                test(*args, **kwargs, coalesced=coalesced)

        return both

    def in_order(x):
        keys = torch.zeros(x._nnz(), dtype=torch.int64)
        for row, n in zip(x._indices(), x.shape, strict=False):
            keys = keys * n + row
        return bool((keys[1:] > keys[:-1]).all())

    return {"coalescedonoff": coalesced_on_and_off, "is_coalesced_indices": in_order,
            "first_sample": lambda test, samples: next(iter(samples))}  # fmt: skip


def methods(torch):
    """Methods of the class that tests derive from."""

    def safe_to_dense(self, t):
        return t.to_dense()

    return {"safeToDense": safe_to_dense, "safeCoalesce": lambda self, t: t.coalesce(), **makers(torch)}


def makers(torch):
    """The methods that make sparse tensors, by their text in the installed torch's test framework."""
    places = importlib.machinery.PathFinder.find_spec("torch").submodule_search_locations
    text = Path(places[0]).joinpath("testing", "_internal", "common_utils.py").read_text()
    case = next(n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == "TestCase")
    wanted = "_make_crow_indices genSparseCompressedTensor genSparseCSRTensor genSparseCSCTensor genSparseBSRTensor"
    wanted += " genSparseBSCTensor genSparseTensor generate_simple_inputs"
    case.body = [n for n in case.body if isinstance(n, ast.FunctionDef) and n.name in wanted.split()]
    case.bases, case.keywords, case.decorator_list = [], [], []
    found = {"torch": torch, "itertools": itertools, "make_tensor": torch.testing.make_tensor, "math": math}
    exec(compile(ast.Module([case], []), "common_utils", "exec"), found)
    return {name: value for name, value in vars(found["TestCase"]).items() if not name.startswith("__")}
