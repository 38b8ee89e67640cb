"""Random programs with what changes graphs, memory and control from the side.

Hooks, custom Functions, checkpoints, views that are written to, writes to weights, modules with buffers, lists, errors.
"""

import linecache

import numpy as np

import jitgrad as torch
from jitgrad import nn
from jitgrad.utils.checkpoint import checkpoint
from tests.compiler.programs import Box, Program


class WiderProgram(Program):
    """Adds kinds of statements."""

    def statement(self):
        if self.rng.random() < 0.45:
            super().statement()
            return
        kinds = [
            self.hook, self.custom, self.checkpointed, self.aliased, self.weights, self.grads, self.fails, self.pairs,
            self.listed, self.module, self.kept, self.chosen, self.named, self.asserted, self.double, self.counted,
            self.clipped, self.inner, self.mapped, self.unpacked, self.moded, self.wrote_view, self.seeded,
        ]  # fmt: skip
        if self.depth < 3:
            kinds += [self.cleaned, self.endless, self.paired_loop, self.managed, self.early]
        kinds[self.rng.integers(len(kinds))]()

    def hook(self):
        value, name = self.pick(), self.new()
        self.add(f"{name} = {value} * 1.5")
        self.tensors.append(name)
        self.add(f"if {name}.requires_grad:")
        self.add("    " + self.pick([
            f"{name}.register_hook(lambda g: g * 0.5)", f"{name}.register_hook(lambda g: log.append(g.sum().item()))",
            f"{name}.retain_grad()", f"{name}.register_hook(lambda g: print('hook'))",
        ]))  # fmt: skip

    def custom(self):
        value, name = self.pick(), self.new()
        self.add(f"{name} = {self.pick(['Scaled', 'Noted', 'Squared'])}.apply({value})")
        self.tensors.append(name)

    def checkpointed(self):
        name, a, b = self.new(), self.pick(), self.pick()
        op = self.ops[self.rng.integers(len(self.ops))]
        call = self.pick([f"{op}, {a}, {b}", f"{op}, {a}, {b}", f"box.decided, {a}", f"box.halved, {a}"])
        self.add(f"{name} = checkpoint({call}, use_reentrant=False)")
        self.tensors.append(name)

    def aliased(self):
        value, base, view = self.pick(), self.new(), self.new()
        self.add(f"{base} = {value} * 1")
        self.add(f"{view} = {base}{self.pick(['[:]', '.view(-1).view(x.shape)', '.t().t()', '.detach()'])}")
        self.tensors += [base, view]
        if self.rng.random() < 0.5:
            self.log()
        self.add(f"{self.pick([base, view])}.{self.pick(['mul_(0.5)', 'add_(1)', 'clamp_(-2, 2)'])}")

    def wrote_view(self):
        t = self.local()
        where = self.pick(["[0]", "[:, 1:]", ".view(-1)[1:]", ".t()[0]", ".diagonal()"])
        self.add(f"{t}{where}.{self.pick(['mul_(0.5)', 'zero_()', f'add_({self.pick()}.detach().mean())'])}")

    def weights(self):
        w = self.pick(["w0", "w1"])
        self.add("with torch.no_grad():")
        self.add("    " + self.pick([f"{w}.mul_(0.9)", f"{w}[0].zero_()", f"{w}.add_({self.pick()}, alpha=0.01)",
                                     f"{w}.copy_({self.pick()} * 0.5)"]))  # fmt: skip

    def grads(self):
        w = self.pick(["w0", "w1"])
        self.add(self.pick([
            f"{w}.grad = None", f"if {w}.grad is not None: {w}.grad.mul_(0.5)",
            f"if {w}.grad is not None: log.append({w}.grad.sum().item())", "opt.zero_grad()",
            f"{w}.grad = {self.pick()}.detach() * 1", "opt.zero_grad(set_to_none=False)",
        ]))  # fmt: skip

    def fails(self):
        self.add(f"if {self.pick()}.mean() > {0.5 + abs(self.number())}:")
        self.add("    " + self.pick([
            "raise RuntimeError('out')", f"{self.pick()}[99]", "torch.zeros(2) + torch.zeros(3)",
            f"{self.pick()}.index_select(0, torch.tensor([77]))",
        ]))  # fmt: skip

    def pairs(self):
        a, b = self.new(), self.new()
        self.add(f"{a}, {b} = {self.expression()}, {self.expression()}")
        self.tensors += [a, b]
        if self.rng.random() < 0.5:
            self.add(f"{a}, {b} = {b}, {a}")

    def listed(self):
        those, name = self.new(), self.new()
        self.add(f"{those} = [{self.pick()}, {self.pick()}, {self.expression()}]")
        if self.rng.random() < 0.5:
            self.add(f"{those}.append({self.pick()} + 1)")
        if self.rng.random() < 0.3:
            self.add(f"log.append([t.sum().item() for t in {those}][0])")
        self.add(f"{name} = " + self.pick([
            f"torch.stack({those}).mean(0)", f"{those}[-1] * 2", f"sum(t.sum() for t in {those}) * {self.pick()} * 0.1",
            f"torch.stack([t * 2 for t in {those} if t.sum() > 0] or {those}).sum(0)",
        ]))  # fmt: skip
        self.tensors.append(name)

    def module(self):
        name = self.new()
        if self.rng.random() < 0.2:
            self.add(self.pick(["net.eval()", "net.train()"]))
        self.add(f"{name} = net({self.pick()})")
        self.tensors.append(name)

    def kept(self):
        self.add(self.pick([
            "box.last.mul_(0.5)", f"box.last[0] = {self.pick()}[0].detach()", "box.calls += len(log)",
            f"box.seen.append({self.pick()}.detach())", "log.append(len(box.seen))",
        ]))  # fmt: skip

    def chosen(self):
        name, a, b = self.new(), self.pick(), self.pick()
        self.add(f"{name} = " + self.pick([
            f"{a} if {self.condition()} else {b} * 2", f"({a}.sum() > 0 and {a}) if {a}.sum() > 0 else {b}",
            f"max({a}, {b}, key=lambda t: t.sum().item())",
        ]))  # fmt: skip
        self.tensors.append(name)

    def named(self):
        name = self.new()
        self.add(f"if ({name} := {self.pick()}.max().item()) > {self.number()}:")
        self.add(f"    {self.local()} = {self.pick()} * {name}")
        if self.rng.random() < 0.5:
            self.add(f"log.append({name})")

    def asserted(self):
        self.add(f"assert {self.pick()}.abs().max() < {20 + 100 * abs(self.number())}")

    def double(self):
        name, of = self.new(), self.pick()
        self.add(f"{name} = {of} * 1")
        self.add(f"if {of}.requires_grad and torch.is_grad_enabled():")
        self.add(f"    {name}, = torch.autograd.grad(({of} ** 3 + {of} * w0).sum(), {of}, create_graph=True)")
        self.tensors.append(name)

    def counted(self):
        self.add("global counter")
        self.add("counter += 1")
        self.add(f"{self.local()} = {self.pick()} + counter % 3")

    def clipped(self):
        name = self.new()
        self.add("if w0.grad is not None and w1.grad is not None:")
        self.add(f"    {name} = torch.nn.utils.clip_grad_norm_([w0, w1], 0.5)")
        self.add(f"    log.append({self.pick([f'{name}.item()', f'bool({name} > 1)', 'len(log)'])})")

    def inner(self):
        name = self.new()
        self.add(f"{name} = box.compiled({self.pick()}, {self.pick()})")
        self.tensors.append(name)

    def mapped(self):
        name, t = self.new(), self.pick()
        self.add(f"{name} = " + self.pick([
            f"torch.func.grad(lambda q: (q ** 3).sum())({t}.detach())", f"torch.vmap(lambda q: q * 2 + q.sum())({t})",
            f"torch.func.jvp(torch.sin, ({t}.detach(),), ({t}.detach(),))[1]",
        ]))  # fmt: skip
        self.tensors.append(name)

    def unpacked(self):
        first, rest = self.new(), self.new()
        self.add(f"{first}, *{rest} = {self.pick()} * 1, {self.pick()}, {self.pick()}")
        self.add(f"{self.local()} = {rest}[-1] + {first}")
        self.tensors.append(first)

    def moded(self):
        self.add(self.pick(["net.train()", "net.eval()", "w1.requires_grad_(False)", "w1.requires_grad_()",
                            "for group in opt.param_groups: group['lr'] *= 0.9"]))  # fmt: skip

    def seeded(self):
        self.add(self.pick([f"{self.local()} = {self.pick()} + torch.rand_like({self.pick()})",
                            f"torch.manual_seed({self.rng.integers(5)})", f"{self.local()} = {self.pick()}.detach()"]))

    # -- blocks

    def cleaned(self):
        self.add("try:")
        self.block(3)
        self.add("finally:")
        self.add("    log.append('through')")

    def endless(self):
        name = self.new()
        self.add(f"{name}n = 0")
        self.add("while True:")
        self.add(f"    {name}n += 1")  # first, for ``continue`` may follow
        self.add(f"    if {name}n > 3 or {self.condition()}:")
        self.add("        break")
        self.loops += 1
        self.block(2)
        self.loops -= 1

    def paired_loop(self):
        name = self.new()
        those = f"[{self.pick()}, {self.pick()} * 2]"
        head, item = self.pick([(f"{name}k, {name} in enumerate({those})", name), (f"{name} in {those}", name),
                                (f"{name}, {name}b in zip({those}, {those})", name)])  # fmt: skip
        self.add(f"for {head}:")
        known = list(self.tensors)
        self.tensors.append(item)
        self.loops += 1
        self.block(2)
        self.loops -= 1
        self.tensors = known
        if self.rng.random() < 0.3:
            self.add("else:")
            self.block(1)

    def managed(self):
        self.add(f"with {self.pick(['box', 'torch.enable_grad()', 'torch.set_grad_enabled(len(log) % 2 == 0)'])}:")
        self.block(3)

    def early(self):
        self.add("with torch.no_grad():")
        known = list(self.tensors)
        self.depth += 1
        self.statement()
        self.add(f"if {self.condition()}:")
        self.add(f"    return {self.pick()} * 2, {self.pick()}")
        self.depth -= 1
        self.tensors = known


