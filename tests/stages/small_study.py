"""A small study for whole runs in tests: numpy only, one dataset, answered by a scripted model.

It is deterministic, makes one mistake that a debug child mends, draws one figure that a replot mends, and covers every
role. Nothing of it is a mock: kernels, record, scoring and TeX are the real ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import BaseModel

from labwright.models.offline.judgements import answer_claim_reader, answer_setup_reader
from labwright.models.offline.researcher import ANSWER_FUNCTIONS
from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.figures import (
    FigurePart,
    FigureReviewInputs,
    FigureReviews,
    FigureScript,
    FiguresInputs,
    PaperFigureReviews,
    PlotInputs,
    Plots,
    VisionInputs,
)
from labwright.models.roles.judge import JUDGE, Influence, JudgeAnswer, JudgeInputs
from labwright.models.roles.node_assessment import FeedbackInputs, StageReport, SummaryInputs
from labwright.models.roles.paper_revision import CiteQueries, CopyEdits, ReflectInputs, Reflection, TextEdit
from labwright.models.roles.paper_writing import (
    ClaimLine,
    OutlineInputs,
    PaperOutline,
    PlannedAbstract,
    PlannedSection,
    SectionInputs,
    Sections,
)
from labwright.models.roles.study_plan import (
    AblationPlan,
    AblationPlanInputs,
    MissingAblationsAnswer,
    MissingAblationsInputs,
    PlanInputs,
    ProtocolReview,
    RiskTested,
)
from labwright.record.baseline_check import Ablation
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, MetricSpec
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import NodeVerdict
from labwright.record.schema.paper import FigureAspectReview, FigureReview, PaperFigureReview, Section
from tests.hypotheses import make_hypotheses
from tests.programs import program_files

IDEA = Idea.model_validate(
    {
        "Name": "shrinkage",
        "Title": "Shrinking class means",
        "Short Hypothesis": "Shrinkage helps nearest means.",
        "Experiments": ["Compare plain and shrunken class means"],
        "Risk Factors and Limitations": ["Few classes"],
    }
)

PLAN = DataPlan(
    task="classify",
    datasets=(DatasetUse(name="iris"),),
    expected_seconds=1,
    metrics=(
        MetricSpec(name="log_loss", title="log loss", higher_is_better=False),
        MetricSpec(name="accuracy", higher_is_better=True),
    ),
    arms=(Arm(name="plain", role="baseline", untuned="it counts"), Arm(name="shrunk", role="method", untuned="fixed")),
    hypotheses=make_hypotheses("shrunk", "plain", higher=False),
    open=("the shape of the classes",),
)

# It holds what a record must outlive: a constant that is not finite, text that UTF-8 cannot hold.
EXPERIMENT = """\
import numpy as np
import lab

SHRINKAGE = {shrinkage}
CONDITIONS = {conditions}
PATIENCE = 1e999
UNPAIRED = "\\udcff"

