"""Processes made by fork, spawn and forkserver while other threads of the parent compute."""

import multiprocessing
import os
import subprocess
import sys

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def run(program, *args):
    """Run a program in a process of its own; its output. A process that hangs fails the test."""
    command = [sys.executable, "-c", program, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# The thread is inside of a draw when the fork begins, and goes on only then.
DRAWING = """
import os, threading
import jitgrad as torch
from jitgrad.kernels import launch

drawing, forking = threading.Event(), threading.Event()

class Observer:
    def before(self, kernel, args):
        if threading.current_thread() is thread:
            drawing.set()
            forking.wait()
    def __call__(self, kernel, args, seconds):
        pass

torch.manual_seed(0)
torch.randn(100)
thread = threading.Thread(target=torch.randn, args=(100,))
launch.observers.append(Observer())
thread.start()
drawing.wait()
os.register_at_fork(before=forking.set)  # the latest handler is called first
child = os.fork()
if child == 0:
    import faulthandler
    faulthandler.dump_traceback_later(30, exit=True)
    launch.observers.clear()
    torch.randn(100)
    os._exit(0)
thread.join()
print(os.waitpid(child, 0)[1])
"""


@needs_fork
def test_fork_while_a_thread_draws():
    assert run(DRAWING) == ["0"]


# With so many generators, and threads that take turns so often, one is made while the fork goes through the others.
MAKING = """
import os, sys, threading
import jitgrad as torch

sys.setswitchinterval(1e-6)
kept, end = [torch.Generator() for _ in range(2000)], threading.Event()

def make():
    while not end.is_set():
        kept.append(torch.Generator())

thread = threading.Thread(target=make)
thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        torch.Generator()
        os._exit(0)
    print(os.waitpid(child, 0)[1])
end.set()
thread.join()
"""


@needs_fork
def test_fork_while_a_thread_makes_generators():
    assert run(MAKING) == ["0"] * 10


HOLDING = """
import os, threading
import jitgrad as torch
from jitgrad.autograd import anomaly, graph
from jitgrad.core import saved_tensors
from jitgrad.dispatch import op_calls
from jitgrad.engine import task
from jitgrad.profiler import recording

locks = [m._lock for m in (anomaly, graph, saved_tensors, op_calls, recording)] + [task._leaf_lock]
held, end = threading.Event(), threading.Event()

def hold():
    for lock in locks:
        lock.acquire()
    held.set()
    end.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    import faulthandler
    faulthandler.dump_traceback_later(30, exit=True)
    w = torch.ones(3, requires_grad=True)
    with torch.autograd.detect_anomaly(), torch.autograd.graph.save_on_cpu(), torch.profiler.profile():
        x = w * 2
        torch.autograd.graph.register_multi_grad_hook([x], lambda grads: None)
        x.sum().backward()
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


@needs_fork
def test_locks_are_open_in_a_forked_child():
    assert run(HOLDING) == ["0"]


FREEING = """
import faulthandler, os, threading
import llvmlite.binding
import jitgrad as torch

def free():
    while True:
        llvmlite.binding.parse_assembly("")

threading.Thread(target=free, daemon=True).start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(30, exit=True)
        torch.ones(3) * 2
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""


@needs_fork
def test_fork_while_a_thread_calls_llvm():
    """As Python's collector does in any thread, which frees what was compiled."""
    assert run(FREEING) == ["0"] * 10


LOADED = """
import faulthandler, multiprocessing, sys, threading
import jitgrad as torch

def child():
    faulthandler.dump_traceback_later(60, exit=True)
    w = torch.ones(5, requires_grad=True)
    (w * torch.rand(5)).sum().backward()

def work(end, running):
    w = torch.ones(1 << 18, requires_grad=True)  # large enough for the pool of threads
    while not end.is_set():
        (w * torch.rand(1 << 18)).sum().backward()
        running.release()

if __name__ == "__main__":
    end, running = threading.Event(), threading.Semaphore(0)
    threads = [threading.Thread(target=work, args=(end, running)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads * 2:
        running.acquire()  # all that they import is imported: Python itself hangs in a child forked during an import
    for _ in range(int(sys.argv[2])):
        process = multiprocessing.get_context(sys.argv[1]).Process(target=child)
        process.start()
        process.join()
        print(process.exitcode)
    end.set()
"""


@pytest.mark.parametrize("kind", multiprocessing.get_all_start_methods())
def test_processes_under_load(kind, tmp_path):
    count = 6 if kind == "fork" else 1
    program = tmp_path / "program.py"  # a process that is spawned imports the program from its file
    program.write_text(LOADED)
    done = subprocess.run(
        [sys.executable, str(program), kind, str(count)], capture_output=True, text=True, timeout=240
    )
    assert done.stdout.split() == ["0"] * count, done.stderr
