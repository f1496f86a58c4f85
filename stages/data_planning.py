"""Turn the text of an idea into a typed data plan and materialised datasets, before any code is written."""

from __future__ import annotations

from asyncio import to_thread
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any

from labwright.models.client import ModelClient
from labwright.models.errors import ContextTooLong, ModelConfigError
from labwright.models.prices import format_price
from labwright.models.roles.experiment_code import CODE, CODER
from labwright.models.roles.node_assessment import FEEDBACK
from labwright.models.roles.role import AnyRole
from labwright.models.roles.study_plan import (
    PLAN,
    REPOSITORY_PLAN,
    PlanInputs,
    PlanningInputs,
    PlanRevision,
    ProtocolReviewInputs,
    SubjectEntry,
)
from labwright.models.settings import SubjectSettings
from labwright.record.claims.hypothesis_tests import find_cluster_faults
from labwright.record.claims.open_questions import hash_idea
from labwright.record.control_files import describe_seen_results
from labwright.record.errors import UserError
from labwright.record.estimands import find_hypothesis_faults
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import REDUCTION_AUTHOR, PlanAmended, PlanPrepared
from labwright.record.plan_edits import apply_plan_edits
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES
from labwright.record.run_folder import write_file
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, FrozenScorer, MetricSpec, ResourceNeeds
from labwright.record.schema.hypotheses import FindingAnswer, ProtocolFinding
from labwright.record.schema.idea import Idea, UserAnchor
from labwright.record.schema.prior_work import collect_shared_uses
from labwright.sandbox.data.preparation import SPLIT_SHARES
from labwright.sandbox.datasets import DatasetSources, list_choices, materialise
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.job import DatasetError
from labwright.sandbox.metrics import (
    METRICS,
    can_score,
    complete_metric,
    find_formula_faults,
    formula_text,
    write_formulas,
)
from labwright.sandbox.packages import RunPackages
from labwright.sandbox.scorers import describe_scorer, freeze_scorer, read_scorer
from labwright.sandbox.scoring import compute_constants
from labwright.sandbox.settings import SandboxSettings
from labwright.search.design_forecast import (
    DesignForecast,
    estimate_cell_times,
    forecast_design,
    read_cell_times,
    reduce_design,
)
from labwright.search.settings import SearchSettings
from labwright.stages.difference_tables import find_tuning_faults, find_unknown
from labwright.stages.document_summaries import format_statements, read_context
from labwright.stages.nodes.repository_program import check_repository
from labwright.stages.paper.citations import check_library
from labwright.stages.prompt_inputs import recall_studies
from labwright.stages.protocol_review import (
    add_omissions,
    describe_estimands,
    find_unanswered_rows,
    format_complaint,
    read_prior_work,
    review_plan,
)
from labwright.stages.repository.paper_study import (
    RepositoryPlanning,
    build_search_settings,
    has_only_word_arms,
    show_repository,
)
from labwright.stages.run_context import RunContext, run_once, wait_at_gate
from labwright.stages.settings import MAX_AMEND_CALLS, MAX_PLAN_CALLS

UNREADABLE_ANSWER = "the previous answer could not be parsed: answer in the requested form, with nothing else"
TOO_LARGE = (
    "the design does not fit the hours of the run (see what they can decide): reduce levels, datasets or training that "
    "no confirmatory hypothesis needs, then tuning trials; if the estimate is too high, correct `expected_seconds`"
)


class PlanError(UserError):
    """Raised when no usable data plan was obtained. The user can name datasets in the idea or choose another model."""


CHECK_TASK = "check the repository"
"""Step that runs the unmodified user repository: before a model plans the study, or after the plan if one was given."""


async def prepare(context: RunContext) -> None:
    """Record the data plan of the run's idea and its datasets; in a repository study, first run the repository."""
    started = context.state.started
    assert started is not None

    async def check(_: ModelClient) -> None:
        await check_repository(context, started.seed)

    if context.repository is not None and started.plan is None:
        await run_once(context, CHECK_TASK, check)
    await plan_data(context)
    if context.repository is not None:
        await run_once(context, CHECK_TASK, check)


