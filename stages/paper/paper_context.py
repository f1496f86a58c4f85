"""Provide everything from which a paper is made: the record in the form for the writer, and in the form for building
the sources.

A `PaperContext` is built once per version of the text; derived values (claims, tables, evidence) are cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

from labwright.literature.bibtex import BibEntry
from labwright.models.roles.paper_writing import ClaimLine, DecidedHypothesis, ExploratoryComparison, WriteInputs
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import Claim, compute_paper_claims, find_ablation_conditions, find_winner
from labwright.record.claims.formatting import format_claims, format_setups
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.sentences import (
    EXPLORATORY_WORD,
    describe_outcome,
    format_verdict_clauses,
    list_outcome_words,
)
from labwright.record.estimands import list_conditions_read
from labwright.record.printed_value import PrintedValue
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES, compute_reference_claims
from labwright.record.result_macros import find_macro_uses, strip_form, to_plain_text
from labwright.record.run_folder import RunFolder, read_source
from labwright.record.schema.data_plan import DataPlan, parse_arm, parse_level
from labwright.record.schema.figures import FinalFigure
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.record.schema.paper import PaperDraft
from labwright.record.search_space import build_effective_plan
from labwright.record.source_tree import select_code
from labwright.review.evidence import (
    ALLOWED_LITERALS,
    Evidence,
    collect_used_keys,
    find_bold_claims,
    find_printed_claims,
)
from labwright.stages.document_summaries import format_statements
from labwright.stages.paper.appendix import list_disclosures, render_appendix, render_notice, render_supplement
from labwright.stages.paper.citations import is_novelty_unchecked, read_run_library, to_reference
from labwright.stages.paper.hypothesis_figures import PROGRAM_FIGURES
from labwright.stages.paper.latex import escape, mark_recorded
from labwright.stages.paper.latex_sources import DEFAULT_AUTHORS, FigureFile, PaperParts, PaperTable
from labwright.stages.paper.outline import list_reportable_outcomes
from labwright.stages.paper.page_space import count_text_words, find_crowding_figures, measure_floats
from labwright.stages.paper.preregistration import build_hypothesis_tables
from labwright.stages.paper.required_statements import list_reference_statements, list_required_statements
from labwright.stages.paper.result_tables import EXPENDABLE_TABLE, build_result_tables
from labwright.stages.paper.supplement_data import build_supplement_tables, format_files
from labwright.stages.paper.template import PaperTemplate, load_copy, load_template
from labwright.stages.settings import PaperSettings

SHOWN_FORMS = {"pm": "mean and standard deviation", "mean": "mean"}
"""Forms of a mean offered to a writer, with their meaning; a difference has only the last one. Tables show the other
forms: intervals and replicates."""

ClaimT = TypeVar("ClaimT", bound=Claim)


class PaperClaims(NamedTuple):
    """Claims that the paper may print: means over replicates, and their paired differences."""

    means: list[Claim]
    differences: list[ClaimDifference]

    @property
    def all_claims(self) -> list[Claim]:
        return [*self.means, *self.differences]


def build_paper_claims(state: RunState) -> PaperClaims:
    """Return the claims that the paper may print."""
    means = compute_paper_claims(state)
    return PaperClaims([*means, *compute_reference_claims(state)], compute_differences(state, means))


@dataclass(frozen=True)
class PaperContext:
    """A record with the other inputs of a paper."""

    state: RunState
    folder: RunFolder
    settings: PaperSettings
    notice: str = ""
    isolation: str = ""

    @cached_property
    def claims(self) -> PaperClaims:
        return build_paper_claims(self.state)

    @property
    def plan(self) -> DataPlan:
        assert self.state.data_plan is not None
        return self.state.data_plan

    @cached_property
    def template(self) -> PaperTemplate:
        """The run's copy of its template. Raises `stages.paper.template.TemplateError`."""
        if self.state.template_sha256:
            return load_copy(self.folder.templates, self.state.template_sha256)
        return load_template(self.settings.template)

    @cached_property
    def library(self) -> tuple[BibEntry, ...]:
        """The verified entries that may be cited. Raises `literature.errors.LibraryError`."""
        return read_run_library(self.state, self.folder)

    @cached_property
    def figures(self) -> tuple[FinalFigure, ...]:
        """The paper's figures in order; those for which the text leaves no room are meant for the appendix."""
        every = self.state.figures.placed if self.state.figures is not None else ()
        in_text = [one.name for one in every if one.placement == "main"]
        floats = {f"fig:{name}" for name in in_text} | {
            f"tab:{one.name}" for one in self.tables if one.name != EXPENDABLE_TABLE
        }
        crowding = find_crowding_figures(
            count_text_words(self.template),
            {label: words for label, words in self.float_words.items() if label in floats},
            [name for name in in_text if name not in PROGRAM_FIGURES],
        )
        return tuple(one.model_copy(update={"placement": "appendix"}) if one.name in crowding else one for one in every)

    @cached_property
    def float_words(self) -> dict[str, int]:
        """The words whose room each figure or table takes, by its label."""
        drawn = self.state.figures.placed if self.state.figures is not None else ()
        return measure_floats(
            [FigureFile(one.name, self.folder.drawn_figures / f"{one.name}.pdf") for one in drawn],
            self.tables,
            {one.name: one.description for one in drawn if one.name in PROGRAM_FIGURES},
            self.template,
        )

    @cached_property
    def tables(self) -> tuple[PaperTable, ...]:
        return (
            *build_hypothesis_tables(self.state),
            *build_result_tables(
                self.claims.means,
                self.plan,
                self.state.datasets,
                find_ablation_conditions(self.state),
                self.claims.differences,
                find_bold_claims(self.plan, self.decisions, self.claims.means),
            ),
        )

    @cached_property
    def decisions(self) -> tuple[HypothesisDecision, ...]:
        """The outcomes of the plan's hypotheses."""
        return decide_hypotheses(self.state)

    @cached_property
    def verdict_clauses(self) -> dict[str, PrintedValue]:
        """The clauses that `\\verdict` prints, by key."""
        return format_verdict_clauses(self.state, self.decisions, self.claims.differences)

    @cached_property
    def primary_claims(self) -> PrimaryClaims:
        return select_primary_claims(self.plan, self.claims.differences)

    @cached_property
    def comparisons(self) -> tuple[ExploratoryComparison, ...]:
        """All differences, as the writer and the binder use them."""
        return tuple(
            ExploratoryComparison(
                key=one.key,
                dataset=one.dataset,
                metric=one.name,
                better=one.better,
                worse=one.other if one.better == one.condition else one.condition,
                equal=one.mean == 0,
                n=one.n,
                condition=one.condition,
                caveats=one.caveats,
                clause=to_plain_text(self.verdict_clauses[one.key]),
                listed=one.key in self.primary_claims.differences,
            )
            for one in self.claims.differences
        )

    @cached_property
    def evidence(self) -> Evidence:
        """All evidence that a draft may refer to. Names from the plan and the data may contain numbers."""
        plan, facts = self.plan, self.state.datasets
        names = [text for one in (*plan.arms, *plan.levels, *plan.metrics) for text in (one.name, one.title)]
        names += [text for one in facts for text in (one.name, one.name.replace("_", " "), one.title)]
        return Evidence(
            results=format_claims(self.claims.all_claims),
            setups=format_setups(self.state),
            cites=frozenset(entry.key for entry in self.library),
            figures=frozenset(one.name for one in self.figures),
            tables=frozenset(table.name for table in self.tables),
            names=tuple(dict.fromkeys(text for text in (*names, *plan.conditions) if text)),
            comparisons=self.comparisons,
            plan=plan,
            facts=facts,
            verdicts=self.verdict_clauses,
            outcome_words={
                **{one.key: list_outcome_words(one) for one in self.decisions},
                **dict.fromkeys((one.key for one in self.claims.differences), (EXPLORATORY_WORD,)),
            },
            claims_by_table={table.name: find_printed_claims(table.tabular) for table in self.tables},
            statements=tuple(one.text for one in list_reference_statements(self.state)),
            bold=find_bold_claims(plan, self.decisions, self.claims.means),
        )


