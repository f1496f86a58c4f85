"""Every role answers with a valid output of its type, from its inputs alone."""

from __future__ import annotations

import ast
import asyncio

import pytest
from pydantic import BaseModel

from labwright.models.backend import ModelRequest, Prompt
from labwright.models.errors import CatalogueError
from labwright.models.offline.paper_writing import answer_outline, write_draft
from labwright.models.offline.researcher import ANSWER_FUNCTIONS, OfflineResearcher
from labwright.models.roles import ROLES
from labwright.models.roles.claim_reader import ComparedSentences, ReadSentences
from labwright.models.roles.experiment_code import NodeBrief, NodeLine, Program
from labwright.models.roles.figures import (
    ArrayBrief,
    FigureReviews,
    FigureScript,
    FiguresInputs,
    PaperFigureReviews,
    PlotInputs,
    Plots,
    VisionInputs,
)
from labwright.models.roles.node_assessment import (
    CodeReading,
    CompareInputs,
    FeedbackInputs,
    Preference,
    StageReport,
    SummaryInputs,
)
from labwright.models.roles.paper_revision import CiteQueries, CiteSelection, CopyEdits, ReflectInputs, Reflection
from labwright.models.roles.paper_writing import OutlineInputs, PaperOutline, Sections
from labwright.models.roles.study_plan import (
    AblationPlan,
    MissingAblationsAnswer,
    PriorSearch,
    PriorWork,
    ProtocolReview,
)
from labwright.record.schema.data_plan import DataPlan, Measurement
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Attempt, Node, NodeVerdict
from labwright.record.schema.paper import AxesFacts, FigureFacts
from labwright.stages.difference_tables import find_tuning_faults
from labwright.stages.paper.outline import build_section_inputs, group_sections
from tests.models.examples import INPUTS
from tests.models.ideation_examples import INPUTS as IDEATION
from tests.models.offline.role_inputs import (
    IDEA,
    PLAN,
    make_code_inputs,
    make_plan_inputs,
    make_statistics,
    make_write_inputs,
    write_program,
)
from tests.models.repository_examples import INPUTS as REPOSITORY

ARRAYS = tuple(
    ArrayBrief(path=f"inputs/{node}/{kind}__digits__{arm}__noise20.npy", shape=(40, 2), dtype="float64")
    for node in ("n5", "n6")
    for kind in ("loss", "fitted")
    for arm in ("baseline", "method")
)


def measured(values: dict[str, float], dataset: str = "digits") -> tuple[Measurement, ...]:
    return tuple(
        Measurement(
            name="log_loss",
            value=value,
            condition=condition,
            dataset=dataset,
            split="validation",
            seed=1,
            grade="scored",
        )
        for condition, value in values.items()
    )


def make_measured(measurements: tuple[Measurement, ...]) -> Node:
    """A tuned node with these values."""
    attempt = Attempt(number=1, seconds=1.0, measurements=measurements)
    return Node(id="n3", decision=3, parent=None, stage="tuning", kind="tune", seed=1, attempts=(attempt,))


ALL = measured({condition: 0.5 - 0.1 * condition.startswith("method") for condition in PLAN.conditions})
VISION = VisionInputs(
    data_plan=PLAN,
    plan="",
    names=("a.png", "b.png"),
    facts=(FigureFacts(axes=(AxesFacts(xlabel="epoch", ylabel="log loss"),)), FigureFacts()),
)
FEEDBACK = FeedbackInputs(
    idea=IDEA,
    data_plan=PLAN,
    stage="tuning",
    kind="tune",
    node=make_measured(ALL),
    code={},
    parent_measurements=measured({"method@noise20": 0.9}),
)
COMPARE = CompareInputs(
    idea=IDEA,
    data_plan=PLAN,
    stage="tuning",
    noise={"digits": 0.1},
    difference="",
    a=NodeBrief(node=make_measured(ALL)),
    b=NodeBrief(node=make_measured(ALL)),
)
SUMMARY = SummaryInputs(
    idea=IDEA,
    data_plan=PLAN,
    stage="tuning",
    ended="the limit was reached",
    best="n3",
    nodes=(NodeLine(id="n3", kind="tune", varies="EPOCHS=20", status="good", outcome="log_loss"),),
    statistics=make_statistics(),
)
FIGURES = FiguresInputs(
    idea=IDEA,
    data_plan=PLAN,
    arrays=ARRAYS,
    statistics=make_statistics(("without-smoothing",)),
    example_plots="",
    lab_reference="",
    ablations=tuple(f"without-smoothing@{level.name}" for level in PLAN.levels),
)
REPLOT = PlotInputs(
    data_plan=PLAN,
    purpose="replot",
    arrays=(),
    complaints=("Panel 1 has no y label.",),
    plots=write_program(make_code_inputs(ordinal=2)).plots,
    lab_reference="",
)


