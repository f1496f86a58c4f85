"""Provide everything from which a paper is made: the record in the form for the writer, and in the form for building
the sources.

A `PaperContext` is built once per version of the text; derived values (claims, tables, evidence) are cached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from labwright.literature.bibtex import BibEntry
from labwright.models.roles.paper_writing import (
    ClaimLine,
    DecidedHypothesis,
    EstimateLine,
    ExploratoryComparison,
    RequiredStatement,
    WriteInputs,
)
from labwright.record.ablation_results import add_measured_arms, collect_ablation_results
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import Claim, compute_paper_claims, find_ablation_conditions, find_winner
from labwright.record.claims.formatting import format_claims, format_decisions, format_setups
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.requested_estimates import (
    RequestedEstimate,
    compute_requested_estimates,
    list_measured_parts,
    list_registered_keys,
    list_separating_keys,
)
from labwright.record.claims.sentences import describe_support, describe_units, join_names, list_effect_datasets
from labwright.record.claims.setting_controls import find_registered_estimates
from labwright.record.estimands import (
    classify_scale,
    describe_estimand,
    find_effect_metric,
    find_swapped_arms,
    list_conditions_read,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES, compute_reference_claims
from labwright.record.result_macros import NOT_MEASURED, PrintedValue, find_macro_uses, strip_form, to_plain_text
from labwright.record.run_folder import RunFolder, read_source
from labwright.record.schema.data_plan import DataPlan, parse_arm, to_words
from labwright.record.schema.hypotheses import Effect, EffectDecision, HypothesisDecision
from labwright.record.schema.paper import EstimateRequest, FinalFigure, PaperDraft
from labwright.record.source_tree import select_code
from labwright.record.tuning_results import build_effective_plan
from labwright.review.claims.comparisons import ClaimRecord
from labwright.review.evidence import ALLOWED_LITERALS, Evidence, check_caption, collect_used_keys, find_printed_claims
from labwright.stages.document_summaries import format_statements
from labwright.stages.paper.appendix import list_disclosures, render_appendix, render_notice
from labwright.stages.paper.citations import is_novelty_unchecked, read_run_library, to_reference
from labwright.stages.paper.disclosure import build_supplement_tables, format_files
from labwright.stages.paper.hypothesis_figures import PROGRAM_FIGURES
from labwright.stages.paper.latex import escape, mark_recorded
from labwright.stages.paper.latex_sources import FigureFile, PaperParts, PaperTable
from labwright.stages.paper.outline import (
    count_text_words,
    find_crowding_figures,
    list_reportable_outcomes,
    measure_floats,
)
from labwright.stages.paper.required_statements import list_required_statements
from labwright.stages.paper.result_tables import build_addendum_tables, build_hypothesis_tables, build_result_tables
from labwright.stages.paper.setup_check import StudyFacts, list_study_facts
from labwright.stages.paper.template import PaperTemplate, load_copy, load_template
from labwright.stages.settings import PaperSettings

MAX_ROWS_IN_TEXT = 16
"""Maximum number of rows of the table of values in the main text, where a figure shows the differences."""
SHOWN_FORMS = ("pm", "mean", "percent")
"""Forms of a mean that prompts show. Tables show intervals and replicates."""
ESTIMATE_FORMS = ("mean", "ci", "n", "confidence", "points", "points_ci", "percent", "percent_ci")
"""Forms of an effect, a difference or an estimate that prompts show, if they exist."""

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
    requests: tuple[EstimateRequest, ...] = ()
    """The estimates that the outline asked for."""

    @cached_property
    def claims(self) -> PaperClaims:
        return build_paper_claims(self.state)

    @cached_property
    def plan(self) -> DataPlan:
        """The plan, with the arms that ablations and addenda added."""
        swapped = find_swapped_arms(self.state.search.plan)  # which a plan does not have
        plan = add_measured_arms(self.state, self.state.search.plan)
        return plan.model_copy(update={"arms": tuple(one for one in plan.arms if one.name not in swapped)})

    @cached_property
    def template(self) -> PaperTemplate:
        """The run's copy of its template. Raises `stages.paper.template.TemplateError`."""
        digest = self.state.paper.template_sha256
        found = load_copy(self.folder.templates, digest) if digest else load_template(self.settings.template)
        return found if self.settings.anonymous else found.add_extra_pages()

    @cached_property
    def library(self) -> tuple[BibEntry, ...]:
        """The verified entries that may be cited. Raises `literature.errors.LibraryError`."""
        return read_run_library(self.state, self.folder)

    @property
    def has_no_published_work(self) -> bool:
        """Whether no work can be cited or was read, so that the program writes the related work. Catalogues of which
        none answered a search before planning are not expected to answer one later."""
        prior, sources = self.state.paper.prior_work, self.state.read_setting("literature.sources") or ()
        if self.library or (prior is not None and not prior.is_unread):
            return False
        asked = prior.queries if prior is not None else ()
        failed = sum(line.startswith(f"{one!r}: ") for one in asked for line in prior.refused) if prior else 0
        return 0 < len(asked) * len(sources) <= failed or not (sources and self.settings.citation_rounds)

    @property
    def drawn_figures(self) -> tuple[FinalFigure, ...]:
        """The paper's figures, with the places for which they were drawn."""
        return self.state.paper.figures.placed if self.state.paper.figures is not None else ()

    @cached_property
    def figures(self) -> tuple[FinalFigure, ...]:
        """The paper's figures in order; those for which the text leaves no room are meant for the appendix."""
        every = self.drawn_figures
        spare = [one.name for one in every if one.placement == "main" and one.name not in PROGRAM_FIGURES]
        floats = self.select_main_floats(every)
        crowding = find_crowding_figures(count_text_words(self.template), floats, spare)
        return tuple(one.model_copy(update={"placement": "appendix"}) if one.name in crowding else one for one in every)

    def select_main_floats(self, figures: Sequence[FinalFigure]) -> dict[str, int]:
        """Return the words whose room the tables of the main text take, and those of these figures that are meant for
        it."""
        labels = {f"fig:{one.name}" for one in figures if one.placement == "main"}
        labels |= {f"tab:{one.name}" for one in self.placed_tables}
        return {label: words for label, words in self.float_words.items() if label in labels}

    @property
    def figure_folder(self) -> Path:
        drawn = self.state.paper.figures
        return self.folder.get_figures_path(drawn.version if drawn is not None else 1)

    @cached_property
    def float_words(self) -> dict[str, int]:
        """The words whose room each figure or table takes, by its label."""
        return measure_floats(
            [FigureFile(one.name, self.figure_folder / f"{one.name}.pdf") for one in self.drawn_figures],
            self.tables,
            {one.name: one.description for one in self.drawn_figures if one.name in PROGRAM_FIGURES},
            self.template,
        )

    @cached_property
    def tables(self) -> tuple[PaperTable, ...]:
        """The tables of the paper. A long one of values is meant for the appendix if a figure shows the differences."""
        limit = MAX_ROWS_IN_TEXT if PROGRAM_FIGURES & {one.name for one in self.drawn_figures} else math.inf
        added = {arm for one in collect_ablation_results(self.state) if one.by == "addendum" for arm in one.arms}
        return (
            *build_hypothesis_tables(self.state),
            *build_addendum_tables(self.state),
            *(
                replace(one, placement="appendix") if one.name == "main" and one.tabular.count(r"\\") > limit else one
                for one in build_result_tables(
                    self.claims.means,
                    self.plan,
                    [one for one in find_ablation_conditions(self.state) if parse_arm(one) not in added],
                    {arm: one.ablation.part for one in collect_ablation_results(self.state) for arm in one.arms},
                    [one for one in self.claims.differences if one.key not in self._repeated],
                    self.decisions,
                )
            ),
        )

    @property
    def placed_tables(self) -> tuple[PaperTable, ...]:
        """The tables of the main text; the program places the others in the appendix."""
        return tuple(one for one in self.tables if one.placement == "main")

    @cached_property
    def decisions(self) -> tuple[HypothesisDecision, ...]:
        """The outcomes of the plan's hypotheses."""
        return decide_hypotheses(self.state)

    @cached_property
    def estimates(self) -> tuple[RequestedEstimate, ...]:
        """The estimates that the outline asked for and that the record has."""
        return compute_requested_estimates(self.state, self.requests)[0]

    @cached_property
    def printed_results(self) -> dict[str, PrintedValue]:
        """Every value that `\\result` may print, by key with form."""
        return {
            **format_claims(self.claims.all_claims, self.plan),
            **format_decisions(self.decisions, self.plan),
            **{key: value for one in self.estimates for key, value in one.printed.items()},
        }

    @cached_property
    def estimate_lines(self) -> tuple[EstimateLine, ...]:
        """The requested estimates as the writer sees them."""
        return tuple(
            EstimateLine(
                key=one.key,
                subject=_describe_effect(one.plan, one.found.effect),
                forms=self.collect_forms(one.key),
                note=f"{one.request.purpose} (over {len(one.found.values)} seeds)"
                + self._judge_size(find_effect_metric(one.found.effect, one.plan).name, one.found.low, one.found.high)
                * (classify_scale(one.found.effect.estimand) == "difference"),
            )
            for one in self.estimates
        )

    def _judge_size(self, metric: str, low: float | None, high: float | None) -> str:
        """Return that a difference is too small to matter, if its interval lies within the smallest margin in its
        metric."""
        parts = (part.effect for one in self.decisions for part in one.parts)
        margin = min((one.smallest for one in parts if find_effect_metric(one, self.plan).name == metric), default=0.0)
        is_small = low is not None and high is not None and -margin < low and high < margin
        return f"; within plus and minus {margin:g}, too small to matter" * is_small

    def collect_forms(self, key: str) -> dict[str, str]:
        """Return the forms of an estimate that prompts show, with the text that each prints."""
        found = ((form, self.printed_results.get(f"{key}.{form}")) for form in ESTIMATE_FORMS)
        return {form: to_plain_text(value) for form, value in found if value is not None and value.tex != NOT_MEASURED}

    @cached_property
    def primary_claims(self) -> PrimaryClaims:
        """The cells that hypotheses read, the primary comparisons of method and baseline that no hypothesis covers, and
        those at a common setting."""
        plan, swapped = self.plan, find_swapped_arms(self.plan)
        read = [list_conditions_read((*one.effects, *one.alternatives), plan) for one in plan.hypotheses]
        methods = {arm.name for arm in plan.arms if arm.role == "method"}
        primary = [one for one in self.claims.differences if one.name == plan.primary_metric.name]
        left = [one for one in primary if one.arm in methods and not any(one.sides <= each for each in read)]
        shown = {one.key for one in (*left, *(one for one in primary if one.arm in swapped))}
        return PrimaryClaims(frozenset(shown), frozenset().union(*read, *(one.sides for one in left)))

    @cached_property
    def comparisons(self) -> tuple[ExploratoryComparison, ...]:
        """All differences as the writer sees them, in the order of the plan's metrics."""
        swapped = find_swapped_arms(self.plan)
        return tuple(
            ExploratoryComparison(
                key=one.key,
                worse=one.other if one.better == one.condition else one.condition,
                caveats=one.caveats,
                subject=_describe_claim(self.plan, one),
                forms=self.collect_forms(one.key),
                note=f"over {one.n} seeds{' and the test examples' * one.examples}"
                + "; at a common setting: each of these counts as much" * (one.arm in swapped)
                + self._judge_size(one.name, one.low, one.high),
                listed=one.key in self.primary_claims.differences,
                at_common_setting=one.arm in swapped,
            )
            for one in _select_claims(self.plan, self.claims.differences)
        )

    @cached_property
    def exploratory(self) -> tuple[ExploratoryComparison, ...]:
        """The differences that the text may print: a registered effect has its own, corrected interval."""
        replaced = list_registered_keys(list_measured_parts(self.decisions), self.plan).keys() | self._repeated
        return tuple(one for one in self.comparisons if one.key not in replaced)

    @cached_property
    def _repeated(self) -> set[str]:
        """The differences of controls that have the values of a registered effect, whose interval counts."""
        known = find_registered_estimates(self.plan, self.claims.differences, self.decisions)
        swapped = find_swapped_arms(self.plan)
        return {one.key for one in self.claims.differences if one.key in known and one.arm in swapped}

    @cached_property
    def decided(self) -> tuple[DecidedHypothesis, ...]:
        """All hypotheses with their estimates, as the writer sees them."""
        return tuple(map(self._describe_decision, self.decisions))

    def _describe_decision(self, one: HypothesisDecision) -> DecidedHypothesis:
        def describe(key: str, part: EffectDecision, note: str) -> EstimateLine:
            return EstimateLine(
                key=key,
                subject=_describe_effect(self.plan, part.effect),
                forms=self.collect_forms(key),
                note=note + f" (over {describe_units(one, part)})" * (part.mean is not None),
                direction=part.direction,
                verdict=part.verdict,
            )

        limit = "".join(f"; {text}" for text in (one.floored, one.saturated) if text)
        lines = {key: describe(key, part, describe_support(part) + limit) for key, part in one.parts_by_key.items()}
        keys, end = list(lines), len(one.parts)
        rival, contrast = one.hypothesis.rival, None
        if rival is not None and one.rival is not None:
            observed = one.rival_sign or "open"
            note = f'we expected {rival.ours}, the rival ("{rival.statement}") {rival.theirs}; observed: {observed}'
            if one.rival.mean is None:
                note = f"{note.partition('; observed')[0]}; not measured on every fresh seed"
            contrast = describe(keys[-1], one.rival, note)
        return DecidedHypothesis(
            key=one.key,
            title=one.hypothesis.name,
            statement=one.hypothesis.statement,
            verdict=one.verdict,
            effects=tuple(lines[key] for key in keys[:end]),
            alternatives=tuple(lines[key] for key in keys[end : end + len(one.others)]),
            rival=contrast,
            reason=one.hypothesis.reason,
            confirmatory=one.hypothesis.confirmatory,
            confirmed=one.confirmed,
        )

    @cached_property
    def disclosures(self) -> tuple[str, ...]:
        """What readers must know about the run, one sentence each."""
        return (self.isolation, *list_disclosures(self.state, self.claims.means))

    @cached_property
    def statements(self) -> tuple[RequiredStatement, ...]:
        """What the paper must report."""
        return (
            *list_required_statements(self.state, self.claims.differences),
            *list_reportable_outcomes(self.plan, self.decided, self.comparisons, self.disclosures),
        )

    @cached_property
    def winner_code(self) -> dict[str, str]:
        """The code of the reported program: path -> text."""
        best = find_winner(self.state)
        return select_code(read_source(self.folder.get_source_path(best))) if best is not None else {}

    @cached_property
    def facts(self) -> StudyFacts:
        """What the record knows about how the study was done."""
        return list_study_facts(self.state, self.claims.means, self.winner_code)

    @cached_property
    def claim_record(self) -> ClaimRecord:
        """The part of the record with which claims of the text are compared."""
        return ClaimRecord(
            plan=self.estimates[0].plan if self.estimates else self.plan,
            decisions=self.decisions,
            means=self.claims.means,
            differences=self.claims.differences,
            estimates={one.request.name: one.found for one in self.estimates},
            separating=frozenset(list_separating_keys(self.state)),
            points={one.id: one.point for one in self.statements if one.point},
        )

    @cached_property
    def evidence(self) -> Evidence:
        """All evidence that a draft may refer to. Names from the plan and the data may contain numbers."""
        plan, facts = self.plan, self.state.search.datasets
        names = [
            text for one in (*plan.arms, *plan.levels, *plan.metrics, *plan.datasets) for text in (one.name, one.title)
        ]
        names += [one.title for one in plan.hypotheses]
        names += [text for one in facts for text in (one.name, to_words(one.name), one.title)]
        return Evidence(
            results=self.printed_results,
            setups=format_setups(self.state),
            cites=frozenset(entry.key for entry in self.library),
            figures=frozenset(one.name for one in self.figures),
            tables=frozenset(table.name for table in self.tables),
            names=tuple(dict.fromkeys(text for text in (*names, *plan.conditions) if text)),
            replicates=frozenset(one.n for one in self.claims.differences),
            plan=self.state.search.data_plan,
            texts=tuple(
                f"{one.ablation.action} {one.ablation.part}: {one.ablation.replacement}"
                for one in collect_ablation_results(self.state)
            ),
            question=self.state.started.idea.title if self.state.started is not None else "",
            facts=facts,
            claims_by_table={table.name: find_printed_claims(table.tabular) for table in self.tables},
            statements=tuple(text for one in self.statements for text in one.sentences),
            earlier=self.state.list_earlier_studies(),
        )


