"""``hash_tensor`` against PyTorch's."""

import pytest
import torch

import jitgrad

CASES = {
    "all": lambda lib: lib.hash_tensor(lib.arange(6.0).reshape(2, 3)),
    "rows": lambda lib: lib.arange(6.0).reshape(2, 3).hash_tensor(1),
    "kept": lambda lib: lib.hash_tensor(lib.arange(6.0).reshape(2, 3), dim=[0], keepdim=True),
    "transposed": lambda lib: lib.hash_tensor(lib.arange(24).reshape(2, 3, 4).transpose(0, 2), (0, 2)),
    "whole numbers": lambda lib: lib.hash_tensor(lib.arange(-5, 5)),
    "bools": lambda lib: lib.hash_tensor(lib.tensor([True, False])),
    "float16": lambda lib: lib.hash_tensor(lib.tensor([1.5, -2.0], dtype=lib.float16)),
    "bfloat16": lambda lib: lib.hash_tensor(lib.tensor([1.5, -2.0], dtype=lib.bfloat16)),
    "many": lambda lib: lib.hash_tensor(lib.arange(300_000)),
    "NaN": lambda lib: lib.hash_tensor(lib.tensor([float("nan"), 0.0, -0.0])),
    "no dims": lambda lib: lib.hash_tensor(lib.arange(6.0), ()),
    "empty": lambda lib: lib.hash_tensor(lib.ones(2, 0), 0),
    "nothing": lambda lib: lib.hash_tensor(lib.ones(0)),
    "nothing in a row": lambda lib: lib.hash_tensor(lib.ones(2, 0), 1),
    "complex": lambda lib: lib.hash_tensor(lib.ones(1, dtype=lib.complex64)),
    "uint64": lambda lib: lib.hash_tensor(lib.ones(1).to(lib.uint64)),
    "mode": lambda lib: lib.hash_tensor(lib.ones(1), mode=1),
}


@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case):
    found = []
    for lib in (jitgrad, torch):
        try:
            result = CASES[case](lib)
            found.append((result.tolist(), str(result.dtype).rpartition(".")[2], result._is_view()))
        except (IndexError, NotImplementedError, RuntimeError) as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]
