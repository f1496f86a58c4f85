"""Review the figures of a draft as printed in its PDF: image, caption, and the text that refers to them.

`scientist-paper.sty` writes the corners of each figure into TeX's log when its page is shipped; the figures are cut
from pictures of these pages. Only figures whose image, caption or text has changed since their last review are shown
again; the others keep their review. If no model accepts images, no review is made, and the record says so.

Limits: the position of a figure is unknown if a style does not set it with `\\figurefloat`.
Source: AI-Scientist-v2, section 3.4 (a vision model in the writing stage: image, caption, reference, duplicates).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labwright.literature.matching import strip_tex
from labwright.models.backend import Image
from labwright.models.client import ModelClient
from labwright.models.errors import ImagesRefused
from labwright.models.roles.figures import (
    FIGURE_REVIEW,
    FigureMention,
    FigureReviewInputs,
    PaperFigureReviews,
    PlacedFigure,
)
from labwright.pdf.reader import PdfError, render_page
from labwright.record.events.paper_events import DraftAssessed, FiguresReviewed
from labwright.record.result_macros import ResultMacroUse, fill_macros, to_plain_text
from labwright.record.schema.paper import PaperDraft
from labwright.record.search_space import build_effective_plan
from labwright.review.evidence import Evidence
from labwright.stages.cost_table import format_figure_review_task
from labwright.stages.paper.draft_versions import build_paper_context
from labwright.stages.paper.paper_context import PaperContext, build_paper_parts, format_statistics
from labwright.stages.run_context import RunContext, run_once

DPI = 160
"""Resolution of the images for a reviewer: 7-point text is 16 pixels high."""
MARGIN_INCHES = 0.06
"""Margin in inches around a cropped figure, so that overflowing parts are visible."""
MIN_PRINTED_SCALE = 0.9
"""Ratio of printed to drawn width below which text is too small; the smallest text is drawn at 7 points."""
NO_VISION_REASON = "no configured model accepts images"

_SP_PER_INCH = 65536 * 72.27
_CORNER_LINE = re.compile(r"^paper: figure (\S+) (from|to) (\d+) (-?\d+) (-?\d+) of (\d+)$", re.MULTILINE)
_PLACED_FLOAT = re.compile(r"\\paper(?:figure|table)\{[^{}]*\}")
_FIGURE_REFERENCE = re.compile(r"\\ref\{fig:([^{}]*)\}")


@dataclass(frozen=True)
class FigureCrop:
    """A figure of the compiled paper and its image."""

    figure: PlacedFigure
    picture: bytes

    @property
    def fingerprint(self) -> str:
        """sha256 of everything that its review depends on; the page number is not included."""
        text = self.figure.model_dump(mode="json", include={"caption", "mentions", "placement"})
        return hashlib.sha256(self.picture + json.dumps(text, sort_keys=True).encode()).hexdigest()


async def review_paper_figures(context: RunContext, draft: DraftAssessed) -> None:
    """Record a review of the figures of a draft, once per round."""

    async def work(client: ModelClient) -> None:
        if draft.round not in context.state.paper.figure_reviews:
            context.recorder.append(await _review_figures(context, client, draft))

    await run_once(context, context.state.paper.format_task(format_figure_review_task(draft.round)), work)


async def _review_figures(context: RunContext, client: ModelClient, draft: DraftAssessed) -> FiguresReviewed:
    if not context.models.accepts_images:
        return FiguresReviewed(round=draft.round, looked=False, why=NO_VISION_REASON)
    material = build_paper_context(context)
    shown = await crop_figures(material, draft)
    if not shown:
        return FiguresReviewed(round=draft.round, looked=False, why="the draft has no PDF with figures")
    # latest reviews of figures that have not changed
    reviews = {
        review.name: review
        for event in context.state.paper.figure_reviews.values()
        for review in event.reviews
        if review.name in shown and event.seen.get(review.name) == shown[review.name].fingerprint
    }
    new, why = [one for name, one in shown.items() if name not in reviews], ""
    try:
        answer = (
            await client.ask_or_none(
                FIGURE_REVIEW,
                FigureReviewInputs(
                    data_plan=build_effective_plan(material.state),
                    title=expand_macros(draft.draft.title, material.evidence),
                    figures=tuple(one.figure for one in new),
                    others=tuple(shown[name].figure for name in reviews),
                    pages=draft.filled,
                    over=draft.over,
                    page_limit=material.template.page_limit,
                ),
                images=[Image(one.picture) for one in new],
                instead="the draft is revised without a review of its figures",
            )
            if new
            else PaperFigureReviews()
        )
        if answer is None:
            why = "the model gave no usable review"
        else:
            why = "" if answer.looked else "the model saw no images"
            reviews = {one.name: one for one in answer.reviews} | reviews
    except ImagesRefused as error:
        why = str(error)
    reviews = {name: reviews[name] for name in shown if name in reviews}
    return FiguresReviewed(
        round=draft.round,
        looked=not why,
        why=why,
        reviews=tuple(reviews.values()),
        seen={name: shown[name].fingerprint for name in reviews},
    )


async def crop_figures(material: PaperContext, draft: DraftAssessed) -> dict[str, FigureCrop]:
    """Return the figures of a draft as they appear in its PDF, by name."""
    folder = material.folder.paper_folder / "rounds" / f"round{draft.round}"
    if not (folder / "paper.pdf").is_file():
        return {}
    parts = build_paper_parts(material, draft.draft)
    found = parse_positions((folder / "paper.log").read_text(errors="replace"))
    pictures = await render_crops(folder / "paper.pdf", found, timeout=material.settings.timeout)
    in_appendix = {one.name for one in parts.figures if one.placement == "appendix"}
    mentioned = find_mentions(parts.draft, material.evidence)
    reviews = material.state.paper.figures.reviews if material.state.paper.figures else ()
    shown: dict[str, FigureCrop] = {}
    for figure in material.figures:
        if figure.name not in pictures:
            continue
        place = found[figure.name]
        scale = place.width / figure.width if figure.width else 1.0
        small = (
            ()
            if scale >= MIN_PRINTED_SCALE
            else (f"it is printed at {scale:.0%} of its drawn size: 7-point text becomes {7 * scale:.1f} points",)
        )
        issues = [issue for review in reviews if review.name == f"{figure.name}.png" for issue in review.issues]
        shown[figure.name] = FigureCrop(
            PlacedFigure(
                name=figure.name,
                page=place.page,
                placement="appendix" if figure.name in in_appendix else "main",
                width=round(place.width, 2),
                scale=round(scale, 2),
                description=figure.description,
                caption=expand_macros(parts.draft.captions.get(figure.name, ""), material.evidence),
                mentions=mentioned.get(figure.name, ()),
                lint=(*issues, *small),
                data=format_statistics(material, figure.datasets),
            ),
            pictures[figure.name],
        )
    return shown


@dataclass(frozen=True)
class FigurePosition:
    """Position of a figure. `page` counts from 1; inches from the upper left corner of the page."""

    page: int
    left: float
    top: float
    width: float
    height: float


def parse_positions(log: str) -> dict[str, FigurePosition]:
    """Map each figure to its position, from TeX's log; figures whose corners are not on one page are left out."""
    corners: dict[str, dict[str, tuple[int, float, float]]] = {}
    for name, which, page, x, y, height in _CORNER_LINE.findall(log):
        corners.setdefault(name, {})[which] = (int(page), int(x) / _SP_PER_INCH, (int(height) - int(y)) / _SP_PER_INCH)
    found: dict[str, FigurePosition] = {}
    for name, both in corners.items():
        if both.keys() == {"from", "to"} and both["from"][0] == both["to"][0]:
            (page, left, bottom), (_, right, top) = both["from"], both["to"]
            found[name] = FigurePosition(page, left, top, right - left, bottom - top)
    return found


