"""Figures: plots of nodes (`plot`), final figures (`figures`), reviews of images (`vision`, `figure_review`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.models.roles.experiment_code import StudyInputs, Tables
from labwright.models.roles.role import TYPICAL_IMAGE_TOKENS, Role
from labwright.record.claims.estimates import Claim
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan, Measurement
from labwright.record.schema.paper import FigureFacts, FigurePlacement, FigureReview, PaperFigureReview
from labwright.record.source_tree import PLOTS_FILE, SourceTreeError, TextReplacement, check_source, replace_text


class Range(FrozenModel):
    """Range and mean of the finite values of an array, or of one of its columns."""

    low: float
    high: float
    mean: float


class ArrayBrief(FrozenModel):
    """A recorded array: its path relative to the plotting script's folder, and a summary of its values."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    ranges: tuple[Range, ...] = Field(
        default=(), description="one range for the whole array; for a narrow table, one per column"
    )
    missing: int = Field(default=0, description="number of values that are not finite")


class PlotInputs(FrozenModel):
    """Inputs of role `plot`, which redraws refused figures or draws the figures of an aggregate."""

    data_plan: DataPlan
    purpose: Literal["replot", "aggregate"]
    arrays: tuple[ArrayBrief, ...]
    plan: str = ""
    plots: str = Field(default="", description="the refused script; for an aggregate, the node's script")
    complaints: tuple[str, ...] = ()
    advice: tuple[str, ...] = Field(
        default=(), description="improvements that reviewers suggested for the accepted figures"
    )
    seeds: tuple[int, ...] = Field(default=(), description="for an aggregate: seed of each folder in inputs/")
    lab_reference: str = Field(description="the part of `lab`'s documentation about plotting")


class Plots(FrozenModel):
    """A plotting script: changes of the given one, or the whole file."""

    edits: tuple[TextReplacement, ...] = Field(default=(), description="changes of the given script, in order")
    plots: str = Field(default="", description="the whole file, instead of edits if most of it is new")

    def apply_to(self, before: str) -> str:
        """Apply the answer to the script. Raises `SourceTreeError`: an edit does not match, or there is no script."""
        if self.plots and self.edits:
            raise SourceTreeError("give edits of plots.py or the whole file, not both")
        if not self.plots and not self.edits:
            raise SourceTreeError("there is no script: give edits of plots.py, or the whole file")
        made = self.plots or replace_text(before, self.edits, PLOTS_FILE)
        check_source({PLOTS_FILE: made})
        return made


def _check_plots(inputs: PlotInputs, plots: Plots) -> None:
    """Raise `SourceTreeError` if a script is not usable."""
    plots.apply_to(inputs.plots)


PLOT = Role("plot", PlotInputs, Plots, prompt_tokens=12_000, typical_tokens=(3300, 1300), check=_check_plots)


class VisionInputs(FrozenModel):
    """For role `vision`, with the images in the same order; answered by `FigureReviews`.

    Unchanged figures that were already found readable, and those that the figure lint refuses, are not included.
    """

    data_plan: DataPlan
    subject: Literal["node", "aggregate", "paper"] = Field(default="node", description="source of the figures")
    seeds: tuple[int, ...] = Field(default=(), description="seeds of the runs that an aggregate combines")
    plan: str
    names: tuple[str, ...]
    facts: tuple[FigureFacts, ...]
    remarks: tuple[tuple[str, ...], ...] = Field(
        default=(), description="complaints of the figure lint, which refuses none of them, one tuple per figure"
    )
    arrays: tuple[ArrayBrief, ...] = Field(default=(), description="arrays from which the figures may have been drawn")
    earlier: tuple[tuple[str, ...], ...] = Field(
        default=(), description="findings of the last review of a figure with that name, one tuple per figure"
    )
    measurements: tuple[Measurement, ...] = Field(default=(), description="on validation, of this node only")


class FigureReviews(FrozenModel):
    """One review for each figure."""

    reviews: tuple[FigureReview, ...]


VISION = Role(
    "vision",
    VisionInputs,
    FigureReviews,
    kind="vision",
    prompt_tokens=25_000,
    typical_tokens=(2000 + 2 * TYPICAL_IMAGE_TOKENS, 600),
)


