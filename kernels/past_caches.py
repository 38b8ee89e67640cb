"""When kernels write past the caches, with the words of words/stream.py."""

from __future__ import annotations

__all__ = ["STREAMED_BYTES", "STREAMED_ROW"]

# Bytes that a kernel reads and writes, from which on it does: no third-level cache that a core shares has room for them
# and for what the next op reads. On an AMD Zen 3 with one of 32 MB a sum of 4 million float32 takes 0.7 of the time on
# one thread and 0.85 on two, of 1 million 1.3; rows named by an index, and a slice between zeros, take 0.6. Kernels
# that arithmetic bounds, as exp or a row's normalisation, would take 1.1 to 1.4: arithmetic overlaps with ordinary
# stores, but not with non-temporal ones.
STREAMED_BYTES = 1 << 25
# Bytes of a row from which on it is: a part of a cache line takes a non-temporal store as long as a whole one.
STREAMED_ROW = 512