async def render_crops(
    pdf: Path, positions: Mapping[str, FigurePosition], *, dpi: int = DPI, timeout: float = 60.0
) -> dict[str, bytes]:
    """Render each figure as printed, as PNG. `timeout` is seconds per figure; figures that fail are left out."""
    pictures: dict[str, bytes] = {}
    for figure, place in positions.items():
        left, top, width, height = (72 * inches for inches in (place.left, place.top, place.width, place.height))
        margin = 72 * MARGIN_INCHES
        crop = left - margin, top - margin, left + width + margin, top + height + margin
        with suppress(PdfError):
            pictures[figure] = await asyncio.to_thread(
                render_page, pdf, place.page, dpi=dpi, crop=crop, timeout=timeout
            )
    return pictures


def find_mentions(draft: PaperDraft, evidence: Evidence) -> dict[str, tuple[FigureMention, ...]]:
    """Map each figure to the paragraphs and captions that refer to it, with their values printed."""
    parts = [
        ("abstract", draft.abstract),
        *((one.title, one.body) for one in draft.sections),
        *((f"caption of {name}", text) for name, text in draft.captions.items()),
    ]
    found: dict[str, list[FigureMention]] = {}
    for where, text in parts:
        for paragraph in re.split(r"\n\s*\n", text):
            for name in dict.fromkeys(_FIGURE_REFERENCE.findall(paragraph)):
                found.setdefault(name, []).append(FigureMention(where=where, text=expand_macros(paragraph, evidence)))
    return {name: tuple(texts) for name, texts in found.items()}


def expand_macros(text: str, evidence: Evidence) -> str:
    """Return a draft's text as a reader sees it: values printed, figures by name in brackets."""

    def value(use: ResultMacroUse) -> str:
        found = evidence.find_value(use)
        return f"[no value {use.key}]" if found is None else to_plain_text(found)

    return strip_tex(fill_macros(_FIGURE_REFERENCE.sub(r"[\1]", _PLACED_FLOAT.sub("", text)), value))
