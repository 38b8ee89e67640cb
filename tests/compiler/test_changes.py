"""Random changes between the calls of compiled functions, of everything that they depend on: what follows is eager's.

`test_fuzz` has random programs; here a network is trained that somebody works on meanwhile.
``JITGRAD_FUZZ_CHANGES`` and ``JITGRAD_FUZZ_SEED`` run more of them, and others.
"""

import contextlib
import copy
import os
import random
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import whole

F = nn.functional
WORLDS, SEED = int(os.environ.get("JITGRAD_FUZZ_CHANGES", 10)), int(os.environ.get("JITGRAD_FUZZ_SEED", 0))
ROUNDS = 12
ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.GELU, nn.Sigmoid, nn.ELU, nn.Softplus)
OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05), "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01), "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}  # fmt: skip


class World:
    """A network, its optimiser, settings, and a step: compiled whole, its loss alone, or the network alone."""

    def __init__(self, seed, compiled):
        choose = random.Random(seed)
        torch.manual_seed(seed)
        layers, width = [], 4
        for _ in range(choose.randint(1, 3)):
            new = choose.choice([3, 4, 5])
            layers.append(nn.Linear(width, new, bias=choose.random() < 0.8))
            norm = choose.choice([None, None, nn.BatchNorm1d(new), nn.LayerNorm(new), nn.Dropout(0.3)])
            layers += [norm] if norm is not None else []
            layers.append(choose.choice(ACTIVATIONS)())
            width = new
        self.net, self.log, self.calls, self.schedule = nn.Sequential(*layers, nn.Linear(width, 2)), [], 0, None
        self.settings = {"scale": 1.0, "clip": choose.choice([None, 1.0]), "to_none": True, "runs": 1, "decay": 0.0}
        self.box = SimpleNamespace(squash=False, weights=[1.0, 2.0], extra=torch.ones(2))
        self.optimise(choose.choice(list(OPTIMISERS)))
        kind, made = choose.choice(["step", "loss", "net"]), torch.compile if compiled else whole
        net, loss = made(lambda x: self.net(x)) if kind == "net" else lambda x: self.net(x), self.loss_of
        loss = made(loss) if kind == "loss" else loss
        self.step = made(self.whole_step) if kind == "step" else lambda x, y: self.outer_step(loss, net, x, y)

    def optimise(self, name):
        self.optimiser = OPTIMISERS[name](list(self.net.parameters()))

    def loss_of(self, net, x, y):
        loss = F.cross_entropy(net(x) * self.settings["scale"], y)
        if self.settings["decay"]:
            loss = loss + self.settings["decay"] * sum((p * p).sum() for p in self.net.parameters())
        if self.box.squash:
            loss = loss.tanh()
        return loss * self.box.weights[0] + (self.box.extra * 0.1).sum()

    def whole_step(self, x, y):
        self.calls += 1
        self.optimiser.zero_grad(set_to_none=self.settings["to_none"])
        for _ in range(self.settings["runs"]):
            loss = self.loss_of(self.net, x, y) / self.settings["runs"]
            loss.backward()
        if self.settings["clip"]:
            nn.utils.clip_grad_norm_(self.net.parameters(), self.settings["clip"])
        self.optimiser.step()
        if self.schedule:
            self.schedule.step()
        return loss.detach()

    def outer_step(self, loss, net, x, y):
        self.optimiser.zero_grad(set_to_none=self.settings["to_none"])
        found = loss(net, x, y)
        if found.requires_grad:
            found.backward()
            self.optimiser.step()
        if self.schedule:
            self.schedule.step()
        return found.detach()

    def state(self):
        """All that a program can see of it."""
        found = [self.log.copy(), self.calls, [g["lr"] for g in self.optimiser.param_groups]]
        for name, p in self.net.named_parameters():
            found.append((name, numbers(p), p._version, p.requires_grad, numbers(p.grad)))
        found += [(name, numbers(b), b._version) for name, b in self.net.named_buffers()]
        for k, state in enumerate(self.optimiser.state.values()):
            found += [(k, name, numbers(v) if torch.is_tensor(v) else v) for name, v in state.items()]
        return found

    def layer(self, choose, *kinds):
        """One of the layers of these kinds."""
        return choose.choice([m for m in self.net.modules() if isinstance(m, kinds or nn.Linear)])

    def place(self, choose, *kinds):
        """The number of one of the layers of these kinds."""
        return choose.choice([k for k, m in enumerate(self.net) if isinstance(m, kinds)])


