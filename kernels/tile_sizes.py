"""The sizes of the tiles of `tile_products`, by the registers that there are."""

from __future__ import annotations

from jitgrad.kernels.processor import cpu_features
from jitgrad.kernels.words.registers import BYTES

__all__ = ["APART", "DEPTH", "HEIGHTS", "MIDDLE", "PANEL", "ROWS", "SQUARE", "TILES", "UNIT", "WIDE_REGISTERS"]

WIDE_REGISTERS = "avx512f" in cpu_features()
# A tile of sums fills the registers but for a row of the right matrix and a number of the left one.
ROWS, PANEL = (12, 2 * BYTES) if WIDE_REGISTERS else (6, BYTES)  # of a tile: rows, and bytes of each
HEIGHTS = (1, 2, 4, 8, 12) if WIDE_REGISTERS else (1, 2, 4, 6)  # of tiles: each takes time to compile
MIDDLE = HEIGHTS[-2]
# Rows of the right matrix that are copied at a time: so many bytes of a panel stay in a core's first cache. Half of
# them where the left one is read across, and has its lines there as well.
DEPTH = 256
APART = DEPTH + 16  # rows that a copied tile has room for: a row of all tiles is not to fall on the same lines there
# If the left matrix is turned, so many of its tiles are copied at a time, to the thread's stack (420 KB of float64), so
# many bytes at once.
TILES, UNIT = 16 if WIDE_REGISTERS else 32, 16
SQUARE = BYTES if WIDE_REGISTERS else BYTES // 2  # bytes of a side of what is transposed within registers
