"""Random programs of views and writes in place."""

import random

import pytest

from .inplace_programs import check, run

torch = pytest.importorskip("torch")


# Parts of which random programs are made. What torch refuses is left out of them, for the most part; so are
# combinations where we differ on purpose: writes into expanded memory, which torch warns of, and reading what
# is being written through another view with gaps, which it does not notice.
PART = [
    "{x}.t()", "{x}[0]", "{x}[1:]", "{x}[..., 1]", "{x}.view(-1)", "{x}.unsqueeze(0)", "{x}.squeeze()",
    "{x}.transpose(0, -1)", "{x}.diagonal()", "{x}.unbind()[0]", "{x}.split(1)[0]", "{x}.chunk(2)[-1]",
    "{x}.narrow(0, 0, 1)", "{x}.detach()", "{x}.select(-1, 0)", "{x}[:, None]", "{x}[...]", "{x}.reshape(-1)",
    "{x}[[0]]", "{x}.movedim(0, -1)", "{x}.data",
]  # fmt: skip
WRITE = [
    "{x}.mul_(2)", "{x}.add_(1)", "{x}.mul_({y})", "{x}.add_({y})", "{x}.zero_()", "{x}.fill_(3)", "{x}.tanh_()",
    "{x}.sigmoid_()", "{x}.copy_({y})", "{x}[0] = {y}", "{x}[...] = 1.5", "{x}.unsqueeze_(0)", "{x}.t_()",
    "{x}.squeeze_()",
    "{x}.transpose_(0, -1)", "{x}.masked_fill_({x} > 0, 0.5)", "{x}.index_fill_(0, k[1:], 2.0)", "{x}.clamp_(-1, 1)",
    "{x}.neg_()", "{x}.addcmul_({y}, {y})", "{x}.div_(2)", "{x}.index_add_(0, k[1:], {y})", "{x}.sub_({y}, alpha=2)",
    "{x}.relu_()", "{x}[[0]] = {y}", "{x}[{x} > 1] = {y}", "{x}.lerp_({y}, 0.5)", "{x} += {y}", "{x}.cumsum_(0)",
    "{x}.pow_(2)",
]  # fmt: skip
FRESH = ["{x} * {y}", "{x} + {y}", "{x}.sin()", "{x}.sum(0)", "{x} * 3", "{x}.exp()", "torch.cat([{x}, {y}])"]


def random_program(rng):
    pool, statements = ["n", "n", "m", "p", "w", "q"], []
    for name in "abdefghij"[: rng.randint(3, 9)]:
        kind = rng.choice([PART, PART, PART, WRITE, WRITE, WRITE, WRITE, FRESH])
        x, y = rng.choice(pool[-4:]), rng.choice(pool)
        statement = rng.choice(kind).format(x=x, y=y)
        statement = statement if kind is WRITE else f"{name} = {statement}"
        if isinstance(run(torch, "; ".join([*statements, statement, "None"]))["result"], tuple):
            continue
        statements.append(statement)
        pool += [] if kind is WRITE else [name]
    return "; ".join([*statements, "None"])


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed):
    rng = random.Random(seed)
    for _ in range(10):
        check(random_program(rng))