class Scaled(torch.autograd.Function):
    """Twice the input, and three times its gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 + x * 0


class Noted(torch.autograd.Function):
    """Backward prints."""

    @staticmethod
    def forward(ctx, x):
        ctx.factor = 0.5
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        print("backward")
        return g * ctx.factor


class Squared(torch.autograd.Function):
    """Backward that decides by values."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g if g.sum() > 0 else x * g


class Net(nn.Module):
    """Buffers, dropout, and a forward that reads."""

    def __init__(self, size):
        super().__init__()
        self.layer, self.norm = nn.Linear(size, size).double(), nn.BatchNorm1d(size).double()
        self.drop, self.calls = nn.Dropout(0.2), 0

    def forward(self, x):
        self.calls += 1
        h = self.norm(torch.tanh(self.layer(x)))
        if h.abs().max() > 1.5:
            h = h * 0.5
        return self.drop(h) + x


class WiderBox(Box):
    """Keeps more, is a context manager, and has a compiled function."""

    def __init__(self, like):
        super().__init__(like)
        self.seen, self.entered = [], 0
        self.compiled = torch.compile(lambda a, b: torch.tanh(a) * b + a)

    def __enter__(self):
        self.entered += 1

    def __exit__(self, *error):
        self.entered += 10
        return False


