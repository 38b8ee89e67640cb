"""Programs: launches that were recorded once, run again and again by compiled code, without Python.

A program is a table of rows, pairs of words: the address of an entry ``void(intptr_t words)`` and that of its words,
which are the kernel's address, a word for its error, and its arguments (see native_entry.py). Entries know the machine
types of the arguments alone, so another program compiles nothing that a kernel or an earlier program has compiled.

Read `builder` first: it turns launches into rows, of which `program` makes one that can be run; `products` does so for
matrix products.
`executor` runs the rows; what no row can be made of, such as a sort by NumPy, it calls between them. So are kernels on
a device, by Python on arrays that `device_arrays` lets lie where they are to be in a run: an asynchronous launch costs
the provider some microseconds, so what a table could spare is little beside what recording spares.

Before that `passes` makes fewer launches of them: `dependences` says which have to follow which, `redundant` leaves out
what isn't needed or is there already, `fusion` finds those that one loop can do, `fused_launch`, `fused_kernel` and
`fused_text` make it, and `fused_device` for a device; `row_blocks` finds those that go row by row together,
`block_rows` makes rows of them.
"""

from jitgrad.kernels.program.addresses import address_of, extent_of, is_array, is_on_device
from jitgrad.kernels.program.builder import Builder, LiveNumber, Place
from jitgrad.kernels.program.object_words import (
    Row,
    Rows,
    words_of_cell,
    words_of_class,
    words_of_dict,
    words_of_list,
    words_of_own_dict,
    words_of_references,
    words_of_type,
)
from jitgrad.kernels.program.dependences import Access, Launch, accesses, written_elements
from jitgrad.kernels.program.passes import Passes, improved
from jitgrad.kernels.program.program import Beginning, Program
from jitgrad.kernels.program.ranges import Ranges

__all__ = [
    "Access", "Beginning", "Builder", "Launch", "LiveNumber", "Passes", "Place", "Program", "Ranges", "Row", "Rows",
    "accesses", "address_of", "extent_of", "improved", "is_array", "is_on_device", "words_of_cell", "words_of_class",
    "words_of_dict", "words_of_list", "words_of_own_dict", "words_of_references", "words_of_type", "written_elements",
]  # fmt: skip
