"""Modules: layers, losses, containers, and their base class, in files named as in ``torch.nn.modules``.

``Module`` (``module.py``) inherits its parts, each a class in a file of its own: ``module_attributes.py`` (what a
module owns, and how assignment registers it), ``module_call.py`` (calling ``forward`` with hooks),
``module_traversal.py`` (walks over descendants, modes, conversions), ``module_state_dict.py`` (saving and loading).
``backward_hooks.py`` makes the nodes that call backward hooks, ``global_hooks.py`` holds the hooks of all modules.

The hooks of all modules, of every kind, share one dictionary, so a call of a module looks at one more object than
without them. Pre-hooks and hooks have the dictionaries of PyTorch (``_forward_hooks``, ...), because programs look
into them. A step of ``BatchNorm`` in training mode counts as a write to its running averages, which PyTorch's
doesn't: backward of an earlier evaluation, which saved them, is refused.
"""

from jitgrad.core.lazy_import import set_lazy_attributes
from jitgrad.nn.modules.activation import (
    CELU, ELU, GELU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish, ReLU,
    ReLU6, SELU, Sigmoid, SiLU, Softmax, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
)  # fmt: skip
from jitgrad.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from jitgrad.nn.modules.container import ModuleDict, ModuleList, Sequential
from jitgrad.nn.modules.conv import (
    Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
)  # fmt: skip
from jitgrad.nn.modules.dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
from jitgrad.nn.modules.flatten import Flatten, Unflatten
from jitgrad.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from jitgrad.nn.modules.linear import Identity, Linear
from jitgrad.nn.modules.loss import (
    BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss, SmoothL1Loss,
)  # fmt: skip
from jitgrad.nn.modules.module import Module
from jitgrad.nn.modules.normalization import GroupNorm, LayerNorm, LocalResponseNorm, RMSNorm
from jitgrad.nn.modules.padding import (
    CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d, ConstantPad3d, ReflectionPad1d,
    ReflectionPad2d, ReflectionPad3d, ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d,
    ZeroPad3d,
)  # fmt: skip
from jitgrad.nn.modules.pooling import (
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
    AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, FractionalMaxPool2d, FractionalMaxPool3d, LPPool1d,
    LPPool2d, LPPool3d, MaxPool1d, MaxPool2d, MaxPool3d, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d,
)  # fmt: skip
from jitgrad.nn.modules.sparse import Embedding
from jitgrad.nn.modules.upsampling import Upsample, UpsamplingBilinear2d, UpsamplingNearest2d

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AlphaDropout", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BCELoss", "BCEWithLogitsLoss",
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CELU", "CircularPad1d", "CircularPad2d",
    "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "CrossEntropyLoss", "Dropout", "Dropout1d",
    "Dropout2d", "Dropout3d", "ELU", "Embedding", "FeatureAlphaDropout", "Flatten", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "GELU", "GroupNorm", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "HuberLoss",
    "Identity", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "KLDivLoss", "L1Loss", "LPPool1d",
    "LPPool2d", "LPPool3d", "LayerNorm", "LeakyReLU", "Linear", "LocalResponseNorm", "LogSigmoid", "LogSoftmax",
    "MSELoss", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Mish",
    "Module", "ModuleDict", "ModuleList", "NLLLoss",
    "RMSNorm", "ReLU", "ReLU6", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d",
    "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "SELU", "Sequential", "SiLU", "Sigmoid",
    "SmoothL1Loss", "Softmax", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
    "Unflatten", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d",
    "ZeroPad3d",
]  # fmt: skip

# {name: the module that has it}, of those that few programs use: imported when one of their names is first used.
LATER = {
    name: f"{__name__}.{file}"
    for file, names in {
        "adaptive": "AdaptiveLogSoftmaxWithLoss",
        "attention": "MultiheadAttention",
        "bilinear": "Bilinear",
        "channelshuffle": "ChannelShuffle",
        "cross_map": "CrossMapLRN2d",
        "distance": "CosineSimilarity PairwiseDistance",
        "embedding_bag": "EmbeddingBag",
        "fold": "Fold Unfold",
        "gate": "GLU PReLU RReLU Softmax2d",
        "lazy_layers": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d "
        "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d "
        "LazyInstanceNorm3d LazyLinear",
        "linear_cross_entropy": "LinearCrossEntropyLoss LinearCrossEntropyOptions",
        "margin_loss": "CTCLoss CosineEmbeddingLoss GaussianNLLLoss HingeEmbeddingLoss MarginRankingLoss "
        "MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss PoissonNLLLoss SoftMarginLoss TripletMarginLoss "
        "TripletMarginWithDistanceLoss",
        "rnn": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase",
        "older": "Container NLLLoss2d",
        "parameter_container": "ParameterDict ParameterList",
        "pixelshuffle": "PixelShuffle PixelUnshuffle",
        "sync_batchnorm": "SyncBatchNorm",
        "transformer": "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
        "TransformerEncoderLayer",
    }.items()
    for name in names.split()
}
_FILES = [
    "adaptive", "channelshuffle", "fold", "lazy", "linear_cross_entropy_options", "pixelshuffle", "rnn", "transformer",
    "utils",
]  # fmt: skip
set_lazy_attributes(__name__, LATER | {name: f"{__name__}.{name}" for name in _FILES})


def _also(file: str, names: dict[str, str]) -> None:
    """Let a module have PyTorch's names of classes that are in other files here: {file: names}."""
    sources = {name: f"{__name__}.{source}" for source, each in names.items() for name in each.split()}
    set_lazy_attributes(f"{__name__}.{file}", sources)


_also("activation", {"attention": "MultiheadAttention", "gate": "GLU PReLU RReLU Softmax2d"})
_also("batchnorm", {"lazy_layers": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d _LazyNormBase",
                    "sync_batchnorm": "SyncBatchNorm"})  # fmt: skip
_also("container", {"older": "Container", "parameter_container": "ParameterDict ParameterList"})
_also("conv", {"lazy_layers": "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
               "LazyConvTranspose3d"})  # fmt: skip
_also("instancenorm", {"lazy_layers": "LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d"})
_also("linear", {"attention": "NonDynamicallyQuantizableLinear", "bilinear": "Bilinear", "lazy_layers": "LazyLinear"})
_also("loss", {"older": "NLLLoss2d", "linear_cross_entropy": "LinearCrossEntropyLoss LinearCrossEntropyOptions",
               "margin_loss": " ".join(n for n, file in LATER.items() if file.endswith("margin_loss"))})  # fmt: skip
_also("padding", {"utils": "_ntuple _pair _quadruple"})
_also("pooling", {"utils": "_pair _single _triple"})
_also("normalization", {"cross_map": "CrossMapLRN2d"})
_also("sparse", {"embedding_bag": "EmbeddingBag"})
