"""Functions are pickled by the name under which users find them, as a model that holds one as its activation is."""

import pickle
from types import FunctionType

import jitgrad
from jitgrad.dispatch.registry import FUNCTIONS
from jitgrad.nn import functional

PUBLIC = {f"jitgrad.{name}": function for name, function in FUNCTIONS.items() if isinstance(function, FunctionType)}
PUBLIC |= {f"functional.{name}": getattr(functional, name) for name in functional.__all__}


def test_public_functions_are_pickled():
    for name, function in PUBLIC.items():
        assert pickle.loads(pickle.dumps(function)) is function, name


def test_functions_say_where_users_find_them():
    assert (jitgrad.relu.__module__, jitgrad.absolute.__name__) == ("jitgrad", "absolute")
    assert (functional.linear.__module__, functional.linear.__qualname__) == ("jitgrad.nn.functional", "linear")
