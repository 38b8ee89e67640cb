"""jitgrad.utils: tensorboard, weak, dlpack, and what is refused."""

import copy
import gc
import sys
import types

import numpy as np
import pytest

import jitgrad
from jitgrad.utils import dlpack, tensorboard, weak


class Writer:
    """What the tests need of tensorboardX's SummaryWriter: it keeps what it is given."""

    def __init__(self, logdir=None, comment="", **options):
        self.logdir, self.seen = logdir or f"runs{comment}", []

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None):
        self.seen.append((tag, scalar_value, global_step))

    def add_scalars(self, tag, values, global_step=None):
        self.seen.append((tag, values, global_step))

    def add_hparams(self, hparam_dict, metric_dict, name=None, global_step=None):
        self.seen.append((hparam_dict, metric_dict, name, global_step))

    def add_graph(self, model, input_to_model=None):
        raise AssertionError


@pytest.fixture
def writer(monkeypatch):
    tensorboard._summary_writer.cache_clear()
    monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=Writer, FileWriter=object))
    yield tensorboard.SummaryWriter("here", comment="x")
    tensorboard._summary_writer.cache_clear()


def test_tensors_are_written_as_numbers_and_arrays(writer):
    writer.add_scalar("loss", jitgrad.tensor(2.0, requires_grad=True), 3, double_precision=True)
    writer.add_scalar("array", scalar_value=jitgrad.ones(2, dtype=jitgrad.bfloat16))
    writer.add_scalars("both", {"a": jitgrad.tensor(1), "b": [jitgrad.tensor(2)]})
    writer.add_hparams({"n": jitgrad.tensor(3)}, {"m": 0.5}, {"n": [3]}, "run", 7)
    (tag, loss, step), (_, array, _), scalars, hparams = writer.seen
    assert (tag, loss, step) == ("loss", 2.0, 3) and type(loss) is float
    assert isinstance(array, np.ndarray) and array.tolist() == [1, 1]
    assert scalars == ("both", {"a": 1, "b": [2]}, None) and hparams == ({"n": 3}, {"m": 0.5}, "run", 7)
    assert writer.log_dir == writer.get_logdir() == "here" and isinstance(writer, Writer)
    with pytest.warns(UserWarning, match="add_graph.. writes nothing") as caught:
        writer.add_graph(None)
    assert caught[0].filename == __file__


def test_without_tensorboardx(monkeypatch):
    tensorboard._summary_writer.cache_clear()
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match="pip install tensorboardX"):
        from jitgrad.utils.tensorboard import SummaryWriter  # noqa: F401
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        tensorboard.Other


def test_dictionaries_of_tensors():
    x, y = jitgrad.ones(2), jitgrad.ones(2)
    table = weak.WeakTensorKeyDictionary({x: 1})
    table[y] = 2
    assert (table[x], table[y], len(table)) == (1, 2, 2)
    assert x in table and jitgrad.ones(2) not in table and 3 not in table
    assert [k is t for k, t in zip(table, (x, y), strict=True)] == [True, True] and len(table.keyrefs()) == 2
    other = copy.copy(table)
    assert other == table and (table | {x: 5})[x] == 5 and table.pop(x) == 1 and other != table
    with pytest.raises(KeyError):
        table[x]
    del y
    gc.collect()
    assert len(table) == 0 and len(other) == 1 and list(other.items())[0][0] is x


def test_references_to_tensors():
    x = jitgrad.ones(2)
    first, second = weak.WeakIdRef(x), weak.WeakIdRef(x)
    assert first == second and hash(first) == hash(second) and first() is x
    reference = weak.TensorWeakRef(x)
    assert reference() is x
    del x
    gc.collect()
    assert reference() is None and first != second and first == first
    with pytest.raises(AssertionError, match="expected torch.Tensor, got <class 'int'>"):
        weak.TensorWeakRef(3)


def test_dlpack():
    x = jitgrad.arange(3)
    y = dlpack.from_dlpack(x)
    y[0] = 5
    assert x[0].item() == 5 and "dltensor" in repr(dlpack.to_dlpack(x))


def test_what_is_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'collect_env'"):
        jitgrad.utils.collect_env
