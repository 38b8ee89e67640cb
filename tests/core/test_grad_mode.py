"""no_grad, enable_grad and set_grad_enabled: blocks, decorators, generators, threads."""

import threading

import pytest

import jitgrad

MODES = [(jitgrad.no_grad, False), (jitgrad.enable_grad, True)]


@pytest.mark.parametrize("mode,on", MODES)
def test_blocks_and_decorators(mode, on):
    with jitgrad.set_grad_enabled(not on):
        with mode():
            assert jitgrad.is_grad_enabled() is on
        assert mode(jitgrad.is_grad_enabled)() is on
        assert mode()(jitgrad.is_grad_enabled)() is on
        assert jitgrad.is_grad_enabled() is not on


def test_a_flag_takes_effect_at_once_unless_it_decorates():
    jitgrad.set_grad_enabled(False)
    assert not jitgrad.is_grad_enabled()
    jitgrad.set_grad_enabled(True)
    function = jitgrad.set_grad_enabled(False)(jitgrad.is_grad_enabled)
    assert jitgrad.is_grad_enabled() and not function() and jitgrad.is_grad_enabled()
    with pytest.raises(TypeError, match="must be bool, not str"):
        jitgrad.set_grad_enabled("off")


def test_generators_run_in_the_mode_and_their_callers_do_not():
    said = []

    @jitgrad.no_grad()
    def generate():
        try:
            said.append((yield jitgrad.is_grad_enabled()))
            yield jitgrad.is_grad_enabled()
        except ValueError:
            said.append(jitgrad.is_grad_enabled())
        try:
            yield "last"
        finally:
            said.append(jitgrad.is_grad_enabled())

    generator = generate()
    assert [next(generator), generator.send("sent")] == [False, False] and jitgrad.is_grad_enabled()
    assert generator.throw(ValueError()) == "last" and jitgrad.is_grad_enabled()
    generator.close()
    assert said == ["sent", False, False] and jitgrad.is_grad_enabled()


def test_classes_are_decorated_with_a_warning():
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @jitgrad.no_grad()
        class Thing:
            def __init__(self):
                self.on = jitgrad.is_grad_enabled()

    assert Thing().on is False


def test_an_error_restores_the_mode():
    with pytest.raises(KeyError), jitgrad.no_grad():
        raise KeyError
    assert jitgrad.is_grad_enabled()


def test_modes_are_per_thread():
    said = []
    with jitgrad.no_grad():
        thread = threading.Thread(target=lambda: said.append(jitgrad.is_grad_enabled()))
        thread.start()
        thread.join()
    assert said == [True]
