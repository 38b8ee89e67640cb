"""Checkpoints that one library wrote and the other reads, byte for byte where the format says so."""

import collections
import importlib
import io
import itertools
import pickle
import struct
import tarfile
import warnings
import zipfile

import pytest

import jitgrad

torch = pytest.importorskip("torch")
LIBRARIES = (torch, jitgrad)
DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128", "uint16", "uint32", "uint64",
]  # fmt: skip


def written(library, value, **options):
    file = io.BytesIO()
    library.save(value, file, **options)
    return io.BytesIO(file.getvalue())


def values(t, zipped):
    """Of every kind that files have."""
    x = t.arange(6.0).view(2, 3)
    parameter, marked = t.nn.Parameter(t.ones(2)), t.ones(1)
    parameter.note, marked.note = 3, 3.5
    pair = t.tensor([1 + 2j, 3])
    found = {
        "shared": [x, x[1:], x.t(), x[:, 1], x[0, 0]], "parameter": parameter, "marked": marked,
        "leaf": t.ones(2, requires_grad=True), "bits": [pair.conj(), pair.clone().conj().imag, t._neg_view(t.ones(2))],
        "empty": [t.empty(0), t.ones(0, 3)], "meta": t.ones(2, device="meta"), "number": t.tensor(2.5),
        "strided": t.ones(2, 3).as_strided((3, 2), (1, 1)), "expanded": t.ones(1).expand(3),
        "dtype": [t.float32, t.bool], "size": x.shape, "device": x.device, "layout": t.strided, "bytes": b"ab\xff",
        "numbers": [1, -5, 300, 70000, 10**30, 1.5, float("inf"), True, None, 1 + 2j], "text": "h\xe9\u4e2d\ud800",
        "set": {1, "a"}, "bytearray": bytearray(b"a"), "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "counter": collections.Counter("aab"), "ordered": collections.OrderedDict(b=1, a=2), 3: {(1, 2): []},
        "state": t.nn.Sequential(t.nn.Linear(1, 2), t.nn.BatchNorm1d(2)).state_dict(),
    }  # fmt: skip
    if zipped:  # PyTorch's older format knows no storages of bytes
        found |= {"storage": t.ones(1).untyped_storage(), "wide": t.ones(2, dtype=t.uint16)}
    return found


def described(value):
    """Everything about a value that both libraries have, in comparable form."""
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        bits = value.is_conj(), value.is_neg()
        meta = value.device.type == "meta"
        plain = None if meta else value.detach().resolve_conj().resolve_neg().tolist()
        nbytes = None if meta or any(bits) else value.untyped_storage().nbytes()
        return (
            type(value).__name__, str(value.dtype), tuple(value.shape), tuple(value.stride()), str(value.device),
            value.storage_offset(), value.requires_grad, bits, plain, nbytes, getattr(value, "note", None),
        )  # fmt: skip
    if isinstance(value, dict):
        inside = [(described(k), described(v)) for k, v in value.items()]
        attributes = getattr(value, "__dict__", None)
        return type(value).__name__, inside, described(attributes) if attributes else None
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [described(v) for v in value]
    return repr(value.tolist()) if hasattr(value, "nbytes") else repr(value)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_each_reads_what_each_wrote(zipped, weights_only):
    wanted = None
    for writer, reader in itertools.product(LIBRARIES, LIBRARIES):
        torch.manual_seed(0), jitgrad.manual_seed(0)
        file = written(writer, values(writer, zipped), _use_new_zipfile_serialization=zipped)
        read = reader.load(file, weights_only=weights_only)
        found = described(read)
        wanted = found if wanted is None else wanted
        for ours, theirs in zip(found[1], wanted[1], strict=True):
            assert ours == theirs
        read["shared"][0][1, 0] = 77
        assert read["shared"][1][0, 0] == 77 and read["shared"][2][0, 1] == 77


