"""Kernels that draw random numbers: from which generator, into which tensor, in which order.

Numbers are PyTorch's to the last one, so each element must get the number that it has there: they are drawn on the CPU,
in the order of the tensor's memory. What ``vmap`` makes of it is in batch_randomness.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core.errors import must_be
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.inference import is_inference
from jitgrad.core.layout import Layout, cache, intern
from jitgrad.core.storage import UNWRITTEN, empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_randomness import batch_for_draw, check_draw, check_fill, expand_for_draw
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.planned import Launches, Number, Written, compiled, row_major
from jitgrad.kernels.device_array import DeviceArray
from jitgrad.kernels.launch import Loop, launch, prepared
from jitgrad.random import Generator, default_generator

__all__ = [
    "drawn_by", "fill_apart", "fill_by", "filled_new", "generator_for", "parameters_for_draw", "unwritten",
]  # fmt: skip


def generator_for(op: str, generator: Any) -> Generator:
    """The generator passed to an op, or the default one."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise must_be(op, "generator", None, "torch.Generator", generator)
    return generator


def fill_apart(fill: Callable[[Tensor], None], out: Tensor) -> None:
    """Fill a new tensor of the CPU and copy it to ``out``, one on a device or a view whose memory holds conjugates."""
    layout = intern(out._layout.numpy_dtype, out._layout.shape, out._layout.strides)
    drawn = wrap(empty_for(layout), layout)
    fill(drawn)
    copy_into(out._data, out._layout, drawn)


def fill_by(kernel: Any, out: Tensor, generator: Generator, *scalars: Any) -> None:
    """Fill a tensor by a kernel that draws from ``generator``, in the order of its memory, as PyTorch does.

    Memory with gaps is filled by way of memory without, so that each element gets the number that it has in PyTorch.
    """
    if grad_state.levels:
        check_fill()
    if type(out._data) is DeviceArray:  # numbers are drawn on the CPU, for whatever device
        return fill_apart(lambda drawn: fill_by(kernel, drawn, generator, *scalars), out)
    if out._layout.contiguous:
        key = kernel, out._layout, len(scalars)
        run = None if type(out._data) is not np.ndarray else _runs.get(key) or _plan_run(*key)
        with generator.lock:
            if run is None:
                launch(kernel, out._data.reshape(-1), generator.state, *scalars)
            else:
                run(out._data, generator.state, *scalars)
        return
    order = sorted(range(out._layout.ndim), key=lambda d: -out._layout.strides[d])
    memory = out._data.transpose(order)
    if memory.flags.c_contiguous:
        with generator.lock:
            launch(kernel, memory.reshape(-1), generator.state, *scalars)
        return
    layout = intern(out._layout.numpy_dtype, memory.shape, None, out._layout.device)
    drawn = wrap(empty_for(layout), layout)
    fill_by(kernel, drawn, generator, *scalars)
    back = drawn.permute(sorted(range(len(order)), key=order.__getitem__))
    copy_into(out._data, out._layout, back)


_runs: dict[Any, Callable[..., None]] = cache()


def _plan_run(kernel: Any, out: Layout, scalars: int) -> Callable[..., None]:
    """What launches a kernel that draws ``out``, of row-major order; kernels take vectors."""

    def run(array: Any, *rest: Any) -> None:
        launch(kernel, array.reshape(-1), *rest)

    if out.device == "cpu" and not out.dtype.is_half and isinstance(kernel, Loop):
        run = prepared(kernel, out.numpy_dtype, (out.numel,), (0,), *(None,) * scalars, flat=1)
    _runs[kernel, out, scalars] = run
    return run


def drawn_by(kernel: Any, out: Layout, generator: Generator, *scalars: Any, of: Sequence[Tensor]) -> Tensor:
    """A new row-major tensor of the dtype and shape of ``out``, drawn by a kernel that takes parameters.

    of: tensors of the same shape, which hold the parameters of each element's distribution.
    """
    if grad_state.levels:
        check_fill()
    key = kernel, out, len(scalars), *[x._layout for x in of]
    draw = _draws.get(key) or _plan_draw(key)
    with generator.lock:
        return draw(*of, generator.state, *scalars)


_draws: dict[Any, Callable[..., Tensor]] = cache()


def _plan_draw(key: Any) -> Callable[..., Tensor]:
    """What ``drawn_by`` calls: a function of parameters, a generator's state and the kernel's further arguments."""
    kernel, out, scalars, *of = key
    layout = intern(out.numpy_dtype, out.shape, None, out.device)
    parameters, numbers = {f"p{k}": x for k, x in enumerate(of)}, ["state", *[f"s{k}" for k in range(scalars)]]
    given = [row_major(name, x, (x.numel,)) for name, x in parameters.items()]
    launches = [(kernel, *given, Written(0, (layout.numel,)), *map(Number, numbers))]
    drawn = _draws[key] = compiled(Launches(launches, [layout]), parameters | dict.fromkeys(numbers))
    return drawn


def unwritten(x: Tensor) -> Tensor:
    """Set the version of a new tensor to 0 after its first fill, which is part of making it; return the tensor."""
    if not is_inference(x):
        x._counter = UNWRITTEN
    return x


def filled_new(fill: Any, x: Tensor, *args: Any, out: Tensor | None = None) -> Tensor:
    """Fill ``x``, a new tensor, by ``fill``, an op that draws; under vmap with "different" a batch of such tensors.

    RuntimeError where vmap's ``randomness`` forbids drawing. out: the public function's argument, checked for the same.
    """
    if grad_state.levels:
        check_draw(out=out)
        return unwritten(fill.inplace(batch_for_draw(x), *args))
    fill.write(x, *args)  # nobody has it yet: there is nothing to check or to count
    return x


def parameters_for_draw(*tensors: Tensor, out: Tensor | None = None) -> Any:
    """Parameters of distributions, under vmap expanded to the whole batch.

    RuntimeError where vmap's ``randomness`` forbids that. out: the argument of that name, which is checked with them.
    """
    if grad_state.levels:
        check_draw(*tensors, out=out)
        tensors = tuple([expand_for_draw(t) for t in tensors])
    return tensors if len(tensors) > 1 else tensors[0]
