"""Both planners of ablations, through the real search, nodes and record; the model and the experiments are scripts."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labwright.agent.forecast import build_cost_table
from labwright.agent.settings import Settings, compose_settings
from labwright.models.backend import ModelRequest, Reply
from labwright.models.budget import Budget
from labwright.models.client import Models
from labwright.models.errors import ModelOutputInvalid
from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import CodeInputs
from labwright.models.roles.paper_revision import ReflectInputs, Reflection
from labwright.models.roles.study_plan import (
    AblationPlan,
    AblationPlanInputs,
    MissingAblationsAnswer,
    MissingAblationsInputs,
    RiskTested,
)
from labwright.record.ablation_results import collect_ablation_results
from labwright.record.baseline_check import Surprise
from labwright.record.claims.estimates import find_replicates, find_winner
from labwright.record.event_log import MemoryLog
from labwright.record.events import Event
from labwright.record.events.paper_events import DraftAssessed, FiguresDrawn
from labwright.record.events.run_events import CallAnswered, LimitReached, RunResumed, RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    PlanPrepared,
    SealedTestScored,
    TaskDone,
)
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, hash_file
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import ExpandTree, RunTask
from labwright.record.schema.nodes import STAGES, Failure
from labwright.record.schema.paper import AxesFacts, Figure, FigureFacts, PaperDraft, Section
from labwright.sandbox.job import Job, JobOutcome
from labwright.stages.ablation_plan import filter_ablations, match_risks
from labwright.stages.evidence.scoring import nodes_to_score
from labwright.stages.paper.appendix import list_ablation_rows, list_disclosures
from labwright.stages.paper.disclosure import format_disclosure
from labwright.stages.reviewer_requests import run_missing_ablations
from labwright.stages.run_context import RunContext
from labwright.stages.stage_runner import StageRunner
from tests.fake_executor import FakeExecutor
from tests.stages.small_study import IDEA, PLAN, make_ablation, make_small_model, write_ablation_program

pytestmark = pytest.mark.slow

FLAGS: dict[str, Any] = {
    "models.name": "vllm:m",
    "models.prices": {"vllm:m": {"input": 3.0, "output": 15.0}},
    "sandbox.timeout": 60,
    "sandbox.isolation": "auto",
    "search.order": "ticket",
    "search.window": 4,
    "search.num_workers": 2,
    "search.num_drafts": 1,
    "search.num_seeds": 2,
    "search.max_seeds": 2,
    "search.preliminary.nodes": 2,
    "search.tuning.nodes": 1,
    "search.agenda.nodes": 1,
    "search.ablation.nodes": 4,
    "seed": 3,
}

DRAFT = PaperDraft(title="Class means", abstract="We ask.", sections=(Section(title="Results", body="It helps."),))


class Model(ScriptedModel):
    """The small study's model; some roles, or kinds of nodes, answer otherwise. `inputs` are kept by role."""

    def __init__(self, **roles: Callable[[Any], Any]) -> None:
        super().__init__(lambda request: self._otherwise(request)(request.inputs))
        self._small, self._roles = make_small_model(), roles
        self.inputs: dict[str, list[Any]] = {}

    async def answer(self, request: ModelRequest) -> Reply:
        await asyncio.sleep(0)
        self.inputs.setdefault(request.role.name, []).append(request.inputs)
        return await (super().answer(request) if self._otherwise(request) else self._small.answer(request))

    def _otherwise(self, request: ModelRequest) -> Any:
        return self._roles.get(getattr(request.inputs, "kind", "")) or self._roles.get(request.role.name)


