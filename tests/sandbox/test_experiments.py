"""Full experiments and plots in real kernels: measurements, sealed predictions, figures, and attempts at forgery."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.record.schema.data_plan import Measurement
from labwright.review.figures import lint_figure
from labwright.sandbox.exec_file import run_file
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Job
from labwright.sandbox.scoring import score_sealed
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import run_job
from tests.sandbox.conftest import DatasetStore, KernelBench

pytestmark = pytest.mark.slow

SOFTMAX = """
import numpy as np
import lab

EPOCHS = 40
lab.seed_everything()
data = lab.data("digits")


def probabilities(x, weights):
    scores = x @ weights
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


curve = []
weights = np.random.normal(0, 0.01, size=(data.train.x.shape[1], data.classes))
for epoch in range(EPOCHS):
    gradient = data.train.x.T @ (probabilities(data.train.x, weights) - np.eye(data.classes)[data.train.y])
    weights -= 0.5 * gradient / len(data.train.x)
    right = probabilities(data.dev.x, weights)[np.arange(len(data.dev.y)), data.dev.y]
    curve.append(-np.log(right).mean())
    lab.log("log_loss", curve[-1], step=epoch, condition="baseline", dataset="digits", split="dev")
for split in ("validation", "test"):
    x = getattr(data, split).x
    lab.submit("digits", split, "baseline", probabilities=probabilities(x, weights))
    lab.submit("digits", split, "method", predictions=probabilities(x, weights).argmax(axis=1))
lab.result("parameters", weights.size, condition="baseline", dataset="digits")
lab.save("dev_loss", np.array(curve))
print(f"seed {lab.seed}")
"""
PLOTS = """
import matplotlib.pyplot as plt
import numpy as np

