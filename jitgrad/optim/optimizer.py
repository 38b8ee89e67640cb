"""Optimizer: parameter groups, their state, and what every optimiser does with them."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from jitgrad.core.grad_mode import enable_grad
from jitgrad.core.handles import RemovableHandle, add_hook
from jitgrad.core.lazy_import import set_lazy_attributes
from jitgrad.core.tensor import Tensor, typename
from jitgrad.optim.kept_state import cast_state, group_tensors, new_counter
from jitgrad.profiler import recording

__all__ = [
    "Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required",
]  # fmt: skip


_PRIVATE = (
    "ParamsT Args DeviceDict DeviceDtypeDict Kwargs StateDict _capturable_doc _default_to_fused_or_foreach "
    "_differentiable_doc _disable_dynamo_if_unsupported _dispatch_sqrt _foreach_doc _fused_doc "
    "_get_capturable_supported_devices _get_scalar_dtype _get_value _maximize_doc _params_doc _params_t "
    "_stack_if_compiling _to_scalar _use_grad_for_differentiable _view_as_real"
)  # of PyTorch's module, imported when asked for
set_lazy_attributes(__name__, dict.fromkeys(_PRIVATE.split(), "jitgrad.optim.private_names"))


class _Required:
    """The default of an option that has none: each parameter group has to give a value."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
Group = dict[str, Any]


# Hooks of all optimisers, by number.
_global_optimizer_pre_hooks: OrderedDict[int, Any] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Any] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each step of any optimiser; it may return new (args, kwargs)."""
    return add_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each step of any optimiser."""
    return add_hook(_global_optimizer_post_hooks, hook)


def _run_with_hooks(step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    self = args[0]
    first, last = _global_optimizer_pre_hooks, _global_optimizer_post_hooks
    before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
    for hook in [*first.values(), *before.values()] if before or first else ():
        result = hook(self, args, kwargs)
        if result is not None:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}.")
            args, kwargs = result
    self._opt_called = True
    out = step(*args, **kwargs)
    for hook in [*after.values(), *last.values()] if after or last else ():
        hook(self, args, kwargs)
    return out