@dataclass
class World:
    """A run in memory whose folder is real."""

    root: Path
    model: Model
    settings: Settings = field(default_factory=lambda: compose_settings(flags=FLAGS, environment={}))
    fails: Callable[[str, Job], Failure | None] = lambda arm, job: None
    events: Sequence[Event] = ()
    jobs: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        first: list[Event] = [
            RunStarted(idea=IDEA, settings=self.settings.model_dump(mode="json"), seed=3, version="0", model="m"),
            PlanPrepared(data_plan=PLAN, datasets=()),
        ]
        self.log = MemoryLog([*(self.events or first)])
        folder = RunFolder(self.root)
        folder.create_folders()
        budget = Budget(self.settings.budget, self.log, self.settings.models, build_cost_table(self.settings))
        self.bench = RunContext(
            recorder=self.log,
            folder=folder,
            executor=FakeExecutor(self._ran, slots=2),
            search=self.settings.search,
            paper=self.settings.paper,
            budget=budget,
            models=Models(self.model, self.log, self.settings.models, lambda: 0.0, budget=budget),
            node_seconds=self.settings.sandbox.timeout,
            run_seconds=self.settings.time_limit,
        )

    @property
    def state(self) -> RunState:
        return self.log.state

    def searched(self) -> World:
        """The same after all four stages, with the events that a draft needs."""
        asyncio.run(self._search())
        return self

    def drafted(self) -> World:
        """The same with test scores, figures and an assessed draft, as the steps between leave them."""
        for task in ("probe the winner", "score tests"):
            k = self.state.last_decision + 1
            self.log.append(DecisionMade(k=k, action=RunTask(task=task)))
            self.log.append(TaskDone(k=k))
        for node in nodes_to_score(self.state):
            if node.id in self.state.search.test_measurements:  # by a look
                continue
            arms = tuple(dict.fromkeys(one.condition for one in node.measurements))
            self.log.append(SealedTestScored(node=node.id, measurements=scores(node.seed, arms)))
        self.log.append(FiguresDrawn(figures={}, descriptions={}, arrays=()))
        self.log.append(DraftAssessed(round=0, draft=DRAFT, pages=1, done=True))
        assert self.state.phase == "missing"
        return self

    def reviewed(self) -> bool:
        """Whether the step of missing ablations came to its end."""
        return asyncio.run(run_missing_ablations(self.bench))

    async def _search(self) -> None:
        research = StageRunner(self.bench)
        try:
            for stage in STAGES:
                assert await research.run_stage(stage)
        finally:
            await research.close()

    def _ran(self, job: Job) -> tuple[float, JobOutcome]:
        self.jobs.append(job.name)
        if job.kind == "plot":
            return 0.0, drawn(job)
        arms = read_conditions(job.source["experiment.py"])
        failure = self.fails(arms[0], job)
        if failure is not None:
            return 0.0, JobOutcome(seconds=1, failure=failure)
        (job.folder / "arrays").mkdir(parents=True, exist_ok=True)
        np.save(job.folder / "arrays" / "loss.npy", np.arange(3.0))
        found = tuple(
            Measurement(
                name=name,
                value=0.1 * job.seed + 0.01 * len(arm),
                condition=arm,
                dataset="iris",
                split="validation",
                seed=job.seed,
                grade="computed",
            )
            for arm in arms
            for name in ("log_loss", "accuracy")
        )
        return 0.0, JobOutcome(
            seconds=1, measurements=found, arrays={"loss.npy": hash_file(job.folder / "arrays" / "loss.npy")}
        )


def read_conditions(source: str) -> tuple[str, ...]:
    """The arms that a program of the small study measures."""
    return tuple(source.split("CONDITIONS = ")[1].split("\n")[0].strip("'\"").split())


def drawn(job: Job) -> JobOutcome:
    """A readable figure of one line."""
    from PIL import Image, ImageDraw

    (job.folder / "figures").mkdir(parents=True, exist_ok=True)
    picture = Image.new("RGB", (400, 300), "white")
    ImageDraw.Draw(picture).line((20, 280, 380, 30), fill="black", width=3)
    picture.save(job.folder / "figures" / "loss.png")
    facts = FigureFacts(axes=(AxesFacts(xlabel="arm", ylabel="loss", series=1),))
    return JobOutcome(
        seconds=0,
        figures=(Figure(name="loss.png", sha256=hash_file(job.folder / "figures" / "loss.png"), facts=facts),),
    )


def scores(seed: int, arms: Sequence[str]) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(
            name="log_loss",
            value=0.2 * seed + 0.01 * len(arm),
            condition=arm,
            dataset="iris",
            split="test",
            seed=seed,
            grade="computed",
        )
        for arm in arms
    )


