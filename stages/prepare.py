"""From an idea's prose to a typed data plan and materialised datasets, before any code is written."""

from __future__ import annotations

from asyncio import to_thread
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from labwright.models.client import ModelClient
from labwright.models.errors import ContextTooLong, ImagesRefused, ModelConfigError, ModelError
from labwright.models.prices import in_words as price_in_words
from labwright.models.roles.assessing import FEEDBACK, FeedbackInputs
from labwright.models.roles.coding import CODE, CodeInputs, Study
from labwright.models.roles.patching import ARM_PATCH
from labwright.models.roles.planning import (
    PLAN,
    REPOSITORY_PLAN,
    AmendedPlan,
    CatalogueEntry,
    PlanInputs,
    PlanningInputs,
    SubjectEntry,
)
from labwright.models.roles.protocol import ProtocolReviewInputs
from labwright.models.roles.role import AnyRole
from labwright.models.settings import SubjectSettings
from labwright.record.claims.decisions import cluster_faults
from labwright.record.errors import ExpectedFailure
from labwright.record.estimands import hypothesis_faults
from labwright.record.events.searching import Prepared
from labwright.record.fold.state import RunState
from labwright.record.folder import write_file
from labwright.record.ladder import RUNGS
from labwright.record.nouns.data import DataPlan, DatasetFacts, MetricSpec, Needs, Scorer
from labwright.record.nouns.idea import GivenAnchor, Idea
from labwright.record.nouns.protocol import FindingAnswer, ProtocolFinding
from labwright.record.nouns.tuning import Tuning
from labwright.sandbox.data.splits import SHARES
from labwright.sandbox.datasets import Bundled, Sources, catalogue, materialise
from labwright.sandbox.errors import DatasetError
from labwright.sandbox.formulas import can, declared, formula, formula_faults, keep, written
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.metrics import METRICS
from labwright.sandbox.packages.of_run import RunPackages
from labwright.sandbox.scorers import describe_scorer, freeze, read_scorer
from labwright.stages.bench import Bench, do_work
from labwright.stages.briefs import GOALS
from labwright.stages.digests import lines_of, read_context
from labwright.stages.nodes.of_repository import check_repository
from labwright.stages.paper.citations import check_library
from labwright.stages.planned_tuning import tuning_faults
from labwright.stages.prior_work import common_to, complaint_of, read_prior_work, unanswered, with_omissions
from labwright.stages.protocol import estimands_of, reviewed
from labwright.stages.repository.patches import by_words, patching, search_of, shown_of
from labwright.stages.repository.planning import RepositoryStudy
from labwright.stages.settings import AMENDS, PLANS

UNREADABLE = "the answer before could not be read as a data plan: answer with all its fields, and nothing else"


class PlanError(ExpectedFailure):
    """No usable data plan came of the idea. Who acts: the person; name datasets in the idea, or another model."""


CHECK = "check the repository"
"""The step that runs a user's repository as it is; before a model plans a study of it, after a plan that was given."""


async def prepare(bench: Bench) -> None:
    """Record the data plan of the run's idea, and its datasets; of a study of a repository it is run first, as it is.

    Raises: `PlanError`, `BaselineError`, and `ModelConfigError` where the models cannot read what the study tells them.
    """
    started = bench.state.started
    assert started is not None

    async def check(_: ModelClient) -> None:
        await check_repository(bench, started.seed)

    if bench.repository is not None and started.plan is None:
        await do_work(bench, CHECK, check)
    await planned(bench)
    if bench.repository is not None:
        await do_work(bench, CHECK, check)


async def planned(bench: Bench) -> None:
    """Record the data plan of the run's idea, and its datasets. Raises: what `prepare` raises, but `BaselineError`."""
    await read_context(bench)

    async def work(client: ModelClient) -> None:
        await check_library(bench)
        plan = await _plan(bench, client)
        assert bench.state.started is not None
        seed = bench.state.started.seed
        facts = [
            await to_thread(
                materialise,
                use.name,
                views=bench.folder.views,
                labels=bench.folder.labels,
                seed=seed,
                sources=bench.sources,
            )
            for use in plan.datasets
        ]
        scorers = {
            use.name: freeze(use.name, bench.scorers[use.name], bench.folder.scorers)
            for use in plan.datasets
            if use.name in bench.scorers
        }
        facts = [
            one.model_copy(update={"scorer": describe_scorer(scorers[one.name])}) if one.name in scorers else one
            for one in facts
        ]
        await check_room(bench, Study(idea=bench.idea, data_plan=plan, facts=tuple(facts)))
        if bench.hub is not None and plan.pretrained:
            await to_thread(bench.hub.fetch, plan.pretrained, bench.folder.pretrained)
        installed = (
            await to_thread(bench.more_packages.install, plan.packages, bench.folder.packages)
            if bench.more_packages
            else None
        )
        keep(plan.metrics, bench.folder.labels)
        write_file(bench.folder.root / "data_plan.json", plan.model_dump_json(indent=1))
        bench.recorder.append(
            Prepared(
                data_plan=plan,
                datasets=tuple(facts),
                scorers=tuple(scorers.values()),
                installed=installed,
                hub=bench.hub.taken(plan) if bench.hub is not None else (),
                settings=search_of(plan) if bench.repository is not None else {},
            )
        )

    await do_work(bench, "prepare", work)


