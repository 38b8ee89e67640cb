"""Names of PyTorch's that programs touch in passing: what they answer, and what is refused."""

import importlib
import threading

import pytest

import jitgrad as torch
from jitgrad.kernels.machine_words import FLUSH


def test_devices_that_are_not_there():
    for name in ("mps", "xpu", "mtia"):
        module = getattr(torch, name)
        assert not module.is_available() and module.device_count() == 0 and module.manual_seed(1) is None
        with pytest.raises(NotImplementedError, match=rf"torch\.{name}\.Event is not in jitgrad: there are no kernels"):
            module.Event()
    assert torch.get_device_module("cpu") is torch.cpu
    with pytest.raises(RuntimeError, match="Invalid value"):
        torch.get_device_module("lpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is an accelerator")
def test_no_accelerator():
    assert not torch.accelerator.is_available() and torch.accelerator.device_count() == 0
    assert torch.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        torch.accelerator.synchronize()


def test_one_process():
    distributed = torch.distributed
    assert not distributed.is_available() and not distributed.is_initialized()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        distributed.get_rank()
    with pytest.raises(NotImplementedError, match="one process"):
        distributed.init_process_group("gloo")


@pytest.mark.parametrize(
    "module, name",
    [("fx", "symbolic_trace"), ("export", "export"), ("package", "PackageExporter"), ("onnx", "export"),
     ("utils.cpp_extension", "load"), ("_dynamo", "optimize"), ("utils._python_dispatch", "TorchDispatchMode")],
)  # fmt: skip
def test_names_that_are_refused_when_they_are_used(module, name):
    thing = getattr(importlib.import_module(f"jitgrad.{module}"), name)
    assert not isinstance(1, thing) and "not in jitgrad" in repr(thing)
    type("Derived", (thing,), {})
    with pytest.raises(NotImplementedError, match=rf"^torch\.{module}\.{name} is not in jitgrad: \w"):
        thing()


def test_marks_of_the_compiler():
    def function():
        return 1

    compiler = torch.compiler
    assert compiler.allow_in_graph(function) is function and compiler.assume_constant_result(function) is function
    assert compiler.nested_compile_region()(function) is function and not compiler.is_exporting()
    with compiler.set_stance("force_eager"):
        assert compiler.set_stance("default")(function)() == 1
    assert torch._dynamo.mark_dynamic(torch.ones(1), 0) is None and not torch._dynamo.is_compiling()
    torch._dynamo.config.suppress_errors = True


@pytest.mark.parametrize(
    "check, kind",
    [("_check", RuntimeError), ("_check_index", IndexError), ("_check_value", ValueError), ("_check_type", TypeError),
     ("_check_not_implemented", NotImplementedError)],
)  # fmt: skip
def test_checks(check, kind):
    check = getattr(torch, check)
    assert check(True) is None
    with pytest.raises(kind, match="^said$"):
        check(False, lambda: "said")
    with pytest.raises(kind, match="Expected cond to be True"):
        check(False)
    with pytest.raises(TypeError, match="cond must be a bool, but got <class 'int'>"):
        check(1)


def test_numbers_in_the_place_of_symbols():
    assert torch.sym_int(3.7) == 3 and torch.sym_float(2) == 2.0 and torch.sym_not(False)
    assert torch.sym_max(1, 2.0) == 2.0
    assert torch.sym_sum([1, 2]) == 3 and torch.sym_ite(False, 1, 2) == 2 and not isinstance(3, torch.SymInt)
    torch._assert(torch.tensor(True), "never")
    with pytest.raises(AssertionError, match="said"):
        torch._assert(False, "said")


