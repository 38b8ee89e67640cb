"""Products of two tensors to which a third is added: addmm, addmv, baddbmm."""

from __future__ import annotations

from typing import Any, ClassVar

from jitgrad.core.errors import cpp_type, scalar_type
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.declaration_checks import refuse
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Read, Written, planned
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.sizes import number_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import matmul as kernels
from jitgrad.ops.creation.constants import convert_number
from jitgrad.ops.linalg.matrix_products import (
    Bmm,
    Factor,
    MatrixProduct,
    Mm,
    Mv,
    check_inner_sizes,
    check_stacks,
    conjugate,
    gradient_of_first,
    gradient_of_second,
    multiply_stacks,
    refuse_bools,
    row_major_product,
)
from jitgrad.ops.linalg.product_batch_rules import over_added_product
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.reduction.sums import sums
from jitgrad.ops.shape.expand import summed_to

__all__ = ["Addmm"]


class AddedProduct(Structured, abstract=True):
    """Base of beta * x + alpha * (first @ second), where ``x`` broadcasts, and is not read if beta is 0.

    ``product`` is the op that multiplies the two: its gradients, times conj(alpha), are those of the factors.
    """

    product: ClassVar[type[MatrixProduct]]
    batch, older_factors = over_added_product, ("beta", "alpha")
    reference = lambda x, first, second, beta=1, alpha=1: beta * x + alpha * (first @ second)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if getattr(cls, "product", None) is None:
            raise refuse(cls, "no product is named", "set product to the MatrixProduct that is added, as Mm")
        super().__init_subclass__(**kwargs)

    @staticmethod
    def check_mixed(x: Tensor, first: Tensor, second: Tensor, *_: Any) -> None:
        """RuntimeError for tensors of different dtypes."""
        _check_same_dtype(first._layout, second._layout, x._layout)

    def grad_x(g, x_layout, beta):
        return _times_conj(summed_to(g, x_layout.shape), beta)


def _scaled(x: Tensor, factor: Any) -> Tensor:
    return x if factor == 1 else table.mul(x, factor)


def _times_conj(g: Tensor, factor: Any) -> Tensor:
    """The gradient of what was multiplied by a number."""
    if factor == 1:  # of linear layers
        return g
    return table.mul(g, factor.conjugate() if isinstance(factor, complex) else factor)


def _check_same_dtype(x: Layout, y: Layout, added: Layout) -> None:
    for name, other in (("self", added), ("mat1", x)):
        if other.dtype is not y.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {scalar_type(other.dtype)} and "
                f"{scalar_type(y.dtype)}"
            )


def _check_expands(added: Layout, shape: tuple[int, ...]) -> None:
    if added.ndim > len(shape):
        title = f"torch.{scalar_type(added.dtype)}Tensor"
        raise RuntimeError(
            f"expand({title}{{{list(added.shape)}}}, size={list(shape)}): the number of sizes "
            f"provided ({len(shape)}) must be greater or equal to the number of dimensions in the tensor ({added.ndim})"
        )
    for d in range(-1, -added.ndim - 1, -1):
        if added.shape[d] not in (1, shape[d]):
            raise RuntimeError(
                f"The expanded size of the tensor ({shape[d]}) must match the existing size ({added.shape[d]}) at "
                f"non-singleton dimension {len(shape) + d}.  Target sizes: {list(shape)}.  "
                f"Tensor sizes: {list(added.shape)}"
            )


