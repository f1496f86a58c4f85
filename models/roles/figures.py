"""Figures: plots of nodes (`plot`), final figures (`figures`), reviews of pictures (`vision`, `figure_review`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.models.roles.experiment_code import StudyInputs, Tables
from labwright.models.roles.node_assessment import Statistic
from labwright.models.roles.role import TYPICAL_IMAGE_TOKENS, Role
from labwright.record.schema.data_plan import DataPlan, Measurement
from labwright.record.schema.figures import FigureFacts, FigurePlacement, FigureReview, PaperFigureReview
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.source_edits import TextReplacement, replace_text
from labwright.record.source_tree import PLOTS_FILE, SourceTreeError, check_source


class Range(FrozenModel):
    """Of the finite values of an array, or of a column of it."""

    low: float
    high: float
    mean: float


class ArrayBrief(FrozenModel):
    """A recorded array: where a plotting script finds it, relative to its folder, and what its values are."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    ranges: tuple[Range, ...] = Field(default=(), description="of the whole array; of a narrow table, of each column")
    missing: int = Field(default=0, description="values that are not finite")


class PlotInputs(FrozenModel):
    """a replot, or the plots of an aggregate."""

    data_plan: DataPlan
    purpose: Literal["replot", "aggregate"]
    arrays: tuple[ArrayBrief, ...]
    plan: str = ""
    plots: str = Field(default="", description="the script that was refused; or, for an aggregate, the node's")
    complaints: tuple[str, ...] = ()
    advice: tuple[str, ...] = Field(default=(), description="what reviewers would better in figures that they accepted")
    seeds: tuple[int, ...] = Field(default=(), description="of an aggregate: seed of each folder in inputs/")
    lab_reference: str = Field(description="the part of `lab`'s documentation that is about plotting")


class Plots(FrozenModel):
    """A plotting script: changes of the one that was shown, or the whole file."""

    edits: tuple[TextReplacement, ...] = Field(
        default=(), description="changes of the script that was shown, in their order"
    )
    plots: str = Field(default="", description="the whole file, in place of edits where most of it is new")

    def apply_to(self, before: str) -> str:
        """The script that it makes of the one before. Raises `SourceError`: an edit misses, or there is none."""
        if self.plots and self.edits:
            raise SourceTreeError("give edits of plots.py or the whole file, not both")
        if not self.plots and not self.edits:
            raise SourceTreeError("there is no script: give edits of plots.py, or the whole file")
        made = self.plots or replace_text(before, self.edits, PLOTS_FILE)
        check_source({PLOTS_FILE: made})
        return made


def _check_plots(inputs: PlotInputs, plots: Plots) -> None:
    """Raises `SourceError` where a script is none."""
    plots.apply_to(inputs.plots)


PLOT = Role("plot", PlotInputs, Plots, prompt_tokens=12_000, typical_tokens=(3300, 1300), check=_check_plots)


class VisionInputs(FrozenModel):
    """For role `vision`, the images given in the same order; answers with `FigureReviews`.

    Figures that were found readable before and are unchanged are not among them.
    """

    data_plan: DataPlan
    subject: Literal["node", "aggregate", "paper"] = Field(default="node", description="whose figures they are")
    seeds: tuple[int, ...] = Field(default=(), description="of the runs that an aggregate draws together")
    plan: str
    names: tuple[str, ...]
    facts: tuple[FigureFacts, ...]
    lint: tuple[tuple[str, ...], ...] = Field(description="what the figure lint refuses it for, one tuple a figure")
    remarks: tuple[tuple[str, ...], ...] = Field(default=(), description="what it only complains of, likewise")
    arrays: tuple[ArrayBrief, ...] = Field(default=(), description="what the figures may have been drawn from")
    earlier: tuple[tuple[str, ...], ...] = Field(
        default=(), description="what the last review found in a figure of that name, one tuple a figure"
    )
    measurements: tuple[Measurement, ...] = Field(default=(), description="on validation, of the node alone")


