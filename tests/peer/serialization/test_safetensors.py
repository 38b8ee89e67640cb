"""safetensors files beside those of the library that defines the format."""

import json

import pytest

import jitgrad
from jitgrad import safetensors as ours

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("safetensors.torch")
BOTH = ((torch, theirs), (jitgrad, ours))


def tensors(t):
    names = [
        "bool", "uint8", "int8", "int16", "uint16", "float16", "bfloat16", "int32", "uint32", "float32", "complex64",
        "float64", "int64", "uint64",
    ]  # fmt: skip
    found = {f"x.{k}": t.tensor([[1, 0, 1]]).to(getattr(t, name)) for k, name in enumerate(reversed(names))}
    return found | {"scalar": t.tensor(2.5), "none": t.ones(0, 3), "h\xe9": t.ones(1, dtype=t.bfloat16)}


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}, {"\u4e2d": '"\\\n'}])
def test_files_are_the_same_byte_for_byte(metadata, tmp_path):
    files = [module.save(tensors(t), metadata) for t, module in BOTH]
    assert files[0] == files[1]
    for t, module in BOTH:
        module.save_file(tensors(t), tmp_path / t.__name__, metadata)
        assert (tmp_path / t.__name__).read_bytes() == files[0]
        for read in (module.load(files[0]), module.load_file(tmp_path / t.__name__)):
            for name, x in tensors(t).items():
                assert read[name].dtype == x.dtype and read[name].tolist() == x.tolist(), name


def outcome(run, t, module):
    try:
        return repr(run(t, module))
    except Exception as error:
        return type(error).__name__, str(error).replace("jitgrad", "torch")


def file(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def one(dtype="F32", shape=(1,), offsets=(0, 4), **more):
    return {"a": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}, **more}


FILES = {
    "right": file(one(), b"abcd"), "spaces": file(b"  {} "), "too short": b"abc", "nothing": b"",
    "header too large": file({}, length=100_000_001), "header too long": file({}, length=50),
    "hole": file(one(offsets=(4, 8)), b"abcdabcd"), "too large": file(one(shape=(2,)), b"abcd"),
    "more after it": file(one(), b"abcdef"), "cut off": file(one(), b"ab"),
    "backwards": file(one(offsets=(4, 0)), b"abcd"),
    "overflow": file(one(shape=(2**62, 8)), b"abcd"), "unaligned": file(one("U8", (1,), (0, 1), **{
        "b": one("F32", (1,), (1, 5))["a"]}), b"aabcd"), "no elements": file(one(shape=(0, 2), offsets=(0, 0))),
    "unknown field": file({"a": {**one()["a"], "more": 1}}, b"abcd"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_files_made_by_hand(name, tmp_path):
    (tmp_path / "x").write_bytes(FILES[name])
    for run in (lambda t, m: sorted(m.load(FILES[name]).items()), lambda t, m: m.load_file(tmp_path / "x")):
        assert outcome(run, *BOTH[1]) == outcome(run, *BOTH[0])


@pytest.mark.parametrize("save", [
    lambda t: {"a": t.ones(2, 3).t()}, lambda t: [1], lambda t: {"a": 1}, lambda t: {1: t.ones(1)},
    lambda t: {"a": t.ones(1, dtype=t.complex128)}, lambda t: {"a": t.ones(1, device="meta")},
    lambda t: dict(zip("ab", t.ones(4).split(2), strict=True)),
])  # fmt: skip
def test_what_can_not_be_saved(save):
    run = lambda t, m: m.save(save(t))
    assert outcome(run, *BOTH[1]) == outcome(run, *BOTH[0])


def model(t):
    net = t.nn.Sequential(t.nn.Linear(2, 2, bias=False), t.nn.Linear(2, 2))
    net[1].weight = net[0].weight
    with t.no_grad():
        net[0].weight.copy_(t.arange(4.0).view(2, 2)), net[1].bias.fill_(1)
    return net


def test_models_that_share_memory(tmp_path):
    for t, module in BOTH:
        module.save_model(model(t), str(tmp_path / t.__name__))
    assert (tmp_path / "torch").read_bytes() == (tmp_path / "jitgrad").read_bytes()
    for t, module in BOTH:
        net = model(t)
        with t.no_grad():
            net[0].weight.zero_()
        assert module.load_model(net, tmp_path / "torch") == (set(), []) and net[1].weight[1, 1] == 3
    run = lambda t, m: m.load_model(t.nn.Linear(2, 2), tmp_path / "torch")
    assert outcome(run, *BOTH[1]) == outcome(run, *BOTH[0])


@pytest.mark.parametrize("read", [
    lambda f: f.keys(), lambda f: f.metadata(), lambda f: f.get_tensor("w"), lambda f: f.get_slice("w").get_shape(),
    lambda f: f.get_slice("w").get_dtype(), lambda f: f.get_slice("w")[:, 1], lambda f: f.get_slice("w")[1:, ::2],
    lambda f: f.get_slice("w")[-1], lambda f: f.get_slice("w")[...], lambda f: f.get_tensor("q"),
    lambda f: f.get_slice("q"),
])  # fmt: skip
def test_a_file_read_in_parts(read, tmp_path):
    ours.save_file({"w": jitgrad.arange(12.0).view(3, 4), "b": jitgrad.ones(1)}, tmp_path / "x", {"k": "v"})

    def run(t, module):
        opened = module.safe_open(tmp_path / "x", framework="pt")
        with opened as f:
            return read(f)

    assert outcome(run, *BOTH[1]) == outcome(run, *BOTH[0])
