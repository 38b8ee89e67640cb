"""grad, grad_and_value, vjp, jvp and linearize: each takes a function and differentiates it; they compose.

What is checked and refused, and how trees of arguments and results come apart, is here. The work is done by
``Variables`` (reverse mode) and by dual tensors (forward mode), both in jitgrad/transforms/.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.autograd.backward import first_gradient
from jitgrad.autograd.forward_ad import NESTED, check_float, check_tangent
from jitgrad.core.grad_mode import state
from jitgrad.core.node import edge_of
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Level
from jitgrad.func.tree import Structure, flatten, map_leaves, unflatten
from jitgrad.ops.creation.constants import zeros_like
from jitgrad.transforms.dual import dual, split
from jitgrad.transforms.gradients import alias
from jitgrad.transforms.scope import Scope
from jitgrad.transforms.variables import Variables

__all__ = ["grad", "grad_and_value", "jvp", "linearize", "positions", "vjp"]

Function = Callable[..., Any]


# -- reverse mode -----------------------------------------------------------------------------------------


def positions(args: tuple[Any, ...], argnums: Any) -> tuple[Any, ...]:
    """The positions of arguments that ``argnums`` (an int or a tuple of ints) names, none negative."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    places = tuple(n % len(args) for n in numbers)
    if len(set(places)) < len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return places


