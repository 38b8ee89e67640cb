"""Pictures of graphs: boxes of text and arrows, as SVG, as DOT, as Mermaid.

SVG is drawn by Graphviz where its ``dot`` is installed, else here, so that a picture shows in every
notebook. The colours of a computation graph are those that users of torchviz know.
"""

from __future__ import annotations

import html
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from jitgrad.debug.graph_layout import Arrangement, Point, arrange

__all__ = ["Arrow", "Box", "Picture", "graphviz_svg"]

# What a box stands for, and its (fill, border, corner radius).
KINDS = {
    "leaf": ("#add8e6", "#5b97ad", 2),
    "saved": ("#ffb347", "#c07c15", 2),
    "function": ("#dcdcdc", "#8c8c8c", 9),
    "output": ("#caff70", "#7ba82e", 2),
    "tensor": ("#f6f8ee", "#7ba82e", 2),
}
FONT = "DejaVu Sans Mono,Menlo,Consolas,ui-monospace,monospace"
# Pixels. Widths of boxes are computed without a browser: a character is 0.602 em wide in all of these fonts.
FONT_SIZE, CHARACTER, LINE = 11, 6.65, 15.0
MARGIN, PADDING, ARROW_HEAD = 8.0, 9.0, 7.0
MOST_SHOWN = 300  # boxes; a notebook shows a bigger picture only when ``svg()`` is called


@dataclass(frozen=True)
class Box:
    """A box with lines of text, the first of which is its title; ``kind`` gives its colour."""

    key: str
    lines: tuple[str, ...]
    kind: str = "function"

    @property
    def size(self) -> Point:
        """Width and height as drawn here."""
        width = max(map(len, self.lines), default=0)
        return width * CHARACTER + 2 * PADDING, len(self.lines) * LINE + PADDING


@dataclass(frozen=True)
class Arrow:
    """From one box to another; ``dashed`` ones have no head."""

    start: str
    end: str
    label: str = ""
    dashed: bool = False


class Picture:
    """A directed graph without circles, ready to be shown.

    ``dot`` and ``mermaid`` are its texts in these languages, ``svg()`` draws it. In a notebook it
    shows itself. Raises ValueError, when drawn, if the arrows lead in a circle.
    """

    def __init__(self, boxes: list[Box], arrows: list[Arrow], name: str = "autograd"):
        self.boxes, self.arrows, self.name = boxes, arrows, name

    def __repr__(self) -> str:
        return f"<picture of {len(self.boxes)} boxes and {len(self.arrows)} arrows>"

    @property
    def dot(self) -> str:
        """The graph in Graphviz's language."""
        lines = [
            f"digraph {self.name} {{",
            "  rankdir=TB; ranksep=0.4; nodesep=0.3; bgcolor=transparent;",
            '  node [shape=box, style=filled, fontname="monospace", fontsize=10];',
            '  edge [color="#666666", arrowsize=0.7, fontname="monospace", fontsize=9];',
        ]
        lines += [f"  {box.key} [{_dot_box(box)}];" for box in self.boxes]
        lines += [f"  {arrow.start} -> {arrow.end}{_dot_arrow(arrow)};" for arrow in self.arrows]
        return "\n".join([*lines, "}"])

    @property
    def mermaid(self) -> str:
        """The graph as a Mermaid flow chart."""
        lines = ["flowchart TD"]
        lines += [f'  {box.key}["{"<br/>".join(map(_mermaid_text, box.lines))}"]:::{box.kind}' for box in self.boxes]
        for arrow in self.arrows:
            line = "-.-" if arrow.dashed else "-->"
            label = f'|"{_mermaid_text(arrow.label)}"|' if arrow.label else ""
            lines.append(f"  {arrow.start} {line}{label} {arrow.end}")
        for kind in dict.fromkeys(box.kind for box in self.boxes):
            fill, border, _ = KINDS[kind]
            lines.append(f"  classDef {kind} fill:{fill},stroke:{border},color:#1a1a1a")
        return "\n".join(lines)

    def svg(self, graphviz: bool | None = None) -> str:
        """The picture as SVG text.

        graphviz: True asks for Graphviz (RuntimeError where it is not installed), False for our own
        drawing; by default Graphviz is used where it is installed.
        """
        if graphviz is not False:
            drawn = graphviz_svg(self.dot)
            if drawn is not None:
                return drawn
            if graphviz:
                raise RuntimeError("Graphviz is not installed: no program 'dot'; svg(graphviz=False) needs none")
        return self._drawn()

    def save(self, path: str | Path) -> None:
        """Write the picture: SVG, DOT or Mermaid text, as the suffix (.svg, .dot, .mmd) says."""
        texts = {".svg": self.svg, ".dot": lambda: self.dot, ".mmd": lambda: self.mermaid}
        suffix = Path(path).suffix
        if suffix not in texts:
            raise ValueError(f"can't save a picture as {suffix or 'a file without suffix'}; use {', '.join(texts)}")
        Path(path).write_text(texts[suffix](), encoding="utf-8")

    def _repr_svg_(self) -> str | None:
        return self.svg() if len(self.boxes) <= MOST_SHOWN else None

    def _drawn(self) -> str:
        number = {box.key: k for k, box in enumerate(self.boxes)}
        arrows = [(number[a.start], number[a.end]) for a in self.arrows]
        plan = arrange([box.size for box in self.boxes], arrows)
        width, height = plan.width + 2 * MARGIN, plan.height + 2 * MARGIN
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_short(width)}" height="{_short(height)}" '
            f'viewBox="{_short(-MARGIN)} {_short(-MARGIN)} {_short(width)} {_short(height)}" role="img" '
            f'aria-label="{html.escape(repr(self)[1:-1])}" font-family="{FONT}" font-size="{FONT_SIZE}" '
            'fill="#1a1a1a" text-anchor="middle">'
        )
        return "\n".join([head, *self._svg_arrows(plan), *self._svg_boxes(plan), "</svg>"])

    def _svg_arrows(self, plan: Arrangement) -> list[str]:
        return [_svg_arrow(arrow, path) for arrow, path in zip(self.arrows, plan.paths, strict=True)]

    def _svg_boxes(self, plan: Arrangement) -> list[str]:
        return [_svg_box(box, centre) for box, centre in zip(self.boxes, plan.centres, strict=True)]


def graphviz_svg(text: str) -> str | None:
    """Return Graphviz's SVG of DOT ``text``, or None where its ``dot`` is not installed or fails."""
    if shutil.which("dot") is None:
        return None
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    return done.stdout[done.stdout.find("<svg") :] if done.returncode == 0 else None


# -- DOT and Mermaid ----------------------------------------------------------------------------------


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _dot_box(box: Box) -> str:
    fill, border, _ = KINDS[box.kind]
    style = ', style="filled,rounded"' if box.kind == "function" else ""
    label = "\\n".join(map(_dot_text, box.lines))
    return f'label="{label}", fillcolor="{fill}", color="{border}"{style}'


def _dot_arrow(arrow: Arrow) -> str:
    settings = [f'label="{_dot_text(arrow.label)}"'] if arrow.label else []
    settings += ["style=dashed", "dir=none"] if arrow.dashed else []
    return f" [{', '.join(settings)}]" if settings else ""


def _mermaid_text(text: str) -> str:
    marks = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;"}
    return "".join(marks.get(c, c) for c in text)


# -- SVG ----------------------------------------------------------------------------------------------


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _svg_box(box: Box, centre: Point) -> str:
    (width, height), (x, y) = box.size, centre
    fill, border, radius = KINDS[box.kind]
    parts = [
        f'<g class="{box.kind}"><rect x="{_short(x - width / 2)}" y="{_short(y - height / 2)}" width="{_short(width)}" '
        f'height="{_short(height)}" rx="{radius}" fill="{fill}" stroke="{border}"/>'
    ]
    # Letters of these fonts stand 0.76 of a line below its top.
    baseline = y - height / 2 + PADDING / 2 + LINE * 0.76
    for k, line in enumerate(box.lines):
        # Spaces at the ends keep columns of numbers in line. Renderers disagree on whether such spaces have a width, so
        # they are cut off and the centred text is moved by half of what they would have taken.
        shift = (len(line) - len(line.lstrip())) - (len(line) - len(line.rstrip()))
        weight = ' font-weight="bold"' if k == 0 else ""
        text = html.escape(line.strip()).replace(" ", "\N{NO-BREAK SPACE}")
        place = f'x="{_short(x + shift * CHARACTER / 2)}" y="{_short(baseline + k * LINE)}"'
        parts.append(f"<text {place}{weight}>{text}</text>")
    return "".join([*parts, "</g>"])


def _svg_arrow(arrow: Arrow, path: list[Point]) -> str:
    x, y = path[-1]
    style = ' stroke-dasharray="4 3"' if arrow.dashed else ""
    tip = y if arrow.dashed else y - ARROW_HEAD + 1  # the line ends inside the head, a pixel under its base
    parts = [f'<path d="{_curve([*path[:-1], (x, tip)])}" fill="none" stroke="#666"{style}/>']
    if not arrow.dashed:
        left, right, top = _short(x - 3.5), _short(x + 3.5), _short(y - ARROW_HEAD)
        parts.append(f'<path d="M{_short(x)} {_short(y)}L{left} {top}H{right}Z" fill="#666"/>')
    if arrow.label:
        (x0, y0), (x1, y1) = path[-2:]
        place = f'x="{_short((x0 + x1) / 2 + 4)}" y="{_short((y0 + y1) / 2 + 4)}"'
        parts.append(f'<text {place} fill="#666" font-size="9" text-anchor="start">{html.escape(arrow.label)}</text>')
    return "".join(parts)


def _curve(path: list[Point]) -> str:
    """Path data: curves and vertical lines in turn; see `Arrangement`."""
    data = [f"M{_short(path[0][0])} {_short(path[0][1])}"]
    for k in range(1, len(path)):
        (x0, y0), (x1, y1) = path[k - 1], path[k]
        if k % 2 == 0 or abs(x0 - x1) < 0.05:  # a curve between points above each other is a line
            data.append(f"V{_short(y1)}")
        else:
            middle = _short((y0 + y1) / 2)
            data.append(f"C{_short(x0)} {middle} {_short(x1)} {middle} {_short(x1)} {_short(y1)}")
    return "".join(data)
