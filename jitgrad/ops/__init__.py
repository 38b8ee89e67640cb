"""Differentiable ops, one family a file."""
from jitgrad.dispatch import elementwise_publish
from jitgrad.ops.pointwise import arithmetic, where_clamp, complex, activation
from jitgrad.ops.creation import constants, from_data, conversion, pickle_dlpack
from jitgrad.ops.shape import copy, view, expand, slicing, complex_view, split
from jitgrad.ops.creation import fill
from jitgrad.ops.shape import join, rearrange
from jitgrad.ops.indexing import gather, index_select, take, masked, getitem
from jitgrad.ops.shape import inplace_views
from jitgrad.ops.indexing import slice_scatter, grids
from jitgrad.ops.creation import type_info
from jitgrad.ops.random import fill as random_fill, sampling
from jitgrad.ops.reduction import sums, prod, extrema, variance, vector_norm, any_all, softmax
from jitgrad.ops.linalg import matrix_products, added_products, matmul, trace_cross, einsum
from jitgrad.ops.nn import loss, binary_loss, nll_loss, embedding, dropout, norm, batch_norm
from jitgrad.ops.reduction import scan, sort
from jitgrad.ops.pointwise import inplace_comparisons, inplace_functions, words_on_tensors
from jitgrad.ops import aten
