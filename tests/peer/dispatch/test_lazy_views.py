"""Views with a conjugate or negative bit: programs of views and writes, beside PyTorch."""

import random

import pytest

import jitgrad

from .inplace_programs import check, differences, listed, run

torch = pytest.importorskip("torch")
SETUP = (
    "u = torch.tensor([[1 + 2j, -0.5 + 1j], [2 - 1j, 0.25j]], requires_grad=True); h = u * 1; "
    "v = torch.tensor([[0.5 - 1j, 3j], [-2 + 1j, 1.5 + 0j]]); "
)

PROGRAMS = listed("""
d = v.conj()
d = v.conj().conj()
d = v.mH
d = v.H
d = v.adjoint()
d = torch.adjoint(v[None])
d = v.real.mH
v.real.conj() is v.real
d = v.conj().imag
d = v.conj().real
d = v.mH.imag[0]
d = torch._neg_view(v).real; e = torch._neg_view(v).conj()
d = torch.view_as_real(torch._neg_view(v))
torch.view_as_real(v.conj())
torch.view_as_real(v.conj().resolve_conj())
v.conj().view(torch.complex64)
v.conj().view(torch.float32)
v.conj().imag.view(torch.int32)
v.conj().numpy()
v.conj().imag.numpy()
np.asarray(v.conj())
h.conj().numpy()
v.conj().__dlpack__()
d = v.conj(); d.resolve_conj() is d, v.resolve_conj() is v, v.resolve_neg() is v, d.resolve_neg() is d
d = h.conj().resolve_conj(); e = h.conj().imag.resolve_neg()
d = v.conj().clone(); e = v.conj().contiguous(); f = v.mH.contiguous()
d = v.conj().detach(); e = v.conj().data; f = d.real; g = d.imag
d = h.conj_physical(); e = h.conj().conj_physical()
d = v.conj(); v[0, 0] = 7j
d = v.conj(); v.mul_(1j); e = d[0]
d = v.conj().imag; v.fill_(2 + 3j)
d = v.conj(); d.mul_(2j)
d = v.conj(); d.add_(v.clone()); d.sub_(1j, alpha=2)
d = v.conj(); d[0] = 1j; d[1, 1] = 5 + 5j; d[:, 0] = v[0].clone()
d = v.conj(); d[[0, 1]] = 1 + 1j; d[d.abs() > 2] = 0.5j
d = v.conj(); d.fill_(1j); d.T[0].zero_()
d = v.conj().imag; d.add_(1); d[0].neg_(); d.clamp_(-1, 1)
d = v.mH; d.copy_(u.detach()); v.conj().copy_(u.detach().conj())
d = v.conj(); d.real = 1; d.imag = 2
d = v.conj(); d.neg_(); d.conj_physical_(); d.exp_()
d = v.conj().t_(); e = v.conj().unsqueeze_(0).squeeze_()
d = v.conj(); d.index_add_(0, k[1:] * 0, u.detach()[:1]); d.masked_fill_(d.real > 0, 1j)
d = v.conj(); d.cumsum_(0); d.tril_(); d.index_fill_(0, k[1:] * 0, 2j)
d = v.conj().as_strided((2,), (3,)); d.mul_(1j)
d = v.conj()[None].expand(2, 2, 2); e = d + 1
v.conj()[None].expand(2, 2, 2).add_(1)
d = v.conj(); torch.add(u.detach(), 1j, out=d)
d = v.conj().imag; torch.mul(p[:2, :2], 2, out=d)
d = v.conj(); torch.matmul(u.detach(), d, out=d.clone().conj())
d = v.conj(); d.data = v; e = v.clone(); e.data = v.conj()
d = v.conj(); d.resize_(3)
d = v.conj(); d.is_set_to(v), v.is_set_to(v), d.is_set_to(d), v.is_set_to(v[:1]), v.is_set_to(v.detach())
repr(v.conj()), repr(v.conj().imag), v.conj().tolist(), v.conj()[0, 0].item(), complex(v.conj()[0, 1])
float(v.conj().imag[0, 0]), bool(v.conj()[0, 0]), f"{v.conj().imag[0, 0]:.1f}"
d = torch.cat([v.conj(), v]); e = torch.stack([v.conj(), v.mH]); f = torch.where(v.conj().imag > 0, v.conj(), 0)
d = v.conj() @ v.mH; e = torch.einsum("ij,kj->ik", v, v.conj()); f = torch.vdot(v[0], v[1]); g = torch.mv(v.mH, v[0])
d = v.conj().sum(0); e = v.conj().imag.mean(); f = v.conj().cumprod(1); g = v.conj().imag.max(0).values
d = v.conj().imag.sort(0).values; e = v.conj().imag.softmax(0); f = v.mH.imag.argmax(); g = v.conj().imag.norm()
d = v.conj().to(torch.complex128); e = v.conj().to(torch.complex64); f = v.conj().imag.double()
d = torch.zeros_like(v.conj()); e = torch.empty_like(v.mH).zero_(); f = torch.tensor(v[0].conj().tolist())
d = h.conj(); e = (d * d).sum(); f = h.mH @ h
d = h.conj(); d.mul_(2); e = d * d
d = h.conj(); d[0] = h.detach()[1]; e = h * h
d = h.conj(); h.mul_(1j); e = d.imag
d = h.conj().imag; d.mul_(3); e = h.real
d = h.conj().real; e = h.imag; d.mul_(3); e.add_(d.detach())
d = h.mH.imag; d[0].exp_(); e = h.conj()[1]
d = torch.view_as_real(h); e = h.conj(); e.mul_(2j); d[0].mul_(0.5)
d = h.real; e = h.conj(); e.imag.mul_(2); f = d + 1
d = h.detach().conj().requires_grad_(); e = d * 1; f = e.conj().imag; f.mul_(2)
d = h.detach().conj(); e = d.imag; d.requires_grad_(); f = d * 2
d = h.conj(); d.copy_(u); e = d.imag
u.conj().mul_(2)
d = u.conj(); e = d.detach(); e.mul_(2); d.sum().real.backward()
d = h.conj(); e = d.exp(); d.mul_(2); e.sum().real.backward()
d = u.conj(); d.retain_grad(); (d * v).sum().real.backward()
with torch.no_grad(): d = u.conj(); d.mul_(2)
d = u.conj(); torch.autograd.grad((d * d.imag).sum().real, u)[0].resolve_conj()
torch.func.grad(lambda a: (a.conj() * a.imag).sum().real)(v).resolve_conj()
torch.vmap(lambda a: a.conj().mul_(2j))(v.clone())
d = torch.nn.Parameter(v.conj()); d.is_conj()
d = v.conj().imag; e = d.to(torch.int32); f = d > 0; g = torch.equal(d, -v.imag)
d = v.conj().unbind(); e = v.conj().split(1); f = v.conj().diagonal(); g = v.conj()[..., None].movedim(0, 1)
d = v.conj().flatten(); e = v.mH.reshape(4); f = v.conj().view(4).unflatten(0, (2, 2)); g = v.conj().squeeze()
d = v.conj()[k[1:] * 0]; e = v.conj()[v.real > 0]; f = v.conj().take(k[1:]); g = v.conj().gather(0, k[None] * 0)
""")