@pytest.mark.parametrize("name", DTYPES)
def test_all_dtypes_both_ways(name):
    numbers = [0, 1, 1, 0, 1]
    for writer, reader in ((torch, jitgrad), (jitgrad, torch)):
        for zipped in (True, False) if not (name[0] == "u" and name != "uint8") else (True,):
            x = writer.tensor(numbers).to(getattr(writer, name))
            y = reader.load(written(writer, [x, x[1:]], _use_new_zipfile_serialization=zipped))[1]
            assert str(y.dtype) == f"torch.{name}" and y.tolist() == x[1:].tolist()


def test_files_are_the_same_byte_for_byte_but_for_their_id():
    def state(t):
        net = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4))
        with t.no_grad():
            for p in net.parameters():
                p.copy_(t.arange(float(p.numel())).view(p.shape))
        return {"net": net.state_dict(), "epoch": 3, "empty": t.empty(0)}

    ours, theirs = (written(t, state(t)).getvalue() for t in (jitgrad, torch))
    ids = [zipfile.ZipFile(io.BytesIO(b)).read("archive/.data/serialization_id") for b in (ours, theirs)]
    ours, theirs = (b.replace(i, b"-" * 40) for b, i in zip((ours, theirs), ids, strict=True))
    different = [k for k, pair in enumerate(zip(ours, theirs, strict=True)) if len(set(pair)) > 1]
    assert len(ids[0]) == len(ids[1]) == 40 and len(different) <= 8  # the checksum of the id, in two places


def test_offsets_can_be_counted():
    """PyTorch can find records by the sizes of those before them, and without their bytes."""
    import torch.utils.serialization.config as config

    file = written(jitgrad, [jitgrad.ones(3), jitgrad.empty(0), jitgrad.zeros(5, dtype=jitgrad.int8)])
    with config.patch({"load.calculate_storage_offsets": True}):
        assert torch.load(file)[0].tolist() == [1, 1, 1]
    file.seek(0)
    assert torch.load(file, map_location="meta")[2].untyped_storage()._checkpoint_offset % 64 == 0


ARGUMENTS = {
    **dict.fromkeys(("Linear", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "EmbeddingBag"), (4, 3)),
    **dict.fromkeys(("BatchNorm2d", "SyncBatchNorm", "InstanceNorm1d", "LayerNorm", "RMSNorm", "LazyLinear"), (4,)),
    **dict.fromkeys(("Conv2d", "ConvTranspose1d"), (2, 4, 3)), "LazyConv1d": (2, 3), "Bilinear": (2, 3, 4),
    **dict.fromkeys(("MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer"), (4, 2)),
    "Transformer": (4, 2, 1, 1), "Embedding": (4, 3), "AdaptiveLogSoftmaxWithLoss": (4, 6, [2]), "Fold": (4, 2),
    **dict.fromkeys(("MaxPool2d", "AdaptiveAvgPool2d", "CrossMapLRN2d", "PixelShuffle", "ZeroPad2d"), (2,)),
    **dict.fromkeys((
        "GLU", "PReLU", "RReLU", "Softmax2d", "LazyBatchNorm1d", "LazyInstanceNorm2d", "CTCLoss", "NLLLoss2d",
        "MSELoss", "CosineEmbeddingLoss", "TripletMarginLoss", "PoissonNLLLoss", "GaussianNLLLoss", "ParameterList",
        "ParameterDict", "Sequential", "CosineSimilarity", "Upsample",
    ), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_modules_of_all_files_move_whole(name):
    for writer, reader in ((torch, jitgrad), (jitgrad, torch)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = getattr(writer.nn, name)(*ARGUMENTS[name])
            read = reader.load(written(writer, made), weights_only=False)
        assert type(read) is getattr(reader.nn, name) and str(read) == str(made)


def test_what_is_in_other_files_moves_whole():
    def things(t):
        d, prune = t.distributions.transforms, importlib.import_module(f"{t.__name__}.nn.utils.prune")
        made = [d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)]), d.StickBreakingTransform(),
                prune.L1Unstructured(0.5), prune.PruningContainer(), t.nn.LazyLinear(3)]  # fmt: skip
        parameter = t.nn.Parameter(t.ones(2))
        optimizer = t.optim.SGD([parameter], 0.1)
        schedules = t.optim.lr_scheduler
        return [*made, schedules.CosineAnnealingWarmRestarts(optimizer, 3), schedules.OneCycleLR(optimizer, 1.0, 9)]

    for writer, reader in ((torch, jitgrad), (jitgrad, torch)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = reader.load(written(writer, things(writer)), weights_only=False)
        assert [type(f) for f in found] == [type(t) for t in things(reader)]


def test_models_move_whole():
    def net(t):
        nn = t.nn
        return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Dropout(0.1), nn.Conv1d(1, 1, 1))

    for writer, reader in ((torch, jitgrad), (jitgrad, torch)):
        for zipped in (True, False):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the source of a class is another library's
                file = written(writer, net(writer), _use_new_zipfile_serialization=zipped)
                read = reader.load(file, weights_only=False)
            assert str(read) == str(net(reader)) and type(read) is reader.nn.Sequential
            assert read[:3](reader.ones(4, 2)).shape == (4, 3)
            assert list(read.state_dict()) == list(net(reader).state_dict())
            read.eval().register_forward_hook(lambda *args: None)


