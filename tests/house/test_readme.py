"""README's promises: its blocks run, its commands are those of CI, its files exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)


def run(block, scope, folder):
    """Run a block as a file of its own: kernels are compiled from their source text."""
    file = folder / f"block{len(list(folder.iterdir()))}.py"
    file.write_text(block, encoding="utf-8")
    exec(compile(block, str(file), "exec"), scope)


def test_blocks_run_one_after_the_other(capsys, tmp_path):
    scope = {}
    for block in BLOCKS:
        if "(Elementwise" not in block:  # belongs into kernels/elementwise/arithmetic.py; tested there
            run(block, scope, tmp_path)
    first_loss = capsys.readouterr().out.splitlines()[0]
    shown = re.search(r"print\(loss\)  # (tensor\(.*, grad_fn=<MseLossBackward0>\)), as PyTorch prints", README)[1]
    value = re.compile(r"\d\.\d+")  # another processor may round another last digit in 300 steps
    assert value.sub("", first_loss) == value.sub("", shown)
    assert float(value.search(first_loss)[0]) == pytest.approx(float(value.search(shown)[0]), abs=2e-4)



def test_own_loop_and_its_backward_are_adjoint(tmp_path):
    import jitgrad

    scope = {}
    run(next(block for block in BLOCKS if "kernel_pair(" in block), scope, tmp_path)
    x, y = (jitgrad.randn(20, dtype=jitgrad.float64) for _ in range(2))
    x.requires_grad_()
    result = scope["moving_average"](x, 0.1)  # linear in x: <y, Ax> = <A'y, x>
    (gradient,) = jitgrad.autograd.grad(result, x, y)
    assert (y * result).sum().item() == pytest.approx((gradient * x).sum().item())


COMMANDS = ['pip install -e ".[test]"', "python -m pytest", "python -m jitgrad demo"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_those_of_ci(command):
    assert command in README
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_files_that_texts_name_exist():
    for text in (README, (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        for name in re.findall(r"`((?:kernels|jitgrad|tests|asv_bench)/[\w/.]*)`", text):
            assert (ROOT / name).exists(), name