async def plan_data(context: RunContext) -> None:
    """Record the data plan and its datasets. Raises the same errors as `prepare`, except `BaselineError`."""
    await read_context(context)

    async def work(client: ModelClient) -> None:
        await check_library(context)
        idea = context.idea
        recall_studies(
            context.recorder,
            context.memory,
            " ".join((idea.title, idea.short_hypothesis, idea.abstract, *idea.datasets)),
            idea_sha256=hash_idea(idea),
            datasets=idea.datasets,
        )
        assert context.state.started is not None
        choices = await to_thread(
            read_plan_choices,
            idea,
            context.sources,
            context.scorers,
            context.state.started.seed,
            context.hub,
            subjects=tuple(context.subjects),
            room=context.executor.cell_capacity,
            packages=context.run_packages,
        )
        reached = context.state.gates.get("plan")
        proposed = reached.reached.plan if reached is not None else None
        plan = await _approve_plan(context, proposed or await _request_plan(context, client, choices), choices)
        places = {"views": context.folder.views, "labels": context.folder.labels}
        facts: list[DatasetFacts] = []
        scorers: list[FrozenScorer] = []
        for name in (use.name for use in plan.datasets):
            found = await to_thread(materialise, name, seed=choices.seed, sources=context.sources, **places)
            if name in context.scorers:
                scorers.append(freeze_scorer(name, context.scorers[name], context.folder.scorers))
                found = found.model_copy(update={"scorer": describe_scorer(scorers[-1])})
            facts.append(found)
        await check_context_window(context, plan)
        await to_thread(context.hub.fetch, plan.pretrained, context.folder.pretrained)
        installed = await to_thread(context.run_packages.install, plan.packages, context.folder.packages_lock)
        write_formulas(plan.metrics, plan.columns, context.folder.labels)
        write_file(context.folder.root / "data_plan.json", plan.model_dump_json(indent=1))
        context.recorder.append(
            PlanPrepared(
                data_plan=plan,
                datasets=tuple(facts),
                scorers=tuple(scorers),
                installed=installed,
                hub=context.hub.select_for_plan(plan),
                settings=build_search_settings(plan) if context.repository is not None else {},
                constants=await to_thread(compute_constants, context.folder.labels, plan.metrics),
            )
        )

    await run_once(context, "prepare", work)


async def _approve_plan(context: RunContext, plan: DataPlan, choices: PlanChoices) -> DataPlan:
    """Return the plan that a person approved or changed, if the run waits for one. Raises `StopRequested`."""
    if not context.state.has_gate("plan"):
        return plan
    approved = plan

    async def check(approval: CommandReceived) -> tuple[str, ...]:
        nonlocal approved
        if approval.plan is None:
            return ()
        edited = add_metric_formulas(approval.plan, choices.scorers)
        faults = await to_thread(choices.find_faults, edited)
        if not faults:
            approved = edited
        return faults

    write_file(context.folder.root / "data_plan.json", plan.model_dump_json(indent=1))
    await wait_at_gate(context, "plan", check, plan)
    return approved


