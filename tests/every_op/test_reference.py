"""Every structured op on its samples against the NumPy function that its declaration names."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.dispatch.elementwise import ElementwiseOp
from jitgrad.dispatch.registry import OPS
from jitgrad.testing import op_samples

STRUCTURED = {name: op for name, op in OPS.items() if not isinstance(op, ElementwiseOp)}
COMPARED = sorted(name for name, op in STRUCTURED.items() if op.reference is not None)


def as_numpy(value):
    if isinstance(value, torch.Tensor):
        return value.numpy(force=True)
    if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
        return [as_numpy(v) for v in value]
    return value


@pytest.mark.parametrize("name", COMPARED)
def test_equals_its_reference(name):
    for function, args, kwargs in op_samples(name):
        found = function(*args, **kwargs)
        expected = STRUCTURED[name].reference(*map(as_numpy, args), **kwargs)
        if not isinstance(found, (tuple, list)):
            found, expected = [found], [expected]
        for f, e in zip(found, expected, strict=True):
            assert tuple(f.shape) == np.shape(e)
            np.testing.assert_allclose(f.numpy(force=True), e, rtol=1e-10, atol=1e-12)


# What computes values and has no reference nevertheless: why.
WITHOUT_REFERENCE = {
    "row": "a view that counts as none",
    "strided_copy": "a copy of layout within the engine",
    "copy_slice": "calls the function of a recorded write",
    "random_slopes": "a random draw",
    **dict.fromkeys(
        ["_cdist_forward", "_linalg_eigvals", "_linalg_matrix_exp", "_linalg_svd", "_pdist_forward"],
        "what users call is compared with NumPy and SciPy: tests/ops/linalg",
    ),
    **dict.fromkeys(
        ["_gru_layer", "_lstm_layer", "_rnn_layer"], "tests/nn/test_recurrent.py compares them with steps one by one"
    ),
    "_fft_inner_times": "a weight of gradients: tests/ops/fft compares these",
    "_quantile_ranks": "places for quantile, which tests/ops/reduction compares",
}


def test_only_views_and_random_draws_lack_a_reference():
    lacking = {n for n, op in STRUCTURED.items() if op.reference is None and not op.is_view}
    lacking -= {n for n, op in STRUCTURED.items() if op.__module__.startswith("jitgrad.ops.random")}
    assert lacking == set(WITHOUT_REFERENCE)
