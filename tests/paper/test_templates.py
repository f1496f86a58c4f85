"""Templates with real TeX: built-in ones with easy and hostile papers, a custom one, and invalid folders."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.pdf.reader import read_pdf
from labwright.review.evidence.numbers import compile_phrase, compile_printed
from labwright.review.evidence.pdf_check import extract_pdf_text
from labwright.stages.paper.figures import parse_positions
from labwright.stages.paper.latex_sources import PaperParts
from labwright.stages.paper.template import (
    PaperTemplate,
    TemplateError,
    copy_template,
    list_templates,
    load_copy,
    load_template,
    resolve_template,
)
from labwright.stages.paper.typesetting import assess_paper, build_paper, try_template
from tests.paper import custom_template, synthetic_paper, venue_kits
from tests.paper.conftest import PrintedPaper

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")]

OURS = ("conference", "workshop")
ONE = ("conference", pytest.param("workshop", marks=pytest.mark.bench))
"""The second template runs only in `make bench`."""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return custom_template.write_documented_template(tmp_path / "venue")


def overfull(folder: Path) -> list[float]:
    """Return by how many points lines of a paper are overfull."""
    return [float(one) for one in re.findall(r"Overfull \\hbox \(([\d.]+)pt", (folder / "paper.log").read_text())]


# --- built-in templates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("printed", ONE, indirect=True)  # tests/paper/test_paper.py has the other
async def test_a_paper_fits_its_limit(printed: PrintedPaper) -> None:
    found, folder = printed.found, printed.folder
    assert found.pdf is not None and not found.findings and not found.violations
    assert found.pages is not None and found.pages <= load_template(printed.template).page_limit
    assert found.pdf is not None and max(overfull(folder), default=0) < 2
    assert not any(page.has_type3 for page in read_pdf(found.pdf).pages)
    pdfium: Any = import_module("pypdfium2")
    described: dict[str, str] = pdfium.PdfDocument(found.pdf).get_metadata_dict(skip_empty=True)
    assert described["Title"].startswith("Does Label Smoothing Keep") and "Written by a program" in str(described)
    assert not {"CreationDate", "Producer", "Creator"} & described.keys()
    assert str(folder.parent).encode() not in found.pdf.read_bytes()


@pytest.mark.bench
@pytest.mark.parametrize("printed", ONE, indirect=True)
async def test_a_paper_comes_again_with_the_same_bytes(printed: PrintedPaper, tmp_path: Path) -> None:
    again = await build_paper(printed.parts, load_template(printed.template), tmp_path / "elsewhere" / "paper")
    assert again.pdf is not None and printed.found.pdf is not None
    assert again.pdf.read_bytes() == printed.found.pdf.read_bytes()


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize(
    "parts",
    [pytest.param(custom_template.make_small_paper, marks=pytest.mark.bench), custom_template.make_hostile_paper],
    ids=["small", "hostile"],
)
async def test_whatever_comes_compiles_without_lines_that_stick_out(
    name: str, parts: Callable[[Path], PaperParts], tmp_path: Path
) -> None:
    built = await build_paper(parts(tmp_path), load_template(name), tmp_path / "paper")
    assert built.pdf is not None, built.findings
    assert built.pages is not None
    assert max(overfull(tmp_path / "paper"), default=0) < 10
    assert not [one for one in built.findings if not one.blocks and "sticks" in one.text]
    if parts is custom_template.make_hostile_paper:
        text = await extract_pdf_text(built.pdf)
        assert all(f"Figure {number}." in text for number in range(1, 13)) and "References" not in text


@pytest.mark.bench  # tests/paper/test_paper.py: for the first template
@pytest.mark.parametrize("name", OURS)
async def test_a_refused_paper_is_stamped_on_every_page(name: str, tmp_path: Path) -> None:
    parts = replace(synthetic_paper.make_parts(tmp_path), refused=("[number] page 1: typed",))
    found = await assess_paper(parts, load_template(name), tmp_path / "paper")
    assert found.pdf is not None
    pages = (await extract_pdf_text(found.pdf)).split("\f")
    assert len(pages) > 4 and all("DRAFT, not released" in page for page in pages)
    assert r"\draftwatermark{DRAFT}" in (tmp_path / "paper" / "paper.tex").read_text()


async def test_two_columns_take_wide_floats_across_and_narrow_ones_into_a_column(conference: PrintedPaper) -> None:
    placed = parse_positions((conference.folder / "paper.log").read_text(errors="replace"))
    first, second, third = (placed[name].width for name in synthetic_paper.PANELS)
    column = load_template("conference").column_width
    assert first > column and third > 0.8 * column and second <= column


# --- a user's own ---------------------------------------------------------------------------------------------------


async def test_the_documented_example_works(own: Path, tmp_path: Path) -> None:
    template = load_template(str(own))
    await try_template(template)
    found = await assess_paper(synthetic_paper.make_parts(tmp_path), template, tmp_path / "paper")
    assert (found.violations, [one for one in found.findings if "too wide by" not in one.text]) == ((), [])
    assert found.pages is not None and found.pages <= template.page_limit == 9
    assert not any(page.has_type3 for page in read_pdf(tmp_path / "paper" / "paper.pdf").pages)
    assert (tmp_path / "paper" / "venue.sty").read_text() == (own / "venue.sty").read_text()


def replaced(name: str, old: str, new: str) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return spoil


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "key missing": (replaced("template.toml", "columns = 1\n", ""), "the key 'columns' is missing"),
    "key unknown": (replaced("template.toml", "text_width", "textwidth"), "unknown key 'textwidth'"),
    "limit no number": (replaced("template.toml", "page_limit = 9", 'page_limit = "nine"'), "'page_limit' should be"),
    "limit zero": (replaced("template.toml", "page_limit = 9", "page_limit = 0"), "greater than or equal to 1, not 0"),
    "not TOML": (replaced("template.toml", "columns = 1", "columns ="), "cannot read"),
    "no skeleton": (lambda folder: (folder / "paper.tex.jinja").unlink(), "has no skeleton 'paper.tex.jinja'"),
    "class not found": (replaced("paper.tex.jinja", "{article}", "{no-such-class}"), "`no-such-class.cls' not found"),
    "package not found": (
        replaced("paper.tex.jinja", "{venue}", "{venues}"),
        "`venues.sty' not found: add it to the template, or apt-get install texlive-latex-extra",
    ),
    "no bibliography style": (
        replaced("paper.tex.jinja", "{plainnat}", "{nosuchstyle}"),
        "no file nosuchstyle.bst: add",
    ),
    "not UTF-8": (lambda folder: (folder / "venue.sty").write_bytes(b"% \xff"), "as UTF-8"),
    "forbidden": (replaced("venue.sty", r"\RequirePackage{mathptmx}", r"\immediate\write18{ls}"), "is forbidden"),
    "ours redefined": (replaced("venue.sty", r"\RequirePackage{mathptmx}", r"\def\rec#1{9}"), "binds the paper"),
    "name of ours": (lambda folder: (folder / "scientist-paper.sty").write_text(""), "a name reserved for the program"),
    "value unknown": (replaced("paper.tex.jinja", "<< title >>", "<< titel >>"), "'titel' is undefined"),
    "jinja error": (replaced("paper.tex.jinja", "<% endfor %>", ""), "line"),
    "python in it": (replaced("paper.tex.jinja", "<< title >>", "<< title.__class__.__mro__ >>"), "unsafe"),
    "no notice": (replaced("paper.tex.jinja", "<< notice >>", ""), "prints no notice"),
    "no end": (replaced("paper.tex.jinja", r"\maintextends", ""), r"needs \maintextends"),
    "no stamp": (replaced("paper.tex.jinja", r"\draftwatermark{DRAFT}", ""), "does not mark a refused paper"),
    "prints a number": (replaced("paper.tex.jinja", r"\maketitle", r"\maketitle 40th Venue"), "under 'prints'"),
    "bitmap font": (
        replaced(
            "venue.sty",
            r"\RequirePackage{mathptmx}",
            r"\AddToHook{begindocument/end}"
            r"{\renewcommand\sfdefault{cmss}}",
        ),
        "not found",
    ),
    "error of TeX": (
        replaced("venue.sty", r"\RequirePackage{mathptmx}", r"\undefinedcommand"),
        "venue.sty:3: Undefined control",
    ),
}
SET = (
    "class not found",
    "no bibliography style",
    "forbidden",
    "ours redefined",
    "name of ours",
    "no notice",
    "no end",
    "no stamp",
)
"""Cases with seconds of TeX work; in `make test` the other cases represent them."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.bench) if case in SET else case for case in BROKEN]
)
async def test_a_folder_that_does_not_work_says_why(case: str, own: Path) -> None:
    spoil, said = BROKEN[case]
    spoil(own)
    with pytest.raises(TemplateError) as refused:
        await try_template(load_template(str(own)))
    assert said in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.bench
