"""Pictures of graphs, tables of modules, and the notebooks, which are executed from top to bottom.

``python tests/notebook/test_notebook.py`` executes them anew and stores their outputs; names of notebooks behind it
restrict it to these.
"""

import re
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import jitgrad as torch
import jitgrad.nn.functional as F
from jitgrad import nn
from jitgrad.debug.graph_layout import arrange
from jitgrad.debug.picture import Arrow, Box, Picture
from jitgrad.notebook import draw, summary

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SVG = "{http://www.w3.org/2000/svg}"


def texts(picture):
    """The text in the boxes of a drawn picture, by box, after checking that it is well-formed."""
    root = ET.fromstring(picture.svg(graphviz=False))
    assert root.tag == f"{SVG}svg"
    boxes = [[t.text for t in box.iter(f"{SVG}text")] for box in root.iter(f"{SVG}g")]
    return [[text.replace("\N{NO-BREAK SPACE}", " ") for text in box] for box in boxes]


def links(picture):
    """(title, title) of each arrow, those of dashed ones in brackets."""
    title = {box.key: box.lines[0] for box in picture.boxes}
    ends = [((title[a.start], title[a.end]), a.dashed) for a in picture.arrows]
    return {(pair,) if dashed else pair for pair, dashed in ends}


@pytest.fixture
def affine():
    """x, W, b, z, loss of a small regression."""
    x, W, b = torch.ones(1, 3), torch.ones(3, 2, requires_grad=True), torch.ones(1, 2, requires_grad=True)
    z = x @ W + b
    return x, W, b, z, F.mse_loss(F.relu(z), torch.ones(1, 2))


# -- the graph ----------------------------------------------------------------------------------------


def test_boxes_and_arrows(affine):
    _, W, b, _, loss = affine
    picture = draw(loss, names={"W": W, "b": b, "loss": loss})
    assert [box.lines[0] for box in picture.boxes if box.kind == "leaf"] == ["W", "b"]
    assert links(picture) == {
        ("W", "AccumulateGrad"), ("b", "AccumulateGrad"), ("AccumulateGrad", "MmBackward0"),
        ("AccumulateGrad", "AddBackward0"), ("MmBackward0", "AddBackward0"), ("AddBackward0", "ReluBackward0"),
        ("ReluBackward0", "MseLossBackward0"), ("MseLossBackward0", "loss"),
    }  # fmt: skip
    assert ["W", "(3, 2)"] in texts(picture) and ["AddBackward0", "(1, 2)"] in texts(picture)


def test_saved_tensors_are_drawn_until_they_are_freed(affine):
    x, W, b, z, loss = affine
    picture = draw(loss, names={"x": x, "W": W, "b": b, "z": z}, saved=True)
    assert (("x", "MmBackward0"),) in links(picture)
    assert {box.lines[0] for box in picture.boxes if box.kind == "saved"} >= {"x", "saved out"}
    loss.backward()
    picture = draw(loss, saved=True)
    assert not [box for box in picture.boxes if box.kind == "saved"]
    assert ["MmBackward0", "(1, 2)", "saved: freed"] in texts(picture)
    assert ["AddBackward0", "(1, 2)"] in texts(picture)  # had saved nothing


def test_values_and_gradients(affine):
    _, W, b, z, loss = affine
    z.retain_grad()
    loss.backward()
    shown = texts(draw(loss, names={"W": W, "b": b}, values=True, grads=True))
    assert ["b", "(1, 2)", "[[1., 1.]]", "grad [[3., 3.]]"] in shown
    assert ["tensor", "(1, 2)", "[[4., 4.]]", "grad [[3., 3.]]"] in shown  # z: it retains its gradient
    assert ["W", "(3, 2)", "[[1., 1.],", "[1., 1.],", "[1., 1.]]", "grad [[3., 3.],", "[3., 3.],", "[3., 3.]]"] in shown
    assert ["output", "()", "9.", "grad None"] in shown


def test_drawing_warns_of_nothing_and_launches_nothing(affine, recwarn):
    with torch.debug.tape() as launched:
        draw(affine[-1], saved=True, values=True, grads=True).svg(graphviz=False)
    assert len(launched) == 0 and not recwarn.list


def test_a_named_result_stands_between_its_maker_and_its_readers(affine):
    _, _, _, z, loss = affine
    picture = draw(loss, names={"z": z})
    assert {("AddBackward0", "z"), ("z", "ReluBackward0")} <= links(picture)
    assert ("AddBackward0", "ReluBackward0") not in links(picture)


def test_several_outputs_one_of_them_within():
    x = torch.ones(2, 3, requires_grad=True)
    u, v = x.unbind(0)
    picture = draw((u * v, v), names={"v": v})
    assert {("UnbindBackward0", "v"), ("v", "MulBackward0"), ("UnbindBackward0", "MulBackward0")} <= links(picture)
    assert {a.label for a in picture.arrows} >= {"output 0", "output 1"}
    assert [box.kind for box in picture.boxes if box.lines[0] == "v"] == ["output"]


