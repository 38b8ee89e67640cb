"""A declaration that lacks something, names what is not there or repeats a name is refused where it stands."""

import functools
import os
import subprocess
import sys
import threading
import types

import pytest

from jitgrad.dispatch import registry
from jitgrad.dispatch.inplace_ops import InplaceOp
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops.loss import MSE
from jitgrad.ops.nn.loss import PointwiseLoss


def declare(bases=(Structured,), public=False, **body):
    return type("MyOp", bases, body, listed=False, public=public)


def forward(x, dim):
    return x


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"forward": forward}, "needs a docstring"),
        ({"__doc__": "My op."}, "needs a forward"),
        ({"__doc__": "My op.", "forward": forward, "grad_y": lambda g: g}, "grad_y is a rule for 'y'"),
        ({"__doc__": "My op.", "forward": forward, "kernel_y": lambda g: g}, "kernel_y is a rule for 'y'"),
        ({"__doc__": "My op.", "forward": forward, "grad_x": lambda g, size: g}, "grad_x takes 'size'"),
        ({"__doc__": "My op.", "forward": forward, "kernels": lambda g, size: g}, "kernels takes 'size'"),
        ({"__doc__": "My op.", "forward": forward, "name": "clone", "public": True}, "'clone' is published already"),
        ({"__doc__": "My op.", "bases": (InplaceOp,)}, "needs a write"),
    ],
)
def test_refused_with_class_place_and_remedy(body, words):
    with pytest.raises(TypeError) as caught:
        declare(**body)
    place, what, remedy = str(caught.value).partition(": ")[0], str(caught.value), str(caught.value).partition("; ")[2]
    assert place.startswith("MyOp (") and words in what and remedy
    if "forward" in body:
        assert f"{__file__}:" in place


def test_an_op_is_unpublished_and_named_after_its_class_unless_it_says_otherwise():
    import jitgrad

    op = type("LogSumOfAll", (Structured,), {"__doc__": "My op.", "forward": forward}, listed=False)
    assert op.name == "log_sum_of_all" and op.grad_name == "LogSumOfAllBackward0"
    assert not hasattr(jitgrad, "log_sum_of_all") and not hasattr(jitgrad.Tensor, "log_sum_of_all")


def test_rules_may_come_from_a_base():
    class Base(Structured, abstract=True):
        def grad_x(g):
            return g

    class Derived(Base, listed=False):
        """My op."""

        def forward(x, dim):
            return x

    assert list(Derived.grads) == ["x"] and Derived.grads["x"][1] == ("g",)


class Rules:
    def rule(self, g):
        return g


def test_rules_may_be_partials_and_bound_methods():
    body = {"__doc__": "My op.", "forward": forward}
    partial = declare(grad_x=functools.partial(lambda scale, g: scale * g, 2.0), **body)
    bound = declare(grad_x=Rules().rule, **body)
    assert partial.grads["x"][1] == bound.grads["x"][1] == ("g",)


# Packages without what their __init__ does, so that families can be imported before all else, the last first.
BACKWARDS = """
import importlib, importlib.util, pkgutil, sys, types
for name in ("jitgrad", "jitgrad.ops"):
    found = importlib.util.find_spec(name)
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = list(found.submodule_search_locations)
    sys.modules[name].__spec__ = found
for family in ("nn", "random", "indexing", "linalg", "reduction", "pointwise", "creation", "shape"):
    package = importlib.import_module("jitgrad.ops." + family)
    for module in sorted((m.name for m in pkgutil.iter_modules(package.__path__)), reverse=True):
        importlib.import_module(f"jitgrad.ops.{family}.{module}")
del sys.modules["jitgrad"], sys.modules["jitgrad.ops"]
"""
PROGRAM = """
import jitgrad
x = jitgrad.arange(6.0).reshape(2, 3).requires_grad_()
y = jitgrad.nn.functional.log_softmax(x.exp().cumsum(1)[:, 1:] + x.clone().clamp_(0.5).sum(1, keepdim=True), 1)
(y * y).sum().backward()
public = {name: getattr(jitgrad, name).__doc__ for name in dir(jitgrad) if callable(getattr(jitgrad, name, None))}
methods = {name: getattr(jitgrad.Tensor, name).__doc__ for name in dir(jitgrad.Tensor)}
print(sorted(public.items(), key=str), sorted(methods.items(), key=str), x.grad.tolist())
"""


