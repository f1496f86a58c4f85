"""Find numbers of a table that are in no result file or typed in code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from labwright.review.external_papers.number_matching import find_matches, is_rounding_of
from labwright.review.external_papers.passages import PaperTableCell
from labwright.review.external_papers.provenance import PaperProvenance
from labwright.review.external_papers.result_files import ValueSeries
from labwright.review.external_papers.signs.aligned import sources
from labwright.review.external_papers.signs.evidence import ClaimEvidence, plain
from labwright.review.external_papers.signs.sign import CIRCUMSTANTIAL, CONCLUSIVE, NOTE, Sign
from labwright.review.external_papers.verdicts import NumberVerdict

_DERIVED = re.compile(
    r"\bvs\b|versus|chang|relative|gain|drop|improv|reduc|differ|diff\b|delta|\u0394|gap|ratio|mean|average|total|sum|"
    r"%|share|per\b|normali|times|over\b|\u00b1|\bsd\b|\bse\b|std|rank|skill|time|seconds",
    re.I,
)
_CITED = re.compile(r"source|cite|citation|published|reported|reference|year|paper|et al|\(\d{4}\)|\[\d+\]", re.I)
SCORES = re.compile(r"acc|error|score|f1|auc|loss|mae|mse|rmse|precision|recall|bleu|reward|r2", re.I)
SETUP = re.compile(
    r"rate\b|\blr\b|weight|size|threshold|temperature|param|epoch|batch|layer|dim|seed|budget|setting", re.I
)
CITES = re.compile(
    r"publish|as reported|reported (?:by|in)|taken from|from the literature|quoted|cited from|"
    r"as given|numbers (?:of|from) (?:the )?(?:original|other)|copied from|et al\.",
    re.I,
)
SETTINGS = re.compile(
    r"^\W*(?:setting|parameter|hyper|option|quantity|item|property|key|symbol|name)s?\b[^|]*\|\W*"
    r"(?:value|setting|meaning|default|number)",
    re.I,
)


def of_numbers(
    verdicts: Sequence[NumberVerdict],
    found: PaperProvenance,
    evidence: ClaimEvidence,
    sentences: Sequence[str],
    series: Sequence[ValueSeries],
) -> Iterator[Sign]:
    """Yield all signs of this kind; `sentences` are the sentences of the paper."""
    cites = [one.lower() for one in sentences if CITES.search(one)]
    tables: dict[int, list[NumberVerdict]] = defaultdict(list)
    for one in verdicts:
        if one.claim.cell is not None and not SETTINGS.search(one.claim.passage.text) and not is_cited(one):
            tables[one.claim.passage.table].append(one)
    yield from _of_text(verdicts, series)
    for number, inside in tables.items():
        fine = [one for one in inside if one.claim.number.digits >= 3]
        missing = [one for one in fine if one.kind == "unsupported"]
        if missing:
            shown = "; ".join(f"{one.claim.number.text} ({one.claim.where.partition(', ')[2]})" for one in missing[:4])
            yield Sign(
                "numbers of the table",
                f"{len(missing)} of {len(fine)} numbers are in no result file",
                f"table {number}",
                shown,
                NOTE,
            )
        yield from _absent(number, fine, evidence, cites)
        yield from _typed(number, inside, found, cites)


def _of_text(verdicts: Sequence[NumberVerdict], series: Sequence[ValueSeries]) -> Iterator[Sign]:
    """Find sentences about scores in which half of the numbers are in no result file."""
    prose = [
        one
        for one in verdicts
        if one.claim.cell is None
        and one.claim.number.digits >= 3
        and not one.claim.number.sign
        and one.kind != "ambiguous"
        and (one.claim.number.percent or SCORES.search(one.claim.context))
    ]
    over_files = np.array([fmean(one.values) for one in sources(series) if len(one.values) > 1])
    missing = [
        one
        for one in prose
        if one.kind == "unsupported" and not (len(over_files) and find_matches(over_files, one.claim.number))
    ]
    if missing:
        yield Sign(
            "numbers of the text",
            f"{len(missing)} of {len(prose)} numbers of the text are in no result file",
            missing[0].claim.where,
            missing[0].claim.context[:160],
            CIRCUMSTANTIAL if len(missing) >= 3 and 2 * len(missing) >= len(prose) else NOTE,
        )


def is_cited(one: NumberVerdict) -> bool:
    """Return whether the row of a number cites another source."""
    cell = one.claim.cell
    row = " ".join(other.text for other in one.claim.passage.cells if cell and other.row == cell.row)
    return _CITED.search(f"{cell.row_label if cell else ''} {row}") is not None and "this paper" not in row


def _absent(
    number: int, inside: Sequence[NumberVerdict], evidence: ClaimEvidence, cites: Sequence[str]
) -> Iterator[Sign]:
    """Find a row or column without any number in the results, while nearly all other rows or columns have theirs."""
    for kind in ("row", "column"):
        lines: dict[str, list[NumberVerdict]] = defaultdict(list)
        for one in inside:
            if cell := one.claim.cell:
                texts = [
                    other.text
                    for other in one.claim.passage.cells
                    if other.row == cell.row and not re.search(r"\d", other.text)
                ]
                lines[cell.column_label if kind == "column" else " ".join([cell.row_label, *texts])].append(one)
        for label, own in lines.items():
            given = [one.kind in ("found", "derivable") for one in own]
            others = [
                one.kind in ("found", "derivable") for name, them in lines.items() if name != label for one in them
            ]
            words = re.findall(r"[a-z]{3,}", label.lower())
            unknown = kind == "row" or (words and not any(word in evidence.all for word in words))
            is_cited = any(word in one for word in words for one in cites)
            absent = sum(given) <= (0.35 if len(own) >= 4 else 0) * len(own)
            if (
                unknown
                and absent
                and len(own) >= 2
                and len(others) >= 4
                and sum(others) >= 0.8 * len(others)
                and not _DERIVED.search(label)
                and sum(one.kind == "unsupported" for one in own) >= max(2, len(own) / 2)
            ):
                what = (
                    f"for {label}, {sum(given)} of {len(given)} numbers are in the results; for the other {kind}s, "
                    f"{sum(others)} of {len(others)}"
                )
                yield Sign(
                    "numbers of the table",
                    what,
                    f"table {number}, {label}",
                    own[0].claim.number.text,
                    CIRCUMSTANTIAL if is_cited else CONCLUSIVE,
                )


def _typed(
    number: int, inside: Sequence[NumberVerdict], found: PaperProvenance, cites: Sequence[str]
) -> Iterator[Sign]:
    """Find table numbers typed in one statement of the code, if they are precise or have the names of their rows."""
    for script in found.scripts:
        for one in ast.walk(script.tree) if script.tree is not None and not script.is_test else ():
            if not isinstance(one, ast.Assign | ast.AugAssign | ast.Expr):
                continue
            text, lines = ast.unparse(one), script.text.splitlines()
            around = "\n".join(lines[max(0, one.lineno - 4) : one.lineno])
            if cites and _CITED.search(f"{around} {text}") and "this paper" not in inside[0].claim.passage.text:
                continue
            typed = {value: plain(name) for name, value in _numbers(one.value)}
            hits = {
                value
                for value, name in typed.items()
                for verdict in inside
                if (cell := verdict.claim.cell)
                and is_rounding_of(verdict.claim.number, value)
                and (
                    (verdict.claim.number.digits >= 4 and len(f"{value!r}") >= 5)
                    or (len(name) > 2 and _is_score(cell, verdict) and name in plain(cell.row_label))
                )
            }
            if len(hits) >= 2 and len(hits) >= len(typed) / 2:
                yield Sign(
                    "typed score",
                    f"{len(hits)} numbers of table {number} are typed here",
                    f"{script.path}:{one.lineno}",
                    lines[one.lineno - 1].strip()[:160],
                    CONCLUSIVE if found.may_have_run(script.path) else CIRCUMSTANTIAL,
                )
                return


def _is_score(cell: PaperTableCell, verdict: NumberVerdict) -> bool:
    """Return whether a cell is a score according to its column, not a change or a setting."""
    label = cell.column_label
    return (
        not verdict.claim.number.sign
        and SCORES.search(label) is not None
        and not (SETUP.search(label) or _DERIVED.search(label.replace("%", "")))
    )


def _numbers(node: ast.expr) -> Iterator[tuple[str, float]]:
    """Yield the typed decimals of an expression, with their keys."""
    named = {
        id(value): str(key.value)
        for one in ast.walk(node)
        if isinstance(one, ast.Dict)
        for key, value in zip(one.keys, one.values, strict=True)
        if isinstance(key, ast.Constant)
    }
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, float) and one.value not in (0.0, 1.0):
            yield named.get(id(one), ""), one.value