def build_write_inputs(material: PaperContext) -> WriteInputs:
    """Build the writer's inputs: the whole record in bounded form, with ablations and replicate statistics."""
    state = material.state
    assert state.started is not None
    return WriteInputs(
        idea=state.started.idea,
        data_plan=build_effective_plan(state),
        facts=state.search.datasets,
        results=_build_claim_lines(material),
        setups=tuple(
            ClaimLine(key=key, printed=to_plain_text(value)) for key, value in material.evidence.setups.items()
        ),
        decided=material.decided,
        comparisons=material.exploratory,
        estimates=material.estimate_lines,
        table_keys={one.name: material.evidence.claims_by_table[one.name] for one in material.placed_tables},
        figures=material.figures,
        program_captions=tuple(one.name for one in material.figures if one.name in PROGRAM_FIGURES),
        tables=tuple(table.name for table in material.placed_tables),
        variants={one.name: one.variants for one in material.tables if one.variants},
        appendix_tables=tuple(table.name for table in material.tables if table.placement == "appendix"),
        references=tuple(map(to_reference, material.library)),
        related_work_by_program=material.has_no_published_work,
        literals=ALLOWED_LITERALS,
        page_limit=material.template.page_limit,
        text_words=count_text_words(material.template),
        float_words=material.select_main_floats(material.figures),
        context=format_statements(state.paper.context),
        run_facts=material.facts.run,
        winner_code=material.winner_code,
        disclosures=material.disclosures,
        statements=material.statements,
    )