def _recorded(method: Callable[..., Any]) -> Callable[..., Any]:
    """``zero_grad``, which profilers show under PyTorch's name, ``Optimizer.zero_grad#SGD.zero_grad``."""

    @functools.wraps(method)
    def recorded(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if not recording.is_on():
            return method(self, *args, **kwargs)
        record = recording.begin(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad", recording.USER)
        try:
            return method(self, *args, **kwargs)
        finally:
            recording.end(record)

    return recorded


class Optimizer:
    """Base of all optimisers.

    params: an iterable of tensors, of (name, tensor) pairs, or of dicts that hold a list "params"
    and options for it. defaults: the options of groups that don't name their own.

    A subclass defines ``step``; jitgrad's own define ``_update(group)``, which changes the parameters of a group that
    have a gradient. ``state`` maps each parameter to a dict of what is remembered.
    """

    _optimizer_step_pre_hooks: OrderedDict[int, Any]
    _optimizer_step_post_hooks: OrderedDict[int, Any]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Any]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Any]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Any]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Any]
    _opt_called = False  # whether step has run; learning rate schedulers warn if not
    # Kinds of state that are tensors of one element. In state that was saved by an older PyTorch they may be numbers.
    _counts_in_tensors: tuple[str, ...] = ()

    def __init__(self, params: Any, defaults: dict[str, Any]):
        self.defaults = defaults
        self._reset_hooks()
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{typename(params)}"
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups = list(params)
        if len(groups) == 0:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    def _reset_hooks(self) -> None:
        for name in Optimizer.__annotations__:
            if name.endswith("_hooks"):
                self.__dict__.setdefault(name, OrderedDict())

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """``step`` as a method that calls the hooks, and that profilers show as ``Optimizer.step#SGD.step``."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not recording.is_on():
                return _run_with_hooks(func, args, kwargs)
            name = type(args[0]).__name__
            record = recording.begin(f"Optimizer.step#{name}.step", recording.USER)
            try:
                return _run_with_hooks(func, args, kwargs)
            finally:
                recording.end(record)

        return wrapper

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist: list[list[Any]], with_indices: bool = False) -> Any:
        return group_tensors(tensorlistlist, with_indices)

    def _cuda_graph_capture_health_check(self) -> None:
        """PyTorch looks here whether a CUDA graph is being captured; there are none."""

    _accelerator_graph_capture_health_check = _cuda_graph_capture_health_check

    def _patch_step_function(self) -> None:
        """Let the class's own ``step`` call hooks, a user's class's too; done when its first object is made."""
        cls = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{cls.__name__}.zero_grad"
        if not getattr(cls.step, "hooked", False):
            step: Any = self.profile_hook_step(cls.step)
            # The second mark is what learning rate schedulers look for: this step notes that it was called.
            step.hooked = step._wrapped_by_lr_sched = True
            cls.step = step  # type: ignore[method-assign]

    # -- the step -----------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient; return what ``closure`` returns, if given.

        ``closure`` computes the loss anew, gradients included, before the parameters change.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update(group)
        return loss

    def _update(self, group: Group) -> None:
        """Change the parameters of a group that have a gradient, and their state, in place."""
        raise NotImplementedError

    @_recorded
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters; write zeros instead if not ``set_to_none``."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param._grad = None
                elif param._grad is not None:
                    # A gradient with a history (create_graph=True) is taken out of its graph before it is written to.
                    if param._grad.grad_fn is not None:
                        param._grad.detach_()
                    else:
                        param._grad.requires_grad_(False)
                    param._grad.zero_()

    # -- hooks --------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new (args, kwargs)."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict`` is made; first of all hooks if ``prepend``."""
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` on what ``state_dict`` returns; it may change it or return another."""
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before one is loaded; it may change a shallow copy or return another."""
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after a state_dict was loaded."""
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # -- parameter groups ---------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters under "params", with options of their own.

        TypeError for what is no tensor, ValueError for non-leaves, missing options, and parameters
        that another group has.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        self._take_names(param_group, _listed(param_group["params"]))
        params = param_group["params"]
        for param in params:
            self._check_param(param)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an "
                "error; see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        self._check_distinct(param_group)
        self.param_groups.append(param_group)

    def _take_names(self, group: Group, params: list[Any]) -> None:
        """Split (name, parameter) pairs; names must be given for all or for none."""
        names = [p[0] for p in params if isinstance(p, tuple)]
        group["params"] = [p[1] if isinstance(p, tuple) else p for p in params]
        if names and len(names) != len(params):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        if names:
            group["param_names"] = names

    def _check_param(self, param: Any) -> None:
        if not isinstance(param, Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {typename(param)}")
        if not self.defaults.get("differentiable") and not (param.is_leaf or param.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _check_distinct(self, new: Group) -> None:
        known: set[Tensor] = set()
        for group in self.param_groups:
            known.update(group["params"])
            if ("param_names" in new) != ("param_names" in group):
                which = "with names" if "param_names" in new else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {which} to the optimizer"
                )
        if not known.isdisjoint(new["params"]):
            raise ValueError("some parameters appear in more than one parameter group")

    # -- state --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return {"state", "param_groups"}, in which numbers stand for parameters.

        They count parameters in the order of the groups, so they fit another optimiser on parameters in that order.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
        groups = [
            {k: v for k, v in group.items() if k != "params"} | {"params": [numbers[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {(numbers[id(k)] if isinstance(k, Tensor) else k): v for k, v in self.state.items()}
        packed = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, packed)
            packed = packed if changed is None else changed
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` of an optimiser on as many parameters returned.

        ValueError if groups or their sizes differ; nothing is changed then. Tensors are copied and
        cast to their parameter's dtype, step counters apart.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        # Checked and built aside: an error leaves this optimiser as it was.
        saved, groups = deepcopy(state_dict["param_groups"]), self.param_groups
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        pairs = zip(groups, saved, strict=True)
        params = {n: p for g, s in pairs for n, p in zip(s["params"], g["params"], strict=True)}
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                group = next(g for g in state_dict["param_groups"] if key in g["params"])
                state[params[key]] = cast_state(params[key], value, "", group)
            else:
                state[key] = value
        for group, new in zip(groups, saved, strict=True):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        # Without hooks: they may be closures, which cannot be pickled.
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset_hooks()
        self._patch_step_function()  # this process may not have made any object of the class yet
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for name, value in self._added_options().items():
                group.setdefault(name, value)
            for param in group["params"]:
                remembered = self.state.get(param, {})
                for name in self._counts_in_tensors if remembered else ():
                    if not isinstance(remembered.get(name, 0.0), Tensor):
                        remembered[name] = new_counter(remembered.get(name, 0.0), group.get("fused"))

    def _added_options(self) -> dict[str, Any]:
        """Options that state saved by an older version may lack."""
        return {}

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for k, group in enumerate(self.param_groups):
            options = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            text += f"\nParameter Group {k}\n{''.join(options)}"
        return f"{text})"


def _listed(params: Any) -> list[Any]:
    """The parameters of a group as a list; a single tensor counts as one. TypeError for sets, whose order is random."""
    if isinstance(params, Tensor):
        return [params]
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    return list(params)