async def _request_plan(context: RunContext, client: ModelClient, choices: PlanChoices) -> DataPlan:
    started = context.state.started
    assert started is not None
    await read_prior_work(context, client)
    prior = context.state.paper.prior_work.papers if context.state.paper.prior_work is not None else ()
    shared = PlanningInputs(
        idea=context.idea,
        node_seconds=context.node_seconds,
        retry_seconds=context.retry_seconds,
        run_seconds=context.run_seconds,
        rate=context.state.rate,
        device=context.device,
        room=choices.room,
        seeds=context.search.max_seeds,
        slots=context.search.num_workers,
        context=format_statements(context.state.paper.context),
        prior=prior,
        common=collect_shared_uses(prior),
        studies=context.state.list_earlier_studies(),
    )
    if context.repository is not None:
        study = RepositoryPlanning(context.repository, next(iter(choices.catalogue)))
        inputs = await to_thread(study.build_inputs, shared, context.state.repository.baseline)
        planner = DataPlanner(client, inputs, choices, context.search, REPOSITORY_PLAN, study.fit_plan)
    else:
        scored = (metric.name for one in choices.scorers.values() for metric in one.metrics)
        inputs = PlanInputs(
            **dict(shared),
            catalogue=tuple(choices.catalogue.values()),
            subjects=build_subject_entries(context.subjects),
            subject_budget=describe_subject_limits(context.state),
            metrics=tuple(dict.fromkeys((*METRICS, *scored))),
            shares=SPLIT_SHARES,
            packages=context.run_packages.names,
            hub=await to_thread(lambda: context.hub.offers),
        )
        planner = DataPlanner(client, inputs, choices, context.search)
    if started.plan is not None:
        plan = add_metric_formulas(started.plan, choices.scorers)
        await to_thread(choices.add_hub_datasets, plan)
    else:
        plan, _, complaints = await planner.ask(MAX_PLAN_CALLS)
        if plan is None:
            unanswered = context.state.calls.unanswered_calls.items()
            reasons = [one.why for key, one in unanswered if key.decision == client.decision]
            if complaints == (UNREADABLE_ANSWER,) and reasons:  # there may have been no answer at all
                complaints = reasons[-1:]
            raise PlanError(
                f"no usable data plan after {MAX_PLAN_CALLS} attempts: {'; '.join(complaints)}; name the data and "
                "metrics in the idea, or choose another --model"
            )
    review, used = started.review, {use.name for use in plan.datasets}
    if review is None or review.outcome != plan:
        reviewed = ProtocolReviewInputs(
            **{name: value for name, value in shared if name in ProtocolReviewInputs.model_fields},
            data_plan=plan,
            estimands=describe_estimands(plan),
            catalogue=tuple(one for name, one in choices.catalogue.items() if name in used),
            others=tuple(name for name in choices.catalogue if name not in used),
        )
        amend = planner.amend if started.plan is None else None
        review, plan = await review_plan(client, reviewed, amend, planner.describe_hours)
    if context.state.search.protocol_review is None:
        context.recorder.append(review)
    return plan


def build_subject_entries(subjects: Mapping[str, SubjectSettings]) -> tuple[SubjectEntry, ...]:
    """Return the language models that experiments may query, in the form that the planner sees."""
    return tuple(
        SubjectEntry(
            name=name,
            model=one.model,
            description=one.description,
            context_tokens=one.context_tokens,
            price=format_price(one.model_settings),
            calls=f"{one.concurrency} calls in parallel"
            + (f", {one.requests_a_minute:g} per minute" if one.requests_a_minute is not None else ""),
        )
        for name, one in subjects.items()
    )


def describe_subject_limits(state: RunState) -> str:
    """Describe the limits that all studied language models share; empty if none is set."""
    usd, tokens = state.read_setting("budget.subject_usd"), state.read_setting("budget.subject_tokens")
    return " and ".join(filter(None, (f"${usd:.2f}" if usd else "", f"{tokens} tokens" if tokens else "")))


@dataclass(frozen=True)
class PlanChoices:
    """Everything that a plan may use, and the check of a plan against it."""

    catalogue: dict[str, DatasetFacts]
    """Datasets by name, the user's first. Those of the hub are added when a plan asks for them."""
    scorers: Mapping[str, FrozenScorer] = field(default_factory=dict[str, FrozenScorer])
    """The user's scorers, by dataset."""
    anchors: Sequence[UserAnchor] = ()
    """Those of the idea."""
    subjects: Collection[str] = ()
    room: ResourceNeeds = field(default_factory=ResourceNeeds)
    """Maximum resources of a cell."""
    packages: RunPackages = field(default_factory=lambda: RunPackages(SandboxSettings()))
    hub: HubOffers = field(default_factory=lambda: HubOffers(SandboxSettings()))
    seed: int = 0

    def add_hub_datasets(self, plan: DataPlan) -> tuple[str, ...]:
        """Fetch the hub's datasets of a plan, and return the faults of what it asks for."""
        faults = list(self.hub.find_faults(plan))
        for use in plan.datasets:
            if use.name in self.hub.sources and use.name not in self.catalogue:
                try:
                    self.catalogue[use.name] = self.hub.sources[use.name].build_facts(self.seed)
                except DatasetError as error:
                    faults.append(f"{error}: leave it out")
        return tuple(faults)

    def find_faults(self, plan: DataPlan) -> tuple[str, ...]:
        """Return the faults of a plan, one sentence each. May query the hub and the package index."""
        faults = self.add_hub_datasets(plan) or self.find_design_faults(plan)
        return (*faults, *self.packages.find_faults(plan.packages))

    def find_design_faults(self, plan: DataPlan) -> tuple[str, ...]:
        """Return the faults that need no query, one sentence each; empty if the plan can be carried out."""
        known = {use.name: self.catalogue[use.name] for use in plan.datasets if use.name in self.catalogue}
        scorers = {name: one for name, one in self.scorers.items() if name in known}
        faults = (
            *_find_shape_faults(plan, self.catalogue),
            *find_unknown("studied model", plan.subjects, tuple(self.subjects)),
            *_find_metric_faults(plan, known, scorers),
            *find_tuning_faults(plan, self.anchors),
            *find_unmet_needs(plan, self.room),
        )
        if plan.hypotheses or not faults:
            completed = add_metric_formulas(plan, scorers)
            faults = (*faults, *find_hypothesis_faults(completed), *find_cluster_faults(plan, known))
        return faults


