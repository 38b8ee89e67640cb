"""Files that are cut off, damaged or made to do harm: one clear error, and nothing of the file is run."""

import io
import pickle
import random
import struct
import warnings
import zipfile

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.serialization.zip_file import ZipWriter

ERRORS = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, AssertionError)  # those of PyTorch
WITNESS = []


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def state():
    net = nn.Linear(2, 2)
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(1)
    x = torch.arange(6.0)
    return {"net": net.state_dict(), "x": [x, x[1:]], "lr": 0.5, "names": ("a", b"b"), "flags": x > 2}


def outcome(blob, read=torch.load, **options):
    """The value of a file, or its error, which has to be one of PyTorch's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a changed number of the protocol is warned of
        try:
            return read(io.BytesIO(blob), **options)
        except ERRORS as error:
            assert not isinstance(error, (NotImplementedError, RecursionError))
            return error


def touch(value):
    """Use every tensor: memory that is not there would be noticed."""
    if isinstance(value, torch.Tensor):
        return np.asarray(value.detach().tolist()).size
    if isinstance(value, dict):
        return sum(touch(v) for pair in value.items() for v in pair)
    return sum(map(touch, value)) if isinstance(value, (list, tuple, set)) else 0


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_that_is_cut_off_anywhere_is_refused(zipped):
    blob = saved(state(), _use_new_zipfile_serialization=zipped)
    for end in range(0, len(blob), 1 if not zipped else 3):
        assert isinstance(outcome(blob[:end]), ERRORS), end


@pytest.mark.parametrize("zipped", [True, False])
def test_changed_bytes_give_a_value_or_an_error(zipped):
    blob, numbers, refused = saved(state(), _use_new_zipfile_serialization=zipped), random.Random(0), 0
    for k in range(1200):
        other = bytearray(blob)
        for _ in range(1 + k % 3):
            other[numbers.randrange(len(blob))] ^= 1 << numbers.randrange(8)
        found = outcome(bytes(other))
        refused += isinstance(found, Exception)
        touch(found)
    assert refused > 300


def test_changed_pickles_in_a_sound_zip_file():
    content, numbers, refused = zipfile.ZipFile(io.BytesIO(saved(state()))), random.Random(1), 0
    records = {name.removeprefix("archive/"): content.read(name) for name in content.namelist()}
    for k in range(2000):
        changed = bytearray(records["data.pkl"])
        for _ in range(1 + k % 2):
            changed[numbers.randrange(len(changed))] = numbers.randrange(256)
        found = outcome(checkpoint(bytes(changed), records))
        refused += isinstance(found, Exception)
        touch(found)
    assert refused > 1000


def test_an_error_names_the_file(tmp_path):
    path = tmp_path / "weights.pt"
    for zipped in (True, False):
        path.write_bytes(saved(state(), _use_new_zipfile_serialization=zipped)[:-40])
        with pytest.raises((RuntimeError, EOFError)) as caught:
            torch.load(path)
        assert caught.value.__notes__ == [f"while {path} was read"]


def test_records_before_the_beginning_of_the_file(tmp_path):
    blob = bytearray(saved(state()))
    blob[blob.rindex(b"PK\6\6") + 49] = 255  # where the directory is: far behind the file
    path = tmp_path / "weights.pt"
    path.write_bytes(blob)
    with pytest.raises(RuntimeError, match="names places that there are not"):
        torch.load(path)


def checkpoint(pickled, records=()):
    """A zip file with this pickle, and the other records of ``records``."""
    file = io.BytesIO()
    writer = ZipWriter(file)
    writer.write_record("data.pkl", pickled)
    for name, record in dict(records).items():
        if name.startswith("data/") or name == "byteorder":
            writer.write_record(name, record)
    writer.write_end_of_file()
    return file.getvalue()


class Runs:
    """Pickled, it is a call."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("call", [
    (WITNESS.append, (1,)), (eval, ("WITNESS.append(1)",)), (exec, ("import os",)), (getattr, (WITNESS, "append")),
    (__import__, ("os",)), (pickle.loads, (b"",)), (print, ("x",)), (torch.load, ("x",)), (nn.Linear, (1, 1)),
])  # fmt: skip
@pytest.mark.parametrize("zipped", [True, False])
def test_no_call_of_a_file_is_run(call, zipped):
    found = outcome(saved([Runs(*call)], _use_new_zipfile_serialization=zipped))
    assert isinstance(found, pickle.UnpicklingError) and not WITNESS
    assert "Weights only load failed" in str(found) and "was not an allowed global by default" in str(found)
    assert "torch.serialization.add_safe_globals([" in str(found)


