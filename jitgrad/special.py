"""Special functions: ``torch.special``. Those that are ops of their own are rows of the elementwise table."""

from jitgrad.dispatch.registry import module_names

# PyTorch's names here for functions that jitgrad has under another one, or under the same at its top.
_ALIASES = {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2", "expit": "sigmoid",
    "expm1": "expm1", "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma", "i0": "i0", "log1p": "log1p",
    "log_softmax": "log_softmax", "logit": "logit", "logsumexp": "logsumexp", "multigammaln": "mvlgamma",
    "polygamma": "polygamma", "psi": "digamma", "round": "round", "sinc": "sinc", "softmax": "softmax",
    "xlogy": "xlogy",
}  # fmt: skip
__getattr__, __dir__ = module_names("special", _ALIASES)
