"""Ops of neural networks: losses, normalisation, dropout, embedding.

What has kernels of its own is a declaration: pointwise losses, the likelihood of classes, layer, group and batch norm,
embedding. The rest is composed of other ops, under the names and with the arguments of ``torch.nn.functional``, and is
published as a plain function. Activations are the table's (ops/pointwise/activation.py); modules are in jitgrad/nn.

A loss that compares element by element and is symmetric derives from ``PointwiseLoss`` (loss.py), which is what to
read first; a likelihood of classes from ``ClassLikelihood`` (nll_loss.py); a normalisation of rows from ``RowNorm``
(norm.py).

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
publish_later("jitgrad.ops.nn.embedding_bag", functions="embedding_bag embedding_renorm_",
              **{"nn.functional": "embedding_bag"})  # fmt: skip
publish_later("jitgrad.ops.nn.native",
              functions="_batch_norm_with_update _native_batch_norm_legit _safe_softmax _softmax_backward_data "
              "native_batch_norm native_dropout native_dropout_backward native_group_norm "
              "native_layer_norm")  # fmt: skip
publish_later("jitgrad.ops.nn.attention", **{"nn.functional": "scaled_dot_product_attention"})
publish_later("jitgrad.ops.nn.linear_cross_entropy", **{"nn.functional": "linear_cross_entropy"})
publish_later("jitgrad.ops.nn.multihead_attention", **{"nn.functional": "multi_head_attention_forward"})
