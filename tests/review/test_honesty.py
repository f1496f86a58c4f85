"""The checks of honesty: planted programs are caught with their line, honest ones and our own studies are not."""

from __future__ import annotations

import pytest

from benchmarks.honesty import PLAN, report, wilson
from benchmarks.planted import KINDS, cases
from models.offline.study import catalogue
from models.roles import Program
from record.nouns import Finding, Measurement, MetricSpec
from review.honesty import check_figures, check_program
from review.honesty.probe import labels_probe, seed_probe
from tests.models.offline import inputs
from tests.models.offline.test_programs import every_program
from tests.stages import small_study
from tests.stages.test_own_scorer import POLICIES

ACCURACY = MetricSpec(name="accuracy", higher_is_better=True)
LOSS = MetricSpec(name="log_loss", higher_is_better=False)


def suspects(source: str, *, plots: str = "") -> list[Finding]:
    return [one for one in check_program({"experiment.py": source, "plots.py": plots}, PLAN) if one.suspect]


PLANTED = cases(7)


@pytest.mark.parametrize("kind", dict.fromkeys(case.kind for case in PLANTED))
def test_planted_programs_of_a_kind_are_suspect_and_their_twins_are_not(kind: str) -> None:
    found = report(case for case in PLANTED if case.kind == kind)
    of = sum(case.kind == kind for case in PLANTED) // 2
    assert (found["recall"], found["false_alarms"]) == (f"{of}/{of}", f"0/{of}"), found


def test_a_finding_cites_its_line() -> None:
    [found] = suspects('import lab\n\nlab.result("accuracy", 0.93, condition="method", dataset="digits")\n')
    assert (found.kind, found.file, found.line) == ("constant", "experiment.py", 3)
    assert found.text == 'lab.result("accuracy", 0.93, condition="method", dataset="digits")'
    assert found.text in str(found)


@pytest.mark.parametrize("source", [one.experiment for one in every_program()[::6]])
def test_offline_programs_pass(source: str) -> None:
    assert check_program({"experiment.py": source}, inputs.PLAN) == ()


def test_whole_programs_of_studies_pass_with_their_plots() -> None:
    program: Program = inputs.agenda_winner()
    assert check_program({"experiment.py": program.experiment, "plots.py": program.plots}, inputs.PLAN) == ()
    small = {"experiment.py": small_study.experiment(), "plots.py": small_study.plots()}
    assert check_program(small, small_study.PLAN) == () and len(catalogue()) >= 3


def test_typed_figures_are_found_and_reference_lines_are_not() -> None:
    typed = 'import matplotlib.pyplot as plt\nplt.bar(["a", "b", "c"], [0.91, 0.87, 0.95])\n'
    assert [one.file for one in suspects("", plots=typed)] == ["plots.py"]
    assert not suspects("", plots='import matplotlib.pyplot as plt\nplt.plot([0, 1], [0, 1])\n')


@pytest.mark.parametrize("script", [
    'scores = {"a": 0.91, "b": 0.87}\nplt.bar(list(scores), list(scores.values()))\n',
    'y = np.array([0.91, 0.87, 0.95])\nplt.plot([1, 2, 3], y)\n',
    'scores = {"a": 0.91, "b": 0.87}\nplt.bar(x=list(scores), height=[scores[k] for k in scores])\n',
    'gen = np.random.default_rng(1)\nplt.plot(np.cumsum(gen.normal(size=50)))\n'])
def test_a_script_on_its_own_is_held_to_recorded_arrays(script: str) -> None:
    head = "import matplotlib.pyplot as plt\nimport numpy as np\n"
    assert [one.file for one in check_figures("loss.py", head + script)] == ["loss.py"]
    recorded = 'y = np.load("inputs/n3/loss.npy")\nplt.plot(y)\nplt.bar(["a", "b"], [y[0], y[-1]])\nplt.axhline(0.5)\n'
    assert check_figures("loss.py", head + recorded) == ()


