"""`results.tex`: the file that gives the keys of a paper their printed text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_LINE = re.compile(r"^\\(result|setup)value\{([^{}]*)\}\{(.*)\}$", re.MULTILINE)
_SPECIAL = re.compile(r"[&%#_$~^{}]")
_EXPONENT = re.compile(r"(-?)(\d+(?:\.\d+)?)e([+-])0*(\d+)")


def render(results: Mapping[str, str], setups: Mapping[str, str], used: Iterable[tuple[str, str]]) -> str:
    """The text of results.tex for the keys that a paper uses, each as (command, key)."""
    lines = ["% Written by the program from the record. \\result{key} and \\setup{key} print what stands here."]
    for command, key in sorted(set(used)):
        values = results if command == "result" else setups
        if key in values:
            lines.append(f"\\{command}value{{{key}}}{{{printable(values[key])}}}")
    return "\n".join(lines) + "\n"


def parse(text: str) -> dict[tuple[str, str], str]:
    """What a results.tex defines: (command, key) -> printed text."""
    return {(match[1], match[2]): match[3] for match in _LINE.finditer(text)}


def printable(value: str) -> str:
    """The value as TeX that holds in text, in formulas and in captions.

    Formulas become `\\ensuremath`; a value without any TeX in it (a name from code) is escaped.
    """
    value = " ".join(value.split())
    if match := _EXPONENT.fullmatch(value):
        sign, mantissa, direction, exponent = match.groups()
        power = f"10^{{{'-' if direction == '-' else ''}{exponent}}}"
        factor = "" if mantissa == "1" else rf"{mantissa}\times "
        return rf"\ensuremath{{{sign}{factor}{power}}}"
    if "\\" not in value and "$" not in value:
        value = re.sub(r"^-(?=[\d.])", "$-$", _SPECIAL.sub(lambda found: _ESCAPED[found[0]], value))
    return re.sub(r"\$([^$]*)\$", r"\\ensuremath{\1}", value)


_ESCAPED = {char: f"\\{char}" for char in "&%#_${}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def spoken(value: str) -> str:
    """The value as a PDF's text would give it, without TeX and spaces."""
    value = re.sub(r"\\(?:pm)\b\s*", "±", value)
    value = re.sub(r"\\(?:times)\b\s*", "×", value)
    value = re.sub(r"\\[A-Za-z]+\s*|\\[,;:! ]", "", value)
    return re.sub(r"[\\{}$^\s]", "", value).replace("~", "")
