"""Collect all signs of a paper, from code, logs, result files, tables and claims."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from labwright.review.external_papers.passages import PaperPassage
from labwright.review.external_papers.provenance import PaperProvenance
from labwright.review.external_papers.result_files import ResultFolder, ValueSeries
from labwright.review.external_papers.signs.aligned import of_alignment
from labwright.review.external_papers.signs.altered import altered
from labwright.review.external_papers.signs.counts import of_counts
from labwright.review.external_papers.signs.direction import of_directions
from labwright.review.external_papers.signs.evidence import ClaimEvidence
from labwright.review.external_papers.signs.handed import of_evaluations
from labwright.review.external_papers.signs.in_claims import of_claims, sentences_of
from labwright.review.external_papers.signs.in_files import of_files, of_names
from labwright.review.external_papers.signs.in_logs import of_logs
from labwright.review.external_papers.signs.in_numbers import of_numbers
from labwright.review.external_papers.signs.in_records import of_records
from labwright.review.external_papers.signs.in_repeats import of_repeats
from labwright.review.external_papers.signs.in_tables import of_tables
from labwright.review.external_papers.signs.made_up import made_up
from labwright.review.external_papers.signs.settings import of_settings
from labwright.review.external_papers.signs.sign import Sign
from labwright.review.external_papers.signs.words import of_words
from labwright.review.external_papers.verdicts import NumberVerdict

NOT_SEEN = 0.4
"""Weight factor of a sign in a script without evidence that it ran."""
_CITES = re.compile(
    r"publish|as reported|reported (?:by|in)|taken from|from the literature|quoted from|cited from|"
    r"as given|numbers (?:of|from) (?:the )?(?:original|other)|copied from",
    re.I,
)
_SIZES = re.compile(
    r"\b(?:n_?test|n_?eval|test[_ ]?(?:size|set|samples|split|n)?|held-?out(?: set| part)?)\s*(?:size|of|"
    r"with|has|contains|"
    r"comprises|:|=|\()\s*(?:n\s*=\s*|size\s*[:=]?\s*)?(\d{2,4})(?![\d.%:/,])|"
    r"(?<![\d.,/-])(\d{2,4})\s+(?:held-?out\s+)?(?:test|held-?out|"
    r"evaluation)\s+(?:examples|samples|instances|images|questions|items|documents|sentences|cases|points|prompts|"
    r"rows|patients|"
    r"problems|queries|reviews|observations)",
    re.I,
)


def signs_of(
    found: PaperProvenance,
    *,
    paper: str,
    passages: Sequence[PaperPassage],
    read: ResultFolder,
    groups: Sequence[ValueSeries],
    reports: Mapping[str, str],
    verdicts: Sequence[NumberVerdict],
) -> tuple[Sign, ...]:
    """Return every sign once, in order of decreasing weight."""
    evidence = ClaimEvidence(found, _values(read, reports))
    sizes = _sizes(f"{paper}\n{evidence.logs}")
    signs = [
        *(
            _weighed(one, found)
            for one in (*made_up(found.scripts), *altered(found.scripts), *of_evaluations(found.scripts))
        ),
        *of_settings(found, said=paper),
        *of_words(found, reports, said=paper),
        *of_logs(found, said=paper),
        *of_files(read.series, evidence.logs, said=paper),
        *of_names(read.series, evidence),
        *of_records(read.series, _numbers(f"{paper}\n{evidence.code}")),
        *of_tables(passages, sizes, (evidence.seeds,) if evidence.seeds > 1 else ()),
        *of_counts(sentences_of(paper), passages, read.series, evidence),
        *of_claims(sentences_of(paper), evidence),
        *of_numbers(verdicts, found, evidence, sentences_of(paper), read.series),
        *of_alignment(verdicts, read.series),
        *of_directions(passages),
        *of_repeats(read.series, groups, passages),
    ]
    signs = [
        replace(one, weight=0.6) if one.kind == "published score" and not _CITES.search(paper) else one for one in signs
    ]
    once: dict[tuple[str, str], Sign] = {}
    for one in sorted(signs, key=lambda sign: -sign.weight):
        place = (
            one.where if re.search(r":\d+$", one.where) else f"{one.kind} {one.where}"
        )  # keep the heaviest sign per line
        once.setdefault((place, ""), one)
    return tuple(once.values())


def _weighed(sign: Sign, found: PaperProvenance) -> Sign:
    path = sign.where.rpartition(":")[0]
    return sign if found.may_have_run(path) else replace(sign, weight=min(sign.weight, NOT_SEEN))


def _values(read: ResultFolder, reports: Mapping[str, str]) -> str:
    """Return names and values of the results as text."""
    return "\n".join(
        (
            *(line for one in read.series for line in _lines(one.file, one.key, one.values)),
            *read.files,
            *reports.values(),
        )
    )


def _lines(file: str, key: str, values: Sequence[float]) -> Iterator[str]:
    yield f"{file} {key} " + " ".join(f"{value:g}" for value in values[:200])


def _sizes(text: str) -> tuple[int, ...]:
    found = {int(next(filter(None, groups))) for groups in _SIZES.findall(text)}
    return tuple(sorted(size for size in found if 5 <= size <= 2_000))


def _numbers(text: str) -> frozenset[int]:
    """Return whole numbers that may be the size of a test set."""
    return frozenset(int(one) for one in re.findall(r"(?<![\w.])\d{1,4}(?![\w.])", text) if 5 <= int(one) <= 5_000)