CAPTION_WITHOUT_DESCRIPTION = "A figure of the study that the text does not discuss."
"""Caption of a figure outside of the text whose description has what a paper may not print, such as typed numbers."""


def build_paper_parts(
    material: PaperContext, draft: PaperDraft, *, refused: Sequence[str] = (), whole: bool = False
) -> PaperParts:
    """Build the parts of a paper from a draft, ready to be checked and typeset; `whole` adds the data of the
    supplement.

    A figure that no section places goes to the appendix if the text refers to it; otherwise it is left out. A table of
    the appendix that the text places moves there.
    """
    state, claims = material.state, material.claims.all_claims
    approval = state.find_approval("paper")
    placed = collect_used_keys([one.body for one in draft.sections], frozenset({"paperfigure"}))
    in_text = collect_used_keys([one.body for one in draft.sections], frozenset({"papertable"}))
    tables = tuple(replace(one, placement="main") if one.name in in_text else one for one in material.tables)
    referred = collect_used_keys(draft.texts, frozenset({"ref"}))
    unplaced = [one.name for one in material.figures if one.name not in placed]
    in_appendix = [name for name in unplaced if f"fig:{name}" in referred]
    folder = material.figure_folder
    figures = tuple(
        FigureFile(one.name, folder / f"{one.name}.pdf", "appendix" if one.name in unplaced else "main")
        for one in material.figures
        if one.name not in unplaced or one.name in in_appendix
    )
    generated = {one.name: mark_recorded(one.description) for one in material.figures if one.name in PROGRAM_FIGURES}
    described = {
        one.name: text if not check_caption(one.name, text, material.evidence) else CAPTION_WITHOUT_DESCRIPTION
        for one in material.figures
        if one.name in unplaced and (text := escape(one.description))
    }
    used = {strip_form(use.key) for text in draft.texts for use in find_macro_uses(text)}
    return PaperParts(
        draft=draft.model_copy(update={"captions": described | draft.captions | generated}),
        refused=tuple(refused),
        tables=tables,
        library=material.library,
        notice=render_notice(
            novelty_unchecked=is_novelty_unchecked(state, draft),
            edited=approval is not None and approval.draft is not None,
        ),
        figures=figures,
        anonymous=material.settings.anonymous,
        appendix=render_appendix(
            state,
            claims,
            origin=material.notice,
            isolation=material.isolation,
            figures=in_appendix,
            tables=[one.name for one in tables if one.placement == "appendix"],
            used=used,
            estimates=material.estimates,
            source=material.winner_code,
            checklist=material.settings.checklist or material.template.checklist,
        ),
        data=format_files(build_supplement_tables(state, claims)) if whole else {},
        evidence=replace(material.evidence, captions=generated),
    )


