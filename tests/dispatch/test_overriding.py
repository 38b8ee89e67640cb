"""``__torch_function__``: subclasses of Tensor, other classes that take over ops, modes."""

import copy
import pickle
import subprocess
import sys
import threading

import pytest

import jitgrad as torch
from jitgrad.overrides import (
    BaseTorchFunctionMode,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    is_tensor_like,
    is_tensor_method_or_property,
    resolve_name,
    wrap_torch_function,
)


class Plain(torch.Tensor):
    pass


class Inner(Plain):
    pass


class Unrelated(torch.Tensor):
    pass


class Told(torch.Tensor):
    """Notes what it is told and goes on."""

    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs)


class Number:
    """No tensor, but it takes over ops."""

    def __init__(self, n):
        self.n = n

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.matmul, torch.Tensor.__matmul__, torch.Tensor.matmul):
            return NotImplemented
        return func.__name__, len(types), len(args), kwargs


class Mode(TorchFunctionMode):
    def __init__(self):
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def test_results_are_of_the_class():
    x = Plain([1.0, 2.0, 3.0]).requires_grad_()
    out = (x * 2).softmax(0)
    values, indices = x.max(0)
    found = [x, out, x[0], x.data, x.detach(), torch.stack([x, x]), values, indices]
    for y in (*found, next(iter(x)), torch.ones(3) + x):
        assert type(y) is Plain
    assert type(x.max(0)).__name__ == "max" and x.shape == (3,) and isinstance(x.sum().item(), float)
    out.sum().backward()
    assert type(x.grad) is torch.Tensor
    y = x.detach().clone()
    y += 1
    assert type(y) is Plain and type(torch.nn.functional.relu(y)) is Plain
    z = torch.ones(3)
    assert type(z.add_(y)) is Plain and type(z) is torch.Tensor


def test_a_subclass_goes_before_its_base_and_strangers_refuse():
    one = torch.ones(1)
    assert type(one.as_subclass(Plain) + one.as_subclass(Inner)) is Inner
    with pytest.raises(TypeError, match="unsupported operand"):
        one.as_subclass(Plain) + one.as_subclass(Unrelated)
    with pytest.raises(TypeError, match="no implementation found for 'torch.add'"):
        torch.add(one.as_subclass(Plain), one.as_subclass(Unrelated))


def test_what_is_told():
    x = Told([1.0, 2.0])
    Told.calls.clear()
    x + 1, 1 - x, torch.add(x, 1), x.add_(1), x @ x, -x, x.shape, x[0], torch.nn.functional.relu(x)
    T = torch.Tensor
    told = [T.add, T.__rsub__, torch.add, T.add_, T.matmul, T.neg, T.shape.__get__, T.__getitem__]
    assert Told.calls[:-1] == told and Told.calls[-1] is torch.nn.functional.relu
    Told.calls.clear()
    x.requires_grad = True
    assert Told.calls == [T.requires_grad.__set__]
    weight = x * 2
    Told.calls.clear()
    weight.sum().backward()
    assert [f.__name__ for f in Told.calls] == ["sum", "backward"]  # no rule of the graph asks


def test_methods_in_place_are_told_by_themselves():
    x = Told([1.0, 2.0])
    Told.calls.clear()
    x.abs_(), x.relu_(), x.exp_(), x.detach_(), torch.exp_(x)
    T = torch.Tensor
    assert Told.calls == [T.abs_, T.relu_, T.exp_, T.detach_, torch.exp_] and T.exp_ is not torch.exp_


def test_objects_that_are_no_tensors():
    n, x = Number(3), torch.ones(2)
    assert torch.mul(x, n) == ("mul", 1, 2, {}) and x + n == ("add", 1, 2, {})
    assert torch.mean(n, dim=0) == ("mean", 1, 1, {"dim": 0}) and torch.cat([x, n])[0] == "cat"
    assert torch.nn.functional.linear(x, n)[0] == "linear" and torch.einsum("i,i", n, n)[0] == "einsum"
    with pytest.raises(TypeError, match="no implementation found for 'torch.matmul'"):
        torch.matmul(x, n)
    with pytest.raises(TypeError, match="unsupported operand"):
        x @ n
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        torch.mean("text")


