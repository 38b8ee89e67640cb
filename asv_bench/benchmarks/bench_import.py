"""What a fresh interpreter waits for: the import, and an MLP's first gradient.

Each sample is a new process. It runs the returned text; where that has a second part, this is its
set-up, which is not timed.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

FIRST_GRADIENT = """
import {engine} as torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
loss = torch.nn.CrossEntropyLoss()(model(torch.randn(16, 64)), torch.randint(0, 10, (16,)))
loss.backward()
assert model[0].weight.grad.shape == (32, 64)
"""
EMPTY_CACHE = """
import os, tempfile
folder = tempfile.TemporaryDirectory()
os.environ["JITGRAD_CACHE_DIR"] = folder.name
"""
KEPT_CACHE = "import os; os.environ['JITGRAD_CACHE_DIR'] = {folder!r}"


class Import:
    """The import alone, beside that of the two packages that it rests on."""

    timeout = 120

    def timeraw_jitgrad(self):
        return "import jitgrad"

    def timeraw_numba(self):
        return "import numba"

    def timeraw_numpy(self):
        return "import numpy"


class FirstGradient:
    """Import, model, forward and backward, with the kernel cache empty and filled."""

    timeout = 300

    def setup_cache(self):
        folder = os.path.abspath("kernels")  # in a folder of asv's, which it removes
        code = KEPT_CACHE.format(folder=folder) + FIRST_GRADIENT.format(engine="jitgrad")
        subprocess.run([sys.executable, "-c", code], check=True)
        return folder

    def timeraw_cold(self, folder):
        return FIRST_GRADIENT.format(engine="jitgrad"), EMPTY_CACHE

    def timeraw_warm(self, folder):
        return FIRST_GRADIENT.format(engine="jitgrad"), KEPT_CACHE.format(folder=folder)


class TorchImport:
    """The same two for PyTorch."""

    timeout = 300

    def setup(self):
        if not find_spec("torch"):
            raise NotImplementedError("torch is not installed")  # asv's word for "skip"

    def timeraw_import(self):
        return "import torch"

    def timeraw_first_gradient(self):
        return FIRST_GRADIENT.format(engine="torch")