@pytest.mark.parametrize("value", [lambda t: print, lambda t: t.nn.Linear(1, 1), lambda t: {"a": range(3)}])
def test_refusals_have_the_same_words(value):
    for writer in LIBRARIES:
        texts = []
        for reader in LIBRARIES:
            with pytest.raises(pickle.UnpicklingError) as error:
                reader.load(written(writer, value(writer)))
            texts.append(str(error.value))
        assert texts[0] == texts[1]


def same_error(call):
    found = []
    for t in LIBRARIES:
        with pytest.raises(Exception) as error:
            call(t)
        found.append((type(error.value), str(error.value).replace("jitgrad", "torch")))
    assert found[0] == found[1]


def test_errors_have_the_same_words(tmp_path):
    x = lambda t: written(t, t.ones(2))
    same_error(lambda t: t.load(x(t), map_location="moon"))
    same_error(lambda t: t.load(x(t), mmap=True))
    same_error(lambda t: t.load(x(t), pickle_module=pickle, weights_only=True))
    same_error(lambda t: t.load(3))
    same_error(lambda t: t.save(1, 3))
    same_error(lambda t: t.save(1, tmp_path / "no" / "x.pt"))
    same_error(lambda t: t.save([t.ones(2, dtype=t.complex64), t.ones(2, dtype=t.complex64)].__class__(
        [y := t.ones(2, dtype=t.complex64), y.view(t.float32)]), io.BytesIO()))  # fmt: skip
    same_error(lambda t: t.load(io.BytesIO(b"\x80\x02K\x01.")))
    same_error(lambda t: t.serialization.set_default_load_endianness("big"))
    same_error(lambda t: t.serialization.set_default_mmap_options(99))
    same_error(lambda t: t.serialization.location_tag(3))
    same_error(lambda t: t.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"ab")))


def test_a_state_dict_of_arrays_is_answered_as_by_pytorch():
    import numpy as np

    arrays = {"weight": np.ones((1, 2), np.float32), "bias": np.zeros(1, np.float32)}
    same_error(lambda t: t.nn.Linear(2, 1).load_state_dict(arrays))


