"""A user's pair of loops on CUDA tensors: on a GPU, or in Numba's simulator, where ``test_cuda.py`` runs them."""

import pytest

import jitgrad as torch
from jitgrad.autograd.gradcheck import GradcheckError
from jitgrad.kernels.words import exp
from jitgrad.testing import assert_close, check_pair

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="neither a GPU nor the simulator is there")


@on_cuda
def test_a_users_pair_on_cuda():
    from numba import cuda

    def scaled_forward(x, factor, out):
        for i in range(out.size):
            out[i] = exp(x[i]) * factor

    def scaled_backward(g, out, grad_x):
        for i in range(g.size):
            grad_x[i] += g[i] * out[i]

    def scaled_forward_cuda(x, factor, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = exp(x[i]) * factor

    @cuda.jit
    def scaled_backward_cuda(g, out, grad_x):
        for i in range(cuda.grid(1), g.size, cuda.gridsize(1)):
            cuda.atomic.add(grad_x, i, g[i] * out[i])

    pair = (scaled_forward_cuda, scaled_backward_cuda)
    op = torch.kernel_pair(scaled_forward, scaled_backward, cuda=pair)
    x = torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0], requires_grad=True)
    y = x.detach().cuda().requires_grad_()
    for t in (x, y):
        op(t, 0.5).sum().backward()
    assert y.grad.device == torch.device("cuda:0")
    assert_close(y.grad.cpu(), x.grad)
    step = torch.compile(lambda t, factor: torch.autograd.grad(op(t * 2, factor).sum(), t)[0] + 1)
    for k in range(3):
        assert_close(step(y * k, 0.5).cpu(), (y * k * 2).exp().detach().cpu() + 1)
    assert len(step._variants) == 1


@on_cuda
def test_a_pair_without_cuda_loops():
    def doubled_forward(x, out):
        for i in range(out.size):
            out[i] = x[i] * 2

    op = torch.kernel_pair(doubled_forward, name="doubled_once")
    with pytest.raises(NotImplementedError, match="doubled_once: has no CUDA loop beside doubled_forward; pass"):
        op(torch.ones(2, device="cuda"))


@on_cuda
def test_a_users_pair_of_several_outputs_on_cuda():
    from numba import cuda

    def largest(x, bias, out, out_at):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] > x[i, out_at[i]]:
                    out_at[i] = j
            out[i] = x[i, out_at[i]] + 0.5 * bias

    def largest_backward(g_out, out_at, grad_x):
        for i in range(grad_x.shape[0]):
            grad_x[i, out_at[i]] = g_out[i]

    def largest_cuda(out_at, out, x, bias):
        i = cuda.grid(1)
        if i < x.shape[0]:
            for j in range(x.shape[1]):
                if x[i, j] > x[i, out_at[i]]:
                    out_at[i] = j
            out[i] = x[i, out_at[i]] + 0.5 * bias

    def largest_backward_cuda(grad_x, g_out, out_at):
        i = cuda.grid(1)
        if i < grad_x.shape[0]:
            grad_x[i, out_at[i]] = g_out[i]

    op = torch.kernel_pair(
        largest, largest_backward, cuda=(largest_cuda, largest_backward_cuda),
        shape=lambda x: (x[:1], x[:1]), dtype=(None, torch.int32), rule=lambda g_out, x, out_at: torch.zeros_like(x),
    )  # fmt: skip
    x = torch.tensor([[1.0, 3.0], [5.0, 4.0]], dtype=torch.float64, requires_grad=True)
    y = x.detach().cuda().requires_grad_()
    for t in (x, y):
        values, places = op(t, 3.0)
        assert [values.requires_grad, places.requires_grad, places.dtype] == [True, False, torch.int32]
        assert [values.tolist(), places.tolist()] == [[4.5, 6.5], [1, 0]]
        (values * values).sum().backward()
    assert_close(y.grad.cpu(), x.grad)
    assert torch.autograd.grad(op(y, 3.0)[0].sum(), y, create_graph=True)[0].device == y.device
    assert op(y.detach().float(), 3.0)[0].dtype is torch.float32


@on_cuda
def test_what_a_users_cuda_loops_must_be():
    from numba import cuda

    def scaled(x, k, out):
        for i in range(out.size):
            out[i] = x[i] * k[i]

    def scaled_backward(g, k, grad_x):
        for i in range(g.size):
            grad_x[i] = g[i] * k[i]

    def scaled_cuda(x, k, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * k[i]

    def factor_cuda(x, factor, out):
        out[0] = x[0] * factor[0]

    def idle_cuda(x, k, out):
        x[0]

    def writing_cuda(x, k, out):
        x[0] = out[0] = k[0]

    for loop, message in [
        (factor_cuda, r"the CUDA loop factor_cuda has the parameters \['x', 'factor', 'out'\], but scaled has"),
        (idle_cuda, "idle_cuda never writes into out"),
        (writing_cuda, r"writing_cuda writes into its input x: x\[0\]"),
    ]:
        with pytest.raises(TypeError, match=message):
            torch.kernel_pair(scaled, cuda=loop)
    op = torch.kernel_pair(scaled, scaled_backward, cuda=scaled_cuda)
    x, k = torch.ones(2, device="cuda", requires_grad=True), torch.arange(2.0, device="cuda")
    out = op(x, k)
    assert out.tolist() == [0, 1]
    with pytest.raises(NotImplementedError, match="scaled: has no CUDA loop beside scaled_backward; pass kernel_pair"):
        out.sum().backward()
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'k'"):
        op(x, k.requires_grad_())
    with pytest.raises(RuntimeError, match="^Expected all tensors to be on the same device"):
        op(x, torch.ones(2))


@on_cuda
def test_cuda_loops_are_compared_with_the_others():
    from numba import cuda

    def square(x, out):
        for i in range(out.size):
            out[i] = x[i] * x[i]

    def square_backward(g, x, grad_x):
        for i in range(g.size):
            grad_x[i] = 2.0 * g[i] * x[i]

    def square_cuda(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * x[i]

    def square_backward_cuda(g, x, grad_x):
        i = cuda.grid(1)
        if i < g.size:
            grad_x[i] = g[i] * x[i]

    def cube_cuda(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * x[i] * x[i]

    x = torch.tensor([3.0])
    assert check_pair(torch.kernel_pair(square, square_backward, cuda=square_cuda), (x,))
    with pytest.raises(GradcheckError, match=r"cube_cuda \(.*\) gives 27 for out\[0\], but forward gives 9$"):
        check_pair(torch.kernel_pair(square, square_backward, cuda=cube_cuda), (x,))
    with pytest.raises(GradcheckError, match=r"gives 1.5 for grad_x\[0\], but the backward loop gives 3$"):
        check_pair(torch.kernel_pair(square, square_backward, cuda=(square_cuda, square_backward_cuda)), (x,))
