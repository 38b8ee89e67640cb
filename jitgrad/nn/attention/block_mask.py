"""Which blocks of an attention matrix hold anything: BlockMask, and functions that say which of its elements count.

A block is empty, full or partial. Of each row of blocks there is the number of those that are not empty, and an order
of all columns that begins with them. Full ones may be kept apart: of them ``mask_mod`` need not be asked.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.nn.functional import pad

__all__ = ["BlockMask", "and_masks", "create_block_mask", "create_mask", "noop_mask", "or_masks"]

BLOCK = 128
ONE_BLOCK = 1 << 30  # the size of the only block of a mask that masks nothing


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask_mod by which every element counts."""
    return batch.new_ones(size=(), dtype=jitgrad.bool)


def sliced_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> NoReturn:
    """The mask_mod of a BlockMask that was cut out of another one: positions count from another begin there."""
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the mask_mod attribute is "
        "reset. You must set it from the original BlockMask's mask_mod."
    )


def _combined(mask_mods: tuple[Any, ...], both: bool) -> Callable[..., Tensor]:
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def combined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_full((), both, dtype=jitgrad.bool)
        for mask in mask_mods:
            found = mask(b, h, q_idx, kv_idx)
            result = result & found if both else result | found
        return result

    return combined


def and_masks(*mask_mods: Any) -> Callable[..., Tensor]:
    """The mask_mod of what counts in all ``mask_mods``."""
    return _combined(mask_mods, True)


def or_masks(*mask_mods: Any) -> Callable[..., Tensor]:
    """The mask_mod of what counts in any of ``mask_mods``."""
    return _combined(mask_mods, False)


# -- masks of functions -----------------------------------------------------------------------------------


def over_positions(function: Any, of_score: bool) -> Callable[..., Tensor]:
    """A function of one position, (b, h, q, kv), as one of vectors of them, whose result has four dims.

    of_score: whether a score, which then has four dims too, comes ahead of them.
    """
    first = (0,) if of_score else ()
    for place in (3, 2, 1, 0):
        dims = tuple(0 if k == place else None for k in range(4))
        function = jitgrad.vmap(function, in_dims=first + dims)
    return function


def _takes_score(function: Any) -> bool:
    """Whether it is a score_mod, of five arguments without a default, and no mask_mod, of four."""
    code = getattr(function, "__code__", None)
    if code is not None:
        count = code.co_argcount - len(function.__defaults__ or ())
    else:
        parameters = inspect.signature(function).parameters.values()
        count = sum(p.default is inspect.Parameter.empty for p in parameters)
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return count == 5


