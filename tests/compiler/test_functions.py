"""Functions without optimisers: views, writes, containers, random numbers, transforms, shapes."""

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import check, normal

F = nn.functional


def of(function, *arguments):
    """For `check`: a function on tensors that are made anew for each call."""
    return lambda: (function, lambda k: [a(k) for a in arguments], list)


def matrix(k):
    return normal(4, 8, seed=k)


def test_writes_into_what_is_outside():
    def make():
        total = torch.zeros(4, 8)

        def step(x):
            total.add_(x)
            total[1:3] *= 2
            y = x.clone()
            y[0] = 5
            y[:, 2] = total[:, 1]
            return y, total.sum()

        return step, lambda k: (matrix(k),), lambda: [total]

    check(make)


def test_writes_into_arguments():
    def make():
        given = []

        def step(x, y):
            x.add_(y)
            return x.sum()

        def arguments(k):
            given.append(matrix(k))
            return given[-1], matrix(0)

        return step, arguments, lambda: given

    check(make)


def test_one_tensor_for_two_arguments_that_are_written_to():
    def make():
        def step(x, y):
            x.add_(1)
            return x * y

        def arguments(k):
            x = matrix(k)
            return (x, x) if k > 3 else (x, matrix(0))

        return step, arguments, list

    check(make, recordings=2)


def test_arguments_that_share_memory_with_what_is_written():
    def make():
        total = torch.zeros(64)

        def step(x, y):
            y = y * 2 + 1
            total.add_(x)
            return y + x.exp(), (total * x).sum()

        def arguments(k):
            if k in (3, 4):
                return total, normal(64, seed=k)
            return (total[:], total[:]) if k == 5 else (normal(64, seed=k), normal(64, seed=k + 1))

        return step, arguments, lambda: [total]

    check(make, calls=9, recordings=None)


def test_states_of_generators_are_not_frozen():
    check(of(lambda x: (x * torch.rand(4, 8), torch.get_rng_state()), matrix))


def test_containers_and_keywords():
    def step(a, parts, *, scale=2.0):
        mean = (parts[1]["x"] ** 2).mean()
        return {"sum": a + parts[0] * scale, "list": [a.sum(), mean], "n": len(parts), "none": None}

    def make():
        return step, lambda k: (matrix(k), [matrix(k + 1), {"x": matrix(0)}]), list

    check(make)


def test_shapes_have_recordings_of_their_own():
    check(of(lambda x: F.softmax(x @ x.t(), 1), lambda k: normal(2 + k % 3, 4, seed=k)), calls=9, recordings=3)


def test_numbers_of_python_are_guarded():
    def make():
        scale, box = [1.0], {"shift": 2.0}

        def arguments(k):
            scale[0] = 3.0 if k > 3 else 1.0
            return (matrix(k),)

        return lambda x: x * scale[0] + box["shift"], arguments, list

    check(make, recordings=2)


def test_random_numbers_are_those_of_eager():
    check(of(lambda x: (x * torch.rand(4, 8) + torch.randn(4, 8), torch.randperm(5), F.dropout(x, 0.5)), matrix))


def test_second_derivatives():
    def step(x, v):
        x = x.detach().requires_grad_(True)
        y = (x**4).sum() * x.sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return torch.autograd.grad((g * v).sum(), x)[0]

    check(of(step, matrix, lambda k: matrix(k + 1)))


def test_transforms():
    def cubes(x):
        return (x**3).sum()

    def step(x):
        rows = torch.func.vmap(lambda r: (r * r).sum())(x)
        return torch.func.grad(cubes)(x), rows, torch.func.jacrev(lambda r: r * r)(x[0])

    check(of(step, matrix))


def test_indices():
    table = normal(10, 4)

    def step(i):
        return table[i], table.index_select(0, i), F.embedding(i, table), table.gather(1, i.reshape(4, 1) % 4)

    check(of(step, lambda k: torch.tensor([1, 2, 3, k])))


def test_loops_of_python():
    def slope(y):
        return -y * y + torch.sin(y)

    def step(y):
        for _ in range(20):
            half = slope(y)
            y = y + 0.1 * slope(y + 0.05 * half)
        return y

    check(of(step, matrix))


def test_no_grad_as_a_decorator_and_a_module():
    check(of(torch.no_grad()(lambda x: x * 2 + 1), matrix))
    net = nn.Sequential(nn.Linear(8, 3), nn.ReLU()).requires_grad_(False)
    check(lambda: (net, lambda k: (matrix(k),), list))


def test_a_method_and_a_compiled_function_inside():
    inner = torch.compile(lambda x: x * 3)

    class Steps:
        factor = 2.0

        @torch.compile
        def run(self, x):
            return inner(x) * self.factor

    steps = Steps()
    for k in range(4):
        assert (steps.run(matrix(k)) == matrix(k) * 3 * 2).all()
    steps.factor = 4.0
    assert (steps.run(matrix(1)) == matrix(1) * 3 * 4).all()
