"""Streams and events. All launches are on one stream, CUDA's default one, which every `Stream` stands for.

So work is in the order in which it was asked for, and what programs do to order streams holds already. Events tell when
work is done, and how long it took.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core import device as devices
from jitgrad.cuda.devices import NO_CUDA
from jitgrad.kernels.cuda import provider as kernels

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]


class Stream:
    """The default stream of a device. RuntimeError where there is no CUDA.

    device: the device, or None for the one that "cuda" means. priority: accepted, without effect.
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any):
        if not kernels.is_available():
            raise RuntimeError("torch.cuda.Stream requires CUDA support")
        self.device, self.priority = devices.resolve(devices.device("cuda" if device is None else device)), priority

    def synchronize(self) -> None:
        """Wait until everything launched has run."""
        kernels.synchronize()

    def query(self) -> bool:
        """Whether everything launched has run."""
        return self.record_event().query()

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, by default a new one, behind what was launched so far. Returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Nothing: what is launched from now on runs after all that was launched before."""

    def wait_stream(self, stream: Stream) -> None:
        """Nothing, as `wait_event`."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *raised: Any) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream=0x0>"


class Event:
    """A mark between launches. RuntimeError where there is no CUDA.

    enable_timing: whether times can be taken between events. blocking, interprocess, external: accepted, without
    effect.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ):
        if not kernels.is_available():
            raise RuntimeError("Tried to instantiate dummy base class Event")
        self._timed, self._made = enable_timing, kernels.event(enable_timing)
        self._recorded = False

    def record(self, stream: Stream | None = None) -> None:
        """Mark the place behind all that was launched so far."""
        self._made.record()
        self._recorded = True

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing: what is launched from now on runs after all that was launched before."""

    def synchronize(self) -> None:
        """Wait until what was launched before the event was recorded has run."""
        if self._recorded:
            self._made.synchronize()

    def query(self) -> bool:
        """Whether what was launched before the event was recorded has run; True before it is recorded."""
        # The simulator runs every launch at once.
        return not self._recorded or kernels.SIMULATED or bool(self._made.query())

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds of the device from this event to ``end_event``; both must be recorded, and have been reached.

        ValueError for events that were made without ``enable_timing`` or not recorded.
        """
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._recorded and end_event._recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(self._made.elapsed_time(end_event._made))

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {id(self._made):#x}>" if self._recorded else "<torch.cuda.Event uninitialized>"


class StreamContext:
    """``with stream(s):`` its launches are on the one stream there is. None stands for no stream."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: Any) -> None:
        pass


def stream(stream: Stream | None) -> StreamContext:
    """A context in which a stream is the current one."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The stream of a device; AssertionError where there is no CUDA."""
    if not kernels.is_available():
        raise AssertionError(NO_CUDA)
    return Stream(device)


def default_stream(device: Any = None) -> Stream:
    """The same as `current_stream`: there is no other."""
    return current_stream(device)


def set_stream(stream: Stream | None) -> None:
    """Nothing: there is one stream."""