def build_write_inputs(material: PaperContext) -> WriteInputs:
    """Build the writer's inputs: the whole record in bounded form, with ablations and replicate statistics."""
    state, plan = material.state, material.plan
    assert state.started is not None
    best = state.nodes[find_winner(state) or ""]
    wanted = _select_claims(plan, material.claims.differences)
    results = _build_claim_lines(plan, [*material.claims.means, *wanted], material.primary_claims)
    by_key = {one.key: one for one in material.comparisons}
    comparisons = tuple(by_key[one.key] for one in wanted)
    decided = tuple(
        DecidedHypothesis(
            key=one.key,
            statement=one.hypothesis.statement,
            verdict=one.verdict,
            outcome="; ".join(map(describe_outcome, one.parts)) + (f"; together {one.verdict}" * (len(one.parts) > 1)),
            reason=one.hypothesis.reason,
            confirmatory=one.hypothesis.confirmatory,
            confirmed=one.confirmed,
            clause=to_plain_text(material.verdict_clauses[one.key]),
        )
        for one in material.decisions
    )
    sentences = (material.isolation, *list_disclosures(state, material.claims.means))
    return WriteInputs(
        idea=state.started.idea,
        data_plan=build_effective_plan(state),
        facts=state.datasets,
        results=results,
        summaries=tuple(stage.summary for stage in state.stages.values() if stage.summary is not None),
        setups=tuple(
            ClaimLine(key=key, printed=to_plain_text(value)) for key, value in material.evidence.setups.items()
        ),
        decided=decided,
        comparisons=comparisons,
        figures=material.figures,
        tables=tuple(table.name for table in material.tables),
        references=tuple(map(to_reference, material.library)),
        literals=ALLOWED_LITERALS,
        page_limit=material.template.page_limit,
        text_words=count_text_words(material.template),
        float_words={
            label: words
            for label, words in material.float_words.items()
            if label not in {f"fig:{one.name}" for one in material.figures if one.placement == "appendix"}
        },
        context=format_statements(state.context),
        winner_plan=best.plan,
        winner_code=select_code(read_source(material.folder.get_source_path(best.id))),
        disclosures=sentences,
        statements=(
            *list_required_statements(state, material.claims.differences),
            *list_reportable_outcomes(plan, decided, comparisons, sentences),
        ),
    )


