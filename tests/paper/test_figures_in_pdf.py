"""Figures are located in the compiled PDF, with real TeX and matplotlib, including those of the appendix."""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labwright.record.schema.paper import PaperDraft, Section
from labwright.stages.paper.figures import FigurePosition, expand_macros, find_mentions, parse_positions, render_crops
from labwright.stages.paper.latex_sources import FigureFile, PaperParts, build_sources
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import assess_paper, build_paper
from tests.paper import synthetic_paper

needs_tex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="TeX is not installed")
KEY = "test/digits/log_loss/method@noise20.mean"
NAMES = ("rising", "falling", "wide")


def figures(folder: Path) -> tuple[FigureFile, ...]:
    """Draw three dissimilar figures, each as .pdf and .png; the last has the full text width."""
    for name, data in drawn().items():
        (folder / name).write_bytes(data)
    return tuple(FigureFile(name, folder / f"{name}.pdf") for name in NAMES)


@cache
def drawn() -> dict[str, bytes]:
    import matplotlib
    from matplotlib.figure import Figure

    rng, found = np.random.default_rng(3), dict[str, bytes]()
    with matplotlib.rc_context({"pdf.fonttype": 42, "font.size": 8}):  # pyrefly: ignore
        for name, width in zip(NAMES, (3.2, 3.2, 5.4), strict=True):
            figure = Figure(figsize=(width, 1.9), layout="constrained")
            axes: Any = figure.subplots()
            if name == "wide":
                axes.bar(range(8), rng.random(8), hatch="//")
            else:
                axes.plot([0, 1], [0, 1] if name == "rising" else [1, 0], marker="o", linewidth=4)
            axes.set_xlabel(f"x of {name}")
            axes.set_ylabel("share")
            for suffix in ("pdf", "png"):
                file = io.BytesIO()
                figure.savefig(file, format=suffix, dpi=160)  # pyrefly: ignore
                found[f"{name}.{suffix}"] = file.getvalue()
    return found


def paper(folder: Path, *, beside: tuple[str, ...] = ()) -> PaperParts:
    """Build a paper that is long enough to have figures on several pages and in both columns."""
    filler = "A plain sentence about nothing in particular, so that the page fills. " * 60
    body = "\n\n".join(
        f"\\paperfigure{{{name}}}\n\nSee Figure~\\ref{{fig:{name}}}.\n\n{filler}"
        for name in NAMES
        if name not in beside
    )
    parts = synthetic_paper.make_short_paper(folder, body)
    draft = parts.draft.model_copy(update={"captions": {name: f"What is {name}." for name in NAMES}})
    found = tuple(replace(one, placement="appendix" if one.name in beside else "main") for one in figures(folder))
    further = "".join(f"\\paperfigure{{{name}}}\n\n" for name in beside)
    return replace(
        parts,
        draft=draft,
        figures=found,
        appendix=f"\\recordappendix\n\\section{{Further}}\n\n{further}End.\n",
        evidence=replace(parts.evidence, figures=frozenset(NAMES)),
    )


def picture(data: bytes) -> NDArray[np.float64]:
    """Return a picture as 48 x 96 standardized gray values without its white border."""
    from PIL import Image, ImageChops

    with Image.open(io.BytesIO(data)) as image:
        grey = image.convert("L")
        box = ImageChops.invert(grey).getbbox()
        assert box is not None, "the picture is blank"
        values = np.asarray(grey.crop(box).resize((96, 48)), dtype=np.float64)
    return (values - values.mean()) / values.std()


def like(pictures: Mapping[str, bytes], folder: Path) -> dict[str, dict[str, float]]:
    """Return, for each figure, the correlation of its picture with every file."""
    return {
        name: {
            other: float((picture(data) * picture((folder / f"{other}.png").read_bytes())).mean()) for other in NAMES
        }
        for name, data in pictures.items()
    }


@needs_tex
@pytest.mark.slow
@pytest.mark.parametrize("template", [pytest.param("workshop", marks=pytest.mark.bench), "conference"])
async def test_what_is_cut_out_is_the_figure(tmp_path: Path, template: str) -> None:
    beside = ("falling",)
    parts = paper(tmp_path, beside=beside)
    built = await build_paper(parts, load_template(template), tmp_path / "paper")
    assert built.pdf is not None, built
    found = parse_positions((tmp_path / "paper" / "paper.log").read_text(errors="replace"))
    assert found.keys() == set(NAMES) and built.pages is not None
    assert found["falling"].page > built.pages >= found["wide"].page, "a figure of the appendix is no main text"
    assert abs(found["rising"].width - 3.2) < 0.05 and abs(found["wide"].width - 5.4) < 0.05

    pictures = await render_crops(built.pdf, found)
    alike = like(pictures, tmp_path)
    assert pictures.keys() == set(NAMES)
    assert all(one[name] > 0.9 for name, one in alike.items()), alike
    assert all(value < 0.7 for name, one in alike.items() for other, value in one.items() if other != name), alike
    moved = await render_crops(built.pdf, {name: replace(place, top=place.top - 1.5) for name, place in found.items()})
    assert not any(value > 0.9 for name, one in like(moved, tmp_path).items() for value in [one[name]])
    assert await render_crops(built.pdf, found) == pictures, "the same bytes again"


