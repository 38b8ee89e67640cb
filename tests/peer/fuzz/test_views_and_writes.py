"""Random programs of views, writes in place and their first and second derivatives, compared with torch's."""

import itertools

import numpy as np
import pytest

from .programs import Growing, difference, shortened, tensors
from .seeds import generators

torch = pytest.importorskip("torch")
PROGRAMS = 40  # a few seconds
SETUP = """
x = torch.tensor([[0.3, -0.5, 0.7], [1.1, -1.4, 0.1]], dtype=torch.float64, requires_grad=True)
w = torch.tensor([0.9, -0.8, 0.6], dtype=torch.float64, requires_grad=True)
n = x * 1
p = torch.tensor([[0.2, 1.3, -0.4], [-0.7, 0.5, 0.8]], dtype=torch.float64)
c = torch.tensor([[0.3 + 0.2j, -0.5j], [1.1 - 0.4j, 0.6]], dtype=torch.complex128, requires_grad=True)
z = c * 1
k = torch.tensor([1, 0])
"""
LEAVES = "xwc"
# Not of complex tensors: PyTorch repeats a view by ``conj`` on its base as that then lies in memory. Nor of their real
# views: when PyTorch repeats one on its base, it has forgotten the new layout, and gradients arrive transposed.
LAYOUTS = ("t", "transpose", "swapaxes", "squeeze", "unsqueeze")
# Not among them: writes that no version counts (``.data``), which change what one library has saved and the other has
# not; ``detach_`` of a tensor whose views live on, which lose their history with PyTorch's next write; products,
# ``put_`` and ``masked_scatter_`` into what they read, which PyTorch overwrites while it reads; ``out=`` of another
# shape, which PyTorch makes larger over its base's memory; ``polar`` of negative lengths, whose derivative has the
# wrong sign;
# ``scatter_reduce`` by products of a source larger than its index, of which PyTorch gives all parts a gradient.
VIEWS = [
    "{x}.t()", "{x}[0]", "{x}[1:]", "{x}[..., 1]", "{x}[:, ::2]", "{x}.view(-1)", "{x}.unsqueeze(0)", "{x}.squeeze()",
    "{x}.transpose(0, -1)", "{x}.diagonal()", "{x}.unbind()[0]", "{x}.split(1)[-1]", "{x}.chunk(2)[-1]",
    "{x}.narrow(0, 0, 1)", "{x}.detach()", "{x}.select(-1, 0)", "{x}[:, None]", "{x}[...]", "{x}.reshape(-1)",
    "{x}.movedim(0, -1)", "{x}.unfold(0, 2, 1)", "{x}.expand(2, *{x}.shape)", "{x}.view(3, 2)",
    "n.as_strided((2, 2), (1, 2))", "{x}.flatten(0, 1)", "{x}[k]", "{x}.real", "{x}.imag", "{x}.conj()", "{x}.mH",
    "torch.view_as_real({x})", "torch.view_as_complex({x}[..., :2])", "{x}.unflatten(-1, (1, -1))",
    "{x}.swapaxes(0, 1)", "{x}.hsplit(1)[0]", "{x}.view_as({x})", "{x}.expand_as({y})", "{x}.tensor_split(2)[1]",
]  # fmt: skip
WRITES = [
    "{x}.mul_(0.5)", "{x}.add_(0.1)", "{x}.mul_({y})", "{x}.add_({y})", "{x}.sub_({y}, alpha=0.5)", "{x}.div_(2)",
    "{x}.div_({y}.detach().abs() + 1)", "{x}.zero_()", "{x}.fill_(0.3)", "{x}.fill_({y}.sum())", "{x}.copy_({y})",
    "{x}.tanh_()", "{x}.sigmoid_()", "{x}.sin_()", "{x}.exp_()", "{x}.square_()", "{x}.neg_()", "{x}.relu_()",
    "{x}.clamp_(-0.5, 0.5)", "{x}.cumsum_(0)", "{x}.cumprod_(0)", "{x}.addcmul_({y}, {y})", "{x}.lerp_({y}, 0.5)",
    "{x}.masked_fill_({x} > 0.4142, 0.2)", "{x}.index_fill_(0, k[1:], 0.6)", "{x}.index_add_(0, k[1:], {y})",
    "{x}.index_copy_(0, k[:1], {y})", "{x}[0] = {y}", "{x}[...] = 0.5", "{x}[{x} > 0.3178] = 0.1", "{x}[k] = {y}",
    "{x}[{x} > 0.3178] = {y}", "{x} += {y}", "{x}.unsqueeze_(0)", "{x}.squeeze_()", "{x}.t_()", "{x}.transpose_(0, -1)",
    "with torch.no_grad(): {x}.mul_(0.5)", "{x}.scatter_(0, k[:1, None], 0.7)",
    "{x}.index_put_((k,), {y})", "{x}.index_put_((k[:1],), {y}, accumulate=True)", "{x}[k, k] = {y}", "{x}[:, k] *= 2",
    "{x}.masked_scatter_({x} > 0.3178, {y}.clone().reshape(-1))", "{x}.put_(k, {y}.clone().reshape(-1)[:2], True)",
    "{x}.scatter_add_(0, k[:1, None], {y})", "{x}.scatter_reduce_(0, k[:1, None], {y}[:1, :1], 'prod')",
    "{x}.index_reduce_(0, k[:1], {y}, 'amax')", "{x}.clamp_(min={y})", "{x}.addmm_({y}.clone(), {y} * 1)",
    "{x}.swapaxes_(0, -1)", "{x}.fill_diagonal_(0.2)", "{x}.pow_(2)", "{x}.mul_(1j)",
    "{x}.where({x}.real > 0.3178, {y}).add_(1)", "{x}.conj_physical_()",
    "torch.mul({x}.detach(), 2, out={x}.detach())", "torch.add({x}.detach(), {y}.sum().detach(), out={x}.detach())",
    "{x}.addcdiv_({y}, {y}.detach().abs() + 1)", "{x}.triu_(1)",
    "{x}.atan_()", "{x}.tanh_().square_()", "{x}.logical_not_()", "{x}.copysign_({y})", "{x}.tril_()",
]  # fmt: skip
FRESH = [
    "{x} * {y}", "{x} + {y}", "{x} - {y}", "{x}.sin()", "{x}.exp()", "{x}.tanh()", "{x}.sum(0)", "{x} * 3",
    "torch.cat([{x}, {y}])", "{x}.cumsum(0)", "{x}.cumprod(-1)", "{x}.max(0).values", "{x}.sort(0, stable=True).values",
    "{x}.softmax(-1)", "{x} @ {y}", "{x}.relu()", "torch.where({x} > 0, {x}, {y})", "{x}.mean(-1)", "{x}.clone()",
    "{x}.prod(0)", "{x}.abs()", "torch.stack([{x}, {x}])", "{x}.amax(0)", "{x}.contiguous()", "{x}.square()",
    "torch.complex({x}, {y})", "{x}.conj() * {y}", "torch.polar({x}.abs(), {y})", "{x}.take_along_dim(k[None], -1)",
    "{x}.gather(0, k[None])", "{x}.scatter(0, k[None], {y})", "{x}.index_put((k,), {y})", "torch.outer({x}, {y})",
    "torch.einsum('ij,kj->ik', {x}, {y})", "{x}.roll(1, 0)", "{x}.flip(0)", "torch.addmm({x}, {y}, {y}.mT)",
    "{x}.diff()", "torch.nn.functional.pad({x}, (1, 1))", "{x}.triu()", "{x}.diag_embed()", "{x}.clamp({y}, 0.9)",
    "{x}.norm(dim=0)", "{x}.index_select(0, k)", "{x}.repeat(2, 1)", "{x}.std(0)", "{x}.logsumexp(0)",
    "{x}.maximum({y})",
]  # fmt: skip


