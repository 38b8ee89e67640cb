"""What a training script needs besides tensors and modules, at PyTorch's places.

``data/`` loads data in batches; ``checkpoint.py`` and ``selective.py`` trade memory for computing twice;
``tensorboard.py`` writes for TensorBoard by tensorboardX, ``weak.py`` has dictionaries keyed by tensors.
``_pytree.py``, ``hooks.py`` and ``dlpack.py`` only give PyTorch's names to what lives elsewhere, ``cpp_extension.py``
and ``model_zoo.py`` refuse what is not possible here.
No op, node or layer lives here, and nothing but commands and tests imports this package: it is imported when a
program first asks for it.

A checkpointed region keeps numbered slots (``autograd/checkpoint_regions.py``), which it knows by weak references:
what backward computes anew goes to its node tensor by tensor and dies with it. Selective checkpoints see calls of
ops as profilers do (``dispatch/op_calls.py``), while one of their blocks runs. A structured op whose result was
kept makes its node around it and launches nothing. Elementwise ops, views and writes in place are computed anew
whatever the policy says, because reading a result costs as much. Policies get ``jitgrad.ops.aten.NAME.default``,
named after the op's node; overloads are one object, since an op here is one.
"""

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.utils import _pytree, checkpoint, data, hooks

__all__ = ["_pytree", "checkpoint", "data", "hooks"]

explain_missing_names(__name__, {
    name: f"jitgrad.utils.{name}"
    for name in ("_contextlib", "_foreach_utils", "_mode_utils", "_python_dispatch", "benchmark", "cpp_extension",
                 "deterministic", "dlpack", "model_zoo", "serialization", "tensorboard", "weak")
})  # fmt: skip