@needs_tex
@pytest.mark.slow
async def test_a_figure_that_waits_for_the_next_page_comes_before_later_ones(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    for name, height in (("tall", 4.4), ("small", 0.5)):
        Figure(figsize=(3.2, height)).savefig(tmp_path / f"{name}.pdf")  # pyrefly: ignore
    filler = "A plain sentence about nothing in particular, so that the page fills. "
    body = f"{filler * 42}\n\n\\paperfigure{{tall}}\n\n{filler}"
    parts = synthetic_paper.make_short_paper(tmp_path, body)
    later = Section(title="Later", body=f"{filler}\n\n\\paperfigure{{small}}\n\n{filler * 42}")
    draft = parts.draft.model_copy(
        update={"captions": dict.fromkeys(("tall", "small"), "A box."), "sections": (*parts.draft.sections, later)}
    )
    found = tuple(FigureFile(name, tmp_path / f"{name}.pdf") for name in ("tall", "small"))
    names = frozenset({"tall", "small"})
    parts = replace(parts, draft=draft, figures=found, evidence=replace(parts.evidence, figures=names))
    built = await build_paper(parts, load_template("workshop"), tmp_path / "paper")
    assert built.pdf is not None, built
    at = parse_positions((tmp_path / "paper" / "paper.log").read_text(errors="replace"))
    assert (at["tall"].page, at["tall"].top) < (at["small"].page, at["small"].top)


@needs_tex
@pytest.mark.slow
async def test_a_figure_that_is_not_set_by_us_has_no_place_and_a_missing_page_no_picture(tmp_path: Path) -> None:
    parts = synthetic_paper.make_short_paper(tmp_path, "Text.")
    built = await build_paper(parts, load_template("workshop"), tmp_path / "paper")
    assert built.pdf is not None
    assert parse_positions((tmp_path / "paper" / "paper.log").read_text(errors="replace")) == {}
    assert await render_crops(built.pdf, {"x": FigurePosition(page=99, left=1, top=1, width=1, height=1)}) == {}


@pytest.mark.bench
@needs_tex
@pytest.mark.slow
async def test_an_appendix_figure_ties_and_is_referred_to_from_the_text(tmp_path: Path) -> None:
    parts = paper(tmp_path, beside=("falling",))
    more = Section(title="More", body="The appendix has Figure~\\ref{fig:falling}.")
    parts = replace(parts, draft=parts.draft.model_copy(update={"sections": (*parts.draft.sections, more)}))
    found = await assess_paper(parts, load_template("workshop"), tmp_path / "paper")
    assert found.violations == () and not any("??" in one.text or "undefined" in one.text for one in found.findings)
    assert "\\paperfigure{falling}" in build_sources(parts, load_template("workshop")).files["appendix.tex"]


def test_corners_on_two_pages_or_alone_make_no_place() -> None:
    log = (
        "paper: figure a from 2 7104065 36232282 of 52099153\npaper: figure a to 2 33154372 47362867 of 52099153\n"
        "paper: figure b from 2 1 2 of 3\npaper: figure b to 3 1 2 of 3\npaper: figure c from 1 1 2 of 3\n"
    )
    found = parse_positions(log)
    assert found.keys() == {"a"} and found["a"].page == 2
    assert (round(found["a"].width, 2), round(found["a"].left, 2), round(found["a"].top, 2)) == (5.5, 1.5, 1.0)


def test_paragraphs_that_refer_to_a_figure_are_found_with_their_values() -> None:
    evidence = synthetic_paper.make_evidence(synthetic_paper.make_state())
    draft = PaperDraft(
        title="T",
        abstract="In Figure~\\ref{fig:a}.",
        captions={"b": "As in \\ref{fig:a}."},
        sections=(
            Section(
                title="One",
                body=f"No figure.\n\nIt is \\result{{{KEY}}} in Figures~\\ref{{fig:a}} and \\ref{{fig:b}}."
                "\n\\paperfigure{a}\n\nAlone.",
            ),
        ),
    )
    found = find_mentions(draft, evidence)
    assert [one.where for one in found["a"]] == ["abstract", "One", "caption of b"] and len(found["b"]) == 1
    assert found["b"][0].text == f"It is {evidence.results[KEY].tex} in Figures [a] and [b]."
    assert "[no value x]" in expand_macros("\\result{x}", evidence)
