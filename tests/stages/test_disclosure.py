"""The disclosure of a record made by hand that holds one of everything that must be told."""

from __future__ import annotations

import json
from typing import Any

from labwright.record.events import Event
from labwright.record.events.paper_events import DraftAssessed, FiguresDrawn
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodePlotted,
    NodeProbed,
    NodeProposed,
    NodesCompared,
    NodeSuspected,
    PlotsReviewed,
    SealedTestScored,
)
from labwright.record.reducers.event_fold import fold_events
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import CompareNodes, ExpandTree
from labwright.record.schema.nodes import Attempt, Failure, HonestyFinding, NodeStatus
from labwright.record.schema.paper import FigureReview, PaperFinding
from labwright.stages.paper.appendix import render_incidents
from labwright.stages.paper.disclosure import format_disclosure
from tests.paper import synthetic_paper

STEPS = Measurement(
    name="steps", value=3.0, condition="method", dataset="digits", split="test", seed=1, grade="evaluated"
)


def node(k: int, status: NodeStatus, failure: Failure | None, *more: Event) -> list[Event]:
    """A draft of the first stage that came to this."""
    name = f"n{k:04d}"
    return [
        DecisionMade(k=k, action=ExpandTree(stage="preliminary", kind="draft", seed=k)),
        NodeProposed(node=name, decision=k, title="t", plan="p", varies=f"v{k}", source_sha256="1" * 64),
        AttemptExecuted(node=name, attempt=Attempt(number=1, seconds=1.0, failure=failure)),
        *more,
        NodeJudged(node=name, status=status, failure=failure),
    ]


def record() -> list[Event]:
    """The synthetic run, and beside it a pruned, a suspect and a marked node, a note, a probe, refused figures."""
    hopeless = Failure(kind="hopeless", message="far below its peers")
    finding = HonestyFinding(kind="constant", why="made of numbers in the source", line=3, text="lab.result(...)")
    covered = FigureReview(name="loss.png", readable=False, issues=("the legend is covered",))
    return [
        *synthetic_paper.make_events(),
        *node(900, "pruned", hopeless),
        *node(901, "buggy", Failure(kind="suspect", message="typed"), NodeSuspected(node="n0901", findings=(finding,))),
        *node(
            902,
            "good",
            None,
            NodePlotted(node="n0902", n=1, figures=(), seconds=1.0),
            PlotsReviewed(node="n0902", n=1, reviews=(covered,)),
        ),
        CommandReceived(verb="mark", target="n0902", text="looks too good"),
        DecisionMade(k=903, action=CompareNodes(stage="preliminary", a="n0900", b="n0902")),
        NodesCompared(k=903, a="n0900", b="n0902", better="n0902", reasons="it was not pruned"),
        CommandReceived(verb="note", text="try fewer rows"),
        NodeProbed(node="n0902", probe="labels", outcome="moved", why="12 % is left"),
        SealedTestScored(
            node="n0902", measurements=(), failure=Failure(kind="other", message="the scorer raised KeyError")
        ),
        FiguresDrawn(figures={}, descriptions={}, arrays=(), left_out={"curve": "draws numbers that are typed"}),
        DraftAssessed(
            round=0,
            draft=synthetic_paper.DRAFT,
            violations=("0.93 is typed",),
            pages=5,
            findings=(PaperFinding(text="5 pages"),),
        ),
        DraftAssessed(round=1, draft=synthetic_paper.DRAFT, pages=4),
    ]


def told() -> dict[str, Any]:
    state = fold_events((event, float(at)) for at, event in enumerate(record()))
    return json.loads(format_disclosure(state, isolation="walls", text_round=1))


def test_every_node_is_told_with_what_became_of_it() -> None:
    found, state = told(), fold_events((event, float(at)) for at, event in enumerate(record()))
    nodes = {one["id"]: one for one in found["nodes"]}
    assert nodes.keys() == state.nodes.keys()
    assert nodes["n0900"]["status"] == "pruned" and "far below" in nodes["n0900"]["failure"]["message"]
    assert nodes["n0901"]["findings"][0]["line"] == 3 and nodes["n0901"]["suspect"]
    assert nodes["n0902"]["suspect"] == ["looks too good"] or "looks too good" in str(nodes["n0902"]["suspect"])
    assert nodes["n0001"]["status"] == "buggy" and nodes["n0001"]["failure"]["kind"] == "shape"
    assert nodes["n0001"]["failure"]["message"].startswith("mat1")


def test_everything_that_was_looked_at_or_chosen_is_told() -> None:
    found = told()
    values = [one for node in found["nodes"] for one in (*node["test"], *node["attempts"][-1]["measurements"])]
    assert {one["name"] for one in values} == {"log_loss", "accuracy", "ece"}
    assert [one["k"] for one in found["decisions"]][-1] == 903 and found["rules"]["best of a stage"]
    assert {one["stage"]: one["best"] for one in found["stages"]}["agenda"] == found["reported"]
    assert found["comparisons"][0]["reasons"] == "it was not pruned"
    assert [(one["round"], one["untied"], one["released"]) for one in found["drafts"]] == [(0, 1, False), (1, 0, True)]
    assert found["probes"][0]["why"] == "12 % is left"
    assert {"verb": "note", "text": "try fewer rows"}.items() <= found["steering"][1].items()


def test_what_is_missing_or_refused_is_told_with_its_reason_in_file_and_appendix() -> None:
    found = told()
    assert found["unscored"] == {"n0902": "the scorer raised KeyError"}
    assert found["figures_left_out"] == {"curve": "draws numbers that are typed"}
    refused = [
        review["issues"]
        for node in found["nodes"]
        for plotting in node["plottings"]
        for review in plotting["reviews"] or ()
        if not review["readable"]
    ]
    assert refused == [["the legend is covered"]]
    shown = render_incidents(fold_events((event, float(at)) for at, event in enumerate(record())))
    for words in ("KeyError", "too good", "far below", "left"):
        assert words in shown, words


def test_the_conditions_of_the_run_are_told() -> None:
    found = told()
    assert found["isolation_told"] == "walls" and found["seed"] == 7 and found["run_version"] == "0.1.0"
    assert found["models"] == ["offline"] and found["settings"]["exec_timeout"] == 60.5
    assert [one["name"] for one in found["datasets"]] == ["digits", "wine"]
    assert {"isolation", "machines", "scorers", "cost", "untested", "seconds_of_code"} <= found.keys()
