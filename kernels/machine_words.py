"""Functions on machine words, written in Python's syntax, as machine code: what threads, atomics and addresses need.

Numba compiles such functions too, by intrinsics, but takes 1.3 s for what the thread pool needs, since it infers types
and compiles each helper apart. Here all values are words (int64), so a statement is an instruction or two, and the same
takes 0.09 s, nearly all of it LLVM's. Functions consist of assignments, ``if``, ``while``, ``for`` over a range,
``break``, ``return`` and calls, of each other and of the operations below; other names are whole numbers of their
module.

    read(address), write(address, word)         memory that no other thread uses meanwhile
    load(address), store(address, word)         memory that other threads use: all see these in one order
    copy(target, source, count)                 copy bytes of memory that no other thread uses meanwhile
    swap(address, old, new)                     write ``new`` if ``old`` is there; 1 if it was, else 0
    subtract(address, word)                     subtract from what is there
    spin_hint()                                 tells the core that the program waits in a loop
    float_mode(), set_float_mode(word)          how this thread's core rounds, and what it does with denormal numbers
    call(function, word)                        calls a C function void(intptr_t)
    ask(function, word)                         calls a C function intptr_t(intptr_t)
    give_way(function)                          calls a C function int(void): sched_yield
    wait(function, lock, microseconds)          calls PyThread_acquire_lock_timed(lock, microseconds, 0)
"""

from __future__ import annotations

import ast
import functools
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llvmlite import ir

from jitgrad.kernels.native_library import new_library
from jitgrad.kernels.words.syntax import definition, parameters

__all__ = ["FLUSH", "WORD", "compiled_words"]

WORD, INT, NOTHING = ir.IntType(64), ir.IntType(32), ir.VoidType()
_ORDER = "seq_cst"
# LLVM's function, and its arguments, that tells a core that it spins: its other hardware thread then runs faster.
_X86_64, _ARM64 = ("x86_64", "AMD64"), ("arm64", "aarch64", "ARM64")
# The bits of a float mode by which denormal operands and results are taken for zero; 0 where none are known.
FLUSH = 0x8040 if platform.machine() in _X86_64 else 1 << 24 if platform.machine() in _ARM64 else 0
_X86: Any = ("llvm.x86.sse2.pause", [])
_ARM: Any = ("llvm.aarch64.hint", [INT(1)])
_SPIN_HINTS = {**dict.fromkeys(_X86_64, _X86), **dict.fromkeys(_ARM64, _ARM)}
_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "sdiv", ast.BitAnd: "and_", ast.BitOr: "or_",
    ast.LShift: "shl", ast.RShift: "ashr",
}  # fmt: skip
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _at(builder: ir.IRBuilder, address: Any) -> Any:
    return builder.inttoptr(address, WORD.as_pointer())


def _foreign(result: Any, *parameters: Any) -> Callable[..., Any]:
    """The operation that calls the C function of this type at the address that is its first argument."""
    kind = ir.FunctionType(result, parameters).as_pointer()

    def build(builder: ir.IRBuilder, function: Any, *args: Any) -> Any:
        given = [builder.trunc(a, p) if p is INT else a for a, p in zip(args, parameters, strict=True)]
        return builder.call(builder.inttoptr(function, kind), given)

    return build


def _spin_hint(builder: ir.IRBuilder) -> None:
    if platform.machine() in _SPIN_HINTS:
        name, numbers = _SPIN_HINTS[platform.machine()]
        builder.call(_declared(builder, name, NOTHING, *[n.type for n in numbers]), numbers)


def _float_mode(builder: ir.IRBuilder) -> Any:
    if platform.machine() in _ARM64:
        return builder.call(_declared(builder, "llvm.aarch64.get.fpcr", WORD), [])
    if platform.machine() not in _X86_64:
        return WORD(0)
    place = _slot(builder)
    _move_mxcsr(builder, "stmxcsr", place)
    return builder.zext(builder.load(place), WORD)


def _set_float_mode(builder: ir.IRBuilder, word: Any) -> None:
    if platform.machine() in _ARM64:
        builder.call(_declared(builder, "llvm.aarch64.set.fpcr", NOTHING, WORD), [word])
    elif platform.machine() in _X86_64:
        place = _slot(builder)
        builder.store(builder.trunc(word, INT), place)
        _move_mxcsr(builder, "ldmxcsr", place)


def _slot(builder: ir.IRBuilder) -> Any:
    """A place on the stack, in the first block: one made in a loop would be another one in each round."""
    with builder.goto_entry_block():
        return builder.alloca(INT)


def _move_mxcsr(builder: ir.IRBuilder, instruction: str, place: Any) -> None:
    byte = ir.IntType(8).as_pointer()
    builder.call(_declared(builder, f"llvm.x86.sse.{instruction}", NOTHING, byte), [builder.bitcast(place, byte)])