def is_better(*_: str) -> bool:
    return True


def questions() -> list[tuple[str, BaseModel, type[BaseModel]]]:
    writing = make_write_inputs(is_better)
    planned = answer_outline(OutlineInputs(inputs=writing))
    return [
        ("plan", make_plan_inputs(), DataPlan),
        ("code", make_code_inputs(), Program),
        ("plot", REPLOT, Plots),
        ("vision", VISION, FigureReviews),
        ("feedback", FEEDBACK, NodeVerdict),
        ("summary", SUMMARY, StageReport),
        ("compare", COMPARE, Preference),
        ("figures", FIGURES, FigureScript),
        ("figure_review", INPUTS["figure_review"], PaperFigureReviews),
        ("outline", OutlineInputs(inputs=writing), PaperOutline),
        ("write", build_section_inputs(writing, planned, group_sections(planned, 0)[0], ()), Sections),
        ("reflect", ReflectInputs(inputs=writing, draft=write_draft(writing)), Reflection),
        ("claim_reader", INPUTS["claim_reader"], ReadSentences),
        ("second_claim_reader", INPUTS["second_claim_reader"], ReadSentences),
        ("setup_reader", INPUTS["setup_reader"], ComparedSentences),
        ("copy_edit", INPUTS["copy_edit"], CopyEdits),
        ("ablation_plan", INPUTS["ablation_plan"].model_copy(update={"idea": IDEA, "data_plan": PLAN}), AblationPlan),
        ("cite_ask", INPUTS["cite_ask"], CiteQueries),
        ("cite_select", INPUTS["cite_select"], CiteSelection),
        (
            "missing_ablations",
            INPUTS["missing_ablations"].model_copy(update={"idea": IDEA, "data_plan": PLAN}),
            MissingAblationsAnswer,
        ),
        ("prior_search", INPUTS["prior_search"], PriorSearch),
        ("prior_work", INPUTS["prior_work"], PriorWork),
        ("protocol_review", INPUTS["protocol_review"], ProtocolReview),
        ("code_reader", INPUTS["code_reader"], CodeReading),
        *(
            (role, INPUTS[role], ROLES[role].output) for role in REPOSITORY if role != "coder"
        ),  # tests/stages/repository/test_program_facts.py
    ]


def ask(role: str, inputs: BaseModel, output_type: type[BaseModel]) -> BaseModel:
    request = ModelRequest(role=ROLES[role], inputs=inputs, prompt=Prompt(system="", user=""), output_type=output_type)
    reply = asyncio.run(OfflineResearcher().answer(request))
    assert reply.usage.usd == 0.0 and reply.model == "offline"
    return reply.output


def test_every_role_answers_with_its_type_and_twice_the_same() -> None:
    asked = questions()
    elsewhere = {"influence"} | set(IDEATION)  # tests/review/test_screening.py, tests/context
    assert {role for role, _, _ in asked} == set(ANSWER_FUNCTIONS) - elsewhere
    for role, inputs, output_type in asked:
        first, second = ask(role, inputs, output_type), ask(role, inputs, output_type)
        assert isinstance(first, output_type)
        assert first == second == output_type.model_validate(first.model_dump())


def test_an_idea_in_other_words_is_recognised_and_another_one_refused_in_one_line() -> None:
    worded = Idea.model_validate({"Name": "x", "Title": "Do noisy labels make nets overconfident?", "Experiments": "e"})
    assert ask("plan", make_plan_inputs(idea=worded), DataPlan) == PLAN
    other = Idea.model_validate({"Name": "pests", "Title": "Pest detection in the field", "Experiments": ["e"]})
    with pytest.raises(CatalogueError) as refused:
        ask("plan", make_plan_inputs(idea=other), DataPlan)
    assert "\n" not in str(refused.value)
    assert "label_noise_calibration" in str(refused.value) and "--model openai:" in str(refused.value)


