"""Trace a printed number to its origins in the record and the paper's sources.

A number is matched as printed: `0.021` matches `-0.021 ± 0.003` but not `0.0214`. Numbers drawn in figures are not
found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from labwright.inspector.paper_text import AnswerSources, PaperSources
from labwright.inspector.provenance import NumberTrace, ProvenanceLookup, TraceCandidate, TracedEffect
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.claims.formatting import format_claims, format_decisions, format_setups
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.part_effects import format_report_claims, list_measured_claims, list_report_claims
from labwright.record.claims.question_results import find_question_results
from labwright.record.claims.requested_estimates import compute_requested_estimates, list_requests
from labwright.record.claims.sentences import list_outcome_words
from labwright.record.printed_value import PrintedValue
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import compute_reference_claims
from labwright.record.result_macros import strip_form, to_plain_text
from labwright.record.run_folder import RunFolder

MAX_NEAREST = 5
PRINTED_FILES = ("section.tex", "report.md")
"""The files of an ablation that print numbers."""
FORM_NAMES = {
    "mean": "mean",
    "sd": "standard deviation",
    "low": "lower end of the interval",
    "ci": "interval",
    "high": "upper end of the interval",
    "n": "replicates",
    "pm": "mean and standard deviation",
    "ci_examples": "interval over test examples",
    "p": "p of the t test, corrected for the other parts",
    "relative": "per cent of the baseline",
    "confidence": "confidence of the interval, per cent",
    "percent": "mean in per cent",
    "percent_ci": "interval in per cent",
    "points": "difference in percentage points",
    "points_ci": "interval in percentage points",
}
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w]|\.\d)")


def parse_number(text: str) -> str | None:
    """Convert a number typed by a user to its printed form, without Unicode minus, plus or percent sign. None if it is
    not a number.
    """
    plain = text.strip().replace("\u2212", "-").removeprefix("+").removesuffix("%").strip()
    return plain if _NUMBER.fullmatch(plain) else None


class NumberTracer:
    """Traces numbers in one state of a record. Claims and sources are read once, files with values on each trace.

    Create a new tracer when the state has grown or the paper has been rewritten.
    """

    def __init__(self, state: RunState, folder: RunFolder, *, run: str) -> None:
        """`run` is the run's folder as shown in commands."""
        self._state, plan, results = state, state.search.data_plan, find_question_results(state)
        self._line_starts: dict[str, str] = {}
        """Key -> start of the line of an ablation's report that prints it."""
        settings, sources = format_setups(state), PaperSources
        if state.kind == "ablation":
            claims, printed = list_report_claims(state), format_report_claims(state)
            self._known = {one.key: one for one in (*list_measured_claims(state), *claims)}
            files = PRINTED_FILES
            found = state.ablation.results
            self._line_starts |= {row.key: f"| {row.part} |" for row in (found.results if found is not None else ())}
            for one in claims:
                if not isinstance(one, ClaimDifference):
                    self._line_starts[one.key] = "**Baseline on" if one.key.startswith("fresh/") else "**"
        elif results is not None:
            claims = [*results.claims, *(one.difference for one in results.comparisons)]
            printed, settings = {key: value for key, (value, _) in results.printed.items()}, results.settings
            self._known, files, sources = {one.key: one for one in claims}, PRINTED_FILES[1:], AnswerSources
        else:
            found = compute_paper_claims(state)
            claims = [*found, *compute_differences(state, found), *compute_reference_claims(state)]
            self._known, printed, files = {one.key: one for one in claims}, format_claims(claims, plan), ()
        forms = defaultdict[str, dict[str, str]](dict)
        for key, text in printed.items():
            forms[key.rpartition(".")[0]][key] = to_plain_text(text)
        self._texts = [(claim, forms[key]) for key, claim in {one.key: one for one in claims}.items()]
        """Claim, and the printed text of each of its keys."""
        self._setups = {key: to_plain_text(value) for key, value in settings.items()}
        self._printed = {key: text for _, texts in self._texts for key, text in texts.items()} | self._setups
        self._effects: dict[str, TracedEffect] = {}
        """Effects of hypotheses, and estimates that the paper asked for, by key with form."""
        for one in decide_hypotheses(state):
            what = f"effect of a hypothesis, {', '.join(list_outcome_words(one))}"
            effects = {key: TracedEffect(what, part) for key, part in one.parts_by_key.items()}
            self._add_effects(effects, format_decisions([one], plan))
        for one in compute_requested_estimates(state, list_requests(state))[0]:
            self._add_effects({one.key: TracedEffect("exploratory estimate", one.found)}, one.printed)
        self._sources = sources(folder, self._printed, files)
        self._provenance = ProvenanceLookup(state, folder, self._known, run)

    def _add_effects(self, effects: Mapping[str, TracedEffect], values: Mapping[str, PrintedValue]) -> None:
        self._effects |= {key: effects[strip_form(key)] for key in values}
        self._printed |= {key: to_plain_text(value) for key, value in values.items()}

    def trace_number(self, number: str) -> NumberTrace:
        """Return all possible origins of a number (from `parse_number`)."""
        found = [
            *self._find_claims(number),
            *(self._trace_effect(key) for key in self._effects if _is_in_text(number, self._printed[key])),
            *self._find_settings(number),
            *self._find_values(number),
        ]
        found += self._find_rows(number, found)
        shown = [one for one in found if one.places] or found
        nearest: list[str] = []
        if not shown:  # closest printed numbers with their keys, also compared as percentages
            used = {key: text for key, text in self._printed.items() if key in self._sources.uses} or self._printed
            near = sorted(
                (min(abs(float(token) * scale - float(number)) for scale in (1, 100)), token, key)
                for key, text in used.items()
                for token in _NUMBER.findall(text)
            )
            nearest = [f"{token} ({key})" for _, token, key in near[:MAX_NEAREST]]
        return NumberTrace(number=number, candidates=tuple(shown), nearest=tuple(nearest))

    def trace_key(self, key: str) -> NumberTrace | None:
        """Trace the value bound to a key; None if the record has no such key.

        A key with which an older paper printed a comparison in words stands for its first estimate.
        """
        base = strip_form(key)
        known = (one for one in (key, f"{base}/1.mean", f"{base}.mean") if one in self._printed)
        if (found_key := next(known, None)) is None:
            return None
        key, text = found_key, self._printed[found_key]
        if key in self._effects:
            return NumberTrace(number=text, candidates=(self._trace_effect(key),))
        name, _, form = key.rpartition(".")
        claim, places = self._known.get(name), self._sources.uses.get(key, ())
        found = (
            self._provenance.trace_setting(key, text, places)
            if claim is None
            else self._provenance.trace_claim(claim, FORM_NAMES.get(form, form), text, places)
        )
        return NumberTrace(number=text, candidates=(found,))

    # --- possible origins --------------------------------------------------------------------------------------------

    def _find_claims(self, number: str) -> Iterator[TraceCandidate]:
        uses = self._sources.uses
        for claim, texts in self._texts:
            forms = [key for key, text in texts.items() if _is_in_text(number, text)]
            if forms:
                places = tuple(place for key in forms for place in uses.get(key, ()))
                if (start := self._line_starts.get(claim.key)) is not None:
                    lines = self._sources.find_lines(start, lambda line: _is_in_text(number, line))
                    places = (*places, *lines)
                chosen = next((key for key in forms if key in uses), forms[0])
                form = chosen.rpartition(".")[2]
                yield self._provenance.trace_claim(claim, FORM_NAMES.get(form, form), texts[chosen], places)

    def _trace_effect(self, key: str) -> TraceCandidate:
        whole = strip_form(key).rpartition("/")[0]  # how older papers printed an effect
        uses = self._sources.uses
        places = uses.get(key) or (*uses.get(whole, ()), *uses.get(f"{whole}.short", ()))
        return self._provenance.trace_effect(self._effects[key], strip_form(key), self._printed[key], places)

    def _find_settings(self, number: str) -> Iterator[TraceCandidate]:
        for key, text in self._setups.items():
            is_number = _NUMBER.fullmatch(text) is not None and float(text) == float(number)
            if is_number or _is_in_text(number, text):
                yield self._provenance.trace_setting(key, text, self._sources.uses.get(key, ()))

    def _find_values(self, number: str) -> Iterator[TraceCandidate]:
        """Yield matching single values of the paper's claims, which the appendix lists by seed."""
        for claim in self._known.values():
            if isinstance(claim, ClaimDifference):
                continue
            hits = [
                (node, seed)
                for node, seed, value in zip(claim.nodes, claim.seeds, claim.values, strict=True)
                if f"{value:.4g}" == number
            ]
            begins = f"{claim.dataset} & {claim.name.replace('_', ' ')} & {claim.condition} &"
            rows = tuple(
                self._sources.find_recorded(number, lambda text, begins=begins: text.startswith(begins)) if hits else ()
            )
            for node, seed in hits:
                one = self._provenance.trace_claim(claim, f"value of seed {seed}", number, rows, only=node)
                yield one.model_copy(update={"kind": "value"})

    def _find_rows(self, number: str, found: Sequence[TraceCandidate]) -> Iterator[TraceCandidate]:
        """Yield places with other text printed from the record, i.e. rows of the appendix that no other origin
        explains.
        """
        known = {(place.file, place.line) for one in found for place in one.places}
        for place in self._sources.find_recorded(number, lambda _: True):
            if (place.file, place.line) not in known:
                node = next((name for name in self._state.nodes if re.match(rf"{name}\b", place.text)), "")
                yield TraceCandidate(
                    kind="text",
                    key=node,
                    what="text from the record",
                    printed=number,
                    places=(place,),
                    reproduce_command=self._provenance.format_reproduce_command([node]) if node else "",
                )


def _is_in_text(number: str, text: str) -> bool:
    return any(token in (number, f"-{number}") for token in _NUMBER.findall(text))