def create_mask(
    mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:  # fmt: skip
    """What counts for a mask_mod, or is not -inf for a score_mod, as bools (B, H, Q_LEN, KV_LEN); None stands for 1."""
    sizes = B or 1, H or 1, Q_LEN, KV_LEN
    positions = [jitgrad.arange(n, device=device) for n in sizes]
    if _takes_score(mod_fn):
        scores = over_positions(mod_fn, True)(jitgrad.zeros(sizes, device=device), *positions)
        return ~jitgrad.isneginf(scores)
    return over_positions(mod_fn, False)(*positions)


def create_block_mask(
    mask_mod: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = BLOCK, _compile: bool = False, separate_full_blocks: bool = True,
) -> BlockMask:  # fmt: skip
    """The BlockMask of ``mask_mod(b, h, q_idx, kv_idx)``, which says of one position whether it counts.

    B, H: None where all samples, or heads, have the same. separate_full_blocks: keep blocks apart that count wholly.
    AssertionError for a function of another number of arguments.
    """
    if _takes_score(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    if _compile:
        warnings.warn(
            "_compile flag on create_block_mask was originally added to work around a torch.compile limitation. It "
            "changes nothing here, and will be removed in the future.", DeprecationWarning, stacklevel=user_level(),
        )  # fmt: skip
    rows, columns = _pair(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    mask = pad(mask, (0, -KV_LEN % columns, 0, -Q_LEN % rows))
    b, h, q, kv = mask.shape
    counts = mask.view(b, h, q // rows, rows, kv // columns, columns).sum((3, 5))
    full = counts == rows * columns if separate_full_blocks else None
    partial = counts > 0 if full is None else (counts > 0) & ~full
    ordered: Any = (*_ordered(partial), *((None, None) if full is None else _ordered(full)))
    made: Any = BlockMask.from_kv_blocks
    return made(*ordered, BLOCK_SIZE=(rows, columns), mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN))


# -- blocks -----------------------------------------------------------------------------------------------


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """(how many in each row are True, the columns with these first)."""
    order = jitgrad.argsort(blocks.to(jitgrad.int32), dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=jitgrad.int32), order.to(jitgrad.int32)


def _dense(numbers: Tensor, order: Tensor) -> Tensor:
    """The inverse of ``_ordered``, as int32."""
    columns = order.shape[-1]
    valid = jitgrad.arange(columns, device=order.device) < numbers.unsqueeze(-1)
    places = jitgrad.where(valid, order, columns).to(jitgrad.int64)  # those that do not count share a place at the end
    out = order.new_zeros((*order.shape[:-1], columns + 1))
    return out.scatter(-1, places, jitgrad.ones_like(order))[..., :columns].contiguous()


def _transposed(numbers: Tensor | None, order: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    if numbers is None or order is None:
        return None, None
    return _ordered(_dense(numbers, order).transpose(-2, -1) > 0)


def _cropped(numbers: Tensor | None, order: Tensor | None, rows: int, columns: int) -> Any:
    if numbers is None or order is None:
        return None, None
    return _ordered(_dense(numbers, order)[..., :rows, :columns] > 0)


_PARTS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices",
          "q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices")  # fmt: skip


class BlockMask:
    """Which blocks of an attention matrix hold anything, for ``flex_attention``; made by ``create_block_mask``.

    ``kv_num_blocks`` (B, H, rows) and ``kv_indices`` (B, H, rows, columns) are of the partial blocks in each row,
    ``full_...`` of those that count wholly, ``q_...`` of the same by columns. ``mask_mod`` decides within blocks.
    """

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None, q_num_blocks: Tensor | None,
        q_indices: Tensor | None, full_q_num_blocks: Tensor | None, full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (BLOCK, BLOCK), mask_mod: Any = noop_mask,
    ):  # fmt: skip
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        for axis, numbers, order in (("kv", full_kv_num_blocks, full_kv_indices),
                                     ("q", full_q_num_blocks, full_q_indices)):  # fmt: skip
            if (numbers is None) != (order is None):
                raise AssertionError(
                    f"full_{axis}_num_blocks and full_{axis}_indices must be both provided or omitted"
                )
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | tuple[int, int] = BLOCK, mask_mod: Any = None,
        seq_lengths: tuple[int, int] | None = None, compute_q_blocks: bool = True,
    ) -> BlockMask:  # fmt: skip
        """The mask with these blocks in each row; ``seq_lengths``: all of them if not given."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        size = _pair(BLOCK_SIZE)
        by_columns: tuple[Any, ...] = (None,) * 4
        if compute_q_blocks:
            by_columns = (*_transposed(kv_num_blocks, kv_indices), *_transposed(full_kv_num_blocks, full_kv_indices))
        whole = kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1]
        made: Any = cls
        return made(
            whole if seq_lengths is None else seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks,
            full_kv_indices, *by_columns, BLOCK_SIZE=size, mask_mod=noop_mask if mask_mod is None else mask_mod,
        )  # fmt: skip

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """The lengths, the tensors, the sizes of blocks and ``mask_mod``."""
        lengths, size = (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        return (*lengths, *[getattr(self, name) for name in _PARTS], *size, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, length of queries, length of keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def __getitem__(self, index: Any) -> BlockMask:
        """Some samples, heads or rows of blocks; an int keeps its dim. ``mask_mod`` has to be set again."""
        given = index if isinstance(index, tuple) else (index,)
        padded = (*given, *[slice(None)] * 3)[:3]
        index = tuple([slice(i, i + 1 or None) if isinstance(i, int) else i for i in padded])
        parts: Any = [None if t is None else t[index] for t in (getattr(self, name) for name in _PARTS[:4])]
        return self._of_parts(parts, sliced_mask, self.seq_lengths)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left part, for these lengths."""
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])
        parts: Any = (*_cropped(self.kv_num_blocks, self.kv_indices, rows, columns),
                      *_cropped(self.full_kv_num_blocks, self.full_kv_indices, rows, columns))  # fmt: skip
        return self._of_parts(parts, self.mask_mod, (new_q_len, new_kv_len))

    def _of_parts(self, parts: Any, mask_mod: Any, seq_lengths: tuple[int, int]) -> BlockMask:
        """A mask with blocks of the same size, and blocks by columns if this one has them."""
        made: Any = BlockMask.from_kv_blocks
        return made(
            *parts, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=mask_mod, seq_lengths=seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip

    def to(self, device: Any) -> BlockMask:
        """The mask with its tensors on a device."""
        parts: Any = [None if t is None else t.to(device) for t in (getattr(self, name) for name in _PARTS)]
        made: Any = BlockMask
        return made(self.seq_lengths, *parts, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)

    def numel(self) -> int:
        """The number of elements of the attention matrices."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Which share of the elements lies in empty blocks, in per cent."""
        count = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            count += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - count * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """1 for blocks that hold anything, (B, H, rows, columns)."""
        found = _dense(self.kv_num_blocks, self.kv_indices)
        full = self._full_blocks()
        return found if full is None else found | full

    def _full_blocks(self) -> Tensor | None:
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return None
        return _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def counting(self, shape: tuple[int, ...]) -> Tensor | None:
        """What counts among elements (B, H, q, kv), by blocks and ``mask_mod``; None where all do."""
        if self.BLOCK_SIZE == (ONE_BLOCK, ONE_BLOCK):
            return None
        positions = [jitgrad.arange(n, device=self.kv_indices.device) for n in shape]
        inside = over_positions(self.mask_mod, False)(*positions)
        partial, full = _dense(self.kv_num_blocks, self.kv_indices), self._full_blocks()
        found = inside & self._of_elements(partial, shape)
        return found if full is None else found | self._of_elements(full, shape)

    def _of_elements(self, blocks: Tensor, shape: tuple[int, ...]) -> Tensor:
        for dim, size in zip((-2, -1), self.BLOCK_SIZE, strict=True):
            blocks = blocks.repeat_interleave(size, dim).narrow(dim, 0, shape[dim])
        return blocks > 0

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of each matrix of blocks, of ``limit`` at most: full, partial and empty ones."""
        dense, full = self.to_dense(), self._full_blocks()
        kinds = dense if full is None else dense + full
        rows, columns = (min(n, most) for n, most in zip(kinds.shape[-2:], _pair(grid_size), strict=True))
        lines, matrices = [], kinds.reshape(-1, *kinds.shape[-2:])
        for k in range(min(limit, matrices.shape[0])):
            lines.append(str(tuple(int(i) for i in jitgrad.unravel_index(jitgrad.tensor(k), kinds.shape[:-2]))))
            lines += ["".join(("  ", "░░", "██")[n] for n in row[:columns]) for row in matrices[k].tolist()[:rows]]
        return "\n".join(lines + ["..."] * (matrices.shape[0] > limit))

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string()}\n)"

    def __repr__(self) -> str:
        shapes = {name: getattr(getattr(self, name), "shape", None) for name in _PARTS}
        rest = {"BLOCK_SIZE": self.BLOCK_SIZE, "shape": self.shape, "sparsity": f"{self.sparsity():.2f}%",
                "mask_mod": getattr(self.mask_mod, "__name__", self.mask_mod)}  # fmt: skip
        return "BlockMask(\n" + ",\n".join(f"    {k}={v}" for k, v in {**shapes, **rest}.items()) + "\n)"
