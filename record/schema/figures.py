"""Figures: facts from their live matplotlib objects, their reviews, and their places in the paper."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel


class DrawnFacts(FrozenModel):
    """One object drawn from data: its kind, appearance and values."""

    kind: str = Field(
        description="line, scatter, bar, barh, image (one number per cell), picture, contour, area, box or patch"
    )
    label: str = Field(default="", description="label in a legend")
    points: int = 0
    finite: bool = Field(default=True, description="whether a value is finite")
    low: float | None = Field(default=None, description="minimum of the finite heights, or cells of an image")
    high: float | None = None
    mean: float | None = None
    first: float | None = None
    last: float | None = None
    constant: bool = Field(default=False, description="three or more finite values, all equal")
    interval: bool = Field(default=False, description="error bars, or a band in the same colour")
    colour: str = Field(default="", description="#rrggbb; empty: several")
    line: str = ""
    marker: str = ""
    hatch: str = ""


class AxesFacts(FrozenModel):
    """Facts about one live matplotlib axes."""

    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    series: int = Field(default=0, description="lines, bar groups, scatters and images with data")
    labelled_series: int = 0
    legend: bool = False
    empty: bool = Field(default=False, description="no artist has a finite data point")
    visible: bool = True
    drawn: tuple[DrawnFacts, ...] = Field(default=(), description="the first 40")
    legend_entries: tuple[str, ...] = ()
    tick_words: tuple[str, ...] = Field(default=(), description="tick labels that are not numbers")
    notes: tuple[str, ...] = Field(default=(), description="labels within the axes, the first 40")
    note_count: int = 0
    xticks: int | None = Field(default=None, description="number of drawn tick labels; None: unknown")
    yticks: int | None = None
    xwords: bool = Field(default=False, description="whether all tick labels are words")
    ywords: bool = False
    xscale: str = "linear"
    yscale: str = "linear"
    xlimits: tuple[float, float] | None = None
    ylimits: tuple[float, float] | None = None
    spread: bool = Field(default=False, description="a band, error bars, boxes or loose intervals are drawn")
    zlabel: str | None = Field(default=None, description="None: there is no third axis")
    colourbar: bool = Field(default=False, description="whether the figure has a colour bar")
    covered: float = Field(default=0.0, description="share of the drawn data that lies under the legend")


class OverlapFacts(FrozenModel):
    """Two overlapping labels; `b` may be 'the legend' or 'another panel'."""

    a: str
    b: str
    share: float = Field(description="share of the smaller text's box")


class FigureFacts(FrozenModel):
    """Facts about a live matplotlib figure when it was saved."""

    axes: tuple[AxesFacts, ...] = ()
    width_inches: float = Field(default=0.0, description="width of the file; 0: not saved by matplotlib")
    height_inches: float = 0.0
    dpi: float = 0.0
    words: tuple[str, ...] = Field(default=(), description="labels outside the axes: title, notes, legend")
    scales: tuple[str, ...] = Field(default=(), description="labels of its colour bars")
    clipped: tuple[str, ...] = Field(default=(), description="labels that extend beyond the canvas")
    overlaps: tuple[OverlapFacts, ...] = Field(default=(), description="the worst first")
    smallest_font: float | None = Field(default=None, description="points, at the figure's own size")
    smallest_text: str = ""
    cut: bool = Field(default=False, description="whether time or memory ran out before every label was examined")
    error: str = Field(default="", description="why the figure could not be examined, or not completely")


class Figure(FrozenModel):
    """A figure saved by a plotting script, with the facts of its live matplotlib object."""

    name: str = Field(description="file name under figures/, e.g. 'loss.png'")
    sha256: str
    facts: FigureFacts


class FigureReview(FrozenModel):
    """The verdict on one figure; unreadable or unfaithful figures do not count."""

    name: str
    readable: bool = Field(description="whether a reader can use it unchanged; recorded as false if it is not faithful")
    faithful: bool = Field(default=True, description="whether the drawing agrees with the data summary")
    informative: bool = Field(
        default=True, description="whether it shows a result that the text, the tables and the other figures do not"
    )
    issues: tuple[str, ...] = ()
    description: str = ""


FigurePlacement = Literal["main", "appendix"]
"""The place of a figure in the paper."""


class FinalFigure(FrozenModel):
    """A figure of the paper, drawn from recorded arrays."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="file stem under figures/; saved as .pdf and .png")
    description: str = Field(description="what it shows, without numbers")
    placement: FigurePlacement = Field(default="main", description="main text, or appendix")
    panels: int = Field(default=1, ge=1, le=3, description="panels side by side")
    datasets: tuple[str, ...] = Field(default=(), description="names of the datasets shown")
    synthetic: bool = Field(default=False, description="whether all data shown are generated examples")
    width: float = Field(default=0.0, description="width in inches as drawn; 0: unknown")


class FigureAspectReview(FrozenModel):
    """A reviewer's verdict on one aspect of a figure."""

    ok: bool
    issues: tuple[str, ...] = ()


class PaperFigureReview(FrozenModel):
    """The verdict on a figure in the compiled paper, with its caption and the text that refers to it."""

    name: str
    image: FigureAspectReview
    caption: FigureAspectReview
    references: FigureAspectReview = Field(description="the paragraphs that refer to it")
    duplicates: tuple[str, ...] = Field(default=(), description="other figures of the paper that show the same")
    advice: Literal["keep", "appendix", "drop"] = Field(
        default="keep", description="whether to keep it, move it to the appendix, or drop it"
    )
    reason: str = Field(default="", description="reason for any advice other than keep")
