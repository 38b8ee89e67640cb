"""jacrev, jacfwd and hessian: vjp or jvp with all unit vectors at once, by vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.tensor import Tensor
from jitgrad.func.transforms import jvp, positions, vjp, with_arguments
from jitgrad.func.tree import flatten, map_leaves, unflatten
from jitgrad.func.vmap import vmap
from jitgrad.ops.creation.constants import zeros
from jitgrad.ops.shape.join import stack
from jitgrad.transforms.batched import batch_first, is_batched
from jitgrad.transforms.dual_inplace import give_batch

__all__ = ["hessian", "jacfwd", "jacrev", "unit_vectors"]

Function = Callable[..., Any]


def unit_vectors(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The identity matrix over the elements of all tensors, cut into columns: (number of elements, *shape) each."""
    sizes = [t.numel() for t in tensors]
    total, start, rows = sum(sizes), 0, []
    for tensor, size in zip(tensors, sizes, strict=True):
        part = zeros((total, size), dtype=tensor.dtype, device=tensor.device)
        part.diagonal(-start).fill_(1)  # rows from ``start`` on are this tensor's
        rows.append(part.view(total, *tensor.shape))
        start += size
    return rows


def _cut(stacked: Tensor, tensors: Sequence[Tensor], dim: int) -> list[Tensor]:
    """``stacked`` split along ``dim``, which runs over the elements of all tensors; that dim in each tensor's shape."""
    parts = stacked.split([t.numel() for t in tensors], dim)
    before, after = stacked.shape[:dim], stacked.shape[dim + 1 :]
    return [p.reshape((*before, *t.shape, *after)) for p, t in zip(parts, tensors, strict=True)]


def _check_real(name: str, tree: Any, what: str) -> None:
    """RuntimeError for complex tensors, as in PyTorch: vjp's result is no complex derivative of them."""
    for k, x in enumerate(tree if all(isinstance(x, Tensor) for x in tree) else flatten(tree)[0]):
        if isinstance(x, Tensor) and x._layout.dtype.is_complex:
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: {k}"
            )


def _each_row(pull: Function, units: Sequence[Tensor]) -> Any:
    """``pull`` of one unit vector after the other, stacked: ``chunk_size=1`` uses no vmap."""
    results = [pull(*row) for row in zip(*units, strict=True)]
    return map_leaves(lambda *rows: stack(list(rows)), *results)


def jacrev(
    func: Function, argnums: Any = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:  # fmt: skip
    """Return a function that computes the Jacobian of ``func`` in reverse mode: (*output's shape, *input's shape).

    The result has the structure of the outputs, each leaf that of ``argnums``. ``chunk_size``: so many
    rows at a time. ``has_aux``: ``func`` returns (output, aux), and the function (Jacobian, aux).
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        places = positions(args, argnums)

        def chosen(*values: Any) -> Any:
            return func(*with_arguments(args, places, values), **kwargs)

        _check_real("jacrev", args, "inputs")
        out, products, *aux = vjp(chosen, *[args[k] for k in places], has_aux=has_aux)
        outs, out_structure = flatten(out)
        _check_real("jacrev", outs, "outputs")
        pull = lambda *units: products(unflatten(units, out_structure))
        rows = _each_row(pull, unit_vectors(outs)) if chunk_size == 1 else vmap(pull, chunk_size=chunk_size)(
            *unit_vectors(outs))  # fmt: skip
        leaves, structure = flatten(rows if isinstance(argnums, tuple) else rows[0])
        columns = [_cut(leaf, outs, 0) for leaf in leaves]
        found = unflatten([unflatten(row, structure) for row in zip(*columns, strict=True)], out_structure)
        return (found, aux[0]) if has_aux else found

    return wrapper


def jacfwd(func: Function, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error") -> Function:
    """Return a function that computes the Jacobian of ``func`` in forward mode; see ``jacrev``."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _check_real("jacfwd", args, "inputs")
        places = positions(args, argnums)
        primals = tuple(args[k] for k in places)
        values, structure = flatten(primals if isinstance(argnums, tuple) else primals[0])
        for value in values:
            if not isinstance(value, Tensor):
                raise RuntimeError(f"jacfwd: Expected inputs to only contain Tensors, got {type(value)}")

        def chosen(*leaves: Any) -> Any:
            tree = unflatten(leaves, structure)
            return func(*with_arguments(args, places, tree if isinstance(argnums, tuple) else (tree,)), **kwargs)

        def push(*units: Any) -> Any:
            level: Any = state.levels[-1]
            level.give_batch = give_batch  # samples differ in tangents only; see ``Batch.give_batch``
            found = jvp(chosen, tuple(values), units, has_aux=has_aux)
            common = lambda x: batch_first(x, level)[0] if is_batched(x, level) else x  # all samples have the same aux
            return (found[1], map_leaves(common, found[2])) if has_aux else found[1]

        dims = (0, None) if has_aux else 0
        pushed = vmap(push, out_dims=dims, randomness=randomness)(*unit_vectors(values))
        moved, aux = pushed if has_aux else (pushed, None)
        outs, out_structure = flatten(moved)
        _check_real("jacfwd", outs, "outputs")
        # Each part is (*input's shape, *output's shape); in a Jacobian the output's dims come first.
        cut = [[part.movedim(tuple(range(x.ndim)), tuple(range(-x.ndim, 0))) if x.ndim else part
                for part, x in zip(_cut(out, values, 0), values, strict=True)] for out in outs]  # fmt: skip
        found = unflatten([unflatten(parts, structure) for parts in cut], out_structure)
        return (found, aux) if has_aux else found

    return wrapper


def hessian(func: Function, argnums: Any = 0) -> Function:
    """Return a function that computes the Hessian of ``func``: forward mode over reverse mode."""
    return jacfwd(jacrev(func, argnums), argnums)