def build_paper_parts(
    material: PaperContext, draft: PaperDraft, *, refused: Sequence[str] = (), whole: bool = False
) -> PaperParts:
    """Build the parts of a paper from a draft, ready to be checked and typeset; `whole` adds the supplement and its
    data.

    A figure that is not meant for the main text, and not placed there, goes to the appendix if the text refers to it,
    otherwise to the supplement.
    """
    state, claims = material.state, material.claims.all_claims
    placed = collect_used_keys([one.body for one in draft.sections], frozenset({"paperfigure"}))
    referred = collect_used_keys(draft.texts, frozenset({"ref"}))
    unplaced = [
        one.name
        for one in material.figures
        if one.name not in placed
        and (one.name in PROGRAM_FIGURES or draft.placements.get(one.name, one.placement) == "appendix")
    ]
    in_appendix = [name for name in unplaced if f"fig:{name}" in referred]
    figures = tuple(
        FigureFile(
            name=one.name,
            path=material.folder.drawn_figures / f"{one.name}.pdf",
            placement="main" if one.name not in unplaced else "appendix" if one.name in in_appendix else "supplement",
        )
        for one in material.figures
    )
    generated = {one.name: mark_recorded(one.description) for one in material.figures if one.name in PROGRAM_FIGURES}
    described = {one.name: escape(one.description) for one in material.figures if one.name in unplaced}
    used = {strip_form(use.key) for text in draft.texts for use in find_macro_uses(text)}
    return PaperParts(
        draft=draft.model_copy(update={"captions": described | draft.captions | generated}),
        refused=tuple(refused),
        tables=material.tables,
        library=material.library,
        notice=render_notice(novelty_unchecked=is_novelty_unchecked(state, draft)),
        figures=figures,
        logged={one.grade for one in claims} == {"logged"},
        appendix=render_appendix(
            state,
            claims,
            origin=material.notice,
            isolation=material.isolation,
            figures=in_appendix,
            used=used,
            checklist=material.settings.checklist,
        ),
        supplement=render_supplement(
            state,
            claims,
            title=draft.title,
            authors=DEFAULT_AUTHORS,
            figures=[name for name in unplaced if name not in in_appendix],
        )
        if whole
        else "",
        data=format_files(build_supplement_tables(state, claims)) if whole else {},
        evidence=replace(material.evidence, appendix=frozenset(unplaced), captions=generated),
    )


