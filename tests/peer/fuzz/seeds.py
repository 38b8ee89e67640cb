"""Which random programs a fuzzer runs: those of fixed seeds, or new ones for as long as JITGRAD_FUZZ_SECONDS says.

    def test_programs():
        for rng in generators(200):
            check(random_program(rng))

What fails must say how to see it again: put the program itself, not the seed, into the message.
"""

import os
import random
import time

SECONDS = float(os.environ.get("JITGRAD_FUZZ_SECONDS", 0))


def generators(count):
    """``count`` generators with the seeds 0, 1, ...; with JITGRAD_FUZZ_SECONDS then others until the time is up."""
    yield from map(random.Random, range(count))
    end, system = time.monotonic() + SECONDS, random.SystemRandom()
    while SECONDS and time.monotonic() < end:
        yield random.Random(system.getrandbits(64))
