"""Random programs as text, that read numbers of tensors, decide by them, loop, return early and keep things."""

import linecache

import numpy as np

import jitgrad as torch


class Program:
    """Writes the lines of one function ``step(x)``; ``tensors`` are variables that have one for certain."""

    def __init__(self, rng, ops):
        self.rng, self.ops = rng, ops
        self.lines, self.count, self.depth = [], 0, 1
        self.tensors = ["x", "w0", "w1"]
        self.loops = self.quiet = 0

    def pick(self, those=None):
        those = those or self.tensors
        return those[self.rng.integers(len(those))]

    def local(self):
        """A variable that may be assigned to."""
        own = [t for t in self.tensors if t not in ("w0", "w1")]
        return self.pick(own)

    def new(self):
        self.count += 1
        return f"v{self.count}"

    def add(self, text):
        self.lines.append("    " * self.depth + text)

    def number(self):
        return round(float(self.rng.standard_normal()), 2)

    def expression(self):
        return f"{self.ops[self.rng.integers(len(self.ops))]}({self.pick()}, {self.pick()})"

    def block(self, most):
        """Lines in a block, whose new variables nobody can rely on."""
        known = list(self.tensors)
        self.depth += 1
        for _ in range(self.rng.integers(1, most + 1)):
            self.statement()
        self.depth -= 1
        self.tensors = known

    def condition(self):
        t = self.pick()
        return self.pick([
            f"{t}.mean().item() > {self.number()}", f"{t}.sum() > {self.number()}", f"torch.isnan({t}).any()",
            f"({t}.abs() > 2).any().item()", f"float({t}.max()) < {self.number()}", f"len({t}.nonzero()) > 5",
        ])  # fmt: skip

    def statement(self):
        kinds = [
            self.assign, self.assign, self.assign, self.rebind, self.rebind, self.branch, self.log, self.log,
            self.leave, self.scaled, self.function, self.keep, self.grad, self.write, self.view, self.text,
            self.detached, self.backward, self.masked, self.removed, self.nested,
        ]  # fmt: skip
        if self.depth < 3:
            kinds += [self.until, self.loop, self.quietly, self.attempt]
        kinds[self.rng.integers(len(kinds))]()

    def assign(self):
        value, name = self.expression(), self.new()
        self.add(f"{name} = {value}")
        self.tensors.append(name)

    def rebind(self):
        self.add(f"{self.local()} = {self.expression()}")

    def branch(self):
        self.add(f"if {self.condition()}:")
        self.block(2)
        if self.rng.random() < 0.5:
            self.add("else:")
            self.block(2)

    def log(self):
        t = self.pick()
        self.add(self.pick([
            f"log.append({t}.sum().item())", f"log.append(round({t}.mean().item(), 2) + 1)",
            f"log.append(len(log) + len({t}))", f"log.append({t}.detach().tolist()[0][0])",
        ]))  # fmt: skip

    def leave(self):
        if self.loops and self.rng.random() < 0.7:
            self.add(f"if {self.condition()}:")
            self.add(f"    {self.pick(['break', 'continue'])}")
        else:
            self.add(f"if {self.pick()}.mean() > {1 + abs(self.number())}:")
            self.add(f"    return {self.pick()}, {self.pick()}.detach()")

    def scaled(self):
        value, name = self.pick(), self.new()
        self.add(f"{name} = {value}.mean().item()")
        self.add(f"{self.local()} = {self.pick()} * {name} + {self.pick()}")

    def function(self):
        held, name = self.pick(), self.new()
        if self.rng.random() < 0.5:
            self.add(f"{name}f = lambda q: q * 0.5 + {held}")
        else:
            self.add(f"def {name}f(q):")
            self.add(f"    y = q * {self.number()}")
            if self.rng.random() < 0.3:
                self.add(f"    if y.sum() > {self.number()}: log.append('inner')")
            self.add(f"    return y + {held}")
        if self.rng.random() < 0.4:
            self.rebind()
        if self.rng.random() < 0.3:
            self.log()
        self.add(f"{name} = {name}f({self.pick()})")
        self.tensors.append(name)

    def keep(self):
        self.add(self.pick([f"box.last = {self.pick()}.detach()", "box.calls += 1", "log.append(box.calls)",
                            f"{self.local()} = {self.pick()} + box.last * 0.1"]))  # fmt: skip

    def grad(self):
        name = self.new()
        wanted = self.pick()
        self.add(f"if {wanted}.requires_grad and torch.is_grad_enabled():")
        extra = self.pick(["", "", ", create_graph=True", ", retain_graph=True"])
        self.add(f"    {name}, = torch.autograd.grad(({self.pick()} * {self.pick()} + w0).sum(), {wanted}, "
                 f"allow_unused=True{extra})")  # fmt: skip
        self.add(f"    log.append(None if {name} is None else {name}.sum().item())")

    def write(self):
        t = self.local()
        self.add(self.pick([f"{t} += {self.pick()}", f"{t}.mul_(0.5)", f"{t}[1:] = {self.pick()}[:-1].detach()"]))

    def view(self):
        value, name = self.pick(), self.new()
        self.add(f"{name} = {value}{self.pick(['.detach()', '[:]', '.t().t()', '.view_as(x)'])}")
        self.tensors.append(name)

    def detached(self):
        value, name = self.pick(), self.new()
        self.add(f"{name} = {value}.detach().clone().requires_grad_()")
        self.tensors.append(name)

    def text(self):
        self.add(self.pick(["print('here')", f"print({self.pick()}.shape, f'{{{self.pick()}.sum().item():.1f}}')"]))

    def backward(self):
        self.add("if torch.is_grad_enabled():")
        self.add(f"    loss = ({self.pick()} * {self.number()}).square().mean() + (w0 * w1).sum() * 0.1")
        if self.rng.random() < 0.4:
            self.add(f"    log.append(loss.item() > {self.number()})")
        self.add("    loss.backward()")
        self.add("    opt.step()")
        if self.rng.random() < 0.7:
            self.add("    opt.zero_grad()")

    def masked(self):
        t = self.pick()
        self.add(f"{self.local()} = {self.pick()} + {t}[{t} > {self.number()}].sum()")

    def removed(self):
        value, name = self.expression(), self.new()
        self.add(f"{name} = {value}")
        self.add(f"log.append({name}.sum().item())")
        self.add(f"del {name}")

    def nested(self):
        self.add(f"{self.local()} = box.{self.pick(['halved', 'decided'])}({self.pick()})")

    def until(self):
        t, name = self.local(), self.new()
        self.add(f"{name}n = 0")
        self.add(f"while {t}.abs().max() > {abs(self.number()) + 0.1} and {name}n < 3:")
        self.add(f"    {t} = {t} * 0.5")
        self.add(f"    {name}n += 1")
        self.loops += 1
        self.block(2)
        self.loops -= 1

    def loop(self):
        name = self.new()
        self.add(f"for {name}i in range({self.rng.integers(0, 4)}):")
        self.loops += 1
        self.block(3)
        self.loops -= 1
        if self.rng.random() < 0.2:
            self.add(f"    log.append({name}i)")

    def quietly(self):
        self.add("with torch.no_grad():")
        self.block(3)

    def attempt(self):
        self.add("try:")
        self.block(3)
        self.add(f"    if {self.condition()}:")
        self.add("        raise ValueError('stop')")
        self.add("except ValueError as error:")
        self.add("    log.append(str(error))")

    def write_all(self):
        for _ in range(self.rng.integers(3, 12)):
            self.statement()
        kept = [self.pick() for _ in range(self.rng.integers(1, 4))]
        self.add(f"return {', '.join(kept)}, {self.local()} * 2")
        return "def step(x):\n" + "\n".join(self.lines) + "\n"


