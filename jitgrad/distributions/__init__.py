"""Probability distributions, under the names of ``torch.distributions`` and of its modules.

Samples are PyTorch's for the same seed, ``rsample`` has gradients where PyTorch's has; densities, entropies and
divergences can be differentiated.

A distribution is a class in a file named as in PyTorch, which says what it alone knows: its parameters and their
constraints, its formulas. The rest is declared by a line: ``expand = expands("loc", "scale")``, ``mean =
attribute("loc")``, ``@validated`` before a method that takes a value (distribution.py, which is what to read first).
What takes ``probs`` or ``logits`` derives from ``ProbsOrLogits`` (probs_or_logits.py), transformed samples from
``TransformedDistribution``, an exponential family from ``ExponentialFamily``, which has entropy and divergence of it.

No tensor is computed here other than by public ops, which are taken from ``jitgrad`` when they are called; samplers and
their derivatives are in ops/random.
"""

from jitgrad.distributions import (
    constraint_registry, constraints, distribution, exp_family, kl, transforms, utils,
)  # fmt: skip
from jitgrad.distributions.bernoulli import Bernoulli
from jitgrad.distributions.beta import Beta
from jitgrad.distributions.binomial import Binomial
from jitgrad.distributions.categorical import Categorical
from jitgrad.distributions.cauchy import Cauchy
from jitgrad.distributions.chi2 import Chi2
from jitgrad.distributions.constraint_registry import biject_to, transform_to
from jitgrad.distributions.continuous_bernoulli import ContinuousBernoulli
from jitgrad.distributions.dirichlet import Dirichlet
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.exp_family import ExponentialFamily
from jitgrad.distributions.exponential import Exponential
from jitgrad.distributions.fishersnedecor import FisherSnedecor
from jitgrad.distributions.gamma import Gamma
from jitgrad.distributions.generalized_pareto import GeneralizedPareto
from jitgrad.distributions.geometric import Geometric
from jitgrad.distributions.gumbel import Gumbel
from jitgrad.distributions.half_cauchy import HalfCauchy
from jitgrad.distributions.half_normal import HalfNormal
from jitgrad.distributions.independent import Independent
from jitgrad.distributions.inverse_gamma import InverseGamma
from jitgrad.distributions.kl import _add_kl_info, kl_divergence, register_kl
from jitgrad.distributions.kumaraswamy import Kumaraswamy
from jitgrad.distributions.laplace import Laplace
from jitgrad.distributions.lkj_cholesky import LKJCholesky
from jitgrad.distributions.log_normal import LogNormal
from jitgrad.distributions.logistic_normal import LogisticNormal
from jitgrad.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from jitgrad.distributions.mixture_same_family import MixtureSameFamily
from jitgrad.distributions.multinomial import Multinomial
from jitgrad.distributions.multivariate_normal import MultivariateNormal
from jitgrad.distributions.negative_binomial import NegativeBinomial
from jitgrad.distributions.normal import Normal
from jitgrad.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from jitgrad.distributions.pareto import Pareto
from jitgrad.distributions.poisson import Poisson
from jitgrad.distributions.relaxed_bernoulli import RelaxedBernoulli
from jitgrad.distributions.relaxed_categorical import RelaxedOneHotCategorical
from jitgrad.distributions.studentT import StudentT
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.transforms import *  # noqa: F403
from jitgrad.distributions.uniform import Uniform
from jitgrad.distributions.von_mises import VonMises
from jitgrad.distributions.weibull import Weibull
from jitgrad.distributions.wishart import Wishart

_add_kl_info()
del _add_kl_info

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet",
    "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric",
    "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace",
    "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "kl_divergence", "register_kl", "transform_to",
    *transforms.__all__,
]  # fmt: skip