def read_plan_choices(
    idea: Idea, sources: DatasetSources, places: Mapping[str, str], seed: int, hub: HubOffers, **more: Any
) -> PlanChoices:
    """Read the user's datasets and scorers; `places` maps datasets to scorer files. Raises `DatasetError`."""
    scorers = {name: read_scorer(name, place)[0] for name, place in places.items()}
    own = {name: one for name, one in sources.items() if name not in hub.sources}
    catalogue = {one.name: one for one in list_choices(own, seed=seed)}
    for name in scorers.keys() & catalogue.keys():
        catalogue[name] = catalogue[name].model_copy(update={"scorer": describe_scorer(scorers[name])})
    return PlanChoices(catalogue, scorers, idea.anchors, hub=hub, seed=seed, **more)


@dataclass(frozen=True)
class DataPlanner:
    """Requests data plans until one is feasible, and reports the faults of each to the planner."""

    client: ModelClient
    inputs: PlanningInputs
    choices: PlanChoices
    search: SearchSettings
    role: AnyRole = PLAN
    fit_plan: Callable[[DataPlan], tuple[DataPlan, tuple[str, ...]]] = lambda plan: (plan, ())
    """Converts an answer to a plan, and returns further faults of it."""

    async def ask(
        self, tries: int, *, previous_plan: DataPlan | None = None, findings: tuple[ProtocolFinding, ...] = ()
    ) -> tuple[DataPlan | None, tuple[FindingAnswer, ...], tuple[str, ...]]:
        """Return a plan without faults (None after `tries` calls), the answers to findings, and the last faults.

        After the first plan the planner only edits it. It is asked once about datasets and baselines that at least two
        of the closest papers use, and once about a design that does not fit the available time or does not say what can
        be learned from its outcomes. Items that it still does not mention are printed as omitted; a design is reduced
        when its cells have been measured.

        Raises: `ModelError`.
        """
        titles = {name: entry.title for name, entry in self.choices.catalogue.items()}
        reminded_of_prior_work = reminded_of_design = False
        complaints: tuple[str, ...] = ()
        answers: dict[int, FindingAnswer] = {}
        for left in reversed(range(tries)):
            asked = {
                "before": previous_plan,
                "findings": findings,
                "complaints": complaints,
                "hours": self.describe_hours(previous_plan) if previous_plan is not None else (),
            }
            answer: DataPlan | PlanRevision | None = await self.client.ask_or_none(
                self.role,
                self.inputs.model_copy(update=asked),
                instead="the request is repeated, as often as for a plan with faults",
            )
            if answer is None:
                complaints = (UNREADABLE_ANSWER,)
                continue
            if isinstance(answer, PlanRevision):
                assert previous_plan is not None
                answers |= {one.finding: one for one in answer.answers}
                answer = apply_plan_edits(previous_plan, answer.edits)
            plan, misfits = self.fit_plan(DataPlan.model_validate(answer.model_dump()))
            previous_plan = plan
            complaints = misfits or await to_thread(self.choices.find_faults, plan)
            unanswered = find_unanswered_rows(plan, self.inputs.common, titles)
            if unanswered and left and not reminded_of_prior_work:
                complaints, reminded_of_prior_work = (*complaints, *map(format_complaint, unanswered)), True
            if left and not complaints and not reminded_of_design:
                forecast = self._forecast(plan)
                too_large = [TOO_LARGE] if forecast is not None and not forecast.fits else []
                complaints = (*find_missing_outcomes(plan), *too_large)
                reminded_of_design = bool(complaints)
            if not complaints:
                limited = limit_trials(add_metric_formulas(plan, self.choices.scorers), self.search.max_trials)
                return add_omissions(limited, unanswered), tuple(answers.values()), ()
        return None, (), complaints

    async def amend(
        self, plan: DataPlan, findings: tuple[ProtocolFinding, ...]
    ) -> tuple[DataPlan | None, tuple[FindingAnswer, ...]]:
        """Implement `stages.protocol_review.AmendPlan`: return a feasible plan and the planner's answers."""
        return (await self.ask(MAX_AMEND_CALLS, previous_plan=plan, findings=findings))[:2]

    def describe_hours(self, plan: DataPlan) -> tuple[str, ...]:
        """Return lines that say what a plan can decide in the run's time; empty if the time is unknown or the plan has
        faults."""
        found = self._forecast(plan)
        return found.lines if found is not None else ()

    def _forecast(self, plan: DataPlan) -> DesignForecast | None:
        if not 0 < self.inputs.run_seconds < inf or self.choices.find_design_faults(plan):
            return None
        return forecast_design(
            add_metric_formulas(plan, self.choices.scorers),
            None,
            self.search,
            self.inputs.run_seconds,
            sizes={name: entry.sizes for name, entry in self.choices.catalogue.items()},
        )


