"""Names that papers give to one thing, rows of several papers, and fields of a plan by their paths."""

from __future__ import annotations

from typing import Any

import pytest

from labwright.record.plan_edits import read_field_path
from labwright.record.schema.prior_work import (
    PriorPaper,
    PriorUse,
    UseKind,
    collect_shared_uses,
    is_named_in_quote,
    is_same_name,
)
from tests.models.examples import PLAN


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CIFAR-10", "CIFAR10 dataset"),
        ("SGD", "Stochastic gradient descent (SGD)"),
        ("Adam", "the Adam optimizer"),
        ("Label smoothing", "label-smoothing"),
    ],
)
def test_names_of_one_thing_are_alike(one: str, other: str) -> None:
    assert is_same_name(one, other) and is_same_name(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CIFAR-10", "CIFAR-100"),
        ("Adam", "AdamW"),
        ("MNIST", "Fashion-MNIST"),
        ("the dataset", "CIFAR"),
        ("SGD", "SGD with momentum"),
    ],
)
def test_names_of_two_things_are_not(one: str, other: str) -> None:
    assert not is_same_name(one, other) and not is_same_name(other, one)


def use(what: UseKind, name: str, quote: str = "") -> PriorUse:
    return PriorUse(what=what, name=name, quote=quote or f"we use {name} here")


def paper(title: str, *uses: PriorUse) -> PriorPaper:
    return PriorPaper(title=title, file=f"{title}.pdf", stored=f"context/{title}.pdf", sha256="0", uses=uses)


def test_a_row_is_what_two_papers_use_and_nothing_that_one_names_twice() -> None:
    rows = collect_shared_uses(
        (
            paper(
                "a",
                use("dataset", "CIFAR-10"),
                use("dataset", "CIFAR 10"),
                use("baseline", "SGD"),
                use("metric", "ECE"),
            ),
            paper("b", use("dataset", "SVHN"), use("baseline", "stochastic gradient descent"), use("metric", "ECE")),
            paper("c", use("baseline", "CIFAR-10")),
        )
    )
    assert [(row.what, row.name, row.papers) for row in rows] == [("baseline", "SGD", ("a", "b"))]


@pytest.mark.parametrize(
    ("one", "holds"),
    [
        (use("dataset", "CIFAR-10", "all models were trained on CIFAR-10 for"), True),
        (use("dataset", "CIFAR-10", "all models were trained on SVHN for long"), False),
        (use("baseline", "ERM", "compared with empirical risk minimization"), True),
        (use("value", "ERM on Waterbirds: 72.6", "ERM 97.3 72.6"), True),
        (use("value", "ERM on Waterbirds: 72.7", "ERM 97.3 72.6"), False),
        (use("budget", "five seeds", "averaged over repeated runs"), True),
    ],
)
def test_a_quote_must_name_what_it_stands_for(one: PriorUse, *, holds: bool) -> None:
    assert is_named_in_quote(one) == holds


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("task", PLAN.task),
        ("arms[margin].role", "method"),
        ("levels[n50].value", 50.0),
        ("space[warmup].among[0]", "cosine"),
        ("open", ("the architecture",)),
    ],
)
def test_a_path_names_a_field(path: str, value: Any) -> None:
    assert read_field_path(PLAN, path) == value
