"""Write jitgrad/core/torch_names.txt: the public names of those modules of PyTorch that jitgrad has a module for.

    python tests/peer/torch_names.py

Names of PyTorch's that jitgrad has are in the list too, so that it changes with PyTorch's releases only.
"""

from __future__ import annotations

import textwrap
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

FILE = Path(__file__).parents[2] / "jitgrad" / "core" / "torch_names.txt"
MODULES = (
    "torch", "torch.amp", "torch.autograd", "torch.autograd.functional", "torch.autograd.graph", "torch.backends",
    "torch.cuda", "torch.fft", "torch.func", "torch.linalg", "torch.masked", "torch.nn", "torch.nn.functional",
    "torch.nn.init", "torch.nn.utils", "torch.optim", "torch.optim.lr_scheduler", "torch.profiler", "torch.random",
    "torch.signal", "torch.signal.windows", "torch.special", "torch.testing", "torch.utils", "torch.utils.data",
)  # fmt: skip


def public_names(module: ModuleType) -> list[str]:
    """The module's names for users: ``__all__``, submodules, and functions, classes and values that PyTorch defines.

    Submodules are those on disk: which ones are attributes depends on what else was imported.
    """
    listed = {*getattr(module, "__all__", ()), *(m.name for m in iter_modules(getattr(module, "__path__", ())))}
    return sorted(n for n in listed | {*filter(partial(_is_defined, module), dir(module))} if n[0] != "_")


def _is_defined(module: ModuleType, name: str) -> bool:
    """Whether a name is of something that PyTorch defines: no module, and nothing imported from elsewhere."""
    value = getattr(module, name)
    if isinstance(value, ModuleType) or name == "TYPE_CHECKING":
        return False
    return str(getattr(value, "__module__", None) or "torch").startswith("torch")


def text() -> str:
    """What the file holds."""
    wrapper = textwrap.TextWrapper(118, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
    modules = {module: " ".join(public_names(import_module(module))) for module in MODULES}
    return "\n".join(f"{module}\n{wrapper.fill(names)}" for module, names in modules.items()) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    print(f"{FILE}: written")