@pytest.mark.parametrize("program", PROGRAMS)
def test_views_with_bits(program):
    check(SETUP + program)


# Where versions, strides or nodes are others than PyTorch's for reasons that have nothing to do with bits.
VALUES = listed("""
d = h.conj().imag.T; e = d[0]; d.mul_(2); e.sin_()
d = v.conj(); d.set_(u.detach()); v.set_(u.detach().conj())
d = v.conj().imag.T; e = d * 2
d = copy.copy(v.conj()); e = copy.deepcopy(v.conj()); f = copy.deepcopy(v.conj().imag)
d = pickle.loads(pickle.dumps(v.conj())); e = pickle.loads(pickle.dumps(v.conj().imag)); d.mul_(1j)
d = h.conj()[0]; e = d.conj(); d.mul_(1j); e.add_(2)
torch.autograd.functional.jvp(lambda a: a.conj() * a.imag, u.detach(), v)[1].resolve_conj()
torch.func.jvp(lambda a: a.conj(), (v,), (u.detach(),))
torch.func.jvp(lambda a: a.mH.imag, (v,), (u.detach(),))
torch.func.vjp(lambda a: a.conj() * a, v)[1](u.detach())[0].resolve_conj()
torch.vmap(lambda a: a.conj())(v), torch.vmap(lambda a: a.conj().real)(v), torch.vmap(lambda a: a + 1)(v.conj())
torch.vmap(torch.func.grad(lambda a: (a.conj() * a * a).sum().real))(v).resolve_conj()
(d,) = torch.autograd.grad((u.conj() * u * u.mH.imag).sum().imag, u, create_graph=True); e = d.conj().imag * 1
""")
APART = ("stride", "version", "next", "grad_fn", "output_nr", "retains_grad", "warnings")


