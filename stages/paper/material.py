"""What a paper is made from: the record as the writer sees it, and as the sources are made from it.

A `Material` is made once for each version of the text; what it works out (claims, tables, evidence) is passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

from labwright.literature.library import Entry
from labwright.models.roles.writing import ClaimLine, Comparison, Decided, WriteInputs
from labwright.record.claims.clauses import clauses
from labwright.record.claims.decisions import decisions
from labwright.record.claims.differences import Difference, differences
from labwright.record.claims.means import MINIMUM_REPLICATES, Claim, ablation_conditions, paper_claims, winner
from labwright.record.claims.printing import printed, setups
from labwright.record.estimands import conditions_read
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, read_source
from labwright.record.ladder import RUNGS, reference_claims
from labwright.record.nouns.data import DataPlan, arm_of, level_of
from labwright.record.nouns.figures import FinalFigure
from labwright.record.nouns.hypotheses import Decision
from labwright.record.nouns.papers import Draft
from labwright.record.printed import PrintedValue
from labwright.record.source import code_of
from labwright.record.typeset import as_read, uses, without_form
from labwright.review.evidence import LITERALS, Evidence, claims_in, used_keys
from labwright.stages.digests import lines_of
from labwright.stages.paper.appendix import appendix, disclosures, supplement
from labwright.stages.paper.citations import library_of, reference
from labwright.stages.paper.decided import OURS
from labwright.stages.paper.latex import escape
from labwright.stages.paper.obligations import of_rungs, owed
from labwright.stages.paper.outline import to_report
from labwright.stages.paper.registered import page_one, table_of
from labwright.stages.paper.sheets import files, sheets
from labwright.stages.paper.sources import AUTHORS, FigureFile, PaperParts, Table
from labwright.stages.paper.tables import tables
from labwright.stages.paper.template import Template, kept, load
from labwright.stages.settings import PaperSettings

SHOWN = {"pm": "mean and standard deviation", "mean": "mean"}
"""The forms of a mean that a writer is offered, and what they print; of a difference the last. Tables have the others:
intervals, replicates, detectable differences."""

AClaim = TypeVar("AClaim", bound=Claim)


class PaperClaims(NamedTuple):
    """What the paper may print: means over replicates, and their paired differences."""

    means: list[Claim]
    differences: list[Difference]

    @property
    def every(self) -> list[Claim]:
        return [*self.means, *self.differences]


def claims_of(state: RunState) -> PaperClaims:
    """The claims that the paper may print."""
    means = paper_claims(state)
    return PaperClaims([*means, *reference_claims(state)], differences(state, means))


@dataclass(frozen=True)
class Material:
    """A record, and what a paper needs besides it."""

    state: RunState
    folder: RunFolder
    settings: PaperSettings
    notice: str = ""
    isolation: str = ""

    @cached_property
    def claims(self) -> PaperClaims:
        return claims_of(self.state)

    @property
    def plan(self) -> DataPlan:
        assert self.state.data_plan is not None
        return self.state.data_plan

    @cached_property
    def template(self) -> Template:
        """The run's own copy. Raises `stages.paper.template.TemplateError`."""
        if self.state.template:
            return kept(self.folder.templates, self.state.template)
        return load(self.settings.template)

    @cached_property
    def library(self) -> tuple[Entry, ...]:
        """The verified entries that may be cited. Raises `literature.errors.LibraryError`."""
        return library_of(self.state, self.folder)

    @property
    def figures(self) -> tuple[FinalFigure, ...]:
        """The paper's figures in their order."""
        return self.state.figures.placed if self.state.figures is not None else ()

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        return (
            *table_of(self.state),
            *tables(
                self.claims.means,
                self.plan,
                self.state.datasets,
                ablation_conditions(self.state),
                self.claims.differences,
            ),
        )

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """What came of the plan's hypotheses."""
        return decisions(self.state)

    @cached_property
    def clauses(self) -> dict[str, PrintedValue]:
        """What `\\verdict` prints, by key."""
        return clauses(self.state, self.decisions, self.claims.differences)

    @cached_property
    def asked(self) -> Asked:
        return asked(self.plan, self.claims.differences)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every difference as the writer and the binder know it."""
        return tuple(
            Comparison(
                key=one.key,
                dataset=one.dataset,
                metric=one.name,
                better=one.better,
                worse=one.other if one.better == one.condition else one.condition,
                equal=one.mean == 0,
                verdict=one.called,
                n=one.n,
                condition=one.condition,
                note=_note(one),
                caveats=one.caveats,
                clause=as_read(self.clauses[one.key]),
                listed=one.key in self.asked.differences,
            )
            for one in self.claims.differences
        )

    @cached_property
    def evidence(self) -> Evidence:
        """All that a draft may lean on. Names of the plan and the data may hold numbers."""
        plan, facts = self.plan, self.state.datasets
        names = [text for one in (*plan.arms, *plan.levels, *plan.metrics) for text in (one.name, one.title)]
        names += [text for one in facts for text in (one.name, one.name.replace("_", " "), one.title)]
        return Evidence(
            results=printed(self.claims.every),
            setups=setups(self.state),
            cites=frozenset(entry.key for entry in self.library),
            figures=frozenset(one.name for one in self.figures),
            tables=frozenset(table.name for table in self.tables),
            names=tuple(dict.fromkeys(text for text in (*names, *plan.conditions) if text)),
            comparisons=self.comparisons,
            plan=plan,
            facts=facts,
            verdicts=self.clauses,
            found={
                **{one.key: one.verdict for one in self.decisions},
                **{one.key: one.called for one in self.claims.differences},
            },
            tabled={table.name: claims_in(table.tabular) for table in self.tables},
            statements=tuple(one.text for one in of_rungs(self.state)),
        )


def write_inputs(material: Material) -> WriteInputs:
    """What the writer gets: the whole record in bounded form, ablations and replicate statistics included."""
    state, plan = material.state, material.plan
    assert state.started is not None
    best = state.nodes[winner(state) or ""]
    wanted = _wanted(plan, material.claims.differences)
    results = _lines(plan, [*material.claims.means, *wanted], material.asked)
    by_key = {one.key: one for one in material.comparisons}
    comparisons = tuple(by_key[one.key] for one in wanted)
    decided = tuple(
        Decided(
            key=one.key,
            statement=one.hypothesis.statement,
            verdict=one.verdict,
            reason=one.hypothesis.reason,
            confirmatory=one.hypothesis.confirmatory,
            confirmed=one.confirmed,
            clause=as_read(material.clauses[one.key]),
        )
        for one in material.decisions
    )
    sentences = (material.isolation, *disclosures(state, material.claims.means))
    return WriteInputs(
        idea=state.started.idea,
        data_plan=plan,
        facts=state.datasets,
        results=results,
        summaries=tuple(stage.summary for stage in state.stages.values() if stage.summary is not None),
        setups=tuple(
            ClaimLine(key=key, printed=as_read(value), meaning=key.replace(".", " "))
            for key, value in material.evidence.setups.items()
        ),
        decided=decided,
        comparisons=comparisons,
        figures=material.figures,
        tables=tuple(table.name for table in material.tables),
        references=tuple(map(reference, material.library)),
        literals=LITERALS,
        page_limit=material.template.page_limit,
        context=lines_of(state.context),
        winner_plan=best.plan,
        winner_code=code_of(read_source(material.folder.source(best.id))),
        disclosures=sentences,
        statements=(*owed(state, material.claims.differences), *to_report(plan, decided, comparisons, sentences)),
    )


def parts_for(material: Material, draft: Draft, *, refused: Sequence[str] = (), whole: bool = False) -> PaperParts:
    """A draft with all that it may lean on, ready to be checked and typeset; `whole` with what lies beside the paper.

    A figure that is not meant for the main text, and not placed there, stands in the appendix if the text refers to it,
    else in the supplement.
    """
    state, claims = material.state, material.claims.every
    placed = used_keys([one.body for one in draft.sections], frozenset({"paperfigure"}))
    referred = used_keys(draft.texts, frozenset({"ref"}))
    beside = [
        one.name
        for one in material.figures
        if one.name not in placed and (one.name in OURS or draft.placements.get(one.name, one.placement) == "appendix")
    ]
    in_appendix = [name for name in beside if f"fig:{name}" in referred]
    figures = tuple(
        FigureFile(
            name=one.name,
            path=material.folder.drawn / f"{one.name}.pdf",
            place="main" if one.name not in beside else "appendix" if one.name in in_appendix else "supplement",
        )
        for one in material.figures
    )
    described = {one.name: escape(one.description) for one in material.figures if one.name in (*beside, *OURS)}
    used = {without_form(use.key) for text in draft.texts for use in uses(text)}
    return PaperParts(
        draft=draft.model_copy(update={"captions": described | draft.captions}),
        refused=tuple(refused),
        tables=material.tables,
        library=material.library,
        notice=material.notice,
        registered=page_one(state),
        figures=figures,
        logged={one.grade for one in claims} == {"logged"},
        appendix=appendix(
            state,
            claims,
            isolation=material.isolation,
            figures=in_appendix,
            used=used,
            checklist=material.settings.checklist,
        ),
        supplement=supplement(
            state,
            claims,
            title=draft.title,
            authors=AUTHORS,
            figures=[name for name in beside if name not in in_appendix],
        )
        if whole
        else "",
        data=files(sheets(state, claims)) if whole else {},
        evidence=replace(material.evidence, appendix=frozenset(beside)),
    )


def statistics_of(material: Material, datasets: Sequence[str], most: int = 24) -> tuple[str, ...]:
    """What was measured of the primary metric on these datasets, a line a condition: what a figure may show."""
    primary = material.plan.primary
    found = [one for one in material.claims.means if one.name == primary.name and one.dataset in datasets][:most]
    texts = material.evidence.results
    return tuple(
        f"{primary.title or primary.name} on {one.dataset} ({one.split}), {one.condition}: "
        f"{as_read(texts[f'{one.key}.pm'])} over {one.n}"
        for one in found
    )


class Asked(NamedTuple):
    """What a paper is about, and its writers are shown in any case: keys of differences and of means."""

    differences: frozenset[str]
    means: frozenset[tuple[str, str, str]]
    """(dataset, metric, condition)"""


def asked(plan: DataPlan, found: Sequence[Difference]) -> Asked:
    """The cells that hypotheses read; and of method and baseline, in the primary metric, what no hypothesis covers."""
    read = [conditions_read((*one.effects, *one.alternatives), plan) for one in plan.hypotheses]
    roles = {arm.name: arm.role for arm in plan.arms}
    left = [
        one
        for one in found
        if one.name == plan.primary.name
        and roles.get(one.arm) == "method"
        and not any({(one.dataset, one.name, side) for side in (one.condition, one.other)} <= cells for cells in read)
    ]
    beside = {(one.dataset, one.name, side) for one in left for side in (one.condition, one.other)}
    return Asked(frozenset(one.key for one in left), frozenset(beside.union(*read)))


def _lines(plan: DataPlan, claims: Sequence[Claim], wanted: Asked) -> tuple[ClaimLine, ...]:
    texts = printed(claims)
    found: list[ClaimLine] = []
    for claim in _wanted(plan, claims):
        paired = isinstance(claim, Difference)
        forms = {"mean": SHOWN["mean"]} if paired else SHOWN
        listed = (
            claim.key in wanted.differences
            if paired
            else (claim.arm in RUNGS or (claim.dataset, claim.name, claim.condition) in wanted.means)
        )
        found += [
            ClaimLine(
                key=f"{claim.key}.{form}",
                printed=texts[f"{claim.key}.{form}"].tex,
                meaning=f"{meaning}: {_meaning(plan, claim)}",
                listed=listed,
            )
            for form, meaning in forms.items()
        ]
    return tuple(found)


def _wanted(plan: DataPlan, claims: Sequence[AClaim]) -> list[AClaim]:
    """The claims that a paper is written from: the plan's metrics in its order, then what only the code can know.

    Predictions are scored by every metric that fits them; nobody asked for those that the plan does not name.
    """
    place = {metric.name: k for k, metric in enumerate(plan.metrics)}
    named = [claim for claim in claims if claim.name in place or claim.grade == "logged"]
    return sorted(named, key=lambda claim: place.get(claim.name, len(place)))


def _meaning(plan: DataPlan, claim: Claim) -> str:
    metric = next((one.title or one.name for one in plan.metrics if one.name == claim.name), claim.name)
    compared = _condition(plan, claim.arm, claim.level)
    if isinstance(claim, Difference):
        other = _condition(plan, arm_of(claim.other), level_of(claim.other))
        compared = f"paired difference, {compared} minus {other}"
    return f"{metric} on {claim.dataset} ({claim.split}), {compared}"


def _condition(plan: DataPlan, arm: str, level: str) -> str:
    title = RUNGS.get(arm) or next((one.title or one.name for one in plan.arms if one.name == arm), arm)
    at = next((one.title or one.name for one in plan.levels if one.name == level), "")
    return f"{title} at {at}" if at else title


def _note(one: Difference) -> str:
    """What has to be reported with a verdict."""
    if one.called == "unknown":
        few = one.n < MINIMUM_REPLICATES
        return "too few pairs of seeds for a verdict" if few else "all pairs gave the same: the spread is unknown"
    return "the seeds agree on it, but its interval over test examples includes zero" if one.by_examples else ""
