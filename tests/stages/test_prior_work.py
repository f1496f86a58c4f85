"""Prior work before the plan (real PDFs, a catalogue on loopback, quotes looked up), and the review of the plan."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from labwright.inspector.status import build_status
from labwright.inspector.web.fragments import list_checks
from labwright.literature.catalogue_client import CATALOGUE_NAMES, CatalogueCredentials, LiteratureSettings
from labwright.literature.lookup import open_literature
from labwright.models.client import Models
from labwright.models.offline.planning import answer_digest
from labwright.models.replay import ScriptedModel
from labwright.models.roles.study_plan import (
    PlanInputs,
    PlanRevision,
    PriorSearch,
    PriorSearchInputs,
    PriorWork,
    PriorWorkInputs,
    ProtocolReview,
    ProtocolReviewInputs,
)
from labwright.models.settings import ModelSettings
from labwright.pdf.layout import read_text
from labwright.record.event_log import MemoryLog
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered, RunStarted
from labwright.record.events.search_events import PlanPrepared
from labwright.record.retention import build_manifest
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan, DatasetUse
from labwright.record.schema.hypotheses import FindingAnswer, ProtocolFinding, UnresolvedFinding
from labwright.record.schema.idea import Idea
from labwright.record.schema.prior_work import OmittedPriorWork, PriorUse
from labwright.search.design_forecast import CellTimes
from labwright.search.settings import SearchSettings
from labwright.stages.data_planning import TOO_LARGE, add_metric_formulas, fit_design, prepare
from labwright.stages.paper.appendix import list_disclosures, render_incidents
from labwright.stages.paper.disclosure import format_disclosure
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from labwright.stages.user_documents import copy_documents
from tests.context.papers import write_pdf
from tests.fake_executor import FakeExecutor
from tests.literature.catalogues import Catalogues, Fault, TrueWork, fail_unavailable
from tests.plan_revisions import make_revision
from tests.stages.small_study import PLAN as SMALL

IDEA = Idea(Name="shrink", Title="Shrunken means for small flowers", Experiments=("Compare.",))
PLAN = add_metric_formulas(SMALL, {})
OLD = ("Shrinkage of old\nWe train on Iris and on the Wine data.\nOur baseline is Nearest centroid, at 0.91.",)
Amended = tuple[DataPlan, tuple[FindingAnswer, ...]]
"""A plan after its review, and the answers to the findings."""
LATE = ("Shrinkage of late\nAll results are on Wine, against a nearest centroid classifier.",)


class Study:
    """A preparation with scripted answers; `plans` are asked for in order, the last for ever."""

    def __init__(
        self,
        root: Path,
        *plans: DataPlan | Amended,
        literature: LiteratureSettings | None = None,
        events: tuple[Event, ...] = (),
        run_seconds: float = 54_000.0,
        **answers: Any,
    ) -> None:
        self.folder, self.plans, self.asked = RunFolder(root / "run"), [*plans], list[PlanInputs]()
        self.folder.create_folders()
        usual: dict[str, Any] = {
            "plan": self._plan,
            "digest": answer_digest,
            "prior_work": read,
            "protocol_review": review(),
            "prior_search": search,
        }
        self.model = ScriptedModel.from_role_functions(**usual | answers)
        self.log = MemoryLog([*events] or [RunStarted(idea=IDEA, settings={}, seed=1, version="0", model="m")])
        self.bench = RunContext(
            recorder=self.log,
            folder=self.folder,
            models=Models(self.model, self.log, ModelSettings(), lambda: 0.0),
            executor=FakeExecutor(),
            search=SearchSettings(),
            paper=PaperSettings(),
            node_seconds=60,
            run_seconds=run_seconds,
            literature=functools.partial(open_literature, literature, CatalogueCredentials()) if literature else None,
        )

    def _plan(self, inputs: PlanInputs) -> DataPlan | PlanRevision:
        self.asked.append(inputs)
        next_one = self.plans.pop(0) if len(self.plans) > 1 else self.plans[0]
        plan, answers = (next_one, ()) if isinstance(next_one, DataPlan) else next_one
        return plan if inputs.before is None else make_revision(inputs.before, plan, *answers)

    def prepared(self) -> DataPlan:
        asyncio.run(prepare(self.bench))
        return self.bench.plan

    def roles(self) -> list[str]:
        return [one.role.name for one in self.model.requests]


def read(inputs: PriorWorkInputs) -> PriorWork:
    """What the two papers say, and entries that they do not."""
    text = " ".join(inputs.pages[0].text.split())
    old = "of old" in text
    return PriorWork(
        title=text[:16],
        uses=(
            PriorUse(
                what="dataset",
                name="Wine data" if old else "Wine",
                quote="and on the Wine data" if old else "All results are on Wine",
            ),
            PriorUse(
                what="baseline",
                name="nearest centroid",
                quote="Nearest centroid, at 0.91" if old else "against a nearest centroid classifier",
            ),
            PriorUse(what="dataset", name="ImageNet", quote="trained on ImageNet for ninety epochs"),
            PriorUse(what="baseline", name="Boosting", quote=text[20:60]),
        ),
    )


def search(_: PriorSearchInputs) -> PriorSearch:
    return PriorSearch(queries=("shrinkage of class means",))


def given(root: Path) -> None:
    (root / "papers").mkdir()
    write_pdf(root / "papers" / "old.pdf", *OLD)
    write_pdf(root / "papers" / "late.pdf", *LATE)
    copy_documents(root / "papers", RunFolder(root / "run").context)


@pytest.mark.slow
def test_what_two_papers_use_is_sent_back_once_then_printed_as_omitted(tmp_path: Path) -> None:
    given(tmp_path)
    study = Study(tmp_path, PLAN)
    plan = study.prepared()
    prior = study.log.state.paper.prior_work
    assert prior is not None and not prior.is_unread
    assert [(one.title, [use.name for use in one.uses], one.dropped) for one in prior.papers] == [
        ("Shrinkage of lat", ["Wine", "nearest centroid"], 2),
        ("Shrinkage of old", ["Wine data", "nearest centroid"], 2),
    ]
    assert [one.before for one in study.asked] == [None, PLAN]
    assert [
        "use the dataset 'Wine'" in one or "use the baseline 'nearest centroid'" in one
        for one in study.asked[1].complaints
    ] == [True, True]
    assert plan.omitted == (
        OmittedPriorWork(name="Wine", reason="the plan does not say why"),
        OmittedPriorWork(name="nearest centroid", reason="the plan does not say why"),
    )
    assert plan.untested_statements[0] == "Wine, which the closest papers use (the plan does not say why)"
    assert set(build_manifest(study.log.state, study.folder)) >= {"context/01_late.pdf", "context/02_old.pdf"}


@pytest.mark.slow
def test_full_texts_are_fetched_kept_and_not_asked_for_again(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", *OLD)
    works = [
        TrueWork("Shrinkage of class means", (("Ann", "One"),), 2021, arxiv="2101.00001"),
        TrueWork("Shrinkage of other class means", (("Bob", "Two"),), 2021, arxiv="2101.00002"),
        TrueWork("On shrinkage of class means", (("Cyd", "Three"),), 2021),
    ]
    with Catalogues(works) as catalogues:
        catalogues.world.texts = {"2101.00001": path.read_bytes()}
        study = Study(tmp_path, PLAN, literature=catalogues.settings())
        study.prepared()
        prior = study.log.state.paper.prior_work
        assert prior is not None and [one.title for one in prior.papers] == ["Shrinkage of old"]
        assert prior.papers[0].stored.startswith("context/prior/01_")
        assert prior.papers[0].file.endswith("2101.00001.pdf")
        stored = study.folder.root / prior.papers[0].stored
        assert stored.read_bytes() == path.read_bytes()
        asked = len(catalogues.world.asked)
        begun = [one for one in study.log.events if not isinstance(one, type(study.log.events[-1]))][:-2]
        again = Study(tmp_path, PLAN, literature=catalogues.settings(), events=tuple(begun))
        again.prepared()
        assert again.log.state.paper.prior_work == prior and len(catalogues.world.asked) == asked
        assert again.roles() == [], "every answer is in the log"


@pytest.mark.parametrize("fault", [fail_unavailable])
def test_without_a_network_prior_work_is_unread_and_the_run_goes_on(
    tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labwright.stages.protocol_review.FETCH_SECONDS", 1.0)
    with Catalogues(faults=dict.fromkeys(CATALOGUE_NAMES, fault)) as catalogues:
        study = Study(tmp_path, PLAN, literature=catalogues.settings())
        assert study.prepared() == PLAN
    prior = study.log.state.paper.prior_work
    assert prior is not None and prior.is_unread and prior.refused


# --- outcomes and hours ----------------------------------------------------------------------------------------------


def test_a_plan_without_outcomes_is_sent_back_once_then_taken(tmp_path: Path) -> None:
    bare = PLAN.model_copy(
        update={"hypotheses": tuple(one.model_copy(update={"outcomes": None}) for one in PLAN.hypotheses)}
    )
    study = Study(tmp_path, bare)
    assert study.prepared() == bare
    assert [one.before for one in study.asked] == [None, bare]
    assert "has no `outcomes`" in study.asked[1].complaints[0]


def test_a_design_that_does_not_fit_the_hours_is_sent_back_once_with_what_they_decide(tmp_path: Path) -> None:
    large, small = (
        PLAN.model_copy(update={"expected_seconds": 900.0}),
        PLAN.model_copy(update={"expected_seconds": 6.0}),
    )
    study = Study(tmp_path, large, small, run_seconds=3600.0)
    assert study.prepared() == small
    assert study.asked[1].complaints == (TOO_LARGE,)
    assert "900 slot-seconds a seed" in study.asked[1].hours[0]
    [reviewed] = [one.inputs for one in study.model.requests if isinstance(one.inputs, ProtocolReviewInputs)]
    assert " 6 slot-seconds a seed" in reviewed.hours[0]
    stubborn = Study(tmp_path / "again", large, run_seconds=3600.0)
    assert stubborn.prepared() == large
    assert len(stubborn.asked) == 2


def test_a_design_that_does_not_fit_once_measured_is_reduced_once_by_amendments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = PLAN.model_copy(update={"datasets": (*PLAN.datasets, DatasetUse(name="wine"))})
    study = Study(tmp_path, two)
    study.prepared()
    bench = replace(study.bench, seconds_left=lambda: 400.0)
    fit_design(bench)
    assert study.log.state.search.amendments == [], "nothing was measured yet"

    def read_times(*_: object) -> CellTimes:
        return CellTimes({}, 60.0)

    monkeypatch.setattr("labwright.stages.data_planning.read_cell_times", read_times)
    fit_design(replace(bench, search=bench.search.model_copy(update={"order": "ticket"})))
    assert study.log.state.search.amendments == [], "measured time decides nothing in ticket order"
    fit_design(bench)
    first, second = study.log.state.search.amendments
    assert (first.number, second.number) == (1, 2)
    assert first.why.startswith("dataset wine was left out")
    assert second.why.startswith("the reference models were left out")
    state = study.log.state
    assert state.search.data_plan is not None
    assert (
        [use.name for use in state.search.data_plan.datasets] == [one.name for one in state.search.datasets] == ["iris"]
    )
    assert state.search.data_plan.untested[-1] == "the dataset wine (too little time)"
    fit_design(bench)
    assert len(study.log.state.search.amendments) == 2


# --- the review ------------------------------------------------------------------------------------------------------

FINDING = ProtocolFinding(kind="scope", severity="should", where="datasets", what="One dataset.", mend="Say so.")


def amended(*answers: FindingAnswer, **changes: Any) -> Amended:
    return PLAN.model_copy(update=changes), answers


def review(*findings: ProtocolFinding, held: int = 0) -> Callable[[ProtocolReviewInputs], ProtocolReview]:
    """A reviewer who finds these, and then holds one of them."""

    def answer(inputs: ProtocolReviewInputs) -> ProtocolReview:
        if not inputs.answered:
            return ProtocolReview(findings=findings)
        return ProtocolReview(upheld=(UnresolvedFinding(finding=held, why="It is no answer."),) if held else ())

    return answer


FIRST, SECOND = (
    FindingAnswer(finding=1, changed=True, reason="Said."),
    FindingAnswer(finding=2, changed=False, reason="It is the same."),
)


def test_no_finding_costs_one_call_and_changes_nothing(tmp_path: Path) -> None:
    study = Study(tmp_path, PLAN)
    assert study.prepared() == PLAN and study.roles() == ["plan", "protocol_review"]
    protocol = study.log.state.search.protocol_review
    assert protocol is not None and protocol.findings == () and study.log.state.search.amendments == []
    assert protocol.message == "no findings on the plan by scripted"


def test_findings_are_answered_by_amendment_one_and_what_is_held_is_open(tmp_path: Path) -> None:
    better = amended(FIRST, SECOND, untested=("other data",))
    study = Study(tmp_path, PLAN, better, protocol_review=review(FINDING, FINDING, held=2))
    plan = study.prepared()
    assert plan.untested == ("other data",) and type(plan) is DataPlan
    assert study.asked[1].findings == (FINDING, FINDING) and study.asked[1].before == PLAN
    [amendment] = study.log.state.search.amendments
    assert amendment.number == 1 and amendment.data_plan == plan and amendment.by == "protocol review"
    protocol = study.log.state.search.protocol_review
    assert protocol is not None and protocol.reviewed == PLAN
    assert [(one.changed, one.open) for one in protocol.findings] == [(True, ""), (False, "It is no answer.")]
    assert protocol.message == "2 findings on the plan by scripted, 1 open; the plan was amended"
    again = [one.inputs for one in study.model.requests if isinstance(one.inputs, ProtocolReviewInputs)][1]
    assert again.data_plan == plan and len(study.roles()) == 4


@pytest.mark.parametrize(
    ("plans", "open_", "calls"),
    [
        ((amended(FIRST),), ["the answer says that it is fixed, but the plan is unchanged", "it was not answered"], 4),
        ((amended(FIRST, SECOND, arms=PLAN.arms[:1]),), ["the planner gave no feasible plan that answers it"] * 2, 4),
    ],
)
def test_what_is_not_answered_is_open_and_no_finding_ends_the_run(
    tmp_path: Path, plans: tuple[DataPlan, ...], open_: list[str], calls: int
) -> None:
    study = Study(tmp_path, PLAN, *plans, protocol_review=review(FINDING, FINDING))
    assert study.prepared() == PLAN
    protocol = study.log.state.search.protocol_review
    assert protocol is not None and [one.open for one in protocol.findings] == open_
    assert len(study.roles()) == calls and protocol.amendment is None


@pytest.mark.parametrize("often", ["first", pytest.param("every", marks=[pytest.mark.bench, pytest.mark.slow])])
@pytest.mark.slow
def test_a_preparation_cut_off_anywhere_comes_to_the_same(
    tmp_path: Path, often: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut after the first event of each kind; in `make bench`, after every event. Each PDF is read once."""
    texts: dict[bytes, str] = {}

    def read_once(file: BytesIO, *, timeout: float) -> str:
        texts[file.getvalue()] = texts.get(file.getvalue()) or read_text(file, timeout=timeout)
        return texts[file.getvalue()]

    monkeypatch.setattr("labwright.stages.user_documents.read_text", read_once)
    given(tmp_path)
    better = amended(FIRST, SECOND, untested=("other data",))
    whole = Study(tmp_path, PLAN, PLAN, better, protocol_review=review(FINDING, FINDING, held=2))
    plan = whole.prepared()
    assert plan.untested == ("other data",) and len(plan.omitted) == 2
    events, asked = whole.log.events, len(whole.model.requests)
    kinds: set[str] = set()
    for end in range(1, next(at for at, one in enumerate(events) if isinstance(one, PlanPrepared)) + 1):
        if often == "first" and events[end - 1].type in kinds:
            continue
        kinds.add(events[end - 1].type)
        plans = [PLAN, PLAN, better][
            sum(isinstance(one, CallAnswered) and one.key.role == "plan" for one in events[:end]) :
        ]
        again = Study(
            tmp_path, *plans or [better], protocol_review=review(FINDING, FINDING, held=2), events=tuple(events[:end])
        )
        assert again.prepared() == plan
        state = again.log.state
        assert (
            state.search.protocol_review == whole.log.state.search.protocol_review
            and state.paper.prior_work == whole.log.state.paper.prior_work
        )
        assert len(again.log.events) == len(events), "nothing is recorded twice"
        assert len(again.model.requests) == asked - sum(isinstance(one, CallAnswered) for one in events[:end])