async def test_numbers_that_the_style_prints_may_be_named(own: Path) -> None:
    replaced("paper.tex.jinja", r"\maketitle", r"\maketitle 40th Venue")(own)
    replaced("template.toml", "columns = 1", 'columns = 1\nprints = ["40th Venue"]')(own)
    await try_template(load_template(str(own)))


def test_the_command_line_refuses_it_before_anything_is_created(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(own.parent)
    (own.parent / "idea.json").write_text(json.dumps({"Name": "calm", "Title": "Calm", "Experiments": ["one"]}))
    BROKEN["class not found"][0](own)
    for more in ([], ["--dry-run"]):
        assert main(["run", "--idea", "idea.json", "--template", "venue", *more]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and "`no-such-class.cls' not found" in err
    assert {path.name for path in own.parent.iterdir()} == {"venue", "idea.json"}


# --- official styles of venues --------------------------------------------------------------------------------------


WHOLE = ("icml-final",)
"""With the whole paper, in two columns; the documented example has it in one. The other styles get a short one."""


@pytest.mark.parametrize("form", ["final", "anonymous"])
@pytest.mark.parametrize("venue", ["neurips", "iclr", "icml", "aaai"])
async def test_the_style_of_a_venue_takes_a_paper_with_and_without_names(venue: str, form: str, tmp_path: Path) -> None:
    template = load_template(f"{venue}={venue_kits.write_kit(venue, tmp_path / 'kit')}")
    is_whole, anonymous = f"{venue}-{form}" in WHOLE, form == "anonymous"
    parts = synthetic_paper.make_parts(tmp_path) if is_whole else synthetic_paper.make_short_paper(tmp_path, "It is.")
    parts = replace(parts, authors="Quintessa Writer", anonymous=anonymous)
    found = await assess_paper(parts, template, tmp_path / "paper")
    assert (found.violations, [one for one in found.findings if "too wide by" not in one.text]) == ((), [])
    assert found.pdf is not None and max(overfull(tmp_path / "paper"), default=0) < 20
    pdfium: Any = import_module("pypdfium2")
    printed = await extract_pdf_text(found.pdf) + str(pdfium.PdfDocument(found.pdf).get_metadata_dict())
    assert ("Quintessa" in printed) is not anonymous
    assert not (tmp_path / "paper" / "example_paper.pdf").exists()


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.bench)])
@pytest.mark.parametrize(
    "venue, needed",
    [("ieee", "IEEEtran.cls"), ("lncs", "llncs.cls"), pytest.param("acm", "acmart.cls", marks=pytest.mark.bench)],
)
async def test_a_class_of_a_publisher_takes_a_paper_or_names_what_to_install(
    venue: str, needed: str, whole: bool, tmp_path: Path
) -> None:
    if not subprocess.run(["kpsewhich", needed], capture_output=True).stdout:
        with pytest.raises(TemplateError, match=rf"`{needed}' not found.*apt-get install texlive-publishers"):
            await try_template(load_template(venue))
        return
    template = load_template(venue)
    short = synthetic_paper.make_short_paper(tmp_path, r"It is \citep{guo2017calibration}.")
    parts = synthetic_paper.make_parts(tmp_path) if whole else short
    found = await assess_paper(parts, template, tmp_path / "paper")
    assert (found.violations, [one for one in found.findings if "too wide by" not in one.text]) == ((), [])
    assert found.pdf is not None and "(author?)" not in await extract_pdf_text(found.pdf)
    source = (tmp_path / "paper" / "paper.tex").read_text()
    after_references = source.index(r"\bibliography{") < source.index(r"\maintextends")
    assert after_references is template.counts_references is (venue != "acm")


