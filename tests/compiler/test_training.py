"""Training steps, compiled, leave what they leave uncompiled."""

import pytest

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import check, normal

F = nn.functional


def perceptron(*between):
    return nn.Sequential(nn.Linear(8, 16), *(between or (nn.ReLU(),)), nn.Linear(16, 3))


def training(model, optimizer, loss_of=F.mse_loss, target=None):
    """A function that makes a step with everything that it changes; see `check`."""

    def make():
        net = model()
        opt = optimizer(net.parameters())

        def step(x, y):
            opt.zero_grad()
            loss = loss_of(net(x), y)
            loss.backward()
            opt.step()
            return loss

        def arguments(k):
            return normal(4, 8, seed=k), normal(4, 3, seed=k) if target is None else target

        def state():
            held = opt.state_dict()["state"]
            return [*net.parameters(), *net.buffers(), [p.grad for p in net.parameters()], held]

        return step, arguments, state

    return make


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: torch.optim.Adam(p),
    "AdamW": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.1, lambd=0.1, t0=3),
    "Rprop": lambda p: torch.optim.Rprop(p),
    "Adafactor": lambda p: torch.optim.Adafactor(p),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    check(training(perceptron, OPTIMIZERS[name]))


def test_statistics_and_dropout():
    layers = nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.3)
    check(training(lambda: perceptron(nn.BatchNorm1d(16), *layers[1:]), OPTIMIZERS["Adam"]))


def test_classes():
    classes = torch.tensor([0, 2, 1, 1])
    check(training(lambda: perceptron(nn.LayerNorm(16), nn.Tanh()), OPTIMIZERS["Adam"], nn.CrossEntropyLoss(), classes))


def test_a_batch_of_one_and_two_threads():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        check(training(lambda: nn.Sequential(nn.Linear(8, 512), nn.GELU(), nn.Linear(512, 3)), OPTIMIZERS["Adam"]))
    finally:
        torch.set_num_threads(threads)


def test_accumulation_and_clipping():
    def make():
        net = perceptron()
        opt = torch.optim.Adam(net.parameters())

        def step(parts, y):
            for x in parts:
                F.mse_loss(net(x), y).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            opt.zero_grad()

        def arguments(k):
            return [normal(4, 8, seed=k), normal(4, 8, seed=k + 1)], normal(4, 3)

        return step, arguments, lambda: [*net.parameters()]

    check(make)


def test_gradients_that_are_there_are_added_to():
    def make():
        net = perceptron()

        def step(x):
            net(x).sum().backward()

        def arguments(k):
            if k == 3:
                net.zero_grad()
            return (normal(4, 8, seed=k),)

        return step, arguments, lambda: [p.grad for p in net.parameters()]

    check(make, recordings=2)


def test_a_schedule_inside_and_rates_set_outside():
    def make():
        net = perceptron()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)

        def step(x, y):
            opt.zero_grad()
            F.mse_loss(net(x), y).backward()
            opt.step()
            schedule.step()

        def arguments(k):
            if k == 4:
                opt.param_groups[0]["lr"] = 0.7
            return normal(4, 8, seed=k), normal(4, 3)

        return step, arguments, lambda: [*net.parameters(), schedule.last_epoch, opt.param_groups[0]["lr"]]

    check(make)


def test_what_programs_do_to_a_model_between_steps():
    def make():
        net = perceptron(nn.Dropout(0.5))
        opt = torch.optim.SGD(net.parameters(), 0.1)

        def step(x, y):
            opt.zero_grad()
            F.mse_loss(net(x), y).backward()
            opt.step()

        def arguments(k):
            if k == 3:
                net[0].weight.requires_grad_(False)
            elif k == 4:
                net.load_state_dict({name: value * 0.5 for name, value in net.state_dict().items()})
            elif k == 5:
                net[2] = nn.Linear(16, 3)
            elif k == 6:
                net.eval()
            elif k == 7:
                net[0].register_forward_hook(lambda module, args, out: out * 2)
            elif k == 8:
                net[0].bias.data = normal(16)
            return normal(4, 8, seed=k), normal(4, 3)

        return step, arguments, lambda: [*net.parameters(), *(p.grad for p in net.parameters())]

    check(make, calls=11, recordings=None)


def test_gradients_that_somebody_holds_are_not_written_to():
    net = perceptron()
    opt = torch.optim.SGD(net.parameters(), 0.0)

    @torch.compile
    def step(x):
        opt.zero_grad()
        net(x).square().sum().backward()
        opt.step()

    held = []
    for k in range(8):
        step(normal(4, 8, seed=k))
        grad = net[0].weight.grad
        held.append((grad if k % 3 else grad[0] if k % 2 else grad.numpy(), grad.clone()))
    for grad, copy in held:
        copy = copy[0] if grad.shape != copy.shape else copy
        assert (torch.as_tensor(grad) == copy).all()


class Scaling:
    """A hook that is an object."""

    def __init__(self):
        self.factor = 2.0

    def __call__(self, module, args, *out):
        return out[0] * self.factor if out else (args[0] + self.factor,)


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_objects_as_hooks_are_compiled(kind):
    net, hook, x = nn.Linear(2, 2), Scaling(), torch.ones(1, 2)
    getattr(net, kind)(hook)
    compiled = torch.compile(net)
    for factor in (2.0, 2.0, 3.0, 3.0):  # without the warning, an error here, that it runs uncompiled
        hook.factor = factor
        assert torch.equal(compiled(x), net(x))