class FigureStyle(FrozenModel):
    """Figure settings of the paper's house style; widths in inches of the printed page."""

    text_width: float
    column_width: float = Field(description="width of a column; equal to the text width if there is one column")
    reference: str = Field(default="", description="the documentation of the module `figure_style`, as text")


class FiguresInputs(StudyInputs):
    """For role `figures`: the paper's final figures from recorded arrays; answered by `FigureScript`."""

    arrays: tuple[ArrayBrief, ...]
    statistics: tuple[Claim, ...] = Field(description="also in inputs/statistics.json, as a list of objects")
    tables: Tables = Field(
        default=Tables(), description="tables of these means; self-reported values of the winning node"
    )
    example_plots: str = Field(
        description="plots.py of the winning node or of its aggregate, which shows what the arrays hold"
    )
    ablations: tuple[str, ...] = Field(default=(), description="conditions that are ablations")
    style: FigureStyle = FigureStyle(text_width=5.5, column_width=5.5)
    lab_reference: str
    complaints: tuple[str, ...] = Field(
        default=(), description="complaints about refused figures, as `name: complaint`"
    )
    keep: tuple[str, ...] = Field(default=(), description="accepted figures, which are not drawn again")
    previous: str = Field(default="", description="the code of the refused figures")


class FigurePart(FrozenModel):
    """One figure, and the code that draws it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,59}$", description="file stem under figures/")
    description: str = Field(description="what it shows, without numbers")
    code: str = Field(default="", description="Python that draws and saves only this figure; it runs after `script`")
    placement: FigurePlacement = Field(default="main", description="main text, or appendix")
    panels: int = Field(default=1, ge=1, le=3, description="panels side by side")
    datasets: tuple[str, ...] = Field(default=(), description="names of the datasets that it shows")


class FigureScript(FrozenModel):
    """The final figures, each drawn in a separate kernel by `script` and then the figure's `code`."""

    script: str = Field(description="Python that all figures need: imports, loading, shared functions; draws nothing")
    figures: tuple[FigurePart, ...] = Field(min_length=1)


FIGURES = Role("figures", FiguresInputs, FigureScript, prompt_tokens=25_000, typical_tokens=(6500, 2400))


class FigureMention(FrozenModel):
    """A paragraph that refers to a figure, caption, with its values printed."""

    where: str = Field(description="title of its section, or 'abstract'")
    text: str


class PlacedFigure(FrozenModel):
    """A figure as placed in the compiled paper."""

    name: str
    page: int = Field(description="page of the PDF, from 1")
    placement: FigurePlacement
    width: float = Field(description="inches on the page")
    scale: float = Field(default=1.0, description="printed width divided by drawn width")
    description: str = Field(description="purpose of the figure")
    caption: str = Field(description="caption, with its values printed")
    mentions: tuple[FigureMention, ...] = ()
    lint: tuple[str, ...] = Field(default=(), description="findings of the lint")
    data: tuple[str, ...] = Field(default=(), description="what was drawn, one line each")


class FigureReviewInputs(FrozenModel):
    """For role `figure_review`, with an image of each of `figures` from the PDF; answered by `PaperFigureReviews`.

    `others` are unchanged since their review; their images are not shown.
    """

    data_plan: DataPlan
    title: str
    figures: tuple[PlacedFigure, ...]
    others: tuple[PlacedFigure, ...] = ()
    page_limit: int
    pages: float | None = Field(default=None, description="filled pages of main text; None if it did not compile")
    excess_lines: int = Field(default=0, description="lines of main text over the page limit")


class PaperFigureReviews(FrozenModel):
    """One review for each figure shown."""

    looked: bool = Field(default=True, description="false if you received no images")
    reviews: tuple[PaperFigureReview, ...] = ()


FIGURE_REVIEW = Role(
    "figure_review",
    FigureReviewInputs,
    PaperFigureReviews,
    kind="vision",
    prompt_tokens=35_000,
    typical_tokens=(4000 + 3 * TYPICAL_IMAGE_TOKENS, 900),
)