HOSTILE = {
    "a size to allocate": b"\x80\x02c__builtin__\nbytearray\n\x8a\x05\0\0\0\0\x10\x85R.",
    "a tensor to allocate": b"\x80\x02ctorch\nFloatTensor\n\x8a\x05\0\0\0\0\x10\x85R.",
    "a codec to import": b"\x80\x02c_codecs\nencode\nX\1\0\0\0aX\3\0\0\0bz2\x86R.",
    "a call within a call":
        b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(c__builtin__\nset\nctorch\nTensor\n)}tR.",
    "a call within a call within a call":
        b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\nq\0(h\0ctorch\nTensor\n(c__builtin__\nbytearray\n"
        b"ctorch\nTensor\nK\1\x85}tNtR.",
    "an error about an endless tuple": b"\x80\x02K\1" + b"q\0h\0\x86" * 60 + b")R.",
    "a storage whose name is one": b"\x80\x02X\7\0\0\0storageK\1" + b"q\0h\0\x86" * 60 + b"\x86Q.",
    "a builtin class called": b"\x80\x02c__builtin__\nlist\n)R.",
    "nothing on the stack": b"\x80\x02R.",
    "no end": b"\x80\x02]",
    "a memo that is not there": b"\x80\x02h\x07.",
    "a mark too few": b"\x80\x02t.",
    "a text that is too long": b"\x80\x02X\xff\xff\xff\x7fabc.",
    "a list as a key": b"\x80\x02}]K\1s.",
    "half a pair": b"\x80\x02}(K\1u.",
    "state for a number": b"\x80\x02K\1}b.",
    "a class of os": b"\x80\x02cos\nsystem\n.",
    "another id": b"\x80\x02X\1\0\0\0aQ.",
    "a module": b"\x80\x02(X\6\0\0\0moduleNNNtQ.",
    "a storage of nothing": b"\x80\x02(X\7\0\0\0storagetQ.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_pickles_made_by_hand(name):
    for blob in (checkpoint(HOSTILE[name]), HOSTILE[name]):
        found = outcome(blob)
        assert isinstance(found, ERRORS) and str(found), found


def test_keys_that_would_take_for_ever_to_hash():
    pairs = b"K\1" + b"q\0h\0\x86" * 60  # a tuple of itself twice, 60 times
    for pickled in (
        b"}%sK\1s." % pairs, b"c__builtin__\nset\n]%sa\x85R." % pairs,
        b"ccollections\nOrderedDict\n]]%saK\1aa\x85R." % pairs, b"ccollections\nCounter\n]%sa\x85R." % pairs,
        b"ccollections\ndefaultdict\nN]]%saK\1aa\x86R." % pairs,
    ):
        assert "too many parts" in str(outcome(checkpoint(b"\x80\x02" + pickled)))


def tensor_pickle(offset=0, size=(2,), stride=(1,), count=4, key="0", kind=torch.FloatStorage):
    """The pickle of a tensor that claims what is given."""

    class Storage:
        pass

    class Pickler(pickle._Pickler):
        def persistent_id(self, obj):
            return ("storage", kind, key, "cpu", count) if isinstance(obj, Storage) else None

        def save_global(self, obj, name=None):
            place = {kind: "torch\nFloatStorage", rebuild: "torch._utils\n_rebuild_tensor_v2"}.get(obj)
            if place is None:
                return super().save_global(obj, name)
            self.write(f"c{place}\n".encode())
            self.memoize(obj)

        dispatch = {**pickle._Pickler.dispatch, type(torch.FloatStorage): save_global,
                    type(lambda: 0): save_global}  # fmt: skip

    from jitgrad._utils import _rebuild_tensor_v2 as rebuild

    file = io.BytesIO()
    Pickler(file, 2).dump(Runs(rebuild, (Storage(), offset, size, stride, False, None)))
    return file.getvalue()


@pytest.mark.parametrize("claim", [
    {"size": (5,)}, {"offset": 3}, {"offset": -1}, {"size": (-1,)}, {"stride": (-1,)}, {"stride": (4,)},
    {"size": (2, 2)}, {"size": (1 << 62, 4), "stride": (0, 0)}, {"stride": (1 << 62,)}, {"size": (1 << 70,)},
    {"size": (2.0,)}, {"size": "ab"}, {"offset": 0.5}, {"size": (1,) * 70, "stride": (1,) * 70},
    {"count": 5}, {"count": 3}, {"count": -4}, {"count": 1 << 61}, {"count": "4"}, {"key": "1"}, {"key": "../0"},
    {"key": None}, {"key": (1,)},
])  # fmt: skip
def test_tensors_that_are_not_in_their_storage(claim):
    sound = checkpoint(tensor_pickle(), {"data/0": struct.pack("<4f", 1, 2, 3, 4)})
    assert outcome(sound).tolist() == [1, 2]
    found = outcome(checkpoint(tensor_pickle(**claim), {"data/0": struct.pack("<4f", 1, 2, 3, 4)}))
    assert isinstance(found, ERRORS) and str(found)


def test_the_words_of_some():
    def message(**claim):
        return str(outcome(checkpoint(tensor_pickle(**claim), {"data/0": bytes(16)})))

    assert "requiring a storage size of 20 are out of bounds for storage of size 16" in message(size=(5,))
    assert "failed reading file data/0" in message(count=5)
    assert "failed locating file data/7: file not found" in message(key="7")
    assert "failed finding central directory" in str(outcome(saved(1)[:-30]))


def test_a_very_old_tensor_can_not_begin_before_its_storage():
    def old(size, stride):
        named = tensor_pickle(size=size, stride=stride)  # ... rebuild, (storage, offset, size, stride, ...)
        begin = named.index(b"ctorch._utils")
        end = named.index(b"\n", named.index(b"\n", begin) + 1) + 1
        return named[:begin] + b"ctorch\nTensor\n)R" + named[end:].replace(b"\x89N", b"").replace(b"R", b"b", 1)

    data = {"data/0": struct.pack("<4f", 1, 2, 3, 4)}
    assert outcome(checkpoint(old((2,), (1,)), data)).tolist() == [1, 2]
    assert "Negative strides" in str(outcome(checkpoint(old((2,), (-1,)), data)))
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        torch.empty(0).set_(torch.ones(4).untyped_storage(), 0, (2,), (-1,))


def test_a_file_that_claims_more_than_it_has():
    row = saved(torch.ones(4), _use_new_zipfile_serialization=False)
    claimed = row.replace(b"K\x04Nt", b"\x8a\x06\0\0\0\0\0\x10Nt")
    assert claimed != row and "does not fit into the file" in str(outcome(claimed))


def test_a_record_that_grows_out_of_proportion_is_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(40 << 20))
    assert "are refused" in str(outcome(file.getvalue()))


def test_a_file_that_another_tool_has_packed_is_read():
    original, packed = zipfile.ZipFile(io.BytesIO(saved(state()))), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in original.namelist():
            archive.writestr(name, original.read(name))
    assert outcome(packed.getvalue())["x"][1].tolist() == [1, 2, 3, 4, 5]


def test_records_in_the_same_place_are_refused():
    blob = bytearray(saved([torch.ones(4), torch.zeros(4)]))
    archive = zipfile.ZipFile(io.BytesIO(blob))
    first, second = (struct.pack("<L", archive.getinfo(f"archive/data/{k}").header_offset) for k in (0, 1))
    assert blob.count(second) == 1
    assert "does not fit the directory" in str(outcome(bytes(blob.replace(second, first))))


def test_a_changed_number_is_noticed_unless_it_was_meant():
    blob = saved(torch.full((100,), 0.5))
    at = blob.index(struct.pack("<f", 0.5) * 100)
    changed = blob[:at] + struct.pack("<f", 2.0) + blob[at + 4 :]
    assert "its checksum is wrong" in str(outcome(changed))
    torch.serialization.set_crc32_options(False)
    try:
        assert outcome(changed)[0] == 2
    finally:
        torch.serialization.set_crc32_options(True)


def test_bools_are_0_or_1():
    blob = saved(torch.tensor([True, False, True] * 20))
    changed = blob.replace(b"\1\0\1" * 20, b"\xff\0\2" * 20)
    torch.serialization.set_crc32_options(False)
    try:
        read = outcome(changed)
    finally:
        torch.serialization.set_crc32_options(True)
    assert read.view(torch.uint8).tolist() == [1, 0, 1] * 20 and read.sum() == 40


def test_a_file_can_not_reach_into_a_tensor():
    x = torch.ones(2)
    x.note = 1
    blob = saved(x)
    for name in ("_data", "_grad"):
        attribute = f"X{chr(len(name))}\0\0\0{name}".encode()
        pickled = zipfile.ZipFile(io.BytesIO(blob)).read("archive/data.pkl").replace(b"X\4\0\0\0note", attribute)
        found = outcome(checkpoint(pickled, {"data/0": bytes(8)}))
        assert isinstance(found, RuntimeError) and "may not set" in str(found)
