"""What live figures say of themselves, drawn with matplotlib in the ways that scripts draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from lab import _figures

from record.nouns import AxesFacts, FigureFacts

X = np.arange(5.0)
Draw = Callable[[Any], object]
DRAWINGS: list[tuple[Draw, int, int]] = [
    (lambda ax: ax.plot(X), 1, 0),
    (lambda ax: (ax.plot(X, label="a"), ax.plot(X + 1, label="b")), 2, 2),
    (lambda ax: (ax.plot(X), ax.axhline(2), ax.axvline(1)), 1, 0),
    (lambda ax: (ax.plot(X, label="mean"), ax.fill_between(X, X - 1, X + 1, alpha=0.2)), 1, 1),
    (lambda ax: (ax.errorbar(X, X, yerr=1, label="a", capsize=2), ax.errorbar(X, X + 1, yerr=1, label="b")), 2, 2),
    (lambda ax: ax.bar(["a", "b"], [1, 2], yerr=[0.1, 0.2]), 1, 0),
    (lambda ax: (ax.bar(X, X, label="a"), ax.bar(X + 0.4, X, label="b")), 2, 2),
    (lambda ax: [ax.bar(i, 1) for i in range(4)], 1, 0),
    (lambda ax: ax.hist(X, histtype="step"), 1, 0),
    (lambda ax: ax.hist(X), 1, 0),
    (lambda ax: ax.boxplot([X, X + 1, X + 2]), 1, 0),
    (lambda ax: ax.boxplot([X, X + 1], patch_artist=True), 1, 0),
    (lambda ax: ax.barh(["a", "b"], [1, 2]), 1, 0),
    (lambda ax: ax.violinplot([X, X + 1]), 1, 0),
    (lambda ax: (ax.scatter(X, X), ax.scatter(X, X + 1)), 2, 0),
    (lambda ax: ax.imshow(np.ones((3, 3))), 1, 0),
    (lambda ax: ax.pcolormesh(np.ones((3, 3))), 1, 0),
    (lambda ax: ax.contourf(np.outer(X, X)), 1, 0),
    (lambda ax: ax.stem(X, X), 1, 0),
    (lambda ax: ax.step(X, X, label="a"), 1, 1),
    (lambda ax: ax.pie([1, 2]), 1, 0),
    (lambda ax: [ax.plot(X + i, color="grey", alpha=0.3) for i in range(5)], 1, 0),
]
EMPTY: list[Draw] = [
    lambda ax: None, lambda ax: ax.plot([], []), lambda ax: ax.plot([np.nan, np.nan]), lambda ax: ax.scatter([], []),
    lambda ax: ax.bar(["a"], [np.nan]), lambda ax: ax.imshow(np.full((2, 2), np.nan)), lambda ax: ax.axhline(1),
    lambda ax: ax.text(0.5, 0.5, "no data"),
]



@pytest.fixture
def plt() -> Iterator[Any]:
    mpl.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def facts_of(figure: Any) -> tuple[AxesFacts, ...]:
    return FigureFacts.model_validate(_figures.facts(figure)).axes


@pytest.mark.parametrize(("draw", "series", "labelled"), DRAWINGS)
def test_series_are_counted_as_a_reader_would(plt: Any, draw: Draw, series: int, labelled: int) -> None:
    figure, axes = plt.subplots()
    draw(axes)
    found, = facts_of(figure)
    assert not found.empty
    assert found.labelled_series == labelled
    assert found.series == series


@pytest.mark.parametrize("draw", EMPTY)
def test_axes_without_a_finite_point_are_empty(plt: Any, draw: Draw) -> None:
    figure, axes = plt.subplots()
    draw(axes)
    assert facts_of(figure)[0].empty


def test_labels_may_be_shared(plt: Any) -> None:
    figure, grid = plt.subplots(2, 2, sharex=True)
    for axes in grid.flat:
        axes.plot(X)
    for axes in grid[1]:
        axes.set_xlabel("epoch")
    figure.supylabel("loss")
    assert {(one.xlabel, one.ylabel) for one in facts_of(figure)} == {("epoch", "loss")}


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


def test_three_dimensions_and_polar_do_not_break(plt: Any) -> None:
    figure = plt.figure()
    figure.add_subplot(121, projection="3d").plot(X, X, X)
    figure.add_subplot(122, projection="polar").plot(X, X)
    assert [one.empty for one in facts_of(figure)] == [False, False]