def test_errors_of_a_handler_reach_the_caller():
    class Fails:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise TypeError("of the handler")

    for call in (lambda f: torch.sum(f), lambda f: torch.add(torch.ones(1), f), lambda f: torch.stack([f])):
        with pytest.raises(TypeError, match="of the handler"):
            call(Fails())


def test_handlers_that_are_plain_methods_are_warned_of():
    class Old:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 7

    with pytest.warns(UserWarning, match="as a plain method is deprecated"):
        assert torch.abs(Old()) == 7


def test_functions_of_a_program():
    def double(x):
        if has_torch_function_unary(x):
            return handle_torch_function(double, (x,), x)
        return 2 * x

    @wrap_torch_function(lambda x: (x,))
    def half(x):
        return x / 2

    assert type(double(Plain([1.0]))) is Plain and double(Number(1))[0] == "double" and half(Number(1))[0] == "half"
    assert has_torch_function((Number(1), 2)) and not has_torch_function((torch.ones(1), 2))
    with pytest.raises(TypeError, match="expected a sequence"):
        has_torch_function(1)
    with DisableTorchFunctionSubclass():
        assert not has_torch_function((Number(1),)) and type(Plain([1.0]) + 1) is torch.Tensor


def test_modes():
    with Mode() as outer:
        x = torch.zeros(2)
        with Mode() as inner:
            x + 1
        x.shape
    x + 1
    assert outer.calls == ["zeros", "add", "__get__"] and inner.calls == ["add"]
    with Mode() as mode, torch.overrides.DisableTorchFunctionSubclass(), BaseTorchFunctionMode():
        x * Plain([1.0, 2.0])
    assert mode.calls.count("mul") == 1
    with Mode() as mode, torch.overrides.DisableTorchFunction():
        x * 2
    assert mode.calls == []


def test_a_mode_belongs_to_its_thread():
    found = []
    with Mode() as mode:
        thread = threading.Thread(target=lambda: found.append(torch.ones(2) + 1))
        thread.start()
        thread.join()
    assert mode.calls == [] and found[0].tolist() == [2, 2]