def _declared(builder: ir.IRBuilder, name: str, result: Any, *parameters: Any) -> Any:
    """LLVM's own function of that name."""
    made = builder.module.globals.get(name)
    return made or ir.Function(builder.module, ir.FunctionType(result, parameters), name)


def _swap(builder: ir.IRBuilder, address: Any, old: Any, new: Any) -> Any:
    pair = builder.cmpxchg(_at(builder, address), old, new, _ORDER, _ORDER)
    return builder.zext(builder.extract_value(pair, 1), WORD)


def _copy(builder: ir.IRBuilder, target: Any, source: Any, count: Any) -> None:
    place = ir.IntType(8).as_pointer()
    move = builder.module.declare_intrinsic("llvm.memcpy", [place, place, WORD])
    both = [builder.inttoptr(a, place) for a in (target, source)]
    builder.call(move, [*both, count, ir.Constant(ir.IntType(1), 0)])


_timed_wait = _foreign(INT, WORD, WORD, INT)
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "read": lambda b, address: b.load(_at(b, address)),
    "write": lambda b, address, word: b.store(word, _at(b, address)),
    "load": lambda b, address: b.load_atomic(_at(b, address), _ORDER, 8),
    "store": lambda b, address, word: b.store_atomic(word, _at(b, address), _ORDER, 8),
    "swap": _swap,
    "copy": _copy,
    "subtract": lambda b, address, word: b.atomic_rmw("sub", _at(b, address), word, _ORDER),
    "spin_hint": _spin_hint,
    "float_mode": _float_mode,
    "set_float_mode": _set_float_mode,
    "call": _foreign(NOTHING, WORD),
    "ask": _foreign(WORD, WORD),
    "give_way": _foreign(INT),
    "wait": lambda b, function, lock, microseconds: _timed_wait(b, function, lock, microseconds, WORD(0)),
}


class _Function:
    """The translation of one function; variables live in stack slots, which LLVM turns into registers."""

    def __init__(self, function: Callable[..., Any], made: dict[str, ir.Function], operations: Mapping[str, Any]):
        self.scope, self.made, self.target = function.__globals__, made, made[function.__name__]
        self.operations = operations
        tree = definition(function, "function")
        self.builder = ir.IRBuilder(self.target.append_basic_block())
        self.slots: dict[str, Any] = {}
        for argument in self.target.args:
            self._store(argument.name, argument)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._slot(node.id)
        self.exits: list[Any] = []  # where ``break`` goes, for each loop around
        self.statements(tree.body)
        if not self.builder.block.is_terminated:
            self.builder.ret(WORD(0))

    def _slot(self, name: str) -> Any:
        if name not in self.slots:
            self.slots[name] = self.builder.alloca(WORD)
        return self.slots[name]

    def _store(self, name: str, value: Any) -> None:
        self.builder.store(value, self._slot(name))

    # -- statements ---------------------------------------------------------------------------------

    def statements(self, nodes: Sequence[ast.stmt]) -> None:
        for node in nodes:
            getattr(self, f"_{type(node).__name__.lower()}")(node)

    def _expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.word(node.value)

    def _assign(self, node: Any) -> None:
        target: Any = node.targets[0]
        names, values = ([target], [node.value]) if isinstance(target, ast.Name) else (target.elts, node.value.elts)
        words = [self.word(v) for v in values]  # all are computed before any is stored
        for name, word in zip(names, words, strict=True):
            self._store(name.id, word)

    def _augassign(self, node: Any) -> None:
        name = node.target.id
        self._store(name, self._binary(node.op, self.builder.load(self.slots[name]), self.word(node.value)))

    def _return(self, node: ast.Return) -> None:
        self.builder.ret(self.word(node.value) if node.value is not None else WORD(0))

    def _break(self, node: ast.Break) -> None:
        self.builder.branch(self.exits[-1])

    def _if(self, node: ast.If) -> None:
        yes, no, after = [self.target.append_basic_block() for _ in range(3)]
        self.branch(node.test, yes, no)
        for block, body in ((yes, node.body), (no, node.orelse)):
            self._body(block, body, after)
        self.builder.position_at_end(after)

    def _while(self, node: ast.While) -> None:
        self._loop(lambda body, end: self.branch(node.test, body, end), node.body, lambda: None)

    def _for(self, node: Any) -> None:
        bounds, name = node.iter.args, node.target.id
        first, stop = [WORD(0), *map(self.word, bounds)][-2:]
        self._store(name, first)

        def test(body: Any, end: Any) -> None:
            self.builder.cbranch(self.builder.icmp_signed("<", self.builder.load(self.slots[name]), stop), body, end)

        self._loop(test, node.body, lambda: self._store(name, self.builder.add(self._load(name), WORD(1))))

    def _loop(self, test: Callable[[Any, Any], None], body: Sequence[ast.stmt], step: Callable[[], None]) -> None:
        head, inside, end = [self.target.append_basic_block() for _ in range(3)]
        self.builder.branch(head)
        self.builder.position_at_end(head)
        test(inside, end)
        self.exits.append(end)
        self.builder.position_at_end(inside)
        self.statements(body)
        if not self.builder.block.is_terminated:
            step()
            self.builder.branch(head)
        self.exits.pop()
        self.builder.position_at_end(end)

    def _body(self, block: Any, nodes: Sequence[ast.stmt], after: Any) -> None:
        self.builder.position_at_end(block)
        self.statements(nodes)
        if not self.builder.block.is_terminated:
            self.builder.branch(after)

    # -- conditions and words -----------------------------------------------------------------------

    def branch(self, node: ast.expr, yes: Any, no: Any) -> None:
        """Go to the block ``yes`` if the condition holds, else to ``no``."""
        if isinstance(node, ast.BoolOp):
            for value in node.values[:-1]:
                further = self.target.append_basic_block()
                self.branch(value, *((further, no) if isinstance(node.op, ast.And) else (yes, further)))
                self.builder.position_at_end(further)
            self.branch(node.values[-1], yes, no)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.branch(node.operand, no, yes)
        elif isinstance(node, ast.Compare):
            self.builder.cbranch(self._comparison(node), yes, no)
        else:
            self.builder.cbranch(self.builder.icmp_signed("!=", self.word(node), WORD(0)), yes, no)

    def word(self, node: Any) -> Any:
        """The value of an expression."""
        if isinstance(node, ast.BinOp):
            return self._binary(node.op, self.word(node.left), self.word(node.right))
        if isinstance(node, ast.Call):
            function: Any = node.func
            name, args = function.id, [self.word(a) for a in node.args]
            if name in self.operations:
                return self.operations[name](self.builder, *args)
            return self.builder.call(self.made[name], args)
        if isinstance(node, ast.Compare):
            return self.builder.zext(self._comparison(node), WORD)
        if isinstance(node, ast.Name):
            return self._load(node.id)
        return WORD(int(ast.literal_eval(node)))

    def _load(self, name: str) -> Any:
        return self.builder.load(self.slots[name]) if name in self.slots else WORD(self.scope[name])

    def _comparison(self, node: ast.Compare) -> Any:
        left, right = self.word(node.left), self.word(node.comparators[0])
        return self.builder.icmp_signed(_COMPARE[type(node.ops[0])], left, right)

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        return getattr(self.builder, _BINARY[type(op)])(left, right)