def find_missing_outcomes(plan: DataPlan) -> Iterator[str]:
    """Yield one sentence for each confirmatory hypothesis that does not say what can be learned from its outcomes."""
    yield from (
        f"hypothesis {one.id!r} has no `outcomes`: write what a colleague would learn if it is supported, if it is "
        "refuted, and if it stays open"
        for one in plan.hypotheses
        if one.confirmatory and one.outcomes is None
    )


def limit_trials(plan: DataPlan, limit: int | None) -> DataPlan:
    """Return the plan with at most this many tuning trials per arm; None: as planned."""
    if limit is None or plan.tuning.budget <= limit:
        return plan
    return plan.model_copy(update={"tuning": plan.tuning.model_copy(update={"budget": float(limit)})})


def add_metric_formulas(plan: DataPlan, scorers: Mapping[str, FrozenScorer]) -> DataPlan:
    """Return the plan with formulas, worst values and ranges of its metrics, except those of the user's `scorers`."""
    user_metrics = {metric.name for one in scorers.values() for metric in one.metrics}
    metrics = tuple(one if one.name in user_metrics else complete_metric(one) for one in plan.metrics)
    return plan.model_copy(update={"metrics": metrics})


PROMPT_CHARS = 40_000
"""Characters reserved for instructions, an experiment and its plots when the size of a prompt is checked."""


async def check_context_window(context: RunContext, plan: DataPlan) -> None:
    """Check that the models can read the prompts of a study. Raises `ModelConfigError`."""
    idea, planned = context.idea.model_dump_json(), plan.model_dump_json(exclude_defaults=True)
    about_code: dict[AnyRole, str] = {}
    if context.repository is None:
        about_code[CODE] = context.lab_reference
    elif not has_only_word_arms(plan):
        shown = await to_thread(show_repository, context.repository, context.state.repository.baseline)
        about_code[CODER] = shown.model_dump_json()
    try:
        for role, about in (*about_code.items(), (FEEDBACK, "")):
            await context.models.check_room(role, len(idea) + len(planned) + len(about) + PROMPT_CHARS)
    except ContextTooLong as error:
        raise ModelConfigError(
            f"{error}; the idea has {len(idea)} characters and the data plan {len(planned)}, and neither is ever "
            "truncated: shorten the longer one"
        ) from None


