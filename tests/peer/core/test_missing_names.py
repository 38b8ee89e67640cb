"""The list of PyTorch's names that errors consult: complete, and as the installed PyTorch has them."""

import runpy
from importlib import import_module
from pathlib import Path

import pytest
import torch

import jitgrad

NAMES = runpy.run_path(str(Path(__file__).parents[1] / "torch_names.py"))


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the list is that of PyTorch 2.13")
def test_list_is_fresh():
    assert NAMES["FILE"].read_text(encoding="utf-8") == NAMES["text"](), "run python tests/peer/torch_names.py"


@pytest.mark.parametrize("module", NAMES["MODULES"])
def test_every_listed_module_explains_what_it_lacks(module):
    ours = import_module(module.replace("torch", "jitgrad"))
    missing = [name for name in NAMES["public_names"](import_module(module)) if not hasattr(ours, name)]
    for name in missing:
        with pytest.raises(AttributeError, match=f"{name} is not in jitgrad {jitgrad.__version__[:3]}$"):
            getattr(ours, name)