def test_the_order_in_which_families_are_imported_makes_no_difference():
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for code in (PROGRAM, BACKWARDS + PROGRAM)
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("missing", ["loops", "slope"])
def test_a_pointwise_loss_needs_kernels_and_a_slope(missing):
    body = {"__doc__": "My loss.", "loops": MSE, "slope": lambda x, target: x - target}
    del body[missing]
    with pytest.raises(TypeError, match=f"a pointwise loss needs {missing}; define loops"):
        declare((PointwiseLoss,), **body)


def test_a_pointwise_loss_takes_the_number_that_its_slope_names():
    def slope(x, target, scale=2.0):
        return scale * (x - target)

    op = declare((PointwiseLoss,), loops=MSE, slope=slope, __doc__="My loss.")
    assert op.parameters == ("x", "target", "reduction", "scale") and op.defaults[2:] == ("mean", 2.0)
    assert op.grads["target"][1] == ("g", "x", "target", "reduction", "scale")


def test_names_that_are_published_late_are_those_that_the_module_publishes():
    program = """
import importlib, jitgrad
from jitgrad.dispatch.registry import FUNCTIONS, LATER, LATER_METHODS
before = dict(FUNCTIONS), dict(vars(jitgrad.Tensor))
for module in dict.fromkeys([*LATER.values(), *LATER_METHODS.values()]):
    importlib.import_module(module)
    print([n for n, m in LATER.items() if m == module and n not in FUNCTIONS])
    print([n for n, m in LATER_METHODS.items() if m == module and vars(jitgrad.Tensor)[n] is before[1][n]])
print([n for n, f in FUNCTIONS.items() if f is not before[0].get(n) and n not in LATER])
print([n for n, m in vars(jitgrad.Tensor).items() if m is not before[1].get(n) and n not in LATER_METHODS])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) == {"[]"}, "the lists of names in jitgrad/ops/__init__.py are wrong"


def test_what_is_published_late_can_be_imported_again_after_an_interruption():
    program = """
import sys, jitgrad
from jitgrad.dispatch.registry import LATER, LATER_METHODS, published
def below(frames, get, name):
    return below(frames - 1, get, name) if frames else get(name)
first = {module: (get, name) for names, get in ((LATER, published),
         (LATER_METHODS, lambda n: getattr(jitgrad.Tensor, n))) for name, module in names.items()}
interrupted = 0
for get, name in first.values():
    for frames in range(sys.getrecursionlimit() - 4, 0, -1):
        try:
            below(frames, get, name)
            break
        except RecursionError:
            interrupted += 1
print(interrupted > 10 * len(first), all(module in sys.modules for module in first))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_fork_waits_for_other_threads_imports(monkeypatch, tmp_path):
    text = "import sys\nsys.modules['in_the_middle'].set()\nsys.modules['go_on'].wait()\n"
    (tmp_path / "slow_to_import.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("in_the_middle", "go_on"):
        monkeypatch.setitem(sys.modules, name, threading.Event())
    thread = threading.Thread(target=registry._import_late, args=("slow_to_import",))
    thread.start()
    sys.modules["in_the_middle"].wait()
    waited = []

    def asleep(seconds):
        waited.append(seconds)
        sys.modules["go_on"].set()
        thread.join()

    monkeypatch.setattr(registry, "time", types.SimpleNamespace(sleep=asleep, monotonic=lambda: 0.0))
    child = os.fork()
    if not child:

        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0 and waited and not registry._importing


def test_a_method_is_published_when_it_is_first_read():
    program = """
import sys, jitgrad
class Louder(jitgrad.Tensor):
    def sort(self, *args):
        print("louder")
        return super().sort(*args)
print("jitgrad.ops.reduction.sort" in sys.modules)
print(Louder([2.0, 1.0]).sort()[0].tolist())
print("jitgrad.ops.reduction.sort" in sys.modules, jitgrad.Tensor.sort is vars(jitgrad.Tensor)["sort"])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:4] == ["False", "louder", "[1.0, 2.0]", "True True"]


@pytest.mark.parametrize(("name", "taken"), [("LayerNorm", "layer_norm"), ("Repeat", "repeat")])
def test_a_name_that_is_published_late_is_taken(name, taken):
    program = f"""
import jitgrad
try:
    class {name}(jitgrad.Elementwise, public=True):
        "Mine."
        def forward(x): return x
except TypeError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert repr(taken) in run.stdout and "taken" in run.stdout
