"""What the programs learn from, as NumPy arrays: the same for every library."""

import numpy as np

from jitgrad.datasets import load_digits

SONNET = """\
Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date;
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade,
Nor lose possession of that fair thou ow'st;
Nor shall death brag thou wander'st in his shade,
When in eternal lines to time thou grow'st:
So long as men can breathe or eyes can see,
So long lives this, and this gives life to thee.
"""


def digits(count, pad=0):
    """Images (count, 1, 8 + 2 pad, 8 + 2 pad), float32 in 0..1, and their labels."""
    images, labels = load_digits()
    images = np.pad(images[:count, None] / 16, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return images.astype(np.float32), labels[:count]


def two_moons(count):
    """Points (count, 2), float32, on two half circles."""
    rng = np.random.default_rng(0)
    angle, upper = rng.uniform(0, np.pi, count), rng.integers(0, 2, count)
    x = np.where(upper, np.cos(angle), 1 - np.cos(angle))
    y = np.where(upper, np.sin(angle), 0.5 - np.sin(angle))
    return (np.stack([x, y], 1) + rng.normal(0, 0.05, (count, 2))).astype(np.float32)


def communities(count, groups):
    """A graph (adjacency, float32), features (count, 8) that hint at a node's group, and the groups."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, groups, count)
    chance = np.where(group[:, None] == group, 0.3, 0.02)
    edges = np.triu(rng.random((count, count)) < chance, 1)
    features = rng.normal(size=(count, 8)) + rng.normal(size=(groups, 8))[group] * 0.5
    return (edges | edges.T).astype(np.float32), features.astype(np.float32), group


class CartPole:
    """A pole on a cart (Barto, Sutton and Anderson 1983): push left (0) or right (1), one reward a step."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        """The four numbers of a new state: position, speed, angle, angular speed."""
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        self.steps = 0
        return self.state.astype(np.float32)

    def step(self, action):
        """The next state, the reward, and whether the episode is over."""
        x, speed, angle, turn = self.state
        force = 10.0 if action == 1 else -10.0
        push = (force + 0.05 * turn**2 * np.sin(angle)) / 1.1
        lean = (9.8 * np.sin(angle) - np.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        pull = push - 0.05 * lean * np.cos(angle) / 1.1
        self.state = np.array([x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turn, turn + 0.02 * lean])
        self.steps += 1
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095
        return self.state.astype(np.float32), 1.0, bool(fallen or self.steps >= 200)