def find_unmet_needs(plan: DataPlan, room: ResourceNeeds) -> tuple[str, ...]:
    """Return one sentence for each arm that needs more resources than a cell can get."""
    excess = {arm.name: arm.needs.find_excess(room) for arm in plan.arms}
    return tuple(
        f"arm {name!r} needs {' and '.join(more)}: reduce its needs, or raise the limits (--gpus, "
        "sandbox.memory_gb, sandbox.timeout)"
        for name, more in excess.items()
        if more
    )


def _find_shape_faults(plan: DataPlan, catalogue: Mapping[str, DatasetFacts]) -> Iterator[str]:
    """Yield the faults of datasets, arms, levels and names."""
    for use in plan.datasets:
        entry = catalogue.get(use.name)
        if entry is None:
            yield f"there is no dataset {use.name!r}; available: {', '.join(sorted(catalogue))}"
            continue
        is_split = entry.task != "none" and "train" in entry.sizes
        if is_split and (empty := [split for split in SPLIT_SHARES if not entry.sizes.get(split)]):
            yield f"dataset {use.name!r} has no {' and no '.join(empty)} examples: choose another one"
    roles = {arm.role for arm in plan.arms}
    yield from (f"no arm has the role {role!r}" for role in ("baseline", "method") if role not in roles)
    if plan.levels and not plan.factor.strip():
        yield f"there are levels ({plan.levels[0].name}, ...) but no `factor` naming what they are levels of"
    if plan.factor.strip() and not plan.levels:
        yield f"factor {plan.factor!r} has no levels: add levels, or leave `factor` empty"
    yield from _find_skipped_cell_faults(plan)
    yield from (
        f"the arm name {arm.name!r} is reserved for a reference model: choose another one"
        for arm in plan.arms
        if arm.name in REFERENCE_ARM_TITLES
    )
    yield from (
        f"column {one.name!r} is a column of dataset {entry.name!r}: give the column that the code makes another name"
        for one in plan.columns
        for entry in catalogue.values()
        if one.name in entry.meta and any(use.name == entry.name for use in plan.datasets)
    )
    for arm in plan.arms:
        if arm.setting_of and arm.role != "ablation":
            yield f"arm {arm.name!r}: only an ablation runs with the setting of another arm: leave `setting_of` empty"
        elif arm.setting_of:
            unknown = find_unknown("baseline or method", [arm.setting_of], plan.compared_arms)
            yield from (f"arm {arm.name!r}, `setting_of`: {fault}" for fault in unknown)
    # Names that differ only in case collide as conditions, keys and headings.
    for noun, each in (
        ("arm", plan.arms),
        ("level", plan.all_levels),
        ("metric", plan.metrics),
        ("column", plan.columns),
        ("dataset", plan.datasets),
    ):
        counts = Counter(one.name.casefold() for one in each)
        yield from (f"{noun} {name!r} is defined twice" for name in sorted(counts) if counts[name] > 1)


def _find_skipped_cell_faults(plan: DataPlan) -> Iterator[str]:
    """Yield the faults of the cells that a plan leaves out."""
    for cell in plan.left_out:
        unknown = (
            *find_unknown("dataset", filter(None, [cell.dataset]), [one.name for one in plan.datasets]),
            *find_unknown("arm", filter(None, [cell.arm]), [one.name for one in plan.arms]),
            *find_unknown("level", filter(None, [cell.level]), [one.name for one in plan.all_levels]),
        )
        yield from (f"`left_out`: {fault}" for fault in unknown)
    for arm in plan.arms:
        if arm.role != "ablation" and not any(
            plan.has_cell(plan.datasets[0].name, arm.name, level) for level in plan.level_names
        ):
            yield (
                f"`left_out` removes every cell of the {arm.role} {arm.name!r} on the main dataset: keep a level, or "
                "remove the arm"
            )
    for use in plan.datasets[1:]:
        if not any(plan.has_cell(use.name, arm.name, level) for arm in plan.arms for level in plan.level_names):
            yield f"`left_out` removes every cell of dataset {use.name!r}: remove the dataset"


