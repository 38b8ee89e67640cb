"""autograd.graph and anomaly mode beside PyTorch: the same code under both, notes, errors and warnings compared."""

import re
import warnings

import pytest
import torch

import jitgrad

ENGINES = (jitgrad, torch)
CASES = []


def case(function):
    CASES.append(function)
    return function


def plain(value):
    """Tensors as lists, at any depth; numbers to twelve digits."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value


def words(error):
    """What an error or warning says, without addresses, line numbers and PyTorch's own frames."""
    text = re.sub(r" ?\(Triggered internally.*", "", str(error), flags=re.S)
    text = re.sub(r"<[^>]* at 0x\w+>", "<object>", text)
    return re.sub(r'  File "[^"]*torch/autograd/.*?\n.*?\n', "", text).strip()


def outcome(function, engine):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = plain(function(engine))
        except Exception as error:
            found = type(error).__name__, words(error)
    return found, [(w.category.__name__, words(w.message)) for w in caught]


def leaf(e, *values):
    return e.tensor(list(values), dtype=e.float64, requires_grad=True)


# -- hooks on saved tensors -------------------------------------------------------------------------

EXPRESSIONS = """
x * w | u * w | x.exp() | u.exp() | x * 2 | x / w | x.sum() | (x * x).exp() | e.where(x > 0, x, w) | x ** 2 | x.tanh()
x.sigmoid().log() | x @ w | x.softmax(0) | x[0] * w | e.maximum(x, w) | e.cat([x, w]) * u | x.prod() | x.cumsum(0)
""".replace("\n", "|").strip("|").split("|")


@pytest.mark.parametrize("expression", [e.strip() for e in EXPRESSIONS])
def test_what_pack_and_unpack_see(expression):
    def run(e):
        log = []

        def pack(t):
            name = t.grad_fn.name() if t.grad_fn is not None else None
            log.append([t.requires_grad, t.is_leaf, name, list(t.shape), e.is_grad_enabled()])
            return t

        def unpack(t):
            log.append("unpacked")
            return t

        x, w = leaf(e, 1.0, 2.0), leaf(e, 3.0, 4.0)
        u = x * 1
        with e.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = eval(expression, {"e": e, "x": x, "w": w, "u": u})
        log.append("backward")
        y.sum().backward()
        return log, x.grad, w.grad

    assert outcome(run, jitgrad) == outcome(run, torch)


def doubled(e):
    return e.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2)


@case
def nested(e):
    log, x = [], leaf(e, 1.0)
    outer = e.autograd.graph.saved_tensors_hooks(lambda t: (log.append("p1"), t)[1], lambda t: (log.append("u1"), t)[1])
    inner = e.autograd.graph.saved_tensors_hooks(lambda t: (log.append("p2"), t)[1], lambda t: (log.append("u2"), t)[1])
    with outer:
        with inner:
            y = x * x
        z = y * y
    z.backward()
    return log, x.grad


@case
def second_order_through_packed(e):
    x = leaf(e, 1.0, 2.0)
    with doubled(e):
        y = (x.exp() * x).sum()
        (g,) = e.autograd.grad(y, x, create_graph=True)
        (h,) = e.autograd.grad(g.sum(), x)
    return g, h


@case
def a_function_of_the_users(e):
    class Square(e.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return 2 * g * x + 0 * y

    x, log = leaf(e, 3.0), []
    with e.autograd.graph.saved_tensors_hooks(lambda t: (log.append(plain(t)), t * 2)[1], lambda t: t / 2):
        y = Square.apply(x)
    y.backward()
    return x.grad, log


@case
def packed_and_freed(e):
    x = leaf(e, 1.0)
    with doubled(e):
        y = x.exp()
    y.backward()
    y.backward()


@case
def packed_then_written(e):
    x = leaf(e, 1.0)
    u = x * 1
    with doubled(e):
        y = u * u
    u.mul_(3)
    y.backward()
    return x.grad


def of(value):
    def returned(e):
        x = leaf(e, 1.0)
        with e.autograd.graph.saved_tensors_hooks(lambda t: value, lambda t: t):
            y = x * x
        y.backward()

    return returned


CASES += [of(3), of(None), of("a")]


@case
def pack_raises(e):
    with e.autograd.graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t):
        leaf(e, 1.0).exp()


@case
def unpack_raises(e):
    with e.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 1 / 0):
        y = leaf(e, 1.0).exp()
    y.backward()


