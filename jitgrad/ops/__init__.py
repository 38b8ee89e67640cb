"""The differentiable ops, by PyTorch's chapters: a family a folder, a file for what shares a base or a kernel.

In a family are declarations (subclasses of Structured, InplaceOp, View: shapes and dtypes, launches, gradient rules)
and the public functions that parse arguments and call them. Not here: elementwise formulas (rows of
``kernels/elementwise/``), loops (``kernels/loops/``), how declarations are bound, recorded and published
(``dispatch/``). An op is composed of others unless a kernel of its own is measured to pay.

A family imports from those before it in the list below, which are on lower floors: ``shape`` < ``creation`` <
``memory``, ``pointwise``, ``reduction`` < ``linalg``, ``indexing``, ``random`` < ``nn``. Read ``shape/view.py`` for a
small family, ``reduction/softmax.py`` for an op with kernels. To import a file publishes its functions and methods;
files may be imported in any order, which tests/dispatch/test_structured_declarations.py does. Files that few programs
need are imported when one of their names is first used (``publish_later`` in each family's ``__init__.py``): all of
them would take as long as the rest of jitgrad. A test compares the names there with what the files publish.
``aten.py`` has ops under the names that policies of selective checkpoints compare.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from jitgrad.core.lazy_import import lazy_attributes
from jitgrad.dispatch import elementwise_publish
from jitgrad.ops import fft, nn, random, sparse  # what they publish late
from jitgrad.ops.shape import as_strided, complex_view, copy, expand, join, permute, slicing, subclasses, view
from jitgrad.ops.creation import constants, conversion, fill, from_data, ranges, type_info
from jitgrad.ops.memory import dlpack, pickled
from jitgrad.ops.pointwise import activation, arithmetic, complex, inplace_functions, where_clamp, words_on_tensors
from jitgrad.ops.reduction import sums
from jitgrad.ops.linalg import added_products, matmul, matrix_products
from jitgrad.ops.indexing import getitem

_lazy, __dir__ = lazy_attributes(__name__, {name: f"jitgrad.ops.{name}" for name in ("aten",)})


def __getattr__(name: str) -> Any:
    """A file here, or a namespace of a program's own ops (``jitgrad.library``), which may be empty still."""
    if name == "aten" or name[:1] == "_":
        return _lazy(name)
    if find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    import jitgrad

    return jitgrad.library.operators.namespace(name)


def load_library(path: str) -> None:
    """NotImplementedError: ops in C++ are compiled against PyTorch."""
    raise NotImplementedError(f"torch.ops.load_library: {path} was compiled against PyTorch, which is not here")
