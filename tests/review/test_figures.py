"""The figure lint: each finding, silence for a figure in order, and what a program sees of pictures and colours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from PIL import Image, ImageDraw

from labwright.record.schema.paper import AxesFacts, DrawnFacts, Figure, FigureFacts, OverlapFacts
from labwright.review.figures import (
    MIN_COLOUR_DIFFERENCE,
    SEVERITIES,
    FigureContext,
    Kind,
    colour_difference,
    lint_figure,
    lint_figure_folder,
    list_refusals,
    list_remarks,
    to_lab,
)

LINE = DrawnFacts(
    kind="line", label="plain", points=30, low=0.2, high=1.0, mean=0.4, first=1.0, last=0.2, colour="#0072b2", line="-"
)
OTHER = LINE.model_copy(update={"label": "method", "colour": "#d55e00", "line": "--", "mean": 0.3})
GOOD = AxesFacts(
    title="Loss",
    xlabel="epoch",
    ylabel="log loss",
    series=2,
    labelled_series=2,
    legend=True,
    drawn=(LINE, OTHER),
    xticks=6,
    yticks=5,
)
PAGE = FigureFacts(axes=(GOOD,), width_inches=5.0, height_inches=3.0, smallest_font=8.0, smallest_text="0.2")


def figure(*axes: AxesFacts, **fields: object) -> Figure:
    return Figure(name="loss.png", sha256="0" * 64, facts=PAGE.model_copy(update={"axes": axes, **fields}))


def changed(**fields: object) -> AxesFacts:
    return GOOD.model_copy(update=fields)


def drawn(**fields: object) -> DrawnFacts:
    return LINE.model_copy(update=fields)


def kinds(shown: Figure, about: FigureContext | None = None) -> list[str]:
    return [one.kind for one in lint_figure(shown, about)]


def test_a_figure_in_order_has_no_findings() -> None:
    assert lint_figure(figure(GOOD)) == lint_figure(figure(GOOD, GOOD)) == ()
    assert lint_figure(figure(changed(series=1, labelled_series=0, legend=False, drawn=(LINE,)))) == ()
    points = tuple(drawn(label="", points=1, colour=colour) for colour in ("#0072b2", "#d55e00"))
    dots = changed(legend=False, labelled_series=0, drawn=points, ywords=True, tick_words=("gain", "rival"))
    assert kinds(figure(dots)) == [], "the words along the axis name the points"
    assert "legend" in kinds(figure(dots.model_copy(update={"tick_words": ("gain",)})))


@pytest.mark.parametrize(
    ("axes", "finding"),
    [
        (changed(xlabel=" "), "The plot has no x label. Describe in words what the axis shows."),
        (changed(legend=False), "The plot shows 2 series without a legend. Label each series and call legend()."),
        (
            changed(empty=True, xlabel="", legend=False),
            "The plot is empty: it has no finite data point. Remove it, or draw what was recorded.",
        ),
        (changed(title="dev_loss"), "The plot shows an underscore in its title 'dev_loss'. Write words."),
        (
            changed(legend_entries=("plain", "label_smoothing")),
            "The plot shows an underscore in its legend 'label_smoothing'. Write words.",
        ),
    ],
)
def test_findings_that_refuse_name_place_and_mend(axes: AxesFacts, finding: str) -> None:
    assert list_refusals(lint_figure(figure(axes))) == (finding,) and list_remarks(lint_figure(figure(axes))) == ()


def test_colours_that_look_alike_are_a_complaint_and_refused_in_papers() -> None:
    alike = figure(changed(drawn=(LINE, drawn(label="method", colour="#0078b8"))))
    assert kinds(alike) == ["colour"] and list_refusals(lint_figure(alike)) == () and list_remarks(lint_figure(alike))
    assert list_refusals(lint_figure(alike, FigureContext(in_paper=True)))


@pytest.mark.parametrize(
    "axes",
    [
        changed(xlabel="", xticks=0),
        changed(xlabel="", xwords=True),
        changed(ylabel="loss $L_1$"),
        changed(legend=False, notes=("plain", "method")),
        changed(legend=False, drawn=(LINE, drawn(label="", points=2, line=":"))),
        changed(legend=False, drawn=(drawn(kind="scatter", label="", marker="4"), drawn(label=""))),
        changed(drawn=(LINE, drawn(label="chance", constant=True, line=":"))),
        changed(drawn=(LINE, drawn(label="", constant=True, line=":"))),
        changed(drawn=(LINE, drawn(label="method", colour="#0078b8", line="--"))),
    ],
)
def test_what_good_papers_do_is_no_finding(axes: AxesFacts) -> None:
    assert kinds(figure(axes)) == []


def test_hidden_axes_are_no_plots_but_something_must_be_shown() -> None:
    hidden = AxesFacts(visible=False, empty=True)
    assert kinds(figure(GOOD, hidden)) == kinds(figure(AxesFacts(visible=False))) == []
    assert kinds(figure(hidden)) == ["empty"] and kinds(figure()) == ["axes"]


def test_texts_and_fonts_are_judged_in_print() -> None:
    assert kinds(figure(GOOD, clipped=("Loss",))) == ["clipped"]
    overlap = OverlapFacts(a="Loss", b="the legend", share=0.5)
    assert kinds(figure(GOOD, overlaps=(overlap,))) == ["overlap"]
    assert kinds(figure(GOOD, overlaps=(overlap.model_copy(update={"share": 0.05}),))) == []
    small = figure(GOOD, width_inches=11.0)
    assert [str(one) for one in lint_figure(small)] == [
        "loss.png has text of 4.0 pt in print ('0.2': 8 pt in a figure 11.0 inches wide). "
        "Draw it 5.5 inches wide or less, with fonts of 7 pt or more."
    ]
    assert kinds(small, FigureContext(width_inches=11.0)) == [] and list_refusals(lint_figure(small)) == ()
    assert list_refusals(lint_figure(small, FigureContext(in_paper=True))) != ()


def test_severities_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "paper.md").read_text()
    rows = {row[0]: (row[1], row[2]) for row in re.findall(r"(?m)^\| `(\w+)` \|.*\| (\w+) \| (\w+) \|$", page)}
    assert rows == SEVERITIES and set(SEVERITIES) == set(get_args(Kind))


# --- colours ----------------------------------------------------------------------------------------------------------


def test_colour_blindness_brings_red_and_green_together() -> None:
    assert to_lab("#ffffff") == pytest.approx([100, 0, 0], abs=0.02) and to_lab("#000000") == pytest.approx([0, 0, 0])
    red, green = "#b22222", "#5a6e1e"
    assert colour_difference(red, green) > 30 and colour_difference(red, green, "deuteranopia") < MIN_COLOUR_DIFFERENCE
    assert (
        colour_difference("#0072b2", "#d55e00", "deuteranopia")
        > 30
        < colour_difference("#0072b2", "#d55e00", "protanopia")
    )
    assert to_lab("#808080", "protanopia") == pytest.approx(to_lab("#808080"), abs=0.1)  # grey stays grey


# --- pictures ---------------------------------------------------------------------------------------------------------


def picture(
    path: Path, *, text: str = "", points: tuple[tuple[int, int], ...] = ((90, 500), (400, 200), (800, 400))
) -> Figure:
    """A drawing without facts, saved."""
    image = Image.new("RGB", (900, 600), "white")
    pen = ImageDraw.Draw(image)
    if points:
        pen.line(points, fill="blue", width=5)
    pen.text((400, 560), text, fill="black")
    image.save(path)
    return Figure(name=path.name, sha256=path.name, facts=FigureFacts())


def test_pictures_are_judged_without_facts(tmp_path: Path) -> None:
    shown = (
        picture(tmp_path / "a.png"),
        picture(tmp_path / "b.png", points=()),
        picture(tmp_path / "c.png", points=((0, 300), (899, 100))),
        picture(tmp_path / "e.png", text="a word more"),
    )
    found = {name: [one.kind for one in said] for name, said in lint_figure_folder(shown, tmp_path).items()}
    assert found == {"a.png": [], "b.png": ["blank"], "c.png": [], "e.png": ["duplicate"]}
    (tmp_path / "a.png").write_bytes(b"none")
    assert lint_figure_folder(shown[:1], tmp_path)["a.png"] == ()


def test_the_same_data_drawn_otherwise_are_told_to_the_second_only(tmp_path: Path) -> None:
    one, two = (figure(GOOD).model_copy(update={"name": f"{name}.png", "sha256": name}) for name in "ab")
    other = figure(changed(drawn=(LINE, drawn(mean=0.9)))).model_copy(update={"name": "c.png", "sha256": "c"})
    found = lint_figure_folder((one, two, other), tmp_path, FigureContext(in_paper=True))
    assert found["a.png"] == found["c.png"] == () and list_refusals(found["b.png"]) == (
        "b.png shows the same data as a.png. Keep one of them.",
    )
    left, right = (
        figure(changed(xlimits=xlimits)).model_copy(update={"name": f"{name}.png", "sha256": name})
        for name, xlimits in (("a", (0.0, 1.0)), ("b", (5.0, 40.0)))
    )
    assert lint_figure_folder((left, right), tmp_path, FigureContext(in_paper=True))["b.png"] == ()
