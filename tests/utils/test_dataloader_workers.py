"""DataLoader's options for worker processes, which it does not start."""

import warnings

import pytest

import jitgrad
from jitgrad.utils.data import DataLoader


def test_workers_that_are_not_started_are_warned_of():
    with pytest.warns(UserWarning, match=r"num_workers=2 starts no worker process") as caught:
        loader = DataLoader(jitgrad.arange(4), batch_size=2, num_workers=2, prefetch_factor=3, persistent_workers=True)
    assert caught[0].filename == __file__
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]] and loader.num_workers == 2


def test_no_workers_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DataLoader(jitgrad.arange(4), num_workers=0, pin_memory=True)


@pytest.mark.parametrize(("options", "message"), [
    ({"num_workers": -1}, "num_workers option should be non-negative; use num_workers=0"),
    ({"timeout": -1}, "timeout option should be non-negative"),
    ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0"),
    ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
])  # fmt: skip
def test_options_that_need_workers(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(jitgrad.arange(4), **options)