async def _plan(bench: Bench, client: ModelClient) -> DataPlan:
    assert bench.state.started is not None
    await read_prior_work(bench, client)
    prior = bench.state.prior_work
    hub = bench.hub
    asked = hub.sources if hub is not None else {}
    entries = await to_thread(
        catalogue,
        {name: one for name, one in bench.sources.items() if name not in asked},
        seed=bench.state.started.seed,
    )
    scorers = {name: read_scorer(name, place)[0] for name, place in bench.scorers.items()}
    known = tuple(_entry(one, scorers.get(one.name)) for one in entries)
    shared = PlanningInputs(
        idea=bench.idea,
        node_seconds=bench.node_seconds,
        retry_seconds=bench.retry_seconds,
        run_seconds=bench.run_seconds,
        rate=bench.state.rate,
        device=bench.device,
        room=bench.executor.room,
        seeds=bench.search.max_seeds,
        context=lines_of(bench.state.context),
        prior=prior.papers if prior is not None else (),
        common=common_to(prior),
    )
    planner = Planner(
        client,
        shared,
        catalogue={one.name: one for one in known},
        scorers=scorers,
        order=bench.search.order,
        packages=bench.more_packages,
        hub=hub,
        seed=bench.state.started.seed,
    )
    if bench.repository is not None:
        study = RepositoryStudy(bench.repository, known[0].name)
        planner = replace(
            planner,
            role=REPOSITORY_PLAN,
            fit=study.fitted,
            inputs=await to_thread(study.inputs, shared, bench.state.code.baseline),
        )
    else:
        metrics = dict.fromkeys((*METRICS, *(metric.name for one in scorers.values() for metric in one.metrics)))
        planner = replace(
            planner,
            subjects=tuple(bench.subjects),
            inputs=PlanInputs(
                **{name: getattr(shared, name) for name in PlanningInputs.model_fields},
                catalogue=known,
                subjects=entries_of(bench.subjects),
                subject_budget=in_words(bench.state),
                metrics=tuple(metrics),
                shares=SHARES,
                packages=bench.more_packages.names if bench.more_packages else (),
                hub=await to_thread(lambda: hub.offers) if hub is not None else (),
            ),
        )
    given, complaints = bench.state.started.plan, ()
    if given is None:
        plan, complaints = await planner.ask(PLANS, fatal=ContextTooLong)
    else:
        plan = with_worst(repeatable(given, bench.search.order), scorers)
    if plan is None:
        whys = [one.why for key, one in bench.state.unanswered.items() if key.decision == client.decision]
        if complaints == (UNREADABLE,) and whys:  # there may have been no answer at all
            complaints = whys[-1:]
        raise PlanError(
            f"no usable data plan after {PLANS} tries: {'; '.join(complaints)}; say in the idea "
            "which data and metrics to take, or choose another --model"
        )
    if hub is not None:
        found, _ = await to_thread(with_asked, {one.name: one for one in known}, plan, hub, planner.seed)
        known = tuple(found.values())
    used = {use.name for use in plan.datasets}
    return await reviewed(
        bench,
        client,
        plan,
        ProtocolReviewInputs(
            idea=bench.idea,
            data_plan=plan,
            estimands=estimands_of(plan),
            catalogue=tuple(one for one in known if one.name in used),
            others=tuple(one.name for one in known if one.name not in used),
            seeds=bench.search.max_seeds,
            node_seconds=bench.node_seconds,
            retry_seconds=bench.retry_seconds,
            run_seconds=bench.run_seconds,
            device=bench.device,
            rate=bench.state.rate,
            prior=planner.inputs.prior,
            common=planner.inputs.common,
        ),
        planner.amend if given is None else None,
    )


