"""The nodes of derived ops: each hands all its gradients' work to the op that made it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import Node
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import half_ops
from jitgrad.dispatch.structured import Structured
from jitgrad.dispatch.structured_node import StructuredNode
from jitgrad.extend.pair_backward import with_parameters, zeros_of

__all__ = ["GradientNode", "ValueNode", "structured"]

Names = tuple[str, ...]


def structured(
    name: str, inputs: Sequence[str], forward: Callable[..., Any], node: type[Any], owner: Any, several: bool,
    batch: Callable[[Any], Any], constants: Collection[str] = (),
) -> Any:  # fmt: skip
    """A structured op of these inputs, all but the constants with a gradient, for which its nodes go to ``owner``."""
    parameters = [f"in_{n}" for n in inputs]  # a user's parameter may have a name that means something to rules
    body: dict[str, Any] = {"__doc__": f"{name}, differentiated by its text.", "name": name}
    body["forward"] = with_parameters(forward, parameters)
    for p in [p for p, n in zip(parameters, inputs, strict=True) if n not in constants]:
        body[f"grad_{p}"] = with_parameters(_unused, ["g", *parameters, "out_layout"])
    title = "".join(part.capitalize() for part in name.split("_"))
    body["grad_name"] = f"{title}Backward"
    body["multiple_results"], body["batch"] = several, staticmethod(batch)
    op: Any = type(title, (Structured,), body, listed=False)
    op.node_type = type(op.grad_name, (node,), {"op": op, "owner": owner})
    return op


def _unused(*saved: Any) -> Any:
    """Stands for the rules that a structured op has; only its signature is read."""
    raise AssertionError("nodes of derived ops compute all gradients at once")


class _DerivedNode(StructuredNode):
    owner: Any
    vjp_toward = Node.vjp_toward  # a structured op's would call the rules, for which there are placeholders here

    def given(self) -> tuple[list[Any], Names, list[Any]]:
        """The arguments, the names of inputs that get a gradient, and the layouts of outputs."""
        found = self.values()
        arguments = [found[p] for p in self.op.parameters]
        return arguments, tuple([n.removeprefix("in_") for n in self.recorder.wants]), found["out_layout"]

    def in_order(self, found: dict[str, Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Gradients in the order of the edges; numbers have none."""
        pairs = zip(self.op.parameters, arguments, strict=True)
        names = [p.removeprefix("in_") for p, v in pairs if isinstance(v, Tensor) and p in self.op.grads]
        return tuple([found.get(n) for n in names])


def _seeds(grads: Sequence[Any], layouts: Sequence[Any]) -> list[Any]:
    """A seed for each output of floats: the gradient that came, or zeros."""
    pairs = zip(grads, layouts, strict=True)
    return [zeros_of(layout) if g is None else g for g, layout in pairs if layout.dtype.category == 2]


class ValueNode(_DerivedNode):
    """A recorded DerivedOp."""

    kept: Any = None  # what the forward sweep kept: see derived_op.py
    plain_release = False

    def release(self) -> None:
        """Free what was saved, and what the forward sweep kept."""
        super().release()
        self.kept = None

    def vjp(self, *grads: Any) -> tuple[Any, ...]:
        """The gradients by the reverse sweep."""
        arguments, wanted, layouts = self.given()
        kept = self.kept if self.kept is not None and self.kept.wanted == wanted else None
        if grad_state.levels or half_ops.among([*arguments, *grads]):  # calls of the op widen 16-bit floats
            return self.vjp_recorded(*grads)
        found = self.owner.adjoint(wanted).run(arguments, _seeds(grads, layouts), kept)
        return self.in_order(dict(zip(wanted, found, strict=True)), arguments)

    def vjp_recorded(self, *grads: Any) -> tuple[Any, ...]:
        """The gradients as an op, which can be differentiated again."""
        arguments, wanted, layouts = self.given()
        found = self.owner.adjoint(wanted)(arguments, _seeds(grads, layouts))
        return self.in_order(dict(zip(wanted, found, strict=True)), arguments)


class GradientNode(_DerivedNode):
    """A recorded AdjointOp; see the top of the file for its gradients."""

    def vjp(self, *grads: Any) -> tuple[Any, ...]:
        """The gradients, from the tangent and its gradient."""
        return self.vjp_recorded(*grads)

    def vjp_recorded(self, *grads: Any) -> tuple[Any, ...]:
        """As ``vjp``: both are ops."""
        arguments, wanted, _ = self.given()
        of, count = self.owner.of, len(self.owner.of.inputs)
        values, seeds = arguments[:count], arguments[count:]
        along = tuple([n for n, g in zip(self.owner.wanted, grads, strict=True) if g is not None])
        directions = [g for g in grads if g is not None]
        tangent = of.tangent(along)
        given = [*values, *directions]
        found: dict[str, Any] = {}
        inputs = tuple([n for n in wanted if n in of.inputs])
        if inputs:
            found |= dict(zip(inputs, tangent.adjoint(inputs)(given, seeds), strict=True))
        if len(inputs) < len(wanted):
            found |= {f"seed_{k}": o for k, o in enumerate(tangent(given))}
        return self.in_order(found, arguments)
