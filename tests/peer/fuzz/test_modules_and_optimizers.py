"""Random small models, losses, optimizers and schedules, trained some steps by jitgrad and by torch in float64."""

import numpy as np
import pytest

import jitgrad

from .programs import difference, sensitive, shortened
from .seeds import generators

torch = pytest.importorskip("torch")

PROGRAMS = 40  # some 10 seconds
# The models share their numbers: both libraries draw the same ones from a seed.
SETUP = """
import copy, io
nn, optim, losses = torch.nn, torch.optim, []
torch.manual_seed(0)

class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)
    def forward(self, x):
        return x + self.layers(x)

nudge = 0

def train(steps, clip=None, set_to_none=True):
    if nudge and not losses:
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(1 + 1e-13 * torch.arange(p.numel(), dtype=p.dtype).add_(nudge).sin_().view_as(p))
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = criterion(net(x), y).sum()
        loss.backward()
        losses.append(loss.item())
        if clip is not None:
            losses.append(float(nn.utils.clip_grad_norm_(net.parameters(), clip)))
        optimizer.step()
        if "schedule" in globals():
            schedule.step()

def stored(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)
"""
NUDGES = [f"nudge = {n}\n" for n in (1, 2, 3, 4)]
# Not Hardsigmoid and Hardswish: PyTorch multiplies by 1 / 6 rounded to float32, also in float64.
ACTIVATIONS = (
    "ReLU()", "LeakyReLU({small})", "ELU({small})", "CELU({large})", "SELU()", "GELU()", "GELU(approximate='tanh')",
    "SiLU()", "Mish()", "Tanh()", "Sigmoid()", "LogSigmoid()", "Softplus({large}, 3)", "Softshrink({small})",
    "Hardshrink({small})", "Hardtanh(-{small}, {large})", "ReLU6()", "Threshold({small}, -1)", "Tanhshrink()",
    "Softsign()", "Softmax(1)", "LogSoftmax(1)", "Softmin(1)", "PReLU(init={small})", "Identity()",
)  # fmt: skip
# eps: large, for where the gradient is 0 but for rounding, a small one makes steps of its sign.
OPTIMIZERS = (
    "SGD(lr={rate}, weight_decay={decay}, maximize={flag})",
    "SGD(lr={rate}, momentum={small}, dampening={small}, weight_decay={decay})",
    "SGD(lr={rate}, momentum={small}, nesterov=True, weight_decay={decay})",
    "Adam(lr={rate}, betas=({small}, 0.9), eps={eps}, weight_decay={decay}, amsgrad={flag}, maximize={flag})",
    "AdamW(lr={rate}, eps={eps}, weight_decay={decay}, amsgrad={flag})",
    "RMSprop(lr={rate}, alpha={small}, eps={eps}, momentum={momentum}, centered={flag}, weight_decay={decay})",
    "Adagrad(lr={rate}, lr_decay={decay}, eps={eps}, initial_accumulator_value={momentum}, maximize={flag})",
)
SCHEDULES = (
    "StepLR(optimizer, 2, {small})", "MultiStepLR(optimizer, [1, 3, 3], {small})", "ExponentialLR(optimizer, {small})",
    "ConstantLR(optimizer, {small}, 2)", "LinearLR(optimizer, {small}, total_iters=3)",
    "CosineAnnealingLR(optimizer, 3, eta_min=0.001)", "LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))",
)  # fmt: skip
REGRESSIONS = ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "SoftMarginLoss", "PoissonNLLLoss")


def filled(rng, text):
    """A text whose names in braces are replaced by random values of that kind, each of them anew.

    float32 holds options of layers exactly: PyTorch rounds some to it (celu's in backward), also in float64.
    """
    kinds = {
        "rate": (0.1, 0.02, 0.003), "decay": (0, 0, 0.1), "momentum": (0, 0.5), "flag": (True, False),
        "small": (0.25, 0.5, 0.875), "large": (0.75, 1.0, 2.0), "eps": (1e-2, 1e-3),
    }  # fmt: skip
    for kind, values in kinds.items():
        while f"{{{kind}}}" in text:
            text = text.replace(f"{{{kind}}}", repr(rng.choice(values)), 1)
    return text


def normalization(rng, width):
    """The text of a layer that normalises rows of ``width`` numbers.

    Not GroupNorm of one number a group: all it makes are zeros, which PyTorch rounds to either side of 0, and so takes
    either of the slopes that ELU, SELU and others have there.
    """
    eps, flag, other = rng.choice((1e-5, 1e-2)), rng.random() < 0.7, rng.random() < 0.7
    return rng.choice((
        f"nn.LayerNorm({width}, {eps}, elementwise_affine={flag}, bias={other})",
        f"nn.BatchNorm1d({width}, {eps}, {rng.choice((None, 0.1, 0.5))}, affine={flag}, track_running_stats={other})",
        f"nn.GroupNorm({rng.choice([g for g in (1, 2, 3) if width % g == 0 and g < width])}, {width}, {eps}, "
        f"affine={flag})",
    ))  # fmt: skip


def layers(rng, width, depth):
    """Texts of some layers for rows of ``width`` numbers, and the width that they make of it."""
    texts = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if kind < 0.35:
            wider = rng.randint(2, 6)
            texts.append(f"nn.Linear({width}, {wider}, bias={rng.random() < 0.8})")
            width = wider
        elif kind < 0.7:
            known = [a for a in ACTIVATIONS if hasattr(jitgrad.nn, a.split("(")[0])]
            texts.append("nn." + filled(rng, rng.choice(known)))
        elif kind < 0.85 or depth == 0:
            texts.append(normalization(rng, width))
        else:
            inner, made = layers(rng, width, depth - 1)
            texts.append(f"Residual({', '.join([*inner, f'nn.Linear({made}, {width})'])})")
    return texts, width


