"""What an author hands in is accepted only if edits apply and leave alone what makes data, targets and the metric."""

from __future__ import annotations

from typing import Any

import pytest

from labwright.models.roles.repository import ProposedParts
from labwright.record.schema.repository import PartWay, ProposedPart, RepositoryCommand, RepositoryEdit
from labwright.stages.repository.authors import find_imported, find_part_faults, find_preparation_faults
from labwright.stages.repository.patch_scope import index_code
from tests.repositories import FILES

COMMAND = RepositoryCommand(argv=("python", "train.py", "--rate", "0.1"), metric="metrics.json:test.r2")
SWALLOW = ("banner(opts)\nF", "try:\n    banner(opts)\nexcept OSError:\n    pass\nF")
MODEL = """
def simulate(rng):
    return jitter(rng.normal(size=(8, 3)))


def jitter(x):
    return x + 0.1


def label(x):
    return x[:, 0] > 0


def scale(x):
    return 2 * x


def accuracy(p, y):
    return float((p == y).mean())
"""
CODE = index_code({"model.py": MODEL, "run.py": "from model import *\n", "README.md": "# Model\n"})


def propose(*edits: tuple[str, str], words: tuple[str, ...] = (), **fields: Any) -> ProposedParts:
    way = PartWay(
        what="identity",
        words=words,
        edits=tuple(RepositoryEdit(path="model.py", old=old, new=new) for old, new in edits),
    )
    part = ProposedPart(name="scale", path="model.py", symbol="scale", why="scales", prior=0.5, ways=(way,))
    known: dict[str, Any] = {
        "data": ("model.py:simulate",),
        "targets": ("model.py:label",),
        "metric": ("model.py:accuracy",),
    }
    return ProposedParts(reasons="r", parts=(part,), **{**known, **fields})


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (propose(("return 2 * x", "return x")), ""),
        (propose(words=("--no-scale",)), ""),
        (propose(), "scale, way 1: it changes nothing: give words or edits"),
        (propose(("return 3 * x", "return x")), "occurs 0 times in model.py"),
        (propose(("return 2 * x", "return (x")), "model.py no longer parses"),
        (propose(("rng.normal", "rng.uniform")), "model.py:simulate makes data, targets or the metric"),
        (propose(("x[:, 0] > 0", "x[:, 0] < 0")), "model.py:label makes data, targets or the metric"),
        (propose(("(p == y)", "(p != y)")), "changes accuracy, which computes a metric"),
        (propose(("return 2 * x", "return x"), data=("model.py",)), "model.py makes data, targets or the metric"),
        (propose(("return 2 * x", "return x"), data=("model.py:draw",)), "model.py has no function or class draw"),
        (propose(("return 2 * x", "return x"), metric=("run.py:<module>",)), ""),
        (propose(("return 3 * x", "return x"), whole=PartWay(what="--none", words=("--none",))), "occurs 0 times"),
        (propose(("return 2 * x", "return x"), whole=PartWay(what="nothing")), "whole: it changes nothing"),
        (propose(("return 2 * x", "return x"), targets=()), ""),
    ],
)
def test_a_way_takes_out_its_part_and_leaves_the_measurement_alone(answer: ProposedParts, why: str) -> None:
    found = list(find_part_faults(answer, COMMAND, CODE))
    assert found == [] if not why else len(found) == 1 and why in found[0], found


@pytest.mark.parametrize(
    ("argv", "changed", "why"),
    [
        (("python", "train.py", "--rate", "0.1", "--seed", "{seed}"), {}, ""),
        (("python", "train.py", "--rate", "0.2"), {}, "--rate has a different value, '0.2'"),
        (COMMAND.argv, {"train.py": FILES["train.py"].replace(*SWALLOW)}, "train.py: swallows an exception"),
        (COMMAND.argv, {"train.py": FILES["train.py"].replace("banner(opts)\nF", "F")}, ""),
        (COMMAND.argv, {"train.py": "# Fit.\n" + FILES["train.py"]}, ""),
        (COMMAND.argv, {"new.py": "x = (\n"}, "new.py no longer parses"),
    ],
)
def test_a_prepared_command_keeps_what_was_given(argv: tuple[str, ...], changed: dict[str, str], why: str) -> None:
    found = list(find_preparation_faults(COMMAND, COMMAND.model_copy(update={"argv": argv}), FILES, changed))
    assert found == [] if not why else len(found) == 1 and why in found[0], found


def test_code_that_measures_may_not_change() -> None:
    texts = {"m.py": "def accuracy(p, y):\n    return (p == y).mean()\n"}
    changed = {"m.py": texts["m.py"].replace("(p == y).mean()", "1.0")}
    assert list(find_preparation_faults(None, COMMAND, texts, changed)) == [
        "m.py: changes accuracy, which computes a metric"
    ]


def test_a_metric_may_be_printed_with_more_digits() -> None:
    text = 'def evaluate(x):\n    print(f"acc {x:.2f}, loss %.3f" % (1.5e-5 * x), "{:8.2%}".format(x))\n'
    more = text.replace(":.2f", ":.12f").replace("%.3f", "%.9e").replace(":8.2%", ":8.9%")
    assert not list(find_preparation_faults(None, COMMAND, {"m.py": text}, {"m.py": more.replace("9e", "9f")}))
    assert list(find_preparation_faults(None, COMMAND, {"m.py": text}, {"m.py": more.replace("1.5e", "1.7e")}))


def test_packages_that_files_import_are_named_and_modules_without_one() -> None:
    code = index_code(
        {"a/run.py": "import os, sklearn.svm, b, lost.x\nfrom . import near", "a/b.py": "import numpy as np"}
    )
    packages = {"scikit-learn": "1.7", "numpy": "2.3", "pandas": "2.2"}
    found = find_imported(packages, {"sklearn": ["scikit_learn"], "pandas": ["pandas"]}, code)
    assert found == ({"numpy": "2.3", "scikit-learn": "1.7"}, ["lost"])
