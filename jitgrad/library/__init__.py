"""``torch.library``: ops of a program's own under ``torch.ops.NAMESPACE.NAME``.

``custom_op`` makes one of a function of tensors, whose body may be anything; ``Library`` gives schemas and functions to
names. Both are Python functions with a gradient that ``register_autograd`` adds: a call is one node, whatever the
function does inside. There is no dispatcher: of the functions that were registered for keys, the one of the tensors'
device is called, ``register_fake`` for tensors of the meta device, and one for ``Autograd`` before them. jitgrad's own
ways to declare ops, with compiled loops, are in ``jitgrad/extend/``.
"""

from jitgrad.core.absent import absent_names
from jitgrad.library.custom import CustomOpDef, custom_op
from jitgrad.library.definitions import (
    Library,
    define,
    fallthrough_kernel,
    get_ctx,
    impl,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_vmap,
)
from jitgrad.library.schema import infer_schema

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl", "impl_abstract",
    "infer_schema", "register_autocast", "register_autograd", "register_fake", "register_kernel", "register_vmap",
]  # fmt: skip

absent_names(__name__, "get_kernel opcheck register_torch_dispatch triton_op wrap_triton",
             "custom ops are Python functions here")  # fmt: skip
