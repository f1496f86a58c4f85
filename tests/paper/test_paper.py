"""Papers built with real TeX, as a reader sees them."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from labwright.pdf.reader import read_pdf
from labwright.record.schema.paper import Section
from labwright.review.evidence import check_pdf, tex_runner
from labwright.review.evidence.pdf_check import extract_pdf_text
from labwright.stages.paper import typesetting
from labwright.stages.paper.appendix import render_appendix
from labwright.stages.paper.latex_sources import build_sources
from labwright.stages.paper.template import TemplateError, load_template
from labwright.stages.paper.typesetting import assess_paper, build_paper
from tests.paper import synthetic_paper
from tests.paper.conftest import PrintedPaper
from tests.paper.test_paper_parts import eventful

pytestmark = pytest.mark.slow

TEMPLATE = load_template("workshop")
KEY = "test/digits/log_loss/method@noise20.mean"

needs_tex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="TeX is not installed")


@needs_tex
@pytest.mark.slow
async def test_a_good_draft_becomes_a_clean_paper(workshop: PrintedPaper):
    found, folder = workshop.found, workshop.folder
    assert (found.violations, found.findings) == ((), ())
    assert found.pdf is not None and not found.findings and not found.violations
    assert found.pages is not None and found.pages <= TEMPLATE.page_limit
    text = await extract_pdf_text(folder / "paper.pdf")
    first = text.split("\f")[0]
    assert "Written by a program; what else must be disclosed is in Appendix A." in " ".join(first.split())
    assert "Isolation was off" not in first and text.count("Isolation was off") == 1
    assert text.count("with the model offline") == 1
    assert "??" not in text and "cannot be multiplied" in text
    assert len(text.split("\f")) <= TEMPLATE.page_limit + 1 + 6, "text, references and appendix"
    pages = read_pdf(folder / "paper.pdf").pages
    assert any("NimbusRom" in word.font for word in pages[0].words) and not any(page.has_type3 for page in pages)
    assert sorted(path.name for path in folder.parent.iterdir() if path.name.startswith(".")) == []


def test_page_one_says_why_a_paper_is_refused(tmp_path: Path) -> None:
    def told(*reasons: str) -> str:
        return build_sources(
            replace(synthetic_paper.make_short_paper(tmp_path, "It is."), refused=reasons), TEMPLATE
        ).files["paper.tex"]

    evidence = "The evidence check refused this paper"
    length = told("the main text is too long by about 2 lines of text: its limit is 4 pages")
    assert r"The main text is too long by about \rec{2} lines of text." in length and evidence not in length
    left_out = "the abstract omits ladder-wine: include this sentence unchanged: On wine."
    assert "The abstract omits ladder-wine." in told(left_out) and evidence not in told(left_out)
    assert evidence in told("[number] page 1: '5': typed") and "DRAFT" not in told()


def test_typed_quotes_are_printed_as_pairs(tmp_path: Path) -> None:
    made = build_sources(synthetic_paper.make_short_paper(tmp_path, r'A "so-called" M\"uller said "M\"a".'), TEMPLATE)
    assert r"A ``so-called'' M\"uller said ``M\"a''." in made.files["paper.tex"]


@needs_tex
async def test_a_refused_paper_is_stamped_on_every_page_and_still_readable(tmp_path: Path):
    long = "\n\n".join(["A plain sentence about nothing in particular. " * 30] * 8)
    parts = synthetic_paper.make_short_paper(tmp_path, "It is \\input{/etc/hostname} 0.97 \\par x")
    more = (Section(title="Untied", body="It is \\result{no/such.key}."), Section(title="Long", body=long))
    sections = (*parts.draft.sections, *more)
    parts = replace(
        parts, refused=("[number] results: typed",), draft=parts.draft.model_copy(update={"sections": sections})
    )
    found = await assess_paper(parts, TEMPLATE, tmp_path / "paper")

    assert found.pdf is not None and (found.findings or found.violations)
    text = await extract_pdf_text(found.pdf)
    pages = text.split("\f")
    assert len(pages) == 3 and all("DRAFT, not released" in page for page in pages)
    assert "[untied]" in text and "input" in text
    assert "draftwatermark{DRAFT}" in (tmp_path / "paper" / "paper.tex").read_text()
    assert (tmp_path / "paper" / "paper.tex").read_text().count("\\input{") == 2


@needs_tex
async def test_the_pdf_check_reads_what_is_printed_not_what_is_written(tmp_path: Path):
    """A class file that prints a number, and a false results.tex: the source check sees neither."""
    parts = synthetic_paper.make_short_paper(tmp_path, "It is \\result{" + KEY + "}.")
    folder = tmp_path / "paper"
    found = await assess_paper(parts, TEMPLATE, folder)
    assert found.pdf is not None and not found.findings and not found.violations

    (folder / "paper.tex").write_text(
        (folder / "paper.tex").read_text().replace("It is ", "It is \\char57\\char55\\ of ni{}nety or ")
    )
    honest = (folder / "results.tex").read_text()
    found = await check_pdf(folder, parts.evidence)
    assert [(one.kind, one.where) for one in found] == [
        ("number", "page 1 of the PDF"),
        ("word", "page 1 of the PDF"),
    ] and "97" in found[0].excerpt

    (folder / "results.tex").write_text(honest.replace(parts.evidence.results[KEY].tex, "0.001"))
    assert "value" in {one.kind for one in await check_pdf(folder, parts.evidence)}


@needs_tex
@pytest.mark.parametrize(
    ("body", "sign"),
    [
        ("It is \\result{no/such.key}.", "uses a key that is not in the record"),
        ("$$\\left( x $$", "TeX stopped at an error"),
    ],
)
async def test_an_error_of_tex_is_a_finding_with_its_line(tmp_path: Path, body: str, sign: str):
    built = await build_paper(synthetic_paper.make_short_paper(tmp_path, body), TEMPLATE, tmp_path / "paper")

    assert built.pdf is None and sign in built.findings[0].text
    assert "paper.tex:" in built.findings[0].text and built.findings[0].blocks
    assert not (tmp_path / "paper" / "paper.pdf").exists() and (tmp_path / "paper" / "paper.tex").exists()


@needs_tex
async def test_values_hold_in_titles_captions_and_formulas_and_odd_characters_compile(tmp_path: Path):
    parts = synthetic_paper.make_short_paper(tmp_path, "")
    key = "diff/digits/log_loss/method@noise20~baseline@noise20"
    draft = parts.draft.model_copy(
        update={
            "title": f"A title with \\result{{{key}.pm}}",
            "sections": (
                parts.draft.sections[0].model_copy(
                    update={
                        "title": f"Heading \\result{{{key}.ci}}",
                        "body": f"$x = \\result{{{key}.pm}} \\times \\setup{{code.WEIGHT_DECAY}}$, "
                        f"\\setup{{code.OPTIMISER}}"
                        f"\\footnote{{\\result{{{key}.low}}}} "
                        "± – “é” αβΩ ≤ ≈ → Łódź 中 \u200b",
                    }
                ),
            ),
        }
    )
    found = await assess_paper(replace(parts, draft=draft), TEMPLATE, tmp_path / "paper")

    assert found.violations == () and found.pdf is not None
    assert len(found.findings) == 1 and "U+4E2D" in found.findings[0].text and not found.findings[0].blocks


@needs_tex
async def test_a_loop_is_ended_at_the_limit(tmp_path: Path):
    class_file = tmp_path / "looping" / "scientist-workshop.cls"
    shutil.copytree(TEMPLATE.folder, class_file.parent)
    class_file.write_text(class_file.read_text() + "\n\\AtBeginDocument{\\loop\\iftrue\\repeat}\n")
    built = await build_paper(
        synthetic_paper.make_short_paper(tmp_path, "x"),
        load_template(str(class_file.parent)),
        tmp_path / "paper",
        timeout=1.0,
    )

    assert built.pdf is None and "timed out after 1 s and was killed" in built.findings[0].text


@needs_tex
async def test_tex_reads_nothing_outside_its_folder(tmp_path: Path):
    (tmp_path / "secret.tex").write_text("SECRET")
    desk = tmp_path / "desk"
    desk.mkdir()
    body = f"\\begin{{document}}\\input{{{tmp_path}/secret}}\\end{{document}}"
    (desk / "paper.tex").write_text("\\documentclass{article}" + body)
    for ran in (
        await tex_runner.run_program(tex_runner.latex_command("paper"), desk, timeout=600),
        await tex_runner.run_latexmk("paper", desk, timeout=600),
    ):
        assert ran.code != 0 and not (desk / "paper.pdf").exists()


@needs_tex
async def test_latexmk_runs_no_code_that_lies_in_the_folder(tmp_path: Path):
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\begin{document}\\immediate\\write18{touch ran}See~\\ref{x}\\label{x}\\end{document}"
    )
    for name in ("latexmkrc", ".latexmkrc", "LatexMk"):
        (tmp_path / name).write_text('system("touch ran");')
    ran = await tex_runner.run_latexmk("paper", tmp_path, timeout=600)
    assert ran.code == 0 and (tmp_path / "paper.pdf").exists() and not (tmp_path / "ran").exists()


@needs_tex
@pytest.mark.slow
async def test_too_long_a_text_is_told_how_much_to_cut(tmp_path: Path):
    words = "\n\n".join(["A plain sentence about nothing in particular, repeated until the page is full. " * 12] * 30)
    built = await build_paper(synthetic_paper.make_short_paper(tmp_path, words), TEMPLATE, tmp_path / "paper")
    assert built.pages is not None and built.pages > 4
    [told] = [one.text for one in built.findings if one.blocks]
    lines = re.search(r"too long by about (\d+) lines of text: its limit is 4 pages; shorten it", told)
    assert lines is not None and built.pages_filled is not None
    assert abs(int(lines[1]) - (built.pages_filled - 4) * 54) <= 1, "54 lines a page"


async def test_what_a_killed_process_left_while_it_typeset_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    parts, stopped = synthetic_paper.make_short_paper(tmp_path, "It is."), RuntimeError("stopped")
    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(typesetting, "_compile", Mock(side_effect=stopped))
        patch.setattr(typesetting, "remove_tree", Mock())  # as if the process had been killed
        with pytest.raises(RuntimeError, match="stopped"):
            await build_paper(parts, TEMPLATE, tmp_path / "paper")
    assert len(sorted(tmp_path.iterdir())) == len(before) + 1
    await build_paper(parts, TEMPLATE, tmp_path / "paper")
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "paper"])


async def test_without_tex_the_sources_stay_and_the_finding_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "")
    found = await assess_paper(synthetic_paper.make_parts(tmp_path), TEMPLATE, tmp_path / "paper")

    assert found.pdf is None and found.violations == ()
    said = found.findings[0].text
    assert said.startswith("TeX is not installed: ") and "apt-get install texlive" in said and found.findings[0].blocks
    left = {path.name for path in (tmp_path / "paper").iterdir()}
    assert left >= {"paper.tex", "results.tex", "floats.tex", "references.bib", "appendix.tex", "figures"}


def test_an_unknown_template_is_named_with_those_that_are():
    with pytest.raises(TemplateError, match=r"'nature'.*workshop"):
        load_template("nature")


@needs_tex
@pytest.mark.parametrize("template", ["conference", pytest.param("workshop", marks=pytest.mark.bench)])
async def test_the_appendix_has_six_pages_at_most_whatever_the_run_holds(tmp_path: Path, template: str):
    state, long = eventful(), "a reason that goes on and on, as reasons of programs do, " * 9
    broken = next(node for node in state.nodes.values() if node.status == "buggy")
    assert broken.failure is not None
    for k in range(200, 500):
        state.nodes[f"n{k:04d}"] = broken.model_copy(
            update={
                "id": f"n{k:04d}",
                "suspect": (long,),
                "failure": broken.failure.model_copy(update={"message": long}),
            }
        )
    found = synthetic_paper.make_claims(state)
    parts = replace(
        synthetic_paper.make_short_paper(tmp_path, "It is."),
        appendix=render_appendix(state, found, isolation=long[:400], used=[one.key for one in found], checklist=True),
    )
    built = await build_paper(parts, load_template(template), tmp_path / "paper")
    assert built.pdf is not None
    pages = (await extract_pdf_text(built.pdf)).split("\f")
    first = next(k for k, page in enumerate(pages) if "This appendix was generated" in page)
    checklist = next(k for k, page in enumerate(pages) if "NeurIPS paper checklist" in page)
    assert checklist - first <= 6 and len(pages) - checklist <= 2