@pytest.fixture(autouse=True, scope="module")
def without_tex_and_labels() -> Iterator[None]:
    """The scripted experiments leave no sealed predictions and the fast tests build no PDF: both are tested for real in
    `test_own_data.py`."""

    async def assessed(bench: RunContext, draft: PaperDraft, *, number: int) -> DraftAssessed:
        return DraftAssessed(round=number, draft=draft, pages=1)

    def scored(folder: Path, *_: object, seed: int, **__: object) -> tuple[Measurement, ...]:
        run = RunFolder(folder.parents[2])
        source = (run.get_source_path(folder.parent.name) / "experiment.py").read_text(encoding="utf-8")
        return scores(seed, read_conditions(source))

    def none(*_: object) -> tuple[()]:
        return ()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labwright.stages.reviewer_requests.assess_new_draft", assessed)
        patch.setattr("labwright.stages.paper.reflection.assess_new_draft", assessed)
        patch.setattr("labwright.stages.evidence.resampling.score_sealed", scored)
        patch.setattr("labwright.stages.evidence.resampling.resample_effects", none)
        patch.setattr("labwright.stages.evidence.resampling.resample_differences", none)
        yield


def planning(*names: str) -> Callable[[AblationPlanInputs], AblationPlan]:
    return lambda _: AblationPlan(
        ablations=tuple(make_ablation(name) for name in names), risks=(RiskTested(risk=1, by=names[0]),)
    )


def missing(*names: str) -> Callable[[MissingAblationsInputs], MissingAblationsAnswer]:
    return lambda _: MissingAblationsAnswer(
        ablations=tuple(make_ablation(name) for name in names), why="The claims need them."
    )


def done(_: ReflectInputs) -> Reflection:
    return Reflection(done=True)


def taken_up(state: RunState) -> list[str]:
    """What the nodes of the last stage took up, in the order of their decisions."""
    return [
        action.item.partition(":")[0]
        for one in state.decisions.values()
        if isinstance(action := one.action, ExpandTree) and action.kind == "ablate"
    ]


# --- before the last stage ------------------------------------------------------------------------------------------


def test_planned_ablations_are_taken_up_in_order_once_each_and_then_the_stage_ends(tmp_path: Path) -> None:
    world = World(tmp_path, Model(ablation_plan=planning("no-mean", "no-weight", "no-grand"))).searched()
    state = world.state
    assert taken_up(state) == ["no-mean", "no-weight", "no-grand"]
    assert state.search.stages["ablation"].end_reason == "every planned ablation was tried"
    assert [(one.outcome, one.arms, one.replicates) for one in collect_ablation_results(state)] == [
        ("measured", (name,), 2) for name in ("no-mean", "no-weight", "no-grand")
    ]
    asked = [one for one in world.model.inputs["code"] if isinstance(one, CodeInputs) and one.kind == "ablate"]
    assert [one.ablation.name for one in asked if one.ablation] == ["no-mean", "no-weight", "no-grand"]
    assert len(world.model.inputs["ablation_plan"]) == 1
    inputs = world.model.inputs["ablation_plan"][0]
    assert inputs.most == 4 and inputs.method.node.id == state.search.stages["agenda"].best
    assert "lab.submit" in inputs.method.experiment


def test_a_failed_ablation_is_debugged_and_one_that_stays_broken_is_told(tmp_path: Path) -> None:
    def fails(arm: str, _: Job) -> Failure | None:
        return Failure(kind="shape", message=f"shapes differ in {arm}") if arm == "no-mean" else None

    model = Model(ablation_plan=planning("no-mean", "no-weight"), debug=lambda _: write_ablation_program("no-mean"))
    settings = compose_settings(flags={**FLAGS, "search.author": "never"}, environment={})
    state = World(tmp_path, model, settings, fails=fails).searched().state
    broken, worked = collect_ablation_results(state)
    assert (broken.outcome, worked.outcome) == ("failed", "measured") and "shapes differ in no-mean" in broken.why
    debugged = [node for node in state.list_stage_nodes("ablation") if node.kind == "debug"]
    assert [node.id for node in debugged][-1:] == [broken.node] and taken_up(state) == ["no-mean", "no-weight"]
    assert "Planned ablations that failed: no-mean; the appendix says why." in list_disclosures(state, [])
    assert dict(list_ablation_rows(state, "author"))["no-mean"].startswith("what no-mean lacks taken out; failed (n00")


