r"""`results.tex` and the macros that print from it. This module alone writes and reads them.

    \result{KEY}             \setup{KEY}              in a paper's text: print a measured value, or a setting
    \verdict{KEY}                                     prints a clause: a comparison with its verdict
    \resultvalue{KEY}{TEX}   \setupvalue{KEY}{TEX}    lines of results.tex: what a key prints; so \verdictvalue

The key of a claim is `split/dataset/metric/condition`, that of a paired difference
`diff/dataset/metric/condition~other`; the form in which it is printed follows a dot (`record.claims.printing`).
`\verdict` takes that of a difference without a form, and `hypothesis/ID`, or either with `.short`
(`record.claims.clauses`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, cast

Macro = Literal["result", "setup", "verdict"]

USE = re.compile(r"\\(?P<macro>result|setup|verdict)\s*\{(?P<key>[^{}]*)\}")
"""A macro that prints a value, for those who need to know where it stands; others call `uses` and `filled`."""
_LINE = re.compile(r"^\\(result|setup|verdict)value\{([^{}]*)\}\{(.*)\}[ \t\r]*$\n?", re.MULTILINE)
_SPECIAL = re.compile(r"[&%#_$~^{}]")
_EXPONENT = re.compile(r"(-?)(\d+(?:\.\d+)?)e([+-])0*(\d+)")
_ESCAPED = {char: f"\\{char}" for char in "&%#_${}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_FORM = re.compile(r"\.(mean|pm|sd|n|low|high|ci|ci_examples|p|p_adjusted|mde|short)$")
_SYMBOLS = {"pm": "±", "times": "×"}


class Use(NamedTuple):
    """A macro that prints a value, and its key."""

    macro: Macro
    key: str

    def __str__(self) -> str:
        return f"\\{self.macro}{{{self.key}}}"


class ClaimKey(NamedTuple):
    """The key of a claim in its parts. `other` is what a difference takes away; empty for a mean."""

    split: str
    dataset: str
    metric: str
    condition: str
    other: str = ""
    form: str = ""

    @classmethod
    def parse(cls, key: str) -> ClaimKey | None:
        """None where the key has another shape, as that of a setting."""
        form = _FORM.search(key)
        parts = key[:form.start() if form else None].split("/")
        if len(parts) != 4:
            return None
        condition, _, other = parts[3].partition("~")
        return cls(parts[0], parts[1], parts[2], condition, other, form[1] if form else "")

    @property
    def key(self) -> str:
        """The whole key."""
        return f"{self.claim}.{self.form}" if self.form else self.claim

    @property
    def claim(self) -> str:
        """The key without its form."""
        return "/".join((self.split, self.dataset, self.metric,
                         f"{self.condition}~{self.other}" if self.other else self.condition))


def without_form(key: str) -> str:
    """The claim that a key prints a form of."""
    return _FORM.sub("", key)


# --- in the text ------------------------------------------------------------------------------------------------------


def uses(text: str) -> Iterator[Use]:
    """Every value that a text prints, in order."""
    return (_use(match) for match in USE.finditer(text))


def filled(text: str, value: Callable[[Use], str]) -> str:
    """The text with each of its values replaced."""
    return USE.sub(lambda match: value(_use(match)), text)


def _use(match: re.Match[str]) -> Use:
    return Use(cast(Macro, match[1]), match[2].strip())


# --- results.tex ------------------------------------------------------------------------------------------------------


def render(values: Mapping[Use, str | None], *, untied: bool = False) -> str:
    """The text of results.tex for the values that a paper uses, as `record.claims` prints them.

    None stands for a key that is not in the record: TeX stops at it, or with `untied` prints that it is untied.
    """
    lines = ["% Written by the program from the record. \\result, \\setup and \\verdict{key} print what stands here."]
    for use, text in sorted(values.items(), key=lambda item: item[0]):
        if text is not None or untied:
            tex = r"\textbf{[untied]}" if text is None else printable(text)
            lines.append(f"\\{use.macro}value{{{use.key}}}{{{tex}}}")
    return "\n".join(lines) + "\n"


def parse(text: str) -> dict[Use, str]:
    """What a results.tex defines: the TeX that each use prints."""
    return {_use(match): match[3] for match in _LINE.finditer(text)}


def without_lines(text: str) -> str:
    """A text into which results.tex was copied, without what came from it."""
    return _LINE.sub("", text)


def escaped(text: str) -> str:
    """Plain text as TeX."""
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], text.replace("\\", " "))


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
        value = re.sub(r"^-(?=[\d.])", "$-$", escaped(value))
    return re.sub(r"\$([^$]*)\$", r"\\ensuremath{\1}", value)


def as_read(tex: str) -> str:
    """The TeX of a printed value as a reader of the PDF sees it: `0.21 ± 0.03`, `-0.4`, `[0.1, 0.2]`.

    By its own rules, since a general reader of TeX drops the spaces that divide the numbers of an interval.
    """
    plain = re.sub(r"\\,|~", " ", tex)
    plain = re.sub(r"\\([A-Za-z]+)\s*", lambda command: _SYMBOLS.get(command[1], ""), plain)
    plain = re.sub(r"\\([&%#_${}])", r"\1", re.sub(r"(?<!\\)[{}$^]|\\[;:! ]", "", plain))
    return " ".join(plain.split())
