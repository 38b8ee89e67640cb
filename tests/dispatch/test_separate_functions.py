"""Methods, functions and their aliases are objects of their own, as in PyTorch: keys of libraries' tables."""

import inspect
import pickle
import subprocess
import sys

import jitgrad as torch
from jitgrad.dispatch.op_calls import add_observer, op_function, original, remove_observer

NOTED_AT_IMPORT = """
import jitgrad as torch

T = torch.Tensor
methods = {name: getattr(T, name) for name in ("sub", "add_", "__rsub__", "matmul", "swapaxes", "dim", "ger")}
getters = {name: vars(T)[name].__get__ for name in ("shape", "grad", "real")}
assert T.sub is not torch.sub and T.swapaxes is not T.transpose and torch.ger is not torch.outer is not T.outer
torch.ones(2).swapaxes(0, 0)  # of which the text is made now, for the method, its alias and the function
assert T.swapdims.__code__ is T.swapaxes.__code__ is torch.transpose.__code__ is not methods["sub"].__code__

calls = []

class Other:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append(func)
        return 1

x, other = torch.ones(2), Other()
x - other, torch.sub(x, other), x.sub(other), x @ other, x.swapaxes(other, 0), x.ger(other), x.add_(other)
assert calls == [T.sub, torch.sub, T.sub, T.matmul, T.swapaxes, T.ger, T.add_], calls
assert all(vars(T)[name] is f for name, f in methods.items())
assert all(vars(T)[name].__get__ == get for name, get in getters.items())

class Asks(T):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})

calls.clear()
shape = torch.ones(3).as_subclass(Asks).shape
assert getters["shape"] in calls and tuple(shape) == (3,), calls
"""


def test_they_stay_the_same_objects_when_somebody_overrides_them():
    run = subprocess.run([sys.executable, "-c", NOTED_AT_IMPORT], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_all_methods_are_named_as_they_are_found():
    functions = {name: f for name, f in vars(torch.Tensor).items() if inspect.isfunction(f)}
    assert {name for name, f in functions.items() if f.__name__ != name} <= {"__new__", "__repr__"}
    public = {id(f) for f in vars(torch).values()}
    assert not [name for name, f in functions.items() if id(f) in public]
    assert len(set(map(id, functions.values()))) == len(functions)


def test_they_are_pickled_and_have_the_signature_of_what_they_are_separate_from():
    for function in (torch.Tensor.sub, torch.Tensor.tanh, torch.Tensor.__add__, torch.absolute, torch.special.expit):
        assert pickle.loads(pickle.dumps(function)) is function
    assert original(torch.Tensor.sub) is torch.sub and original(torch.sub) is torch.sub
    assert inspect.signature(torch.Tensor.sub) == inspect.signature(torch.sub)
    assert torch.Tensor.sub.__doc__ == torch.sub.__doc__ and torch.Tensor.sub.__qualname__ == "Tensor.sub"


def test_observers_see_their_calls_by_the_name_of_the_op():
    names = []

    def note(op, call, args, kwargs):
        names.append(op.name)
        return call(*args, **kwargs)

    x = torch.ones(2)
    add_observer(note)
    try:
        x.absolute(), x.tanh(), torch.arctan(x)
    finally:
        remove_observer(note)
    assert names == ["abs", "tanh", "atan"] and op_function(torch.Tensor.tanh) is not op_function(torch.tanh)