loss = np.load("arrays/dev_loss.npy")
figure, axes = plt.subplots()
axes.plot(loss, label="baseline")
axes.set(xlabel="epoch", ylabel="log loss on dev")
figure.savefig("figures/loss.png")
figure.savefig("figures/loss.pdf")
plt.figure()
plt.plot(loss)
plt.plot(loss[::-1])
plt.savefig("figures/bad")
"""


def finals(values: tuple[Measurement, ...]) -> dict[tuple[str, str], tuple[float, str]]:
    return {(one.condition, one.name): (one.value, one.grade) for one in values}


@pytest.mark.slow
async def test_from_an_experiment_to_its_figures(bench: KernelBench, store: DatasetStore) -> None:
    outcome = await bench.run(SOFTMAX, seed=11)
    assert outcome.failure is None
    assert outcome.stdout_tail == "seed 11\n"
    found = finals(outcome.measurements)
    assert set(found) == {
        ("baseline", name) for name in ("accuracy", "macro_f1", "auroc", "log_loss", "ece", "brier", "parameters")
    } | {("method", "accuracy"), ("method", "macro_f1")}
    assert found["baseline", "accuracy"][0] > 0.9
    assert found["baseline", "accuracy"] == found["method", "accuracy"]
    assert {key: grade for key, (_, grade) in found.items() if grade != "computed"} == {
        ("baseline", "parameters"): "logged"
    }
    assert {one.split for one in outcome.measurements} == {"validation"}
    check_the_curves(bench, outcome.curves_sha256)
    assert set(outcome.arrays) == {"dev_loss.npy"}
    assert len(outcome.sealed) == 3 and "index.jsonl" in outcome.sealed
    tests = score_sealed(bench.folder, store.labels, seed=11, expected=outcome.sealed)
    assert finals(tests)["baseline", "accuracy"][0] > 0.85
    assert {one.split for one in tests} == {"test"}
    await check_the_figures(bench, outcome.arrays)


def check_the_curves(bench: KernelBench, digest: str | None) -> None:
    content = (bench.folder / "measurements.jsonl").read_bytes()
    assert hashlib.sha256(content).hexdigest() == digest
    values = [Measurement.model_validate_json(line) for line in content.splitlines()]
    assert sorted(one.step for one in values if one.step is not None) == list(range(40))
    assert {one.seed for one in values} == {11}
    assert "test" not in {one.split for one in values}


async def check_the_figures(bench: KernelBench, arrays: dict[str, str]) -> None:
    inputs: dict[str, tuple[Path, ...]] = {"arrays": (bench.folder / "arrays",)}
    plotting = replace(bench, folder=bench.folder.with_name("plots"))
    drawn = await plotting.plot(PLOTS, inputs)
    assert drawn.failure is None and drawn.measurements == ()
    assert drawn.arrays == arrays
    assert [figure.name for figure in drawn.figures] == ["bad.png", "loss.pdf", "loss.png"]
    bad, pdf, png = drawn.figures
    assert [(one.kind, one.severity) for one in lint_figure(bad)] == [
        ("label", "refuse"),
        ("label", "refuse"),
        ("legend", "refuse"),
    ]
    assert lint_figure(png) == lint_figure(pdf) == ()
    assert (png.facts.width_inches, png.facts.axes[0].series) == (6.4, 1)
    again = await plotting.plot(PLOTS.replace("figures/bad", "figures/second"), inputs)
    assert [figure.name for figure in again.figures] == ["loss.pdf", "loss.png", "second.png"]
    assert again.figures[:2] == drawn.figures[1:]


@pytest.mark.slow
async def test_torch_is_seeded_held_to_its_threads_and_may_be_told_to_refuse_what_may_differ(tmp_path: Path) -> None:
    code = (
        "import lab, os\nimport torch\nprint(torch.are_deterministic_algorithms_enabled(), "
        "os.environ['CUBLAS_WORKSPACE_CONFIG'], torch.get_num_threads())\n"
        "lab.seed_everything()\nfirst = torch.rand(1).item()\nlab.seed_everything()\n"
        "print(first == torch.rand(1).item())\n"
    )
    executor = LocalExecutor(
        1,
        tmp_path / "views",
        labels=tmp_path / "labels",
        cache=tmp_path / "cache",
        settings=SandboxSettings(isolation="none", deterministic=True),
    )
    try:
        ran = await run_job(
            executor, Job(name="a", folder=tmp_path / "a", source={"experiment.py": code}, timeout=60.0)
        )
    finally:
        await executor.close()
    assert ran.stdout_tail.split() == ["True", ":4096:8", "1", "True"]


@pytest.mark.slow
async def test_scikit_learns_labels_are_not_handed_out(bench: KernelBench) -> None:
    outcome = await bench.run("from sklearn.datasets import load_digits\nload_digits()\n")
    assert outcome.failure is not None
    assert "use lab.data('digits')" in outcome.failure.message


async def test_one_file_runs_as_a_node_would(tmp_path: Path) -> None:
    (tmp_path / "exp.py").write_text(
        "import lab\nimport net\nd = lab.data('wine')\n"
        "lab.submit('wine', 'validation', 'a', probabilities=net.guess(d))\n"
    )
    (tmp_path / "net.py").write_text(
        "import numpy as np\ndef guess(d):\n    return np.full((len(d.validation.x), d.classes), 1 / d.classes)\n"
    )
    before = sorted(tmp_path.iterdir())
    outcome = await run_file(tmp_path / "exp.py", timeout=30.0, seed=2)
    assert outcome.failure is None
    assert {(one.dataset, one.seed) for one in outcome.measurements} == {("wine", 2)}
    assert sorted(tmp_path.iterdir()) == before


async def test_forged_artifacts_have_the_limit_of_submitted_ones(bench: KernelBench) -> None:
    outcome = await bench.run("""
import json, os

os.mkdir("submissions")
with open("submissions.jsonl", "w") as index:
    for number in range(3):
        with open(f"submissions/{number}.bin", "wb") as file:
            file.truncate(10**9)
        line = {"file": f"{number}.bin", "dataset": "digits", "split": "test", "condition": f"c{number}"}
        index.write(json.dumps({**line, "kind": "artifact"}) + "\\n")
""")
    assert outcome.failure is not None and "the submitted artifacts exceed" in outcome.failure.message
