"""Ops of neural networks: losses, normalisation, dropout, embedding, attention, convolution, pooling, resizing.

What has kernels of its own is a declaration: pointwise losses, the likelihood of classes, layer, group and batch norm,
embedding, CTC, convolution, pooling. The rest is composed of other ops, under the names and with the arguments of
``torch.nn.functional``, and is published as a plain function. Activations are the table's
(ops/pointwise/activation.py); modules are in jitgrad/nn.

A loss that compares element by element and is symmetric derives from ``PointwiseLoss`` (loss.py), which is what to
read first; a likelihood of classes from ``ClassLikelihood`` (nll_loss.py); a normalisation of rows from ``RowNorm``
(norm.py).

Convolution is three ops that are each other's gradients (conv.py; arguments are parsed in convolution.py). What takes
each element of a result from a few of the input, by weights that a table has for each dim, is ``Tapped`` (taps.py):
padding by own elements, interpolation, means over windows. What picks elements of planes by their places, as maximum
pooling and its inverse do, is in planes.py. Windows are checked in windows.py.

A norm's means and deviations are no outputs of the op, and measuring them again costs a pass over the data. So the
public function passes an empty ``SavedStatistics``, which forward fills in and the node keeps as it does other options;
rules don't name it, since under ``create_graph`` the moments are part of the graph. Under transforms norms are composed
of other ops.
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.nn.batch_norm", functions="batch_norm instance_norm")
publish_later("jitgrad.ops.nn.binary_loss", functions="binary_cross_entropy binary_cross_entropy_with_logits")
publish_later("jitgrad.ops.nn.dropout",
              functions="alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_ "
              "feature_dropout feature_dropout_")  # fmt: skip
publish_later("jitgrad.ops.nn.embedding", functions="embedding")
publish_later("jitgrad.ops.nn.loss", functions="huber_loss kl_div l1_loss mse_loss smooth_l1_loss")
publish_later("jitgrad.ops.nn.nll_loss", functions="cross_entropy nll_loss")
publish_later("jitgrad.ops.nn.norm", functions="group_norm layer_norm rms_norm")
publish_later("jitgrad.ops.nn.margin_losses", functions="hinge_embedding_loss margin_ranking_loss poisson_nll_loss",
              **{"nn.functional": "gaussian_nll_loss hinge_embedding_loss margin_ranking_loss "
                 "multilabel_soft_margin_loss poisson_nll_loss soft_margin_loss"})  # fmt: skip
publish_later("jitgrad.ops.nn.distance",
              functions="cosine_embedding_loss cosine_similarity pairwise_distance triplet_margin_loss",
              **{"nn.functional": "cosine_embedding_loss cosine_similarity normalize pairwise_distance "
                 "triplet_margin_loss triplet_margin_with_distance_loss"})  # fmt: skip
publish_later("jitgrad.ops.nn.gates", "prelu", functions="bilinear rrelu rrelu_",
              **{"nn.functional": "bilinear celu_ elu_ glu gumbel_softmax hardtanh_ leaky_relu_ prelu relu_ rrelu "
                 "rrelu_ selu_ threshold_"})  # fmt: skip
publish_later("jitgrad.ops.nn.ctc", functions="ctc_loss", **{"nn.functional": "ctc_loss"})
publish_later("jitgrad.ops.nn.class_margin_losses", **{"nn.functional": "multi_margin_loss multilabel_margin_loss"})
publish_later("jitgrad.ops.nn.pad", functions="constant_pad_nd", **{"nn.functional": "pad"})
publish_later("jitgrad.ops.nn.shuffle",
              functions="channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle",
              **{"nn.functional": "channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle"})  # fmt: skip
publish_later("jitgrad.ops.nn.avg_pool", functions="adaptive_avg_pool1d avg_pool1d",
              **{"nn.functional": "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d avg_pool2d "
                 "avg_pool3d local_response_norm"})  # fmt: skip
publish_later("jitgrad.ops.nn.max_pool",
              functions="adaptive_max_pool1d max_pool1d max_pool1d_with_indices max_pool2d "
              "max_pool2d_with_indices_backward max_pool3d",
              **{"nn.functional": "adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d "
                 "adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices max_pool1d "
                 "max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d "
                 "max_pool3d_with_indices"})  # fmt: skip
_CONVOLUTIONS = "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d"
publish_later("jitgrad.ops.nn.convolution", functions=f"convolution {_CONVOLUTIONS}",
              **{"nn.functional": _CONVOLUTIONS})  # fmt: skip
publish_later("jitgrad.ops.nn.embedding_bag",
              functions="_embedding_bag _embedding_bag_forward_only embedding_bag embedding_renorm_",
              **{"nn.functional": "embedding_bag"})  # fmt: skip
publish_later("jitgrad.ops.nn.native",
              functions="_batch_norm_with_update _native_batch_norm_legit _safe_softmax _softmax_backward_data "
              "native_batch_norm native_dropout native_dropout_backward native_group_norm "
              "native_layer_norm")  # fmt: skip
publish_later("jitgrad.ops.nn.weight_norm", functions="_weight_norm norm_except_dim")
publish_later("jitgrad.ops.nn.unfold", **{"nn.functional": "fold unfold"})
publish_later("jitgrad.ops.nn.unpool",
              **{"nn.functional": "fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d "
                 "fractional_max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d"})  # fmt: skip
publish_later("jitgrad.ops.nn.interpolate", functions="_upsample_bilinear2d_aa",
              **{"nn.functional": "interpolate upsample upsample_bilinear upsample_nearest"})  # fmt: skip
publish_later("jitgrad.ops.nn.grid_sample",
              functions="affine_grid_generator grid_sampler grid_sampler_2d grid_sampler_3d",
              **{"nn.functional": "affine_grid grid_sample"})  # fmt: skip
publish_later("jitgrad.ops.nn.attention", **{"nn.functional": "scaled_dot_product_attention"})
publish_later("jitgrad.ops.nn.linear_cross_entropy", **{"nn.functional": "linear_cross_entropy"})
publish_later("jitgrad.ops.nn.multihead_attention", **{"nn.functional": "multi_head_attention_forward"})
publish_later("jitgrad.ops.nn.lp_pool", **{"nn.functional": "lp_pool1d lp_pool2d lp_pool3d"})
publish_later("jitgrad.ops.nn.recurrent_functions",
              functions="gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell")  # fmt: skip
publish_later("jitgrad.ops.nn.packing", functions="_pack_padded_sequence _pad_packed_sequence")
