"""Lazy conjugates of expanded tensors are read into memory with the same overlaps, and no further."""

import numpy as np

import jitgrad as torch


def test_a_conjugate_of_an_expanded_tensor_stays_in_its_memory():
    x = torch.from_numpy(np.full((17, 1, 17), 1 + 2j)).expand(17, 40, 17)
    for _ in range(20):
        assert bool((x * x.conj() == 5).all())
