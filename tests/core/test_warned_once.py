"""What PyTorch warns of once in a process, unless it is told to repeat it."""

import warnings

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.core import user_frame

READ_ONLY = np.ones(2)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.tensor([1j]).to(torch.float32), lambda: torch.from_numpy(READ_ONLY),
        lambda: torch.ones(2, 2, 2).T, lambda: float(torch.ones(1, requires_grad=True)),
        lambda: torch.meshgrid(torch.ones(1), torch.ones(2)), lambda: torch.qr(torch.eye(2)),
        lambda: torch.cross(torch.ones(2, 3), torch.ones(2, 3)), lambda: torch.add(torch.ones(2), 2, torch.ones(2)),
    ],
)  # fmt: skip
def test_once_or_always(call, monkeypatch):
    monkeypatch.setattr(user_frame, "_said", set())
    counts = []
    for always in (False, True):
        torch.set_warn_always(always)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(), call(), call()
        counts.append(len(caught))
    assert counts == [1, 3]
    assert {w.filename for w in caught} == {__file__}