def test_duplicates_foreign_metrics_and_silent_risks_are_shown_to_the_planner_once(tmp_path: Path) -> None:
    def plan(inputs: AblationPlanInputs) -> AblationPlan:
        foreign = make_ablation("no-grand").model_copy(update={"metrics": ("f1",)})
        return AblationPlan(
            ablations=(make_ablation("no-mean"), make_ablation("without-means"), foreign, make_ablation("shrunk"))
        )

    world = World(tmp_path, Model(ablation_plan=plan)).searched()
    first, second = world.model.inputs["ablation_plan"]
    assert first.complaints == () and len(second.complaints) == 4
    assert "'without-means' makes the same change as 'no-mean'" in second.complaints
    assert any("the data plan has log_loss, accuracy" in one for one in second.complaints)
    assert any(one.startswith("'shrunk' is an arm that every experiment measures") for one in second.complaints)
    assert second.complaints[-1].startswith("risk factor 1 needs")
    assert taken_up(world.state) == ["no-mean"], "what can be used is used"
    assert world.state.search.planned_ablations is not None and world.state.search.planned_ablations.risks == (
        "Few classes (the planner gave no reason)",
    )


def surprising(surprise: Surprise) -> Callable[[AblationPlanInputs], AblationPlan]:
    return lambda inputs: planning("no-mean", "no-weight")(inputs).model_copy(update={"surprise": surprise})


def test_the_control_for_the_strongest_surprise_runs_first_and_is_exploratory(tmp_path: Path) -> None:
    surprise = Surprise(control="no-weight", conditions=("shrunk",), finding="Shrinking gains nothing.")
    state = World(tmp_path, Model(ablation_plan=surprising(surprise))).searched().state
    assert taken_up(state) == ["no-weight", "no-mean"]
    assert [one.surprise for one in collect_ablation_results(state)] == [surprise, None]
    rows = dict(list_ablation_rows(state, "author"))
    assert rows["no-weight"].endswith(", exploratory: the control for a surprise in shrunk")
    assert "exploratory" not in rows["no-mean"]


def test_without_a_usable_plan_the_stage_takes_up_the_risks_and_the_record_says_why(tmp_path: Path) -> None:
    def plan(_: AblationPlanInputs) -> AblationPlan:
        raise ModelOutputInvalid("it answered in prose")

    state = World(tmp_path, Model(ablation_plan=plan)).searched().state
    assert state.search.planned_ablations is not None and "it answered in prose" in state.search.planned_ablations.why
    items = {
        one.action.item
        for one in state.decisions.values()
        if isinstance(one.action, ExpandTree) and one.action.kind == "ablate"
    }
    assert items == {"Few classes"} and state.search.stages["ablation"].end_reason == "limit of 4 nodes"
    off = compose_settings(flags={**FLAGS, "search.planned_ablations": 0}, environment={})
    world = World(tmp_path / "off", Model(), off).searched()
    assert world.state.search.planned_ablations is None and "ablation_plan" not in world.model.inputs


def test_too_many_are_cut_and_every_risk_has_its_line() -> None:
    kept, faults = filter_ablations(
        [make_ablation(name) for name in ("a", "b", "c")], PLAN, limit=2, done=[make_ablation("a")]
    )
    assert [one.name for one in kept] == ["b", "c"] and faults == ("'a' makes the same change as 'a'",)
    lines, faults = match_risks(
        (RiskTested(risk=1, by="b"), RiskTested(risk=2, by="z"), RiskTested(risk=3, reason="no data")),
        kept,
        ("one", "two", "three"),
    )
    assert lines == ("one (tested by b)", "two (the planner gave no reason)", "three (not tested: no data)")
    assert len(faults) == 1 and faults[0].startswith("risk factor 2 ")


# --- after the draft ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drafted_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    """The folder and events of a run up to its draft."""
    root = tmp_path_factory.mktemp("drafted")
    return root, World(root, Model()).searched().drafted().log.events


def at_draft(drafted_once: tuple[Path, list[Event]], root: Path, model: Model, *more: Event, **changes: Any) -> World:
    """A run up to its draft, in a folder of its own."""
    before, events = drafted_once
    shutil.copytree(before, root, dirs_exist_ok=True)
    return World(root, model, events=[*events, *more], **changes)


