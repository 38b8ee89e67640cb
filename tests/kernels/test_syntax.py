"""Functions as syntax trees."""

import ast
import inspect
import textwrap
from pathlib import Path

import pytest

from jitgrad.kernels import words
from jitgrad.kernels.words import syntax

FILES = sorted(Path(words.__file__).parents[1].glob("*/*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}.{file.stem}")
def test_definitions_end_where_their_tokens_do(file):
    text = file.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            lines = text.splitlines(True)[first:]
            expected = ast.parse(textwrap.dedent("".join(inspect.getblock(lines)))).body[0]
            assert ast.dump(syntax._first_statement(lines, 0)) == ast.dump(expected)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x,\ny):\n    return x\nz = 1\n",
        "def f(x):\n    s = '''\nat the margin\n'''\n# a comment\n\n    return s\nz = 1\n",
        "def f(x): return x\nz = 1\n",
        "@g(\n1)\ndef f(x):\n    return (x +\n1)\nz = 1\n",
        "def f(x):\n    return x \\\n+ 1\nz = 1\n",
        "    def f(x):\n        return x",
    ],
)
def test_lines_at_the_margin_within_a_definition(text):
    lines = text.splitlines(True)
    expected = ast.parse(textwrap.dedent("".join(inspect.getblock(lines)))).body[0]
    assert isinstance(expected, ast.FunctionDef)
    assert ast.dump(syntax._first_statement(lines, 0)) == ast.dump(expected)
