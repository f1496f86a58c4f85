"""Find text that describes results as made up: names, strings in code, and reports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from labwright.review.external_papers.provenance import PaperProvenance
from labwright.review.external_papers.scripts import AuditedScript
from labwright.review.external_papers.signs.sign import Sign

_MADE = r"(?:mock|fake|dummy|placeholder|fabricat\w*|hard-?coded|made[ _-]?up|invented|pretend|sham)"
_SHOWN = (
    r"(?:results?|metrics?|scores?|accurac\w+|performances?|logs?|numbers|curves?|measurements?|evaluations?|histor\w+)"
)
_NAMED = re.compile(rf"(?:{_MADE}|simulated?|synthetic|example|sample|illustrative)_(?:\w*_)?{_SHOWN}(?![a-z])", re.I)
_SAID = re.compile(
    rf"\b{_MADE}\s+(?:\w+\s+){{0,2}}{_SHOWN}\b|\b(?:simulated|synthetic|illustrative|hypothetical|example|expected|"
    rf"realistic|plausible)\s+(?:experimental\s+|final\s+|evaluation\s+)?(?:results|metrics|scores|training logs?|"
    rf"performance numbers)\b|\b(?:generate|create|produce|simulate)\s+(?:realistic|plausible|synthetic|example)\s+"
    rf"(?:\w+\s+)?{_SHOWN}\b|(?:todo|fixme|tbd)\b[^\n]{{0,50}}\b(?:replace|real|actual|fill)\b",
    re.I,
)
_NOT_SO = re.compile(
    r"\bno\b|\bnot\b|never|without|instead of|avoid|unlike|synthetic (?:data|control|dataset)|"
    r"dummy ?classifier|d_loss_fake|"
    r"fake_loss|loss_fake|fake images?|example (?:usage|of)|\bmock\.|unittest|expected (?:calibration|"
    r"improvement|value|loss|"
    r"reward|regret|score function)|sample_(?:weight|scores?_mean)",
    re.I,
)


def of_words(found: PaperProvenance, reports: Mapping[str, str], *, said: str) -> Iterator[Sign]:
    """Yield signs in code and reports; simulations that the paper's text `said` declares are not signs."""
    simulation = re.search(r"simulat|synthetic", said[:8000], re.I) is not None
    for script in found.scripts:
        if not script.is_test:
            yield from _of_script(script, simulation=simulation, ran=found.may_have_run(script.path))
    for name, text in reports.items():
        for number, line in enumerate(text.splitlines(), 1):
            match = _SAID.search(line)
            if (
                match
                and not _NOT_SO.search(line)
                and not (simulation and re.match(r"simulat|synthetic", match[0], re.I))
            ):
                yield Sign("words", "a report calls its results made up", f"{name}:{number}", line.strip()[:160], 0.7)


def _of_script(script: AuditedScript, *, simulation: bool, ran: bool) -> Iterator[Sign]:
    stem = script.path.rpartition("/")[2].partition(".")[0]
    if _NAMED.search(stem) and not (simulation and re.search(r"simul|synth|sample|example", stem, re.I)):
        yield Sign("words", "a script is named this way", f"{script.path}:1", stem, 0.75 if ran else 0.3)
    seen = 0
    for number, line in enumerate(script.text.splitlines(), 1):
        match = _NAMED.search(line) or _SAID.search(line)
        if match is None or _NOT_SO.search(line) or seen >= 5:
            continue
        mild = re.match(
            r"simulat|synthetic|sample|example|expected|illustr|realistic|plausible|hypothet", match[0], re.I
        )
        seen += 1
        weight = 0.35 if not ran or (mild and simulation) else 0.5 if mild else 0.7
        yield Sign("words", "code calls results made up", f"{script.path}:{number}", line.strip()[:160], weight)
