"""A fourth study is a page: a plan, one script and the names of arms, in a folder; everything else is there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from models.errors import CatalogueError
from models.offline import study as studies
from models.offline.coding import code
from models.offline.judging import feedback, summary, vision
from models.offline.planning import plan
from models.offline.plotting import figures, plot
from models.offline.reflecting import reflect
from models.offline.writing import write
from models.roles import (
    ArrayBrief,
    FeedbackInputs,
    NodeLine,
    PlotInputs,
    Program,
    ReflectInputs,
    Sibling,
    SummaryInputs,
    VisionInputs,
)
from record.nouns.drafts import Draft
from record.nouns.idea import Idea
from review.evidence.binder import check_draft
from review.figures import lint, refusing
from sandbox.datasets import materialise
from sandbox.executor import LocalExecutor
from sandbox.job import Job, Outcome
from sandbox.settings import SandboxSettings
from tests.models.offline.any_study import Case, Verdict, brief, evidence
from tests.models.offline.final import draw_final

STUDY = '''
name = "feature_dropout"
title = "dropping features of a linear classifier"
keywords = [["feature dropout", "dropping features"], ["linear"]]
grows = "steps"
shrinks = { timeout = "STEPS" }

[plan]
task = "Classify a small table with a linear model that sees a random part of the features at every update."
expected_seconds = 1.0
datasets = [{ name = "wine" }, { name = "iris" }]
metrics = [
    { name = "accuracy", higher_is_better = true },
    { name = "log_loss", title = "log loss", higher_is_better = false },
]
arms = [
    { name = "plain", role = "baseline", description = "all features at every update" },
    { name = "dropped", role = "method", title = "feature dropout", description = "a random part of the features" },
]

[[drafts]]
title = "Logistic regression"
network = "linear"
plan = "A linear model is the simplest that can lean on single features."
faults = ["transposed"]

[[drafts]]
title = "Logistic regression, slowly"
network = "linear"
plan = "The same with a smaller step."
values = { rate = 0.1 }

[draft_defaults]
steps = 200
rate = 0.5

[[faults]]
name = "transposed"
fails_as = "shape"
file = "experiment"
find = "x[:, kept] @ weights[kept]"
replace = "x[:, kept] @ weights"

[[repairs]]
failure = "shape"
pattern = '@ weights(?!\\[)'
replacement = "@ weights[kept]"
says = "The weights of the features that were left out stayed in the product."

[[grid]]
name = "STEPS"
values = [100, 400]

[[agenda]]
name = "longer"
keywords = ["longer"]
title = "Longer training"
plan = "More updates on all datasets."
scale = { STEPS = 2.0 }

[[ablations]]
condition = "without-many-features"
keywords = ["share"]
title = "Fewer features"
plan = "A smaller part of the features is kept."
part = "the share of features that is kept"
action = "replace"
replacement = "a fifth of the features"
arm = "0.2"
'''

EXPERIMENT = '''
"""{{ title }}.

{{ plan }}
"""

import lab
import numpy as np

DATASETS = ["wine"]
STEPS = {{ steps }}
RATE = {{ rate }}
KEPT = 0.5
ARMS = {
    "plain": 1.0,
    "dropped": KEPT,
}


def run(data, arm):
    rng = np.random.default_rng(lab.seed)
    weights, target, losses = np.zeros((data.train.x.shape[1], data.classes)), np.eye(data.classes)[data.train.y], []

    def predict(x, kept):
        logits = x[:, kept] @ weights[kept]
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    everything = np.ones(len(weights), dtype=bool)
    for step in range(STEPS):
        kept = rng.random(len(weights)) < ARMS[arm]
        error = predict(data.train.x, kept) - target
        weights[kept] -= RATE * data.train.x[:, kept].T @ error / len(error)
        if step % 20 == 0:
            loss = [-np.log(predict(part.x, everything)[np.arange(len(part.y)), part.y] + 1e-9).mean()
                    for part in (data.train, data.dev)]
            losses.append([step, *loss])
    for split in ("validation", "test"):
        lab.submit(data.name, split, arm, probabilities=predict(getattr(data, split).x, everything))
    lab.save(f"loss__{data.name}__{arm}", np.array(losses))


for name in DATASETS:
    for arm in ARMS:
        run(lab.data(name), arm)
'''

CASE = Case(Idea.model_validate({
    "Name": "feature_dropout", "Title": "Does dropping features help a linear classifier?",
    "Experiments": ["Train longer."], "Risk Factors and Limitations": ["The share of features matters."]}))
ABLATION = "without-many-features"


@pytest.fixture(autouse=True)
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A catalogue of this study alone."""
    home = tmp_path / "studies" / "feature_dropout"
    home.mkdir(parents=True)
    (home / "study.toml").write_text(STUDY)
    (home / "experiment.py.jinja").write_text(EXPERIMENT)
    monkeypatch.setattr(studies, "STUDIES", home.parent)
    studies.catalogue.cache_clear()
    yield
    studies.catalogue.cache_clear()


def test_it_is_recognised_and_refuses_what_it_does_not_know() -> None:
    assert plan(CASE.plan_inputs()) == CASE.plan
    other = Idea.model_validate({"Name": "x", "Title": "Pests in the field", "Experiments": ["e"]})
    with pytest.raises(CatalogueError, match="knows only: feature_dropout"):
        plan(Case(other).plan_inputs())


