"""Check claims that one method is better than another against the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from labwright.review.external_papers.passages import PaperPassage
from labwright.review.external_papers.printed_numbers import PrintedNumber, extract_numbers
from labwright.review.external_papers.signs.sign import Sign

_BETTER = re.compile(
    r"\b(?:outperform\w*|beats?|surpass\w*|exceeds?|improves? (?:on|over|upon)|is better than|better than|superior to|"
    r"(?:clear|consistent|significant|substantial|large|steady)[\w ,]{0,30} (?:gain|improvement|advantage)s? over|"
    r"gains? over|improvements? over|advantage over|more accurate than|higher [\w -]{2,30} than)\b",
    re.I,
)
_DENIED = re.compile(
    r"\bnot\b|n't\b|\bno\b|fail|neither|nor\b|worse|hypothes|whether|expect|would|could|unless|rather than|"
    r"only (?:on|in|for|at)|"
    r"\bsome\b|sometimes|prior|previous|\bmay\b|might|aim|question|if\b|mixed|except|but\b|although|while",
    re.I,
)
_HIGHER = re.compile(
    r"acc|f1|auc|precision|recall|r2|r\u00b2|score|bleu|rouge|ndcg|mrr|return|reward|success|ari\b|nmi|map\b|coverage",
    re.I,
)
_LOWER = re.compile(r"loss|error|rmse|mse|mae|regret|perplex|ece|brier|nll|fid|wer|time|steps", re.I)
_NO_SCORE = re.compile(
    r"vs\b|diff|delta|gain|\u0394|std|sd\b|train|seed|n\b|size|param|units|ci\b|p\b|chang|drop|relative", re.I
)


def of_directions(passages: Sequence[PaperPassage]) -> Iterator[Sign]:
    """Find claims that one table row is better than another although every score says the opposite."""
    tables = [_rows(passage) for passage in passages if passage.cells]
    for passage in passages:
        if passage.role not in ("abstract", "results") or not re.search(
            r"abstract|conclu|discuss|summary", (passage.section or "abstract"), re.I
        ):
            continue
        for sentence in re.split(r"(?<=[.!?;])\s+", passage.text):
            match = _BETTER.search(sentence)
            if match is None or _DENIED.search(sentence):
                continue
            before, after = sentence[: match.start()], sentence[match.end() :]
            for table in tables:
                better, worse = _named(before, table), _named(after, table)
                if better and worse and better != worse and _opposite(table[better], table[worse]):
                    yield Sign(
                        "direction",
                        f"in the table {better} is worse than {worse}, in every score",
                        passage.section or "abstract",
                        " ".join(sentence.split())[:200],
                        0.7,
                    )
                    return


def _rows(passage: PaperPassage) -> Mapping[str, Mapping[str, PrintedNumber]]:
    """Return the scores of a table by row and column."""
    rows: dict[str, dict[str, PrintedNumber]] = {}
    for cell in passage.cells:
        numbers = extract_numbers(cell.text, "cell")
        if numbers and cell.row_label and not _NO_SCORE.search(cell.column_label):
            rows.setdefault(cell.row_label, {})[cell.column_label] = numbers[0]
    return rows


def _named(text: str, rows: Mapping[str, object]) -> str:
    """Return the row named in part of a sentence; "" if there is none or more than one."""
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
    found = [label for label in rows if (own := set(re.findall(r"[a-z0-9]+", label.lower()))) and own <= words]
    longest = [
        label for label in found if not any(label != other and label.lower() in other.lower() for other in found)
    ]
    return longest[0] if len(longest) == 1 else ""


def _opposite(better: Mapping[str, PrintedNumber], worse: Mapping[str, PrintedNumber]) -> bool:
    """Return whether all common scores with a known direction say the opposite."""
    said: list[bool] = []
    for column in better.keys() & worse.keys():
        higher, lower = bool(_HIGHER.search(column)), bool(_LOWER.search(column))
        if higher != lower:
            gain = (better[column].value - worse[column].value) * (1 if higher else -1)
            said.append(gain < -(better[column].rounding_slack + worse[column].rounding_slack))
    return bool(said) and all(said)
