"""Required statements: the binder accepts them for any titles, and no draft without them is released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labwright.models.roles.paper_writing import RequiredStatement
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.requested_estimates import compute_requested_estimates
from labwright.record.events.paper_events import DraftAssessed
from labwright.record.events.search_events import LookTaken
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import find_macro_uses
from labwright.record.run_folder import RunFolder
from labwright.record.schema.hypotheses import Effect, Hypothesis, HypothesisVerdict, RivalExplanation
from labwright.record.schema.paper import EstimateRequest, FinalFigure, PaperDraft, PaperFinding, Section
from labwright.review.evidence import check_draft
from labwright.stages.paper import required_statements
from labwright.stages.paper.outline import is_disclosure
from labwright.stages.paper.paper_context import PaperContext, build_write_inputs
from labwright.stages.paper.reflection import drop_figure, find_spare_figure
from labwright.stages.paper.required_statements import (
    complete_draft,
    list_required_statements,
    list_stopping_statements,
)
from labwright.stages.paper.typesetting import assess_paper, select_best
from labwright.stages.settings import PaperSettings
from tests.paper import synthetic_paper
from tests.record.test_reference_baselines import laddered

TITLES = (
    "CIFAR-10",
    "ImageNet-1k",
    "Two Moons",
    "one hundred of 8 x 8 pixels",
    "99.9 percent",
    "50% & more_of #1",
    r"\input{/etc/hostname}",
    r"$\alpha$ and $\beta$",
    "a^2~b",
    "}{",
    "%",
    "Größe 漢字",
    "٣ digits",
    "²",
    "better than the others",
    "VII",
    "half of it",
    "e.g. this. And that!",
    "(un)balanced [x]",
)
CHARACTERS = st.characters(exclude_categories=("Cs",))
NAMES = st.one_of(st.sampled_from(TITLES), st.text(CHARACTERS, min_size=1, max_size=60))
DRAFT = PaperDraft(
    title="A Study",
    abstract="We ask a question.",
    sections=(Section(title="Results", body=r"\papertable{main}"), Section(title="Limitations", body="It is small.")),
)


def called(titles: Sequence[str]) -> RunState:
    """Build a run in which a reference model beats every arm, with the given titles."""
    run = laddered([{"digits": 0.5, "wine": 0.2}], {"digits": 0.0, "wine": 1.0})
    names = iter(titles)
    plan = synthetic_paper.PLAN
    hypothesis = Hypothesis(
        id="h-1",
        statement=next(names),
        reason=next(names),
        effects=(Effect(estimand="baseline@noise20 - method@noise20", smallest=0.01),),
        unit="seeds",
    )
    run.search.data_plan = plan.model_copy(
        update={
            "metrics": tuple(
                one.model_copy(update={"title": next(names), "unit": next(names)}) for one in plan.metrics
            ),
            "arms": tuple(one.model_copy(update={"title": next(names)}) for one in plan.arms),
            "levels": tuple(one.model_copy(update={"title": next(names)}) for one in plan.levels),
            "factor": next(names),
            "hypotheses": (hypothesis,),
        }
    )
    run.search.datasets = tuple(one.model_copy(update={"title": next(names)}) for one in run.search.datasets)
    return run


def material(run: RunState) -> PaperContext:
    return PaperContext(run, RunFolder(Path("/nowhere")), PaperSettings())


@given(st.lists(NAMES, min_size=17, max_size=17))
@example(["CIFAR-10"] * 10 + ["\r"] + ["CIFAR-10"] * 6)  # the title of an arm is blank
def test_the_binder_takes_what_is_owed_whatever_things_are_called(titles: list[str]) -> None:
    made = material(called(titles))
    statements, evidence = build_write_inputs(made).statements, made.evidence
    assert [one.id for one in statements if one.id.startswith("ladder")] == ["ladder-off-the-shelf"]
    draft = complete_draft(DRAFT, statements)[1]
    assert len(complete_draft(DRAFT, statements)[0]) >= 2
    assert complete_draft(draft, statements)[0] == ()
    assert [str(one) for one in check_draft(draft, evidence)] == []


@pytest.mark.slow
@pytest.mark.parametrize("titles", [TITLES[:17], tuple(reversed(TITLES))[:17]])
async def test_what_is_owed_stands_in_the_pdf_whatever_things_are_called(titles: Sequence[str], tmp_path: Path) -> None:
    made = material(called(titles))
    statements = build_write_inputs(made).statements
    draft = complete_draft(DRAFT, statements)[1]
    parts = replace(
        synthetic_paper.make_short_paper(tmp_path, ""),
        draft=draft,
        evidence=made.evidence,
        tables=made.placed_tables,
        figures=(),
    )
    found = await assess_paper(parts, made.template, tmp_path / "paper")
    assert [str(one) for one in found.violations] == [] and found.pdf is not None


def test_an_ablation_and_data_on_which_the_method_is_behind_are_owed() -> None:
    made = material(synthetic_paper.make_state())
    behind = [
        one.model_copy(update={"better": one.other, "mean": abs(one.mean) + 0.1})
        for one in made.claims.differences
        if one.dataset == "wine"
    ]
    found = {one.id: one for one in list_required_statements(made.state, behind)}
    item = found["behind-wine-method-baseline"]
    assert len(item.keys) == len(synthetic_paper.PLAN.levels) and "where its means are worse" in item.text


def test_a_pair_that_a_hypothesis_reads_is_required_by_its_registered_key_which_the_outline_may_use() -> None:
    run = synthetic_paper.make_state()
    assert run.search.data_plan is not None
    wine = "on(baseline@noise20 - method@noise20, wine)"
    one = Hypothesis(
        id="gain",
        statement="x",
        effects=(Effect(estimand="baseline@noise20 - method@noise20", smallest=0.01),),
        alternatives=(Effect(estimand=wine, smallest=0.01),),
        reason="x",
    )
    run.search.data_plan = run.search.data_plan.model_copy(update={"hypotheses": (one,)})
    made = material(run)
    behind = [
        one.model_copy(update={"better": one.other, "mean": abs(one.mean) + 0.1})
        for one in made.claims.differences
        if one.dataset == "wine"
    ]
    inputs = build_write_inputs(made)
    item = {one.id: one for one in list_required_statements(made.state, behind)}["behind-wine-method-baseline"]
    assert item.keys[1] == "hypothesis/gain/alternative-1"
    assert {use.key for use in find_macro_uses(item.text) if use.macro == "result"} <= {*inputs.result_keys}


def test_a_rival_that_no_fresh_seed_measured_is_said_to_be_so() -> None:
    run = synthetic_paper.make_state()
    assert run.search.data_plan is not None
    rival = RivalExplanation(
        statement="The schedule does it.",
        estimand="mean(method - no-schedule, over=[noise20, noise40])",
        ours="above zero",
        theirs="near zero",
    )
    one = Hypothesis(
        id="gain",
        statement="x",
        effects=(Effect(estimand="baseline@noise20 - method@noise20", smallest=0.01),),
        alternatives=(Effect(estimand="no-schedule@noise40 - method@noise40", smallest=0.01),),
        rival=rival,
        reason="x",
    )
    run.search.data_plan = run.search.data_plan.model_copy(update={"hypotheses": (one,)})
    made = material(run)
    [decided] = made.decided
    assert decided.rival is not None and decided.rival.forms == {}
    key = "diff/digits/log_loss/no-schedule@noise40~method@noise40"
    assert "observed" not in decided.rival.note
    assert decided.rival.note.endswith(
        'the rival ("The schedule does it.") near zero; not measured on every fresh seed'
    )
    assert key in {one.key for one in made.exploratory}
    assert "was not measured on every fresh seed" in " ".join(made.disclosures)
    [table] = [one for one in made.tables if one.name == "hypotheses"]
    assert r"& -- & -- & -- & not measured on every fresh seed \\" in table.tabular
    request = EstimateRequest(name="kept", estimand=rival.estimand)
    found, faults = compute_requested_estimates(run, (request,))
    assert faults == () and len(found[0].found.values) > 1
    record = made.claim_record
    cells = [("digits", "no-schedule", "noise40"), ("digits", "method", "noise40")]
    known = record.find_all(dict(zip(cells, (1.0, -1.0), strict=True)), "log_loss")
    assert [one.key for one in known] == [key]


def test_an_outcome_that_a_section_reports_in_words_needs_no_sentence_beside_the_table_that_prints_it() -> None:
    run = synthetic_paper.make_state()
    assert run.search.data_plan is not None
    effect = Effect(estimand="baseline@noise20 - method@noise20", smallest=0.01)
    one = Hypothesis(id="gain", statement="x", effects=(effect,), reason="x")
    run.search.data_plan = run.search.data_plan.model_copy(update={"hypotheses": (one,)})
    [item] = [one for one in material(run).statements if one.id == "hypothesis-gain"]
    body = r"It helped, as registered. \papertable{hypotheses}"
    text = DRAFT.model_copy(update={"sections": (Section(title="Results", body=body),)})
    assert len(complete_draft(text, [item])[0]) == 1
    assert complete_draft(text, [item], (), ["hypothesis-gain"])[0] == ()
    assert complete_draft(text, [item], (), ["hypothesis-gain"])[1] == text
    bare = text.model_copy(update={"sections": (Section(title="Results", body="It helped."),)})
    assert len(complete_draft(bare, [item], (), ["hypothesis-gain"])[0]) == 1, "no table prints it"


def test_no_page_limit_takes_out_what_is_owed() -> None:
    draft = DRAFT.model_copy(
        update={
            "sections": (
                Section(
                    title="Results",
                    body=(
                        r"\papertable{hypotheses} \papertable{main}"
                        "\n\n"
                        r"\paperfigure{decided}"
                        "\n\n"
                        r"\paperfigure{a}"
                        "\n\n"
                        r"Kept."
                    ),
                ),
            )
        }
    )
    figures = tuple(FinalFigure(name=name, description="d", datasets=()) for name in ("decided", "a"))
    first = drop_figure(draft, figures)
    assert first is not None and r"\paperfigure{a}" not in str(first.draft.parts) and "decided" in str(first.draft)
    assert drop_figure(first.draft, figures) is None
    spaced = draft.with_parts({**draft.parts, "section 'Results'": "Kept.\n\n\\paperfigure [t]{ a }"})
    moved = drop_figure(spaced, figures)
    assert moved is not None and moved.draft.sections[0].body == "Kept.", "as TeX reads it"
    body = r"See Figure~\ref{fig:b}." + "\n\n" + r"\paperfigure{a}" + "\n\n" + r"\paperfigure{b}"
    both = draft.model_copy(update={"sections": (Section(title="Results", body=body),)})
    more = (*figures, figures[1].model_copy(update={"name": "b"}))
    assert find_spare_figure(both, more) == "a", "no section refers to it"
    short = DraftAssessed(round=1, draft=draft, left_out=("the main text does not show ablation-a",))
    long = DraftAssessed(round=0, draft=draft, over=0.5, findings=(PaperFinding(text="too long", blocks=True),))
    assert select_best([long, short]) is long, "what is left out weighs more than length"


def test_an_early_stop_is_required_where_it_makes_a_confirmatory_estimate_optimistic() -> None:
    [decision] = decide_hypotheses(called(TITLES[:17]))
    part = decision.parts[0].model_copy(update={"optimistic": True})

    def find(*, confirmatory: bool, **fields: object) -> list[RequiredStatement]:
        hypothesis = decision.hypothesis.model_copy(update={"confirmatory": confirmatory})
        return list(list_stopping_statements([decision.model_copy(update={"hypothesis": hypothesis, **fields})]))

    [item] = find(confirmatory=True, parts=(part,))
    assert "optimistic" in item.point and not item.keys and not is_disclosure(item)
    assert find(confirmatory=True) == [] == find(confirmatory=False, parts=(part,))
    [limited] = list_stopping_statements([decision.model_copy(update={"parts": (part,)})], by_results=False)
    assert "as soon as" in item.text and "ended at a limit" in limited.text


@pytest.mark.parametrize(("verdict", "said"), [("supported", "as soon as"), ("open", "ended at a limit before all")])
def test_a_limit_is_named_only_if_it_left_a_confirmatory_claim_open(
    monkeypatch: pytest.MonkeyPatch, verdict: HypothesisVerdict, said: str
) -> None:
    run = called(TITLES[:17])
    [decision] = decide_hypotheses(run)
    part = decision.parts[0].model_copy(update={"optimistic": True, "low": -5.0, "high": 5.0})
    one = decision.hypothesis.model_copy(update={"confirmatory": True})
    decided = decision.model_copy(update={"parts": (part,), "verdict": verdict, "hypothesis": one, "after": ""})
    monkeypatch.setattr(required_statements, "decide_hypotheses", Mock(return_value=(decided,)))
    look = LookTaken(look=1, seeds=(1, 2), conclusive=False, ends="no time is left")
    limited = replace(run, search=replace(run.search, looks=[look]))
    [item] = [each for each in list_required_statements(limited, []) if each.id == "stopping"]
    assert said in item.text