lab.seed_everything()
data = lab.data("iris")
rng = np.random.default_rng(lab.seed)
rows = rng.choice(len(data.train.x), size=len(data.train.x) * 3 // 4, replace=False)
x, y = data.train.x[rows], data.train.y[rows]
{mistake}
grand = x.mean(0)
curve = []
for condition in CONDITIONS.split():
    weight = SHRINKAGE if condition == "shrunk" else 0.0
    means = np.stack([(1 - weight) * x[y == c].mean(0) + weight * grand for c in range(data.classes)])

    def probabilities(points):
        logits = -((points[:, None] - means[None]) ** 2).sum(-1)
        logits = logits - logits.max(1, keepdims=True)
        p = np.exp(logits)
        return p / p.sum(1, keepdims=True)

    for step in range(6):
        loss = float(-np.log(probabilities(data.dev.x)[np.arange(len(data.dev.y)), data.dev.y] + 1e-9).mean())
        lab.log("loss", loss, step=step, condition=condition, dataset="iris", split="dev")
    curve.append(loss)
    lab.result("weight", weight, condition=condition, dataset="iris", split="dev")
    for split in ("validation", "test"):
        lab.submit("iris", split, condition, probabilities=probabilities(getattr(data, split).x))
lab.save("loss", np.array(curve))
print("done", UNPAIRED)
"""

PLOTS = """\
import glob
import json
import re
import matplotlib.pyplot as plt
import numpy as np

paths = sorted(glob.glob("arrays/loss.npy") + glob.glob("inputs/*/loss.npy"))
figure, axes = plt.subplots(figsize=(4, 3), layout="constrained")
for k, path in enumerate(paths):
    axes.plot(np.load(path), marker="os^vDPX"[k % 7], label=path.split("/")[-2])
axes.set_ylabel("dev loss")
{label}
axes.legend()
if glob.glob("scores.json"):
    print("scored", len(json.load(open("scores.json"))))
{save}
for path in glob.glob("figures/*.facts.json"):
    facts = open(path).read()
    open(path, "w").write(re.sub('"smallest_font": [^,]*', '"smallest_font": NaN', facts))
"""

LABELLED = 'axes.set_xlabel("arm")'


def plots_code(*, label: str = LABELLED, save: str = 'figure.savefig("figures/loss.png")') -> str:
    return PLOTS.format(label=label, save=save)


def experiment_code(*, shrinkage: float = 0.2, conditions: str = "plain shrunk", mistake: str = "") -> str:
    return EXPERIMENT.format(shrinkage=shrinkage, conditions=repr(conditions), mistake=mistake)


def make_small_model(*missing: str, **others: Callable[[Any], BaseModel]) -> ScriptedModel:
    """The model that carries the study. `missing` are the ablations that a reviewer of the draft asks for, by name;
    `others` answer some roles in another way."""

    def missed(_: MissingAblationsInputs) -> MissingAblationsAnswer:
        return MissingAblationsAnswer(
            ablations=tuple(make_ablation(name) for name in missing), why="The claims need no other."
        )

    answers: dict[str, Callable[[Any], BaseModel]] = {
        "ablation_plan": _answer_ablation_plan,
        "missing_ablations": missed,
        "cite_ask": lambda _: CiteQueries(),
        "prior_search": ANSWER_FUNCTIONS["prior_search"],
        "protocol_review": lambda _: ProtocolReview(),
        "plan": _answer_plan,
        "code": _answer_code,
        "plot": _answer_plot,
        "vision": _answer_vision,
        "feedback": _answer_feedback,
        "summary": _answer_summary,
        "figures": answer_figures,
        "outline": _answer_outline,
        "write": _answer_write,
        "reflect": _answer_reflect,
        "judge": _answer_judge,
        "influence": lambda _: Influence(),
        "figure_review": _answer_figure_review,
        "claim_reader": answer_claim_reader,
        "second_claim_reader": answer_claim_reader,
        "setup_reader": answer_setup_reader,
        "copy_edit": lambda _: CopyEdits(),
        "code_reader": ANSWER_FUNCTIONS["code_reader"],
    }
    return ScriptedModel.from_role_functions(**answers | others)


def make_ablation(name: str) -> Ablation:
    """An ablation of the study by its arm."""
    return Ablation(name=name, part=f"what {name} lacks", action="remove", metrics=("log_loss",), why="It may do all.")


def write_ablation_program(name: str) -> Program:
    """The program that measures an ablation by its arm."""
    return Program(
        title=name,
        plan="nearest class means",
        varies=name,
        arms=(name,),
        files=program_files(experiment_code(shrinkage=0.0, conditions=name), plots_code()),
    )


def _answer_ablation_plan(_: AblationPlanInputs) -> AblationPlan:
    return AblationPlan(
        ablations=(make_ablation("without-shrinkage"),),
        risks=(RiskTested(risk=1, reason="the data plan has one dataset"),),
    )


def _answer_plan(_: PlanInputs) -> DataPlan:
    return PLAN


def _answer_code(inputs: CodeInputs) -> Program:
    varies, source, drawn = f"draft {inputs.ordinal}", experiment_code(), plots_code()
    if inputs.kind == "draft" and inputs.ordinal == 0:
        source = experiment_code(mistake="x = x[:, :2] @ np.zeros((3, 4))")
    elif inputs.kind == "draft":
        drawn = plots_code(label="")
    elif inputs.kind == "debug":
        assert inputs.parent is not None and inputs.parent.node.failure is not None
        assert inputs.parent.node.failure.kind == "other", inputs.parent.node.failure
        varies = "what was wrong"
    elif inputs.kind == "improve":
        shrinkage = (0.1, 0.3, 0.05)[inputs.ordinal % 3]
        varies, source = f"SHRINKAGE={shrinkage}", experiment_code(shrinkage=shrinkage)
    elif inputs.kind == "ablate":
        return write_ablation_program(inputs.ablation.name if inputs.ablation is not None else "without-shrinkage")
    return Program(title=varies, plan="nearest class means", varies=varies, files=program_files(source, drawn))


def _answer_plot(inputs: PlotInputs) -> Plots:
    assert inputs.arrays and (inputs.purpose == "aggregate" or any("label" in line for line in inputs.complaints))
    return Plots(plots=plots_code())


def _answer_vision(inputs: VisionInputs) -> FigureReviews:
    return FigureReviews(
        reviews=tuple(FigureReview(name=name, readable=True, description="losses") for name in inputs.names)
    )


def _answer_feedback(inputs: FeedbackInputs) -> NodeVerdict:
    return NodeVerdict(sound=bool(inputs.node.measurements), analysis="It measured what it planned.")


def _answer_summary(_: SummaryInputs) -> StageReport:
    return StageReport(tried="class means", found="they work")


def answer_figures(inputs: FiguresInputs) -> FigureScript:
    assert inputs.statistics and inputs.arrays
    return FigureScript(
        script=plots_code(save="import figure_style"),
        figures=(FigurePart(name="loss", description="dev loss by arm", code='figure_style.save(figure, "loss")'),),
    )


def _answer_figure_review(inputs: FigureReviewInputs) -> PaperFigureReviews:
    fine = FigureAspectReview(ok=True)
    return PaperFigureReviews(
        reviews=tuple(
            PaperFigureReview(
                name=one.name, image=fine, caption=fine, references=FigureAspectReview(ok=bool(one.mentions))
            )
            for one in inputs.figures
        )
    )


def _answer_outline(inputs: OutlineInputs) -> PaperOutline:
    """Two sections, the second of which has all that there is."""
    record = inputs.inputs
    told = tuple(one.id for one in record.statements)
    first = tuple(one.id for one in record.statements if one.abstract)
    return PaperOutline(
        title="Shrinking class means",
        abstract=PlannedAbstract(claim="Whether it helps.", tells=first),
        sections=(
            PlannedSection(title="Method", claim="What was done.", keys=(_setup_weight(record.setups),), share=0.3),
            PlannedSection(
                title="Results",
                claim="What came of it.",
                tables=record.tables,
                figures=("loss",),
                tells=told,
                share=0.7,
                keys=tuple(line.key for line in record.results if line.key.endswith(".pm"))[:4],
            ),
        ),
    )


def _setup_weight(setups: Iterable[ClaimLine]) -> str:
    return next((one.key for one in setups if "shrinkage" in one.key.lower()), "code.SHRINKAGE")


def _answer_write(inputs: SectionInputs) -> Sections:
    """A first draft with a typed number, which the binder must refuse and the reflector mend."""
    keys = [line.key for line in inputs.results if line.key.endswith(".pm")]
    values = ", ".join(rf"\result{{{key}}}" for key in itertools.islice(keys, 4))
    tables = "\n\n".join(rf"\papertable{{{name}}}" for name in inputs.tables)
    weight = _setup_weight(inputs.setups)
    return Sections(
        abstract="We measure whether shrinkage helps. It gains 12.5 points." if inputs.abstract else "",
        sections=tuple(
            one
            for one in (
                Section(title="Method", body=rf"The weight is \setup{{{weight}}}."),
                Section(
                    title="Results",
                    body=(
                        f"The values are {values}. See Table~\\ref{{tab:main}} and Figure~\\ref{{fig:loss}}.\n\n"
                        f"{tables}\n\n\\paperfigure{{loss}}"
                    ),
                ),
            )
            if one.title in inputs.asked
        ),
        captions={"loss": "Loss on the dev part by arm, one line a replicate."},
    )


def _answer_judge(inputs: JudgeInputs) -> JudgeAnswer:
    """Scores of five, with one quote that stands in the paper and one that does not."""
    quote = "We measure whether shrinkage helps."
    scores = {one.name: {"score": 5, "reason": "fair", "quote": quote} for one in inputs.rubric.dimensions}
    scores["novelty"] = {**scores["novelty"], "quote": "nobody has ever shrunk a mean before"}
    return JUDGE.get_output_type(inputs).model_validate(
        {
            "scores": scores,
            "confidence": 3,
            "strengths": ["It is short."],
            "weaknesses": ["It is small."],
            "text_alone": {"reason": "It is short.", "score": 6},
            "results": {"details": "The record says so.", "quote": quote, "answer": "measured"},
        }
    )


def _answer_reflect(inputs: ReflectInputs) -> Reflection:
    if not inputs.violations:
        return Reflection(done=True)
    assert any("12.5" in violation for violation in inputs.violations)
    return Reflection(done=False, edits=(TextEdit(section="abstract", old=" It gains 12.5 points.", new=""),))
