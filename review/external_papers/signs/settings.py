"""Find loss terms or components whose weight is zero wherever it is set."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from labwright.review.external_papers.provenance import PaperProvenance
from labwright.review.external_papers.scripts import AuditedScript, called_name
from labwright.review.external_papers.signs.sign import Sign

_WEIGHT = re.compile(
    r"(?:^|_)(?:weight|lambda\w*|lam|coef\w*|strength|penalty|reg\w*|alpha|beta|gamma|mu|scale|mix|eta|tau|w|"
    r"bonus|boost|factor|share)"
    r"(?:$|_)|(?:weight|lambda|coef|strength|penalty)s?$",
    re.I,
)
_USUAL = re.compile(
    r"decay|momentum|dropout|bias|init|dev|test|min|max|start|offset|smoothing|label_|noise|l1|l2|jitter|sum", re.I
)


def of_settings(found: PaperProvenance, *, said: str) -> Iterator[Sign]:
    """Yield weights that are zero in all code and configuration, and multiply a term."""
    read = [one for one in found.scripts if one.tree is not None and not one.is_test]
    values = _values(read)
    for config in found.scripts:
        if config.tree is None:
            for name, value in re.findall(
                r"[-\s\"']([A-Za-z_]\w+)[\"']?\s*[:=\s]\s*(\d+\.?\d*(?:e-?\d+)?)\b", config.text
            ):
                values[name.lstrip("-").replace("-", "_")].append((float(value), config.path, 0))
    used = {name for one in read if one.tree is not None for name in _multiplied(one.tree)}
    for name, set_to in values.items():
        if (
            name in used
            and _WEIGHT.search(name)
            and not _USUAL.search(name)
            and all(value == 0 for value, _, _ in set_to)
        ):
            _, path, line = set_to[0]
            script = found.find_script(path)
            quote = script.text.splitlines()[line - 1].strip()[:160] if script and line else name
            yield Sign(
                "term without weight",
                f"{name} is 0 wherever it is set, and a term is multiplied by it",
                f"{path}:{line}",
                quote,
                0.6 if found.may_have_run(path) else 0.3,
            )


def _values(scripts: Sequence[AuditedScript]) -> dict[str, list[tuple[float, str, int]]]:
    """Return all numbers that a name is set to: assignments, defaults, keywords, keys, options."""
    found: dict[str, list[tuple[float, str, int]]] = defaultdict(list)

    def add(name: str, value: ast.expr | None, path: str) -> None:
        if (
            isinstance(value, ast.Constant)
            and isinstance(value.value, int | float)
            and not isinstance(value.value, bool)
        ):
            found[name].append((float(value.value), path, value.lineno))
        elif value is not None and not isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Constant):
            found[name].append((float("nan"), path, value.lineno))

    for script in scripts:
        for one in ast.walk(script.tree) if script.tree is not None else ():
            if isinstance(one, ast.Assign):
                for target in one.targets:
                    add(_last(target), one.value, script.path)
            elif isinstance(one, ast.AnnAssign):
                add(_last(one.target), one.value, script.path)
            elif isinstance(one, ast.FunctionDef):
                names = [arg.arg for arg in (*one.args.posonlyargs, *one.args.args)]
                for name, value in zip(reversed(names), reversed(one.args.defaults), strict=False):
                    add(name, value, script.path)
            elif isinstance(one, ast.Dict):
                for key, value in zip(one.keys, one.values, strict=True):
                    if isinstance(key, ast.Constant):
                        add(str(key.value), value, script.path)
            elif isinstance(one, ast.Call):
                for word in one.keywords:
                    add(word.arg or "", word.value, script.path)
                if called_name(one) == "add_argument" and one.args and isinstance(one.args[0], ast.Constant):
                    name = str(one.args[0].value).lstrip("-").replace("-", "_")
                    add(name, next((word.value for word in one.keywords if word.arg == "default"), None), script.path)
            elif isinstance(one, ast.For):
                add(_last(one.target), one.iter, script.path)
    return found


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.id if isinstance(node, ast.Name) else ""


def _multiplied(tree: ast.Module) -> Iterator[str]:
    """Yield names that multiply a term of a sum."""
    for one in ast.walk(tree):
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult):
            yield from (name for side in (one.left, one.right) if (name := _last(side)))
        elif isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div) and (name := _last(one.left)):
            yield name
