"""Lines of an experiment's source that hand a value in, or set a constant."""

from __future__ import annotations

import ast
from functools import lru_cache

from record.claims import Claim
from record.syntax import parse

SUBMIT, LOG = frozenset({"submit"}), frozenset({"result", "log"})
_ORDER = {"submit": ("dataset", "split", "condition"), "log": ("name", "value"), "result": ("name", "value")}


def handing_in(source: str, claim: Claim) -> list[int]:
    """Lines, from 1, of the calls of `lab` that can have handed in a claim's value, by what they spell out."""
    wanted = LOG if claim.grade == "logged" else SUBMIT
    about = {"dataset": claim.dataset, "split": claim.split, "condition": claim.condition, "name": claim.name}
    return [call.lineno for name, call in _calls(source) if name in wanted and not _other(name, call, about)]


def assignment(source: str, name: str) -> list[int]:
    """Lines, from 1, where a name is assigned at the top level."""
    tree = _tree(source)
    return [one.lineno for one in (tree.body if tree else ()) if isinstance(one, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in one.targets)]


@lru_cache(maxsize=64)
def _calls(source: str) -> tuple[tuple[str, ast.Call], ...]:
    """The calls of `lab` by line; kept, since many values come from one script."""
    tree = _tree(source)
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call)] if tree else []
    named = [(call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", ""), call)
             for call in sorted(calls, key=lambda one: one.lineno)]
    return tuple((name, call) for name, call in named if name in _ORDER)


def _tree(source: str) -> ast.Module | None:
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _other(name: str, call: ast.Call, about: dict[str, str]) -> bool:
    """Whether the call says in so many words that it is about something else, or is a point of a curve."""
    given = dict(zip(_ORDER[name], call.args, strict=False)) | {
        one.arg: one.value for one in call.keywords if one.arg is not None}
    if "step" in given and not _is_none(given["step"]):
        return True
    return any(isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value != about[what]
               for what, value in given.items() if what in about)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