def tar_file():
    """A file of before PyTorch 0.2: two tensors on one storage, and a storage that is a part of it."""

    class Named:
        def __init__(self, number):
            self.number = number

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            return str(obj.number) if isinstance(obj, Named) else None

    def pickled(*values):
        content = io.BytesIO()
        for value in values:
            pickle.dump(value, content, 2)
        return content.getvalue()

    storages = pickled(1, (10, "cpu", torch.FloatStorage)) + struct.pack("<q6f", 6, *range(6))
    storages += pickled([(11, 10, 1, 2)])
    tensors = pickled(2)
    for key, sizes, strides, offset in ((20, (2, 3), (3, 1), 0), (21, (2,), (2,), 1)):
        numbers = [len(sizes), 0, *sizes, *strides, offset]
        tensors += pickled((key, 10, torch.FloatTensor)) + struct.pack(f"<ii{len(numbers) - 2}q", *numbers)
    value = io.BytesIO()
    Pickler(value, 2).dump({"x": Named(20), "y": [Named(21), Named(20)], "s": Named(11)})
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in (("storages", storages), ("tensors", tensors), ("pickle", value.getvalue())):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def test_tar_files(tmp_path):
    (tmp_path / "x.pt").write_bytes(tar_file())
    for t in LIBRARIES:
        read = t.load(tmp_path / "x.pt", weights_only=False)
        assert read["x"].tolist() == [[0, 1, 2], [3, 4, 5]] and list(read["s"]) == [1, 2]
        read["x"][0, 1] = 9
        assert read["y"][0].tolist() == [9, 3] and read["y"][1] is read["x"] and read["s"][0] == 9
    same_error(lambda t: t.load(tmp_path / "x.pt"))


def test_options_have_the_same_names(tmp_path):
    for t in LIBRARIES:
        config = importlib.import_module(f"{t.__name__}.utils.serialization.config")
        with config.patch({"save.storage_alignment": 128, "load.mmap": True}):
            t.save(t.ones(3), tmp_path / "x.pt")
            assert config.load.mmap is True and t.load(tmp_path / "x.pt").tolist() == [1, 1, 1]
        with t.serialization._open_zipfile_reader(str(tmp_path / "x.pt")) as reader:
            assert reader.get_record_offset("data/0") % 128 == 0
        assert config.load.mmap is False and config.save.storage_alignment == 64


# -- optimisers -------------------------------------------------------------------------------------


def trained(t, steps, checkpoint=None):
    """(losses, checkpoint) of Adam with a schedule on a small net."""
    net = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Tanh(), t.nn.Linear(3, 1))
    with t.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(t.arange(float(p.numel())).view(p.shape) / 10 - k / 7)
    optimizer = t.optim.Adam(net.parameters(), lr=0.05, amsgrad=True, weight_decay=0.01)
    schedule = t.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    if checkpoint is not None:
        read = t.load(checkpoint)
        net.load_state_dict(read["net"])
        optimizer.load_state_dict(read["optimizer"])
        schedule.load_state_dict(read["schedule"])
    x, losses = t.arange(8.0).view(4, 2) / 8, []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((net(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    parts = {"net": net, "optimizer": optimizer, "schedule": schedule}
    return losses, written(t, {name: part.state_dict() for name, part in parts.items()})


@pytest.mark.parametrize("first, then", [(torch, jitgrad), (jitgrad, torch), (jitgrad, jitgrad)])
def test_training_goes_on_in_the_other_library(first, then):
    whole, _ = trained(first, 6)
    before, checkpoint = trained(first, 3)
    after, _ = trained(then, 3, checkpoint)
    assert before + after == pytest.approx(whole, rel=1e-5)


def test_optimisers_and_schedules_move_whole():
    for writer, reader in ((torch, jitgrad), (jitgrad, torch)):
        steps = []
        for t in (writer, reader):
            p = t.nn.Parameter(t.ones(2))
            optimizer = t.optim.Adam([p], lr=0.1)
            parts = {"p": p, "optimizer": optimizer, "schedule": t.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)}
            for k in range(4):
                if t is writer and k == 2:
                    parts = reader.load(written(t, parts), weights_only=False)
                    assert parts["optimizer"].param_groups[0]["params"][0] is parts["p"]
                parts["optimizer"].zero_grad()
                (parts["p"] ** 2).sum().backward()
                parts["optimizer"].step(), parts["schedule"].step()
            steps.append(parts["p"].tolist())
        assert steps[0] == pytest.approx(steps[1], rel=1e-5)