def test_hub_reads_what_is_here(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save({"w": torch.ones(2)}, folder / "weights-0123abcd.pth")
    url = "https://example.org/weights-0123abcd.pth"
    assert torch.hub.load_state_dict_from_url(url)["w"].tolist() == [1, 1]
    assert torch.hub.load_state_dict_from_url(f"file://{folder}/weights-0123abcd.pth")["w"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="invalid hash value"):
        torch.hub.load_state_dict_from_url(url, check_hash=True)
    with pytest.raises(RuntimeError, match="downloads nothing"):
        torch.hub.load_state_dict_from_url("https://example.org/other.pth")
    with pytest.raises(NotImplementedError, match="downloads nothing"):
        torch.hub.load("owner/repository", "model")
    (tmp_path / "hubconf.py").write_text("def model(n):\n    return n + 1\n")
    assert torch.hub.load(str(tmp_path), "model", 2, source="local") == 3
    assert torch.hub.list(str(tmp_path), source="local") == ["model"]


def test_small_modules():
    from jitgrad.utils import _foreach_utils, weak

    groups = _foreach_utils._group_tensors_by_device_and_dtype([[torch.ones(1), torch.ones(1).long()]], True)
    assert [places for _, places in groups.values()] == [[0], [1]]
    key, kept = torch.ones(2), weak.WeakIdKeyDictionary()
    kept[key] = 1
    assert key in kept and torch.ones(2) not in kept and kept[key] == 1
    del key
    assert len(kept) == 0
    assert "NumPy" in torch.__config__.show() and torch.functional.einsum is torch.einsum
    assert torch._C._get_tracing_state() is None and torch._tensor.Tensor is torch.Tensor
    capsule = torch.utils.dlpack.to_dlpack(torch.ones(1))
    assert "dltensor" in repr(capsule)


def test_functions_that_choose_or_switch():
    assert torch.cond(torch.tensor(False), lambda x: x + 1, lambda x: x - 1, (3,)) == 2
    torch.set_anomaly_enabled(True)
    assert torch.is_anomaly_enabled()
    torch.set_anomaly_enabled(False)
    assert not torch.is_anomaly_enabled()
    x = torch.ones(2, 3)
    assert torch.get_device(x) == -1 and x.dim_order() == (0, 1) and x.t().dim_order() == (1, 0)
    assert not torch.detach(x.requires_grad_()).requires_grad
    with pytest.raises(RuntimeError, match=r"reinforce\(\) was removed"):
        x.reinforce(1)


def test_hooks_that_are_not_saved():
    from jitgrad.utils.hooks import unserializable_hook, warn_if_has_hooks

    x = torch.ones(1, requires_grad=True)
    x.register_hook(unserializable_hook(lambda g: g))
    warn_if_has_hooks(x)
    x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="will not be serialized"):
        warn_if_has_hooks(x)


def test_types_of_cuda_tensors():
    x = torch.ones(2)
    assert isinstance(x, torch.FloatTensor) and not isinstance(x, torch.cuda.FloatTensor)
    assert repr(torch.cuda.ByteTensor) == "<class 'torch.cuda.ByteTensor'>"
    assert torch.cuda.HalfTensor.dtype is torch.half
    assert torch.ones(2, dtype=torch.int64).type(torch.Tensor).dtype is torch.float32
    if not torch.cuda.is_available():
        with pytest.raises(TypeError, match="type torch.cuda.LongTensor not available. Torch not compiled with CUDA"):
            torch.cuda.LongTensor(2)


@pytest.mark.skipif(not FLUSH, reason="what the processor does with denormal numbers can't be switched")
def test_denormal_numbers():
    """Kept, or taken for zero by ops of the thread that asked for it, its workers and compiled functions included."""
    small = torch.full((200_000,), 2e-38)
    halves = torch.compile(lambda x: (x * 0.5).exp() - 1 + x * 0.5)
    kept = [halves(small).count_nonzero().item() for _ in range(3)]
    assert kept == [small.numel()] * 3 and (small * 0.5).count_nonzero() == small.numel()
    try:
        assert torch.set_flush_denormal(True)
        assert (small * 0.5).count_nonzero() == 0 and (small[:3] * 0.5).tolist() == [0.0] * 3
        assert halves(small).count_nonzero() == 0
        of_others = []
        other = threading.Thread(target=lambda: of_others.append(torch.set_flush_denormal(False)))
        other.start()
        other.join()
        assert of_others == [True] and (small * 0.5).count_nonzero() == 0
    finally:
        assert torch.set_flush_denormal(False)
    assert (small * 0.5).count_nonzero() == small.numel() and halves(small).count_nonzero() == small.numel()
    with pytest.raises(RuntimeError, match="flush_denormal expects a bool, but got int"):
        torch.set_flush_denormal(1)
    with pytest.raises(TypeError):
        torch.set_flush_denormal(mode=True)
