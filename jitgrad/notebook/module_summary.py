"""A module's layers, shapes and sizes as a table."""

from __future__ import annotations

import html
from typing import Any, NamedTuple

from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor

__all__ = ["Row", "Summary", "summary"]


class Row(NamedTuple):
    """One layer: its path in the module, its repr without children, shapes, and own parameters."""

    path: str
    layer: str
    parameters: str  # name and shape of each
    output: str  # shape of what it returned, if inputs were given
    size: int


class Summary:
    """The table that ``summary`` makes: text when printed, HTML in a notebook.

    total and trainable: numbers of parameters, shared ones counted once; size: their bytes.
    """

    def __init__(self, rows: list[Row], total: int, trainable: int, size: int):
        self.rows, self.total, self.trainable, self.size = rows, total, trainable, size

    def __str__(self) -> str:
        cells = [self._head(), *(self._cells(row) for row in self.rows)]
        widths = [max(len(row[c]) for row in cells) for c in range(len(cells[0]))]
        lines = [_aligned(row, widths) for row in cells]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:], self.totals()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, body = _html_row("th", self._head()), "".join(_html_row("td", self._cells(row)) for row in self.rows)
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><p>{html.escape(self.totals())}</p>"

    def totals(self) -> str:
        """Parameters, those that training changes, and the memory that all of them take."""
        return f"{self.total:,} parameters, {self.trainable:,} trainable, {_bytes(self.size)}"

    def _head(self) -> list[str]:
        return ["name", "layer", "parameters", *(["output"] if self._with_outputs() else []), "count"]

    def _cells(self, row: Row) -> list[str]:
        output = [row.output] if self._with_outputs() else []
        return [row.path, row.layer, row.parameters, *output, f"{row.size:,}"]

    def _with_outputs(self) -> bool:
        return any(row.output for row in self.rows)


def summary(module: Any, *inputs: Any) -> Summary:
    """Tabulate the layers of ``module``: paths, parameters with shapes, and their number.

    With ``inputs`` the module is run on them once, without recording, to learn the shape of each
    layer's output; the module stays in its mode, and dropout draws random numbers as in any call.
    A parameter that several layers share counts once in the totals.

    >>> from jitgrad import nn
    >>> print(summary(nn.Sequential(nn.Linear(4, 2), nn.ReLU())))
    name  layer                                             parameters                count
    ----  ------------------------------------------------  ------------------------  -----
          Sequential                                                                      0
    0     Linear(in_features=4, out_features=2, bias=True)  weight (2, 4), bias (2,)     10
    1     ReLU()                                                                          0
    10 parameters, 10 trainable, 40 bytes
    """
    shapes = _output_shapes(module, inputs) if inputs else {}
    rows = [_row(path, layer, shapes.get(id(layer), "")) for path, layer in module.named_modules()]
    parameters = list(module.parameters())
    trainable = sum(p.numel() for p in parameters if p.requires_grad)
    size = sum(p.numel() * p.element_size() for p in parameters)
    return Summary(rows, sum(p.numel() for p in parameters), trainable, size)


def _row(path: str, layer: Any, output: str) -> Row:
    own = list(layer.named_parameters(recurse=False))
    shapes = ", ".join(f"{name} {tuple(p.shape)}" for name, p in own)
    title = type(layer).__name__
    if not any(True for _ in layer.children()):  # options of a container are its children, which have rows of their own
        title = f"{title}({layer.extra_repr()})"
    return Row(path, title, shapes, output, sum(p.numel() for _, p in own))


def _output_shapes(module: Any, inputs: tuple[Any, ...]) -> dict[int, str]:
    """The shape of what each layer returns, by the layer's id, from one run with hooks; of its last call."""
    found: dict[int, str] = {}

    def keep_shape(layer: Any, args: Any, output: Any) -> None:
        found[id(layer)] = _described(output)

    handles = [layer.register_forward_hook(keep_shape) for layer in module.modules()]
    try:
        with no_grad():
            module(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _described(output: Any) -> str:
    if isinstance(output, Tensor):
        return str(tuple(output.shape))
    if isinstance(output, (tuple, list)):
        return ", ".join(map(_described, output))
    return type(output).__name__


def _bytes(size: int) -> str:
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


def _html_row(tag: str, cells: list[str]) -> str:
    """A row of cells: texts aligned left, the last cell, a number, aligned right."""
    sides = ["left"] * (len(cells) - 1) + ["right"]
    parts = [f"<{tag} style='text-align:{s}'>{html.escape(c)}</{tag}>" for s, c in zip(sides, cells, strict=True)]
    return f"<tr>{''.join(parts)}</tr>"


def _aligned(cells: list[str], widths: list[int]) -> str:
    *texts, number = cells
    left = [text.ljust(width) for text, width in zip(texts, widths, strict=False)]
    return "  ".join([*left, number.rjust(widths[-1])])