def with_arguments(args: tuple[Any, ...], places: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments for a function that is being differentiated: ``values`` at ``places``, aliases of the others."""
    changed = dict(zip(places, values, strict=True))
    return tuple([changed[k] if k in changed else undifferentiated(a) for k, a in enumerate(args)])


def undifferentiated(tree: Any) -> Any:
    """An argument that is not differentiated, its tensors as aliases.

    Writes of the function reach the caller's memory, as in PyTorch, while the caller's tensors keep their history.
    """
    return _alias(tree) if isinstance(tree, Tensor) else map_leaves(_alias, tree)


def _alias(x: Any) -> Any:
    return alias(x) if isinstance(x, Tensor) else x


def _released(variables: Variables, tree: Any) -> Any:
    """A tree of results as the caller gets them; see ``Variables.released``."""
    leaves, structure = flatten(tree)
    return unflatten(variables.released(leaves), structure)


def _split_aux(title: str, result: Any) -> tuple[Any, Any]:
    """(output, aux) of a function that returns both."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{title}: output of function f should be a tuple: (output, aux) if has_aux is True")
    for leaf in flatten(result[1])[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return result


def _checked_outputs(title: str, result: Any) -> tuple[list[Tensor], Structure]:
    """The tensors that a function returned, at least one and nothing else, and how they are nested."""
    outs, structure = flatten(result)
    if not outs or (len(outs) == 1 and outs[0] is None):
        raise RuntimeError(f"{title}: Expected f to be a function that has non-empty output (got output = {outs})")
    for out in outs:
        if not isinstance(out, Tensor):
            kind = type(out)
            raise RuntimeError(f"{title}: expected f(*primals) to return only tensors, got unsupported type {kind}")
    return outs, structure


def grad_and_value(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """Return a function that computes (gradients, value) of ``func``, which returns one number.

    ``argnums``: the positional argument, or a tuple of them, to differentiate. ``has_aux``: ``func``
    returns (output, aux), and the function (gradients, (output, aux)).
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        places = positions(args, argnums)
        leaves, structure = flatten(tuple([args[k] for k in places]))
        variables = Variables(leaves)

        def call(values: list[Any]) -> Any:
            named = {name: undifferentiated(value) for name, value in kwargs.items()}
            return func(*with_arguments(args, places, unflatten(values, structure)), **named)

        out = variables.run(call)
        out, aux = _split_aux("grad_and_value(f)(*args)", out) if has_aux else (out, None)
        if not isinstance(out, Tensor):
            raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(out)}")
        if out._layout.ndim:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{out._layout.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        found = unflatten(variables.gradients([out], [first_gradient(out, None, 0, edge_of(out))]), structure)
        found = found if isinstance(argnums, tuple) else found[0]
        value = variables.released([out])[0]
        return found, (value, _released(variables, aux)) if has_aux else value

    return wrapper


def grad(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """Return a function that computes the gradients of ``func``, which returns one number.

    ``argnums``: the positional argument, or a tuple of them, to differentiate. ``has_aux``: ``func``
    returns (output, aux), and the function (gradients, aux).
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapper


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Return (``func(*primals)``, a function from cotangents to vector-Jacobian products).

    Cotangents have the structure of the output; the products come as a tuple, one for each of
    ``primals`` (as one tree if there is only one). ``has_aux``: ``func`` returns (output, aux), aux comes third.
    """
    leaves, inputs = flatten(primals)
    variables = Variables(leaves)
    result = variables.run(lambda values: func(*unflatten(values, inputs)))
    result, aux = _split_aux("vjp(f, *primals)", result) if has_aux else (result, None)
    outs, structure = _checked_outputs("vjp(f, *primals)", result)

    def products(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        weights, given = flatten(cotangents)
        if given != structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {given.outline()}, primal output: {structure.outline()}"
            )
        pairs = enumerate(zip(outs, weights, strict=True))
        # The graph is kept, since the user may ask for products more than once.
        weights = [first_gradient(out, weight, k, edge_of(out)) for k, (out, weight) in pairs]
        found = unflatten(variables.gradients(outs, weights), inputs)
        return found if len(primals) != 1 else (found[0],)

    value = unflatten(variables.released(outs), structure)
    return (value, products, _released(variables, aux)) if has_aux else (value, products)


# -- forward mode -----------------------------------------------------------------------------------------


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Return (``func(*primals)``, its Jacobian-vector product with ``tangents``), computed together.

    ``tangents`` has the structure of ``primals``, a tuple. ``has_aux``: ``func`` returns (output, aux),
    aux comes third. ``strict``: an output that depends on no primal is a RuntimeError, not zeros.
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    values, structure = flatten(primals)
    directions, direction_structure = flatten(tangents)
    if structure != direction_structure:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, "
            "if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{structure} and tangents with structure {direction_structure}"
        )
    _check_tensors(values, "primals")
    _check_tensors(directions, "tangents")
    if state.forward is not None:
        raise RuntimeError(NESTED)
    with Level() as level, Scope(level):
        duals = [_checked_dual(level, v, t) for v, t in zip(values, directions, strict=True)]
        result = func(*unflatten(duals, structure))
        aux = None
        if has_aux:
            result, aux = _split_aux("jvp(f, primals, tangents)", result)
            aux = map_leaves(lambda x: split(x, level)[0], aux)
        outs, out_structure = _checked_outputs("jvp(f, primals, tangents)", result)
        pairs = [split(out, level) for out in outs]
        if strict and any(t is None for _, t in pairs):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
                "allowed with strict=True."
            )
        out_tangents = [zeros_like(p) if t is None else t for p, t in pairs]
    both = unflatten([p for p, _ in pairs], out_structure), unflatten(out_tangents, out_structure)
    return (*both, aux) if has_aux else both


def _check_tensors(leaves: list[Any], name: str) -> None:
    """RuntimeError unless there is a leaf and all are tensors."""
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected {name} to only contain Tensors, got {type(leaf)}"
            )
    if not leaves:
        raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to contain at least one Tensor.")


def _checked_dual(level: Level, value: Tensor, tangent: Tensor) -> Any:
    """``value`` with ``tangent``, which must fit it, as a dual tensor."""
    check_float(value, tangent)
    check_tangent(value, tangent)
    return dual(level, value, tangent)


def linearize(func: Function, *primals: Any) -> Any:
    """Return (``func(*primals)``, the function from tangents to Jacobian-vector products there)."""
    values = map_leaves(lambda x: x.detach(), primals)  # later writes to ``primals`` are seen: nothing is copied

    def product(*tangents: Any) -> Any:
        return jvp(func, values, tangents)[1]

    return func(*primals), product