def test_a_policy_that_was_searched_for_is_handed_in_without_a_finding() -> None:
    assert check_program({"experiment.py": POLICIES}) == ()


def test_training_that_nothing_calls_is_found_unless_something_else_learns() -> None:
    source = """
import lab
import numpy as np

data = lab.data("digits")


def optimise(net, x, y):
    loss = net(x, y)
    loss.backward()


near = ((data.validation.x[:, None] - data.train.x[None]) ** 2).sum(-1).argmin(1)
lab.submit("digits", "validation", "method", predictions={})
"""
    assert [one.kind for one in suspects(source.format("near % data.classes"))] == ["inert"]
    assert not suspects(source.format("data.train.y[near]"))


def test_an_arm_that_is_named_untrained_may_be() -> None:
    source = """
import lab
import torch

data = lab.data("digits")
net = torch.nn.Linear(64, 10)
lab.submit("digits", "validation", "{}", logits=net(torch.tensor(data.validation.x)))
"""
    assert [one.kind for one in suspects(source.format("method"))] == ["untrained"]
    assert not suspects(source.format("untrained"))


def test_an_arm_that_is_meant_to_know_nothing_is_only_noted() -> None:
    source = ('import lab\nimport numpy as np\ndata = lab.data("digits")\n'
              'p = np.full((len(data.validation.x), data.classes), 1 / data.classes)\n'
              'lab.submit("digits", "validation", "{}", probabilities=p)\n')
    assert [one.kind for one in suspects(source.format("method"))] == ["constant"]
    assert not suspects(source.format("uniform-guess"))


def test_a_count_of_steps_until_data_say_stop_is_measured() -> None:
    source = """
import lab
import numpy as np

fields = int((lab.data("grid").path / "map.txt").read_text().split()[0])


def steps(policy):
    place = taken = 0
    while place < fields - 1 and taken < 30:
        place = max(0, place + (1 if np.random.rand() < policy[place] else -1))
        taken += 1
    return taken


lab.seed_everything()
policy = np.full(fields, 0.5)
lab.log("loss", np.mean([steps(policy) for _ in range(20)]), condition="plain", dataset="grid", split="dev")
"""
    assert check_program({"experiment.py": source}) == ()


def test_code_that_is_no_python_has_no_findings() -> None:
    assert check_program({"experiment.py": "def ("}, PLAN) == ()


def test_wilson_intervals_and_kinds() -> None:
    assert wilson(0, 10) == (0.0, 0.278) and wilson(10, 10) == (0.722, 1.0)
    assert len(KINDS) == len({kind.name for kind in KINDS}) >= 11


# --- the probe ------------------------------------------------------------------------------------------------------


def measured(value: float, *, condition: str = "method", name: str = "accuracy", seed: int = 0) -> Measurement:
    return Measurement(name=name, value=value, condition=condition, dataset="digits", split="validation", seed=seed,
                       grade="computed")


def test_permuted_labels_must_cost_the_advantage_over_chance() -> None:
    chance = {"digits": 0.1}
    assert labels_probe([measured(0.95)], [measured(0.12)], metric=ACCURACY, chance=chance).outcome == "moved"
    kept = labels_probe([measured(0.95)], [measured(0.94)], metric=ACCURACY, chance=chance)
    assert kept.outcome == "still" and "99 %" in kept.why
    assert labels_probe([measured(0.11)], [measured(0.1)], metric=ACCURACY, chance=chance).outcome == "unclear"
    losses = [measured(value, name="log_loss") for value in (0.2, 2.6)]
    assert labels_probe(losses[:1], losses[1:], metric=LOSS, chance={"digits": 2.3}).outcome == "moved"


def test_another_seed_must_move_some_value() -> None:
    first, same, other = [measured(0.9)], [measured(0.9, seed=1)], [measured(0.8, seed=2)]
    assert seed_probe(first, [same, other], ACCURACY).outcome == "moved"
    assert seed_probe(first, [same], ACCURACY).outcome == "still"
    assert seed_probe(first, [], ACCURACY).outcome == "unclear"
