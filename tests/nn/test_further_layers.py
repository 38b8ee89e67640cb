"""Adaptive softmax, layers from Lua, containers of parameters, conversion, names that programs import."""

import copy
import importlib
import pickle

import pytest

import jitgrad as torch
from jitgrad import nn


def test_adaptive_softmax_is_a_distribution_over_all_classes():
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 7, [2, 4], div_value=2.0)
    x, target = torch.randn(5, 8), torch.tensor([0, 1, 3, 6, 6])
    every = layer.log_prob(x)
    assert torch.allclose(every.exp().sum(1), torch.ones(5), atol=1e-5)
    output, loss = layer(x, target)
    assert torch.allclose(output, every[torch.arange(5), target], atol=1e-6)
    assert loss.item() == pytest.approx(-output.mean().item())
    assert layer.predict(x).tolist() == every.argmax(1).tolist()
    one, _ = layer(x[0], target[0])
    assert one.shape == () and one.item() == pytest.approx(output[0].item(), rel=1e-5)
    loss.backward()
    assert layer.head.weight.grad is not None and layer.tail[1][0].weight.grad is not None


def test_adaptive_softmax_refuses():
    for cutoffs in ([3, 2], [0, 2], [2, 7], [2, 2], [1.5]):
        with pytest.raises(ValueError, match="cutoffs should be a sequence of unique, positive integers"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 7, cutoffs)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 7, [2, 4])
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 6\], but values in range \[0, 7\]"):
        layer(torch.ones(2, 8), torch.tensor([0, 7]))
    with pytest.raises(RuntimeError, match="same size in the batch dimension"):
        layer(torch.ones(2, 8), torch.tensor([0]))


def test_response_norm_over_a_window_of_channels():
    x = torch.arange(1.0, 6.0).reshape(1, 5, 1, 1)
    out = nn.CrossMapLRN2d(3, alpha=3.0, beta=1.0, k=1.0)(x).flatten()
    # The first channel is in every window, as in PyTorch.
    sums = [1 + 4, 1 + 4 + 9, 1 + 4 + 9 + 16, 1 + 9 + 16 + 25, 1 + 16 + 25]
    assert out.tolist() == pytest.approx([c / (1 + s) for c, s in zip(range(1, 6), sums, strict=True)])


def test_batch_norms_become_synchronised_ones_with_what_they_have():
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3, affine=False)), nn.BatchNorm1d(3).eval())
    changed = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(changed[1][0]) is nn.SyncBatchNorm and changed[1][0].weight is None and not changed[2].training
    assert list(changed.state_dict()) == list(net.state_dict())
    with pytest.raises(ValueError, match="expected at least 2D input"):
        nn.SyncBatchNorm(3)(torch.ones(3))


def test_parameter_dict_is_a_dictionary():
    d = nn.ParameterDict({"b": torch.ones(1), "a": 3})
    assert list(d) == ["a", "b"] and list(reversed(d)) == ["b", "a"]  # a plain dictionary's keys are sorted
    assert d.setdefault("c", torch.zeros(2)) is d["c"] and isinstance(d["c"], nn.Parameter)
    assert d.popitem()[0] == "c" and d.get("c") is None and "c" not in d
    joined = d | nn.ParameterDict({"z": torch.ones(1)})
    assert list(joined) == ["a", "b", "z"] and joined["b"] is d["b"]
    d |= {"y": 1}
    assert d.fromkeys(["p", "q"], 0)["q"] == 0 and list(d.copy()) == list(d)
    with pytest.raises(TypeError, match="cannot be used as a key as it is not a string"):
        d[3] = 1
    assert 3 not in d
    d.clear()
    assert len(d) == 0 and not list(d.parameters())
    with pytest.raises(KeyError):
        d.popitem()


def test_modules_move_between_kinds_of_numbers_in_place():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = net[0].weight
    net(torch.ones(3, 2)).sum().backward()
    grad = weight.grad
    net.double()
    assert net[0].weight is weight and weight.grad is grad and grad.dtype is weight.dtype is torch.float64
    assert net[1].num_batches_tracked.dtype is torch.int64
    meta = nn.Linear(2, 2, device="meta")
    with pytest.raises(NotImplementedError, match=r"Please use torch.nn.Module.to_empty\(\) instead"):
        meta.to("cpu")
    assert not meta.to_empty(device="cpu").weight.is_meta and meta.share_memory() is meta
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        net.to(torch.int32)


def test_parameters_may_become_new_objects():
    layer = nn.Linear(2, 2)
    weight, grad = layer.weight, torch.ones(2, 2)
    weight.grad = grad
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert layer.weight is not weight and weight.dtype is torch.float32 and layer.weight.dtype is torch.float64
    assert weight.grad is grad and grad.dtype is torch.float32 and layer.weight.grad.dtype is torch.float64
    sparse = nn.Linear(2, 2)
    weight = sparse.weight
    sparse._apply(torch.Tensor.to_sparse)  # of another layout: new ones whatever the flag says
    assert sparse.weight is not weight and weight.layout is torch.strided and sparse.weight.layout is torch.sparse_coo


def test_submodules_are_replaced_by_name():
    net = nn.Sequential(nn.Sequential(nn.ReLU()))
    net.set_submodule("0.0", nn.Tanh())
    net.set_submodule("0.new", nn.Identity())
    assert repr(net[0][0]) == "Tanh()" and list(net[0]._modules) == ["0", "new"]
    with pytest.raises(AttributeError, match="Sequential has no attribute `x`"):
        net.set_submodule("0.x", nn.Tanh(), strict=True)
    with pytest.raises(ValueError, match="Cannot set the submodule without a target name"):
        net.set_submodule("", nn.Tanh())


def test_compiled_modules_are_copied_and_pickled_as_they_were():
    layer = nn.Linear(2, 2)
    layer.compile()
    x = torch.ones(1, 2)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other(x).tolist() == layer(x).tolist() and "forward" not in vars(other)


def test_hooks_of_loading_know_their_module_weakly():
    layer, seen = nn.Linear(1, 1), []
    layer.register_load_state_dict_pre_hook(lambda module, *args: seen.append(module))
    layer._register_load_state_dict_pre_hook(lambda state, *args: seen.append(state["bias"].shape))
    layer.load_state_dict(layer.state_dict())
    assert seen == [layer, (1,)]
    hook = lambda *args: {}
    layer.register_state_dict_post_hook(hook)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        layer.state_dict()
    with pytest.raises(RuntimeError, match="Cannot register the same function as the state dict post hook"):
        layer._register_state_dict_hook(hook)


def test_a_value_that_can_not_be_copied_is_one_fault_of_several():
    layer = nn.Linear(2, 2)
    before = layer.bias.tolist()
    with pytest.raises(RuntimeError) as caught:
        layer.load_state_dict({"weight": torch.ones(3, 3), "bias": [1], "other": torch.ones(1)})
    text = str(caught.value)
    for part in ("Unexpected key(s)", "size mismatch for weight", 'the parameter named "bias", expected torch.Tensor'):
        assert part in text
    assert layer.bias.tolist() == before


def test_pass_through_wrappers():
    layer = nn.DataParallel(nn.Linear(2, 1))
    assert list(layer.state_dict()) == ["module.weight", "module.bias"] and layer(torch.ones(3, 2)).shape == (3, 1)
    state = layer.state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"] and "" in state._metadata
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        nn.parallel.DistributedDataParallel(layer)


def test_gradients_of_convolutions_without_a_graph():
    x, weight = torch.randn(1, 2, 5, requires_grad=True), torch.randn(3, 2, 2, requires_grad=True)
    out = nn.functional.conv1d(x, weight, stride=2, padding=1)
    g = torch.randn(out.shape)
    wanted = torch.autograd.grad(out, (x, weight), g)
    found = (
        nn.grad.conv1d_input(x.shape, weight.detach(), g, 2, 1),
        nn.grad.conv1d_weight(x.detach(), weight.shape, g, 2, 1),
    )
    for a, b in zip(wanted, found, strict=True):
        assert torch.allclose(a, b, atol=1e-6)


