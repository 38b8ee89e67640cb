"""Actor and critic with one body on the cart-pole; advantages weigh the actor, a smooth L1 trains the critic."""

from collections import namedtuple

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F
from jitgrad.distributions import Categorical
from tests.programs.data import CartPole

SavedAction = namedtuple("SavedAction", ["log_prob", "value", "entropy"])


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)

    def forward(self, x):
        x = self.body(x)
        return Categorical(logits=self.action_head(x)), self.value_head(x)


def main(steps):
    torch.manual_seed(7)
    env, model = CartPole(7), ActorCritic()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, alpha=0.99, eps=1e-5)
    losses = []
    for _episode in range(steps):
        saved, rewards, state, done = [], [], env.reset(), False
        while not done:
            policy, value = model(torch.as_tensor(state))
            action = policy.sample()
            saved.append(SavedAction(policy.log_prob(action), value, policy.entropy()))
            state, reward, done = env.step(int(action))
            rewards.append(reward)
        returns = torch.zeros(len(rewards))
        total = 0.0
        for t in reversed(range(len(rewards))):
            total = rewards[t] + 0.95 * total
            returns[t] = total
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        values = torch.stack([s.value for s in saved]).squeeze(-1)
        log_probs = torch.stack([s.log_prob for s in saved])
        advantage = returns - values.detach()
        entropy = torch.stack([s.entropy for s in saved]).mean()
        loss = -(log_probs * advantage).mean() + F.smooth_l1_loss(values, returns) - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(float(loss))
    return losses