def criterion(rng, rows, width):
    """The texts of a loss and of its target, for outputs of rows x width."""
    reduction = rng.choice(("mean", "sum", "none"))
    if rng.random() < 0.4 and width > 1:
        smoothing = rng.choice((0.0, 0.1))
        text = f"nn.CrossEntropyLoss(label_smoothing={smoothing}, reduction={reduction!r})"
        return text, f"torch.randint(0, {width}, ({rows},))"
    if rng.random() < 0.3:
        return f"nn.BCEWithLogitsLoss(reduction={reduction!r})", f"torch.rand({rows}, {width}).double()"
    known = [name for name in REGRESSIONS if hasattr(jitgrad.nn, name)]
    return f"nn.{rng.choice(known)}(reduction={reduction!r})", f"torch.rand({rows}, {width}).double()"


def events(rng):
    """What happens between steps: state goes through state_dict, files and copies; other parameters, rates, modes."""
    return rng.choice((
        "net.load_state_dict(stored(net.state_dict()))",
        "optimizer.load_state_dict(stored(optimizer.state_dict()))",
        "optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))",
        "optimizer.load_state_dict({**optimizer.state_dict(), 'state': {}})",
        "optimizer.state.clear()",
        "net, optimizer = copy.deepcopy((net, optimizer))",
        "extra = torch.ones(3, dtype=torch.float64, requires_grad=True); extra.grad = extra.detach() / 2; "
        "optimizer.add_param_group({'params': [extra], 'lr': 0.05})",
        "net.eval()",
        "net.train()",
        "next(net.parameters()).requires_grad_(False)",
        "optimizer.param_groups[0]['lr'] = 0.01",
        "net = net.float().double()",
        "schedule.load_state_dict(stored(schedule.state_dict()))",
    ))  # fmt: skip


def random_program(rng):
    rows, width = rng.randint(2, 6), rng.randint(2, 5)
    texts, made = layers(rng, width, 2)
    texts = [f"nn.Linear({width}, {width})", *texts]  # something to train
    loss, target = criterion(rng, rows, made)
    name, _, options = filled(rng, rng.choice(OPTIMIZERS)).partition("(")
    groups = rng.choice((
        "net.parameters()", "net.named_parameters()", "[{'params': [p], 'lr': 0.05} for p in net.parameters()]",
        "[{'params': p} if p.ndim > 1 else {'params': [p], 'weight_decay': 0.2} for p in net.parameters()]",
    ))  # fmt: skip
    program = [
        f"net = nn.Sequential({', '.join(texts)}).double()",
        f"x = torch.randn({rows}, {width}).double()",
        f"y = {target}",
        f"criterion = {loss}",
        f"optimizer = optim.{name}({groups}, {options}",
    ]
    if rng.random() < 0.4:
        program.append(f"schedule = optim.lr_scheduler.{filled(rng, rng.choice(SCHEDULES))}")
    for _ in range(rng.randint(1, 4)):
        program.append(f"train({rng.randint(1, 2)}, {rng.choice((None, None, 0.5))}, {rng.random() < 0.7})")
        if rng.random() < 0.6:
            program.append(events(rng))
    return [*program, "train(1)"]


def leaves(value):
    """Nested dicts and lists flat, as pairs (path, number or array or text)."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return [("", np.array(value.detach().tolist()) if hasattr(value, "detach") else value)]
    return [(f".{key}{path}", leaf) for key, inner in items for path, leaf in leaves(inner)]


def observe(library, scope):
    """The losses, all that the model and the optimizer remember, and the gradients."""
    net = scope["net"]
    grads = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
    rates = scope["schedule"].get_last_lr() if "schedule" in scope else []
    states = {"net": dict(net.state_dict()), "optimizer": scope["optimizer"].state_dict()}
    return leaves({"losses": scope["losses"], **states, "grads": grads, "rates": rates})


def same(ours, theirs):
    if isinstance(theirs, (float, np.ndarray)):
        if np.shape(ours) != np.shape(theirs):
            return False
        # Small elements may be what is left of terms as large as the largest, whose roundings they keep.
        largest = np.max(np.abs(theirs), initial=1, where=np.isfinite(theirs))
        return np.allclose(ours, theirs, 1e-7, 1e-8 * largest, equal_nan=True)
    return type(ours) is type(theirs) and ours == theirs


def _diverged(value):
    return isinstance(value, (float, np.ndarray)) and not np.max(np.abs(value), initial=0) < 1e6


def compare(ours, theirs):
    if [path for path, _ in ours] != [path for path, _ in theirs]:
        paths = [{path for path, _ in found} for found in (ours, theirs)]
        return f"only here {sorted(paths[0] - paths[1])}, only there {sorted(paths[1] - paths[0])}, or another order"
    if any(_diverged(expected) for _, expected in theirs):  # roundings decide what is left of differences then
        return ""
    for (path, mine), (_, expected) in zip(ours, theirs, strict=True):
        if not same(mine, expected):
            return f"{path[1:]} is {mine} instead of {expected}"
    return ""


def found(statements):
    return difference(torch, SETUP, statements, observe, compare)


def check(rng):
    statements = random_program(rng)
    if found(statements) and not sensitive(torch, SETUP, statements, NUDGES, observe, compare):
        short = shortened(statements, found)
        pytest.fail("\n".join([SETUP, *short, "# " + found(short)]), pytrace=False)


def test_programs():
    for rng in generators(PROGRAMS):
        check(rng)