def test_its_programs_follow_from_its_page() -> None:
    parent = CASE.sound()
    tuned = code(CASE.code_inputs("tuning", "tune", parent=brief(parent)))
    assert tuned.varies == "STEPS=100" and 'DATASETS = ["wine", "iris"]' in tuned.experiment
    longer = code(CASE.code_inputs("agenda", "improve", item=CASE.idea.experiments[0], parent=brief(parent)))
    assert "STEPS = 400" in longer.experiment
    ablated = code(CASE.code_inputs("ablation", "ablate", item=CASE.idea.risks[0], parent=brief(longer)))
    assert f'ARMS = {{\n    "{ABLATION}": 0.2,\n}}' in ablated.experiment
    again = (Sibling(id="s", kind="tune", varies=tuned.varies, outcome="1"),)
    assert code(CASE.code_inputs("tuning", "tune", parent=brief(parent), siblings=again)).varies == "STEPS=400"
    assert CASE.sound(2).varies == "linear, STEPS=400", "drafts begin again with what grows"


@pytest.mark.parametrize(("wrong", "words"), [
    ('grows = "width"', "so drafts that begin again would not differ"),
    ('agenda_faults = { 1 = "missing" }', "no fault is called 'missing'"),
])
def test_a_page_that_contradicts_itself_is_refused(wrong: str, words: str, tmp_path: Path) -> None:
    page = tmp_path / "studies" / "feature_dropout" / "study.toml"
    page.write_text(wrong + STUDY.replace('grows = "steps"\n' if wrong.startswith("grows") else "\0", ""))
    with pytest.raises(ValueError, match=words):
        plan(CASE.plan_inputs())


@pytest.mark.parametrize("verdict", ["improved", "no measurable difference", "unknown"])
def test_its_paper_is_bound_whatever_the_outcome(verdict: Verdict) -> None:
    inputs = CASE.write_inputs(lambda dataset, metric, condition: (verdict, True), (ABLATION,))
    draft = write(inputs)
    assert [str(one) for one in check_draft(draft, evidence(inputs))] == []
    assert reflect(ReflectInputs(inputs=inputs, draft=draft, pages=4)).done
    assert ("improved" in text_of(draft)) == (verdict == "improved")
    assert [section.title for section in draft.sections] == [
        "Introduction", "Method", "Experimental Setup", "Results", "Ablations", "Limitations and Conclusion"]


def text_of(draft: Draft) -> str:
    return "\n".join((draft.title, draft.abstract, *(section.body for section in draft.sections)))


# --- in kernels -----------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def executor(tmp_path: Path) -> AsyncIterator[LocalExecutor]:
    for name in CASE.names:
        materialise(name, views=tmp_path / "views", labels=tmp_path / "labels", seed=1)
    kernels = LocalExecutor(1, tmp_path / "views", labels=tmp_path / "labels", cache=tmp_path / "cache",
                            settings=SandboxSettings(isolation="auto"))
    yield kernels
    await kernels.close()


def findings(outcome: Outcome) -> list[str]:
    assert outcome.failure is None, outcome.failure
    return [finding for figure in outcome.figures for finding in refusing(lint(figure))]


@pytest.mark.slow
async def test_it_fails_is_mended_measures_and_is_drawn(executor: LocalExecutor, tmp_path: Path) -> None:
    async def run(program: Program, name: str, seed: int = 3) -> Outcome:
        return await executor.run(Job(name=name, folder=tmp_path / name, source={"experiment.py": program.experiment},
                                      seed=seed, timeout=60.0, datasets=CASE.names))

    async def draw(script: str, name: str, inputs: dict[str, Path]) -> Outcome:
        return await executor.run(Job(name=name, folder=tmp_path / name, source={"plots.py": script}, entry="plots.py",
                                      mode="plot", timeout=60.0, inputs=inputs))

    draft = code(CASE.code_inputs())
    failed = await run(draft, "draft")
    assert failed.failure is not None and failed.failure.kind == "shape"
    mended = code(CASE.code_inputs(kind="debug", parent=brief(draft, failed.failure)))
    good = await run(mended, "n1")
    assert {m.condition for m in good.measurements} == {"plain", "dropped"} and len(good.sealed) >= 2
    assert (await run(mended, "n2", 4)).measurements != good.measurements, "the seed decides what is dropped"
    checked = FeedbackInputs(idea=CASE.idea, data_plan=CASE.plan, stage="preliminary", kind="debug", plan="",
                             varies="", experiment="", measurements=good.measurements)
    assert feedback(checked).sound

    inputs = {name: tmp_path / name / "arrays" for name in ("n1", "n2")}
    arrays = tuple(ArrayBrief(path=f"inputs/{name}/{file}", shape=(1,), dtype="float64")
                   for name in inputs for file in good.arrays)
    together = plot(PlotInputs(data_plan=CASE.plan, purpose="aggregate", arrays=arrays, seeds=(3, 4), lab_reference=""))
    final = figures(CASE.figures_inputs(arrays, (ABLATION,)))
    assert [one.name for one in final.figures] == ["primary-by-level", "training-curves", "ablation"]
    drawn = await draw(together.plots, "aggregate", inputs)
    assert drawn.figures and findings(drawn) == []
    reviews = vision(VisionInputs(
        data_plan=CASE.plan, plan="", names=tuple(one.name for one in drawn.figures),
        facts=tuple(one.facts for one in drawn.figures),
        lint=tuple(refusing(lint(one)) for one in drawn.figures))).reviews
    assert all(review.readable for review in reviews)
    await draw_final(executor, tmp_path / "paper", final, inputs=inputs, statistics=CASE.statistics((ABLATION,)))
    line = NodeLine(id="n1", kind="debug", varies=mended.varies, status="good", outcome="accuracy")
    told = summary(SummaryInputs(idea=CASE.idea, data_plan=CASE.plan, stage="preliminary", ended="it worked",
                                 nodes=(line,), best="n1", statistics=CASE.statistics()))
    assert "wine: 0.220 against 0.200" in told.held