@case
def pack_writes(e):
    with e.autograd.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
        leaf(e, 1.0).exp()


@case
def hooks_that_are_none(e):
    with e.autograd.graph.saved_tensors_hooks(1, 2):
        pass


@case
def disabled(e):
    with e.autograd.graph.disable_saved_tensors_hooks("not now"), doubled(e):
        pass


@case
def disabled_inside(e):
    with doubled(e), e.autograd.graph.disable_saved_tensors_hooks("not now"):
        pass


@case
def on_cpu(e):
    x = leaf(e, 2.0)
    with e.autograd.graph.save_on_cpu():
        y = (x * x).exp()
    y.backward()
    return x.grad


@case
def mutation(e):
    with e.autograd.graph.allow_mutation_on_saved_tensors():
        x = leaf(e, 1.0, 2.0)
        y = x.clone()
        out = (y**2).sum()
        y.sin_()
        out.backward()
    return x.grad


@case
def mutation_outside(e):
    with e.autograd.graph.allow_mutation_on_saved_tensors():
        y = (leaf(e, 1.0) ** 2).sum()
    y.backward()


@case
def mutation_nested(e):
    allow = e.autograd.graph.allow_mutation_on_saved_tensors
    with allow(), allow():
        pass


# -- what nodes show --------------------------------------------------------------------------------


@case
def raw_saved(e):
    x, log = leaf(e, 2.0), []
    y = x * x
    node = y.grad_fn
    log += [node._saved_self is x, node is y.grad_fn]
    node._raw_saved_self.register_hooks(
        lambda t: (log.append("packed"), t)[1], lambda t: (log.append("unpacked"), t * 10)[1]
    )
    y.backward(retain_graph=True)
    seen = node._saved_self
    return log, x.grad, seen, seen.requires_grad, node._saved_other


@case
def raw_twice(e):
    node = (lambda x: x * x)(leaf(e, 2.0)).grad_fn
    for _ in range(2):
        node._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


@case
def raw_freed(e):
    x = leaf(e, 2.0)
    y = x * x
    raw = y.grad_fn._raw_saved_self
    y.backward()
    raw.register_hooks(lambda t: t, lambda t: t)


@case
def raw_of_none(e):
    node = (leaf(e, 2.0) * 2).grad_fn
    assert node._saved_self is None
    node._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


@case
def saved_freed(e):
    x = leaf(e, 2.0)
    y = x * x
    y.backward()
    return y.grad_fn._saved_self


@case
def saved_written(e):
    u = leaf(e, 2.0) * 1
    y = u * u
    u.add_(1)
    return y.grad_fn._saved_self


@case
def saved_result(e):
    y = leaf(e, 2.0).exp()
    saved = y.grad_fn._saved_result
    return saved, saved is y, saved.grad_fn is y.grad_fn, saved.requires_grad


SHOWN = "x.pow(2) | x.softmax(0) | x.t() | x.sum() | x.atan2(x) | x.exp() | x[0] | x.sigmoid() | x.clamp(0, 1)"


@pytest.mark.parametrize("expression", [e.strip() for e in SHOWN.split("|")])
def test_saved_attributes(expression):
    def run(e):
        node = eval(expression, {"x": leaf(e, 0.5)}).grad_fn
        names = [n for n in dir(node) if n.startswith(("_saved_", "_raw_saved"))]
        return node.name(), {n: plain(getattr(node, n)) for n in names if n[1] == "s"}, names

    assert outcome(run, jitgrad) == outcome(run, torch)


@case
def node_attributes(e):
    x = leaf(e, 2.0)
    y = x * x
    z = y * 2
    y.grad_fn.metadata["note"] = 1
    end = y.grad_fn.next_functions[0][0]
    return (y.grad_fn._sequence_nr() < z.grad_fn._sequence_nr(), y.grad_fn.metadata, end._sequence_nr(), end.name(),
            end.variable is x, y.grad_fn.requires_grad, isinstance(y.grad_fn, e.autograd.graph.Node))  # fmt: skip


# -- edges, versions, hooks on several gradients -----------------------------------------------------


@case
def edges(e):
    x = leaf(e, 2.0)
    y = x * x
    of_y, of_x = map(e.autograd.graph.get_gradient_edge, (y, x))
    z = (y * 3).sum()
    grad = e.autograd.grad
    return (type(of_y).__name__, of_y.node is y.grad_fn, of_y.output_nr, of_x.node.name(),
            grad(z, of_y, retain_graph=True), grad(z, [of_x, of_y], retain_graph=True),
            grad(of_y, x, retain_graph=True), grad(of_y, x, e.ones(1, dtype=e.float64), retain_graph=True),
            grad(x * 1, of_y, allow_unused=True))  # fmt: skip


