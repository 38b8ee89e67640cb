"""``torch.distributed.distributed_c10d``: where PyTorch's functions of process groups are from."""

from jitgrad import distributed

globals().update({name: thing for name, thing in vars(distributed).items() if name[:2] != "__"})