def entries_of(subjects: Mapping[str, SubjectSettings]) -> tuple[SubjectEntry, ...]:
    """The language models that experiments may ask, as the planner is told of them."""
    return tuple(
        SubjectEntry(
            name=name,
            model=one.model,
            description=one.description,
            context_tokens=one.context_tokens,
            price=price_in_words(one.settings),
            calls=f"{one.concurrency} calls at a time"
            + (f", {one.requests_a_minute:g} a minute" if one.requests_a_minute is not None else ""),
        )
        for name, one in subjects.items()
    )


def in_words(state: RunState) -> str:
    """What subjects may take together; empty where nothing was set."""
    usd, tokens = state.setting("budget.subject_usd"), state.setting("budget.subject_tokens")
    return " and ".join(filter(None, (f"${usd:.2f}" if usd else "", f"{tokens} tokens" if tokens else "")))


@dataclass(frozen=True)
class Planner:
    """Asks for a data plan until it can be carried out, and shows what is wrong with the one before."""

    client: ModelClient
    inputs: PlanningInputs
    catalogue: Mapping[str, CatalogueEntry]
    scorers: Mapping[str, Scorer]
    order: str
    role: AnyRole = PLAN
    fit: Callable[[DataPlan], tuple[DataPlan, tuple[str, ...]]] = lambda plan: (plan, ())
    """What a plan is made of an answer, and what is wrong with it besides."""
    subjects: tuple[str, ...] = ()
    packages: RunPackages | None = None
    hub: HubOffers | None = None
    seed: int = 0

    async def ask(
        self,
        tries: int,
        *,
        before: DataPlan | None = None,
        findings: tuple[ProtocolFinding, ...] = (),
        fatal: type[ModelError] = ImagesRefused,
    ) -> tuple[DataPlan | None, tuple[str, ...]]:
        """A plan without faults after so many calls at most, else None and what was wrong with the last one.

        Of what two of the closest papers use, nothing is asked for twice: what the second plan does not tell of either
        is printed as omitted. Raises `ModelError`, a `ContextTooLong` that is fatal as `ModelConfigError`.
        """
        known, told = dict(self.catalogue), False
        titles = {name: entry.title for name, entry in known.items()}
        complaints: tuple[str, ...] = ()
        for left in reversed(range(tries)):
            asked = self.inputs.model_copy(update={"before": before, "findings": findings, "complaints": complaints})
            try:
                answer: DataPlan | None = await self.client.usable(
                    self.role, asked, fatal=fatal, then="it is asked again, as often as for a plan with faults"
                )
            except ContextTooLong as error:
                raise ModelConfigError(str(error)) from None
            if answer is None:
                complaints = (UNREADABLE,)
                continue
            plan, misfits = self.fit(as_recorded(answer))
            known, unasked = (
                (known, ()) if self.hub is None else await to_thread(with_asked, known, plan, self.hub, self.seed)
            )
            complaints = (
                unasked
                or misfits
                or faults_of(
                    plan,
                    known,
                    scorers=self.scorers,
                    anchors=self.inputs.idea.anchors,
                    subjects=self.subjects,
                    room=self.inputs.room,
                )
            )
            if self.packages is not None:
                complaints = (*complaints, *await to_thread(self.packages.faults, plan.packages))
            silent, before = unanswered(plan, self.inputs.common, titles), plan
            if silent and left and not told:
                complaints, told = (*complaints, *map(complaint_of, silent)), True
            if not complaints:
                return with_omissions(with_worst(repeatable(plan, self.order), self.scorers), silent), ()
        return None, complaints

    async def amend(
        self, plan: DataPlan, findings: tuple[ProtocolFinding, ...]
    ) -> tuple[DataPlan | None, tuple[FindingAnswer, ...]]:
        """`stages.protocol.Amend`: a plan that can be carried out, with the planner's answers."""
        found, _ = await self.ask(AMENDS, before=plan, findings=findings)
        if not isinstance(found, AmendedPlan):
            return None, ()
        return DataPlan.model_validate(found.model_dump(exclude={"answers"})), found.answers


def as_recorded(answer: DataPlan) -> DataPlan:
    """A planner's answer as a plan like any other, with its answers to findings."""
    kind = AmendedPlan if isinstance(answer, AmendedPlan) else DataPlan
    return answer if type(answer) is kind else kind.model_validate(answer.model_dump())


