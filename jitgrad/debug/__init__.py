"""Looking inside: the tape of launches, and pictures of what depends on what."""

from jitgrad.debug.launch_tape import Entry, Tape, dial, tape

__all__ = ["Entry", "Tape", "dial", "tape"]
