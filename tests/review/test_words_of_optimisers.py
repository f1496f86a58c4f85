"""Sentences of a real run's writer that were refused though they were right, and near ones that are wrong.

The run compared optimisers over amplitudes; the names of its ablations begin like that of its method.
"""

from __future__ import annotations

import pytest

from models.roles.writing import Comparison
from record.claims.differences import Called
from record.nouns.data import Arm, DataPlan, DatasetUse, Level, MetricSpec
from record.nouns.papers import Draft, Section
from review.evidence import Evidence, check_draft

PLAN = DataPlan(
    task="classify", expected_seconds=1, datasets=(DatasetUse(name="fashion"), DatasetUse(name="digits")),
    metrics=(MetricSpec(name="accuracy", title="accuracy", higher_is_better=True),
             MetricSpec(name="log_loss", title="log loss", higher_is_better=False)),
    arms=(Arm(name="sgd", title="momentum SGD", role="baseline"), Arm(name="adam", title="Adam", role="method"),
          Arm(name="adam-rotated", title="Adam, rotated inputs", role="ablation"),
          Arm(name="adam-shared", title="Adam with a shared second moment", role="ablation")),
    levels=tuple(Level(name=f"a{value:g}", value=value) for value in (0, 0.03, 0.1, 0.3)), factor="shortcut amplitude")


def _compared(place: str, arm: str, other: str, level: str, called: Called) -> Comparison:
    dataset, metric = place.split("/")
    better, worse = (other, arm) if called == "worsened" else (arm, other)
    return Comparison(
        key=f"diff/{place}/{arm}@{level}~{other}@{level}", dataset=dataset, metric=metric, better=f"{better}@{level}",
        worse=f"{worse}@{level}", verdict=called, n=10, condition=f"{arm}@{level}")


def _ledger() -> tuple[Comparison, ...]:
    same: Called = "no measurable difference"
    found: list[Comparison] = []
    for level in ("a0", "a0.03", "a0.1", "a0.3"):
        large = level in ("a0.1", "a0.3")
        found.append(_compared("fashion/accuracy", "adam", "sgd", level, "worsened" if large else same))
        found += [_compared(place, "adam", "sgd", level, same)
                  for place in ("fashion/log_loss", "digits/accuracy", "digits/log_loss")]
        found.append(_compared("fashion/accuracy", "adam-rotated", "adam", level, "improved" if large else same))
        found.append(_compared("fashion/accuracy", "adam-shared", "adam", level, same))
    return tuple(found)


EVIDENCE = Evidence(results={}, plan=PLAN, comparisons=_ledger(), names=("fashion", "digits", "Adam", "a0.1", "a0.3"))


def refusals(text: str) -> list[str]:
    draft = Draft(title="A Title", abstract="Short.", sections=(Section(title="Body", body=text),))
    return [str(one) for one in check_draft(draft, EVIDENCE)]


@pytest.mark.parametrize("text", [
    "Accuracy is reported first. On fashion Adam was measurably worse than SGD at a0.1 and a0.3.",
    "The accuracy comes first and the log loss second. On fashion Adam was measurably worse than SGD at a0.1 and a0.3.",
    "Tables give accuracy and log loss. On fashion Adam was measurably worse than SGD at a0.1 and a0.3.",
    "Accuracy is first.\n\nOn fashion Adam was measurably worse than SGD at a0.1 and a0.3, in accuracy.",
    "On fashion Adam was measurably worse than momentum SGD at the larger amplitudes.",
    "The log loss is in the appendix. On fashion Adam was measurably worse than momentum SGD at the larger amplitudes.",
    "We define the excess drop as the drop in accuracy of Adam minus the drop of SGD.",
    "The drop $D(o, a)$ is the accuracy of optimiser $o$ without the mark minus that with it.",
    "Let $D(o,a) = \\mathrm{acc}(o,0) - \\mathrm{acc}(o,a)$ be the drop in accuracy.",
    "On digits differences in accuracy below the detection limit could not have been seen.",
    "A difference in accuracy smaller than the detection limit would have been missed on digits.",
    "On digits no difference in accuracy is measurable; differences below this limit are open.",
    "Adam on rotated inputs was better than Adam on fashion at a0.1 in accuracy.",
    "With rotated inputs, Adam on rotated inputs improved on Adam in accuracy on fashion at a0.3.",
    "Adam with a shared second moment made no measurable difference in accuracy on fashion.",
    "Overfitting hurts calibration when labels are noisy.",
    "Noisy labels hurt accuracy.",
    "Overfitting hurts accuracy when labels are noisy.",
    "Large learning rates often harm the log loss of small networks.",
    "Deep networks are hurt by label noise.",
])
def test_what_is_right_or_general_passes(text: str) -> None:
    assert refusals(text) == []


@pytest.mark.parametrize("text", [
    "On fashion Adam was measurably worse than SGD at a0.03.",
    "Accuracy is reported. On digits Adam was measurably worse than SGD at a0.1.",
    "On digits Adam was measurably worse than SGD at the larger amplitudes.",
    "On fashion Adam was measurably worse than SGD at the smaller amplitudes.",
    "In log loss, Adam was measurably worse than SGD on fashion at a0.1.",
    "The accuracy of Adam drops measurably on digits against SGD.",
    "Adam with a shared second moment improved on Adam in accuracy on fashion.",
    "Adam improves accuracy.",
    "The optimiser hurts accuracy on fashion at a0.03.",
    "It hurts accuracy on digits.", "The accuracy improves consistently on digits.",
    "Our optimiser improves accuracy.", "Adam on rotated inputs was worse than Adam on fashion at a0.1 in accuracy.",
])
def test_what_the_ledger_contradicts_is_refused(text: str) -> None:
    assert "[claim]" in " ".join(refusals(text))
