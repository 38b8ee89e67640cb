"""vmap: a function of one sample, applied to a batch at once.

Arguments are wrapped (transforms/batched.py), the function is called once, results are unwrapped; here are the checks
of dims and structures, in PyTorch's words, and chunks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.core.layout import normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.func.tree import LEAF, Structure, broadcast_prefix, flatten, unflatten
from jitgrad.ops.shape.join import cat
from jitgrad.random import default_generator
from jitgrad.transforms.batched import Batch, batch_first, batched, is_batched

__all__ = ["vmap"]

Unwrapped = tuple[list[Any], list[Any], Structure]  # (leaves with the batch as dim 0, out dims, structure)


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return ``func`` applied to each slice of its inputs along ``in_dims``, results stacked at ``out_dims``.

    ``in_dims``: an int, None (not mapped) or a tree of them like the positional arguments; keyword
    arguments are passed as they are. ``out_dims``: the same for the results. Ops run once, on the
    whole batch. ``randomness``: whether random ops are an "error", draw the "same" numbers for all
    samples, or "different" ones. ``chunk_size``: so many samples at a time.

    Values cannot be read in ``func`` (``.item()``, ``if tensor``): a RuntimeError says so. ValueError
    where dims and arguments do not fit.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        call = _Call(func, in_dims, out_dims, randomness)  # here: ``func`` is a variable that compile finds and follows
        given, dims, structure, size = call.inputs(args, kwargs)
        leaves = [v if d is None else _batch_to_front(v, d) for v, d in zip(given, dims, strict=True)]
        if chunk_size is not None and size > chunk_size:
            return call.chunked(leaves, dims, structure, size, chunk_size)
        known = {id(leaf): (v, d) for leaf, v, d in zip(leaves, given, dims, strict=True) if d}
        return call.outputs(call.run(leaves, dims, structure, size), known)

    return mapped


class _Call:
    """The arguments of one ``vmap(...)``, and the steps of calling what it returned."""

    def __init__(self, func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str):
        self.func, self.in_dims, self.out_dims, self.randomness = func, in_dims, out_dims, randomness
        self.name = getattr(func, "__name__", repr(func))

    def inputs(self, args: Any, kwargs: Any) -> tuple[list[Any], list[Any], Structure, int]:
        """(leaves, a dim or None for each, structure of (args, kwargs), size of the batch)."""
        title = f"vmap({self.name}, in_dims={self.in_dims}, ...)(<inputs>): "
        if not isinstance(self.in_dims, (int, tuple)):
            raise ValueError(
                f"{title}expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
                f"inputs, got: {type(self.in_dims)}."
            )
        if not args and not kwargs:
            raise ValueError(
                f"vmap({self.name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to "
                "vmap over a function with no inputs. The latter is unsupported."
            )
        leaves, structure = flatten(args)
        dims = broadcast_prefix(self.in_dims, structure)
        if dims is None:
            raise ValueError(
                f"{title}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
                f"{flatten(self.in_dims)[1]} but inputs has structure {structure}."
            )
        named, named_structure = flatten(kwargs)
        leaves, dims = leaves + named, dims + [None] * len(named)
        dims = [self._checked(title, value, dim) for value, dim in zip(leaves, dims, strict=True)]
        sizes = [v._layout.shape[d] for v, d in zip(leaves, dims, strict=True) if d is not None]
        if not sizes:
            raise ValueError("vmap: Expected at least one Tensor to vmap over")
        if any(s != sizes[0] for s in sizes):
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                f"{sizes} for the mapped dimension"
            )
        return leaves, dims, Structure(tuple, None, (structure, named_structure)), sizes[0]

    def _checked(self, title: str, value: Any, dim: Any) -> int | None:
        """The in dim of one leaf, not negative; ValueError, which begins with ``title``, where it does not fit."""
        if dim is None:
            return None
        if not isinstance(dim, int):
            raise ValueError(
                f"{title}Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{title}Got in_dim={dim} for an input but the input is of type {type(value)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        n = value._layout.ndim
        if not -n <= dim < n:
            raise ValueError(
                f"{title}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {n} so expected "
                f"in_dim to satisfy -{n} <= in_dim < {n}."
            )
        return dim % n

    def run(self, leaves: list[Any], dims: list[Any], structure: Structure, size: int) -> Unwrapped:
        """Call the function on leaves whose batch is dim 0, wrapped for it; return its result, unwrapped.

        ``dims``: which dim the batch was in the user's tensors; None for leaves that are passed as they are.
        """
        with Batch(size, self.randomness) as level:
            wrapped = [v if d is None else batched(level, v) for v, d in zip(leaves, dims, strict=True)]
            if any(dims):  # a batch that was not dim 0: printing and Function.vmap tell the user's dim
                for value, dim in zip(wrapped, dims, strict=True):
                    if dim:
                        value._in_dim = dim
            args, kwargs = unflatten(wrapped, structure)
            return self.unwrapped(self.func(*args, **kwargs), level)

    def unwrapped(self, result: Any, level: Any) -> Unwrapped:
        """(leaves with the batch as dim 0, out dims, structure) of a result, which ``out_dims`` must fit."""
        found, structure = flatten(result)
        dims = self._out_dims(structure)
        unwrapped = []
        for value, dim in zip(found, dims, strict=True):
            if dim is None:
                if isinstance(value, Tensor) and is_batched(value, level):
                    raise ValueError(
                        f"vmap({self.name}, ...): `{self.name}` can not return a BatchedTensor when out_dim is None"
                    )
                unwrapped.append(value)
            elif not isinstance(value, Tensor):
                raise ValueError(
                    f"vmap({self.name}, ...): `{self.name}` must only return Tensors, got type {type(value)}. Did you "
                    "mean to set out_dims= to None for output?"
                )
            else:
                unwrapped.append(batch_first(value, level))
        return unwrapped, dims, structure

    def _out_dims(self, structure: Structure) -> list[Any]:
        """The out dim, or None, of each leaf of a result."""
        dims = list(self.out_dims) if self._is_tuple_of_one(structure) else broadcast_prefix(self.out_dims, structure)
        if dims is not None and all(d is None or isinstance(d, int) for d in dims):
            return dims
        if not all(d is None or isinstance(d, int) for d in flatten(self.out_dims)[0]):
            raise ValueError(
                f"vmap({self.name}, ..., out_dims={self.out_dims}): `out_dims` must be an int, None or a python "
                "collection of ints representing where in the outputs the vmapped dimension should appear."
            )
        raise ValueError(
            f"vmap({self.name}, ..., out_dims={self.out_dims})(<inputs>): out_dims is not compatible with the "
            f"structure of `outputs`. out_dims has structure {flatten(self.out_dims)[1]} but outputs has structure "
            f"{structure}."
        )

    def _is_tuple_of_one(self, structure: Structure) -> bool:
        """Whether ``out_dims`` is a tuple of one dim although the function returned a tensor, which PyTorch allows."""
        return structure == LEAF and isinstance(self.out_dims, tuple) and len(self.out_dims) == 1

    def outputs(self, found: Unwrapped, known: dict[int, tuple[Tensor, int]]) -> Any:
        """The result with each batch at its out dim.

        ``known``: {id of a tensor with the batch in front: (the user's tensor, the dim of the batch)}, so that an
        argument that comes back unchanged is the user's tensor.
        """
        unwrapped, dims, structure = found
        moved = [v if d is None else _batch_to(v, d, known.get(id(v))) for v, d in zip(unwrapped, dims, strict=True)]
        return unflatten(moved, structure)

    def chunked(self, leaves: list[Any], dims: list[Any], structure: Structure, size: int, chunk: int) -> Any:
        """The results of ``chunk`` samples at a time, joined; with randomness "same" chunks draw the same numbers."""
        pieces, state = [], default_generator.get_state()
        for start in range(0, size, chunk):
            if self.randomness == "same":  # all chunks start from the same state, so all samples draw the same numbers
                default_generator.set_state(state)
            count = min(chunk, size - start)
            part = [v if d is None else v.narrow(0, start, count) for v, d in zip(leaves, dims, strict=True)]
            pieces.append(self.run(part, dims, structure, count))
        columns = zip(*(piece[0] for piece in pieces), strict=True)
        _, out_dims, out_structure = pieces[0]
        joined = [c[0] if d is None else cat(list(c)) for c, d in zip(columns, out_dims, strict=True)]
        return self.outputs((joined, out_dims, out_structure), {})


def _batch_to_front(x: Tensor, dim: int) -> Tensor:
    return x.movedim(dim, 0) if dim else x


def _batch_to(x: Tensor, dim: int, known: tuple[Tensor, int] | None) -> Tensor:
    dim = normalize_dim(dim, x._layout.ndim)
    if known is not None and known[1] == dim:
        return known[0]
    return x.movedim(0, dim) if dim else x
