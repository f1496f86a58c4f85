"""Figures: what their live matplotlib objects said, what reviewers said, and how they stand in the paper."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel


class DrawnFacts(FrozenModel):
    """One thing that was drawn from data: what it is, how it looks, and what its values are."""

    kind: str = Field(
        description="line, scatter, bar, barh, image (a number a cell), picture, contour, area, box or patch"
    )
    label: str = Field(default="", description="as a legend would show it")
    points: int = 0
    finite: bool = Field(default=True, description="whether a value is finite")
    low: float | None = Field(default=None, description="of the finite heights; cells of an image")
    high: float | None = None
    mean: float | None = None
    first: float | None = None
    last: float | None = None
    constant: bool = Field(default=False, description="three finite values or more, all equal")
    interval: bool = Field(default=False, description="error bars, or a band in its colour")
    colour: str = Field(default="", description="#rrggbb; empty: several")
    line: str = ""
    marker: str = ""
    hatch: str = ""


class AxesFacts(FrozenModel):
    """What one live matplotlib axes said of itself."""

    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    series: int = Field(default=0, description="lines, bar groups, scatters and images with data")
    labelled_series: int = 0
    legend: bool = False
    empty: bool = Field(default=False, description="no artist holds a finite data point")
    visible: bool = True
    drawn: tuple[DrawnFacts, ...] = Field(default=(), description="the first 40")
    legend_entries: tuple[str, ...] = ()
    tick_words: tuple[str, ...] = Field(default=(), description="tick labels that are no numbers")
    notes: tuple[str, ...] = Field(default=(), description="texts within the axes, the first 40")
    note_count: int = 0
    xticks: int | None = Field(default=None, description="tick labels that are drawn; None: unknown")
    yticks: int | None = None
    xwords: bool = Field(default=False, description="whether all tick labels are words")
    ywords: bool = False
    xscale: str = "linear"
    yscale: str = "linear"
    xlimits: tuple[float, float] | None = None
    ylimits: tuple[float, float] | None = None
    spread: bool = Field(default=False, description="a band, error bars, boxes or loose intervals are drawn")
    zlabel: str | None = Field(default=None, description="None: there is no third axis")
    colourbar: bool = Field(default=False, description="whether the figure has one")
    covered: float = Field(default=0.0, description="share of the drawn data that lies under the legend")


class OverlapFacts(FrozenModel):
    """Two texts that lie on each other; `b` may be 'the legend' or 'another panel'."""

    a: str
    b: str
    share: float = Field(description="of the smaller one's box")


class FigureFacts(FrozenModel):
    """What a live matplotlib figure said of itself when it was saved."""

    axes: tuple[AxesFacts, ...] = ()
    width_inches: float = Field(default=0.0, description="of the file; 0: matplotlib did not save it")
    height_inches: float = 0.0
    dpi: float = 0.0
    words: tuple[str, ...] = Field(default=(), description="outside of the axes: its title, notes, legend")
    scales: tuple[str, ...] = Field(default=(), description="labels of its colour bars")
    clipped: tuple[str, ...] = Field(default=(), description="texts that reach beyond the canvas")
    overlaps: tuple[OverlapFacts, ...] = Field(default=(), description="the worst first")
    smallest_font: float | None = Field(default=None, description="points, at the figure's own size")
    smallest_text: str = ""
    cut: bool = Field(default=False, description="whether time or room did not suffice to look at every text")
    error: str = Field(default="", description="why the figure could not be looked at, or not to the end")


class Figure(FrozenModel):
    """A figure that a plotting script saved, with the facts its live matplotlib object gave."""

    name: str = Field(description="file name under figures/, e.g. 'loss.png'")
    sha256: str
    facts: FigureFacts


class FigureReview(FrozenModel):
    """A verdict on one figure; what is not readable or not faithful does not count."""

    name: str
    readable: bool = Field(description="whether a reader can use it as it is; recorded as false if it is not faithful")
    faithful: bool = Field(default=True, description="whether what is drawn agrees with the data summary")
    informative: bool = Field(
        default=True, description="whether it tells what the text, the tables or other figures would not"
    )
    issues: tuple[str, ...] = ()
    description: str = ""


FigurePlacement = Literal["main", "appendix"]
"""Where a figure stands in the paper."""


class FinalFigure(FrozenModel):
    """A figure of the paper, drawn from recorded arrays."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="file stem under figures/; saved as .pdf and .png")
    description: str = Field(description="what it shows, without numbers")
    placement: FigurePlacement = Field(default="main", description="main text, or appendix")
    panels: int = Field(default=1, ge=1, le=3, description="panels side by side")
    datasets: tuple[str, ...] = Field(default=(), description="names of the datasets that it shows")
    synthetic: bool = Field(default=False, description="whether all that it shows is of generated examples")
    width: float = Field(default=0.0, description="inches at which it was drawn; 0 where that is not known")


class FigureAspectReview(FrozenModel):
    """What a reviewer says of one side of a figure."""

    ok: bool
    issues: tuple[str, ...] = ()


class PaperFigureReview(FrozenModel):
    """A verdict on a figure as it stands in the compiled paper, with its caption and the text that refers to it."""

    name: str
    image: FigureAspectReview
    caption: FigureAspectReview
    references: FigureAspectReview = Field(description="the paragraphs that refer to it")
    duplicates: tuple[str, ...] = Field(default=(), description="names of figures of the paper that show the same")
    advice: Literal["keep", "appendix", "drop"] = Field(
        default="keep", description="where it should go: stay, into the appendix, or out of the paper"
    )
    reason: str = Field(default="", description="of an advice other than keep")
