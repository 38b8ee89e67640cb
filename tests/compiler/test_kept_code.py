"""Rewritten code of jitgrad's own functions on disk: made once, never of another text, and never of a user's."""

import ast

import pytest

import jitgrad as torch
from jitgrad.compiler import definitions, instrument

FORWARD = torch.nn.Linear.forward


@pytest.fixture
def rewrite(tmp_path, monkeypatch):
    """``rewrite(function)``, as a new process does it; its ``asked`` are the functions that were looked up."""
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))
    definition = instrument.definition
    monkeypatch.setattr(instrument, "definition", lambda code: call.asked.append(code.co_name) or definition(code))

    def call(function):
        instrument._rewritten_code.cache_clear()
        return instrument._rewritten_code(function.__code__, function.__code__.co_filename, function.__qualname__, None)

    call.asked = []
    yield call
    instrument._rewritten_code.cache_clear()


def files(tmp_path):
    return sorted(tmp_path.rglob("*.code"))


def test_code_of_ours_is_made_once(rewrite, tmp_path):
    first, second = rewrite(FORWARD), rewrite(FORWARD)
    assert rewrite.asked == ["forward"]
    assert first == second and first.co_filename == FORWARD.__code__.co_filename
    assert len(files(tmp_path)) == 1
    rewrite(torch.nn.Bilinear.forward)
    assert len(files(tmp_path)) == 2


def test_code_of_users_is_not_kept(rewrite, tmp_path):
    def doubled(x):
        return x * 2

    rewrite(doubled), rewrite(doubled)
    assert rewrite.asked == ["doubled", "doubled"]
    assert not files(tmp_path)


def test_a_damaged_file_is_written_again(rewrite, tmp_path):
    rewrite(FORWARD)
    (file,) = files(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    rewrite(FORWARD)
    assert rewrite.asked == ["forward", "forward"]
    assert file.read_bytes() == whole


def test_nothing_is_made_of_another_text(rewrite, tmp_path, monkeypatch):
    edited = ast.parse("def forward(self, input):\n    return F.linear(input, self.weight, None)").body[0]
    monkeypatch.setattr(definitions, "_found", lambda tree, code: edited)
    with pytest.raises(definitions.NotRewritable, match="has changed"):
        rewrite(FORWARD)
    assert not files(tmp_path)


def test_a_folder_that_cannot_be_written_to(rewrite, monkeypatch):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", "/dev/null/none")
    assert rewrite(FORWARD) == rewrite(FORWARD)