def _find_metric_faults(
    plan: DataPlan, known: Mapping[str, DatasetFacts], scorers: Mapping[str, FrozenScorer]
) -> Iterator[str]:
    """Yield the metric faults of a plan: metrics that cannot be computed where they are needed, and wrong
    directions."""
    own = {metric.name: metric for one in scorers.values() for metric in one.metrics}
    for metric in plan.metrics:
        if formula_text(metric) and metric.name not in own:
            yield from _find_formula_faults(metric, plan, known)
    for name, entry in known.items():
        if (names := _find_available_metrics(entry, scorers.get(name), plan)) is None:
            continue
        place, tuned = f"{name!r} ({_describe_task(entry)})", plan.tuning.datasets or (plan.datasets[0].name,)
        if plan.primary_metric.name not in names:
            yield (
                f"the primary metric {plan.primary_metric.name!r} cannot be computed on {place}; "
                f"available: {', '.join(sorted(names))}"
            )
        elif plan.tuning.metric not in ("", *names) and name in tuned:
            yield f"tuning.metric {plan.tuning.metric!r} cannot be computed on {place}"
    for metric in plan.metrics:
        computed = own.get(metric.name) or METRICS.get(metric.name)
        if computed is not None and computed.higher_is_better != metric.higher_is_better:
            better = "lower" if metric.higher_is_better else "higher"
            yield (
                f"metric {metric.name!r} has the wrong direction: {better} is better, so set higher_is_better to "
                f"{str(not metric.higher_is_better).lower()}"
            )


def _find_formula_faults(metric: MetricSpec, plan: DataPlan, known: Mapping[str, DatasetFacts]) -> Iterator[str]:
    """Yield the faults of a metric's formula on the main dataset and on every other dataset that it applies to."""
    if not metric.name.isidentifier() or metric.name in METRICS:
        yield (f"metric {metric.name!r} has a formula, so it needs a new name of letters, digits and _")
        return
    for number, entry in enumerate(known.values()):
        if entry.task != "none" and (not number or can_score(metric, entry.classes, _list_columns(plan, entry))):
            faults = tuple(
                find_formula_faults(metric, entry.classes, entry.meta, entry.class_names, submitted=plan.columns)
            )
            yield from faults
            if faults:
                return


def _list_columns(plan: DataPlan, entry: DatasetFacts) -> dict[str, Sequence[str]]:
    """Return the columns that formulas on a dataset may read, with their values; no values if there are many or if code
    makes the column.
    """
    return {**dict.fromkeys((one.name for one in plan.columns), ()), **entry.meta}


def _find_available_metrics(entry: DatasetFacts, scorer: FrozenScorer | None, plan: DataPlan) -> frozenset[str] | None:
    """Return the metrics that can be computed on a dataset; None if the code may report any metric."""
    names = {
        one.name
        for one in (*METRICS.values(), *plan.metrics)
        if can_score(one, entry.classes, _list_columns(plan, entry))
    }
    built_in = None if entry.task == "none" else frozenset(names)
    if scorer is None:
        return built_in
    own = frozenset(metric.name for metric in scorer.metrics)
    return own if scorer.takes == "artifact" else own | (built_in or frozenset())


def _describe_task(entry: DatasetFacts) -> str:
    if entry.task == "none":
        return "a folder without labels"
    return f"{entry.classes} classes" if entry.classes else "regression"


# Reduce a design that does not fit the available time, after its cells have been measured and before tuning begins.
# Each reduction is an amendment of the plan with its reason. It depends on measured time, so a run in `ticket` order
# is never reduced; the events ensure that a resumed run makes the same reductions.


def fit_design(context: RunContext) -> None:
    """Amend the plan once per run, so that everything before the lock fits into the time left by fresh seeds."""
    state, left = context.state, context.seconds_left()
    times = read_cell_times(state.nodes.values(), estimate_cell_times(context.plan).average)
    if (
        context.search.order == "ticket"
        or times is None
        or not isfinite(left)
        or state.search.current_lock is not None
        or any(one.by == REDUCTION_AUTHOR for one in state.search.amendments)
    ):
        return
    for one in reduce_design(context.plan, times, context.search, left):
        context.recorder.append(
            PlanAmended(
                number=len(context.state.search.amendments) + 1,
                data_plan=one.plan,
                why=one.why,
                by=REDUCTION_AUTHOR,
                seen=describe_seen_results(context.state),
            )
        )
        write_file(context.folder.root / "data_plan.json", one.plan.model_dump_json(indent=1))
