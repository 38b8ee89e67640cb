"""Imports inside of functions: what they find is guarded like what other statements read."""

import sys
import types
import warnings

import pytest

import jitgrad as torch
from tests.compiler.alike import CUTS, check_noticed


def _module(name, **values):
    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module
    return module


@pytest.fixture(autouse=True)
def modules(monkeypatch):
    for name in ("jg_settings", "jg_settings.inner"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    outer = _module("jg_settings", scale=2.0)
    outer.inner = _module("jg_settings.inner", scale=2.0)
    yield
    for name in ("jg_settings", "jg_settings.inner"):
        sys.modules.pop(name, None)


def _from(x):
    from jg_settings import scale

    return x * scale


def _from_as(x):
    from jg_settings import inner
    from jg_settings import scale as factor

    return x * factor * inner.scale


def _whole(x):
    import jg_settings

    return x * jg_settings.scale


def _inner(x):
    import jg_settings.inner

    return x * jg_settings.inner.scale


def _inner_as(x):
    import jg_settings.inner as settings

    return x * settings.scale


def _set(module):
    sys.modules[module].scale = 3.0


def _exchange(module):
    before = vars(sys.modules[module])
    _module(module, **{k: v for k, v in before.items() if not k.startswith("__")}).scale = 3.0
    if module == "jg_settings.inner":
        sys.modules["jg_settings"].inner = sys.modules[module]


@pytest.mark.parametrize("change", [_set, _exchange])
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
@pytest.mark.parametrize("function", [_from, _from_as, _whole, _inner, _inner_as])
def test_what_is_imported_is_noticed(function, cut, change):
    module = "jg_settings.inner" if function in (_inner, _inner_as) else "jg_settings"
    check_noticed(function, lambda: change(module), cut)


def test_what_cannot_be_imported():
    def names(x):
        try:
            from jg_settings import missing
        except ImportError as error:
            missing = 2.0
            assert "missing" in str(error)
        return x * missing

    def modules(x):
        try:
            import jg_later as settings
        except ImportError:
            return x * 2
        return x * settings.scale

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        check_noticed(names, lambda: setattr(sys.modules["jg_settings"], "missing", 3.0), CUTS[0])
        check_noticed(modules, lambda: _module("jg_later", scale=3.0), CUTS[0])
    del sys.modules["jg_later"]


def test_imports_of_jitgrad_and_of_python_do_not_keep_a_function_from_being_compiled():
    def function(x):
        import math

        from jitgrad import nn
        from jitgrad.nn import functional as F

        return F.relu(x) * math.pi + isinstance(x, nn.Module)

    compiled = torch.compile(function, fullgraph=True)
    for k in range(4):
        x = torch.full((2,), float(k))
        assert compiled(x).tolist() == function(x).tolist()
    assert len(compiled._variants) == 1