def program(seed, ops, optimizers):
    """(step, arguments(k), state(), text) of the program of a seed."""
    rng = np.random.default_rng([seed, 1])
    n, m = (int(v) for v in rng.integers(2, 6, 2))
    text = WiderProgram(rng, sorted(ops)).write_all()
    if "box.compiled" in text:  # whose gradients can't be differentiated, but where the program around it is one
        text = text.replace("create_graph", "retain_graph")
    if "global counter" in text:  # declared once, before all else
        text = "".join(line for line in text.splitlines(True) if line.strip() != "global counter")
        text = text.replace("def step(x):\n", "def step(x):\n    global counter\n")
    weights = [torch.tensor(rng.standard_normal((n, m)), dtype=torch.float64).requires_grad_() for _ in range(2)]
    opt, log, box = optimizers[rng.integers(len(optimizers))](weights), [], WiderBox(weights[0])
    torch.manual_seed(seed)
    net = Net(m)
    file = f"<wider program {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    names = {
        "torch": torch, "w0": weights[0], "w1": weights[1], "opt": opt, "log": log, "box": box, "net": net,
        "counter": 0, "checkpoint": checkpoint, "Scaled": Scaled, "Noted": Noted, "Squared": Squared, **ops,
    }  # fmt: skip
    exec(compile(text, file, "exec"), names)

    def arguments(k):
        x = torch.tensor(np.random.default_rng(seed + k).standard_normal((n, m)), dtype=torch.float64)
        return (x.requires_grad_() if k == 4 else x,)

    def state():
        grads = [w.grad if w.grad is None else w.grad.clone() for w in (*weights, *net.parameters())]
        held = [*weights, *grads, *net.state_dict().values(), net.calls, net.training, names["counter"]]
        held += [box.last, box.calls, box.entered, *box.seen, opt.param_groups[0]["lr"]]
        return [*held, *opt.state_dict()["state"].values(), *log]

    return names["step"], arguments, state, text
