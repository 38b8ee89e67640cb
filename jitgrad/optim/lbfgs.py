"""L-BFGS: steps along the gradient times an estimate of the inverse Hessian, made of the last steps.

In tensor ops: a step evaluates the loss many times, and how often depends on what it finds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import enable_grad, no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.optim.optimizer import Optimizer
from jitgrad.optim.options import check_rate
from jitgrad.optim.strong_wolfe import strong_wolfe

__all__ = ["LBFGS"]

_REMEMBERED = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class LBFGS(Optimizer):
    """L-BFGS, with a line search for the strong Wolfe conditions if ``line_search_fn="strong_wolfe"``.

    All parameters are one vector here: one group, and state for the first of them alone. ``step(closure)`` makes up to
    ``max_iter`` iterations and ``max_eval`` evaluations of the closure (by default 1.25 ``max_iter``), and ends earlier
    where the gradient's largest element is below ``tolerance_grad`` or a change below ``tolerance_change``.
    """

    def __init__(
        self, params: Any, lr: Any = 1, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9, history_size: int = 100, line_search_fn: str | None = None,
    ):  # fmt: skip
        check_rate(lr)
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]
        self._numel_cache: int | None = None

    # -- all parameters as one vector -----------------------------------------------------------

    def _numel(self) -> int:
        if self._numel_cache is None:
            self._numel_cache = sum([p.numel() * (2 if p.is_complex() else 1) for p in self._params])
        return self._numel_cache

    def _gather_flat_grad(self) -> Tensor:
        return jitgrad.cat([_flat(p) for p in self._params], 0)

    def _add_grad(self, step_size: Any, update: Tensor) -> None:
        offset = 0
        for p in self._params:
            p = jitgrad.view_as_real(p) if p.is_complex() else p
            part = update[offset : offset + p.numel()]
            p.add_(part.view_as(p), alpha=float(step_size))
            offset += p.numel()

    def _clone_param(self) -> list[Tensor]:
        return [p.clone(memory_format=jitgrad.contiguous_format) for p in self._params]

    def _set_param(self, values: list[Tensor]) -> None:
        for p, value in zip(self._params, values, strict=True):
            p.copy_(value)

    def _directional_evaluate(
        self, closure: Callable[[], Any], x: list[Tensor], t: Any, d: Tensor
    ) -> tuple[float, Tensor]:
        """Loss and gradient at x + t d; the parameters are left at x."""
        self._add_grad(t, d)
        loss = float(closure())
        grad = self._gather_flat_grad()
        self._set_param(x)
        return loss, grad

    # -- the step -------------------------------------------------------------------------------

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Minimise; ``closure`` computes the loss anew, gradients included. Returns the loss at the start."""
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")
        closure = enable_grad()(closure)
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        run = _Run(self, group, state, closure, float(first_loss), grad)
        for _ in range(group["max_iter"]):
            if run.iterate():
                break
        state.update({name: getattr(run, name) for name in _REMEMBERED})
        return first_loss