def with_asked(
    known: Mapping[str, CatalogueEntry], plan: DataPlan, hub: HubOffers, seed: int
) -> tuple[dict[str, CatalogueEntry], tuple[str, ...]]:
    """The catalogue with the datasets of the hub that a plan takes, fetched and read; and what is wrong with what it
    asks for."""
    found, faults = dict(known), list(hub.faults(plan))
    for use in plan.datasets:
        if use.name in hub.sources and use.name not in found:
            try:
                found[use.name] = _entry(hub.sources[use.name].facts(seed), None)
            except DatasetError as error:
                faults.append(f"{error}: do without it")
    return found, tuple(faults)


def repeatable(plan: DataPlan, order: str) -> DataPlan:
    """The plan; in `ticket` order, where measured time decides nothing, with trials as its currency."""
    if order == "arrival" or plan.tuning.currency == "trials":
        return plan
    terms = plan.tuning.model_copy(update={"currency": "trials", "budget": Tuning().budget})
    return plan.model_copy(update={"tuning": terms})


def with_worst(plan: DataPlan, scorers: Mapping[str, Scorer] | None = None) -> DataPlan:
    """The plan with formulas, worst values and ranges of the metrics that we compute, not the user's `scorers`."""
    own = {metric.name for one in (scorers or {}).values() for metric in one.metrics}
    return plan.model_copy(
        update={"metrics": tuple(metric if metric.name in own else declared(metric) for metric in plan.metrics)}
    )


def _entry(one: Bundled | DatasetFacts, scorer: Scorer | None) -> CatalogueEntry:
    """A dataset as the planner sees it, with the sizes that its splits will have to within a few examples."""
    common = CatalogueEntry(
        name=one.name,
        title=one.title,
        examples=one.examples,
        features=one.features,
        classes=one.classes,
        sizes={split: round(share * one.examples) for split, share in SHARES.items()},
        scorer=describe_scorer(scorer) if scorer is not None else "",
    )
    if isinstance(one, Bundled):
        return common
    return common.model_copy(
        update={
            "own": True,
            "sizes": one.sizes,
            "task": one.task,
            "target": one.target,
            "columns": one.columns,
            "class_names": one.class_names,
            "meta": one.meta,
            "meta_in_test": one.meta_in_test,
            "shape": one.shape,
            "missing": one.missing,
            "split_rule": one.split_rule,
            "form": one.form,
            "warnings": one.warnings,
            "command": one.command,
        }
    )


PROGRAM = 24_000
"""Characters of an experiment with its plots, as models write them."""


async def check_room(bench: Bench, study: Study) -> None:
    """Refuse a study whose prompts its models cannot read. Raises `ModelConfigError`."""
    shared = {name: getattr(study, name) for name in Study.model_fields}
    code = CodeInputs(
        **shared,
        stage="preliminary",
        kind="draft",
        goal=GOALS["preliminary"],
        node_seconds=bench.node_seconds,
        device=bench.device,
        network=bench.network,
        lab_reference=bench.lab_reference,
        packages=bench.importable,
        pretrained=bench.pretrained,
    )
    judged = FeedbackInputs(**shared, stage="preliminary", kind="draft", plan="", varies="", code={}, measurements=())
    try:
        if bench.repository is None:
            await bench.models.check_room(CODE, code, beside=PROGRAM)
        elif not by_words(study.data_plan):
            shown = await to_thread(shown_of, bench.repository, bench.state.code.baseline)
            await bench.models.check_room(ARM_PATCH, patching(code, shown), beside=PROGRAM)
        await bench.models.check_room(FEEDBACK, judged, beside=PROGRAM)
    except ContextTooLong as error:
        idea, plan = (len(one.model_dump_json()) for one in (study.idea, study.data_plan))
        raise ModelConfigError(
            f"{error}; here the idea has {idea} characters and the data plan {plan}, which are "
            "never cut: shorten the longer one"
        ) from None


SPLITS = ("train", "dev", "validation", "test")