def format_statistics(material: PaperContext, datasets: Sequence[str], limit: int = 24) -> tuple[str, ...]:
    """Return the measured values of the primary metric on these datasets, one line per condition; a figure may show
    them."""
    primary = material.plan.primary_metric
    found = [one for one in material.claims.means if one.name == primary.name and one.dataset in datasets][:limit]
    texts = material.evidence.results
    return tuple(
        f"{primary.title or primary.name} on {one.dataset} ({one.split}), {one.condition}: "
        f"{to_plain_text(texts[f'{one.key}.pm'])} over {one.n} seeds"
        for one in found
    )


class PrimaryClaims(NamedTuple):
    """Keys of the differences and means at the center of a paper, which its writers always see."""

    differences: frozenset[str]
    means: frozenset[tuple[str, str, str]]
    """(dataset, metric, condition)"""


def select_primary_claims(plan: DataPlan, differences: Sequence[ClaimDifference]) -> PrimaryClaims:
    """Select the cells that hypotheses read, and the primary comparisons of method and baseline that no hypothesis
    covers."""
    read = [list_conditions_read((*one.effects, *one.alternatives), plan) for one in plan.hypotheses]
    roles = {arm.name: arm.role for arm in plan.arms}
    left = [
        one
        for one in differences
        if one.name == plan.primary_metric.name
        and roles.get(one.arm) == "method"
        and not any({(one.dataset, one.name, side) for side in (one.condition, one.other)} <= cells for cells in read)
    ]
    compared = {(one.dataset, one.name, side) for one in left for side in (one.condition, one.other)}
    return PrimaryClaims(frozenset(one.key for one in left), frozenset(compared.union(*read)))


def _build_claim_lines(plan: DataPlan, claims: Sequence[Claim], wanted: PrimaryClaims) -> tuple[ClaimLine, ...]:
    texts = format_claims(claims)
    found: list[ClaimLine] = []
    for claim in _select_claims(plan, claims):
        paired = isinstance(claim, ClaimDifference)
        forms = {"mean": SHOWN_FORMS["mean"]} if paired else SHOWN_FORMS
        listed = (
            claim.key in wanted.differences
            if paired
            else (claim.arm in REFERENCE_ARM_TITLES or (claim.dataset, claim.name, claim.condition) in wanted.means)
        )
        found += [
            ClaimLine(
                key=f"{claim.key}.{form}",
                printed=texts[f"{claim.key}.{form}"].tex,
                meaning=f"{meaning}: {_describe_meaning(plan, claim)}",
                listed=listed,
            )
            for form, meaning in forms.items()
        ]
    return tuple(found)


def _select_claims(plan: DataPlan, claims: Sequence[ClaimT]) -> list[ClaimT]:
    """Select the claims from which a paper is written: the plan's metrics in its order, then values that only the code
    reports.

    Predictions are scored by every applicable metric; metrics that the plan does not name are left out.
    """
    place = {metric.name: k for k, metric in enumerate(plan.metrics)}
    named = [claim for claim in claims if claim.name in place or claim.grade == "logged"]
    return sorted(named, key=lambda claim: place.get(claim.name, len(place)))


def _describe_meaning(plan: DataPlan, claim: Claim) -> str:
    metric = next((one.title or one.name for one in plan.metrics if one.name == claim.name), claim.name)
    compared = _describe_condition(plan, claim.arm, claim.level)
    if isinstance(claim, ClaimDifference):
        other = _describe_condition(plan, parse_arm(claim.other), parse_level(claim.other))
        compared = f"paired difference, {compared} minus {other}"
    return f"{metric} on {claim.dataset} ({claim.split}), {compared}"


def _describe_condition(plan: DataPlan, arm: str, level: str) -> str:
    title = REFERENCE_ARM_TITLES.get(arm) or next((one.title or one.name for one in plan.arms if one.name == arm), arm)
    at = next((one.title or one.name for one in plan.levels if one.name == level), "")
    return f"{title} at {at}" if at else title