def numbers(x):
    return None if x is None else x.numpy(force=True).astype("f8")


def linear_like(layer, bias):
    return nn.Linear(layer.in_features, layer.out_features, bias=bias)


def set_data(parameter, data):
    parameter.data = data


def scaled_forward(layer, factor):
    layer.forward = lambda x: F.linear(x, layer.weight, layer.bias) * factor


def all_of(world, kind, change):
    for module in world.net.modules():
        if isinstance(module, kind):
            change(module)


def set_threads(choose):
    torch.set_num_threads(choose.choice([1, 2]))


def hook_parameter(world, choose):
    parameter = choose.choice(list(world.net.parameters()))
    if parameter.requires_grad:
        parameter.register_hook(lambda g: (world.log.append("gradient"), g * 0.5)[1])


def unhook(world):
    for module in world.net.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks):
            hooks.clear()


def give_gradients(world, value):
    for p in world.net.parameters():
        p.grad = value(p)


CHANGES = {
    "nothing": lambda w, c: None,
    "lr": lambda w, c: w.optimiser.param_groups[0].update(lr=c.choice([0.02, 0.05])),
    "weight decay": lambda w, c: w.optimiser.param_groups[0].update(weight_decay=c.choice([0, 0.1])),
    "eval": lambda w, c: w.net.eval(),
    "train": lambda w, c: w.net.train(),
    "one layer evaluates": lambda w, c: c.choice(list(w.net)).eval(),
    "frozen": lambda w, c: c.choice(list(w.net.parameters())).requires_grad_(False),
    "thawed": lambda w, c: w.net.requires_grad_(True),
    "another layer": lambda w, c: w.net.__setitem__(
        (k := w.place(c, nn.Linear)), linear_like(w.net[k], c.random() < 0.5)
    ),
    "another activation": lambda w, c: w.net.__setitem__(w.place(c, *ACTIVATIONS), c.choice(ACTIVATIONS)()),
    "one layer more": lambda w, c: w.net.append(nn.Tanh()),
    "another forward": lambda w, c: scaled_forward(w.layer(c), 1.5),
    "another parameter": lambda w, c: setattr(m := w.layer(c), "weight", nn.Parameter(m.weight.detach() * 1.1)),
    "other data": lambda w, c: set_data(p := w.layer(c).weight, p.detach() * 0.9),
    "other strides": lambda w, c: set_data(p := w.layer(c).weight, p.detach().t().contiguous().t()),
    "written in place": lambda w, c: w.layer(c).weight.data.mul_(0.9),
    "weights loaded": lambda w, c: w.net.load_state_dict(copy.deepcopy(w.net.state_dict())),
    "state loaded": lambda w, c: w.optimiser.load_state_dict(copy.deepcopy(w.optimiser.state_dict())),
    "another optimiser": lambda w, c: w.optimise(c.choice(list(OPTIMISERS))),
    "state forgotten": lambda w, c: w.optimiser.state.clear(),
    "another schedule": lambda w, c: setattr(w, "schedule", torch.optim.lr_scheduler.ExponentialLR(w.optimiser, 0.9)),
    "no schedule": lambda w, c: setattr(w, "schedule", None),
    "scale": lambda w, c: w.settings.update(scale=c.choice([1.0, 2.0])),
    "clip": lambda w, c: w.settings.update(clip=c.choice([None, 0.1, 1.0])),
    "zeros or None": lambda w, c: w.settings.update(to_none=c.random() < 0.5),
    "accumulation": lambda w, c: w.settings.update(runs=c.choice([1, 2, 3])),
    "decay": lambda w, c: w.settings.update(decay=c.choice([0.0, 0.01])),
    "an attribute": lambda w, c: setattr(w.box, "squash", c.random() < 0.5),
    "an item": lambda w, c: w.box.weights.__setitem__(0, c.choice([1.0, 0.5])),
    "another list": lambda w, c: setattr(w.box, "weights", [c.choice([1.0, 0.3]), 2.0]),
    "another tensor": lambda w, c: setattr(w.box, "extra", torch.full((2,), c.choice([1.0, 3.0]))),
    "a tensor written": lambda w, c: w.box.extra.data.add_(1),
    "a tensor with gradient": lambda w, c: setattr(w.box, "extra", torch.ones(2, requires_grad=True)),
    "attributes exchanged": lambda w, c: setattr(w.box, "__dict__", dict(w.box.__dict__, squash=c.random() < 0.5)),
    "forward hook": lambda w, c: c.choice(list(w.net)).register_forward_hook(lambda m, i, o: o * 0.9),
    "forward hook before": lambda w, c: c.choice(list(w.net)).register_forward_pre_hook(lambda m, i: (i[0] * 1.1,)),
    "gradient hook": hook_parameter,
    "no hooks": lambda w, c: unhook(w),
    "dropout": lambda w, c: all_of(w, nn.Dropout, lambda m: setattr(m, "p", c.choice([0.0, 0.5]))),
    "momentum of statistics": lambda w, c: all_of(w, nn.BatchNorm1d, lambda m: setattr(m, "momentum", 0.5)),
    "statistics": lambda w, c: all_of(w, nn.BatchNorm1d, lambda m: m.reset_running_stats()),
    "eps": lambda w, c: all_of(w, nn.LayerNorm, lambda m: setattr(m, "eps", c.choice([1e-5, 1e-2]))),
    "gradients kept": lambda w, c: setattr(w, "kept", [p.grad for p in w.net.parameters()]),
    "no gradients": lambda w, c: give_gradients(w, lambda p: None),
    "own gradients": lambda w, c: give_gradients(w, torch.ones_like),
    "attribute of a parameter": lambda w, c: setattr(c.choice(list(w.net.parameters())), "tag", 3),
    "threads": lambda w, c: set_threads(c),
}
MODES = {
    "no_grad": torch.no_grad, "inference": torch.inference_mode, "enabled": torch.enable_grad,
    "anomaly": torch.autograd.detect_anomaly,
}  # fmt: skip
LAYOUTS = {
    "plain": lambda x: x, "transposed": lambda x: x.t().contiguous().t(),
    "strided": lambda x: torch.stack([x, x], -1)[..., 0], "leaf": lambda x: x.requires_grad_(),
    "with history": lambda x: x.requires_grad_() * 1,
}  # fmt: skip


