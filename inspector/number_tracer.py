"""Trace a printed number to its origins in the record and the paper's sources.

A number is matched as printed: `0.021` matches `-0.021 ± 0.003` but not `0.0214`. Numbers drawn in figures are not
found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from labwright.inspector.paper_text import PaperSources
from labwright.inspector.provenance import NumberTrace, ProvenanceLookup, TraceCandidate
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.claims.formatting import format_claims, format_setups
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.sentences import format_verdict_clauses
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import compute_reference_claims
from labwright.record.result_macros import strip_form, to_plain_text
from labwright.record.run_folder import RunFolder

MAX_NEAREST = 5
FORM_NAMES = {
    "mean": "mean",
    "sd": "standard deviation",
    "low": "lower end of the interval",
    "ci": "interval",
    "high": "upper end of the interval",
    "n": "replicates",
    "pm": "mean and standard deviation",
    "ci_examples": "interval over test examples",
    "p": "p of the paired t test",
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
        self._state, found = state, compute_paper_claims(state)
        self._known = {
            one.key: one for one in (*found, *compute_differences(state, found), *compute_reference_claims(state))
        }
        self._texts = [
            (claim, {key: to_plain_text(text) for key, text in format_claims([claim]).items()})
            for claim in self._known.values()
        ]
        """Claim, and the printed text of each of its keys."""
        self._setups = {key: to_plain_text(value) for key, value in format_setups(state).items()}
        self._decisions = {one.key: one for one in decide_hypotheses(state)}
        paired = [one for one in self._known.values() if isinstance(one, ClaimDifference)]
        self._clauses = {
            key: to_plain_text(text)
            for key, text in format_verdict_clauses(state, [*self._decisions.values()], paired).items()
        }
        self._printed = {key: text for _, texts in self._texts for key, text in texts.items()} | self._setups
        self._printed |= self._clauses
        self._sources = PaperSources(folder, self._printed)
        self._provenance = ProvenanceLookup(state, folder, self._known, run)

    def trace_number(self, number: str) -> NumberTrace:
        """Return all possible origins of a number (from `parse_number`)."""
        found = [
            *self._find_claims(number),
            *self._find_verdicts(number),
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
        """Trace the value bound to a key; None if the record has no such key."""
        text = self._printed.get(key)
        if text is None:
            return None
        if key in self._clauses:
            return NumberTrace(number=text, candidates=(self._trace_verdict(key),))
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
                chosen = next((key for key in forms if key in uses), forms[0])
                form = chosen.rpartition(".")[2]
                yield self._provenance.trace_claim(claim, FORM_NAMES.get(form, form), texts[chosen], places)

    def _find_verdicts(self, number: str) -> Iterator[TraceCandidate]:
        """Yield matching verdicts on hypotheses; numbers in other verdict sentences are forms of a difference."""
        for key in self._decisions:
            if _is_in_text(number, self._clauses[key]):
                yield self._trace_verdict(key)

    def _trace_verdict(self, key: str) -> TraceCandidate:
        text, base, uses = self._clauses[key], strip_form(key), self._sources.uses
        places = (*uses.get(base, ()), *uses.get(f"{base}.short", ()))
        if base in self._decisions:
            return self._provenance.trace_decision(self._decisions[base], text, places)
        return self._provenance.trace_claim(self._known[base], "verdict", text, places)

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