def faults_of(
    plan: DataPlan,
    catalogue: Mapping[str, CatalogueEntry],
    *,
    scorers: Mapping[str, Scorer] | None = None,
    anchors: Sequence[GivenAnchor] = (),
    subjects: Collection[str] = (),
    room: Needs | None = None,
) -> tuple[str, ...]:
    """What is wrong with a plan, one sentence each; empty when it can be carried out.

    `scorers` are the user's own, by dataset, `anchors` those of the idea, `room` is the most that a cell can have.
    """
    known = {use.name: catalogue[use.name] for use in plan.datasets if use.name in catalogue}
    of_plan = {name: one for name, one in (scorers or {}).items() if name in known}
    unknown = (
        f"there is no subject {name!r} to ask; there are: {', '.join(subjects) or 'none'}"
        for name in plan.subjects
        if name not in subjects
    )
    found = (
        *_shape(plan, catalogue),
        *unknown,
        *_metrics(plan, known, of_plan),
        *tuning_faults(plan, anchors),
        *unmet(plan, room),
    )
    if not found:
        found = (*hypothesis_faults(with_worst(plan, of_plan)), *cluster_faults(plan, known))
    return found


def unmet(plan: DataPlan, room: Needs | None) -> tuple[str, ...]:
    """What arms need and a cell cannot have here, one sentence an arm."""
    found = {arm.name: arm.needs.beyond(room) for arm in plan.arms if room is not None}
    return tuple(
        f"arm {name!r} needs {' and '.join(more)}: plan with less, or give experiments more (--gpus, "
        "sandbox.memory_gb, sandbox.timeout)"
        for name, more in found.items()
        if more
    )


def given_faults(
    plan: DataPlan,
    idea: Idea,
    sources: Sources,
    places: Mapping[str, str],
    seed: int,
    subjects: Collection[str] = (),
    room: Needs | None = None,
    hub: HubOffers | None = None,
) -> tuple[str, ...]:
    """What is wrong with a plan that a person gives; `places` are those of the scorers. Raises `DatasetError`."""
    scorers = {name: read_scorer(name, place)[0] for name, place in places.items()}
    own = {name: one for name, one in sources.items() if hub is None or name not in hub.sources}
    known, faults = {one.name: _entry(one, scorers.get(one.name)) for one in catalogue(own, seed=seed)}, ()
    if hub is not None:
        known, faults = with_asked(known, plan, hub, seed)
    return faults or faults_of(plan, known, scorers=scorers, anchors=idea.anchors, subjects=subjects, room=room)


def _shape(plan: DataPlan, catalogue: Mapping[str, CatalogueEntry]) -> Iterator[str]:
    """What is wrong with datasets, arms and levels, and with names."""
    for use in plan.datasets:
        entry = catalogue.get(use.name)
        if entry is None:
            yield f"there is no dataset {use.name!r}; there are {', '.join(sorted(catalogue))}"
        elif (
            entry.task != "none"
            and "train" in entry.sizes
            and (  # some are known only once it is cut, or not ours
                empty := [split for split in SPLITS if not entry.sizes.get(split)]
            )
        ):
            yield f"dataset {use.name!r} has no {' and no '.join(empty)} examples: take another one"
    roles = {arm.role for arm in plan.arms}
    yield from (f"no arm has the role {role!r}" for role in ("baseline", "method") if role not in roles)
    if plan.levels and not plan.factor.strip():
        yield f"there are levels ({plan.levels[0].name}, ...) of nothing: say in `factor` what they are levels of"
    if plan.factor.strip() and not plan.levels:
        yield f"factor {plan.factor!r} has no levels: give them, or leave it empty"
    for levels in (factor.levels for factor in plan.factors) if plan.factors else (plan.levels,):
        values = Counter(level.value for level in levels if level.value is not None)
        yield from (f"two levels have the value {value:g}" for value, count in values.items() if count > 1)
    yield from _left_out(plan)
    yield from (
        f"the arm name {arm.name!r} is taken by a reference arm of the program: give another one"
        for arm in plan.arms
        if arm.name in RUNGS
    )
    # Told apart by capitals alone, they collide as conditions, keys and headings.
    for noun, each in (
        ("arm", plan.arms),
        ("level", plan.all_levels),
        ("metric", plan.metrics),
        ("dataset", plan.datasets),
    ):
        counts = Counter(one.name.casefold() for one in each)
        yield from (f"{noun} {name!r} is named twice" for name in sorted(counts) if counts[name] > 1)


def _left_out(plan: DataPlan) -> Iterator[str]:
    """What is wrong with the cells that a plan does without."""
    for one in plan.left_out:
        for noun, name, names in (
            ("dataset", one.dataset, plan.datasets),
            ("arm", one.arm, plan.arms),
            ("level", one.level, plan.all_levels),
        ):
            if name and name not in {known.name for known in names}:
                yield f"`left_out` names the {noun} {name!r}, which the plan does not have"
    for arm in plan.arms:
        if arm.role != "ablation" and not any(
            plan.owes(plan.datasets[0].name, arm.name, level) for level in plan.level_names
        ):
            yield (
                f"`left_out` leaves nothing of the {arm.role} {arm.name!r} on the main dataset: keep a level, or "
                "leave out the arm itself"
            )
    for use in plan.datasets[1:]:
        if not any(plan.owes(use.name, arm.name, level) for arm in plan.arms for level in plan.level_names):
            yield f"`left_out` leaves nothing of dataset {use.name!r}: leave out the dataset itself"