def test_the_same_input_twice_gives_two_arrows():
    x = torch.ones(2, requires_grad=True)
    picture = draw(x * x, saved=True)
    titles = [(b.lines[0], b.kind) for b in picture.boxes]
    assert titles.count(("AccumulateGrad", "function")) == 1
    assert len([a for a in picture.arrows if not a.dashed]) == 4
    assert len([a for a in picture.arrows if a.dashed]) == 1  # the leaf itself is what is saved


def test_leaves_and_constants_alone():
    assert links(draw(torch.ones(2, requires_grad=True))) == {("leaf", "AccumulateGrad")}
    assert [b.kind for b in draw(torch.ones(2)).boxes] == ["output"]


def test_gradients_of_gradients_views_and_written_views():
    x = torch.ones(3, requires_grad=True)
    (g,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    y = x.clone()
    y[1:] *= 2
    for result in (g, y, torch.cat([x, x]), x.reshape(3, 1).t(), torch.stack([x, g]).sum(0)):
        assert texts(draw(result, names={"x": x}, saved=True, values=True))


def test_a_dropped_leaf():
    result = torch.ones(2, requires_grad=True).exp()
    assert ["leaf", "no longer held"] in texts(draw(result))


def test_modules_name_their_parameters():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    shown = texts(draw(model(torch.ones(4, 2)).sum(), names=model, saved=True))
    assert ["0.weight", "(3, 2)"] in shown and ["2.bias", "(1,)"] in shown


def test_what_cannot_be_drawn():
    with pytest.raises(TypeError, match="expected Tensors, but got float"):
        draw(1.0)
    with pytest.raises(TypeError, match="names must be a dict"):
        draw(torch.ones(2), names=["x"])


# -- pictures -----------------------------------------------------------------------------------------

TRICKY = Picture(
    [Box("n0", ('a "b" \\ <c> & #d',)), Box("n1", ("[ 1.,  2.]", "é"), "leaf")],
    [Arrow("n0", "n1", "output 1"), Arrow("n0", "n1", dashed=True)],
)


def test_svg_escapes_what_it_shows():
    assert texts(TRICKY) == [['a "b" \\ <c> & #d'], ["[ 1.,  2.]", "é"]]


def test_dot():
    lines = TRICKY.dot.splitlines()
    assert lines[0] == "digraph autograd {" and lines[-1] == "}"
    assert '  n0 [label="a \\"b\\" \\\\ <c> & #d"' in TRICKY.dot
    assert '[label="[ 1.,  2.]\\né", fillcolor="#add8e6"' in TRICKY.dot
    assert '  n0 -> n1 [label="output 1"];' in lines and "  n0 -> n1 [style=dashed, dir=none];" in lines


def test_mermaid():
    lines = TRICKY.mermaid.splitlines()
    assert lines[0] == "flowchart TD"
    assert '  n0["a #quot;b#quot; \\ #lt;c#gt; & #35;d"]:::function' in lines
    assert '  n0 -->|"output 1"| n1' in lines and "  n0 -.- n1" in lines
    assert any(line.startswith("  classDef leaf fill:#add8e6") for line in lines)


def test_save(tmp_path):
    for suffix, start in ((".svg", "<svg"), (".dot", "digraph"), (".mmd", "flowchart")):
        TRICKY.save(tmp_path / f"picture{suffix}")
        assert (tmp_path / f"picture{suffix}").read_text(encoding="utf-8").startswith(start)
    with pytest.raises(ValueError, match=r"can't save a picture as \.png"):
        TRICKY.save(tmp_path / "picture.png")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws_where_it_is_installed():
    assert ET.fromstring(TRICKY.svg(graphviz=True)).tag == f"{SVG}svg"


def test_without_graphviz(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert TRICKY.svg() == TRICKY.svg(graphviz=False) == TRICKY._repr_svg_()
    with pytest.raises(RuntimeError, match="Graphviz is not installed"):
        TRICKY.svg(graphviz=True)


def test_huge_pictures_are_not_shown_unasked():
    chain = Picture([Box(f"n{k}", ("op",)) for k in range(3000)], [Arrow(f"n{k}", f"n{k + 1}") for k in range(2999)])
    assert chain._repr_svg_() is None
    assert chain.svg(graphviz=False).count("<rect") == 3000


# -- where things go ----------------------------------------------------------------------------------


def overlap(a, b, sizes, centres):
    return all(abs(centres[a][d] - centres[b][d]) < (sizes[a][d] + sizes[b][d]) / 2 for d in (0, 1))


@pytest.mark.parametrize("seed", range(5))
def test_boxes_keep_apart_and_arrows_lead_down(seed):
    import random

    rng = random.Random(seed)
    sizes = [(rng.uniform(20, 120), rng.uniform(10, 60)) for _ in range(30)]
    arrows = [(rng.randrange(b), b) for b in range(1, 30) for _ in range(rng.randrange(3))]
    plan = arrange(sizes, arrows)
    assert not [(a, b) for a in range(30) for b in range(a) if overlap(a, b, sizes, plan.centres)]
    for (w, h), (x, y) in zip(sizes, plan.centres, strict=True):
        assert w / 2 - 1e-6 <= x <= plan.width - w / 2 + 1e-6 and h / 2 <= y + 1e-6 and y <= plan.height - h / 2 + 1e-6
    for path, (a, b) in zip(plan.paths, arrows, strict=True):
        heights = [y for _, y in path]
        assert heights == sorted(heights) and len(path) % 2 == 0
        assert heights[0] == pytest.approx(plan.centres[a][1] + sizes[a][1] / 2)
        assert heights[-1] == pytest.approx(plan.centres[b][1] - sizes[b][1] / 2)


def test_crossings_that_can_be_avoided_are_avoided():
    sizes = [(10.0, 10.0)] * 6
    plan = arrange(sizes, [(0, 5), (1, 4), (2, 3)])
    above, below = [plan.centres[k][0] for k in (0, 1, 2)], [plan.centres[k][0] for k in (5, 4, 3)]
    assert above == pytest.approx(below)


def test_a_circle_of_arrows():
    with pytest.raises(ValueError, match="arrows lead in a circle"):
        arrange([(1.0, 1.0)] * 3, [(0, 1), (1, 2), (2, 1)])


def test_nothing_at_all():
    assert ET.fromstring(Picture([], []).svg(graphviz=False)).tag == f"{SVG}svg"


# -- modules and tapes --------------------------------------------------------------------------------


def test_summary():
    shared = nn.Linear(4, 4, bias=False)
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), shared, shared)
    model[0].bias.requires_grad_(False)
    table = summary(model, torch.ones(5, 2))
    lines = str(table).splitlines()
    assert lines[0].split() == ["name", "layer", "parameters", "output", "count"]
    assert re.split("  +", lines[3]) == [
        "0", "Linear(in_features=2, out_features=4, bias=True)", "weight (4, 2), bias (4,)", "(5, 4)", "12",
    ]  # fmt: skip
    assert lines[-1] == "28 parameters, 24 trainable, 112 bytes"
    assert "output" not in str(summary(model)).splitlines()[0]
    root = ET.fromstring(f"<div>{table._repr_html_()}</div>")
    assert len(list(root.iter("tr"))) == 1 + len(table.rows)
    assert not model[1]._forward_hooks


