"""grad, grad_and_value, vjp and jvp: functions made of functions, which nest.

Reverse mode records one graph, on plain tensors. A transform makes its inputs fresh variables in
it, ``function`` records what it does with them, and the engine runs from its outputs to them. What
depends on nothing but such variables leaves the transform without history.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.autograd.backward import first_gradient
from jitgrad.autograd.forward_ad import NESTED, check_float, check_tangent
from jitgrad.core.grad_mode import state
from jitgrad.core.inference import differentiable
from jitgrad.core.node import AccumulateGrad, edge_of, node_of, reachable
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Level, Wrapped, carrier
from jitgrad.func.tree import Structure, flatten, map_leaves, unflatten
from jitgrad.ops.creation.constants import zeros_like
from jitgrad.transforms.batched import Batch, over_batches
from jitgrad.transforms.dual import dual, split
from jitgrad.transforms.gradients import bottoms, fresh, gradients, requires_grad
from jitgrad.transforms.scope import Scope

__all__ = ["Variables", "grad", "grad_and_value", "jvp", "linearize", "picked", "vjp"]

Function = Callable[..., Any]


class Variables:
    """The inputs of a function as fresh variables of the graph."""

    def __init__(self, nest: Any):
        leaves, self.structure = flatten(nest)
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
            if leaf._layout.dtype.category < 2:
                raise RuntimeError("only Tensors of floating point dtype can require gradients")
        self.recorded = state.enabled
        self.scope = Scope()
        self.leaves = _variables(leaves)
        # What the variables are made of counts as made inside the function.
        plain = [*map(carrier, self.leaves)] if state.levels else self.leaves
        for x in plain:
            x._scope = self.scope
        self.scope.own = {id(x) for x in plain if x._edge is None}
        nodes = [node_of(x._edge) for x in plain if x._edge is not None]
        self.scope.sources = {n: node_of(n.edges[0]) for n in nodes}  # type: ignore[arg-type]

    def nest(self) -> Any:
        """The variables in the structure of the inputs."""
        return unflatten(self.leaves, self.structure)

    def __call__(self, call: Callable[[Any], Any]) -> Any:
        """What a call returns that is given the variables; recorded, and watched for writes to what is captured."""
        with differentiable(), self.scope:
            return call(self.nest())

    def gradients(self, outs: Sequence[Tensor], weights: Sequence[Tensor]) -> Any:
        """Gradients of ``outs`` in the structure of the inputs, zeros where none arrives."""
        create = state.enabled and (self.reaches_out(outs) or any(map(requires_grad, weights)))
        found = gradients(outs, self.leaves, weights, create_graph=create)
        full = [zeros_like(x) if g is None else g
                for g, x in zip(found, self.leaves, strict=True)]  # fmt: skip
        return unflatten(self.released(full, state.enabled), self.structure)

    def reaches_out(self, outs: Sequence[Tensor], closed: set[Any] | None = None) -> bool:
        """Whether the history of ``outs`` leads to a variable other than these.

        ``closed`` holds nodes that are known not to, and takes up those that are found.
        """
        closed = set() if closed is None else closed
        starts = {node_of(e) for o in outs for t in bottoms(o) if t._requires_grad and (e := edge_of(t)) is not None}
        found = []
        for node in reachable(starts - closed, closed):
            if isinstance(node, AccumulateGrad) and not self.ends(node.variable):
                return True
            found.append(node)
        closed.update(found)
        return False

    def ends(self, leaf: Tensor | None) -> bool:
        """Whether nobody asks for a leaf's gradient once the function has returned."""
        if leaf is None:
            return True
        scope = leaf._scope
        if scope is not None and not scope.open and id(leaf) in scope.own:  # a variable of this function or another
            return True
        while scope is not None and scope is not self.scope:  # made while this one ran, perhaps by one inside
            scope = scope.parent
        return scope is not None

    def released(self, results: Sequence[Any], recorded: bool | None = None) -> list[Any]:
        """Results as the caller may have them: without history where that leads to these variables only."""
        closed: set[Any] = set()
        recorded = self.recorded if recorded is None else recorded
        return [
            x if not isinstance(x, Tensor) or not requires_grad(x) or (recorded and self.reaches_out([x], closed))
            else _without_history(x)
            for x in results
        ]  # fmt: skip

    def released_nest(self, nest: Any) -> Any:
        """The same for all leaves of a nest."""
        leaves, structure = flatten(nest)
        return unflatten(self.released(leaves), structure)