def test_a_mode_as_classmethod_is_refused():
    class Wrong(TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with pytest.raises(RuntimeError, match="classmethod is not supported"), Wrong():
        torch.ones(1) + 1
    assert (torch.ones(1) + 1).item() == 2


def test_subclasses_are_called_as_tensors_are():
    class Mine(torch.Tensor):
        pass

    for kind in (torch.Tensor, Mine):
        assert [type(x) is kind for x in (kind(), kind(2, 3), kind([1, 2]))] == [True] * 3
        assert [tuple(x.shape) for x in (kind(), kind(2, 3), kind(size=(2, 3)), kind(data=[1, 2]))] == [
            (0,), (2, 3), (2, 3), (2,)
        ]  # fmt: skip
        for wrong in (lambda: kind(foo=3), lambda: kind([1, 2], 3), lambda: kind([1.0], requires_grad=True)):
            with pytest.raises(TypeError, match=r"new\(\) received an invalid combination of arguments"):
                wrong()
        with pytest.raises(TypeError, match=r"new\(\): data must be a sequence \(got NoneType\)"):
            kind(None)
        with pytest.raises(RuntimeError, match=r"Trying to create tensor with negative dimension -1: \[-1\]"):
            kind(-1)


def test_how_subclasses_are_made():
    x = torch.ones(2, requires_grad=True)
    view = x.as_subclass(Plain)
    (view * 3).sum().backward()
    assert x.grad.tolist() == [3, 3] and view._base is x
    leaf = torch.Tensor._make_subclass(Plain, torch.ones(2), True)
    assert type(leaf) is Plain and leaf.is_leaf and leaf.requires_grad
    with pytest.raises(RuntimeError, match="does not inherit from Tensor"):
        x.as_subclass(int)
    with pytest.raises(TypeError, match="cls must be a type"):
        x.as_subclass(3)
    with pytest.raises(NotImplementedError, match="_make_subclass"):
        torch.Tensor._make_wrapper_subclass(Plain, (2,))


def test_printing_pickling_copying():
    x = Plain([1.0, 2.0])
    x.scale, x._zero = 3, [1]
    assert repr(x) == "Plain([1., 2.])" and repr(x * 2) == "Plain([2., 4.])"
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(y) is Plain and y.tolist() == [1, 2] and (y.scale, y._zero) == (3, [1]) and y._zero is not x._zero


def test_parameters():
    parameter = torch.nn.Parameter(Plain([1.0]))
    assert type(parameter) is Plain and isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad
    assert repr(parameter) == "Parameter(Plain([1.], requires_grad=True))"
    assert not isinstance(Plain([1.0]), torch.nn.Parameter)
    layer = torch.nn.Linear(1, 1)
    layer.weight = torch.nn.Parameter(Plain([[1.0]]))
    assert [type(p) for p in layer.parameters()] == [Plain, torch.nn.Parameter]
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.5)
    layer(torch.ones(1)).sum().backward()
    optimiser.step()
    assert layer.weight.item() == 0.5 and type(layer.weight) is Plain

    class Named(torch.nn.Parameter):
        pass

    named = Named(torch.ones(2))
    named.label = "a"
    assert type(named + 1) is torch.Tensor and repr(named).startswith("Parameter containing:\nNamed(")
    assert copy.deepcopy(named).shape == (2,)
    buffer = torch.nn.Buffer(Plain([1.0]))
    assert type(buffer) is Plain and isinstance(buffer, torch.nn.Buffer) and not isinstance(buffer, torch.nn.Parameter)


def test_what_can_be_overridden():
    overridable, overrides = get_overridable_functions(), get_testing_overrides()
    assert torch.add in overridable[torch] and torch.Tensor.add in overridable[torch.Tensor]
    assert torch.nn.functional.relu in overridable[torch.nn.functional] and torch.add is not torch.Tensor.add
    assert all(f in overrides for functions in overridable.values() for f in functions)
    assert overrides[torch.add](1, 2) == -1 and not set(overrides) & get_ignored_functions()
    assert resolve_name(torch.add) == "torch.add"
    assert resolve_name(torch.Tensor.shape.__get__) == "torch.Tensor.shape.__get__"
    assert is_tensor_method_or_property(torch.Tensor.add) and not is_tensor_method_or_property(torch.add)
    assert is_tensor_like(Number(1)) and is_tensor_like(torch.ones(1)) and not is_tensor_like(1)


def test_errors_name_arguments_while_ops_ask():
    class Mine(torch.Tensor):
        pass

    torch.ones(1).as_subclass(Mine)
    with pytest.raises(TypeError, match=r"fft_fft\(\): argument 'n' must be int, not float"):
        torch.fft.fft(torch.ones(4), n=1.5)


@pytest.mark.parametrize("call", ["sum(h)", "var(h, 0)", "zeros_like(h)", "cat([h])", "nn.functional.relu(h)"])
def test_the_first_call_of_a_process(call):
    text = f"""if True:
    import jitgrad as torch
    class Handler:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__
    h = Handler()
    print(torch.{call})"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout == call.split("(")[0].removeprefix("nn.functional.") + "\n", done.stderr


def test_functions_that_are_imported_later_ask_too():
    text = """
import jitgrad as torch

class Takes:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__

F = torch.nn.functional
names = ["relu", "dropout", "layer_norm", "batch_norm", "embedding", "one_hot", "binary_cross_entropy"]
print(*[getattr(F, name)(*[Takes()] * (1 + (k > 1))) for k, name in enumerate(names) if name != "batch_norm"])
print(F.batch_norm(Takes(), None, None))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout.split() == [
        "relu", "dropout", "layer_norm", "embedding", "one_hot", "binary_cross_entropy", "batch_norm"
    ], done.stderr  # fmt: skip
