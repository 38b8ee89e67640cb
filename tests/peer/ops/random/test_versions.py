"""Versions of results that PyTorch makes by writing, and of those that it does not."""

import pytest
import torch

import jitgrad


@pytest.mark.parametrize(
    "text",
    [
        "nn.functional.one_hot(torch.tensor([0, 2]))", "nn.functional.one_hot(torch.tensor(1), 3)",
        "nn.functional.one_hot(torch.zeros(0, dtype=torch.int64), 3)", "bernoulli(torch.ones(3))",
        "bernoulli(torch.ones(3), 0.5)", "ones(3).bernoulli(0.5)", "ones(3).bernoulli_(0.5)", "randperm(4)",
        "normal(torch.zeros(3), torch.ones(3))", "multinomial(torch.ones(4), 2)", "empty(2).exponential_()",
    ],
)  # fmt: skip
def test_versions(text):
    versions = [eval(f"torch.{text}", {"torch": library})._version for library in (jitgrad, torch)]
    assert versions[0] == versions[1]
