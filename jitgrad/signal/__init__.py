"""Signal processing: ``torch.signal``, which has windows."""

from jitgrad.core.lazy_import import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, {"windows": "jitgrad.signal.windows"})