class _Run:
    """The iterations of one step: what is remembered from the last step, and where the search is."""

    def __init__(
        self, optimizer: LBFGS, group: dict[str, Any], state: dict[str, Any], closure: Callable[[], Any], loss: float,
        grad: Tensor,
    ):  # fmt: skip
        self.optimizer, self.group, self.state, self.closure = optimizer, group, state, closure
        self.loss, self.grad, self.evaluations, self.count = loss, grad, 1, 0
        rate = group["lr"]
        self.rate = rate.squeeze() if isinstance(rate, Tensor) and rate.dim() else rate
        self.d: Any
        self.t: Any
        self.prev_flat_grad: Any
        for name in _REMEMBERED:
            setattr(self, name, state.get(name))

    def iterate(self) -> bool:
        """One iteration; whether it was the last."""
        group, state = self.group, self.state
        self.count += 1
        state["n_iter"] += 1
        first = state["n_iter"] == 1
        self.d = self._first_direction() if first else self._direction()
        if self.prev_flat_grad is None:
            self.prev_flat_grad = self.grad.clone(memory_format=jitgrad.contiguous_format)
        else:
            self.prev_flat_grad.copy_(self.grad)
        self.prev_loss = self.loss
        steepness: Any = self.grad.abs().sum()
        self.t = min(1.0, 1.0 / steepness) * self.rate if first else self.rate
        slope = self.grad.dot(self.d)
        if slope > -group["tolerance_change"]:
            return True
        evaluations, flat = self._move(slope)
        self.evaluations += evaluations
        state["func_evals"] += evaluations
        return bool(
            self.count == group["max_iter"]
            or self.evaluations >= group["max_eval"]
            or flat
            or self.d.mul(self.t).abs().max() <= group["tolerance_change"]
            or abs(self.loss - self.prev_loss) < group["tolerance_change"]
        )

    def _first_direction(self) -> Tensor:
        self.old_dirs: list[Tensor] = []
        self.old_stps: list[Tensor] = []
        self.ro: list[Tensor] = []
        self.H_diag: Any = 1
        return self.grad.neg()

    def _direction(self) -> Tensor:
        """Minus the gradient times the estimate, by the two loops over the last steps."""
        change, step = self.grad.sub(self.prev_flat_grad), self.d.mul(self.t)
        curvature = change.dot(step)
        if curvature > 1e-10:
            if len(self.old_dirs) == self.group["history_size"]:
                for kept in (self.old_dirs, self.old_stps, self.ro):
                    kept.pop(0)
            self.old_dirs.append(change)
            self.old_stps.append(step)
            self.ro.append(1.0 / curvature)
            self.H_diag = curvature / change.dot(change)
        factors = self.state.setdefault("al", [None] * self.group["history_size"])
        direction = self.grad.neg()
        for k in reversed(range(len(self.old_dirs))):
            factors[k] = self.old_stps[k].dot(direction) * self.ro[k]
            direction.add_(self.old_dirs[k] * -factors[k])
        direction = jitgrad.mul(direction, self.H_diag)
        for k in range(len(self.old_dirs)):
            factor = self.old_dirs[k].dot(direction) * self.ro[k]
            direction.add_(self.old_stps[k] * (factors[k] - factor))
        return direction

    def _move(self, slope: Tensor) -> tuple[int, Any]:
        """Go along the direction; how often the closure was called, and whether the gradient is as good as zero."""
        optimizer, group = self.optimizer, self.group
        if group["line_search_fn"] is not None:
            if group["line_search_fn"] != "strong_wolfe":
                raise RuntimeError("only 'strong_wolfe' is supported")
            x = optimizer._clone_param()

            def evaluate(t: Any) -> tuple[float, Tensor]:
                return optimizer._directional_evaluate(self.closure, x, t, self.d)

            self.loss, self.grad, self.t, evaluations = strong_wolfe(
                evaluate, self.t, self.d, self.loss, self.grad, slope, max_ls=group["max_eval"] - self.evaluations
            )
            optimizer._add_grad(self.t, self.d)
        else:
            optimizer._add_grad(self.t, self.d)
            if self.count == group["max_iter"]:  # nobody looks at the loss any more
                return 0, False
            self.loss, self.grad, evaluations = float(self.closure()), optimizer._gather_flat_grad(), 1
        return evaluations, self.grad.abs().max() <= group["tolerance_grad"]


def _flat(param: Tensor) -> Tensor:
    """A parameter's gradient as a vector of real numbers, zeros if there is none."""
    grad: Any = param._grad
    if grad is None:
        flat = jitgrad.zeros(param.numel(), dtype=param.dtype, device=param.device)
    else:
        flat = (grad.to_dense() if grad.is_sparse else grad).reshape(-1)
    return jitgrad.view_as_real(flat).view(-1) if flat.is_complex() else flat
