"""Lowering of Numba's typed IR to LLVM's, in half as many instructions for what kernels consist of.

Numba's own lowering stores each array, slice and range that a statement uses to a struct on the stack, field by field,
and loads the fields again; it counts the iterations of a range for any step; after each call it branches on the error
code. LLVM removes nearly all of that, but building, printing, parsing and simplifying it is a third of the time of
compiling a kernel. These statements are lowered to values in registers instead; all others, and these with operands of
other types, go Numba's way:

* ``x[i, j]``, ``x[i]``, ``x[i, a:b]``, assignments of numbers to such places, ``x.shape`` and ``x.size``;
* loops over ranges whose step is 1;
* calls of functions whose every return has the error code 0, and of ``view`` of numbers;
* ends of variables of types without reference counts.
"""
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core import ir as numba_ir
from numba.core.lowering import Lower

from jitgrad.kernels.quick_numba import is_number_view

__all__ = ["BriefLower"]

_WORD = ir.IntType(64)
_MEMINFO, _PARENT, _NITEMS, _ITEMSIZE, _DATA, _SHAPE, _STRIDES = range(7)  # fields of an array
_START, _STOP, _STEP = range(3)  # of a range, and of a slice
_NEXT, _COUNT = 0, 3  # of a range's iterator: addresses of the next value and of the number of values left
_SIZES = {"shape": _SHAPE, "size": _NITEMS}
_infallible: set[str] = set()  # LLVM's names of the functions lowered in this process that return error code 0 only