def test_tapes_show_a_picture_without_graphviz(monkeypatch):
    monkeypatch.setenv("PATH", "")
    x = torch.ones(3)
    with torch.debug.tape() as launched:
        (x * x).exp()
    shown = launched._repr_html_()
    assert texts(launched.picture()) == [["mul_forward", "float32[3]"], ["exp_forward", "float32[3]"]]
    assert shown.startswith("<table>") and shown.endswith("</svg>")
    assert "def mul_forward(" in launched.entries[0].text


# -- the notebooks ------------------------------------------------------------------------------------


def executed(notebook):
    """The notebook with fresh outputs; raises if a cell does."""
    nbclient = pytest.importorskip("nbclient")
    metadata = dict(notebook.metadata)  # executing adds which Python it was
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", record_timing=False, coalesce_streams=True
    )
    client.execute(cwd=str(NOTEBOOKS))
    notebook.metadata.clear()
    notebook.metadata.update(metadata)
    return notebook


def printed(notebook):
    """(cell, text) of everything that is text, addresses masked."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                assert output.name == "stdout", output.text
                yield cell.id, mask(output.text)
            elif "text/plain" in output.get("data", {}):
                yield cell.id, mask(output.data["text/plain"])


def mask(text):
    return re.sub(r"0x[0-9a-f]+", "0x...", text)


@pytest.mark.parametrize("name, texts", [("autograd", 20), ("loops", 15)])
def test_a_notebook_runs_and_prints_what_it_shows(name, texts):
    nbformat = pytest.importorskip("nbformat")
    if name == "loops":
        pytest.importorskip("scipy")
    stored = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    nbformat.validate(stored)
    shown = list(printed(stored))
    assert len(shown) > texts
    fresh = executed(nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4))
    assert list(printed(fresh)) == shown


@pytest.mark.parametrize("name", ["autograd", "loops"])
def test_a_notebook_shows_pictures(name):
    nbformat = pytest.importorskip("nbformat")
    outputs = [o for c in nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells for o in c.get("outputs", ())]
    pictures = [o.data["image/svg+xml"] for o in outputs if "image/svg+xml" in o.get("data", {})]
    assert len(pictures) >= 8
    for text in pictures:
        assert ET.fromstring(text).tag == f"{SVG}svg"


if __name__ == "__main__":
    import nbformat

    for name in sys.argv[1:] or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")):
        file = NOTEBOOKS / f"{name}.ipynb"
        nbformat.write(executed(nbformat.read(file, as_version=4)), file)
