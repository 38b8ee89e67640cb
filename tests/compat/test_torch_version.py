"""Versions compare by their numbers."""

import pytest

from jitgrad.torch_version import TorchVersion


@pytest.mark.parametrize(
    "smaller, larger",
    [("1.9", "1.10"), ("2.0.0a1", "2.0"), ("2.0rc1", "2.0"), ("2.0.dev20", "2.0a1"), ("1.13.1+cu117", (2, 0)),
     ("2.2", (2, 2, 1))],
)  # fmt: skip
def test_order(smaller, larger):
    version = TorchVersion(smaller)
    assert version < larger and version <= larger and version != larger
    assert not (version > larger or version >= larger or version == larger)


def test_equal():
    version = TorchVersion("2.13.0+cpu")
    assert version == "2.13" and version == (2, 13) and version >= "2.13.0" and version == "2.13.0+cpu"
    assert version != "no version" and hash(version) == hash("2.13.0+cpu") and isinstance(version, str)