def test_missing_ablations_are_run_replicated_scored_once_and_told(
    drafted_once: tuple[Path, list[Event]], tmp_path: Path
) -> None:
    model = Model(missing_ablations=missing("half-weight", "no-noise"), reflect=done)
    world = at_draft(drafted_once, tmp_path, model)
    scored = set(world.state.search.test_measurements)
    assert world.reviewed() and world.state.phase == "release"
    state = world.state
    late = [one for one in collect_ablation_results(state) if one.by == "reviewer"]
    assert [(one.outcome, one.arms, one.replicates) for one in late] == [
        ("measured", ("half-weight",), 2),
        ("measured", ("no-noise",), 2),
    ]
    best = find_winner(state)
    nodes = [state.nodes[one.node] for one in late]
    again = [one for node in nodes for one in find_replicates(state, node.id)]
    assert all(node.parent == best and (node.stage, node.kind) == ("ablation", "ablate") for node in nodes)
    assert [one.seed for one in again] == [10_003, 10_004] * 2, "paired with the replicates of the method"
    assert {one for one in state.search.test_measurements if one not in scored} == {one.id for one in (*nodes, *again)}
    kinds = [event.type for event in world.log.events]
    assert kinds.index("ablations_missed") < kinds.index("drafted", kinds.index("ablations_missed"))
    first = next(
        n
        for n, event in enumerate(world.log.events)
        if isinstance(event, SealedTestScored) and event.node not in scored
    )
    assert not any(event.type in ("proposed", "executed", "judged") for event in world.log.events[first:])
    told = world.model.inputs["reflect"][0].news
    assert len(told) == 2 and "measured, as half-weight: report it by its keys" in told[0]
    assert state.paper.drafts[-1].anew and state.limit_reason is None
    state.paper.figures = FiguresDrawn(version=2, figures={}, descriptions={}, arrays=())  # redrawn for an addendum
    said = " ".join(list_disclosures(state, []))
    assert "its test results: half-weight, no-noise. The figures do not show them." in said
    disclosed = json.loads(format_disclosure(state, isolation="", text_round=0))
    assert len(disclosed["ablations"]) == 3 and disclosed["missing_ablations"]["why"] == "The claims need them."


def test_the_reviewer_reads_values_and_what_was_done_and_asks_for_nothing_twice(
    drafted_once: tuple[Path, list[Event]], tmp_path: Path
) -> None:
    model = Model(missing_ablations=missing("no-shrinkage"), reflect=done)
    world = at_draft(drafted_once, tmp_path, model)
    before = len(world.jobs)
    assert world.reviewed() and len(world.jobs) == before
    first, second = model.inputs["missing_ablations"]
    assert [one.ablation.name for one in first.trials] == ["without-shrinkage"] and first.most == 2
    assert second.complaints == ("'no-shrinkage' makes the same change as 'without-shrinkage'",)
    state = world.state
    assert (
        state.search.missing_ablations is not None
        and state.search.missing_ablations.missing == ()
        and "Dropped: 'no-shrinkage'" in state.search.missing_ablations.why
    )
    assert "reflect" not in model.inputs and state.phase == "release", "there is nothing to tell"


def test_values_stand_where_the_macros_were() -> None:
    from labwright.stages.reviewer_requests import expand_macros
    from tests.paper import synthetic_paper

    read = expand_macros(synthetic_paper.DRAFT, synthetic_paper.make_state())
    assert r"\result{" in synthetic_paper.DRAFT.abstract and r"\result{" not in read.abstract
    assert "ensuremath" not in read.abstract and r"\setup{" not in "".join(one.body for one in read.sections)


@pytest.mark.parametrize("setting", [{"paper.missing_ablations": 0}, {}])
def test_nobody_is_asked_when_it_is_off_or_the_run_is_over(
    setting: dict[str, Any], drafted_once: tuple[Path, list[Event]], tmp_path: Path
) -> None:
    model = Model(missing_ablations=missing("half-weight"))
    more: list[Event] = (
        [RunResumed(settings=setting)] if setting else [LimitReached(reason="the time limit was reached")]
    )
    world = at_draft(drafted_once, tmp_path, model, *more)
    if setting:
        assert world.state.phase == "release"
        return
    assert world.reviewed() and model.inputs == {} and world.state.phase == "release"
    assert (
        world.state.search.missing_ablations is not None
        and "no reviewer was asked: the time limit" in world.state.search.missing_ablations.why
    )


