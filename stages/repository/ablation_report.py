"""Write the report of a repository's reproduction and ablation.

The files are `ablations.json` for programs, `report.md` for readers, and `section.tex` for a paper. Every result in the
report and the section is a claim of the record in its printed form (`record.claims.part_effects`); the section prints
it by `\\result{KEY}`, defined in `results.tex`, with the macros of the LaTeX templates (`record.result_macros`).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from jinja2 import Environment, FileSystemLoader

from labwright.record.claims.estimates import (
    MIN_REPLICATES,
    SIGNIFICANCE_LEVEL,
    adjust_p_values,
    compute_detectable_effect,
)
from labwright.record.claims.part_effects import (
    PartEffect,
    compute_baseline_claim,
    format_report_claims,
    format_report_texts,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import ResultMacroUse, escape_tex, render_results
from labwright.record.schema.nodes import Node
from labwright.record.schema.repository import (
    MetricDirection,
    MutationOutcome,
    PartClassification,
    PartResult,
    UnrankedOutcome,
    format_command_line,
)
from labwright.stages.paper.latex import build_tex_environment

# What is particular to ablations: gates of mutations, the floor, joint effects, and the verdicts of the report. An
# effect is positive if the part helps, for either direction of the metric. A failed run gives no pair; it is never
# counted as zero. Intervals and tests are those of `record.claims`. Source: AblateCell for the importance metrics;
# `docs/repositories.md` lists the others.

CRITICAL_SHARE = 0.05
"""Minimum share of the baseline for a critical effect, as published."""
FLOOR_SHARE = 0.9
"""Share of the loss that results from zeroing the whole model. An ablation that loses this share has broken the model,
regardless of the component's value.
"""
WHOLE_TRAINING = "the whole training"
"""Name of what the run without optimizer steps removes."""
NO_OPTIMIZER = "the run made no optimizer step that could be skipped"
"""Reason why the run without optimizer steps gives no floor if it removes nothing."""
MIN_TWIN_ERRORS = 3.0
"""Minimum standard errors between a joint effect and the sum of the single effects."""

UNRANKED_GATES: tuple[UnrankedOutcome, ...] = get_args(UnrankedOutcome)
"""Outcomes that are reported but do not measure importance."""

MAX_STEPS_OF_UNIT = 10**6
"""A metric whose steps are not smaller than this part of 1 counts as coarse."""


def compute_effect(direction: MetricDirection, baseline: float | None, ablated: float | None) -> float | None:
    """Return the effect of a pair of runs, without floating-point noise: .80 - .60 equals .82 - .62, so rounding does
    not look like spread between seeds. None if one of them has no value."""
    if baseline is None or ablated is None:
        return None
    size = max(abs(baseline), abs(ablated))
    effect = baseline - ablated if direction == "max" else ablated - baseline
    return round(effect, 12 - math.ceil(math.log10(size))) if size else 0.0


def reaches_share(effect: float, baseline_mean: float, share: float = CRITICAL_SHARE) -> bool:
    """Return whether the size of an effect reaches a share of the baseline."""
    threshold = share * abs(baseline_mean)
    return abs(effect) >= threshold or math.isclose(abs(effect), threshold, rel_tol=1e-9)


def exceeds_sum(singles: Iterable[float], joint: float, *, sigma: float) -> bool:
    """Return whether the effect of components that were ablated together exceeds the sum of their single effects beyond
    chance. `sigma`: standard deviation of one effect.
    """
    least = max(MIN_TWIN_ERRORS * sigma, 1e-9 * abs(joint))  # without noise, sums still have floating-point errors
    return joint > least and joint - sum(singles) > least


def is_at_floor(effect: float, gap: float) -> bool:
    """Return whether an effect is so large that the model may no longer work; `gap` is the effect of removing all of
    it, 0 if that is not known."""
    return gap > 0 and effect >= FLOOR_SHARE * gap


def classify_patch_run(
    baseline: float, ablated: float, *, reached: bool | None, repeatable: bool = True
) -> MutationOutcome:
    """Classify a patched run against an unpatched run of the same seed: whether the patch ran, and whether any digit
    changed.

    `reached`: whether changed lines ran, None if unknown; `repeatable`: whether the unpatched program gives the same
    digits twice; otherwise, different digits mean nothing.
    """
    if reached is False and (baseline == ablated or not repeatable):
        return "not reached"
    return "no effect" if baseline == ablated else "moved"


def is_coarse_metric(arms: Iterable[Sequence[float]]) -> bool:
    """Return whether a metric takes few values, so that an equal value at one seed may be chance; given are the values
    of each arm by seed.

    It does if two seeds of an arm gave the same value, or if every value is a multiple of one part in
    `MAX_STEPS_OF_UNIT` or less: a share of few examples, or a number printed with few digits.
    """
    found = [list(values) for values in arms]
    values = [value for values in found for value in values]
    is_stepped = all(
        abs(float(Fraction(value).limit_denominator(MAX_STEPS_OF_UNIT)) - value) <= 4 * math.ulp(value)
        for value in values
    )
    return is_stepped or any(len(set(values)) < len(values) for values in found)


class MeasuredPart(NamedTuple):
    """A part, or a set of parts that were ablated together, with its effect; without one, no mutation worked."""

    part: str
    mutation: str = ""
    location: str = ""
    gate: MutationOutcome = "moved"
    node: str = ""
    effect: PartEffect | None = None
    flag: str = ""
    is_exact: bool = False
    """Whether the command does not vary, so that one run is enough."""

    @property
    def n(self) -> int:
        """Number of pairs of runs."""
        return len(self.effect.effect.values) if self.effect is not None else 0

    @property
    def is_confirmed(self) -> bool:
        """Whether its effect is exact, or over fresh seeds, enough of them for a verdict."""
        return self.effect is not None and (self.is_exact or (self.effect.is_fresh and self.n >= MIN_REPLICATES))


def build_results(measured: Sequence[MeasuredPart], *, is_coarse: bool) -> tuple[PartResult, ...]:
    """Build the rows of the report in the given order; p is Holm-corrected over all tested parts.

    A part with too few fresh seeds, or with equal effects at all of them, is not tested. `is_coarse`: whether equal
    values at one seed may be chance.
    """
    tested = {
        one.part: one.effect.p
        for one in measured
        if one.effect is not None and one.effect.p is not None and one.is_confirmed and one.gate not in UNRANKED_GATES
    }
    corrected = dict(zip(tested, adjust_p_values([*tested.values()]), strict=True))
    return tuple(_build_row(one, corrected.get(one.part), max(1, len(tested)), is_coarse) for one in measured)


def _build_row(one: MeasuredPart, p: float | None, compared: int, is_coarse: bool) -> PartResult:
    row = PartResult(
        part=one.part,
        node=one.node,
        mutation=one.mutation,
        where=one.location,
        n=one.n,
        fresh=one.is_confirmed,
        mean=None,
        called=decide_verdict(one, p, is_coarse=is_coarse),
        flag=one.flag or ("at the floor" if one.gate == "at the floor" else ""),
    )
    if one.effect is None:
        return row
    found = one.effect.effect
    row = row.model_copy(update={"key": found.key, "mean": found.mean, "relative": one.effect.relative})
    if not one.is_confirmed:
        return row
    flags, detectable = [row.flag], None
    if one.is_exact:
        flags.append("exact: the command does not vary")
    elif not row.flag and found.sd is None and found.mean:
        flags.append("the same at every seed, so it cannot be tested")
    if one.effect.log_ratio is not None:
        flags.append("tested as a ratio, since the baseline spans orders of magnitude")
    elif found.sd is not None:
        detectable = compute_detectable_effect(one.n, found.sd, compared)
    update = {"low": found.low, "high": found.high, "p": p, "detectable": detectable}
    return row.model_copy(update={**update, "flag": "; ".join(filter(None, flags))})


def decide_verdict(one: MeasuredPart, p: float | None, *, is_coarse: bool) -> PartClassification:
    """Return the verdict on a part; `p` is corrected. With fewer than `MIN_REPLICATES` fresh pairs there is none.

    No effect: no digit changed at any of the fresh seeds. One seed shows it only if the metric is not coarse.
    An exact effect needs no test.
    Negligible: the interval is within plus and minus the baseline's standard deviation between seeds.
    """
    if one.gate == "not reached" or one.gate in UNRANKED_GATES:
        return one.gate
    if one.effect is None:
        return "not measured"
    found = one.effect.effect
    if not any(found.values) and (one.is_confirmed or (one.gate == "no effect" and not is_coarse)):
        return "no effect"
    if not one.is_confirmed or (p is None and not one.is_exact):
        return "unknown"
    if p is not None and p > SIGNIFICANCE_LEVEL:
        return "no measurable difference"
    size, unit = (found.mean, one.effect.baseline.mean) if one.effect.log_ratio is None else (one.effect.log_ratio, 1.0)
    is_critical, noise = reaches_share(size, unit), one.effect.baseline.sd or 0.0
    if not is_critical and found.low is not None and found.high is not None and max(-found.low, found.high) < noise:
        return "negligible"
    if size < 0:
        return "harmful"
    return "critical" if is_critical else "helps"


JSON_FILE, REPORT_FILE, SECTION_FILE, RESULTS_FILE = "ablations.json", "report.md", "section.tex", "results.tex"


@cache
def load_templates() -> Environment:
    """Return the templates of this folder; variables are `<< name >>`, statements `<% if name %>`."""
    found = build_tex_environment(FileSystemLoader(Path(__file__).parent))
    found.filters["tex"] = escape_tex
    return found


def build_report_files(state: RunState) -> dict[str, str]:
    """Return the content of every file by name."""
    code, ablation, found = state.repository, state.ablation, state.repository.command
    assert code.imported is not None
    given, ran = found and found.command, code.repaired_command
    words = (*(f"{name}={value}" for name, value in sorted(ran.env.items())), *ran.argv) if ran is not None else ()
    values = {
        "name": Path(code.imported.repository).name,
        "code": code,
        "ablation": ablation,
        "command": found,
        "command_line": format_command_line(words),
        "replaced": format_command_line(given.argv) if given and ran and ran.argv != given.argv else "",
        "is_metric_given": bool(state.read_setting("code.metric")),
        "is_seeded": ran is not None and ran.seeded,
        "is_exact": code.baseline is not None and code.baseline.is_exact,
        "is_scored": found is not None and bool(found.command.predictions),
        "baseline": compute_baseline_claim(state),
        "fresh_baseline": compute_baseline_claim(state, fresh=True),
        "floor": ablation.tried_mutations.get((WHOLE_TRAINING, 0)),
        "texts": format_report_texts(state),
        "limit_reason": state.limit_reason,
    }
    files = {JSON_FILE: json.dumps(to_json(state), indent=1) + "\n"}
    files[REPORT_FILE] = load_templates().get_template("ablation_report.md.jinja").render(values)
    if ablation.results is not None:
        uses = {ResultMacroUse("result", key): value for key, value in format_report_claims(state).items()}
        files[RESULTS_FILE] = render_results(uses)
        files[SECTION_FILE] = load_templates().get_template("ablation_section.tex.jinja").render(values)
    return files


def to_json(state: RunState) -> dict[str, Any]:
    """Return all facts about a study as JSON."""
    code, ablation = state.repository, state.ablation

    def dump(value: Any) -> Any:
        return None if value is None else value.model_dump(mode="json", exclude={"type", "format"})

    gates = defaultdict[str, list[dict[str, Any]]](list)
    for (part, way), one in ablation.tried_mutations.items():
        gates[part].append({"way": way, "gate": one.gate, "why": one.why})
    return {
        "code": dump(code.imported),
        "environment": dump(code.environment),
        "command": dump(code.command),
        "repairs": [dump(code.repair)] if code.repair is not None else [],
        "baseline": dump(code.baseline),
        "parts": [
            part.model_dump(mode="json") | {"ways": [way.what for way in part.ways], "tried": gates[part.name]}
            for part in (ablation.parts.parts if ablation.parts is not None else ())
        ],
        "not_examined": [
            one.model_dump(mode="json") for one in (ablation.parts.rest if ablation.parts is not None else ())
        ],
        "ablations": dump(ablation.results),
        "runs": [_run_to_json(state, one) for one in state.nodes.values() if one.is_finished],
    }


def _run_to_json(state: RunState, node: Node) -> dict[str, Any]:
    command, runs = state.repository.repaired_command, state.cells.list_node_runs(node.id)
    name = command.metric_name if command is not None else ""
    return {
        "id": runs[-1].id if runs else "",
        "node": node.id,
        "stage": node.stage,
        "kind": node.kind,
        "title": node.title,
        "parts": [] if node.varies == node.title else node.varies.split("+"),
        "seed": node.seed,
        "value": next((one.value for one in node.measurements if one.name == name), None),
        "seconds": round(sum(one.seconds for one in runs), 2),
        "failure": node.failure.message if node.failure is not None else None,
    }
