"""A table and the appendix report what was registered and its outcomes, all in macros of the record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labwright.record.claims.hypothesis_tests import decide_hypotheses, read_deciding_runs
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import to_plain_text
from labwright.record.schema.hypotheses import EffectSign, HypothesisDecision, RivalExplanation
from labwright.review.evidence import check_pdf
from labwright.stages.paper import result_tables
from labwright.stages.paper.appendix import list_disclosures
from labwright.stages.paper.result_tables import (
    NO_PRIOR_WORK_NOTE,
    build_hypothesis_tables,
    render_in_full,
    render_plan_note,
)
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import assess_paper
from tests.hypotheses import make_hypotheses
from tests.paper import synthetic_paper


def asked() -> RunState:
    run = synthetic_paper.make_state()
    assert run.search.data_plan is not None
    run.search.data_plan = run.search.data_plan.model_copy(
        update={
            "hypotheses": make_hypotheses("method", "baseline", higher=False, level="noise20"),
            "objective": "measure",
            "objective_reason": "The claim is about a size.",
        }
    )
    return run


def test_the_plan_and_its_objective_are_disclosed_and_a_table_has_every_verdict() -> None:
    run = asked()
    text = render_plan_note(run)
    assert run.search.plan_hash[:12] in text and "every arm at its best, never by an effect. Reason: The claim" in text
    assert NO_PRIOR_WORK_NOTE in text and "tabular" not in text
    [table] = build_hypothesis_tables(run)
    lines = table.tabular.split("\n")
    [row] = [line for line in lines if r"\emph{Gain}: cross-entropy minus label smoothing, at" in line]
    assert r"\rec{0.055} \rec{[0.0" in row, "one effect shares the row of its hypothesis"
    assert row.endswith(r"& \rec{5} & positive & at least \rec{0.02:} supported, preview \\")
    assert "Rival" not in table.tabular + table.caption, "it is ruled out, which the appendix says"
    assert "A preview confirms nothing" in table.caption
    assert render_in_full(synthetic_paper.make_state()) == ""
    assert build_hypothesis_tables(synthetic_paper.make_state()) == () and "Data plan" in render_plan_note(
        synthetic_paper.make_state()
    )


def test_the_appendix_tells_what_came_of_the_alternatives_and_of_the_rival() -> None:
    run = asked()
    assert run.search.data_plan is not None
    [one] = run.search.data_plan.hypotheses
    other = one.effects[0].model_copy(update={"smallest": 9.0})
    run.search.data_plan = run.search.data_plan.model_copy(
        update={"hypotheses": (one.model_copy(update={"alternatives": (one.effects[0], other)}),)}
    )
    [found], text = decide_hypotheses(run), " ".join(render_in_full(run).split())
    assert [part.verdict for part in found.others] == ["supported", "refuted"] and found.holds == 1
    assert text.count("Declared alternatives:") == 1 and r"(positive; at least \rec{0.02:} supported);" in text
    assert "intervals do not cover training examples outside it" in text
    assert r"; at least \rec{9:} refuted)" in text and "Measured: " in text and "others" not in found.model_dump()


def test_seeds_without_a_value_take_one_line_with_their_count_and_the_first() -> None:
    run = asked()
    lost = [one.node for one in read_deciding_runs(run)][1:3]
    run.search.test_measurements = {
        node: () if node in lost else values for node, values in run.search.test_measurements.items()
    }
    [part] = decide_hypotheses(run)[0].parts
    text = to_plain_text(render_in_full(run))
    assert len(part.left_out) == 2 and text.count("was not measured by the node that decides") == 1
    assert f"2 without a value, left out; the first: {part.left_out[0]}." in " ".join(text.split())


@pytest.mark.parametrize(
    ("rival", "theirs", "smallest", "said"),
    [
        ("baseline@noise20", "above zero", 0.01, "What it predicts was observed."),
        ("baseline@noise20 - method@noise20", "above zero", 9.0, "observed, though the effect that it would explain"),
        ("method@noise20 - baseline@noise20", "near zero", 0.01, "agrees with neither."),
        ("method@noise20 - method@noise20", "near zero", 0.01, "the comparison that separates the two explanations is"),
    ],
)
def test_what_the_control_of_a_rival_explanation_shows_is_disclosed(
    rival: str, theirs: EffectSign, smallest: float, said: str
) -> None:
    run = asked()
    assert run.search.data_plan is not None
    [one] = run.search.data_plan.hypotheses
    ours: EffectSign = "near zero" if theirs == "above zero" else "above zero"
    explained = RivalExplanation(statement="Luck.", estimand=rival, ours=ours, theirs=theirs)
    effect = one.effects[0].model_copy(update={"smallest": smallest})
    if smallest == 9.0:
        effect = effect.model_copy(update={"estimand": f"-({effect.estimand})"})
    changed = one.model_copy(update={"rival": explained, "effects": (effect,)})
    run.search.data_plan = run.search.data_plan.model_copy(update={"hypotheses": (changed,)})
    [line] = [text for text in list_disclosures(run, ()) if "rival explanation" in text]
    assert said in line and ("not ruled out" in line) == ("is open" in line)


@pytest.mark.slow
async def test_both_are_set_and_nothing_in_them_is_untied(tmp_path: Path) -> None:
    run = asked()
    paper = synthetic_paper.make_short_paper(
        tmp_path, "Table~\\ref{tab:hypotheses} has it.\n\n\\papertable{hypotheses}"
    )
    evidence = paper.evidence
    parts = replace(
        paper,
        appendix=f"{render_plan_note(run)}\n\n{render_in_full(run)}",
        tables=build_hypothesis_tables(run),
        evidence=replace(evidence, tables=frozenset({"hypotheses"})),
    )
    built = await assess_paper(parts, load_template("conference"), tmp_path / "paper")
    assert built.pdf is not None and built.violations == () and built.findings == ()
    assert await check_pdf(tmp_path / "paper", parts.evidence) == ()
    assert "Found: supported." in (tmp_path / "paper" / "appendix.tex").read_text()


def test_equal_effects_of_two_hypotheses_have_one_interval_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    run = asked()
    [first] = decide_hypotheses(run)
    part = first.parts[0].model_copy(update={"low": 0.031, "high": 0.079})
    second = first.model_copy(
        update={
            "level": first.level / 2,
            "parts": (part,),
            "hypothesis": first.hypothesis.model_copy(update={"id": "again", "title": "again"}),
        }
    )

    def decide(*found: HypothesisDecision) -> None:
        def answer(_: RunState) -> tuple[HypothesisDecision, ...]:
            return found

        monkeypatch.setattr(result_tables, "decide_hypotheses", answer)

    decide(first, second)
    [table] = build_hypothesis_tables(run)
    assert table.tabular.count("[0.031") == 2, "both rows have the wider interval"
    turned = second.model_copy(update={"parts": (part.model_copy(update={"direction": "open"}),)})
    decide(first, turned)
    assert build_hypothesis_tables(run)[0].tabular.count("[0.031") == 1, "a row keeps the interval of its direction"
