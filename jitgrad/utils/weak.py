"""``torch.utils.weak``: dictionaries whose keys are tensors by identity, held weakly."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that is equal to another one of the same object, whatever ``==`` of the object says."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None):
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        return mine is theirs if mine is not None and theirs is not None else self is other


class TensorWeakRef:
    """A weak reference to a tensor; None when it is gone."""

    def __init__(self, tensor: Any):
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Any:
        return self.ref()


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary by the identity of its keys; an entry goes with its key."""

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef):
        self.data: Any = {}
        self._remove = lambda reference: self.data.pop(reference, None)
        self.ref_type = ref_type
        self.update(dict or {})

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # an object that has no weak references
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary
