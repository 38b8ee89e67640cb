"""Memory, and counts that don't depend on the machine."""

import jitgrad

from .workloads import MLPS, chain, mlp_step

SMALL = next(iter(MLPS))


class Peak:
    """Peaks of whole processes: read them as differences to the first."""

    timeout = 120

    def peakmem_baseline(self):
        pass

    def peakmem_training(self):
        step = mlp_step(jitgrad, SMALL)
        for _ in range(100):
            step()

    def peakmem_chain_of_100_000(self):
        chain(jitgrad, 100_000)()


class Launches:
    """Kernels that one training step launches."""

    unit = "launches"
    params = [tuple(MLPS)]
    param_names = ["mlp"]

    def setup(self, name):
        self.step = mlp_step(jitgrad, name)
        self.step()

    def track_launches(self, name):
        with jitgrad.debug.tape() as tape:
            self.step()
        return len(tape)

    def track_kernels(self, name):
        with jitgrad.debug.tape() as tape:
            self.step()
        return len({entry.kernel for entry in tape})

    track_kernels.unit = "different kernels"