@case
def backward_from_and_to_edges(e):
    x = leaf(e, 2.0)
    y = x * x
    of_y, of_x = map(e.autograd.graph.get_gradient_edge, (y, x))
    e.autograd.backward(of_y, e.ones(1, dtype=e.float64), retain_graph=True)
    (y * 3).backward(inputs=[of_x])
    return x.grad


CASES += [
    lambda e: e.autograd.graph.get_gradient_edge(e.ones(1)),
    lambda e: (lambda x: e.autograd.grad(x * 1, e.autograd.graph.get_gradient_edge(x * x)))(leaf(e, 1.0)),
    lambda e: (lambda x: e.autograd.grad(x * 1, e.autograd.graph.get_gradient_edge(x * x), materialize_grads=True))(
        leaf(e, 1.0)
    ),
    lambda e: e.autograd.grad(e.autograd.graph.get_gradient_edge(leaf(e, 1.0) * 2), leaf(e, 1.0), e.ones(3)),
    lambda e: e.autograd.graph.increment_version(3),
]


@case
def versions(e):
    x = e.ones(3)
    before = x._version
    e.autograd.graph.increment_version(x)
    e.autograd.graph.increment_version([x, x])
    return x._version - before


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_on_several_gradients(mode):
    def run(e):
        a, b, c = leaf(e, 1.0), leaf(e, 2.0), leaf(e, 3.0)
        log = []
        x, y, z = a * 1, b * 1, c * 1
        handle = e.autograd.graph.register_multi_grad_hook((x, y, z), lambda g: log.append(plain(g)), mode=mode)
        (x + y * 2).backward(retain_graph=True)
        (x + y * 2 + z * 3).backward(retain_graph=True)
        (x * 5).backward(retain_graph=True)
        e.autograd.grad(x + y, a, retain_graph=True)
        handle.remove()
        handle.remove()
        (x + y).backward()
        return log

    assert outcome(run, jitgrad) == outcome(run, torch)


CASES += [
    lambda e: e.autograd.graph.register_multi_grad_hook((leaf(e, 1.0),), print, mode="some"),
    lambda e: e.autograd.graph.register_multi_grad_hook((e.ones(1),), print),
]


# -- anomaly mode ------------------------------------------------------------------------------------


class Fails:
    """Functions whose backward fails, made for an engine."""

    def __init__(self, e, returned):
        class Broken(e.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return returned(g)

        class Doubly(e.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return Broken.apply(g)

        self.broken, self.doubly = Broken.apply, Doubly.apply


@case
def nan_in_backward(e):
    with e.autograd.detect_anomaly():
        x = leaf(e, 0.0)
        y = (x * 0).sqrt() * 0
        y.backward()


@case
def nan_not_looked_for(e):
    with e.autograd.detect_anomaly(check_nan=False):
        x = leaf(e, 0.0)
        ((x * 0).sqrt() * 0).backward()
        return str(plain(x.grad)), e.is_anomaly_enabled(), e.is_anomaly_check_nan_enabled()


@case
def forward_outside(e):
    y = (leaf(e, 0.0) * 0).sqrt() * 0
    with e.autograd.detect_anomaly():
        y.backward()


@case
def function_raises(e):
    with e.autograd.detect_anomaly():
        Fails(e, lambda g: 1 / 0).broken(leaf(e, 1.0)).backward()


@case
def induced(e):
    with e.autograd.detect_anomaly():
        x, g = leaf(e, 1.0), leaf(e, 1.0)
        y = Fails(e, lambda g: g * float("nan")).doubly(x)
        (found,) = e.autograd.grad(y, x, g, create_graph=True)
        found.backward()


@case
def written_under_anomaly(e):
    with e.autograd.detect_anomaly():
        y = leaf(e, 1.0).exp()
        y.add_(1)
        y.backward()


@case
def hook_raises(e):
    with e.autograd.detect_anomaly():
        x = leaf(e, 1.0)
        y = x * 2
        y.register_hook(lambda g: 1 / 0)
        y.backward()


@case
def leaf_hook_raises(e):
    with e.autograd.detect_anomaly():
        x = leaf(e, 1.0)
        x.register_hook(lambda g: 1 / 0)
        (x * 2).backward()


@case
def setting(e):
    seen = []

    def note():
        seen.append([e.is_anomaly_enabled(), e.is_anomaly_check_nan_enabled()])

    with e.autograd.set_detect_anomaly(True):
        note()
        with e.autograd.set_detect_anomaly(False, check_nan=False):
            note()
        note()
    note()
    e.autograd.set_detect_anomaly(True, False)
    note()
    e.autograd.set_detect_anomaly(False)
    note()
    return seen


# -- entered and left during backward -----------------------------------------------------------------


@case
def hooks_left_during_backward(e):
    hooks = e.autograd.graph.saved_tensors_hooks
    inner, notes = hooks(lambda x: x, lambda x: (inner.__exit__(), x)[1]), []
    outer = hooks(lambda x: (notes.append("pack"), x)[1], lambda x: x)
    with outer:
        inner.__enter__()
        x = leaf(e, 1.0)
        x.sin().backward()
        inner.__exit__()
        x.cos()
    x.cos()
    return notes, x.grad


@case
def hooks_entered_during_backward(e):
    hooks = e.autograd.graph.saved_tensors_hooks
    extra, notes = hooks(lambda x: (notes.append("pack"), x)[1], lambda x: x), []
    x = leaf(e, 1.0)
    with hooks(lambda x: x, lambda x: (extra.__enter__(), x)[1]):
        y = x.sin()
    y.backward()
    x.cos()
    return notes, x.grad


@case
def hooks_reach_runs_deep_within_runs(e):
    class Again(e.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, g):
            with e.enable_grad():
                inner = leaf(e, 2.0)
                inner.exp()
                if ctx.depth:
                    Again.apply(inner, ctx.depth - 1).backward()
            return g, None

    packed = []
    with e.autograd.graph.saved_tensors_hooks(lambda x: (packed.append(1), x)[1], lambda x: x):
        Again.apply(leaf(e, 1.0), 60).backward()
    return len(packed)


# -- what index nodes saved ---------------------------------------------------------------------------


@case
def saved_indices(e):
    x = leaf(e, 1.0, 2.0, 3.0, 4.0).view(2, 2)
    rows, columns = e.tensor([0, 1, 1]), e.tensor([1, 0, 1])
    nodes = [x[rows].grad_fn, x[:, rows].grad_fn, x[rows, columns].grad_fn]
    y = x.clone()
    y[:, rows] = 1.0
    return [n._saved_indices for n in (*nodes, y.grad_fn)]


@case
def hooks_on_saved_indices(e):
    x = leaf(e, 1.0, 2.0, 3.0, 4.0)
    y, notes = x.view(2, 2)[:, e.tensor([0, 1, 1])], []
    y.grad_fn._raw_saved_indices[1].register_hooks(lambda t: (notes.append(t), t)[1], lambda t: t)
    y.sum().backward()
    y = x.view(2, 2)[:, e.tensor([0])]
    return notes, x.grad, y.grad_fn._raw_saved_indices[0].register_hooks(lambda t: t, lambda t: t)


# -- the order of nodes -------------------------------------------------------------------------------


def order(e, numbers):
    x = leaf(e, 1.0, 2.0)
    a, b = x * 2, x * 3
    c = a + b
    d = c * a
    seen = []
    for name, t in {"a": a, "b": b, "c": c, "d": d}.items():
        if name in numbers:
            t.grad_fn._set_sequence_nr(numbers[name])
        t.register_hook(lambda g, name=name: seen.append(name))
    d.sum().backward()
    return seen, x.grad, [t.grad_fn._sequence_nr() for t in (a, b, c, d) if len(numbers) == 4]


@case
def numbers_order_nodes_that_could_run(e):
    rising, falling = {"a": 1, "b": 2, "c": 3, "d": 4}, {"a": 100, "b": 99, "c": 98, "d": 97}
    return [order(e, n) for n in (rising, falling, {"a": 50, "b": 70, "c": 60, "d": 1}, {})]


@case
def numbers_and_chosen_inputs(e):
    x, y = leaf(e, 1.0), leaf(e, 2.0)
    a = x * y
    b = a * y
    a.grad_fn._set_sequence_nr(1 << 40)
    b.sum().backward(inputs=[y], retain_graph=True)
    return y.grad, x.grad, e.autograd.grad(b, [x, a])


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_case(function):
    assert outcome(function, jitgrad) == outcome(function, torch)
