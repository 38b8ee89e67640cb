"""What PyTorch's tests of sparse tensors ask of its test framework."""

from __future__ import annotations

import functools


def names(torch):
    """The names of ``common_utils`` that make and look at sparse tensors."""

    def coalesced_on_and_off(test):
        @functools.wraps(test)
        def both(*args, **kwargs):
            for coalesced in (True, False):
                test(*args, **kwargs, coalesced=coalesced)

        return both

    def in_order(x):
        keys = torch.zeros(x._nnz(), dtype=torch.int64)
        for row, n in zip(x._indices(), x.shape, strict=False):
            keys = keys * n + row
        return bool((keys[1:] > keys[:-1]).all())

    return {"coalescedonoff": coalesced_on_and_off, "is_coalesced_indices": in_order,
            "first_sample": lambda test, samples: next(iter(samples))}  # fmt: skip


def methods(torch):
    """Methods of the class that tests derive from."""

    def gen(self, size, sparse_dim, nnz, is_uncoalesced, device, dtype):
        values = torch.testing.make_tensor([nnz, *size[sparse_dim:]], device=device, dtype=dtype, low=-1, high=1)
        index = torch.rand(sparse_dim, nnz) * torch.tensor(size[:sparse_dim]).unsqueeze(1)
        index = index.to(torch.int64)
        if is_uncoalesced:
            index = torch.cat([index[:, : nnz // 2], index[:, : (nnz + 1) // 2]], 1)
        x = torch.sparse_coo_tensor(index, values, torch.Size(size), dtype=dtype)
        x = x.detach().clone()._coalesced_(False) if is_uncoalesced else x.coalesce()
        return x, x._indices().clone(), x._values().clone()

    def safe_to_dense(self, t):
        return t.to_dense()

    return {"genSparseTensor": gen, "safeToDense": safe_to_dense, "safeCoalesce": lambda self, t: t.coalesce()}
