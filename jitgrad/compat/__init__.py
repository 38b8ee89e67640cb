"""``import torch`` means jitgrad: for scripts and libraries whose imports one can't edit.

``install()`` puts a finder before Python's own that answers for ``torch`` and every ``torch.X`` with the module
``jitgrad.X`` itself, not with a copy: ``torch.nn.functional is jitgrad.nn.functional``. A module that jitgrad does not
have is not found, as any missing module; PyTorch's own is never imported in its place. What asks for the installed
distribution (``importlib.metadata.version("torch")``) gets one whose version is that of ``torch.__version__``.

- While it is installed, ``jitgrad.__version__`` is PyTorch's version whose behaviour is followed, with jitgrad's behind
  a plus: ``2.13.0+jitgrad.0.1.0``. Libraries compare it. ``torch`` and ``jitgrad`` are one module, which
  can't have two versions by two names.
- One process has one of the two: where PyTorch is imported already, ``install`` refuses, since objects of both would
  meet. Processes that ``multiprocessing`` starts, as a DataLoader does, have what this one has; others, which
  ``subprocess`` starts, have to call ``install`` themselves.
- What is compiled against PyTorch (torchvision's operators, torchaudio) can't be loaded: it asks for C++ symbols.
"""

from jitgrad.compat.finder import install, installed, uninstall

__all__ = ["install", "installed", "uninstall"]
