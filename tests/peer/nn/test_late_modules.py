"""Modules that are imported when they are first used: prints, parameters and results as PyTorch's from one seed."""

import numpy as np
import pytest
import torch

import jitgrad

MODULES = [
    ("SoftMarginLoss", {}), ("MultiMarginLoss", {"p": 2}), ("MultiLabelMarginLoss", {}),
    ("MultiLabelSoftMarginLoss", {}), ("HingeEmbeddingLoss", {}), ("MarginRankingLoss", {}),
    ("CosineEmbeddingLoss", {}), ("TripletMarginLoss", {"swap": True}), ("TripletMarginWithDistanceLoss", {}),
    ("PoissonNLLLoss", {}), ("GaussianNLLLoss", {}), ("CTCLoss", {}), ("CosineSimilarity", {}),
    ("PairwiseDistance", {}), ("GLU", {}), ("PReLU", {"num_parameters": 3}), ("RReLU", {"inplace": True}),
    ("Softmax2d", {}), ("Bilinear", {"in1_features": 2, "in2_features": 3, "out_features": 4}),
    ("EmbeddingBag", {"num_embeddings": 5, "embedding_dim": 3, "padding_idx": -1, "max_norm": 1.0}),
    ("EmbeddingBag", {"num_embeddings": 5, "embedding_dim": 3}), ("LinearCrossEntropyOptions", {}),
    ("LinearCrossEntropyLoss", {"in_features": 3, "num_classes": 4, "bias": True}),
    ("MultiheadAttention", {"embed_dim": 4, "num_heads": 2}),
    ("MultiheadAttention", {"embed_dim": 4, "num_heads": 2, "kdim": 3, "vdim": 5, "add_bias_kv": True, "bias": False}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), MODULES)
def test_made_alike(name, options):
    made = []
    for library in (torch, jitgrad):
        library.manual_seed(1)
        module = getattr(library.nn, name)(**options)
        state = module.state_dict() if hasattr(module, "state_dict") else {}
        made.append((repr(module).replace("jitgrad.", "torch."), {k: v.tolist() for k, v in state.items()}))
    assert made[0] == made[1]


LAYERS = [
    {}, {"kdim": 3, "vdim": 5, "add_bias_kv": True, "add_zero_attn": True}, {"batch_first": True, "dropout": 0.3},
]  # fmt: skip


@pytest.mark.parametrize("options", LAYERS)
@pytest.mark.parametrize("call", [{}, {"need_weights": False}, {"average_attn_weights": False}])
@pytest.mark.parametrize("masks", [(), ("attn_mask", "key_padding_mask")])
def test_attention_of_heads(options, call, masks):
    found = []
    first = options.get("batch_first", False)
    for library in (torch, jitgrad):
        library.manual_seed(1)
        layer = library.nn.MultiheadAttention(4, 2, **options)
        query = library.randn(3, 2, 4, requires_grad=True)
        sizes = (3, 5) if first else (5, 2)
        key, value = library.randn(*sizes, options.get("kdim", 4)), library.randn(*sizes, options.get("vdim", 4))
        target, n = (2, 3) if first else (3, 2)
        every = {
            "attn_mask": library.ones(target, 5, dtype=library.bool).triu(2),
            "key_padding_mask": library.tensor(np.arange(5 * n).reshape(n, 5) % 5 == 4),
        }
        out, weights = layer(query, key, value, **call, **{name: every[name] for name in masks})
        (out * out).sum().backward()
        results = [out, weights, query.grad, *(p.grad for p in layer.parameters())]
        found.append([r if r is None else r.detach().numpy() for r in results])
    for theirs, ours in zip(*found, strict=True):
        if theirs is None:
            assert ours is None
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
