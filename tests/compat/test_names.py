"""What libraries compare names of modules with while ``import torch`` means jitgrad."""

import subprocess
import sys

PROGRAM = """
import jitgrad.compat
jitgrad.compat.install(quiet=True)
import torch
assert torch.__name__ == "torch" and "torch.optim.Adam".split(".")[0] == torch.__name__
from torch import nn, optim
from torch.nn import functional
import pickle
kinds = {name: kind for name, kind in vars(torch.optim).items() if isinstance(kind, type)}
found = {name for name, kind in kinds.items() if issubclass(kind, optim.Optimizer)}
assert {"LBFGS", "RAdam", "SparseAdam"} <= found
assert pickle.loads(pickle.dumps(torch.ones(2))).sum() == 2 and pickle.loads(pickle.dumps(torch.add)) is torch.add
jitgrad.compat.uninstall()
assert torch.__name__ == "jitgrad" and "torch" not in __import__("sys").modules
"""


def test_the_module_is_called_torch():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
