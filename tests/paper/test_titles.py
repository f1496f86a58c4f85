"""Titles of the plan that contain numbers and signs of TeX are printed as they are, everywhere."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.pdf.layout import read_text
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.estimands import describe_estimand
from labwright.record.schema.data_plan import DataPlan, DatasetUse
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import Evidence, check_draft
from labwright.stages.paper.latex import capitalise, escape, mark_recorded
from labwright.stages.paper.latex_sources import FigureFile, PaperParts, build_sources
from labwright.stages.paper.required_statements import list_required_statements
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import assess_paper
from tests.paper import erasing_study

ARMS = ("k = 5", "k = sqrt(n), 50% & x_1", "top-3 # {7} | ^2")
LEVELS = ("10 % / chance", "p = 0.8 @ 3", "95 %, T < 2")


def retitle(plan: DataPlan) -> DataPlan:
    """Return the plan with numbers and signs of TeX in the titles of everything that has one."""
    return plan.model_copy(
        update={
            "arms": tuple(one.model_copy(update={"title": name}) for one, name in zip(plan.arms, ARMS, strict=True)),
            "levels": tuple(
                one.model_copy(update={"title": name}) for one, name in zip(plan.levels, LEVELS, strict=True)
            ),
            "datasets": tuple(one.model_copy(update={"title": "CIFAR_10 #1 [a=b]"}) for one in plan.datasets),
            "metrics": tuple(
                one.model_copy(update={"title": f"{one.name} & top_{at} > 50%"}) for at, one in enumerate(plan.metrics)
            ),
            "hypotheses": tuple(
                one.model_copy(update={"title": f"k = 5 @ {at}: 100% & more"})
                for at, one in enumerate(plan.hypotheses, 3)
            ),
        }
    )


def test_a_generated_caption_is_typeset_as_it_is_and_a_description_may_be_placed(tmp_path: Path) -> None:
    path = tmp_path / "decided.pdf"
    path.write_bytes(b"/MediaBox [0 0 300 200]")
    text = 'Over k = 5 on a/b_c|d "e" ^f, 95% intervals.'
    evidence = Evidence(
        results={}, figures=frozenset({"decided"}), captions={"decided": mark_recorded(text)}, names=("k = 5",)
    )
    draft = PaperDraft(
        title="A Study",
        abstract="We ask.",
        sections=(Section(title="Results", body="\\paperfigure{decided}"),),
        captions={"decided": mark_recorded(text)},
    )
    made = build_sources(
        PaperParts(draft=draft, evidence=evidence, figures=(FigureFile("decided", path),)), load_template()
    )
    assert f"{{{mark_recorded(text)}}}" in made.files["floats.tex"]
    described = draft.model_copy(update={"captions": {"decided": escape(text)}})
    assert check_draft(described, evidence) == ()


def test_a_title_that_starts_with_a_variable_has_no_capital_and_a_contrast_of_datasets_is_described_once() -> None:
    titles = ("k = 5", "k-NN", "a small net", "x", "plain training", "$x$", "2 layers")
    assert [capitalise(one) for one in titles] == [
        "k = 5",
        "k-NN",
        "A small net",
        "x",
        "Plain training",
        "$x$",
        "2 layers",
    ]
    plan = erasing_study.PLAN.model_copy(
        update={"datasets": (*erasing_study.PLAN.datasets, DatasetUse(name="wine", title="Wine"))}
    )
    gain = "erase-anywhere@a95 - none@a95"
    assert describe_estimand(f"on({gain}, wine) - on({gain}, fashion)", plan) == (
        "(random erasing minus no erasing, at 95 %) on Wine minus the same on Fashion-MNIST"
    )


@pytest.mark.slow
@pytest.mark.parametrize("template", ["conference", pytest.param("workshop", marks=pytest.mark.bench)])
def test_titles_with_numbers_and_signs_are_printed_everywhere_and_pass_the_check(template: str, tmp_path: Path) -> None:
    plan = retitle(erasing_study.PLAN)
    parts, run = erasing_study.make_parts(tmp_path, template, plan), erasing_study.make_state(plan)
    differences = compute_differences(run, compute_paper_claims(run))
    required = [text for one in list_required_statements(run, differences) for text in one.sentences]
    macros = [f"\\setup{{{key}}}" for key in parts.evidence.setups if key.endswith(".title")]
    typed = ["We typed k = 5 and p = 0.8 @ 3, and CIFAR\\_10 \\#1 [a=b]."]
    body = "\n\n".join([*required, ", ".join(macros), *typed])
    draft = parts.draft.model_copy(update={"sections": (*parts.draft.sections, Section(title="Everything", body=body))})
    parts = replace(parts, draft=draft, evidence=replace(parts.evidence, names=(*ARMS, *LEVELS, "CIFAR_10 #1 [a=b]")))
    assert [str(one) for one in check_draft(draft, parts.evidence)] == []
    found = asyncio.run(assess_paper(parts, load_template(template), tmp_path / "paper"))
    assert [str(one) for one in found.violations] == [] and found.pdf is not None
    text = " ".join(read_text(found.pdf).split())
    assert "over k = 5 on CIFAR_10 #1 [a=b] (arm minus k = 5; below zero: worse)" in text
    assert "allowbreak" not in text and "\\rec" not in text and "textbackslash" not in text


@pytest.mark.parametrize("typed", ["$k=5$", "k = 5", "k=5", "$k = 5$"])
def test_a_name_with_an_equation_may_be_typed_in_a_formula(typed: str) -> None:
    evidence = Evidence(results={}, names=("k = 5",))
    draft = PaperDraft(
        title="A Study", abstract="We ask.", sections=(Section(title="Method", body=f"Arm {typed} is it."),)
    )
    assert check_draft(draft, evidence) == ()
