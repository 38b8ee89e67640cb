"""``torch.package``: code in archives, which is not here. Its names can be imported, not used."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(__name__, "Directory Importer OrderedImporter PackageExporter PackageImporter PackagingError",
             "it runs code out of archives; ship modules as Python packages")  # fmt: skip
