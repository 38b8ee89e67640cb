"""``torch.export``: programs as files, which are not here. Its names can be imported, not used."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(__name__, "Dim ExportedProgram ShapesCollection export load register_dataclass save unflatten",
             "there are no graphs of ops that could live without Python")  # fmt: skip