def only_values(left):
    """What a program leaves without strides, versions, nodes and warnings."""
    if isinstance(left, dict):
        return {k: only_values(v) for k, v in left.items() if k not in APART}
    return type(left)(map(only_values, left)) if isinstance(left, (list, tuple)) else left


def check_values(program):
    found = list(differences(only_values(run(jitgrad, program)), only_values(run(torch, program))))
    if found:
        pytest.fail("\n  ".join([program, *found]), pytrace=False)


@pytest.mark.parametrize("program", VALUES)
def test_values_of_views_with_bits(program):
    check_values(SETUP + program)


PART = [
    "{x}.conj()", "{x}.mH", "{x}.conj().imag", "{x}.imag", "{x}.real", "torch._neg_view({x})", "{x}.t()", "{x}[0]",
    "{x}[1:]", "{x}.view(-1)", "{x}.unsqueeze(0)", "{x}.diagonal()", "{x}.unbind()[0]", "{x}.select(-1, 0)",
    "{x}.detach()", "{x}.data", "{x}.resolve_conj()", "{x}.resolve_neg()", "torch.view_as_real({x})", "{x}.adjoint()",
]  # fmt: skip
WRITE = [
    "{x}.mul_(2)", "{x}.add_(1)", "{x}.mul_({y})", "{x}.add_({y})", "{x}.zero_()", "{x}.fill_(3)", "{x}.neg_()",
    "{x}.copy_({y})", "{x}[0] = {y}", "{x}[...] = 1.5", "{x}.t_()", "{x}.sin_()", "{x}.mul_(1j)",
    "{x}.masked_fill_({x}.abs() > 1, 0.5)", "{x}.imag = 2", "{x}.real = {y}", "{x}.addcmul_({y}, {y})", "{x}.square_()",
    "{x}[[0]] = {y}", "{x}.conj_physical_()", "{x}.conj().mul_({y})",
]  # fmt: skip
FRESH = ["{x} * {y}", "{x} + {y}", "{x}.sin()", "{x}.sum(0)", "{x} @ {y}", "torch.stack([{x}, {y}])", "{x}.abs()"]


def random_program(rng):
    """A program that PyTorch runs. No write has an operand in the memory of its target: torch reads what it has half
    written, we what was there."""
    pool, statements, own = ["h", "v", "v"], [SETUP.rstrip("; ")], {"h": "h", "v": "v"}
    for name in "abdefgij"[: rng.randint(3, 8)]:
        kind = rng.choice([PART, PART, PART, WRITE, WRITE, FRESH])
        x, y = rng.choice(pool[-3:]), rng.choice(pool)
        template = rng.choice(kind)
        if kind is WRITE and "{y}" in template and own[x] == own[y]:
            continue
        statement = template.format(x=x, y=y) if kind is WRITE else f"{name} = {template.format(x=x, y=y)}"
        if isinstance(run(torch, "; ".join([*statements, statement, "None"]))["result"], tuple):
            continue
        statements.append(statement)
        if kind is not WRITE:
            pool.append(name)
            own[name] = own[x] if kind is PART else name
    return "; ".join([*statements, "None"])


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    rng = random.Random(seed)
    for _ in range(10):
        check_values(random_program(rng))
