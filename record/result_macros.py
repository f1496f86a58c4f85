r"""The only module that reads and writes `results.tex` and the macros that print values from it.

  \result{KEY}             \setup{KEY}              in a paper's text: print a measured value, or a setting
  \resultvalue{KEY}{TEX}   \setupvalue{KEY}{TEX}    lines of results.tex: the text of a key

The key of a mean is `split/dataset/metric/condition`, that of a paired difference
`diff/dataset/metric/condition~other`, that of effect K (from 1) of a hypothesis `hypothesis/ID/K`, and that of an
estimate that the outline asked for `estimate/NAME`. The printed form follows after a dot (`record.claims.formatting`).
Papers of earlier versions also have `\verdict{KEY}`, a comparison printed in words; it is read and no longer written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Literal, NamedTuple, cast

from labwright.record.printed_value import PrintedValue

MacroName = Literal["result", "setup", "verdict"]

MACRO_USE_PATTERN = re.compile(r"\\(?P<macro>result|setup|verdict)\s*\{(?P<key>[^{}]*)\}")
"""Matches a macro that prints a value, for code that needs its position; other code uses `find_macro_uses` and
`fill_macros`.
"""
_RESULT_LINE_PATTERN = re.compile(r"^\\(result|setup|verdict)value\{([^{}]*)\}\{(.*)\}[ \t\r]*$\n?", re.MULTILINE)
_KEY_PATTERN = re.compile(r"[^\\{}%#^\x00-\x1f\x7f]+")
_KEY_PART_PATTERN = re.compile(r"[\w .@:+,*-]+", re.ASCII)
_FORM_PATTERN = re.compile(r"\.(mean|pm|sd|n|low|high|ci|confidence|percent|percent_ci|points|points_ci|short)$")
_SYMBOLS = {"pm": "±", "times": "×"}


class ResultMacroUse(NamedTuple):
    """A macro that prints a value, and its key."""

    macro: MacroName
    key: str

    def __str__(self) -> str:
        return f"\\{self.macro}{{{self.key}}}"


class ClaimKey(NamedTuple):
    """The parts of a claim's key. `other` is the subtracted condition of a difference; empty for a mean."""

    split: str
    dataset: str
    metric: str
    condition: str
    other: str = ""
    form: str = ""

    @classmethod
    def parse_key(cls, key: str) -> ClaimKey | None:
        """Parse a key; None if it has another form, such as the key of a setting."""
        form = _FORM_PATTERN.search(key)
        parts = key[: form.start() if form else None].split("/")
        if len(parts) != 4:
            return None
        condition, _, other = parts[3].partition("~")
        return cls(parts[0], parts[1], parts[2], condition, other, form[1] if form else "")

    @property
    def key(self) -> str:
        """The whole key."""
        return f"{self.key_without_form}.{self.form}" if self.form else self.key_without_form

    @property
    def key_without_form(self) -> str:
        """The key without the printed form."""
        return "/".join(
            (self.split, self.dataset, self.metric, f"{self.condition}~{self.other}" if self.other else self.condition)
        )


def format_key(*parts: str) -> str:
    """Build a key from names. A name with characters not allowed in a key (code may use any) is made unique by
    its hash."""
    return "/".join(
        one
        if _KEY_PART_PATTERN.fullmatch(one)
        else "".join(char if _KEY_PART_PATTERN.fullmatch(char) else "-" for char in one)[:40]
        + f"-{sha256(one.encode()).hexdigest()[:8]}"
        for one in parts
    )


def is_interval_form(key: str) -> bool:
    """Return whether a key prints an interval, an end of one, or its confidence."""
    found = _FORM_PATTERN.search(key)
    return found is not None and found[1] in ("ci", "low", "high", "confidence", "percent_ci", "points_ci")


def strip_form(key: str) -> str:
    """Return the key of the claim to which a printed form belongs."""
    return _FORM_PATTERN.sub("", key)


# --- macros in the text -----------------------------------------------------------------------------------------------


def find_macro_uses(text: str) -> Iterator[ResultMacroUse]:
    """Yield every value that a document prints, in order."""
    return (_parse_use(match) for match in MACRO_USE_PATTERN.finditer(text))


def fill_macros(text: str, value: Callable[[ResultMacroUse], str]) -> str:
    """Return LaTeX source with each of its printed values replaced."""
    return MACRO_USE_PATTERN.sub(lambda match: value(_parse_use(match)), text)


def _parse_use(match: re.Match[str]) -> ResultMacroUse:
    return ResultMacroUse(cast(MacroName, match[1]), match[2].strip())


# --- results.tex ------------------------------------------------------------------------------------------------------


def render_results(values: Mapping[ResultMacroUse, PrintedValue | None], *, untied: bool = False) -> str:
    """Return the content of results.tex for the values that a paper uses, as printed by `record.claims`.

    None means that the record does not have the key: TeX stops there or, with `untied`, prints a placeholder. Keys with
    characters that are special in TeX get no line.
    """
    lines = ["% Written by the program from the record. \\result{key} and \\setup{key} print what stands here."]
    for use, value in sorted(values.items(), key=lambda item: item[0]):
        if (value is not None or untied) and _KEY_PATTERN.fullmatch(use.key):
            tex = r"\textbf{[untied]}" if value is None else value.tex
            lines.append(f"\\{use.macro}value{{{use.key}}}{{{tex}}}")
    return "\n".join(lines) + "\n"


def parse_results(text: str) -> dict[ResultMacroUse, str]:
    """Parse results.tex: the TeX that each use prints."""
    return {_parse_use(match): match[3] for match in _RESULT_LINE_PATTERN.finditer(text)}


def strip_result_lines(text: str) -> str:
    """Return LaTeX source without the lines of results.tex that were copied into it."""
    return _RESULT_LINE_PATTERN.sub("", text)


def to_plain_text(value: str | PrintedValue) -> str:
    """Return a printed value, or its TeX, as it appears in the PDF: `0.21 ± 0.03`, `-0.4`, `[0.1, 0.2]`.

    A general TeX reader is not used, since it would drop the spaces between the numbers of an interval.
    """
    plain = re.sub(r"\\,|~", " ", value if isinstance(value, str) else value.tex)
    plain = re.sub(r"\\([A-Za-z]+)\s*", lambda command: _SYMBOLS.get(command[1], ""), plain)
    plain = re.sub(r"\\([&%#_${}])", r"\1", re.sub(r"(?<!\\)[{}$^]|\\[;:! ]", "", plain))
    return " ".join(plain.split())