def compiled_words(
    name: str, functions: Sequence[Callable[..., Any]], helpers: Sequence[Callable[..., Any]] = (),
    operations: Callable[[], Mapping[str, Callable[..., Any]]] = dict, emitters: str = "",
) -> dict[str, int]:  # fmt: skip
    """Addresses of the functions, by name: C functions of words, which return a word. They may call the helpers.

    operations: returns further ones than above, by name: each gets LLVM's builder and words; it is called to compile
    only. emitters: the text of these.
    """

    def build(module: ir.Module) -> None:
        made = {}
        for f in (*helpers, *functions):
            names = parameters(f)
            made[f.__name__] = ir.Function(module, ir.FunctionType(WORD, [WORD] * len(names)), f"{name}.{f.__name__}")
            for argument, parameter in zip(made[f.__name__].args, names, strict=True):
                argument.name = parameter
        for f in helpers:  # one copy of each takes a third less time to compile
            made[f.__name__].linkage = "internal"
            made[f.__name__].attributes.add("noinline")
        all_operations = {**_OPERATIONS, **operations()}
        for f in (*helpers, *functions):
            _Function(f, made, all_operations)

    library = new_library(name, build, "\n".join([_translation(), emitters, *map(_identity, (*helpers, *functions))]))
    _kept.append(library)
    return {f.__name__: library.get_pointer_to_function(f"{name}.{f.__name__}") for f in functions}


@functools.cache
def _translation() -> str:
    """What decides how functions are translated."""
    return f"{Path(__file__).read_text()}\n{platform.machine()}"


def _identity(function: Callable[..., Any]) -> str:
    """What decides what a function is translated to: its code, and the numbers of its module that it names."""
    code, scope = function.__code__, function.__globals__
    numbers = {n: int(scope[n]) for n in code.co_names if isinstance(scope.get(n), int)}
    names = code.co_name, code.co_names, code.co_varnames, code.co_argcount
    return repr((names, code.co_code, code.co_consts, numbers))


_kept: list[Any] = []  # machine code lives as long as its library
