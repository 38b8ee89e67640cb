"""Nodes keep edges and values in attributes: they are tuples to who reads them, and few objects to the collector."""

import gc

import pytest

import jitgrad as torch
from jitgrad.dispatch.node_types import node_type_for


def objects_per_op(step, count=1000):
    """How many objects that the collector tracks are made for each op of a chain, which is alive."""
    x = torch.tensor([[0.5, 0.25], [0.125, 0.5]], requires_grad=True)
    for _ in range(40):  # tensors that a program may have made before its first op, alive or not
        torch.ones(1)
    results = [x]
    for _ in range(5):  # what is planned once, for a leaf and for a result
        results.append(step(results[-1], x))
    gc.collect()
    gc.disable()  # objects stay as they were made: the collector would untrack some
    try:
        before = gc.get_count()[0]
        for _ in range(count):
            results.append(step(results[-1], x))
        return (gc.get_count()[0] - before) / count
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("step", "most"),
    [
        (lambda y, x: y @ x, 3),  # the tensor, its node, the tuple of what is saved
        (lambda y, x: y * x, 3),
        (lambda y, x: y + x, 2),
        (lambda y, x: 2 * y, 2),
        (lambda y, x: y.exp(), 5),  # what is saved of its own result is another tensor, with a counter for both
        (lambda y, x: y.sum(0, keepdim=True), 2),
        (lambda y, x: y.t(), 3),  # what it shows knows its views
    ],
    ids=["product", "mul", "add", "number", "exp", "sum", "view"],
)
def test_objects_for_the_collector(step, most):
    assert objects_per_op(step) < most + 0.5


def test_edges_and_values_are_tuples():
    x, y = torch.ones(2, 3, requires_grad=True), torch.ones(3, 2)
    node = (x @ y).grad_fn
    assert node.edges == (x._leaf_edge, None) and node.next_functions[1] == (None, 0)
    assert node.saved_nontensors == (x._layout,) and node._saved_self_sym_sizes == (2, 3)
    node.edges = (None, None)
    assert node.edges == (None, None) and node.edge0 is None
    with pytest.raises(ValueError, match="zip"):
        node.edges = (None,)


def test_numbers_are_a_dictionary():
    x = torch.ones(2, requires_grad=True)
    assert (x * 3).grad_fn.scalars == {"y": 3.0} and (x * x).grad_fn.scalars == {}
    node = torch.nn.functional.softplus(x, 2.0, 10.0).grad_fn
    assert node.scalars == {"beta": 2.0, "threshold": 10.0} and node._saved_beta == 2.0


def test_a_class_is_made_once_for_each_kind_and_dies_with_that_of_the_op():
    first, again = (node_type_for(type((torch.ones(2, requires_grad=True) + 1).grad_fn).__base__, 2) for _ in range(2))
    assert first is again and first.__name__ == "AddBackward0"
    assert node_type_for(first.__base__, 1) is not first
    assert not node_type_for(first.__base__, 0).edges
