"""Compares a function with what compile makes of it, call by call: results, state, versions, random numbers."""

import warnings

import numpy as np

import jitgrad as torch
from jitgrad._dynamo import OptimizedModule
from jitgrad.utils._pytree import tree_leaves


def normal(*shape, seed=0, dtype="float32"):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def check(make, calls=6, recordings=1):
    """``make()`` returns (function, arguments(k), state()), alike each time; returns the compiled function.

    recordings: how many of the function are made, 0 if it isn't compiled; None: any number.
    """
    torch.manual_seed(0)
    function, arguments, state = make()
    torch.manual_seed(0)
    other, other_arguments, other_state = make()
    compiled = torch.compile(other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for k in range(calls):
            torch.manual_seed(k)
            expected, drawn = function(*arguments(k)), torch.get_rng_state()
            torch.manual_seed(k)
            found, drawn_compiled = compiled(*other_arguments(k)), torch.get_rng_state()
            same(found, expected, k)
            same(other_state(), state(), k)
            assert (drawn == drawn_compiled).all()
    compiled = compiled.forward if isinstance(compiled, OptimizedModule) else compiled
    if recordings is not None:
        assert len(compiled._variants) == recordings, compiled._failures
    return compiled


def same(found, expected, k):
    found, expected = tree_leaves(found), tree_leaves(expected)
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        if not isinstance(e, torch.Tensor):
            assert f == e, k
            continue
        assert (f.shape, f.dtype, f.requires_grad, f._version) == (e.shape, e.dtype, e.requires_grad, e._version), k
        assert (f.grad_fn is None) == (e.grad_fn is None) and f.stride() == e.stride(), k
        np.testing.assert_allclose(f.numpy(force=True), e.numpy(force=True), rtol=1e-5, atol=1e-6, err_msg=f"call {k}")


def parts(compiled):
    """The parts of a function that have recordings, with their lines."""
    if compiled._parts is None:
        return []
    found = []
    for part in compiled._parts.parts:
        found += [part] if part._variants else parts(part)
    return found


def launches(compiled):
    """The numbers of launches that the parts' programs were made of, in the order of the parts."""
    return [part.explain().recordings[0].recorded for part in parts(compiled)]


# -- functions that are compiled in parts -----------------------------------------------------------------


def whole(function):
    return function


def behind_a_cut(function):
    def run(x):
        x = x * 1
        if x.sum() > -1e9:  # a number of a tensor that decides: what is before and behind is compiled
            x = x + 0
        return function(x) + 0

    return run


def before_a_cut(function):
    def run(x):
        y = function(x)
        if y.sum() > -1e9:
            y = y + 0
        return y * 1

    return run


def in_a_cut_loop(function):
    def run(x):
        y = x * 0
        for _ in range(2):
            y = y + function(x)
            if y.sum() > 1e9:
                break
        return y

    return run


CUTS = (whole, behind_a_cut, before_a_cut, in_a_cut_loop)


def check_noticed(function, change, cut):
    """The function, compiled, returns what it does, before and after a change of what it reads."""
    function, x = cut(function), torch.tensor([1.0, 2.0])
    before, compiled = function(x).tolist(), torch.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for _ in range(3):
            assert compiled(x).tolist() == before
        change()
        wanted = function(x).tolist()
        assert wanted != before
        for _ in range(3):
            assert compiled(x).tolist() == wanted
