"""gradcheck and gradgradcheck: gradients compared with finite differences.

A function with complex outputs is checked as two functions, of their imaginary and of their real parts; in forward
mode the same is done to complex inputs. gradcheck_comparison.py has the comparisons. It is imported when gradcheck is
first called: this file is part of ``import jitgrad``, and few programs check gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.autograd.gradcheck_error import GradcheckError
from jitgrad.core.layout import halves

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Function = Callable[..., Any]


def gradcheck(
    func: Function, inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:  # fmt: skip
    """Compare the Jacobians of ``func`` with central differences ``(f(x + eps) - f(x - eps)) / (2 eps)``.

    func: takes tensors, returns one or a tuple. inputs: a tensor or tuple; those that require grad should
    be float64 or complex128. Entries agree if they differ by at most ``atol + rtol |numerical|``.
    raise_exception: raise GradcheckError rather than return False. nondet_tol: how far two runs of backward
    may differ. check_undefined_grad: outputs without gradient count as zeros. check_grad_dtypes: gradients
    have their inputs' dtypes. check_batched_grad, check_batched_forward_grad: the same values under ``vmap``.
    check_forward_ad, check_backward_ad: which modes. fast_mode: compare one random projection of each
    Jacobian. masked: of sparse inputs only the elements that are stored count. For complex numbers PyTorch's
    convention of gradients is expected. ValueError if no input requires grad.
    """
    from jitgrad.autograd import gradcheck_comparison as comparison
    from jitgrad.ops.sparse.gradcheck_inputs import on_dense

    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    check = comparison.Check(eps, atol, rtol, nondet_tol, check_grad_dtypes)
    arguments = comparison.as_tuple(inputs)
    if halves:  # there are sparse tensors, or there may be
        func, arguments = on_dense(func, arguments, bool(masked))
    try:
        comparison.check_inputs(arguments)
        compare = comparison.compare_projections if fast_mode else comparison.compare_entries
        if check_backward_ad:
            comparison.check_backward(func, arguments, compare, check)
        if check_forward_ad:
            comparison.check_forward(func, arguments, compare, check.in_forward_mode(), check_undefined_grad)
        if check_batched_forward_grad:
            comparison.properties.check_batched_tangents(func, arguments)
        if check_backward_ad:
            comparison.check_properties(func, arguments, check_batched_grad, check_undefined_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function, inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool = False,
) -> bool:  # fmt: skip
    """Check second derivatives: gradcheck of the gradient, as a function of inputs and grad_outputs.

    grad_outputs: gradients of the outputs; random ones by default (``gen_non_contig_grad_outputs``: not
    contiguous). check_fwd_over_rev, check_rev_over_rev: in which mode the gradient is differentiated. The
    other arguments, and what is returned and raised, are gradcheck's.
    """
    from jitgrad.autograd import gradcheck_comparison as comparison
    from jitgrad.ops.sparse.gradcheck_inputs import on_dense

    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    arguments = comparison.as_tuple(inputs)
    if halves:
        func, arguments = on_dense(func, arguments, masked)
    given = comparison.as_tuple(grad_outputs) if grad_outputs is not None else comparison.random_gradients(
        comparison.outputs_requiring_grad(func(*arguments)), gen_non_contig_grad_outputs
    )  # fmt: skip
    return gradcheck(
        comparison.gradient_of(func, arguments, given), (*arguments, *given), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad, fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, masked=masked,
    )  # fmt: skip
