"""The tables of PyTorch's tests of optimisers: each optimiser with its options, and the decorator for tests of all."""

from __future__ import annotations

import importlib.machinery
import itertools
from pathlib import Path


class Optims:
    """``@optims(infos, dtypes=...)``: a test for each optimiser, but where its OptimizerInfo says to skip it."""

    def __init__(self, infos, dtypes=None):
        self.infos, self.given_dtypes = list(infos), dtypes

    def __call__(self, test):
        test.optims = self
        return test

    def rows(self, test, dtype_of_all):
        """(suffix, keyword arguments) of every test."""
        name = test.__qualname__.rpartition(".")[0], test.__name__
        for info, dtype in itertools.product(self.infos, self.given_dtypes or [dtype_of_all]):
            if not any(d.is_active(*name, "cpu", dtype, {}) for d in info.decorators if d.skips):
                yield f"_{info.name}_{str(dtype).rpartition('.')[2]}", {"optim_info": info, "dtype": dtype}


class DecorateInfo:
    """``DecorateInfo(decorators, class, test, ...)``: where decorators apply; here those matter that skip a test."""

    def __init__(self, decorators, cls_name=None, test_name=None, *, device_type=None, dtypes=None, active_if=True):
        self.where, self.device_type = (cls_name, test_name), device_type
        self.dtypes, self.active_if = dtypes, active_if
        probes = [d(lambda: None) for d in (decorators if isinstance(decorators, (list, tuple)) else [decorators])]
        marks = "__unittest_skip__", "__unittest_expecting_failure__"
        self.skips = any(getattr(probe, mark, False) for probe in probes for mark in marks)

    def is_active(self, cls_name, test_name, device_type, dtype, param_kwargs):
        """Whether they apply to a test."""
        named = all(mine in (None, its) for mine, its in zip(self.where, (cls_name, test_name), strict=True))
        dtypes = self.dtypes is None or dtype in self.dtypes
        return self.active_if and named and dtypes and self.device_type in (None, device_type)


def optimizer_tables(module):
    """Let a module get what PyTorch's ``common_optimizers`` has, when a test first asks for any of it.

    The text is torch's, wherever it runs; its decorator is replaced.
    """
    places = importlib.machinery.PathFinder.find_spec("torch").submodule_search_locations
    text = Path(places[0]).joinpath("testing", "_internal", "common_optimizers.py").read_text()

    def load(attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        if "optim_db" not in vars(module):
            exec(compile(text, "common_optimizers", "exec"), vars(module))
            module.optims = Optims
        return vars(module)[attribute]

    module.__getattr__ = load