def test_a_venue_needs_the_folder_of_its_style(tmp_path: Path) -> None:
    kit = venue_kits.write_kit("icml", tmp_path / "kit")
    assert resolve_template("icml=kit", tmp_path) == f"icml={kit}" and resolve_template("icml", tmp_path) == "icml"
    with pytest.raises(TemplateError, match=r"'icml' needs the official style.*icml\*\.sty, as icml=FOLDER"):
        load_template("icml")
    with pytest.raises(TemplateError, match="there is no folder"):
        load_template(f"icml={tmp_path / 'none'}")
    template = load_template(f"icml={kit}")
    assert template.style_name == "icml2099" and template.page_limit + 1 == template.add_extra_pages().page_limit == 9
    (kit / "icml2099.sty").write_text(r"\openin5=secrets")
    with pytest.raises(TemplateError, match=r"icml2099.sty', line 1: the command '.+openin' is forbidden"):
        load_template(f"icml={kit}")


def test_what_a_style_prints_may_have_any_number() -> None:
    pattern = compile_printed("# Conference on Things, #")
    assert pattern.fullmatch("40th Conference on Things, 2026") and pattern.fullmatch("43 rd Con-ference on Things, 9")
    assert not pattern.search("Conference on Things, 2026") and not pattern.search("40th Conference on Others, 2026")
    assert not compile_phrase("Things #").search("Things 2026")


