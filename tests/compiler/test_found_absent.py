"""What a function finds absent, by an exception or a test: that it is there now is noticed by the next call."""

from types import ModuleType, SimpleNamespace

import pytest

import jitgrad as torch
from tests.compiler.alike import CUTS, check_noticed

CASES = []


def case(make):
    """``make()`` returns a function of a tensor, and what puts there what that has not found."""
    CASES.append(make)
    return make


class Plain:
    pass


class WithGetattr:
    def __getattr__(self, name):
        return 2.0


@case
def key_that_is_tried():
    settings = {}

    def function(x):
        try:
            return x * settings["scale"]
        except KeyError:
            return x

    return function, lambda: settings.update(scale=3.0)


@case
def index_that_is_tried():
    numbers = []

    def function(x):
        try:
            return x * numbers[0]
        except IndexError:
            return x

    return function, lambda: numbers.append(3.0)


@case
def attribute_that_is_tried():
    settings = SimpleNamespace()

    def function(x):
        try:
            return x * settings.scale
        except AttributeError:
            return x

    return function, lambda: setattr(settings, "scale", 3.0)


@case
def attribute_of_a_module_that_is_tried():
    module = ModuleType("settings")

    def function(x):
        try:
            return x * module.scale
        except AttributeError:
            return x

    return function, lambda: setattr(module, "scale", 3.0)


@case
def global_that_is_tried():
    globals().pop("later", None)

    def function(x):
        try:
            return x * later
        except NameError:
            return x

    return function, lambda: globals().update(later=3.0)


@case
def built_in_that_a_global_hides():
    globals().pop("abs", None)
    return lambda x: x * abs(2.0), lambda: globals().update(abs=lambda value: 3.0)


@case
def missing_item_of_a_dictionary():
    class Defaults(dict):
        scale = 2.0

        def __missing__(self, key):
            return self.scale

    settings = Defaults()
    return lambda x: x * settings["scale"], lambda: setattr(settings, "scale", 3.0)


@case
def attribute_that_the_class_gets():
    class Settings(Plain):
        pass

    settings = Settings()
    return lambda x: x * getattr(settings, "scale", 2.0), lambda: setattr(Settings, "scale", 3.0)


@case
def attribute_that_a_base_class_gets():
    class Base:
        pass

    class Settings(Base):
        pass

    settings = Settings()
    return lambda x: x * (3.0 if hasattr(settings, "scale") else 2.0), lambda: setattr(Base, "scale", 3.0)


@case
def attribute_of_a_class():
    class Settings:
        pass

    return lambda x: x * getattr(Settings, "scale", 2.0), lambda: setattr(Settings, "scale", 3.0)


@case
def slot_without_a_value():
    class Settings:
        __slots__ = ("scale",)

    settings = Settings()
    return lambda x: x * getattr(settings, "scale", 2.0), lambda: setattr(settings, "scale", 3.0)


@case
def attribute_that_getattr_gives():
    class Settings(WithGetattr):
        pass

    settings = Settings()
    return lambda x: x * settings.scale, lambda: setattr(Settings, "scale", 3.0)


@case
def parameter_that_the_class_hides():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(2.0))

    model = Model()
    return lambda x: x * model.scale, lambda: setattr(Model, "scale", 3.0)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_what_is_there_now_is_noticed(make, cut):
    check_noticed(*make(), cut)
    globals().pop("abs", None)


def test_what_is_not_there_does_not_keep_a_function_from_being_compiled():
    settings = Plain()
    compiled = torch.compile(lambda x: x * getattr(settings, "scale", 2.0) + abs(1.0), fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
    assert len(compiled._variants) == 1