def test_without_time_or_budget_it_is_a_limitation_and_the_run_is_no_partial_one(
    drafted_once: tuple[Path, list[Event]], tmp_path: Path
) -> None:
    hurried = compose_settings(flags={**FLAGS, "time_limit": 4}, environment={})
    world = at_draft(
        drafted_once, tmp_path / "time", Model(missing_ablations=missing("half-weight"), reflect=done), settings=hurried
    )
    assert world.reviewed()
    (late,) = (one for one in collect_ablation_results(world.state) if one.by == "reviewer")
    assert late.outcome == "not run" and "the time limit: 4 s remain" in late.why
    assert "was not run" in world.model.inputs["reflect"][0].news[0]
    state, flags = fold_events((event, 0.0) for event in drafted_once[1]), {**FLAGS, "models.code.max_tokens": 100_000}
    aside = build_cost_table(compose_settings(flags=flags, environment={})).compute_set_aside(state, 1, "judge")
    room = {"budget.usd": state.calls.spent_cost.usd + aside.usd + 1.0}  # for the reviewer, but not for code
    capped = compose_settings(flags={**flags, **room}, environment={})
    world = at_draft(
        drafted_once,
        tmp_path / "usd",
        Model(missing_ablations=missing("half-weight", "no-noise"), reflect=done),
        settings=capped,
    )
    assert world.reviewed()
    asked = [one for one in collect_ablation_results(world.state) if one.by == "reviewer"]
    assert [one.outcome for one in asked] == ["not run", "not run"] and "the budget of $" in asked[0].why
    assert world.state.limit_reason is None and world.state.phase == "release"
    rows = dict(list_ablation_rows(world.state, "reviewer"))
    assert rows["half-weight"].startswith("what half-weight lacks taken out; not run")


@pytest.mark.slow
@pytest.mark.parametrize("often", ["first", pytest.param("every", marks=pytest.mark.bench)])
def test_cut_after_any_event_it_ends_as_the_same_run_and_nothing_is_done_twice(
    drafted_once: tuple[Path, list[Event]], tmp_path: Path, often: str
) -> None:
    """Cut after the first event of each kind; in `make bench`, after every event."""

    def model() -> Model:
        return Model(missing_ablations=missing("half-weight", "no-noise"), reflect=done)

    whole = at_draft(drafted_once, tmp_path / "whole", model())
    assert whole.reviewed()
    begun = len(drafted_once[1])
    assert len(whole.log.events) - begun > 40
    kinds: set[str] = set()
    for cut in range(begun, len(whole.log.events)):
        if often == "first" and whole.log.events[cut - 1].type in kinds:
            continue
        kinds.add(whole.log.events[cut - 1].type)
        prefix = whole.log.events[:cut]
        root = tmp_path / str(cut)
        shutil.copytree(tmp_path / "whole", root)  # what lies in the folder may be newer than the log, as after a kill
        again = World(root, model(), events=[*prefix, RunResumed()])
        if again.state.phase == "missing":
            assert again.reviewed()
        assert tree(again.state) == tree(whole.state), f"cut after event {cut}, {prefix[-1].type}"
        assert (
            again.state.search.missing_ablations == whole.state.search.missing_ablations
            and again.state.paper.drafts == whole.state.paper.drafts
        )
        counts = Counter(str(event.key) for event in again.log.events if isinstance(event, CallAnswered))
        counts += Counter(
            f"{one.node}/{one.attempt.number}" for one in again.log.events if isinstance(one, AttemptExecuted)
        )
        counts += Counter(one.node for one in again.log.events if isinstance(one, SealedTestScored))
        assert max(counts.values()) == 1
        asked = sum(len(found) for found in again.model.inputs.values())
        assert asked == len(whole.state.calls.answers) - sum(event.type == "answered" for event in prefix)
        shutil.rmtree(root)


def tree(state: RunState) -> list[tuple[object, ...]]:
    return [
        (
            n.id,
            n.parent,
            n.kind,
            n.seed,
            n.status,
            n.varies,
            n.source_sha256,
            n.measurements,
            state.search.test_measurements.get(n.id),
        )
        for n in state.nodes.values()
    ]