class BriefLower(Lower):
    """Numba's lowering with the shorter forms above."""

    def post_lower(self) -> None:
        super().post_lower()
        ends = [b.terminator for b in self.function.blocks if isinstance(b.terminator, ir.Ret)]
        if all(getattr(end.return_value, "constant", None) == 0 for end in ends):
            _infallible.add(self.function.name)

    # -- variables ------------------------------------------------------------------------------------

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if argidx is not None or name in self._singly_assigned_vars or self._is_counted(name):
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        if self._is_counted(name):
            super().delvar(name)
        elif name not in self._blk_local_varmap:  # its Del is lowered before its assignment: it gets a stack slot
            self._singly_assigned_vars.discard(name)

    def _is_counted(self, name: str) -> bool:
        """Whether references to what the variable holds are counted."""
        if not self.context.enable_nrt:
            return False
        return bool(self.context.data_model_manager[self.typeof(name)].contains_nrt_meminfo())

    # -- statements and expressions -------------------------------------------------------------------

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        translate = _TRANSLATED.get(expr.op)
        result = translate(self, resty, expr) if translate is not None else None
        return super().lower_expr(resty, expr) if result is None else result

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        array, parts = self.typeof(value.name), self._indices(value, index)
        if parts is None or signature.return_type != resty:
            return super().lower_getitem(resty, expr, value, index, signature)
        base = self.loadvar(value.name)
        spans = self._spans(array, base, parts)
        place = self._place(array, base, [first for first, _, _ in spans])
        left = [(length, stride) for _, length, stride in spans if length is not None]
        if not left:
            return self.context.unpack_value(self.builder, array.dtype, place, align=None if array.aligned else 1)
        view = self._view(resty, base, place, *zip(*left, strict=True))
        self.incref(resty, view)
        return view

    def lower_setitem(self, target: Any, index: Any, value: Any, signature: Any) -> Any:
        array, given, parts = self.typeof(target.name), self.typeof(value.name), self._indices(target, index)
        if parts is None or not isinstance(given, types.Number | types.Boolean):
            return super().lower_setitem(target, index, value, signature)
        base = self.loadvar(target.name)
        number = self.context.cast(self.builder, self.loadvar(value.name), given, array.dtype)
        spans = self._spans(array, base, parts)
        lengths = [length for _, length, _ in spans if length is not None]
        with cgutils.loop_nest(self.builder, lengths, _WORD) as steps:
            further = iter(steps)
            at = [f if length is None else self.builder.add(f, next(further)) for f, length, _ in spans]
            place = self._place(array, base, at)
            self.context.pack_value(self.builder, array.dtype, number, place, align=None if array.aligned else 1)

    def _lower_call_normal(self, function: Any, expr: Any, signature: Any) -> Any:
        if isinstance(function, types.Function) and function.typing_key is range and len(expr.args) < 3:
            bounds = self.fold_call_args(function, signature, expr.args, expr.vararg, expr.kws)
            number = bounds[0].type
            return self._struct(signature.return_type, [number(0), *bounds][-2:] + [number(1)])
        if is_number_view(function, signature.args):
            number = self.loadvar(expr.func.name)
            return self.builder.bitcast(number, self.context.get_value_type(signature.return_type))
        if isinstance(function, types.Dispatcher):
            made = function.dispatcher.overloads.get(tuple(signature.args))
            if made is not None and made.fndesc.llvm_func_name in _infallible:
                given = self.fold_call_args(function, signature, expr.args, expr.vararg, expr.kws)
                return self._call(made, given)
        return super()._lower_call_normal(function, expr, signature)

    def _call(self, made: Any, given: Sequence[Any]) -> Any:
        """Call a function without a branch on the error code that it returns."""
        about, convention = made.fndesc, self.context.call_conv
        self.context.add_linking_libs((made.library,))
        callee = self.context.declare_function(self.builder.module, about)
        places = [cgutils.alloca_once(self.builder, p.type.pointee) for p in callee.args[:2]]  # of result and error
        packed = convention._get_arg_packer(about.argtypes).as_arguments(self.builder, given)
        self.builder.call(callee, [*places, *packed])
        return self.context.get_returned_value(self.builder, about.restype, self.builder.load(places[0]))

    # -- arrays ---------------------------------------------------------------------------------------

    def _indices(self, array: Any, index: Any) -> list[tuple[Any, Any]] | None:
        """(type, value) of the integers and slices without a step by which an array is indexed; else None."""
        kind, found = self.typeof(array.name), self.typeof(index.name)
        kinds = list(found) if isinstance(found, types.BaseTuple) else [found]
        if type(kind) is not types.Array or self.context.enable_boundscheck or len(kinds) > kind.ndim:
            return None
        if not kinds or not all(isinstance(t, types.Integer) or t == types.slice2_type for t in kinds):
            return None
        value = self.loadvar(index.name)
        if not isinstance(found, types.BaseTuple):
            return [(found, value)]
        return list(zip(kinds, cgutils.unpack_tuple(self.builder, value, len(kinds)), strict=True))

    def _spans(self, array: Any, base: Any, parts: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any, Any]]:
        """(first index, length, stride) for each dim; length and stride are None where an integer indexes the dim."""
        b, spans = self.builder, []
        for k in range(array.ndim):
            size, (kind, value) = b.extract_value(base, [_SHAPE, k]), parts[k] if k < len(parts) else (None, None)
            if isinstance(kind, types.Integer):
                number = self.context.cast(b, value, kind, types.intp if kind.signed else types.uintp)
                spans.append((self._from_end(number, size) if kind.signed else number, None, None))
                continue
            start, length = _WORD(0), size
            if kind is not None:
                start, stop = (self._clamped(b.extract_value(value, f), size) for f in (_START, _STOP))
                length = b.sub(stop, start)
                length = b.select(b.icmp_signed(">", length, _WORD(0)), length, _WORD(0))
            spans.append((start, length, b.extract_value(base, [_STRIDES, k])))
        return spans

    def _place(self, array: Any, base: Any, indices: Sequence[Any]) -> Any:
        """The address of an element."""
        b = self.builder
        # Numba derives the steps of contiguous arrays from the shape, those of others are the strides.
        field = _STRIDES if array.layout == "A" else _SHAPE
        known = [b.extract_value(base, [field, k]) for k in range(array.ndim)]
        data = b.extract_value(base, _DATA)
        return cgutils.get_item_pointer2(self.context, b, data, known, known, array.layout, indices)

    def _from_end(self, index: Any, size: Any) -> Any:
        """An index, counted from the end if it is negative."""
        negative = self.builder.icmp_signed("<", index, _WORD(0))
        return self.builder.select(negative, self.builder.add(index, size), index)

    def _clamped(self, bound: Any, size: Any) -> Any:
        """A slice's bound within 0 .. size, counted from the end if it is negative.

        It nearly always is: a branch that is predicted is free, a chain of selects adds its latency to each row.
        """
        b, given = self.builder, bound
        block = b.block
        with b.if_then(b.icmp_unsigned(">", given, size), likely=False):
            bound = self._from_end(given, size)
            bound = b.select(b.icmp_signed("<", bound, _WORD(0)), _WORD(0), bound)
            bound = b.select(b.icmp_signed(">", bound, size), size, bound)
            other = b.block
        result = b.phi(_WORD)
        result.add_incoming(given, block)
        result.add_incoming(bound, other)
        return result

    def _view(self, kind: Any, base: Any, place: Any, shape: Sequence[Any], strides: Sequence[Any]) -> Any:
        """An array struct that shares the memory, and its owner, of ``base``."""
        b, count = self.builder, shape[0]
        for n in shape[1:]:
            count = b.mul(count, n, flags=["nsw"])
        kept = [b.extract_value(base, f) for f in (_MEMINFO, _PARENT)]
        sizes = [cgutils.pack_array(b, list(s)) for s in (shape, strides)]
        return self._struct(kind, [*kept, count, b.extract_value(base, _ITEMSIZE), place, *sizes])

    def _struct(self, kind: Any, fields: Sequence[Any]) -> Any:
        made = ir.Constant(self.context.get_value_type(kind), ir.Undefined)
        for k, value in enumerate(fields):
            made = self.builder.insert_value(made, value, k)
        return made

    def _attribute(self, resty: Any, expr: Any) -> Any:
        """The shape or the size of an array."""
        if expr.attr in _SIZES and type(self.typeof(expr.value.name)) is types.Array:
            return self.builder.extract_value(self.loadvar(expr.value.name), _SIZES[expr.attr])

    # -- ranges ---------------------------------------------------------------------------------------

    def _iterator(self, resty: Any, expr: Any) -> Any:
        """The iterator of a range whose step is 1."""
        if not self._is_unit_range(expr.value):
            return None
        b, kind = self.builder, self.context.get_value_type(resty.yield_type)
        given = self.loadvar(expr.value.name)
        start, stop, step = (b.extract_value(given, f) for f in (_START, _STOP, _STEP))
        places = [cgutils.alloca_once(b, kind) for _ in range(2)]
        b.store(start, places[0])
        b.store(b.sub(stop, start), places[1])  # at most 0 for an empty range
        return self._struct(resty, [places[0], stop, step, places[1]])

    def _is_unit_range(self, value: Any) -> bool:
        made = self.func_ir._definitions.get(value.name, ())
        call = made[0] if len(made) == 1 else None
        if not isinstance(call, numba_ir.Expr) or call.op != "call" or len(call.args) > 2 or call.kws:
            return False
        function = self.typeof(call.func.name)
        return isinstance(function, types.Function) and function.typing_key is range

    def _step(self, resty: Any, expr: Any) -> Any:
        """The next value of a range, and whether there was one."""
        if not isinstance(self.typeof(expr.value.name), types.RangeIteratorType):
            return None
        b, state = self.builder, self.loadvar(expr.value.name)
        place, step, left = (b.extract_value(state, f) for f in (_NEXT, _STEP, _COUNT))
        count, value = b.load(left), b.load(place)
        found = b.icmp_signed(">", count, count.type(0))
        with b.if_then(found):
            b.store(b.sub(count, count.type(1), flags=["nsw"]), left)
            b.store(b.add(value, step), place)
        return self._struct(resty, [value, found])

    def _first(self, resty: Any, expr: Any) -> Any:
        return self._of_pair(expr, 0)

    def _second(self, resty: Any, expr: Any) -> Any:
        return self._of_pair(expr, 1)

    def _of_pair(self, expr: Any, k: int) -> Any:
        """The value, or whether there is one, of the pair that `_step` made."""
        kind = self.typeof(expr.value.name)
        if isinstance(kind, types.Pair) and isinstance(kind.first_type, types.Integer):
            return self.builder.extract_value(self.loadvar(expr.value.name), k)


_TRANSLATED = {
    "getattr": BriefLower._attribute, "getiter": BriefLower._iterator, "iternext": BriefLower._step,
    "pair_first": BriefLower._first, "pair_second": BriefLower._second,
}  # fmt: skip
