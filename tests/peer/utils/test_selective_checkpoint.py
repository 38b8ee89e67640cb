"""Checkpoints that keep some results, beside PyTorch."""

import pytest

from .checkpoint_cases import point, same, values


def doubles(lib, *shape):
    return values(lib, *shape, grad=False).double().requires_grad_()


def small_net(lib):
    lib.manual_seed(0)
    nn = lib.nn
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4))
    net.double()
    return lambda x: (net(x) @ net[0](x).t() + 1).exp().sum() * 2 - net[0].weight.max()


def test_what_policies_are_shown():
    def case(lib):
        seen = []
        module = lib.utils.checkpoint

        def policy(context, op, *args, **kwargs):
            if op.name() != "aten::empty.memory_format":  # of PyTorch's batch norm
                seen.append((op.name().split(".")[0], context.is_recompute))
            if op in (lib.ops.aten.mm.default, lib.ops.aten.addmm.default):
                return module.CheckpointPolicy.MUST_SAVE
            return op is lib.ops.aten.native_layer_norm.default

        contexts = lambda: module.create_selective_checkpoint_contexts(policy)
        x = doubles(lib, 5, 3)
        out = point(lib)(small_net(lib), x, use_reentrant=False, context_fn=contexts)
        return seen, out, [lib.autograd.grad(out, x)[0]]

    same(case)


@pytest.mark.parametrize("chosen", [
    lambda lib: [lib.ops.aten.mm.default], lambda lib: [], lambda lib: [lib.ops.aten.sin], lambda lib: [2],
    lambda lib: 2, lambda lib: [lib.ops.aten.exp.default, lib.ops.aten.t.default, lib.ops.aten.sum.default],
    lambda lib: lambda *args, **kwargs: lib.utils.checkpoint.CheckpointPolicy.PREFER_SAVE,
])  # fmt: skip
def test_kept_results(chosen):
    def case(lib):
        contexts = lambda: lib.utils.checkpoint.create_selective_checkpoint_contexts(chosen(lib))
        x = doubles(lib, 3, 3)
        part = lambda x: (x @ x.t()).exp().sum(1).sin()
        try:
            out = point(lib)(part, x, use_reentrant=False, context_fn=contexts)
        except (ValueError, TypeError) as error:
            return str(error).split(" of type")[0].replace("jitgrad", "torch")
        first = lib.autograd.grad(out.sum(), x, retain_graph=True)[0]
        try:
            return first, lib.autograd.grad(out.sum(), x)[0]
        except RuntimeError as error:
            return first, str(error).split(". ")[0]

    same(case)


@pytest.mark.parametrize("allowed", [False, True])
def test_kept_results_that_are_written_to(allowed):
    def case(lib):
        module, aten = lib.utils.checkpoint, lib.ops.aten
        contexts = lambda: module.create_selective_checkpoint_contexts([aten.mm.default, aten.sin.default], allowed)
        x = values(lib, 2, 2)
        out = point(lib)(lambda x: (x @ x).mul_(2).sin(), x, use_reentrant=False, context_fn=contexts)
        try:
            out.sum().backward()
        except RuntimeError as error:
            return str(error)
        return "no error"

    same(case)