class FigureReviews(FrozenModel):
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
    """What the paper's house style gives to figures; widths in inches of the printed page."""

    text_width: float
    column_width: float = Field(description="of one column; that of the text where there is one")
    reference: str = Field(default="", description="the documentation of the module `figure_style`, as text")


class FiguresInputs(StudyInputs):
    """For role `figures`: the paper's final figures from recorded arrays; answers with `FigureScript`."""

    arrays: tuple[ArrayBrief, ...]
    statistics: tuple[Statistic, ...] = Field(description="also in inputs/statistics.json, as a list of these objects")
    tables: Tables = Field(default=Tables(), description="of these means; what is said, by the winning node")
    example_plots: str = Field(description="plots.py of the winning node, which shows what its arrays hold")
    ablations: tuple[str, ...] = Field(default=(), description="conditions that are ablations")
    synthetic: tuple[str, ...] = Field(default=(), description="datasets whose examples were generated")
    style: FigureStyle = FigureStyle(text_width=5.5, column_width=5.5)
    lab_reference: str
    complaints: tuple[str, ...] = Field(default=(), description="of the figures that were refused, `name: what`")
    keep: tuple[str, ...] = Field(default=(), description="figures that stand, and are not drawn again")
    previous: str = Field(default="", description="the code of the refused figures")


class FigurePart(FrozenModel):
    """One figure, and the code that draws it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,59}$", description="file stem under figures/")
    description: str = Field(description="what it shows, without numbers")
    code: str = Field(default="", description="Python that draws and saves this figure alone; it runs after `script`")
    placement: FigurePlacement = Field(default="main", description="main text, or appendix")
    panels: int = Field(default=1, ge=1, le=3, description="panels side by side")
    datasets: tuple[str, ...] = Field(default=(), description="names of the datasets that it shows")


class FigureScript(FrozenModel):
    """The final figures, each drawn in a kernel of its own by `script` and then the figure's `code`."""

    script: str = Field(description="Python that all figures need: imports, loading, shared functions; draws nothing")
    figures: tuple[FigurePart, ...] = Field(min_length=1)


FIGURES = Role("figures", FiguresInputs, FigureScript, prompt_tokens=25_000, typical_tokens=(6500, 2400))


class FigureMention(FrozenModel):
    """A paragraph that refers to a figure, with its values printed."""

    where: str = Field(description="title of its section, or 'abstract'")
    text: str


class PlacedFigure(FrozenModel):
    """A figure as it stands in the compiled paper."""

    name: str
    page: int = Field(description="of the PDF, from 1")
    placement: FigurePlacement
    width: float = Field(description="inches on the page")
    scale: float = Field(default=1.0, description="printed width over the width that it was drawn at")
    description: str = Field(description="what it was drawn to show")
    caption: str = Field(description="with its values printed")
    mentions: tuple[FigureMention, ...] = ()
    lint: tuple[str, ...] = Field(default=(), description="what a program found")
    data: tuple[str, ...] = Field(default=(), description="what was drawn, a line each")


class FigureReviewInputs(FrozenModel):
    """For role `figure_review`, with a picture of each of `figures` from the PDF; answers with `PaperFigureReviews`.

    `others` have not changed since they were reviewed; their pictures are not shown.
    """

    data_plan: DataPlan
    title: str
    figures: tuple[PlacedFigure, ...]
    others: tuple[PlacedFigure, ...] = ()
    page_limit: int
    pages: int | None = Field(default=None, description="pages of main text; None where it did not compile")
    over: float = Field(default=0.0, description="pages of main text beyond the limit")


class PaperFigureReviews(FrozenModel):
    """One review for each figure that was shown."""

    looked: bool = Field(default=True, description="false where no picture could be seen")
    reviews: tuple[PaperFigureReview, ...] = ()


FIGURE_REVIEW = Role(
    "figure_review",
    FigureReviewInputs,
    PaperFigureReviews,
    kind="vision",
    prompt_tokens=35_000,
    typical_tokens=(4000 + 3 * TYPICAL_IMAGE_TOKENS, 900),
)