def _tame(scope):
    """Values that neither overflow nor amplify rounding."""
    with torch.no_grad():  # to look at a view with history may give it a new node
        return all(v.abs().max() < 50 for v in tensors(torch, scope).values() if v.numel())


def _places(tensor):
    """The places in memory, of eight bytes each, of all elements; a complex one has two."""
    wide = tensor.element_size() // 8
    strides = [s * wide for s in tensor.stride()]
    steps = [range(0, n * s, s) if s else [0] * n for n, s in zip(tensor.shape, strides, strict=True)]
    first = [tensor.data_ptr() // 8 + sum(at) for at in itertools.product(*steps)]
    return [place + part for place in first for part in range(wide)]


def _writable(x, y):
    """Whether each element has a place of its own, and none is another's of what is read.

    Of other writes PyTorch refuses some, warns of some, and computes the rest by chance.
    """
    places = _places(x)
    return len(set(places)) == len(places) and (x is y or not set(places) & set(_places(y)))


def random_program(rng):
    program, pool = Growing(torch, SETUP, _tame), rng.choice((["n", "n", "x", "p", "w"], ["z", "n", "c", "z", "z"]))
    for number in range(rng.randint(5, 30)):
        kind = rng.choice([VIEWS, VIEWS, WRITES, WRITES, WRITES, FRESH])
        name, x, y = f"v{number}", rng.choice(pool[-5:]), rng.choice(pool)
        statement = rng.choice(kind).format(x=x, y=y)
        complex_memory = any(t is not None and t.is_complex() for t in (program.scope[x], program.scope[x]._base))
        if complex_memory and any(f".{name}_(" in statement for name in LAYOUTS):
            continue
        if kind is WRITES and not _writable(program.scope[x], program.scope[y]):
            continue
        if program.add(statement if kind is WRITES else f"{name} = {statement}") and kind is not WRITES:
            pool.append(name)
    return program.statements


def _array(tensor):
    return None if tensor is None else np.array(tensor.detach().tolist())


def observe(library, scope):
    """All values; then the gradients of the leaves by all that requires grad, and those of the squared gradients.

    The second are None where torch refuses them, because of a write to what backward needs, say.
    """
    found, leaves = tensors(library, scope), [scope[name] for name in LEAVES]
    values = {name: _array(v) for name, v in found.items()}
    wide = (library.float64, library.complex128)
    recorded = [v for v in found.values() if v.requires_grad and v.dtype in wide and v.numel()]
    total = sum(((k + 1) * v.sin()).sum().real for k, v in enumerate(recorded))
    try:
        first = library.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    except RuntimeError as error:
        return values, str(error), None
    squares = sum((g * g.conj()).sum().real for g in first if g is not None)
    try:
        second = library.autograd.grad(squares, leaves, allow_unused=True)
    except RuntimeError as error:
        return values, list(map(_array, first)), str(error)
    return values, list(map(_array, first)), list(map(_array, second))


def _same(ours, theirs):
    """Whether two gradients are equal; none at all is zeros.

    jitgrad's has fewer NaN: PyTorch's second derivative of a standard deviation of 0 multiplies 0 by infinity.
    """
    ours, theirs = (np.zeros(()) if g is None else g for g in (ours, theirs))
    theirs = np.where(np.isnan(theirs), ours, theirs)
    return np.allclose(ours, theirs, 1e-7, 1e-9, equal_nan=True)


def compare(ours, theirs):
    for name, value in theirs[0].items():
        if ours[0][name].shape != value.shape or not np.allclose(ours[0][name], value, 1e-9, 1e-12):
            return f"{name} is {ours[0][name].tolist()} instead of {value.tolist()}"
    for order, (mine, expected) in enumerate(zip(ours[1:], theirs[1:], strict=True), 1):
        if isinstance(expected, str) or expected is None:
            return ""  # refused by torch, which saves more than it needs here and there
        if isinstance(mine, str):
            return f"order {order}: {mine}"
        for leaf, a, b in zip(LEAVES, mine, expected, strict=True):
            if not _same(a, b):
                return f"gradient of order {order} of {leaf} is {a} instead of {b}"
    return ""


def _found(statements):
    return difference(torch, SETUP, statements, observe, compare)


def check(rng):
    statements = random_program(rng)
    if _found(statements):
        short = shortened(statements, _found)
        pytest.fail("\n".join([SETUP, *short, "# " + _found(short)]), pytrace=False)


def test_programs():
    for rng in generators(PROGRAMS):
        check(rng)
