"""``jitgrad.jit`` leaves functions as they are; futures."""

import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad._jit_internal import boolean_dispatch


def test_decorators_give_functions_back():
    def function(x):
        return x

    layer = nn.Linear(1, 1)
    for mark in (torch.jit.script, torch.jit.export, torch.jit.unused, torch.jit.ignore, torch.jit.interface,
                 torch.jit.script_method, torch.jit.script_if_tracing, torch.jit._overload):  # fmt: skip
        assert mark(function) is function
    assert torch.jit.ignore(drop=True)(function) is function
    assert torch.jit.script(layer) is layer and torch.jit.trace(layer, torch.ones(1)) is layer
    assert not torch.jit.is_scripting() and not torch.jit.is_tracing()
    assert torch.jit.annotate(list[int], [1]) == [1] and torch.jit.Attribute(3, int).value == 3


def test_a_traced_function_is_called_once():
    seen = []
    torch.jit.trace(lambda x, y: seen.append((x, y)), (1, 2))
    torch.jit.trace(nn.Identity(), torch.ones(1))
    assert seen == [(1, 2)]
    with pytest.raises(NotImplementedError):
        torch.jit.trace(nn.Module(), torch.ones(1))


def test_modules():
    class Script(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.size = torch.jit.Attribute(3, int)
            self.inner = torch.jit.script(nn.Linear(2, 2))

        @torch.jit.script_method
        def forward(self, x):
            return self.inner(x) * self.size

    module = Script()
    assert module.size == 3 and module(torch.ones(2)).shape == (2,) and isinstance(module, nn.Module)
    with pytest.raises(RuntimeError, match="eval mode"):
        torch.jit.freeze(module)
    assert torch.jit.freeze(module.eval()) is module and torch.jit.optimize_for_inference(module) is module
    assert not isinstance(module, torch.jit.RecursiveScriptModule)


def test_what_needs_a_program_is_refused(tmp_path):
    with pytest.raises(NotImplementedError, match="state_dict"):
        torch.jit.save(nn.Linear(1, 1), tmp_path / "m.pt")
    with pytest.raises(NotImplementedError, match="state_dict"):
        torch.jit.load(tmp_path / "m.pt")
    with pytest.raises(NotImplementedError, match=r"torch\.jit\.CompilationUnit is not in jitgrad"):
        torch.jit.CompilationUnit("")
    with pytest.raises(AttributeError):
        torch.jit.no_such_name
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "value, kind, fits",
    [([1, 2], list[int], True), ([1, "a"], list[int], False), ({"a": 1}, dict[str, int], True),
     (None, int | None, True), ((1, "a"), tuple[int, str], True), ((1,), tuple[int, str], False),
     (3, float, False), (3, (str, int), True)],
)  # fmt: skip
def test_isinstance(value, kind, fits):
    assert torch.jit.isinstance(value, kind) is fits


def test_fork_and_futures():
    assert torch.jit.wait(torch.jit.fork(lambda a, b: a + b, 1, b=2)) == 3
    with pytest.raises(ZeroDivisionError):
        torch.jit.fork(lambda: 1 / 0).wait()
    first, second, seen = torch.futures.Future(), torch.futures.Future(), []
    following = first.then(lambda done: done.wait() + 1)
    first.add_done_callback(seen.append)
    both = torch.futures.collect_all([first, second])
    assert not first.done() and not both.done()
    first.set_result(1)
    second.set_result(2)
    assert following.wait() == 2 and seen == [first] and torch.futures.wait_all(both.wait()) == [1, 2]
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        first.set_result(3)


def test_boolean_dispatch():
    chosen = boolean_dispatch("flag", 1, False, lambda x, flag: "yes", lambda x, flag=False: "no", "m", "chosen")
    assert chosen(1) == "no" and chosen(1, True) == "yes" and chosen(1, flag=True) == "yes"
    assert chosen.__name__ == "chosen"