def test_the_plan_keeps_to_what_can_be_had_and_what_the_idea_names() -> None:
    entries = tuple(entry for entry in make_plan_inputs().catalogue if entry.name != "wine")
    plan = ask("plan", make_plan_inputs(catalogue=entries, metrics=("accuracy", "log_loss")), DataPlan)
    assert isinstance(plan, DataPlan)
    assert [use.name for use in plan.datasets] == ["digits", "breast_cancer"]
    assert [metric.name for metric in plan.metrics] == ["log_loss", "accuracy"]
    assert plan.tuned_arms == plan.compared_arms and list(find_tuning_faults(plan)) == []
    with pytest.raises(CatalogueError, match="needs one of the datasets"):
        ask("plan", make_plan_inputs(catalogue=()), DataPlan)


def test_figures_that_the_lint_let_pass_are_readable_and_described() -> None:
    reviews = ask("vision", VISION, FigureReviews)
    assert isinstance(reviews, FigureReviews)
    assert [review.readable for review in reviews.reviews] == [True, True]
    assert reviews.reviews[0].description == "1 panel: log loss against epoch."


def test_a_replot_labels_the_axes_that_lack_a_label() -> None:
    fixed = ask("plot", REPLOT, Plots)
    assert isinstance(fixed, Plots)
    assert "set_ylabel" not in REPLOT.plots.partition("def draw_losses")[2].partition("def draw_reliability")[0]
    script = fixed.apply_to(REPLOT.plots)
    assert script.count("axis.set_ylabel(") == script.count("axis.set_xlabel(") == 2
    ast.parse(script)


def test_a_replot_for_another_reason_is_drawn_anew() -> None:
    other = REPLOT.model_copy(update={"complaints": ("the script raised KeyError",), "plots": "raise KeyError"})
    fixed = ask("plot", other, Plots)
    assert isinstance(fixed, Plots) and "draw_losses" in fixed.plots


def test_the_verdict_names_what_was_not_measured() -> None:
    verdict = ask("feedback", FEEDBACK.model_copy(update={"node": make_measured(ALL[:-1])}), NodeVerdict)
    assert isinstance(verdict, NodeVerdict)
    assert not verdict.sound and "Missing: digits method@noise40." in verdict.analysis
    good = ask("feedback", FEEDBACK, NodeVerdict)
    assert isinstance(good, NodeVerdict) and good.sound and "on digits noise0, digits noise20" in good.analysis
    ablated = measured({f"without-smoothing@{level.name}": 0.4 for level in PLAN.levels})
    changes = {"stage": "ablation", "kind": "ablate"}
    alone = ask("feedback", FEEDBACK.model_copy(update={**changes, "node": make_measured(ablated)}), NodeVerdict)
    partly = ask("feedback", FEEDBACK.model_copy(update={**changes, "node": make_measured(ablated[1:])}), NodeVerdict)
    assert isinstance(alone, NodeVerdict) and isinstance(partly, NodeVerdict)
    assert alone.sound and not partly.sound


def test_where_higher_is_better_the_words_turn() -> None:
    plan = PLAN.model_copy(update={"metrics": tuple(one for one in PLAN.metrics if one.higher_is_better)})
    found = tuple(one.model_copy(update={"name": "accuracy"}) for one in ALL)
    verdict = ask(
        "feedback", FEEDBACK.model_copy(update={"data_plan": plan, "node": make_measured(found)}), NodeVerdict
    )
    assert isinstance(verdict, NodeVerdict)
    assert "better validation accuracy than baseline in no comparison" in verdict.analysis
    drawn = ask("figures", FIGURES.model_copy(update={"data_plan": plan}), FigureScript)
    assert isinstance(drawn, FigureScript) and "Higher is better" in drawn.figures[0].description


def test_a_summary_without_a_best_or_replicates_says_so() -> None:
    none = ask("summary", SUMMARY.model_copy(update={"best": None}), StageReport)
    assert isinstance(none, StageReport) and "No node" in none.found
    bare = ask("summary", SUMMARY.model_copy(update={"statistics": (), "replicates_failed": 2}), StageReport)
    assert isinstance(bare, StageReport)
    assert bare.supported_by_replicates == "Nothing was replicated in this stage. 2 replicates failed."


def test_figures_follow_what_was_recorded() -> None:
    full = ask("figures", FIGURES, FigureScript)
    assert isinstance(full, FigureScript)
    ast.parse(full.script)
    assert [one.name for one in full.figures] == ["primary-by-noise", "reliability-and-memorisation", "ablation"]
    bare = ask("figures", FIGURES.model_copy(update={"arrays": (), "ablations": ()}), FigureScript)
    assert isinstance(bare, FigureScript)
    assert [one.name for one in bare.figures] == ["primary-by-noise", "reliability-and-training", "ece-by-noise"]
    assert not [one for one in (*full.figures, *bare.figures) if any(char.isdigit() for char in one.description)]
