"""functional_call leaves the module as it was, whatever happens; stacked modules under vmap."""

import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.func import functional_call, grad, stack_module_state, vmap


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("count", torch.tensor(0.0))

    def forward(self, x):
        self.count = self.count + 1
        return x * self.scale


def test_a_module_that_is_there_twice_is_restored():
    shared = nn.Linear(2, 1)
    model = nn.ModuleList([shared, shared])
    weight = shared.weight

    def both(x):
        return model[0](x) + model[1](x)

    model.forward = both
    new = torch.ones(1, 2) * 3
    out = functional_call(model, {"0.weight": new, "0.bias": torch.zeros(1)}, torch.ones(1, 2))
    assert out.tolist() == [[12.0]]
    assert shared.weight is weight and model[1].weight is weight


def test_error_in_forward_restores():
    module = Counting()
    scale, count = module.scale, module.count
    with pytest.raises(TypeError):
        functional_call(module, {"scale": torch.ones(1), "count": torch.ones(1)}, (1, 2, 3))
    assert module.scale is scale and module.count is count
    with pytest.raises(TypeError, match="is not an instance of torch.Tensor"):
        functional_call(module, {"scale": torch.ones(1), "count": "a"}, torch.ones(1))
    assert module.scale is scale and module.count is count


def test_state_of_a_layer_is_an_argument_and_a_result():
    module, state = Counting(), {"count": torch.tensor(5.0)}
    functional_call(module, state, torch.ones(1))
    functional_call(module, state, torch.ones(1))
    assert state["count"].item() == 7 and module.count.item() == 0


def test_a_new_name_is_taken_away_again():
    module = Counting()
    functional_call(module, {"other": torch.ones(1)}, torch.ones(1))
    assert not hasattr(module, "other")


def test_gradients_of_an_ensemble():
    models = [nn.Linear(3, 2) for _ in range(4)]
    params, buffers = stack_module_state(models)
    x = torch.randn(5, 3)

    def loss(params, x):
        return (functional_call(models[0], params, (x,)) ** 2).sum()

    found = vmap(grad(loss), in_dims=(0, None))(params, x)
    for k, model in enumerate(models):
        (model(x) ** 2).sum().backward()
        assert torch.allclose(found["weight"][k], model.weight.grad, atol=1e-5)
        assert torch.allclose(found["bias"][k], model.bias.grad, atol=1e-5)
    assert buffers == {} and params["weight"].is_leaf and params["weight"].requires_grad
