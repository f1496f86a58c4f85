"""A synthetic run with a realistic four-page draft, for the tests of paper and binder."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import Claim, compute_paper_claims
from labwright.record.claims.formatting import format_claims, format_setups
from labwright.record.events import Event
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    DecisionMade,
    NodeJudged,
    NodeProposed,
    PlanPrepared,
    SealedTestResampled,
    SealedTestScored,
    StageWinnerChosen,
)
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetFacts,
    DatasetUse,
    Level,
    Measurement,
    MetricSpec,
    ResampledInterval,
    Split,
)
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import Attempt, Failure, NodeKind, StageName
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import Evidence
from labwright.stages.paper.appendix import render_appendix, render_notice
from labwright.stages.paper.citations import read_verified_entries
from labwright.stages.paper.disclosure import build_supplement_tables, format_files
from labwright.stages.paper.latex_sources import FigureFile, PaperParts
from labwright.stages.paper.result_tables import build_result_tables

LIBRARY = Path(__file__).resolve().parents[2] / "examples" / "library.bib"

PLAN = DataPlan(
    task="classify small images and tabular records",
    datasets=(DatasetUse(name="digits"), DatasetUse(name="wine")),
    metrics=(
        MetricSpec(name="log_loss", title="log loss", higher_is_better=False),
        MetricSpec(name="accuracy", title="accuracy", higher_is_better=True),
        MetricSpec(name="ece", title="calibration error", higher_is_better=False),
    ),
    arms=(
        Arm(name="baseline", title="cross-entropy", role="baseline"),
        Arm(name="method", title="label smoothing", role="method"),
        Arm(name="no-schedule", title="without the schedule", role="ablation"),
    ),
    levels=(
        Level(name="noise00", title="0% noise", value=0.0),
        Level(name="noise20", title="20% noise", value=0.2),
        Level(name="noise40", title="40% noise", value=0.4),
    ),
    factor="label noise",
    expected_seconds=20.0,
)

FACTS = tuple(
    DatasetFacts(
        name=name,
        title=title,
        source=f"sklearn:load_{name}",
        features=features,
        classes=classes,
        sizes={"train": train, "dev": 180, "validation": 270, "test": 360},
        fingerprint="ab" * 32,
        seed=3,
    )
    for name, title, features, classes, train in (
        ("digits", "Optical digits", 64, 10, 987),
        ("wine", "Wine cultivars", 13, 3, 89),
    )
)


def make_measurements(seed: int, conditions: tuple[str, ...], split: Split) -> tuple[Measurement, ...]:
    rng = random.Random(f"{seed}/{split}")
    return tuple(
        Measurement(
            name=metric.name,
            condition=condition,
            dataset=use.name,
            split=split,
            seed=seed,
            grade="computed",
            value=round(0.2 + 0.1 * (k % 3) + rng.gauss(-0.05 * ("method" in condition), 0.01), 5),
        )
        for use in PLAN.datasets
        for metric in PLAN.metrics
        for k, condition in enumerate(conditions)
    )


MAIN = tuple(one for one in PLAN.conditions if not one.startswith("no-schedule"))
ABLATED = tuple(one for one in PLAN.conditions if one.startswith("no-schedule"))


def make_events() -> list[Event]:
    """Build a run with a winner, an ablation, a failure and ten replicates."""
    return list(_make_events())


@cache
def _make_events() -> tuple[Event, ...]:
    log: list[Event] = [
        RunStarted(
            idea=Idea(Name="smooth", Title="Smoothing & noise", Experiments=("e",)),
            settings={"search": {"order": "ticket", "num_workers": 2}, "model": "offline", "exec_timeout": 60.5},
            seed=7,
            version="0.1.0",
            model="offline",
        ),
        PlanPrepared(data_plan=PLAN, datasets=FACTS),
    ]
    k = 0

    def node(
        kind: NodeKind,
        stage: StageName,
        parent: str | None,
        conditions: tuple[str, ...],
        seed: int,
        failure: Failure | None = None,
    ) -> str:
        nonlocal k
        k += 1
        name = f"n{k:04d}"
        log.extend(
            [
                DecisionMade(k=k, action=ExpandTree(stage=stage, kind=kind, parent=parent, seed=seed)),
                NodeProposed(
                    node=name,
                    decision=k,
                    title="Small network, smoothed targets",
                    plan="p",
                    varies="LEARNING_RATE=0.003" if k % 2 else "without label smoothing & 50% of the_units",
                    source_sha256="0" * 64,
                    setups={"LEARNING_RATE": 0.003, "EPOCHS": 40, "OPTIMISER": "adam_w", "WEIGHT_DECAY": 1e-05},
                ),
                AttemptExecuted(
                    node=name,
                    attempt=Attempt(
                        number=1,
                        seconds=3.21 + k,
                        failure=failure,
                        measurements=(() if failure else make_measurements(seed, conditions, "validation")),
                    ),
                ),
                NodeJudged(node=name, status="buggy" if failure else "good", failure=failure),
            ]
        )
        return name

    shape = Failure(kind="shape", message="mat1 and mat2 shapes cannot be multiplied (32x64, 128x10) in $f_{\\theta}$")
    broken = node("draft", "preliminary", None, MAIN, 11, shape)
    best = node("debug", "preliminary", broken, MAIN, 12)
    log.append(StageWinnerChosen(stage="preliminary", best=best, ended="a prototype ran"))
    for k_tune in range(4):
        best = node("tune", "tuning", best, MAIN, 13 + k_tune)
    log.append(StageWinnerChosen(stage="tuning", best=best, ended="curves converged"))
    best = node("improve", "agenda", best, MAIN, 19)
    seeds = [1001 + n for n in range(5)]
    replicates = [(node("replicate", "agenda", best, MAIN, seed), seed, MAIN) for seed in seeds]
    log.append(StageWinnerChosen(stage="agenda", best=best, ended="limit"))
    ablated = node("ablate", "ablation", best, (*MAIN, *ABLATED), 23)
    replicates += [(node("replicate", "ablation", ablated, ABLATED, seed), seed, ABLATED) for seed in seeds]
    log.append(StageWinnerChosen(stage="ablation", best=ablated, ended="limit"))
    log.extend(
        SealedTestScored(node=name, measurements=make_measurements(seed, conditions, "test"))
        for name, seed, conditions in replicates
    )
    log.append(SealedTestResampled(found=tuple(_make_example_intervals(log))))
    return tuple(log)


def _make_example_intervals(log: list[Event]) -> Iterator[ResampledInterval]:
    """Return plausible bootstrap results: an interval for each difference, except for one metric."""
    run = fold_events((event, float(at)) for at, event in enumerate(log))
    for one in compute_differences(run, compute_paper_claims(run)):
        known = ResampledInterval(key=one.key, nodes=one.nodes, others=one.others)
        yield known.model_copy(
            update={"reason": "its values were not computed by the program from predictions"}
            if one.name == "ece"
            else {"low": one.mean - 0.02, "high": one.mean + 0.02, "examples": 360, "draws": 2000}
        )


def make_state() -> RunState:
    return fold_events((event, float(at)) for at, event in enumerate(make_events()))


def make_claims(run: RunState) -> list[Claim]:
    found: list[Claim] = list(compute_paper_claims(run))
    return [*found, *compute_differences(run, found)]


def make_evidence(run: RunState) -> Evidence:
    found = make_claims(run)
    return Evidence(
        results=format_claims(found, PLAN),
        setups=format_setups(run),
        cites=frozenset(one.key for one in read_verified_entries(LIBRARY)),
        figures=frozenset({"loss", "reliability", "curves"}),
        tables=frozenset({"main", "metrics", "ablation"}),
        names=(*(one.title for one in FACTS), *(one.title for one in PLAN.arms), *(one.title for one in PLAN.levels)),
        replicates=frozenset({5}),
        plan=PLAN,
        facts=FACTS,
    )


V = r"the log loss changes by \result{diff/digits/log_loss/%s~%s.mean}"
R = r"\result{test/digits/log_loss/%s.%s}"

DRAFT = PaperDraft(
    title="Does Label Smoothing Keep Small Networks Calibrated When Labels Are Wrong?",
    abstract=(
        "Label smoothing mixes the training targets with the uniform distribution. We ask whether it keeps the "
        "probabilities of a small network usable when a share of the training labels is wrong. On Optical digits with "
        r"20\% noise the log loss is "
        + R % ("method@noise20", "pm")
        + " with smoothing and "
        + R % ("baseline@noise20", "pm")
        + r" without it (mean and standard deviation over \setup{run.seeds} "
        r"replicates). "
        "We find that " + V % ("method@noise20", "baseline@noise20") + ". Every number in this paper is bound to a "
        "recorded measurement, and the appendix discloses every experiment that was run."
    ),
    sections=(
        Section(
            title="Introduction",
            body=(
                "Networks that are trained to fit hard labels end up overconfident \\citep{guo2017calibration}, "
                "and they can "
                "fit labels that are plainly wrong \\citep{zhang2017understanding}. Label smoothing "
                "\\citep{szegedy2016rethinking} is the cheapest remedy that practitioners reach for: it costs "
                "one line of "
                "code and no time. Whether it also helps under label noise has been argued both ways "
                "\\citep{lukasik2020does,muller2019when}.\n\n"
                "We look at a deliberately small setting, in which every experiment can be repeated with several "
                "seeds, and "
                "report all of them. Our question is narrow: at a fixed budget of tuning for both arms, does "
                "smoothing lower "
                "the log loss on clean test labels when the training labels are noisy? We do \\emph{not} ask "
                "which remedy "
                "is best; loss correction \\citep{patrini2017making,natarajan2013learning} and bootstrapping "
                "\\citep{reed2015training} are natural next candidates."
            ),
        ),
        Section(
            title="Method",
            body=(
                "Let $x$ be an input, $y \\in \\{1, \\dots, K\\}$ its label and $p_\\theta(y \\mid x)$ the network's "
                "prediction. Smoothed targets with strength $\\epsilon$ give the loss\n"
                "\\begin{equation}\n  L(\\theta) = -\\sum_{k} \\Big[ (1-\\epsilon)\\, \\mathbf{e}_{y,k} + "
                "\\frac{\\epsilon}{K} \\Big] \\log p_\\theta(k \\mid x),\n\\end{equation}\n"
                "where $\\mathbf{e}_y$ is the indicator of the label. Cross-entropy is the case without smoothing. "
                "Noise is "
                "symmetric: a label is replaced, with the stated probability, by one drawn uniformly from the "
                "others.\n\n"
                "\\paragraph{Network and training.} A multilayer perceptron is trained with Adam "
                "\\citep{kingma2015adam}, "
                "learning rate \\setup{code.LEARNING_RATE}, weight decay \\setup{code.WEIGHT_DECAY}, for "
                "\\setup{code.EPOCHS} epochs. Both arms were tuned with the same number of trials.\n\n"
                "\\paragraph{Data.} Optical digits has \\setup{data.digits.train} training and "
                "\\setup{data.digits.test} "
                "test examples in \\setup{data.digits.classes} classes; Wine cultivars has "
                "\\setup{data.wine.train} and "
                "\\setup{data.wine.test}. Both come with scikit-learn \\citep{pedregosa2011scikit}. Validation "
                "scores select; "
                "test labels are read once, after the search has ended.\n\n"
                "\\paragraph{Metrics.} The primary metric is the log loss. Accuracy and the expected calibration error "
                "\\citep{naeini2015obtaining} are secondary:\n\\begin{itemize}\n\\item log loss rewards probabilities "
                "that are right, not labels that are;\n\\item the calibration error compares confidence with accuracy "
                "within bins, and says nothing about how sharp the predictions are.\n\\end{itemize}"
            ),
        ),
        Section(
            title="Results",
            body=(
                "\\papertable{main}\n\n\\paperfigure{loss}\n\n"
                "Table~\\ref{tab:main} gives the log loss of both arms. Without noise, we find that "
                + V % ("method@noise00", "baseline@noise00")
                + "; at 20\\% noise, "
                + V % ("method@noise20", "baseline@noise20")
                + ". Figure~\\ref{fig:loss} shows the same values over the "
                "noise rate. Wine cultivars has fewer examples.\n\n"
                "\\papertable{metrics}\n\n\\paperfigure{reliability}\n\n"
                "The secondary metrics are in Table~\\ref{tab:metrics}. Figure~\\ref{fig:reliability} shows "
                "reliability "
                "over the range of confidences.\n\n"
                "\\paperfigure{curves}\n\n"
                "Figure~\\ref{fig:curves} shows validation curves. Early stopping on a clean part would "
                "change the comparison, which is a limit of ours."
            ),
        ),
        Section(
            title="Ablation",
            body=(
                "\\papertable{ablation}\n\n"
                "Table~\\ref{tab:ablation} removes the schedule of the smoothing strength and keeps everything "
                "else. On "
                "Optical digits at 40\\% noise, we find that "
                + V % ("no-schedule@noise40", "method@noise40")
                + ". We did not ablate the optimiser."
            ),
        ),
        Section(
            title="Limitations",
            body=(
                "The datasets are small, the noise is symmetric, and the networks are far from those used in practice. "
                "Replicates differ in their seeds only, not in the split of the data, so that the intervals do "
                "not cover "
                "the choice of test examples. No correction was made for looking at several levels. “Calibration” "
                "is measured on clean labels – an optimistic view of a deployment in which α, the noise rate, is "
                "unknown."
            ),
        ),
        Section(
            title="Conclusion",
            body=(
                "In this small setting, we find that " + V % ("method@noise20", "baseline@noise20") + ". "
                "The result invites a study with larger networks and asymmetric noise; it does not replace one."
            ),
        ),
    ),
    captions={
        "loss": "Log loss on test data over the noise rate, mean over replicates; bands are the 95\\% intervals. At "
        "40\\% noise the smoothed network has " + R % ("method@noise40", "mean") + ".",
        "reliability": "Reliability of both arms on Optical digits with 20\\% noise: accuracy over confidence.",
        "curves": "Validation log loss over training, one panel a dataset.",
    },
)


PANELS = {"loss": 2, "reliability": 1, "curves": 2}


def make_figures(folder: Path) -> tuple[FigureFile, ...]:
    """Three real figures, as .pdf with embedded TrueType fonts."""
    for name, data in _draw_figures().items():
        (folder / f"{name}.pdf").write_bytes(data)
    return tuple(FigureFile(name, folder / f"{name}.pdf") for name in PANELS)


@cache
def _draw_figures() -> dict[str, bytes]:
    import matplotlib
    from matplotlib.figure import Figure

    found: dict[str, bytes] = {}
    with matplotlib.rc_context({"pdf.fonttype": 42, "font.size": 8}):  # pyrefly: ignore
        for name, panels in PANELS.items():
            figure = Figure(figsize=(2.9 * panels, 2.1), layout="constrained")
            for k, axes in enumerate(figure.subplots(1, panels, squeeze=False)[0]):
                for arm in range(2):
                    axes.plot(
                        [0, 20, 40],
                        [0.2 + 0.1 * arm + 0.05 * k, 0.3, 0.5 - 0.1 * arm],
                        marker="o",
                        label=("cross-entropy", "label smoothing")[arm],
                    )
                axes.set_xlabel("noise (%)")
                axes.set_ylabel(name)
                axes.legend(frameon=False)
            file = io.BytesIO()
            figure.savefig(  # pyrefly: ignore
                file, format="pdf", metadata={"CreationDate": None}
            )
            found[name] = file.getvalue()
    return found


ORIGIN = "This paper was written by a program, scientist 0.1.0, with the model offline. No person checked it."
ISOLATION = (
    "Isolation was off in this run: the experiment's code could have reached the test labels, so its values carry the "
    "grade 'computed', not 'scored'."
)


def make_parts(folder: Path, draft: PaperDraft = DRAFT, *, with_appendix: bool = True) -> PaperParts:
    """Build the whole paper."""
    run = make_state()
    found = make_claims(run)
    return PaperParts(
        draft=draft,
        evidence=make_evidence(run),
        figures=make_figures(folder),
        library=read_verified_entries(LIBRARY),
        tables=build_result_tables(
            compute_paper_claims(run),
            PLAN,
            ABLATED,
            None,
            [one for one in found if isinstance(one, ClaimDifference) and one.name == "log_loss"],
        ),
        notice=render_notice(novelty_unchecked=False) if with_appendix else "",
        authors="scientist 0.1.0, a program",
        appendix=render_appendix(run, found, origin=ORIGIN, isolation=ISOLATION, used=[one.key for one in found][-8:])
        if with_appendix
        else "",
        data=format_files(build_supplement_tables(run, found)) if with_appendix else {},
    )


def add_paragraph(text: str, draft: PaperDraft = DRAFT) -> PaperDraft:
    """Return the draft with a paragraph added to its conclusion."""
    last = draft.sections[-1]
    return draft.model_copy(
        update={"sections": (*draft.sections[:-1], last.model_copy(update={"body": f"{last.body}\n\n{text}"}))}
    )


def make_short_paper(folder: Path, body: str) -> PaperParts:
    """A short paper without figures, tables and appendix, which compiles fast."""
    draft = PaperDraft(title="A short paper", abstract="Short.", sections=(Section(title="Body", body=body),))
    whole = make_evidence(make_state())
    return PaperParts(
        draft=draft,
        evidence=replace(whole, figures=frozenset(), tables=frozenset()),
        library=read_verified_entries(LIBRARY),
    )
