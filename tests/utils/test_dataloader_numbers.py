"""Numbers of samples that workers of a DataLoader are sent, where a pipe has no room for them."""

import multiprocessing
import os

import pytest

from jitgrad.utils.data import DataLoader

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="these data sets are local: workers are forked")
FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None


class Calls:
    """``function(k)`` for each k."""

    def __init__(self, function):
        self.function = function

    def __getitem__(self, k):
        return self.function(k)


def loader(function, batches, **options):
    options = {"num_workers": 2, "multiprocessing_context": FORK, "timeout": 60} | options
    return DataLoader(Calls(function), batch_sampler=many_numbers(batches), **options)


def many_numbers(batches):
    """Batches whose numbers have no room in a pipe."""
    return [[k] * 100_000 for k in range(batches)]


def test_batches_of_more_numbers_than_a_pipe_holds():
    given = loader(lambda k: k, 8, collate_fn=lambda b: (b[0], len(b)), persistent_workers=True)
    assert next(iter(given)) == (0, 100_000)  # the rest of this pass is dropped
    assert list(given) == [(k, 100_000) for k in range(8)]


def test_timeout_of_a_worker_that_does_not_read_its_numbers():
    asleep = FORK.Event()
    batches = iter(loader(lambda k: asleep.wait(), 6, timeout=0.01))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.01 seconds"):
        next(batches)
    asleep.set()
    workers = batches._workers
    batches._shutdown_workers()
    assert all(w.exitcode is not None for w in workers)
