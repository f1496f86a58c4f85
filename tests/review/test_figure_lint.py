"""The figure lint: each finding, and silence for a figure in order."""

from __future__ import annotations

import pytest

from record.nouns import AxesFacts, Figure, FigureFacts
from review.figure_lint import lint

GOOD = AxesFacts(title="Loss", xlabel="epoch", ylabel="log loss", series=2, labelled_series=2, legend=True)


def figure(*axes: AxesFacts) -> Figure:
    return Figure(name="loss.png", sha256="0" * 64, facts=FigureFacts(axes=axes))


def changed(**fields: object) -> AxesFacts:
    return GOOD.model_copy(update=fields)


def test_a_figure_in_order_has_no_findings() -> None:
    assert lint(figure(GOOD)) == ()
    assert lint(figure(GOOD, GOOD)) == ()
    assert lint(figure(changed(series=1, labelled_series=0, legend=False))) == ()


@pytest.mark.parametrize(("axes", "finding"), [
    (changed(xlabel=" "), "The plot has no x label."),
    (changed(ylabel=""), "The plot has no y label."),
    (changed(legend=False), "The plot shows 2 series without a legend."),
    (changed(series=3, labelled_series=0, legend=False), "The plot shows 3 series without a legend."),
    (changed(empty=True, xlabel="", legend=False), "The plot is empty: it holds no finite data point."),
    (changed(title="dev_loss"), "The plot shows an underscore in its title 'dev_loss': write words."),
    (changed(xlabel="noise_rate"), "The plot shows an underscore in its x label 'noise_rate': write words."),
    (changed(ylabel="log_loss"), "The plot shows an underscore in its y label 'log_loss': write words."),
])
def test_each_finding(axes: AxesFacts, finding: str) -> None:
    assert lint(figure(axes)) == (finding,)


def test_mathematics_may_hold_underscores() -> None:
    assert lint(figure(changed(ylabel="loss $L_1$"))) == ()
    assert len(lint(figure(changed(ylabel="$L_1$ of val_loss")))) == 1


def test_the_panel_is_named() -> None:
    assert lint(figure(GOOD, changed(xlabel=""), changed(title="", ylabel=""))) == (
        "Panel 2 ('Loss') has no x label.", "Panel 3 has no y label.")


def test_hidden_axes_are_no_plots() -> None:
    hidden = AxesFacts(visible=False, empty=True)
    assert lint(figure(GOOD, hidden)) == ()
    assert lint(figure(hidden)) == ("loss.png shows no data: all its axes are empty.",)
    assert lint(figure(AxesFacts(visible=False))) == ()


def test_no_axes() -> None:
    assert lint(figure()) == ("loss.png has no axes: draw it with matplotlib and save it with savefig.",)