def format_statistics(material: PaperContext, datasets: Sequence[str], limit: int = 24) -> tuple[str, ...]:
    """Return the measured values of the primary metric on these datasets, one line per condition; a figure may show
    them."""
    primary = material.plan.primary_metric
    found = [one for one in material.claims.means if one.name == primary.name and one.dataset in datasets][:limit]
    return tuple(
        f"{_describe_claim(material.plan, one)}: "
        f"{to_plain_text(material.printed_results[f'{one.key}.pm'])} over {one.n} seeds"
        for one in found
    )


class PrimaryClaims(NamedTuple):
    """Keys of the differences and means at the center of a paper, which its writers always see."""

    differences: frozenset[str]
    means: frozenset[tuple[str, str, str]]
    """(dataset, metric, condition)"""


def _build_claim_lines(material: PaperContext) -> tuple[ClaimLine, ...]:
    plan, found = material.plan, list[ClaimLine]()
    means = material.primary_claims.means
    for claim in _select_claims(plan, material.claims.means):
        listed = claim.arm in REFERENCE_ARM_TITLES or (claim.dataset, claim.name, claim.condition) in means
        subject = _describe_claim(plan, claim.model_copy(update={"condition": claim.arm}))
        for form in SHOWN_FORMS:
            if (value := material.printed_results.get(key := f"{claim.key}.{form}")) is not None:
                found.append(ClaimLine(key=key, printed=value.tex, meaning=subject, listed=listed))
    return tuple(found)


