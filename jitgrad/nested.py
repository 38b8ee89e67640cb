"""``torch.nested``: tensors of rows of different lengths, which are not here. Its names can be imported, not used."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(__name__, "as_nested_tensor nested_tensor nested_tensor_from_jagged to_padded_tensor",
             "pad the rows (nn.utils.rnn.pad_sequence), or pack them (pack_padded_sequence)")  # fmt: skip
