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