class Box:
    """What programs keep things in."""

    def __init__(self, like):
        self.last, self.calls = torch.zeros_like(like), 0

    def halved(self, x):
        """A method without reads."""
        return x * 0.5 + self.last

    def decided(self, x):
        """A method with one."""
        y = x * 2 + self.last
        if y.sum() > 0:
            return y * 0.1
        return y + 1


def program(seed, ops, optimizers):
    """(step, arguments(k), state(), text) of the program of a seed."""
    rng = np.random.default_rng(seed)
    n, m = (int(v) for v in rng.integers(2, 6, 2))
    text = Program(rng, sorted(ops)).write_all()
    weights = [torch.tensor(rng.standard_normal((n, m)), dtype=torch.float64).requires_grad_() for _ in range(2)]
    opt, log, box = optimizers[rng.integers(len(optimizers))](weights), [], Box(weights[0])
    file = f"<program {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    names = {"torch": torch, "w0": weights[0], "w1": weights[1], "opt": opt, "log": log, "box": box, **ops}
    exec(compile(text, file, "exec"), names)

    def arguments(k):
        return (torch.tensor(np.random.default_rng(seed + k).standard_normal((n, m)), dtype=torch.float64),)

    def state():
        grads = [w.grad if w.grad is None else w.grad.clone() for w in weights]  # which were summed in place, or not
        return [*weights, *grads, box.last, box.calls, *opt.state_dict()["state"].values(), *log]

    return names["step"], arguments, state, text
