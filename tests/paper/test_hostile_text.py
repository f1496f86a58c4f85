r"""Untrusted texts on their way to TeX: code, plan, data, bibliography, errors, names. None of them is run as TeX.

A text with commands, active characters and a typed number is put in every field at once. The paper compiles and prints
the record's values, and the typed number appears only where the program quotes the record.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from labwright.literature.bibtex import parse_bibtex
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.formatting import format_claims, format_setups
from labwright.record.events import EVENT_ADAPTER
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import find_macro_uses
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import Evidence, check_draft
from labwright.review.evidence.pdf_check import extract_pdf_text
from labwright.stages.paper.appendix import render_appendix
from labwright.stages.paper.citations import format_bibliography
from labwright.stages.paper.disclosure import build_supplement_tables, format_files
from labwright.stages.paper.latex_sources import PaperParts, build_sources
from labwright.stages.paper.result_tables import build_result_tables
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import assess_paper
from tests.paper import synthetic_paper

HOSTILE = (
    r"\gdef\rec#1{PWNED}\def\result#1{PWNED}\csname input\endcsname{x}\catcode`\%=12 \input{/etc/hostname}"
    r"\immediate\write18{id} ^^5cinput }{ $x % ~ & # _ é 漢 99.97 percent beats all"
)
FREE = frozenset(
    {
        "title",
        "Title",
        "plan",
        "varies",
        "message",
        "ended",
        "source",
        "factor",
        "unit",
        "reason",
        "task",
        "model",
        "version",
        "split_rule",
        "target",
        "objective_reason",
    }
)
"""Fields of events that contain text from users, models or third parties."""
ENTRY = (
    r"@misc{bad, title = {A \input{/etc/hostname} work}, author = {Doe \gdef\result#1{PWNED}, Jane}, "
    r"year = {2000}, note = {which our method beats by 12 percent}, url = {http://x/\input{y}}, "
    r"howpublished = {\result{a} 50% #1}, verified = {here}}"
)
KEY = "test/digits/log_loss/method@noise20.mean"


def spoiled(value: Any, name: str = "") -> Any:
    """Return an event's data with hostile text in every free-text field, and as a metric's name."""
    if isinstance(value, dict):
        return {key: spoiled(one, str(key)) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [spoiled(one, name) for one in cast("list[Any]", value)]
    if value == "ece" or (isinstance(value, str) and name in FREE):
        return HOSTILE
    return value


@pytest.fixture
def run() -> RunState:
    events = [
        EVENT_ADAPTER.validate_python(spoiled(one.model_dump(mode="json"))) for one in synthetic_paper.make_events()
    ]
    found = fold_events((event, float(at)) for at, event in enumerate(events))
    best = {
        node: one.model_copy(update={"setups": {"HOSTILE": HOSTILE, "SIZE": 40, "KIND": "adam_w"}})
        for node, one in found.nodes.items()
    }
    found.nodes.update(best)
    return found


def parts_of(run: RunState) -> PaperParts:
    """Build a paper from everything in the record."""
    assert run.search.data_plan is not None
    found = synthetic_paper.make_claims(run)
    made = build_result_tables(
        [one for one in found if not hasattr(one, "other")],
        run.search.data_plan,
        synthetic_paper.ABLATED,
        None,
        [one for one in found if isinstance(one, ClaimDifference) and one.name == "log_loss"],
    )
    body = "\n\n".join(
        (
            rf"It is \result{{{KEY}}} with \setup{{code.KIND}} of \setup{{code.SIZE}} on "
            r"\setup{data.digits.title}, \setup{metric.title} \citep{bad}.",
            *(rf"\papertable{{{one.name}}}" for one in made),
        )
    )
    evidence = Evidence(
        results=format_claims(found),
        setups=format_setups(run),
        cites=frozenset({"bad"}),
        tables=frozenset(one.name for one in made),
    )
    return PaperParts(
        draft=PaperDraft(title="A Study", abstract="We ask.", sections=(Section(title="Results", body=body),)),
        evidence=evidence,
        tables=made,
        library=parse_bibtex(ENTRY),
        authors=HOSTILE,
        data=format_files(build_supplement_tables(run, found)),
        appendix=render_appendix(run, found, origin=HOSTILE, isolation=HOSTILE, used=[one.key for one in found][-8:]),
    )


def test_no_text_of_a_stranger_is_a_value_or_a_key(run: RunState) -> None:
    parts = parts_of(run)
    known = format_setups(run)
    assert "code.HOSTILE" not in known and known["code.KIND"].tex == r"adam\_w"
    assert {len(key) < 300 and not re.search(r"[\\{}%#^]", key) for key in parts.evidence.results} == {True}
    made = build_sources(parts, load_template())
    for name, text in made.files.items():
        if name.endswith(".tex"):
            assert not re.search(r"\\(?:gdef|def|csname|catcode|immediate|write)(?![a-z])|\^\^|\\input\{/", text), name
            assert all(use.key.isprintable() for use in find_macro_uses(text))
    assert [str(one) for one in check_draft(parts.draft, parts.evidence)] == []


def test_a_field_of_a_bibliography_is_text() -> None:
    made = format_bibliography(parse_bibtex(ENTRY), ["bad"])
    assert "@misc{bad," in made and "A work" in made and "PWNED" in made
    assert not re.search(r"\\(?:input|gdef|result)|12 percent|http|(?<!\\)[#%]", made)
    sound = (
        r"@article{a, title = {{BatchNorm} \& \emph{co} $x_1$}, author = {M\"uller, {\'E}}, year = {2000}, "
        r"verified = {x}}"
    )
    assert r"{{BatchNorm} \& \emph{co} $x_1$}" in format_bibliography(parse_bibtex(sound), ["a"])


@pytest.mark.slow
async def test_the_paper_of_hostile_texts_compiles_and_prints_the_record(run: RunState, tmp_path: Path) -> None:
    parts = parts_of(run)
    found = await assess_paper(parts, load_template(), tmp_path / "paper")
    assert found.pdf is not None, found.findings
    assert [str(one) for one in found.violations] == []
    value = parts.evidence.results[KEY].tex
    text = re.sub(r"\s", "", await extract_pdf_text(tmp_path / "paper" / "paper.pdf"))
    assert text.count("PWNED") == len(re.findall(r"#1\{?PWNED|(?<!#1\{)PWNED\}\\csname", text)) > 0, (
        "it is quoted, and nowhere obeyed"
    )
    assert f"Itis{value}withadam_wof40" in text
    untrue = replace(parts, draft=parts.draft.model_copy(update={"abstract": HOSTILE}))
    assert {one.kind for one in check_draft(untrue.draft, untrue.evidence)} >= {"command", "number"}
    assert "\\gdef" not in build_sources(untrue, load_template()).files["paper.tex"], (
        "a draft's own commands do not reach TeX either"
    )
