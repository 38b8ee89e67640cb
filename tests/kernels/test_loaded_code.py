"""Kernels that make arrays, in processes that find them on disk."""

import os
import subprocess
import sys

PROGRAM = """
import sys
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.statistics import statistics
text = "def ones_up_to(n):\\n    x = np.zeros(n, np.float64)\\n    for i in range(n):\\n        x[i] = i\\n"
text += "    return x\\n"
made = compile_text("ones_up_to", text)(4)
print(made.tolist(), statistics.compiled, "numba.np.arrayobj" in sys.modules)
import numba, numpy as np
print(numba.njit(lambda n: np.zeros(n).sum() + np.arange(n).sum())(4))
"""


TRAINING = """
import sys
import jitgrad as torch
from jitgrad.kernels.statistics import statistics
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.LayerNorm(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(5, 9)), torch.randint(3, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
rows = torch.randn(2, 3).softmax(0).gather(1, torch.zeros(2, 3, dtype=torch.long)).sum()
try:
    torch.zeros(3)[torch.tensor(5)]
except IndexError:
    print(loss.item(), rows.item(), statistics.compiled > 0, "numba" in sys.modules)
import numba
print(numba.njit(lambda n: (np.zeros(n).reshape(2, n // 2).sum(), [n, n], np.linalg.norm(np.ones(n))))(4))
print(numba._helperlib.__name__, numba.core.runtime._nrt_python.__name__, torch.ones(3).logit(eps=0.25).tolist())
"""


THREADS = """
import sys, threading
import jitgrad as torch
start, failed = threading.Barrier(6), []
calls = [
    lambda: torch.rand(3, 2).sort(0), lambda: torch.rand(3).softmax(0), lambda: torch.dropout(torch.rand(3), 0.5, True),
    lambda: torch.zeros(2)[torch.tensor(7)], lambda: torch.rand(2, 2) @ torch.rand(2, 2),
    lambda: torch.rand(3).cumsum(0),
]

def run(k):
    start.wait()
    for call in calls[k:] + calls[:k]:
        try:
            call()
        except IndexError:
            pass
        except BaseException as error:
            failed.append(error)

threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(failed, "numba" in sys.modules)
"""


def test_threads_that_compile_and_load_at_once(tmp_path):
    assert outputs(THREADS, tmp_path) == [["[] True"], ["[] False"]]


def outputs(program, folder):
    """What two processes print, of which the second finds all kernels on disk."""
    environment = {**os.environ, "JITGRAD_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", program]
    run = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    return [done.stdout.splitlines() for done in run]


def test_programs_whose_kernels_are_on_disk_do_not_import_numba(tmp_path):
    """Nor does it harm that its functions in C were loaded without it, when it is imported afterwards."""
    program = TRAINING.replace("import numba\n", "import numba, numpy as np\n")
    (first, *rest), (second, *same) = outputs(program, tmp_path)
    assert first.endswith("True True") and second == first.replace("True True", "False False")
    assert rest == same
    assert rest[0].startswith("(0.0, [4, 4], 2")


def test_modules_that_only_compiling_needs_are_not_imported(tmp_path):
    """The second process takes the kernel from disk, and can compile afterwards."""
    values = "[0.0, 1.0, 2.0, 3.0]"
    assert outputs(PROGRAM, tmp_path) == [[f"{values} 1 True", "6.0"], [f"{values} 0 False", "6.0"]]
