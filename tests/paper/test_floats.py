"""Tables and figures of a study with three confirmatory arms: what they show and where they stand."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from labwright.pdf.layout import read_text
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.events.search_events import LookTaken
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import Effect, Hypothesis
from labwright.stages.paper import result_tables
from labwright.stages.paper.hypothesis_figures import build_figure_data, build_figure_script
from labwright.stages.paper.latex_sources import FigureFile
from labwright.stages.paper.outline import count_text_words, measure_floats
from labwright.stages.paper.paper_context import PaperContext, build_write_inputs
from labwright.stages.paper.result_tables import build_result_tables, render_in_full
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import assess_paper
from labwright.stages.settings import PaperSettings
from tests.paper import erasing_study

RUN = erasing_study.make_state()


def plain(tex: str) -> str:
    """Return TeX without the marks of recorded text."""
    return re.sub(r"\\rec\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1", tex).replace("~", " ")


def with_effect(**changes: object) -> DataPlan:
    """Return the plan with one hypothesis, whose effect is changed."""
    one = erasing_study.PLAN.hypotheses[0]
    effect = one.effects[0].model_copy(update=changes)
    return erasing_study.PLAN.model_copy(update={"hypotheses": (one.model_copy(update={"effects": (effect,)}),)})


def test_a_hypothesis_is_a_row_for_each_effect_with_its_verdict() -> None:
    table, *_ = erasing_study.make_tables(RUN)
    rows = plain(table.tabular).split("\n")[4:-2]
    assert rows[0] == (
        r"\emph{Erasing helps}: random erasing minus no erasing, at 95\% & 2.5 [1.6, 3.4] & 5 & positive & "
        r"at least 3 points: open \\"
    )
    assert rows[1] == r"\addlinespace[2pt]\multicolumn{4}{@{}l}{\emph{By hiding the mark}} & refuted \\", (
        "first the verdict"
    )
    assert len(rows) == 5 and rows[2].endswith("above zero: supported \\\\")
    assert rows[3].endswith(r"& open & at least 0.01: refuted \\"), "two answers: direction and claim"
    assert rows[4].startswith(r"\addlinespace[2pt]\emph{The gain grows}: ") and rows[4].endswith(
        r"supported, exploratory \\"
    )
    assert "Rival" not in table.tabular + table.caption, "a rival that is ruled out is in the appendix"
    for name in ("erase-anywhere", "erasing-helps", "a95", "fashion "):
        assert name not in table.tabular + table.caption, "no ids"
    assert (
        "interval (97.5\\%, corrected by Holm; {*}95\\%)" in plain(table.caption)
        and "in accuracy on Fashion-MNIST" in table.caption
    )
    full = plain(render_in_full(RUN))
    assert "Declared alternatives:" in full and "Rival explanation:" in full, "the appendix has the rest"


def test_after_several_looks_the_caption_explains_what_an_interval_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_tables, "decide_hypotheses", Mock(return_value=decide_hypotheses(RUN)[:1]))
    looks = [LookTaken(look=0, seeds=(1,)), LookTaken(look=1, seeds=(1, 2))]
    several = replace(RUN, search=replace(RUN.search, looks=looks))
    for run, explained in ((several, True), (RUN, False)):
        [table] = result_tables.build_hypothesis_tables(run)
        assert table.caption.count("an estimate may lie off its middle") == explained


def test_a_row_says_what_its_interval_covers_where_the_rows_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    first = decide_hypotheses(RUN)[0]
    seeds, both = (
        first.model_copy(update={"hypothesis": first.hypothesis.model_copy(update={"unit": unit})})
        for unit in ("seeds", "seeds and examples")
    )
    for found, named in (((seeds, both), 1), ((both, both), 0), ((seeds,), 0)):
        monkeypatch.setattr(result_tables, "decide_hypotheses", Mock(return_value=found))
        [table] = result_tables.build_hypothesis_tables(RUN)
        assert table.tabular.count("over new test examples too") == named


def test_a_table_says_the_grade_that_its_values_share_if_the_program_did_not_score_them() -> None:
    claims = compute_paper_claims(RUN)
    logged = [one.model_copy(update={"grade": "logged"}) for one in claims]
    assert all("Grade of all values: logged." in one.caption for one in build_result_tables(logged, erasing_study.PLAN))
    for found in (claims, [logged[0], *claims[1:]]):
        assert "Grade of" not in build_result_tables(found, erasing_study.PLAN)[0].caption


def test_a_rival_that_is_not_ruled_out_stays_in_the_table() -> None:
    first, *others = erasing_study.PLAN.hypotheses
    assert first.rival is not None
    turned = first.rival.model_copy(update={"ours": first.rival.theirs, "theirs": first.rival.ours})
    plan = erasing_study.PLAN.model_copy(update={"hypotheses": (first.model_copy(update={"rival": turned}), *others)})
    table, *_ = erasing_study.make_tables(erasing_study.make_state(plan))
    assert "Rival: random erasing minus erasing, mark spared, at 95" in plain(table.tabular)
    assert "as the rival says" in table.tabular and "a rival explanation predicted" in table.caption


def test_the_main_table_has_every_confirmatory_arm_and_nothing_bold() -> None:
    _, main, second = erasing_study.make_tables(RUN)
    head = main.tabular.split("\n")[2]
    assert "No erasing & Random erasing & " in head and r"Erasing, mark\\spared" in head
    assert "textbf" not in main.tabular + second.tabular and "Bold" not in main.caption
    assert (second.name, second.placement) == ("metrics", "appendix")
    assert "excludes zero: calibration error (lower is better)." in main.caption
    assert "/ece/" in main.tabular and "/log_loss/" not in main.tabular, "others only where a method is worse"
    better = [one for one in compute_paper_claims(RUN) if one.name != "ece"]
    shown = build_result_tables(better, erasing_study.PLAN, differences=compute_differences(RUN, better))
    assert [one.name for one in shown] == ["main", "metrics"]
    assert "Rows of" not in shown[0].caption


def test_there_is_no_second_table_of_what_the_main_table_prints() -> None:
    _, main, _ = erasing_study.make_tables(RUN)
    printed = [one for one in compute_paper_claims(RUN) if f"{{{one.key}." in main.tabular]
    outside_the_plan = printed[-1].model_copy(update={"name": "macro_f1"})
    differences = compute_differences(RUN, printed)
    made = build_result_tables([*printed, outside_the_plan], erasing_study.PLAN, differences=differences)
    assert "/ece/" in made[0].tabular and [one.name for one in made] == ["main"]


def test_the_program_takes_less_than_half_of_a_paper_with_three_hypotheses() -> None:
    tables = [one for one in erasing_study.make_tables(RUN) if one.placement == "main"]
    template = load_template("workshop")
    words = measure_floats([FigureFile("decided", Path("none"))], tables, {}, template)
    assert len(RUN.search.data_plan.hypotheses if RUN.search.data_plan else ()) == 3
    assert sum(words.values()) < 0.45 * count_text_words(template)


def test_text_tables_and_figure_have_one_interval_of_a_registered_difference() -> None:
    [part, *_] = decide_hypotheses(RUN)[0].parts
    [panel] = build_figure_data(RUN)["differences"]
    drawn = panel["series"][0]["points"][2]
    assert part.low is not None and part.high is not None
    assert (drawn["low"], drawn["high"]) == (100 * part.low, 100 * part.high), "corrected, as in the table"
    inputs = build_write_inputs(PaperContext(RUN, RunFolder(Path("unused")), PaperSettings()))
    keys = [one.key for one in inputs.comparisons]
    assert (
        "diff/fashion/accuracy/erase-anywhere@a10~none@a10" in keys
        and "diff/fashion/accuracy/erase-anywhere@a95~none@a95" not in keys
    )


def test_the_lead_figure_shows_all_confirmatory_arms_against_the_baseline_and_its_caption_stands_alone() -> None:
    data = build_figure_data(RUN)
    [panel] = data["differences"]
    assert [one["label"] for one in panel["series"]] == ["random erasing", "erasing, mark spared"]
    assert [len(point["values"]) for one in panel["series"] for point in one["points"]] == [5] * 6
    assert panel["series"][0]["points"][2]["mean"] == pytest.approx(
        100 * (decide_hypotheses(RUN)[0].parts[0].mean or 0)
    )
    assert panel["margins"] == [3.0], "of the claim above zero the smallest effect"
    script = build_figure_script(data, erasing_study.PLAN)
    assert script is not None and (script.figures[0].name, script.figures[0].placement) == ("decided", "main")
    for words in (
        "Improvement in accuracy over no erasing on Fashion-MNIST (arm minus",
        "margin, 3 points",
        "Small points are seeds",
    ):
        assert words in script.figures[0].description


def test_a_method_hoped_to_lose_has_its_margin_below_zero() -> None:
    plan = with_effect(estimand="none@a95 - erase-anywhere@a95")
    [panel] = build_figure_data(erasing_study.make_state(plan))["differences"]
    assert panel["margins"] == [-3.0]


def test_effects_on_other_data_and_metrics_name_them() -> None:
    one = Hypothesis(
        id="x",
        statement="It is so.",
        effects=(Effect(estimand="none@a95 - erase-anywhere@a95", metric="log_loss", smallest=0.01),),
        reason="r",
    )
    run = erasing_study.make_state(erasing_study.PLAN.model_copy(update={"hypotheses": (one,)}))
    table, *_ = erasing_study.make_tables(run)
    assert r"no erasing minus random erasing, at 95\%, in log loss &" in plain(table.tabular)


@pytest.mark.slow
@pytest.mark.parametrize("template", ["workshop", "conference"])
def test_floats_stand_between_paragraphs_in_print_size(template: str, tmp_path: Path) -> None:
    parts = erasing_study.make_parts(tmp_path, template)
    found = asyncio.run(assess_paper(parts, load_template(template), tmp_path / "paper"))
    assert found.pdf is not None and found.violations == () and found.findings == ()
    log = (tmp_path / "paper" / "paper.log").read_text()
    assert "is set at" not in log, "no table is scaled down below seven points"
    if template == "workshop":
        text = read_text(found.pdf)
        lines = [line.strip() for line in re.split("[\n\f]", text) if not re.fullmatch(r"\s*(\d*|Written by .*)", line)]
        starts = [k for k, line in enumerate(lines) if re.match(r"(?:Table|Figure) \d\.", line)]
        assert len(starts) == 4
        tables = [k for k in starts if lines[k].startswith(("Table 1", "Table 2"))]
        above = [lines[k - 1] for k in tables]
        assert all(one.endswith("ways.") or one not in erasing_study.TEXT for one in above), "no sentence goes on below"
