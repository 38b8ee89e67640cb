"""What ``import torch`` means in processes that a program starts."""

import multiprocessing
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import torch
from torch.utils.data import DataLoader

class Names:
    def __len__(self):
        return 2
    def __getitem__(self, k):
        return torch.nn.__name__

if __name__ == "__main__":
    print(list(DataLoader(Names(), 2, num_workers=1, multiprocessing_context=sys.argv[1])))
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_it_is_jitgrad_there_too(method, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "jitgrad", "run", str(program), method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.stdout == "[['jitgrad.nn', 'jitgrad.nn']]\n", done.stderr
    assert done.stderr.count("`import torch` means jitgrad") == 1  # the children do not say it again