def _metrics(plan: DataPlan, known: Mapping[str, CatalogueEntry], scorers: Mapping[str, Scorer]) -> Iterator[str]:
    """The primary metric must be had on every dataset, one that programs compute on some dataset, and every direction
    must be the program's own."""
    had = {name: _had(entry, scorers.get(name), plan.metrics) for name, entry in known.items()}
    formulas = [
        metric
        for metric in plan.metrics
        if written(metric)
        and not any(metric.name in {one.name for one in scorer.metrics} for scorer in scorers.values())
    ]
    for metric in formulas:
        yield from _formula(metric, plan, known)
    for name, names in had.items():
        if names is not None and plan.primary.name not in names:
            yield (
                f"the primary metric {plan.primary.name!r} cannot be computed on {name!r} ({_task(known[name])}); "
                f"there are {', '.join(sorted(names))}"
            )
        elif (
            names is not None
            and plan.tuning.metric not in ("", *names)
            and (name in (plan.tuning.datasets or (plan.datasets[0].name,)))
        ):
            yield f"tuning.metric {plan.tuning.metric!r} cannot be computed on {name!r} ({_task(known[name])})"
    programs: dict[str, MetricSpec] = (
        dict(METRICS)
        | {metric.name: metric for metric in formulas}
        | {metric.name: metric for one in scorers.values() for metric in one.metrics}
    )
    for metric in plan.metrics[1:]:
        if (
            had
            and metric.name in programs
            and all(names is not None and metric.name not in names for names in had.values())
        ):
            yield (
                f"metric {metric.name!r} cannot be computed on any dataset of the plan "
                f"({', '.join(f'{name}: {_task(entry)}' for name, entry in known.items())})"
            )
    for metric in plan.metrics:
        ours = programs.get(metric.name)
        if ours is not None and ours.higher_is_better != metric.higher_is_better:
            yield (
                f"metric {metric.name!r} has the wrong direction: it is better when "
                f"{'higher' if ours.higher_is_better else 'lower'}, so higher_is_better is "
                f"{str(ours.higher_is_better).lower()}"
            )


def _formula(metric: MetricSpec, plan: DataPlan, known: Mapping[str, CatalogueEntry]) -> Iterator[str]:
    """What is wrong with a metric's formula: on the main dataset, and on others that it can be computed on."""
    if not metric.name.isidentifier() or metric.name in METRICS:
        yield (f"metric {metric.name!r} has a formula: its name has to be one of its own, of letters, digits and _")
        return
    for number, entry in enumerate(known.values()):
        if entry.task != "none" and (not number or can(metric, entry.classes, entry.meta)):
            faults = tuple(formula_faults(metric, entry.classes, entry.meta, entry.class_names))
            yield from faults
            if faults:
                return
    to = formula(metric.formula).other if metric.compares else ""
    if to and metric.name in (plan.primary.name, plan.tuning.metric):
        yield (
            f"metric {metric.name!r}: flip_rate compares conditions, so it neither is primary nor tunes: put "
            "another one before it"
        )
    if to and to not in (*plan.conditions, *(arm.name for arm in plan.arms), *plan.level_names):
        yield f"metric {metric.name!r}: flip_rate(to={to}) names no condition, arm or level of the plan"


def _had(entry: CatalogueEntry, scorer: Scorer | None, metrics: Sequence[MetricSpec]) -> frozenset[str] | None:
    """The metrics that are computed on a dataset; None where code gives what it likes."""
    ours = (
        None
        if entry.task == "none"
        else frozenset(
            metric.name for metric in (*METRICS.values(), *metrics) if can(metric, entry.classes, entry.meta)
        )
    )
    if scorer is None:
        return ours
    own = frozenset(metric.name for metric in scorer.metrics)
    return own if scorer.takes == "artifact" else own | (ours or frozenset())


def _task(entry: CatalogueEntry) -> str:
    if entry.task == "none":
        return "a folder without labels"
    return f"{entry.classes} classes" if entry.classes else "regression"