def _variables(leaves: Sequence[Any]) -> list[Any]:
    if state.enabled and not state.levels:
        return [fresh(leaf) for leaf in leaves]
    with differentiable():
        batches = [level for level in state.levels if isinstance(level, Batch)]
        return [fresh(over_batches(leaf, batches)) for leaf in leaves]


def _without_history(x: Any) -> Any:
    if isinstance(x, Wrapped) and x._level.open:
        return x.map(_without_history)
    return x.detach()


# -- reverse mode -----------------------------------------------------------------------------------------


def picked(args: tuple[Any, ...], argnums: Any) -> tuple[Any, ...]:
    """The positions that ``argnums`` means, checked."""
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
    """``args`` as a function that is being differentiated gets them: with other values at some places."""
    changed = dict(zip(places, values, strict=True))
    return tuple([changed[k] if k in changed else handed_in(a) for k, a in enumerate(args)])


def handed_in(nest: Any) -> Any:
    """Arguments that are not differentiated as tensors of the function's own: it may write to them.

    The memory is the caller's, the history of what is written stays inside.
    """
    return _alias(nest) if isinstance(nest, Tensor) else map_leaves(_alias, nest)


def _alias(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    if isinstance(x, Wrapped) and x._level.open:
        return x.renewed(_alias)
    result = x.detach()
    if x._requires_grad:
        result._requires_grad, result._edge = True, x._edge
        result._leaf_edge = edge_of(x) if x._edge is None else None
    return result


def _parted(title: str, result: Any) -> tuple[Any, Any]:
    """(output, aux) of a function that returns both."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{title}: output of function f should be a tuple: (output, aux) if has_aux is True")
    for leaf in flatten(result[1])[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return result


def _outputs(title: str, result: Any) -> tuple[list[Tensor], Structure]:
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
        places = picked(args, argnums)
        variables = Variables(tuple(args[k] for k in places))
        named = lambda: {name: handed_in(value) for name, value in kwargs.items()}
        out = variables(lambda values: func(*with_arguments(args, places, values), **named()))
        out, aux = _parted("grad_and_value(f)(*args)", out) if has_aux else (out, None)
        if not isinstance(out, Tensor):
            raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(out)}")
        if out.ndim:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{out.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        found = variables.gradients([out], [first_gradient(out, None, 0, edge_of(out)).detach()])
        found = found if isinstance(argnums, tuple) else found[0]
        value = variables.released([out])[0]
        return found, (value, variables.released_nest(aux)) if has_aux else value

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
    ``primals`` (as one nest if there is only one). ``has_aux``: ``func`` returns (output, aux), aux comes third.
    """
    variables = Variables(primals)
    result = variables(lambda values: func(*values))
    result, aux = _parted("vjp(f, *primals)", result) if has_aux else (result, None)
    outs, structure = _outputs("vjp(f, *primals)", result)

    def products(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        weights, given = flatten(cotangents)
        if given != structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {given.outline()}, primal output: {structure.outline()}"
            )
        pairs = enumerate(zip(outs, weights, strict=True))
        weights = [first_gradient(out, weight, k, edge_of(out)) for k, (out, weight) in pairs]
        found = variables.gradients(outs, weights)
        return found if len(primals) != 1 else (found[0],)

    value = unflatten(variables.released(outs), structure)
    return (value, products, variables.released_nest(aux)) if has_aux else (value, products)


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
    moves, moved = flatten(tangents)
    if structure != moved:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, "
            "if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{structure} and tangents with structure {moved}"
        )
    _check_tensors(values, "primals")
    _check_tensors(moves, "tangents")
    if state.forward is not None:
        raise RuntimeError(NESTED)
    with Level() as level, Scope(level):
        result = func(*unflatten([_moving(level, v, t) for v, t in zip(values, moves, strict=True)], structure))
        aux = None
        if has_aux:
            result, aux = _parted("jvp(f, primals, tangents)", result)
            aux = map_leaves(lambda x: split(x, level)[0], aux)
        outs, out_structure = _outputs("jvp(f, primals, tangents)", result)
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
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected {name} to only contain Tensors, got {type(leaf)}"
            )
    if not leaves:
        raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to contain at least one Tensor.")


def _moving(level: Level, value: Tensor, tangent: Tensor) -> Any:
    check_float(value, tangent)
    check_tangent(value, tangent)
    return dual(level, value, tangent)


def linearize(func: Function, *primals: Any) -> Any:
    """Return (``func(*primals)``, the function from tangents to Jacobian-vector products there)."""
    values = map_leaves(lambda x: x.detach(), primals)

    def product(*tangents: Any) -> Any:
        return jvp(func, values, tangents)[1]

    return func(*primals), product
