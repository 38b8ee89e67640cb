"""What PyTorch's paths below ``torch.utils.data._utils`` name, and how batches come from worker processes.

``collate.py`` makes batches of samples, ``fetch.py`` reads the samples of a batch, in whatever process;
``worker.py`` is what a worker process does, ``transport.py`` how its batches get to the process that asked for them.
"""

from jitgrad._utils import ExceptionWrapper

__all__ = ["ExceptionWrapper", "HAS_NUMPY", "IS_WINDOWS", "MP_STATUS_CHECK_INTERVAL", "collate", "fetch", "worker"]

import os

HAS_NUMPY, IS_WINDOWS = True, os.name == "nt"
# Seconds after which a worker that waits for work looks whether its parent is still there, and which one that is asked
# to end has for it.
MP_STATUS_CHECK_INTERVAL = 5.0

from jitgrad.utils.data._utils import collate, fetch, worker  # noqa: E402
