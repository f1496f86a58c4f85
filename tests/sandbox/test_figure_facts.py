"""Facts extracted from live matplotlib figures, drawn the way scripts draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from lab import _figures

from labwright.record.schema.paper import AxesFacts, FigureFacts

pytestmark = pytest.mark.slow

X = np.arange(5.0)
Draw = Callable[[Any], object]
DRAWINGS: list[tuple[Draw, int, int]] = [
    (lambda ax: ax.plot(X), 1, 0),
    (lambda ax: (ax.plot(X), ax.axhline(2), ax.axvline(1)), 1, 0),
    (lambda ax: (ax.errorbar(X, X, yerr=1, label="a", capsize=2), ax.errorbar(X, X + 1, yerr=1, label="b")), 2, 2),
    (lambda ax: (ax.bar(X, X, label="a"), ax.bar(X + 0.4, X, label="b")), 2, 2),
    (lambda ax: ax.hist(X, histtype="step"), 1, 0),
    (lambda ax: ax.boxplot([X, X + 1, X + 2]), 1, 0),
    (lambda ax: ax.barh(["a", "b"], [1, 2]), 1, 0),
    (lambda ax: (ax.scatter(X, X), ax.scatter(X, X + 1)), 2, 0),
    (lambda ax: ax.pcolormesh(np.ones((3, 3))), 1, 0),
    (lambda ax: ax.stem(X, X), 1, 0),
    (lambda ax: ax.pie([1, 2]), 1, 0),
    (lambda ax: (ax.plot(X, label="a"), [ax.plot([i], [1], "o", color=f"C{i}") for i in range(5)]), 1, 1),
    (lambda ax: [ax.plot([i], [1], "o", color=f"C{i}") for i in range(3)], 3, 0),
]
EMPTY: list[Draw] = [
    lambda ax: None,
    lambda ax: ax.plot([np.nan, np.nan]),
    lambda ax: ax.bar(["a"], [np.nan]),
    lambda ax: ax.axhline(1),
]


@pytest.fixture
def plt() -> Iterator[Any]:
    mpl.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def page_of(figure: Any) -> FigureFacts:
    return FigureFacts.model_validate(_figures.build_facts(figure))


def facts_of(figure: Any) -> tuple[AxesFacts, ...]:
    return page_of(figure).axes


@pytest.mark.parametrize(("draw", "series", "labelled"), DRAWINGS)
def test_series_are_counted_as_a_reader_would(plt: Any, draw: Draw, series: int, labelled: int) -> None:
    figure, axes = plt.subplots()
    draw(axes)
    (found,) = facts_of(figure)
    assert not found.empty
    assert found.labelled_series == labelled
    assert found.series == series


@pytest.mark.parametrize("draw", EMPTY)
def test_axes_without_a_finite_point_are_empty(plt: Any, draw: Draw) -> None:
    figure, axes = plt.subplots()
    draw(axes)
    assert facts_of(figure)[0].empty


def test_legends_may_stand_elsewhere(plt: Any) -> None:
    figure, (left, right) = plt.subplots(1, 2)
    for axes in (left, right):
        axes.plot(X, label="a")
        axes.plot(X + 1, label="b")
    assert [one.legend for one in facts_of(figure)] == [False, False]
    left.legend()
    assert [one.legend for one in facts_of(figure)] == [True, True]
    right.plot(X + 2, label="c")
    assert [one.legend for one in facts_of(figure)] == [True, False]
    figure.legend()
    assert [one.legend for one in facts_of(figure)] == [True, True]


def test_colour_bars_twins_and_axes_switched_off(plt: Any) -> None:
    figure, (image, off) = plt.subplots(1, 2)
    figure.colorbar(image.imshow(np.ones((2, 2))))
    off.axis("off")
    assert [one.visible for one in facts_of(figure)] == [True, False]
    other, axes = plt.subplots()
    axes.plot(X)
    axes.set(xlabel="epoch", ylabel="loss")
    twin = axes.twinx()
    twin.plot(X * 2)
    twin.set_ylabel("accuracy")
    assert [(one.xlabel, one.ylabel) for one in facts_of(other)] == [("epoch", "loss"), ("epoch", "accuracy")]


def test_what_was_drawn_is_told_with_its_values_and_looks(plt: Any) -> None:
    figure, axes = plt.subplots()
    axes.plot(X, label="plain", color="#0072B2", linestyle="--", marker="o")
    axes.errorbar(X, np.full(5, 2.0), yerr=1, label="flat")
    axes.bar(X, [1, 2, np.nan, 4, 5], hatch="//", label="bars")
    axes.legend()
    (found,) = facts_of(figure)
    bars, flat, line = sorted(found.drawn, key=lambda one: one.label)
    assert (line.kind, line.points, line.low, line.high, line.mean, line.first, line.last) == ("line", 5, 0, 4, 2, 0, 4)
    assert (line.colour, line.line, line.marker, line.constant) == ("#0072b2", "--", "o", False)
    assert flat.constant and flat.interval
    assert (bars.kind, bars.hatch, bars.points, bars.mean) == ("bar", "//", 5, 3)
    assert found.legend_entries == ("plain", "flat", "bars")
    assert found.xticks is not None and found.xticks > 3 and not found.xwords and found.xlimits is not None


def test_bands_words_scales_and_colour_bars(plt: Any) -> None:
    figure, (left, right) = plt.subplots(1, 2)
    left.plot(X + 1, color="#0072B2")
    left.fill_between(range(5), X, X + 2, color="#0072B2", alpha=0.2)
    left.set_yscale("log")
    left.set_xticks([0, 4], ["none", "all_of_it"])
    left.text(1, 1, "a note")
    figure.colorbar(right.imshow(np.ones((2, 2))), label="val_loss")
    figure.suptitle("break_through")
    page = page_of(figure)
    one, image = page.axes
    assert one.drawn[0].interval and one.yscale == "log" and one.notes == ("a note",)
    assert one.xwords and not one.ywords and one.tick_words == ("none", "all_of_it")
    assert image.drawn[0].kind == "image" and image.drawn[0].constant
    assert page.scales == ("val_loss",) and page.words == ("break_through",)


def test_texts_that_are_cut_off_or_lie_on_each_other(plt: Any) -> None:
    figure, axes = plt.subplots(figsize=(4, 3), layout="constrained")
    axes.plot(X)
    axes.set(xlabel="epoch", ylabel="loss")
    page = page_of(figure)
    assert page.clipped == () and page.overlaps == () and page.smallest_font == 10.0 and not page.error
    axes.text(2, 2, "one thing")
    axes.text(2, 2.05, "another thing", fontsize=4)
    axes.set_title("a title that is a good deal longer than the four inches of the figure that it stands on")
    page = page_of(figure)
    assert {page.overlaps[0].a, page.overlaps[0].b} == {"one thing", "another thing"} and page.overlaps[0].share > 0.3
    assert len(page.clipped) == 1 and page.clipped[0].startswith("a title")
    assert (page.smallest_font, page.smallest_text) == (4.0, "another thing")


@pytest.mark.parametrize(("options", "clipped"), [({}, True), ({"dpi": 250}, True), ({"bbox_inches": "tight"}, False)])
@pytest.mark.parametrize("ending", ["png", "pdf"])
def test_a_saved_figure_is_measured_as_it_was_saved(
    plt: Any, tmp_path: Path, options: dict[str, Any], clipped: bool, ending: str
) -> None:
    class Watched(plt.Figure):
        pass

    _figures.watch_figures(Watched)
    figure = plt.figure(FigureClass=Watched, figsize=(3, 2))
    axes = figure.subplots()
    axes.bar(["a name of some length", "b"], [1, 2])
    axes.tick_params(axis="x", rotation=90)
    axes.set_ylabel("hits")
    figure.savefig(tmp_path / f"a.{ending}", **options)
    page = FigureFacts.model_validate_json((tmp_path / f"a.{ending}.facts.json").read_text())
    assert ("a name of some length" in page.clipped) == clipped and "b" not in page.clipped
    assert page.overlaps == () and figure.dpi == 100.0
    assert page.height_inches == 2.0 if clipped else page.height_inches > 2.3


def test_a_plot_outlives_a_hook_that_fails(plt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(plt.Figure):
        pass

    def fail(*_: object) -> None:
        raise RuntimeError("an artist of odd make")

    _figures.watch_figures(Watched)
    figure = plt.figure(FigureClass=Watched)
    figure.subplots().plot(X)
    monkeypatch.setattr("lab._figures.collect_texts", fail)
    figure.savefig(tmp_path / "a.png")
    page = FigureFacts.model_validate_json((tmp_path / "a.png.facts.json").read_text())
    assert page.error == "RuntimeError: an artist of odd make" and page.axes[0].series == 1
    monkeypatch.setattr(_figures, "build_facts", fail)
    figure.savefig(tmp_path / "b.png")
    page = FigureFacts.model_validate_json((tmp_path / "b.png.facts.json").read_text())
    assert page.error and page.axes == () and (tmp_path / "b.png").stat().st_size > 1000


def test_time_and_room_are_bounded(plt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, axes = plt.subplots()
    for k in range(500):
        axes.text(k % 20, k // 20, str(k))
    assert page_of(figure).smallest_font == 10.0
    assert len(_figures.collect_texts(figure, np.inf)) == _figures.MAX_TEXTS
    monkeypatch.setattr(_figures, "MAX_FIGURE_SECONDS", -1.0)
    figure, axes = plt.subplots()
    axes.plot(X)
    assert page_of(figure).smallest_font is None
