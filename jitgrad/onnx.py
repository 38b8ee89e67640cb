"""``torch.onnx``: files of graphs, which are not written here. ``is_in_onnx_export()`` is False."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

__all__ = ["is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """Whether code is being exported: never."""
    return False


class OnnxExporterError(RuntimeError):
    """What an export would raise."""


absent_names(__name__, "ExportOptions ONNXProgram dynamo_export export register_custom_op_symbolic",
             "there are no graphs of ops that could be written to a file")  # fmt: skip
