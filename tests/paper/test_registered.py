"""Page one, a table and the appendix tell what was registered and what came of it, all in macros of the record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labwright.record.claims.clauses import clauses
from labwright.record.claims.decisions import decisions
from labwright.record.fold.state import RunState
from labwright.review.evidence import check_pdf
from labwright.stages.paper.registered import UNREAD, in_full, page_one, table_of
from labwright.stages.paper.template import load
from labwright.stages.paper.typeset import assess
from tests.claimed import claimed
from tests.paper import synthetic


def asked() -> RunState:
    run = synthetic.state()
    assert run.data_plan is not None
    run.data_plan = run.data_plan.model_copy(
        update={
            "hypotheses": claimed("method", "baseline", higher=False, level="noise20"),
            "objective": "measure",
            "objective_reason": "The claim is about a size.",
        }
    )
    return run


def test_page_one_has_the_plan_and_its_objective_and_a_table_every_verdict() -> None:
    run = asked()
    text = page_one(run)
    assert run.plan_hash[:12] in text and "measure" in text and "The claim is about a size" in text
    assert UNREAD in text and "tabular" not in text
    [table] = table_of(run)
    assert "supported (preview)" in table.tabular and r"\rec{0.055} [\rec{0.0" in table.tabular
    assert "A preview confirms nothing" in table.caption
    assert page_one(RunState()) == "" and in_full(synthetic.state()) == ""
    assert table_of(synthetic.state()) == () and "Data plan" in page_one(synthetic.state())


def test_the_appendix_tells_what_came_of_the_alternatives_and_of_the_rival() -> None:
    run = asked()
    assert run.data_plan is not None
    [one] = run.data_plan.hypotheses
    other = one.effects[0].model_copy(update={"smallest": 9.0})
    run.data_plan = run.data_plan.model_copy(
        update={"hypotheses": (one.model_copy(update={"alternatives": (one.effects[0], other)}),)}
    )
    [found], text = decisions(run), " ".join(in_full(run).split())
    assert [part.verdict for part in found.others] == ["supported", "smaller"] and found.holds == 1
    assert text.count("Declared alternatives:") == 1 and r"(supported at \rec{0.02});" in text
    assert "(smaller at " in text and "It came to" in text and "others" not in found.model_dump()


@pytest.mark.slow
async def test_both_are_set_and_nothing_in_them_is_untied(tmp_path: Path) -> None:
    run = asked()
    paper = synthetic.bare(tmp_path, "Table~\\ref{tab:hypotheses} has it.\n\n\\papertable{hypotheses}")
    evidence = paper.evidence
    found = decisions(run)
    parts = replace(
        paper,
        registered=page_one(run),
        appendix=in_full(run),
        tables=table_of(run),
        evidence=replace(evidence, tables=frozenset({"hypotheses"}), verdicts=clauses(run, found, ())),
    )
    built = await assess(parts, load("conference"), tmp_path / "paper")
    assert built.pdf is not None and built.violations == () and built.findings == ()
    assert await check_pdf(tmp_path / "paper", parts.evidence) == ()
    assert r"\verdict{hypothesis/gain}" in (tmp_path / "paper" / "appendix.tex").read_text()
