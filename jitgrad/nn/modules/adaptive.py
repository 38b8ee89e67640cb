"""Softmax over very many classes, whose rarer ones come in clusters of lower rank."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.modules.container import ModuleList, Sequential
from jitgrad.nn.modules.linear import Linear
from jitgrad.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """log P(class | input), where classes are numbered from the commonest to the rarest: Grave et al., 2017.

    Those below ``cutoffs[0]`` are in the head beside one entry for each cluster of the others. Cluster i holds classes
    from ``cutoffs[i]`` on; its input is projected to in_features / div_value^(i + 1). A class's probability is its
    share in its cluster times the cluster's in the head. ValueError unless cutoffs rise from 1 to n_classes - 1.
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in cutoffs)
        if not whole or cutoffs != sorted(set(cutoffs)) or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for k, (first, end) in enumerate(self._clusters()):
            rank = int(in_features // div_value ** (k + 1))
            sizes = (in_features, rank), (rank, end - first)
            self.tail.append(Sequential(*(Linear(*s, bias=False, device=device, dtype=dtype) for s in sizes)))

    def _clusters(self) -> list[tuple[int, int]]:
        """The first class of each cluster, and that after its last."""
        return list(zip(self.cutoffs[:-1], self.cutoffs[1:], strict=True))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for projection, out in self.tail:
            projection.reset_parameters()
            out.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """(log P(target) for each of input (n, in_features), the mean of their negatives); or of one sample.

        RuntimeError for classes out of range, and shapes that don't fit.
        """
        self._check(input_, target_)
        batched = target_.dim() > 0
        input, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        output = input.new_zeros(target.size(0))
        in_head = target.new_empty(target.size(0))  # the entry of the head that a sample's class belongs to
        found = 0
        for k, (first, end) in enumerate([(0, self.shortlist_size), *self._clusters()]):
            here = (target >= first) & (target < end)
            rows = here.nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            found += rows.numel()
            if k == 0:
                in_head.index_copy_(0, rows, target[here])
                continue
            shares = F.log_softmax(self.tail[k - 1](input.index_select(0, rows)), dim=1)
            in_head.index_fill_(0, rows, self.shortlist_size + k - 1)
            output.index_copy_(0, rows, shares.gather(1, (target[here] - first).unsqueeze(1)).squeeze(1))
        if found != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        output += F.log_softmax(self.head(input), dim=1).gather(1, in_head.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _check(self, input: Tensor, target: Tensor) -> None:
        dims = target.dim()
        if dims > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if dims == 1 and input.size(0) != target.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.dim() != dims + 1:
            raise RuntimeError(
                f"{dims}D target tensor expects {dims + 1}D input tensors, but found inputs with size {input.size()}"
            )

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        out = input.new_empty((head_output.size(0), self.n_classes))
        head = F.log_softmax(head_output, dim=1)
        out[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for k, (first, end) in enumerate(self._clusters()):
            shares = F.log_softmax(self.tail[k](input), dim=1)
            out[:, first:end] = shares + head[:, self.shortlist_size + k].unsqueeze(1)
        return out

    def log_prob(self, input: Tensor) -> Tensor:
        """log P of every class, (n, n_classes), for input (n, in_features)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each of input (n, in_features); clusters are looked at only where one is needed."""
        head_output = self.head(input)
        output = head_output.argmax(dim=1)
        clustered = output >= self.shortlist_size
        if not clustered.any():
            return output
        if clustered.all():
            return self._get_full_log_prob(input, head_output).argmax(dim=1)
        output[clustered] = self._get_full_log_prob(input[clustered], head_output[clustered]).argmax(dim=1)
        return output
