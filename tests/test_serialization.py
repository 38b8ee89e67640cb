"""save, load and deepcopy: shared memory, state dicts, and files that are damaged."""

import copy
import io
import json
import random
import zipfile
from collections import Counter, OrderedDict

import pytest

import jitgrad as torch
from jitgrad import nn


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def again(value):
    return torch.load(io.BytesIO(saved(value)))


@pytest.mark.parametrize("copied", [again, copy.deepcopy])
def test_views_share_their_memory_again(copied):
    x = torch.arange(6.0)
    whole, part, turned, alone = copied([x, x[1:], x.view(2, 3).t(), torch.ones(2)])
    whole[1] = 9
    assert part[0].item() == 9 and turned.tolist() == [[0, 3], [9, 4], [2, 5]] and turned.stride() == (1, 3)
    assert x[1].item() == 1 and alone.tolist() == [1, 1]
    assert not part._is_view()


@pytest.mark.parametrize("copied", [again, copy.deepcopy])
def test_memory_in_other_orders_and_dtypes(copied):
    memory = torch.arange(12, dtype=torch.float32).view(3, 4)
    values = [memory.t(), memory[::2, 1], memory.view(torch.int32), memory[:, 1:3], memory[1, 1], memory[:0]]
    for value, other in zip(values, copied(values), strict=True):
        assert other.dtype is value.dtype and other.tolist() == value.tolist()
    numbers = torch.ones(3, dtype=torch.complex64)
    pairs, real = torch.view_as_real(numbers), numbers.clone()
    first, second, third = copied([numbers, pairs, real])
    second.fill_(2)
    assert first.tolist() == [2 + 2j] * 3 and third.tolist() == [1] * 3


def test_a_part_of_memory_is_saved_alone():
    assert len(saved(torch.zeros(100_000)[:2])) < 2000


@pytest.mark.parametrize("copied", [again, copy.deepcopy, copy.copy])
def test_versions_of_modules_stay_with_a_state_dict(copied):
    state = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)).state_dict()
    other = copied(state)
    assert type(state) is type(other) is OrderedDict
    assert other._metadata == state._metadata and state._metadata["1"] == {"version": 2}


def test_a_hook_before_loading_sees_the_versions():
    net, seen = nn.Linear(1, 1), []
    net.register_load_state_dict_pre_hook(lambda module, state, *_: seen.append(state._metadata))
    net.load_state_dict(net.state_dict())
    assert seen == [{"": {"version": 1}}]


def test_a_schedules_state_is_plain_data():
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 3])
    other = again(schedule.state_dict())
    assert other == schedule.state_dict() and type(other["milestones"]) is Counter
    assert again(bytearray(b"ab")) == bytearray(b"ab")


# -- damaged files ----------------------------------------------------------------------------------


def damaged(blob):
    """The file cut off at 40 places, and with a bit or some bytes changed at 300."""
    numbers = random.Random(0)
    yield from (blob[: numbers.randrange(len(blob))] for _ in range(40))
    for k in range(300):
        other = bytearray(blob)
        for _ in range(1 + k % 3):
            other[numbers.randrange(len(blob))] ^= 1 << numbers.randrange(8)
        yield bytes(other)


def test_damage_is_one_error_that_names_the_file(tmp_path):
    net, x, path = nn.Linear(2, 2), torch.arange(6.0), tmp_path / "broken.pt"
    optimizer = torch.optim.Adam(net.parameters())
    blob, refused = saved({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "x": [x, x[1:]]}), 0
    for content in damaged(blob):
        path.write_bytes(content)
        try:
            torch.load(path)  # damage between the parts of a zip file changes nothing
        except RuntimeError as error:
            assert "broken.pt is damaged, or was not written by jitgrad.save" in str(error)
            refused += 1
    assert refused > 250


@pytest.mark.parametrize("structure", [
    [], {"format": "jitgrad-1"}, {"value": 1}, {"format": "jitgrad-1", "value": {"tensor": "nowhere"}},
    {"format": "jitgrad-1", "value": {}}, {"format": "jitgrad-1", "value": {"list": 3}},
    {"format": "jitgrad-1", "value": {"dict": [[1]]}}, {"format": "jitgrad-1", "value": {"bytes": "x"}},
    {"format": "jitgrad-1", "value": {"view": "data/0.npy", "dtype": "float32", "shape": [9], "strides": [1],
                                      "offset": 0, "grad": False, "parameter": False}},
    {"format": "jitgrad-1", "value": {"view": "data/0.npy", "dtype": "float32", "shape": [1], "strides": [1],
                                      "offset": -4, "grad": False, "parameter": False}},
])  # fmt: skip
def test_a_structure_that_makes_no_sense_is_refused(structure):
    file = io.BytesIO(saved(torch.ones(3)))
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("structure.json", json.dumps(structure))
    with pytest.raises(RuntimeError, match="is damaged, or was not written by"):
        torch.load(file)


def test_other_errors_keep_their_class(tmp_path):
    def refuse(tensor, place):
        raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        torch.load(io.BytesIO(saved(torch.ones(1))), map_location=refuse)
    with pytest.raises(AttributeError, match="expected a path or a binary file"):
        torch.load(3)
    with pytest.raises(IsADirectoryError if tmp_path.drive == "" else PermissionError):
        torch.load(tmp_path)
    file = io.BytesIO(saved(3))
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("structure.json", json.dumps({"format": "jitgrad-9", "value": 1}))
    with pytest.raises(RuntimeError, match="has format 'jitgrad-9'; this version reads 'jitgrad-1'"):
        torch.load(file)
