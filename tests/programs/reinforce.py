"""REINFORCE on the cart-pole: a policy, sampled actions, returns as weights of log-probabilities."""

import numpy as np

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F
import jitgrad.optim as optim
from jitgrad.distributions import Categorical
from tests.programs.data import CartPole

EPS = np.finfo(np.float32).eps.item()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 16)
        self.dropout = nn.Dropout(p=0.0)
        self.affine2 = nn.Linear(16, 2)
        self.saved_log_probs, self.rewards = [], []

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.dropout(self.affine1(x)))), dim=1)

    def select_action(self, state):
        m = Categorical(self(torch.from_numpy(state).float().unsqueeze(0)))
        action = m.sample()
        self.saved_log_probs.append(m.log_prob(action))
        return action.item()


def finish_episode(policy, optimizer, gamma=0.99):
    total, returns = 0, []
    for r in policy.rewards[::-1]:
        total = r + gamma * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + EPS)
    loss = torch.cat([-p * r for p, r in zip(policy.saved_log_probs, returns)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]
    return loss.item()


def main(steps):
    torch.manual_seed(543)
    env, policy = CartPole(543), Policy()
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)
    losses = []
    for _episode in range(steps):
        state, done = env.reset(), False
        while not done:
            state, reward, done = env.step(policy.select_action(state))
            policy.rewards.append(reward)
        losses.append(finish_episode(policy, optimizer))
    return losses