# --- names and copies -----------------------------------------------------------------------------------------------


def test_a_template_is_named_by_name_or_folder(own: Path) -> None:
    assert list_templates() == ["aaai", "acm", "conference", "iclr", "icml", "ieee", "lncs", "neurips", "workshop"]
    assert resolve_template("workshop", own.parent) == "workshop" and resolve_template("poster", own.parent) == "poster"
    assert resolve_template("venue", own.parent) == resolve_template("./venue", own.parent) == str(own)
    with pytest.raises(TemplateError, match=r"'poster'.*conference, iclr.*workshop"):
        load_template("poster")


@pytest.mark.parametrize("name", [*OURS, "venue", "iclr"])
def test_a_copy_is_all_that_is_needed_and_refused_when_it_changes(name: str, own: Path, tmp_path: Path) -> None:
    kits = {"venue": str(own), "iclr": f"iclr={venue_kits.write_kit('iclr', tmp_path / 'kit')}"}
    template = load_template(kits.get(name, name))
    digest = copy_template(template, tmp_path / "templates")
    assert digest == copy_template(template, tmp_path / "templates") == template.sha256
    shutil.rmtree(own)
    copy: PaperTemplate = load_copy(tmp_path / "templates", digest)
    assert (
        copy.model_copy(
            update={
                "name": template.name,
                "folder": template.folder,
                "skeleton_path": template.skeleton_path,
                "styles": template.styles,
                "pictures": template.pictures,
            }
        )
        == template
    )
    assert copy.styles.keys() == template.styles.keys() >= {"scientist-paper.sty"}
    next(iter(copy.styles.values())).write_text("% changed")
    with pytest.raises(TemplateError, match="was changed"):
        load_copy(tmp_path / "templates", digest)
    with pytest.raises(TemplateError, match="is missing"):
        load_copy(tmp_path / "templates", "0" * 64)
