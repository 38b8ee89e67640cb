"""``break``, ``continue`` and ``return`` as branches and flags, so that every block runs from its start to its end.

A loop that was left by a jump gets an attribute ``leave`` with the name of a flag, to be tested behind its body.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

__all__ = ["RESULT", "ends", "without_jumps"]

RESULT = "result"
_LOOPS = (ast.For, ast.While)


@dataclass
class _Loop:
    """The innermost loop around a statement: its flags' names. ``returns``: whether a ``return`` leaves it."""

    left: str
    skipped: str


class _Jumps:
    def __init__(self, taken: set[str]):
        self.taken = set(taken)
        self.result = self.name(RESULT)
        self.returned = self.name("returned")

    def name(self, base: str) -> str:
        name, k = base, 0
        while name in self.taken:
            k += 1
            name = f"{base}_{k}"
        self.taken.add(name)
        return name

    def block(self, body: list[ast.stmt], loop: _Loop | None) -> list[ast.stmt]:
        """The statements without jumps out of them."""
        done: list[ast.stmt] = []
        for k, s in enumerate(body):
            rest = body[k + 1 :]
            if isinstance(s, (ast.Return, ast.Break, ast.Continue)):
                return done + self.jump(s, loop)
            if isinstance(s, ast.Raise):
                return [*done, s]
            kinds = _jumps(s)
            if isinstance(s, _LOOPS):
                done.append(self.loop(s))
                if "return" not in kinds:
                    continue
                if loop is not None and loop.left != self.returned:
                    done.append(_if(s, _name(self.returned), [_set(s, loop.left, True)]))
                return done + self.guarded(s, [self.returned], rest, loop)
            if not isinstance(s, ast.If):
                done.append(s)
                continue
            if not kinds:  # loops within may have jumps of their own
                done.append(_if(s, s.test, self.block(s.body, loop), self.block(s.orelse, loop)))
                continue
            first, second = _stops(s.body), _stops(s.orelse)
            if first or second:
                # Where one branch jumps always, what follows belongs to the other.
                one = s.body if first else s.body + rest
                other = s.orelse + rest if first else s.orelse
                return [*done, _if(s, s.test, self.block(one, loop), self.block(other, loop))]
            done.append(_if(s, s.test, self.block(s.body, loop), self.block(s.orelse, loop)))
            return done + self.guarded(s, self.flags(kinds, loop), rest, loop)
        return done

    def flags(self, kinds: set[str], loop: _Loop | None) -> list[str]:
        if loop is None:
            return [self.returned]
        found = [loop.left] if kinds & {"break", "return"} else []
        return found + ([loop.skipped] if "continue" in kinds else [])

    def guarded(self, at: ast.stmt, flags: list[str], rest: list[ast.stmt], loop: _Loop | None) -> list[ast.stmt]:
        if not rest:
            return []
        tests: list[ast.expr] = [ast.copy_location(ast.UnaryOp(ast.Not(), _name(f)), at) for f in flags]
        test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        return [_if(at, test, self.block(rest, loop))]

    def jump(self, s: ast.stmt, loop: _Loop | None) -> list[ast.stmt]:
        if isinstance(s, ast.Continue):
            assert loop is not None
            return [_set(s, loop.skipped, True)]
        if isinstance(s, ast.Break):
            assert loop is not None
            return [_set(s, loop.left, True)]
        assert isinstance(s, ast.Return)
        target = ast.Name(self.result, ast.Store())
        value = s.value or ast.Constant(None)
        done: list[ast.stmt] = [ast.copy_location(ast.Assign([target], value), s), _set(s, self.returned, True)]
        if loop is not None and loop.left != self.returned:
            done.append(_set(s, loop.left, True))
        return done

    def loop(self, s: ast.stmt) -> ast.stmt:
        assert isinstance(s, _LOOPS)
        kinds = _inner_jumps(s.body)
        own = kinds & {"break", "return"}
        left = self.returned if own == {"return"} else self.name("left") if own else ""
        inner = _Loop(left, self.name("skipped") if "continue" in kinds else "")
        body = self.block(s.body, inner)
        # Set anew at the start of each iteration, so that no flag is carried from one to the next.
        names = [n for n in (left, inner.skipped, self.returned if "return" in kinds else "") if n]
        body = [*[_set(s.body[0], n, False) for n in dict.fromkeys(names)], *body]
        new = ast.copy_location(
            ast.For(s.target, s.iter, body, []) if isinstance(s, ast.For) else ast.While(s.test, body, []), s
        )
        new.leave = left or None  # type: ignore[union-attr]
        return new


def without_jumps(body: list[ast.stmt], taken: set[str]) -> tuple[list[ast.stmt], str]:
    """A function's statements without jumps, and the name that holds its result at the end."""
    jumps = _Jumps(taken)
    done = jumps.block(body, None)
    at = body[0]
    done = [_set(at, jumps.returned, False), *done]
    while True:  # a flag that nothing reads needs not be set, which may leave other flags unread
        read = {n.id for s in done for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        read |= {n.leave for s in done for n in ast.walk(s) if getattr(n, "leave", None)}  # type: ignore[attr-defined]
        flags = jumps.taken - taken - {jumps.result}
        if not any(_sets(n, flags - read) for s in done for n in ast.walk(s)):
            return done, jumps.result
        done = _pruned(done, flags - read)


def _pruned(body: list[ast.stmt], dead: set[str]) -> list[ast.stmt]:
    kept = []
    for s in body:
        if _sets(s, dead):
            continue
        if isinstance(s, (ast.If, *_LOOPS)):
            s.body, s.orelse = _pruned(s.body, dead), _pruned(s.orelse, dead)
            if isinstance(s, ast.If) and not s.body and not s.orelse and _is_flag_test(s.test):
                continue
        kept.append(s)
    return kept


def _is_flag_test(test: ast.expr) -> bool:
    return isinstance(test, ast.Name)


def _sets(s: ast.AST, names: set[str]) -> bool:
    return isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and s.targets[0].id in names


def ends(body: list[ast.stmt]) -> bool:
    """Whether the statements never run to their end: all paths return or raise."""
    return _stops(body, {"return"})


def _stops(body: list[ast.stmt], by: set[str] = frozenset({"return", "break", "continue"})) -> bool:  # type: ignore[assignment]
    """Whether the statements always jump."""
    for s in body:
        if isinstance(s, ast.Raise) or (isinstance(s, ast.Return) and "return" in by):
            return True
        if isinstance(s, (ast.Break, ast.Continue)):
            return "break" in by
        if isinstance(s, ast.If) and _stops(s.body, by) and _stops(s.orelse, by):
            return True
        if isinstance(s, ast.While) and _is_true(s.test) and "break" not in _inner_jumps(s.body):
            return True
    return False


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _inner_jumps(body: list[ast.stmt]) -> set[str]:
    return {kind for s in body for kind in _jumps(s)}


def _jumps(s: ast.stmt) -> set[str]:
    """How a statement may leave the block that it stands in."""
    if isinstance(s, ast.Return):
        return {"return"}
    if isinstance(s, ast.Break):
        return {"break"}
    if isinstance(s, ast.Continue):
        return {"continue"}
    if isinstance(s, ast.If):
        return _inner_jumps(s.body + s.orelse)
    return _inner_jumps(s.body) & {"return"} if isinstance(s, _LOOPS) else set()


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _set(at: ast.stmt, name: str, value: bool) -> ast.Assign:
    return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value)), at)


def _if(at: ast.stmt, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt] | None = None) -> ast.If:
    return ast.copy_location(ast.If(test, body, orelse or []), at)
