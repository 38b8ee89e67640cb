"""Anomaly mode: errors in backward, and the first NaN, name the line of forward that made the failing node.

While it is on, it observes new nodes, which get the stack of the call that made them as metadata, and the engine.
While it is off, nothing is observed, so neither recording nor backward pays for it.
"""

from __future__ import annotations

import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from jitgrad.core.grad_mode import no_grad
from jitgrad.core.node import Node, node_observers
from jitgrad.core.saved_versions import hints
from jitgrad.core.tensor import Tensor
from jitgrad.engine import engine
from jitgrad.kernels.threads import fork_safe

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]

_ENABLED = (
    "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging."
)
_HERE = str(Path(__file__).parents[1])
_TRACE, _PARENT = "traceback_", "parent_"
_lock = fork_safe(threading.Lock())


class _Mode:
    """Whether the mode is on in this process, and the nodes that are running, by thread."""

    def __init__(self) -> None:
        self.enabled, self.check_nan = False, True
        self.running = threading.local()

    def nodes(self) -> list[Node]:
        """The nodes that run in this thread, the innermost last: a node may call backward."""
        found: list[Node] = self.running.__dict__.setdefault("nodes", [])
        return found

    def set(self, enabled: bool, check_nan: bool) -> None:
        """Switch the mode on or off."""
        with _lock:
            if enabled != self.enabled:  # blocks may be nested: observe once
                (_start if enabled else _stop)()
            self.enabled, self.check_nan = enabled, check_nan


def _start() -> None:
    node_observers.append(_note)
    engine.observers.append(_observe)
    hints.append(
        "the backtrace further above shows the operation that failed to compute its gradient. The variable in question "
        "was changed in there or anywhere later. Good luck!"
    )


def _stop() -> None:
    node_observers.remove(_note)
    engine.observers.remove(_observe)
    hints.pop()


_mode = _Mode()


class detect_anomaly:
    """A block in which errors of backward tell where in forward they come from, and NaN gradients are errors.

    RuntimeError where a node returns NaN, unless ``check_nan`` is False. Run forward inside the block
    too: only then are tracebacks known.
    """

    def __init__(self, check_nan: bool = True):
        self.check_nan = check_nan
        self.before = _mode.enabled, _mode.check_nan
        warnings.warn(_ENABLED, UserWarning, stacklevel=2)

    def __enter__(self) -> None:
        self.before = _mode.enabled, _mode.check_nan
        _mode.set(True, self.check_nan)

    def __exit__(self, *error: object) -> None:
        _mode.set(*self.before)


class set_detect_anomaly:
    """Switch anomaly mode on or off: at once, and as a context manager until its end. See ``detect_anomaly``."""

    def __init__(self, mode: bool, check_nan: bool = True):
        self.before = _mode.enabled, _mode.check_nan
        _mode.set(bool(mode), check_nan)

    def __enter__(self) -> None:
        """Do nothing: the mode is set on construction, as PyTorch does it."""

    def __exit__(self, *error: object) -> None:
        _mode.set(*self.before)


def is_anomaly_enabled() -> bool:
    """Return True in anomaly mode."""
    return _mode.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Return True if anomaly mode, once on, looks for NaN."""
    return _mode.check_nan


# -- what nodes keep ----------------------------------------------------------------------------------


def _note(made: Node) -> None:
    """Keep the stack of the call that made a node and, if it was made in backward, the node that was running."""
    # Formatted at once: a kept frame would hold all locals of the user's functions.
    frames = [pair for pair in traceback.walk_stack(sys._getframe(1)) if not _is_ours(pair[0])]
    made.metadata[_TRACE] = traceback.StackSummary.extract(reversed(frames)).format()
    if _mode.nodes():
        made.metadata[_PARENT] = _mode.nodes()[-1]


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is jitgrad's own; the user looks for a line of the model."""
    name = frame.f_globals.get("__name__") or ""
    return frame.f_code.co_filename.startswith(_HERE) or name == "jitgrad" or name.startswith("jitgrad.")


# -- at work ------------------------------------------------------------------------------------------


def _observe(at: Node, phase: str, grads: Sequence[Tensor | None]) -> None:
    """An observer of the engine: ``phase`` is "before", "after" or "error"."""
    running = _mode.nodes()
    if phase == "before":
        running.append(at)
        return
    if phase == "error":
        _print_stack(at)
    elif _mode.check_nan:
        _refuse_nan(at, grads)
    if running and running[-1] is at:
        running.pop()


def _refuse_nan(at: Node, grads: Sequence[Tensor | None]) -> None:
    with no_grad():  # under create_graph grad mode is on here
        for k, grad in enumerate(grads):
            if grad is not None and bool(grad.isnan().any()):
                raise RuntimeError(f"Function '{at.name()}' returned nan values in its {k}th output.")


def _print_stack(at: Node) -> None:
    """Warn with the stack of forward of the node, and of the nodes in whose backward it was made."""
    stack = at.metadata.get(_TRACE)
    if stack is None:
        text = "No forward pass information available. Enable detect anomaly during forward pass for more information."
    else:
        text = f"Traceback of forward call that caused the error:\n{''.join(stack)}"
    _warn(f"Error detected in {at.name()}. {text}")
    parent: Any = at.metadata.get(_PARENT)
    while parent is not None:
        stack = parent.metadata.get(_TRACE)
        if stack is None:
            _warn(
                f"Error detected in {parent.name()}. No forward pass information available. Enable detect anomaly "
                "during forward pass for more information."
            )
        else:
            _warn(
                f"\n\nPrevious calculation was induced by {parent.name()}. Traceback of forward call that induced the "
                f"previous calculation:\n{''.join(stack)}"
            )
        parent = parent.metadata.get(_PARENT)


def _warn(text: str) -> None:
    """Warn while an error is being raised: where filters turn warnings into errors, print, to keep the first error."""
    try:
        warnings.warn(text, UserWarning, stacklevel=2)
    except UserWarning:
        print(text, file=sys.stderr)