@pytest.mark.parametrize(
    "module, names",
    [
        ("linear", "Bilinear Identity LazyLinear Linear NonDynamicallyQuantizableLinear"),
        ("activation", "MultiheadAttention PReLU Softmax2d"),
        ("conv", "Conv2d LazyConvTranspose3d _ConvNd _ConvTransposeNd _pair"),
        ("batchnorm", "LazyBatchNorm1d SyncBatchNorm _BatchNorm _LazyNormBase"),
        ("loss", "CTCLoss NLLLoss2d TripletMarginLoss _Loss _WeightedLoss"),
        ("container", "Container ModuleList ParameterDict ParameterList"),
        ("dropout", "_DropoutNd"),
        ("pixelshuffle", "PixelShuffle PixelUnshuffle"),
        ("channelshuffle", "ChannelShuffle"),
        ("fold", "Fold Unfold"),
        ("utils", "_ntuple _pair _reverse_repeat_tuple _single _triple"),
        ("module", "_EXTRA_STATE_KEY_SUFFIX _IncompatibleKeys _addindent"),
        ("transformer", "Transformer _generate_square_subsequent_mask _get_activation_fn _get_clones"),
        ("linear_cross_entropy_options", "LinearCrossEntropyOptions"),
    ],
)
def test_names_are_where_pytorch_has_them(module, names):
    found = importlib.import_module(f"jitgrad.nn.modules.{module}")
    assert all(hasattr(found, name) for name in names.split())
    assert getattr(nn.modules, module) is found


def test_older_modules_warn():
    with pytest.warns(FutureWarning, match="`NLLLoss2d` has been deprecated"):
        nn.NLLLoss2d()
    with pytest.warns(FutureWarning, match=r"`nn.Container` is deprecated"):
        assert list(nn.Container(a=nn.ReLU())._modules) == ["a"]
    with pytest.warns(FutureWarning, match="is now deprecated in favor of `nn.init.xavier_normal_`"):
        nn.init.xavier_normal(torch.ones(2, 2))
    with pytest.raises(TypeError, match="unexpected kwargs"):
        nn.factory_kwargs({"size": 3})
    assert nn.factory_kwargs({"dtype": 1, "factory_kwargs": {"device": 2}}) == {"dtype": 1, "device": 2}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_norms_with_wider_parameters_round_once(dtype):
    x = torch.arange(24.0).reshape(2, 4, 3).sin().to(dtype).requires_grad_()
    for layer in (nn.GroupNorm(2, 4), nn.LayerNorm(3), nn.BatchNorm1d(4), nn.InstanceNorm1d(4, affine=True)):
        out = layer(x)
        assert out.dtype is dtype
        wide = layer(x.detach().float())
        assert torch.equal(out, wide.to(dtype))
        out.sum().backward()
        assert x.grad.dtype is dtype and layer.weight.grad.dtype is torch.float32
    with pytest.raises(RuntimeError, match="mixed dtype"):
        nn.GroupNorm(2, 4).double()(x)


def test_a_buffer_reaches_an_older_register_buffer():
    class Old(nn.Module):
        def register_buffer(self, name, value):
            super().register_buffer(name, value, True)

    module = Old()
    module.a = nn.Buffer(torch.ones(1))
    assert list(module.state_dict()) == ["a"]
    with pytest.raises(RuntimeError, match="Registering a non-persistent buffer on a Module subclass"):
        module.b = nn.Buffer(torch.ones(1), persistent=False)


def test_queries_without_keys_in_inference():
    layer = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x, hidden = torch.randn(2, 3, 4), torch.tensor([[True] * 3, [False, False, True]])
    with torch.no_grad():
        out, _ = layer(x, x, x, key_padding_mask=hidden, need_weights=False)
        assert out[0].isnan().all() and not out[1].isnan().any()
    out, _ = layer(x, x, x, key_padding_mask=hidden, need_weights=False)
    assert not out.isnan().any()


def test_private_names_of_functional():
    F = nn.functional
    assert F._pair(3) == (3, 3) and F._Reduction.get_enum("sum") == 2
    mask = F._canonical_mask(torch.tensor([True, False]), "mask", None, "", torch.float64)
    assert mask.tolist() == [-float("inf"), 0.0] and mask.dtype is torch.float64
    assert F._none_or_dtype(None) is None and F._none_or_dtype(mask) is torch.float64
    q = torch.randn(2, 1, 4)
    parts = F._in_projection_packed(q, q, q, torch.eye(12, 4), torch.ones(12))
    assert torch.equal(parts[0], q + 1) and torch.equal(parts[2], torch.ones(2, 1, 4))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        F._verify_batch_size([1, 3, 1])


def test_windows_of_padding_alone():
    for pool, x in ((nn.MaxPool1d, torch.ones(1, 1)), (nn.MaxPool2d, torch.ones(1, 1, 1))):
        out, places = pool(2, padding=1, dilation=2, return_indices=True)(x)
        assert out.flatten().tolist() == [-float("inf")] and places.flatten().tolist() == [-1]  # no place
