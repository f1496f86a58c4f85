"""The small study as a grid of cells: three arms, one of which reads another's artifacts, at two levels.

Its first draft has a cell that raises, at one level, which a debug child mends; other nodes change the file of one arm.
All arms have one hyperparameter in common, and one has another; both are tuned. What cells have in common is built once
(`lab.shared`). Nothing of it is a mock, as in the small study.
"""

from __future__ import annotations

from labwright.models.replay import ScriptedModel
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.figures import FigureScript, FiguresInputs, PlotInputs, Plots
from labwright.record.schema.data_plan import Arm, Hyperparameter, Level, TuningPlan
from tests.hypotheses import make_hypotheses
from tests.programs import whole_files
from tests.stages import small_study

PLAN = small_study.PLAN.model_copy(
    update={
        "hypotheses": make_hypotheses("shrunk", "plain", higher=False, level="low"),
        "factor": "noise",
        "levels": tuple(Level(name=name) for name in ("low", "high")),
        "arms": tuple(
            Arm(name=name, role="baseline" if name == "plain" else "method") for name in ("plain", "shrunk", "moved")
        ),
        "space": (
            Hyperparameter(name="sharpness", kind="log", low=0.1, high=10, default=1, source="plain means"),
            Hyperparameter(
                name="shrinkage",
                kind="linear",
                low=0,
                high=0.9,
                closed=True,
                default=0.2,
                source="common practice",
                arms=("shrunk",),
            ),
        ),
        "tuning": TuningPlan(budget=5),
    }
)

ENTRY = """\
import importlib
import time
import numpy as np
import lab

NOISE = {"low": 0.1, "high": 0.5}


def run(cell):
    data = lab.data(cell.dataset)
    seed, dataset = cell.seed, cell.dataset
    rows = lab.shared(f"rows of {dataset} with {seed}", lambda: np.random.permutation(len(data.train.x))[:80])
    x, y = data.train.x[rows], data.train.y[rows]
    x = x + NOISE[cell.level] * np.random.standard_normal(x.shape)
    means = np.stack([x[y == c].mean(0) for c in range(data.classes)])
    means = importlib.import_module("arms." + cell.arm.replace("-", "_")).changed(means, cell)
    lab.save_artifact("means", means)

    def probabilities(points, sharpness=cell.setting["sharpness"]):
        logits = -sharpness * ((points[:, None] - means[None]) ** 2).sum(-1)
        p = np.exp(logits - logits.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True)

    losses = []
    for step in range(4):
        time.sleep(0.06)
        right = probabilities(data.dev.x, (step + 1) / 4)[np.arange(len(data.dev.y)), data.dev.y]
        losses.append(float(-np.log(right + 1e-9).mean()))
        lab.log("loss", losses[-1], step=step, split="dev")
    for split in ("validation", "test"):
        lab.submit(split=split, probabilities=probabilities(getattr(data, split).x))
    lab.save("loss", np.array(losses))


lab.measure(run, reads={"moved": "plain"})
"""

ARM = """\
{constant}

def changed(means, cell):
    return {value}
"""

PLAIN = ARM.format(constant="", value="means")
MOVED = "import numpy as np\nimport lab\n" + ARM.format(
    constant="", value='0.5 * (means + np.load(lab.artifact("means", arm="plain")))'
)


def shrink_arm(toward: float = 1.0, mistake: str = "", weight: str = 'cell.setting["shrinkage"]') -> str:
    value = f"means + {weight} * (TOWARD * means.mean(0) - means){mistake}"
    return ARM.format(constant=f"TOWARD = {toward}\n", value=value)


def program_files(arm: str = "shrunk", text: str = "", plots: str = "") -> dict[str, str]:
    """The program with another file for one of its arms."""
    return {
        "experiment.py": ENTRY,
        "arms/plain.py": PLAIN,
        "arms/shrunk.py": shrink_arm(),
        "arms/moved.py": MOVED,
        "plots.py": plots or plots_code(),
        f"arms/{arm}.py": text or shrink_arm(),
    }


def plots_code(label: str = small_study.LABELLED) -> str:
    """Plots of one curve a node: of its method at the highest level."""
    return _of_cells(small_study.plots_code(label=label))


def _of_cells(script: str) -> str:
    return script.replace("/loss.npy", "/loss__*shr*__high.npy")


def make_cell_model() -> ScriptedModel:
    """The model that carries the study."""
    return small_study.make_small_model(
        plan=lambda _: PLAN, code=answer_code, plot=_answer_plots, figures=_answer_figures
    )


def answer_code(inputs: CodeInputs) -> Program:
    varies, tree = f"draft {inputs.ordinal}", program_files()
    if inputs.kind == "draft" and inputs.ordinal == 0:
        mistake = " + (np.zeros((3, 4)) @ np.zeros((3, 4)) if cell.level == 'high' else 0)"
        tree = program_files(text="import numpy as np\n" + shrink_arm(mistake=mistake))
    elif inputs.kind == "draft":
        tree = program_files(plots=plots_code(label=""))
    elif inputs.kind == "improve" and inputs.arm == "":
        toward = (0.9, 1.1, 0.95)[inputs.ordinal % 3]
        varies, tree = f"TOWARD={toward}", program_files(text=shrink_arm(toward))
    elif inputs.kind == "improve":
        varies, tree = "the plain means, centred", program_files("plain", ARM.format(constant="", value="means + 0.0"))
    elif inputs.kind == "ablate":
        name = inputs.ablation.name if inputs.ablation is not None else "without-shrinkage"
        return Program(
            title=name,
            plan="nearest class means",
            varies=name,
            arms=(name,),
            files=whole_files(program_files("without_shrinkage", shrink_arm(weight="0.0"))),
        )
    return Program(title=varies, plan="nearest class means", varies=varies, files=whole_files(tree))


def _answer_plots(inputs: PlotInputs) -> Plots:
    assert inputs.arrays
    return Plots(plots=plots_code())


def _answer_figures(inputs: FiguresInputs) -> FigureScript:
    script = small_study.answer_figures(inputs)
    return script.model_copy(update={"script": _of_cells(script.script)})