@pytest.mark.slow
def test_the_paper_tells_of_findings_and_papers(tmp_path: Path) -> None:
    given(tmp_path)
    study = Study(
        tmp_path,
        PLAN,
        PLAN,
        amended(FIRST, SECOND, untested=("other data",)),
        protocol_review=review(FINDING, FINDING, held=2),
    )
    study.prepared()
    state = study.log.state
    told = " ".join(render_incidents(state).replace("\\rec{", "").replace("}", "").split())
    assert "scope (should), at datasets: One dataset. The plan was changed: Said." in told
    assert "The plan stays: It is the same. Open: It is no answer." in told
    disclosed = json.loads(format_disclosure(state, isolation="", text_round=0))["prior_work"]["papers"]
    assert [(one["title"], one["file"].rpartition("_")[2], one["dropped"]) for one in disclosed] == [
        ("Shrinkage of lat", "late.pdf", 2),
        ("Shrinkage of old", "old.pdf", 2),
    ]
    assert any("faults in the plan that remain open" in line for line in list_disclosures(state, ()))
    status = build_status("runs/r", state, (), None, now=0.0)
    assert status.prior_work == "Shrinkage of lat (2 entries); Shrinkage of old (2 entries)"
    assert status.protocol[0].endswith("1 open; the plan was amended") and len(status.protocol) == 2
    shown = [(one.name, one.good) for one in list_checks(state, ())]
    assert shown == [("Protocol", False), ("Protocol", False)]