def _select_claims(plan: DataPlan, claims: Sequence[ClaimT]) -> list[ClaimT]:
    """Select the claims from which a paper is written: the plan's metrics in its order, then values that only the code
    reports.

    Predictions are scored by every applicable metric; metrics that the plan does not name are left out.
    """
    place = {metric.name: k for k, metric in enumerate(plan.metrics)}
    named = [claim for claim in claims if claim.name in place or claim.grade == "logged"]
    return sorted(named, key=lambda claim: place.get(claim.name, len(place)))


def _describe_claim(plan: DataPlan, claim: Claim) -> str:
    """Describe a mean or a paired difference with the names that readers see."""
    subject = _name_condition(plan, claim.condition)
    if isinstance(claim, ClaimDifference):
        subject = f"{subject} minus {_name_condition(plan, claim.other)}"
    split = f" ({claim.shown_split})" * bool(claim.shown_split)
    return f"{plan.name_metric(claim.name)} on {plan.name_dataset(claim.dataset)}{split}, {subject}"


def _name_condition(plan: DataPlan, condition: str) -> str:
    return REFERENCE_ARM_TITLES.get(condition) or plan.name_condition(condition)


def _describe_effect(plan: DataPlan, effect: Effect) -> str:
    datasets = join_names([plan.name_dataset(name) for name in list_effect_datasets(plan, effect)])
    return f"{find_effect_metric(effect, plan).display_name} on {datasets}, {describe_estimand(effect.estimand, plan)}"