def _plus(product: Tensor, added: Tensor, beta: Any, alpha: Any) -> Tensor:
    """alpha * product + beta * added, all unrecorded; a bias, one row for all, is added in place."""
    # The product is new and nobody else's, so a bias can be added in its memory: one pass less over the result.
    row = product._layout.ndim == 2 and added._layout.shape == product._layout.shape[1:]
    if row and added._layout.contiguous and beta == alpha == 1:
        launch(kernels.add_row, added._data, product._data)
        return product
    if type(beta) is int is type(alpha) and beta == alpha == 1:
        return table.add(product, unrecorded(added))
    beta, alpha = number_argument("addmm", "beta", None, beta), number_argument("addmm", "alpha", None, alpha)
    if product._layout.dtype.category < 3:  # of integers PyTorch takes whole factors: fractions are dropped
        beta, alpha = (convert_number(factor, product._layout.dtype) for factor in (beta, alpha))
    product = _scaled(product, alpha)
    # With beta 0 what is added is not read: infinities and NaN in it do not spread.
    return product if beta == 0 else table.add(product, _scaled(unrecorded(added), beta))


def _check_matrices(x: Layout, a: Layout, b: Layout) -> None:
    """RuntimeError unless ``x`` can be added to the product of two matrices."""
    if a.ndim != 2 or b.ndim != 2:
        which, layout = ("mat1", a) if a.ndim != 2 else ("mat2", b)
        raise RuntimeError(f"{which} must be a matrix, got {layout.ndim}-D tensor")
    _check_same_dtype(a, b, x)
    check_inner_sizes(a, b)
    _check_expands(x, (a.shape[0], b.shape[1]))
    refuse_bools(a.dtype, "addmm_impl_cpu_")


# Elements from which a sum of two matrices is left to the elementwise kernel, which threads share.
_LARGE = 1 << 14


@planned("x", "mat1", "mat2")
def _added(x, mat1, mat2):
    """x + mat1 @ mat2; what is added goes into the memory of the product, where it is a matrix or one row for all."""
    _check_matrices(x, mat1, mat2)
    product = row_major_product(Factor("mat1", mat1), Factor("mat2", mat2))
    return _adding(product, x) or (lambda x, mat1, mat2: _plus(Mm.forward(mat1, mat2), x, 1, 1))


def _adding(product: Launches, x: Layout) -> Launches | None:
    """The plan of a product and of the sum of it and tensor "x", in the product's memory.

    None unless ``x`` is row-major, and of the product's shape or one row of it.
    """
    out = product.layouts[0]
    if x.contiguous and out.ndim == 2 and x.shape == out.shape[1:]:
        add = kernels.add_row, Read("x"), Written(0)
    elif x.contiguous and x.shape == out.shape and x.numel < _LARGE:
        add = kernels.add_row, Read("x", (x.numel,)), Written(0, (1, x.numel))
    else:
        return None
    return product._replace(launches=[*product.launches, add])


@planned("x", "batch1", "batch2")
def _added_stacks(x, batch1, batch2):
    """x + batch1 @ batch2, the sum in the product's memory where ``x`` has the shape of that."""
    _check_stacks(x, batch1, batch2)
    product = row_major_product(Factor("batch1", batch1), Factor("batch2", batch2))
    _check_expands(x, product.layouts[0].shape)
    return _adding(product, x) or (lambda x, batch1, batch2: _plus(multiply_stacks(batch1, batch2), x, 1, 1))


class Addmm(AddedProduct, public=True):
    """beta * x + alpha * mat1 @ mat2; ``x`` broadcasts to the product, and is not read if beta is 0.

    RuntimeError where sizes or dtypes differ.
    """

    product = Mm
    samples = cases(
        lambda: (draw(4), draw(2, 3), draw(3, 4)),
        lambda: (draw(2, 4), draw(2, 3), draw(3, 4), 0.5, 2.0),
        lambda: (draw(2, 1), draw(3, 2).t(), draw(4, 3).t()),
    )

    def forward(x, mat1, mat2, beta=1, alpha=1):
        if beta == alpha == 1:
            return _added(x, mat1, mat2)
        _check_matrices(x._layout, mat1._layout, mat2._layout)
        return _plus(Mm.forward(mat1, mat2), x, beta, alpha)

    def grad_mat1(g, mat2, alpha):
        return _times_conj(Mm.grad_x(g, mat2), alpha)

    def grad_mat2(g, mat1, alpha):
        return _times_conj(Mm.grad_mat2(g, mat1), alpha)

    def kernel_x(g, x_layout, beta):
        # A bias of a linear layer, of one row: one reduction, without the views that summing to a shape makes.
        if x_layout.shape == g._layout.shape[1:]:
            return _times_conj(sums(g, 0), beta)
        return Addmm.grad_x(g, x_layout, beta)

    def kernel_mat1(g, mat1_layout, mat2, alpha):
        return _times_conj(gradient_of_first(g, mat1_layout, conjugate(mat2)), alpha)

    def kernel_mat2(g, mat1, mat2_layout, alpha):
        return _times_conj(gradient_of_second(g, conjugate(mat1), mat2_layout), alpha)


