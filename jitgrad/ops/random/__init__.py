"""Ops that draw random numbers, number for number PyTorch's: fills in place (random_fills.py), new ones (sampling.py,
counts.py, gamma.py). How a kernel draws is in dispatch/drawing.py.

Each fill is a ``RandomFill``: to add one, write its kernel in kernels/loops/random.py, declare a subclass whose
``write`` calls ``fill_by``, and publish a method that passes on its generator. A function that makes a tensor makes it
without values, then applies a fill to it. What vmap's ``randomness`` demands is in dispatch/batch_randomness.py, which
each function asks first (``check_draw``, ``batch_for_draw``).
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.random.counts", functions="binomial poisson")
publish_later("jitgrad.ops.random.gamma",
              functions="_dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad")  # fmt: skip
publish_later("jitgrad.ops.random.random_fills",
              methods="bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_")  # fmt: skip
publish_later("jitgrad.ops.random.sampling", "bernoulli multinomial",
              functions="normal rand rand_like randint randint_like randn randn_like randperm")  # fmt: skip
