"""Tables and figures of a study with three confirmatory arms: what they show, where they stand, what is bold."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from labwright.pdf.layout import read_text
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.claims.formatting import format_claims
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import Effect, Hypothesis
from labwright.review.evidence import Evidence, find_bold_claims
from labwright.review.evidence.bold_check import check_bold
from labwright.stages.paper.hypothesis_figures import build_figure_data, build_figure_script
from labwright.stages.paper.result_tables import BOLD_NOTE, build_result_tables
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import assess_paper
from tests.paper import erasing_study

RUN = erasing_study.make_state()
WINNER = "test/fashion/accuracy/erase-anywhere@a95"


def plain(tex: str) -> str:
    """Return TeX without the marks of recorded text."""
    return re.sub(r"\\rec\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1", tex).replace("~", " ")


def with_effect(**changes: object) -> DataPlan:
    """Return the plan with one hypothesis, whose effect is changed."""
    one = erasing_study.PLAN.hypotheses[0]
    effect = one.effects[0].model_copy(update=changes)
    return erasing_study.PLAN.model_copy(update={"hypotheses": (one.model_copy(update={"effects": (effect,)}),)})


def test_each_hypothesis_is_a_sentence_with_its_verdict_above_its_effects() -> None:
    table, *_ = erasing_study.make_tables(RUN)
    groups = [group.split("\n") for group in plain(table.tabular).split("\\addlinespace[3pt]\n")]
    assert [len(group) for group in groups[1:]] == [4, 4], (
        "a sentence, its effects, and an empty line or the end of the table"
    )
    heads = [next(line for line in group if r"\emph{" in line) for group in groups]
    assert [re.search(r"\\emph\{(.*?)\}", line)[1] for line in heads] == [  # pyright: ignore[reportOptionalSubscript]
        "Erasing helps",
        "By hiding the mark",
        "The gain grows",
    ]
    assert [line.rpartition("& ")[2] for line in heads] == ["open \\\\", "refuted \\\\", "supported, exploratory \\\\"]
    helps = "\n".join(groups[0])
    assert (
        r"Random erasing minus no erasing, at 95 \% & 0.025 [0.016, 0.034] & 5 & positive & at least 0.03: open"
        in helps
    )
    assert r"Rival: random erasing minus erasing, mark spared, at 95 \% & 0.012" in helps and "as expected" in helps
    assert "0 of 1 declared alternatives are supported." in helps
    assert "& open & at least 0.01: refuted" in "\n".join(groups[1]), "two answers: direction and claim"
    for name in ("erase-anywhere", "erasing-helps", "a95", "fashion "):
        assert name not in table.tabular + table.caption, "no ids"
    assert r"97.5\% and 95\%" in plain(table.caption) and "in accuracy on Fashion-MNIST" in table.caption


def test_the_main_table_has_every_confirmatory_arm_and_bold_only_where_a_hypothesis_is_decided() -> None:
    _, main, second = erasing_study.make_tables(RUN)
    head = main.tabular.split("\n")[2]
    assert "No erasing & Random erasing & " in head and r"Erasing, mark\\spared" in head
    assert re.findall(r"\\textbf\{(.*?)\}\}", main.tabular) == [rf"\result{{{WINNER}.pm"]
    assert BOLD_NOTE in main.caption and "textbf" not in second.tabular
    assert second.name == "tradeoffs" and "worse than a baseline in calibration error" in second.caption
    better = [one for one in compute_paper_claims(RUN) if one.name != "ece"]
    shown = build_result_tables(better, erasing_study.PLAN, differences=compute_differences(RUN, better))
    assert [one.name for one in shown] == ["main", "metrics"] and BOLD_NOTE not in shown[0].caption


@pytest.mark.parametrize(
    ("plan", "bold"),
    [
        (with_effect(), {WINNER}),
        (with_effect(estimand="none@a95 - erase-anywhere@a95"), {WINNER}),
        (with_effect(metric="log_loss"), {WINNER.replace("accuracy", "log_loss")}),
        (with_effect(estimand="erase-anywhere@a10 - none@a10"), set[str]()),  # open
        (with_effect(estimand="erase-off-mark@a95 - none@a95"), set[str]()),  # another arm has a better mean
        (with_effect(estimand="mean(erase-anywhere - none, over=levels)"), set[str]()),  # of several cells
        (with_effect(estimand="erase-anywhere@a95 - 0.5 * none@a95"), set[str]()),  # no difference of two arms
    ],
)
def test_bold_follows_the_direction_of_a_decided_difference(plan: DataPlan, bold: set[str]) -> None:
    run = erasing_study.make_state(plan)
    claims = compute_paper_claims(run)
    assert find_bold_claims(plan, decide_hypotheses(run), claims) == bold
    preview = [one.model_copy(update={"confirmed": False}) for one in decide_hypotheses(run)]
    assert find_bold_claims(plan, preview, claims) == frozenset()


def test_other_bold_values_are_violations() -> None:
    claims = compute_paper_claims(RUN)
    evidence = Evidence(results=format_claims(claims), bold=frozenset({WINNER}))
    bold = r"\textbf{\result{%s.mean}} against \textbf{\result{%s.mean}}"
    other = WINNER.replace("erase-anywhere", "none")
    assert [one.excerpt for one in check_bold(bold % (WINNER, other), evidence, "x")] == [rf"\result{{{other}.mean}}"]


def test_the_lead_figure_shows_all_confirmatory_arms_against_the_baseline_and_its_caption_stands_alone() -> None:
    data = build_figure_data(RUN, RunFolder(Path("unused")))
    [panel] = data["differences"]
    assert [one["label"] for one in panel["series"]] == ["random erasing", "erasing, mark spared"]
    assert [len(point["values"]) for one in panel["series"] for point in one["points"]] == [5] * 6
    assert panel["series"][0]["points"][2]["mean"] == pytest.approx(decide_hypotheses(RUN)[0].parts[0].mean)
    assert panel["margins"] == [0.03], "of the claim above zero the smallest effect"
    script = build_figure_script(data, erasing_study.PLAN)
    assert script is not None and (script.figures[0].name, script.figures[0].placement) == ("decided", "main")
    for words in (
        "Difference in accuracy from no erasing on Fashion-MNIST",
        "margin, 0.03",
        "random erasing and erasing",
    ):
        assert words in script.figures[0].description


def test_a_method_hoped_to_lose_has_its_margin_below_zero() -> None:
    plan = with_effect(estimand="none@a95 - erase-anywhere@a95")
    [panel] = build_figure_data(erasing_study.make_state(plan), RunFolder(Path("unused")))["differences"]
    assert panel["margins"] == [-0.03]


def test_effects_on_other_data_and_metrics_name_them() -> None:
    one = Hypothesis(
        id="x",
        statement="It is so.",
        effects=(Effect(estimand="none@a95 - erase-anywhere@a95", metric="log_loss", smallest=0.01),),
        reason="r",
    )
    run = erasing_study.make_state(erasing_study.PLAN.model_copy(update={"hypotheses": (one,)}))
    table, *_ = erasing_study.make_tables(run)
    assert r"No erasing minus random erasing, at 95 \%, in log loss &" in plain(table.tabular)


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
        lines = [line.strip() for line in text.split("\n") if not re.fullmatch(r"\s*(\d*|Written by .*)", line)]
        starts = [k for k, line in enumerate(lines) if re.match(r"(?:Table|Figure) \d\.", line)]
        assert len(starts) == 4
        tables = [k for k in starts if lines[k].startswith("Table")]
        assert all(lines[k - 1].endswith(("ways.", "Part I")) for k in tables), "no sentence goes on below a table"