def _check_stacks(x: Layout, a: Layout, b: Layout) -> None:
    """RuntimeError unless ``x`` has the dtype of two stacks of matrices, which have a product."""
    if x.dtype is not a.dtype:
        names = "input {}, batch1: {}, batch2: {}".format(*[cpp_type(t.dtype) for t in (x, a, b)])
        raise RuntimeError(f"Input dtypes must be the same, got: {names}")
    check_stacks(a, b, "baddbmm")


class Addmv(AddedProduct, public=True):
    """beta * x + alpha * mat @ vec; RuntimeError where sizes or dtypes differ."""

    product = Mv
    samples = cases(lambda: (draw(2), draw(2, 3), draw(3), 0.5, 2.0))

    def check_mixed(x, mat, vec, *_):
        if not x.dtype is mat.dtype is vec.dtype:
            names = "{}, {}, and {}".format(*[scalar_type(t.dtype) for t in (x, mat, vec)])
            raise RuntimeError(f"addmv input tensors must have the same dtype, but got {names}")

    def forward(x, mat, vec, beta=1, alpha=1):
        Addmv.check_mixed(x, mat, vec)
        product = Mv.forward(mat, vec)
        _check_expands(x._layout, product._layout.shape)
        return _plus(product, x, beta, alpha)

    def grad_mat(g, vec, alpha):
        return _times_conj(Mv.grad_x(g, vec), alpha)

    def grad_vec(g, mat, alpha):
        return _times_conj(Mv.grad_vec(g, mat), alpha)

    def kernel_mat(g, vec, alpha):
        return _times_conj(Mv.kernel_x(g, vec), alpha)

    def kernel_vec(g, mat, alpha):
        return _times_conj(Mv.kernel_vec(g, mat), alpha)


class Baddbmm(AddedProduct, public=True):
    """beta * x + alpha * batch1 @ batch2; RuntimeError where sizes or dtypes differ."""

    product = Bmm
    samples = cases(lambda: (draw(4), draw(2, 2, 3), draw(2, 3, 4), 0.5, 2.0))

    def check_mixed(x, batch1, batch2, *_):
        _check_stacks(x._layout, batch1._layout, batch2._layout)

    def forward(x, batch1, batch2, beta=1, alpha=1):
        if beta == alpha == 1:
            return _added_stacks(x, batch1, batch2)
        Baddbmm.check_mixed(x, batch1, batch2)
        product = multiply_stacks(batch1, batch2)
        _check_expands(x._layout, product._layout.shape)
        return _plus(product, x, beta, alpha)

    def grad_batch1(g, batch2, alpha):
        return _times_conj(Bmm.grad_x(g, batch2), alpha)

    def grad_batch2(g, batch1, alpha):
        return _times_conj(Bmm.grad_mat2(g, batch1), alpha)

    def kernel_batch1(g, batch2, alpha):
        return _times_conj(Bmm.kernel_x(g, batch2), alpha)

    def kernel_batch2(g, batch1, alpha):
        return _times_conj(Bmm.kernel_mat2(g, batch1), alpha)


for _op in (Addmm, Baddbmm):
    method(inplace_form(_op.apply))
public(inplace_form(Addmv.apply))
