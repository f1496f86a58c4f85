"""Text as it is compared: without TeX, marks, case and punctuation."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from html import unescape
from typing import Any

_SPELT = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i", "þ": "th", "ð": "d",
                        "β": "beta", "α": "alpha", "γ": "gamma", "λ": "lambda", "π": "pi", "σ": "sigma", "ε": "epsilon",
                        "ϵ": "epsilon", "μ": "mu", "µ": "mu", "τ": "tau", "ω": "omega", "δ": "delta", "θ": "theta"})


@cache
def _converter() -> Any:
    from pylatexenc.latex2text import LatexNodes2Text  # type: ignore[import-untyped]

    return LatexNodes2Text(math_mode="text")


def plain(value: str) -> str:
    """A field without TeX: accents as characters, no braces, no commands, one space between words."""
    escaped = re.sub(r"(?<!\\)%", r"\\%", value)  # a field has no comments, and a catalogue's title no TeX
    text = str(_converter().latex_to_text(escaped)) if set(value) & set("\\{}$~") else value
    return " ".join(unicodedata.normalize("NFC", text.replace("---", "\u2014").replace("--", "\u2013")).split())


def folded(value: str) -> str:
    """Lower case, without marks on letters; every other sign becomes a space."""
    decomposed = unicodedata.normalize("NFKD", plain(value).casefold()).translate(_SPELT)
    kept = "".join(one for one in decomposed if not unicodedata.combining(one) and one not in "'\u2019")
    return " ".join("".join(one if one.isalnum() else " " for one in kept).split())


def abstract_of(markup: str) -> str:
    """The text of an abstract in JATS or HTML, without tags and its own heading."""
    text = unescape(re.sub(r"</?[A-Za-z][^<>]{0,200}>", " ", markup))
    return re.sub(r"^(?:abstract|summary)\b[\s:.]*", "", " ".join(text.split()), flags=re.IGNORECASE)
