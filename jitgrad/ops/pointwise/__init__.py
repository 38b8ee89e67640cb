"""Functions that choose among the ops of the elementwise table, and what else goes element by element.

An op that is one formula of its operands is a row of the table (kernels/elementwise), which publishes it by itself:
nothing is to be written here. Here are the functions whose arguments decide which row is applied (arithmetic.py, which
is what to read first; where_clamp.py, activation.py), complex tensors and their parts, and comparisons in place.

To add a function, write it with ``apply(table.NAME, ...)`` under ``published``, which makes the in-place method, too.
Where a rule of the table uses a word that on tensors is such a function, name it in words_on_tensors.py.
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.pointwise.inplace_comparisons",
              methods="eq_ ge_ greater_ greater_equal_ gt_ le_ less_ less_equal_ lt_ ne_ not_equal_")  # fmt: skip