class Twins:
    """A world and the same one uncompiled, each with a stream of random numbers of its own."""

    def __init__(self, seed):
        self.worlds = [World(seed, compiled) for compiled in (False, True)]
        self.streams = [torch.get_rng_state().clone() for _ in self.worlds]

    def both(self, act):
        """What ``act(world)`` returns for each, or the error that it raises."""
        found = []
        for k, world in enumerate(self.worlds):
            torch.set_rng_state(self.streams[k])
            try:
                found.append(act(world))
            except Exception as error:
                found.append((type(error), str(error)))
            self.streams[k] = torch.get_rng_state()
        return found


def same(found, wanted):
    if isinstance(wanted, (list, tuple)):
        return type(found) is type(wanted) and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, np.ndarray):
        alike = isinstance(found, np.ndarray) and found.shape == wanted.shape
        return alike and np.allclose(found, wanted, rtol=2e-4, atol=1e-5, equal_nan=True)
    return found == pytest.approx(wanted, rel=1e-6) if isinstance(wanted, float) else found == wanted


def call(world, batch, mode, layout):
    x, y = torch.tensor(batch[0]), torch.tensor(batch[1])
    x = LAYOUTS[layout](x)
    with MODES.get(mode, contextlib.nullcontext)():
        loss = world.step(x, y)
    return numbers(loss), str(loss.dtype), loss.is_inference(), numbers(x.grad) if x.is_leaf else None, world.state()


@pytest.mark.parametrize("seed", range(SEED, SEED + WORLDS))
def test_changes_between_calls(seed):
    choose, twins, done = random.Random(7 * seed + 1), Twins(seed), []
    threads = torch.get_num_threads()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(ROUNDS):
                for _ in range(4):  # recorded, and replayed
                    rows, special = choose.choice([3] * 9 + [5]), choose.random() < 0.2
                    batch = np.random.default_rng(choose.randrange(10**6))
                    batch = batch.standard_normal((rows, 4)).astype("float32"), batch.integers(0, 2, rows)
                    mode = choose.choice(list(MODES)) if special else "as it is"
                    layout = choose.choice(list(LAYOUTS)) if choose.random() < 0.2 else "plain"
                    done.append((mode, layout, rows))
                    wanted, found = twins.both(lambda w, how=(batch, mode, layout): call(w, *how))
                    assert same(found, wanted), (seed, done)
                name, number = choose.choice(list(CHANGES)), choose.randrange(10**9)
                done.append(name)
                one, other = twins.both(lambda w, n=name, s=number: repr(CHANGES[n](w, random.Random(s)))[:0])
                assert one == other, (seed, done)
    finally:
        torch.set_num_threads(threads)
