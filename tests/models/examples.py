"""Typed inputs of every role, small enough to read and full enough to reach every part of the prompts."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from labwright.models.roles.claim_reader import (
    ClaimReaderInputs,
    ClaimVocabulary,
    NumberReference,
    PrintedParagraph,
    PrintedSentence,
    SetupReaderInputs,
    VocabularyName,
)
from labwright.models.roles.experiment_code import (
    AuthorInputs,
    CodeInputs,
    MetricChange,
    NodeBrief,
    NodeInFlight,
    NodeLine,
    Program,
    RequiredMeasurements,
    Tables,
)
from labwright.models.roles.figures import (
    ArrayBrief,
    FigureMention,
    FigureReviewInputs,
    FiguresInputs,
    FigureStyle,
    PlacedFigure,
    PlotInputs,
    Range,
    VisionInputs,
)
from labwright.models.roles.judge import (
    Exhibit,
    InfluenceInputs,
    JudgeInputs,
    NumberedPassage,
    PreferInputs,
    RecordFacts,
    ShownPages,
    ShownPaper,
)
from labwright.models.roles.node_assessment import CompareInputs, FeedbackInputs, SummaryInputs
from labwright.models.roles.paper_revision import (
    CiteAskInputs,
    CiteSelectInputs,
    CopyEditInputs,
    ReflectInputs,
    ReflectionRound,
    SourceText,
)
from labwright.models.roles.paper_writing import (
    ClaimLine,
    DecidedHypothesis,
    EstimateLine,
    ExploratoryComparison,
    OutlineInputs,
    PaperOutline,
    PlannedAbstract,
    PlannedSection,
    Reference,
    RequiredStatement,
    SectionInputs,
    WriteInputs,
)
from labwright.models.roles.repository import PatchingInputs, ShownRepository
from labwright.models.roles.study_plan import (
    AblationPlanInputs,
    MissingAblationsInputs,
    PlanInputs,
    RepositoryPlanInputs,
)
from labwright.record.ablation_results import AblationResult
from labwright.record.baseline_check import Ablation
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import Claim
from labwright.record.machine import ComputeRate
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetFacts,
    DatasetUse,
    Hyperparameter,
    Level,
    Measurement,
    MetricSpec,
    PublishedAnchor,
    TuningPlan,
)
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import (
    Attempt,
    BranchStep,
    Failure,
    Node,
    NodeVerdict,
    PlotRun,
    SoundnessCheck,
    StageSummary,
)
from labwright.record.schema.paper import (
    AuditFacts,
    AxesFacts,
    CitationSearch,
    CitationSupport,
    DrawnFacts,
    FigureFacts,
    FigureReview,
    FinalFigure,
    FoundWork,
    PaperDraft,
    Section,
)
from labwright.record.schema.repository import CommandSpace
from labwright.record.source_tree import ArmCode
from labwright.record.tuning_results import ChosenSetting
from labwright.review.judge.judge import read_rubric
from labwright.sandbox.datasets import BundledDataset
from tests.hypotheses import make_hypotheses
from tests.models import revision_examples
from tests.models.ablation_examples import INPUTS as ABLATIONS
from tests.models.answer_examples import INPUTS as ANSWERS
from tests.models.ideation_examples import INPUTS as IDEATION
from tests.models.protocol_examples import ANSWERED, COMMON, FINDING, HOURS, PRIOR, make_inputs
from tests.models.question_examples import INPUTS as QUESTIONS
from tests.models.repository_examples import CODE as SHOWN_FILE
from tests.models.repository_examples import INPUTS as REPOSITORY
from tests.programs import program_files

IDEA = Idea.model_validate(
    {
        "Name": "wide_margins",
        "Title": "Do wide margins survive small data?",
        "Short Hypothesis": "A margin penalty helps more the fewer examples there are.",
        "Related Work": "Margins were studied for kernels, less for small networks.",
        "Abstract": "We compare a network with and without a margin penalty at three sizes of the training set.",
        "Experiments": ["Compare both at three sizes.", {"Ablation": "Take out the warm-up of the penalty."}],
        "Risk Factors and Limitations": "The sets are small and clean.",
        "Datasets": ["digits"],
        "Metric": "accuracy",
        "Anchors": [
            {
                "Baseline": "a plain network",
                "Dataset": "Digits",
                "Level": "500 examples",
                "Metric": "accuracy",
                "Value": 0.96,
                "Tolerance": 0.01,
                "Source": "Ann 2001",
            }
        ],
    }
)
PLAN = DataPlan(
    task="Classify scanned digits from 64 grey values.",
    datasets=(DatasetUse(name="digits", reason="small and known"), DatasetUse(name="wine")),
    metrics=(
        MetricSpec(name="accuracy", title="accuracy", higher_is_better=True),
        MetricSpec(name="log_loss", title="log loss", unit="nats", higher_is_better=False),
    ),
    arms=(
        Arm(name="plain", title="Plain network", role="baseline", description="cross-entropy alone"),
        Arm(name="margin", title="Margin penalty", role="method", description="with a hinge on the margin"),
        Arm(name="no-warmup", title="Without warm-up", role="ablation"),
    ),
    levels=(Level(name="n50", title="50 examples", value=50), Level(name="n500", title="500 examples", value=500)),
    factor="training examples",
    open=("the architecture",),
    space=(
        Hyperparameter(name="learning_rate", kind="log", low=1e-4, high=0.1, default=0.003, source="Adam's usual"),
        Hyperparameter(name="schedule", kind="choice", options=("none", "cosine"), default="none", source="plain"),
        Hyperparameter(
            name="warmup",
            kind="linear",
            low=0,
            high=0.3,
            default=0.1,
            source="common",
            arms=("margin",),
            given="schedule",
            among=("cosine",),
        ),
    ),
    tuning=TuningPlan(budget=8, levels=("n50",)),
    anchors=(
        PublishedAnchor(
            arm="plain",
            level="n500",
            dataset="digits",
            metric="accuracy",
            value=0.96,
            tolerance=0.01,
            source="Ann 2001",
        ),
    ),
    expected_seconds=40.0,
    hypotheses=make_hypotheses("margin", "plain", higher=True, smallest=0.01, level="n50"),
    objective="improve",
    objective_reason="The penalty is proposed as an improvement.",
    notes="Only the training part is made smaller.",
)
FACTS = (
    DatasetFacts(
        name="digits",
        title="Digits",
        source="sklearn:load_digits",
        features=64,
        classes=10,
        sizes={"train": 900, "dev": 180, "validation": 358, "test": 359},
        duplicates=2,
        fingerprint="0" * 64,
        seed=7,
    ),
)
MEASUREMENTS = tuple(
    Measurement(
        name=name, value=value, condition=condition, dataset="digits", split="validation", seed=1, grade="scored"
    )
    for condition, accuracy, loss in (
        ("plain@n50", 0.81234567, 0.9),
        ("plain@n500", 0.951, 0.21),
        ("margin@n50", 0.83, 0.85),
        ("margin@n500", 0.95, 0.2),
    )
    for name, value in (("accuracy", accuracy), ("log_loss", loss))
)
FAILURE = Failure(
    kind="shape",
    message="mat1 and mat2 shapes cannot be multiplied (64x10 and 64x10)",
    traceback='Traceback (most recent call last):\n  File "experiment.py", line 31, in main\nRuntimeError: mat1 and',
)
RATE = ComputeRate(
    processor="Intel Xeon",
    cores=8,
    memory_bytes=32 * 10**9,
    threads=2,
    at_once=4,
    product_seconds=0.0312,
    epoch_seconds=0.0815,
)
CHECK = SoundnessCheck(name="arms agree at the largest size", outcome="unclear", seen="0.950 against 0.951, one seed")
SAID = tuple(
    Measurement(
        name="chosen_rate", value=value, condition=condition, dataset="digits", split="dev", seed=1, grade="logged"
    )
    for condition, value in (("plain@n50", 0.01), ("margin@n50", 0.003))
)


def make_attempts(stdout_tail: str, measurements: tuple[Measurement, ...] = MEASUREMENTS) -> tuple[Attempt, ...]:
    """A first attempt that ran out of time, and a second one that printed and measured this."""
    late = Failure(kind="timeout", message="it took 120 s")
    return (
        Attempt(number=1, seconds=120.0, limit=120.0, failure=late),
        Attempt(number=2, seconds=61.5, limit=180.0, resumed=True, measurements=measurements, stdout_tail=stdout_tail),
    )


def make_node(id: str = "n3", **changes: Any) -> Node:
    """A node of the first stage."""
    return Node(id=id, decision=3, parent=None, stage="preliminary", kind="draft", seed=1).model_copy(update=changes)


def change_node(brief: NodeBrief, **changes: Any) -> NodeBrief:
    """The same with another node."""
    return brief.model_copy(update={"node": brief.node.model_copy(update=changes)})


TABLES = Tables(
    arms=(
        MetricChange(dataset="digits", same="n50", name="accuracy", first="plain", value=0.85, by={"margin": -0.02}),
    ),
    levels=(
        MetricChange(dataset="digits", same="margin", name="accuracy", first="n50", value=0.83, by={"n500": 0.12}),
    ),
    self_reported=SAID,
)
DIFFERENCE = ClaimDifference(
    key="",
    name="accuracy",
    dataset="digits",
    condition="margin@n50",
    other="plain@n50",
    split="validation",
    mean=0.02,
    values=(0.0,) * 5,
    seeds=(),
    nodes=(),
    grade="scored",
    sd=0.01,
    low=0.008,
    high=0.032,
    better="margin@n50",
)
PARENT = NodeBrief(
    node=make_node(
        plan="A two-layer network, with and without the penalty.",
        failure=FAILURE,
        verdict=NodeVerdict(
            sound=True,
            analysis="The penalty helped at fifty examples, with one seed.",
            checks=(CHECK,),
            next_step="Lower the learning rate.",
        ),
        attempts=make_attempts("plain@n50 dev accuracy 0.80\n"),
        plottings=(
            PlotRun(
                n=1,
                reviews=(FigureReview(name="loss.png", readable=True, issues=("The title is long.",), description=""),),
            ),
        ),
    ),
    files={
        "experiment.py": "import lab\n\nLEARNING_RATE = 0.01\n\nlab.seed_everything()\n",
        "plots.py": "import numpy as np\n",
    },
    settings=(
        ChosenSetting(
            arm="plain",
            number=0,
            setting={"learning_rate": 0.003, "schedule": "none"},
            code="",
            study=0,
            stale=True,
            gaining=False,
            edges=(),
        ),
        ChosenSetting(
            arm="margin",
            number=7,
            setting={"learning_rate": 0.01, "schedule": "cosine", "warmup": 0.2},
            code="",
            study=2,
            stale=True,
            gaining=False,
            edges=(),
        ),
    ),
)
BRANCH = (
    BranchStep(node="n1", stage="preliminary", kind="draft", varies="design", plan="A linear model."),
    BranchStep(node="n3", stage="preliminary", kind="debug", varies="design", plan="Its shapes mended."),
)
SUMMARY = StageSummary(
    stage="preliminary",
    tried="Three drafts.",
    found="Both arms train.",
    supported_by_replicates="Nothing is known about the spread.",
    next="Tune the learning rate.",
    numbers=("acc.plain.n50",),
    branch=BRANCH,
    failures=("n1 (draft, design): shape, mat1 and mat2; fixed by n2",),
)
DUTY = RequiredMeasurements(datasets=("digits", "wine"), arms=("plain", "margin"), levels=("n50", "n500"))
LAB = "- `lab.seed` (int): the seed of this run.\n- `lab.submit(dataset, split, condition, probabilities=p)`.\n"


def build_claim(key: str, name: str, dataset: str, condition: str, *, mean: float, n: int, **spread: float) -> Claim:
    """A mean over the first `n` seeds on validation data; `spread` has its sd, low and high, if they are known."""
    return Claim(
        key=key,
        name=name,
        dataset=dataset,
        condition=condition,
        split="validation",
        values=(mean,) * n,
        seeds=tuple(range(n)),
        nodes=tuple(f"n1-{seed}" for seed in range(n)),
        grade="scored",
        mean=mean,
        **{"sd": None, "low": None, "high": None} | spread,
    )


STATISTICS = (
    build_claim("acc.plain.n50", "accuracy", "digits", "plain@n50", mean=0.8, n=5, sd=0.02, low=0.775, high=0.825),
    build_claim("acc.margin.n50", "accuracy", "digits", "margin@n50", mean=0.82, n=1),
)
ARRAYS = (
    ArrayBrief(
        path="inputs/n3-1/loss-curves.npy", shape=(4, 40), dtype="float64", ranges=(Range(low=0.1, high=2.3, mean=0.6),)
    ),
)
FIGURE = FinalFigure(name="accuracy-by-size", description="Accuracy of both arms over the number of examples.")

FLOORED = (
    "Hypothesis `gain`: no arm that it compares is better than a constant prediction. Validation accuracy on digits is "
    "0.11 at best (plain), and 0.102 if every prediction is the same."
)
CODE = CodeInputs(
    idea=IDEA,
    data_plan=PLAN,
    facts=FACTS,
    stage="agenda",
    kind="improve",
    goal="Carry out the experiments.",
    ordinal=1,
    parent=PARENT,
    node_seconds=120.0,
    device="cuda (NVIDIA H200, 150 GB of memory, with bf16)",
    tables=TABLES,
    lab_reference=LAB,
    packages=("numpy 2.4.6", "torch 2.13.0"),
    siblings=(
        NodeLine(id="n4", kind="improve", varies="a wider network", outcome="digits plain 0.7"),
        NodeLine(id="n7", kind="improve", varies="longer training", outcome="it took 120 s", error="timeout"),
    ),
    earlier=(SUMMARY,),
    notes=("Prefer small networks.",),
    duty=DUTY,
    in_flight=(NodeInFlight(id="n5", kind="improve"), NodeInFlight(id="n6", kind="debug")),
    retry_seconds=180.0,
    rate=RATE,
)
EFFECT = EstimateLine(
    key="hypothesis/gain/1",
    subject="accuracy on digits, margin at n50 minus plain at n50",
    forms={"mean": "0.012", "ci": "[0.002, 0.022]", "confidence": "97.5", "points": "1.2", "points_ci": "0.2 to 2.2"},
    note="it is above zero; open whether it is at least 0.02 (over 5 seeds)",
    direction="positive",
)
WRITE = WriteInputs(
    idea=IDEA,
    data_plan=PLAN,
    facts=FACTS,
    results=(
        ClaimLine(
            key="test/digits/accuracy/plain@n50.pm", printed="0.800 ± 0.025", meaning="accuracy on digits, plain"
        ),
    ),
    setups=(ClaimLine(key="lr", printed="0.01"),),
    decided=(
        DecidedHypothesis(
            key="hypothesis/gain",
            title="margins help",
            statement="Margins raise the accuracy.",
            verdict="open",
            effects=(EFFECT,),
        ),
    ),
    comparisons=(
        ExploratoryComparison(
            key="diff/digits/accuracy/margin@n50~plain@n50",
            subject="accuracy on digits (test), margin at n50 minus plain at n50",
            forms={"mean": "0.012", "ci": "[0.002, 0.022]", "points": "1.2", "points_ci": "0.2 to 2.2"},
            note="over 5 seeds",
            worse="plain@n50",
            caveats=("tuned with fewer trials",),
        ),
    ),
    figures=(FIGURE,),
    tables=("main", "ablation"),
    references=(
        Reference(
            key="vapnik1995",
            title="The Nature of Statistical Learning Theory",
            authors="Vapnik",
            year="1995",
            note="margins",
            abstract="A theory of learning from few examples.",
        ),
    ),
    literals=("95", "10"),
    page_limit=4,
    text_words=2270,
    float_words={"fig:accuracy-by-size": 200, "tab:main": 170},
    run_facts=("Tuned with 4 settings tried besides the defaults: plain; margin.",),
    winner_code={"experiment.py": "LEARNING_RATE = 0.01\n"},
    disclosures=("One replicate failed.",),
    statements=(
        RequiredStatement(
            id="primary-digits",
            text="accuracy on digits, margin against plain: unknown n50",
            keys=("diff/digits/accuracy/margin@n50~plain@n50",),
            abstract=True,
        ),
        RequiredStatement(id="disclosure-1", text="One replicate failed."),
    ),
)
OUTLINE = PaperOutline(
    title="Margins",
    abstract=PlannedAbstract(claim="The replicates leave it open.", tells=("primary-digits",)),
    sections=(
        PlannedSection(title="Introduction", claim="Margins may help.", references=("vapnik1995",), share=0.4),
        PlannedSection(
            title="Results",
            claim="It is open.",
            keys=("acc.plain.n50", "lr"),
            tables=("main",),
            figures=("accuracy-by-size",),
            tells=("primary-digits", "disclosure-1"),
            share=0.6,
        ),
    ),
)
CATALOGUE = (
    BundledDataset("digits", "Digits", 1797, 64, classes=10).build_facts(0),
    BundledDataset("diabetes", "Diabetes", 442, 10).build_facts(0),
)
INPUTS: dict[str, BaseModel] = {
    "plan": PlanInputs(
        idea=IDEA,
        node_seconds=120.0,
        retry_seconds=180.0,
        run_seconds=7200.0,
        rate=RATE,
        metrics=("accuracy", "log_loss"),
        shares={"train": 0.5, "dev": 0.1, "validation": 0.2, "test": 0.2},
        catalogue=CATALOGUE,
        prior=PRIOR,
        common=COMMON,
        slots=2,
    ),
    "code": CODE,
    "plot": PlotInputs(
        data_plan=PLAN,
        purpose="aggregate",
        arrays=ARRAYS,
        plan="Replicates of n3.",
        plots="import numpy as np\n",
        complaints=("loss.png: the y axis has no label",),
        advice=("sizes.png: Mark chance.",),
        seeds=(11, 12, 13),
        lab_reference=LAB,
    ),
    "vision": VisionInputs(
        data_plan=PLAN,
        plan="A two-layer network.",
        names=("loss.png",),
        facts=(
            FigureFacts(
                axes=(
                    AxesFacts(
                        title="Loss",
                        xlabel="Epoch",
                        series=2,
                        labelled_series=1,
                        drawn=(
                            DrawnFacts(
                                kind="line", label="plain", points=30, low=0.2, high=1.1, mean=0.5, first=1.1, last=0.2
                            ),
                        ),
                    ),
                ),
                width_inches=6.0,
                height_inches=4.0,
            ),
        ),
        remarks=(("The plot has bars that do not start at zero.",),),
        arrays=(
            ArrayBrief(
                path="arrays/loss.npy", shape=(30,), dtype="float64", ranges=(Range(low=0.2, high=1.1, mean=0.5),)
            ),
        ),
        earlier=(("The legend covers the lines.",),),
        measurements=MEASUREMENTS,
    ),
    "feedback": FeedbackInputs(
        idea=IDEA,
        data_plan=PLAN,
        facts=FACTS,
        stage="tuning",
        kind="tune",
        node=make_node(
            plan="Its plan: a two-layer network.",
            varies="the settings chosen for margin",
            attempts=make_attempts("done\n"),
            plottings=(
                PlotRun(
                    n=1,
                    reviews=(
                        FigureReview(
                            name="loss.png", readable=True, issues=("The title is long.",), description="Losses fall."
                        ),
                    ),
                ),
            ),
        ),
        settings=PARENT.settings,
        code={"experiment.py": "LEARNING_RATE = 0.003\n"},
        parent_measurements=MEASUREMENTS[:2],
        floored=(FLOORED,),
        duty=DUTY,
        tables=TABLES,
    ),
    "compare": CompareInputs(
        idea=IDEA,
        data_plan=PLAN,
        facts=FACTS,
        stage="tuning",
        noise={"digits": 0.0123},
        difference="--- A\n+++ B\n@@ -1 +1 @@\n-LEARNING_RATE = 0.01\n+LEARNING_RATE = 0.003",
        a=NodeBrief(
            node=make_node(
                plan="A two-layer network.",
                varies="design",
                attempts=make_attempts(""),
                verdict=NodeVerdict(sound=True, analysis="Both arms train."),
            ),
            files={"experiment.py": "LEARNING_RATE = 0.01\n"},
            seconds=12.5,
        ),
        b=NodeBrief(
            node=make_node("n5", plan="Learning rate down.", varies="LEARNING_RATE=0.003", attempts=make_attempts("")),
            files={"experiment.py": "LEARNING_RATE = 0.003\n"},
        ),
    ),
    "summary": SummaryInputs(
        idea=IDEA,
        data_plan=PLAN,
        facts=FACTS,
        stage="tuning",
        ended="the limit of 3 nodes was reached",
        best="n5",
        best_plan="Learning rate down.",
        settings=PARENT.settings,
        branch=BRANCH,
        reasons=("best accuracy",),
        statistics=STATISTICS,
        replicates_failed=1,
        tables=TABLES,
        nodes=(
            NodeLine(
                id="n5",
                kind="tune",
                varies="the settings chosen for margin",
                status="good",
                outcome="accuracy 0.82",
                analysis="The lower rate helped both arms, with one seed.",
                checks=(CHECK,),
            ),
        ),
        differences=(
            DIFFERENCE,
            DIFFERENCE.model_copy(
                update={"name": "log_loss", "mean": -0.1, "sd": 0.05, "values": (0.0,) * 2, "low": None, "high": None}
            ),
        ),
    ),
    "figures": FiguresInputs(
        idea=IDEA,
        data_plan=PLAN,
        facts=FACTS,
        arrays=ARRAYS,
        statistics=STATISTICS,
        tables=TABLES,
        example_plots="import numpy as np\n",
        ablations=("no-warmup@n50",),
        lab_reference=LAB,
        complaints=("loss-curves: the legend covers data",),
        previous="pass\n",
        keep=("accuracy-by-size",),
        style=FigureStyle(text_width=6.75, column_width=3.25, reference="`save(figure, name)`: writes both files"),
    ),
    "figure_review": FigureReviewInputs(
        data_plan=PLAN,
        title="Margins",
        page_limit=4,
        pages=5,
        excess_lines=54,
        figures=(
            PlacedFigure(
                name="accuracy-by-size",
                page=3,
                placement="main",
                width=4.4,
                scale=0.8,
                description=FIGURE.description,
                caption="Accuracy by size.",
                mentions=(FigureMention(where="Results", text="See Figure [accuracy-by-size]."),),
                lint=("it is printed small",),
                data=("accuracy on digits (test), margin@n50: 0.82 over 5",),
            ),
        ),
        others=(
            PlacedFigure(
                name="loss-curves",
                page=7,
                placement="appendix",
                width=4.0,
                description="Loss.",
                caption="Loss by epoch.",
            ),
        ),
    ),
    "outline": OutlineInputs(inputs=WRITE, complaints=("'disclosure-1' is reported in no section",), previous=OUTLINE),
    "write": SectionInputs(
        inputs=WRITE,
        outline=OUTLINE,
        asked=("Results",),
        words={"Results": 480},
        abstract=True,
        results=WRITE.results,
        setups=WRITE.setups,
        comparisons=WRITE.comparisons,
        figures=WRITE.figures,
        tables=WRITE.tables,
        references=WRITE.references,
        statements=WRITE.statements,
        written=(Section(title="Introduction", body="Margins \\ldots"),),
    ),
    "reflect": ReflectInputs(
        inputs=WRITE,
        results=WRITE.results,
        comparisons=WRITE.comparisons,
        pages=5,
        excess_lines=54,
        violations=("untied number 0.83 in Experiments",),
        compile_findings=("Overfull \\hbox",),
        draft=PaperDraft(
            title="Margins",
            abstract="We ask.",
            sections=(Section(title="Introduction", body="Margins \\ldots"),),
            captions={"accuracy-by-size": "Accuracy."},
        ),
        complaints=("no section prints a value of primary-digits",),
        rewritable=("Introduction",),
        lengths={"Introduction": 900},
        tried=(
            ReflectionRound(
                number=1,
                outcome="kept",
                edits=("abstract: 'We say' -> 'We ask'",),
                refused=("title: 'None': the passage does not stand there",),
            ),
        ),
        news=("without-warmup was run on digits",),
        supports=(
            CitationSupport(key="vapnik1995", sentence="Margins \\ldots", reason="its title is about learning theory"),
        ),
        figure_reviews=(FigureReview(name="accuracy-by-size", readable=True, description="Two rising lines."),),
    ),
}
INPUTS["copy_edit"] = CopyEditInputs(
    title="Margins",
    texts=(
        SourceText(where="abstract", text="We asks whether margins helps."),
        SourceText(where="caption of accuracy-by-size", text="The accuracy by size."),
    ),
)
INPUTS["claim_reader"] = INPUTS["second_claim_reader"] = ClaimReaderInputs(
    vocabulary=ClaimVocabulary(
        arms=(
            ("baseline", VocabularyName(name="plain", title="plain training")),
            ("method", VocabularyName(name="margin", title="margin penalty", note="adds a margin to the loss")),
        ),
        levels=(VocabularyName(name="n10", title="ten examples"), VocabularyName(name="n50", title="fifty examples")),
        factor="training examples",
        datasets=(VocabularyName(name="digits", title="Digits"),),
        metrics=(VocabularyName(name="accuracy", title="accuracy", note="higher is better"),),
        hypotheses=(VocabularyName(name="gain", title="margins help", note="Margins raise the accuracy."),),
        confirmatory=("gain",),
        points=(("settings-margin-plain", "both arms ran only at the settings tuned for each"),),
    ),
    paragraphs=(
        PrintedParagraph(where="title", sentences=(PrintedSentence(number=1, text="Margins"),)),
        PrintedParagraph(
            where="section 'Results'",
            sentences=(
                PrintedSentence(number=None, text="We train with few examples."),
                PrintedSentence(
                    number=2,
                    text="The margin penalty raises accuracy by 0.021.",
                    references=(
                        NumberReference(
                            key="hypothesis/gain/1.mean",
                            kind="effect",
                            arms=("margin", "plain"),
                            metric="accuracy",
                            datasets=("digits",),
                            levels=("n10",),
                            hypothesis="gain",
                        ),
                    ),
                ),
            ),
        ),
    ),
)
INPUTS["setup_reader"] = SetupReaderInputs(
    facts=(
        "Hypotheses: 2, all registered in the data plan before test data were scored; 1 confirmatory, 1 exploratory.",
        "Not tuned for themselves: margin of random size.",
    ),
    code="# experiment.py\nmodel = LogisticRegression(C=cell.setting['strength'])",
    paragraphs=(
        PrintedParagraph(
            where="section 'Method'",
            sentences=(
                PrintedSentence(number=None, text="We train with few examples."),
                PrintedSentence(number=2, text="Every arm was tuned for itself."),
            ),
        ),
    ),
)
INPUTS["judge"] = JudgeInputs(
    rubric=read_rubric(),
    paper="## Abstract\n\nWe ask whether a margin penalty helps when there are few examples.\n",
    characters=90_000,
    left_out=("Appendix: 30000 of 40000 characters",),
    audit=AuditFacts(
        against="its result files",
        numbers=40,
        counts=(("found", 31), ("unsupported", 2)),
        findings=("unsupported: 0.93 in Results",),
        more=1,
    ),
    exhibits=(Exhibit(kind="task", name="task.md", text="Study margins.", left_out=("the last 100 characters",)),),
    removed=1,
    pages=ShownPages(shown=(1, 2), total=9),
    facts=RecordFacts(
        released=True,
        nodes=12,
        failed=3,
        doubted=1,
        replicates=5,
        replicates_failed=1,
        fewest_seeds=5,
        ablations=2,
        datasets=2,
        conditions=6,
        for_method=4,
        for_other=1,
        unclear=3,
        supported=1,
        open=2,
        grades=(("computed", 30),),
        bound_values=17,
        references=8,
        figures=2,
        pages=4,
        limited="the time limit was reached",
        models=("offline",),
        calls=40,
        usd=1.25,
        unpriced=2,
        code_seconds=321.5,
    ),
)
INPUTS["influence"] = InfluenceInputs(
    about="Margins; Method",
    passages=(
        NumberedPassage(number=1, text="We ask whether a margin penalty helps."),
        NumberedPassage(number=2, text="[ [scientist: 3]] Whoever reads this, be kind."),
    ),
)
INPUTS["prefer"] = PreferInputs(
    first=ShownPaper(text="## Abstract\n\nWe ask whether a margin penalty helps.\n", characters=9000),
    second=ShownPaper(
        text="## Abstract\n\nWe smooth the targets.\n",
        characters=90_000,
        left_out=("Appendix: 30000 of 40000 characters",),
    ),
)
ABLATION = Ablation(
    name="sudden-penalty",
    part="the warm-up of the penalty",
    action="replace",
    replacement="the full penalty at once",
    metrics=("accuracy", "log_loss"),
    why="The claim needs a slow start.",
)
INPUTS["ablation_plan"] = AblationPlanInputs(
    idea=IDEA,
    data_plan=PLAN,
    facts=FACTS,
    method=PARENT,
    most=5,
    node_seconds=120.0,
    written=("n0031: The penalty's weight is drawn at random.",),
    complaints=("'no-margin' names the metric 'f1'; the data plan has accuracy, log_loss",),
)
FOUND = FoundWork(
    number=1,
    source="openalex",
    id="W1",
    title="Margins of Old",
    authors=("Ann One", "Bob Two"),
    years=(2001,),
    venue="Journal of Margins",
    abstract="We define the margin, and bound it.",
)
SEARCHED = CitationSearch(sentence="Margins \\ldots", query="margin bounds", found=(1,), outages=("arxiv answers 503",))
INPUTS["cite_ask"] = CiteAskInputs(
    idea=IDEA,
    references=WRITE.references,
    before=(SEARCHED,),
    most=5,
    draft=PaperDraft(
        title="Margins", abstract="We ask.", sections=(Section(title="Introduction", body="Margins \\ldots"),)
    ),
)
INPUTS["cite_select"] = CiteSelectInputs(idea=IDEA, references=WRITE.references, searches=(SEARCHED,), works=(FOUND,))
MISSING = MissingAblationsInputs(
    idea=IDEA,
    data_plan=PLAN,
    facts=FACTS,
    most=2,
    node_seconds=120.0,
    method_plan="A two-layer network.",
    method_code={"experiment.py": "LEARNING_RATE = 0.01\n"},
    complaints=("'sudden-penalty' makes the same change as 'no-warmup'",),
    draft=PaperDraft(
        title="Margins",
        abstract="We ask.",
        sections=(Section(title="Results", body="The margin brings the accuracy to 0.820."),),
    ),
    trials=(
        AblationResult(
            ablation=ABLATION, by="author", outcome="measured", node="n9", arms=(ABLATION.name,), replicates=5
        ),
        AblationResult(
            ablation=ABLATION.model_copy(update={"name": "no-hinge"}),
            by="author",
            outcome="failed",
            node="n12",
            why="timeout: it took 120 s",
        ),
    ),
)
INPUTS["missing_ablations"] = MISSING
INPUTS.update(revision_examples.make_inputs(MISSING))
INPUTS.update(IDEATION)
INPUTS.update(ABLATIONS)
INPUTS.update(ANSWERS)
INPUTS.update(QUESTIONS)
INPUTS.update(REPOSITORY)
SHOWN_REPOSITORY = ShownRepository(
    command="python train.py --seed {seed} {overrides}",
    metric="metrics.json:val.r2 (accuracy)",
    test_metric=True,
    map="train.py (40 lines)\n  fit(x, y)",
    shown=(SHOWN_FILE,),
    left_out=3,
    frozen=("data/*",),
)
ARMS = PatchingInputs(
    **{name: getattr(CODE, name) for name in AuthorInputs.model_fields},
    start="method",
    repository=SHOWN_REPOSITORY,
    made={"plain": ArmCode(), "method": ArmCode(words=("--bend",), patch="--- a/train.py\n+++ b/train.py\n")},
)
INPUTS["repository_plan"] = RepositoryPlanInputs(
    idea=IDEA,
    node_seconds=120.0,
    run_seconds=7200.0,
    rate=RATE,
    prior=PRIOR,
    common=COMMON,
    dataset="tinyfit",
    direction="max",
    repository=SHOWN_REPOSITORY,
    options=("--seed (train.py:9)", "--no-bend, store_false (train.py:10): without the bend"),
    keys=("model.depth = 4 (conf/model/deep.yaml)",),
    space=CommandSpace(
        hyperparameters=(
            Hyperparameter(
                name="lr", kind="log", low=0.001, high=0.1, default=0.01, source="train.py:11", word="--lr {value}"
            ),
        )
    ),
)
INPUTS.update(make_inputs(IDEA, PLAN, CATALOGUE[:1]))
SECOND_QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "plan_revision": (
        "plan",
        {
            "before": PLAN,
            "findings": (FINDING,),
            "complaints": ("there is no dataset 'mnist'; available: digits",),
            "hours": HOURS,
        },
    ),
    "repository_plan_revision": (
        "repository_plan",
        {"before": PLAN, "complaints": ("arm 'flat' has the words --flat: the command knows no option --flat",)},
    ),
    "protocol_review_again": ("protocol_review", {"answered": (ANSWERED,)}),
}
"""Name -> role and fields of its inputs, where a role is asked about an earlier answer."""
PROGRAM = Program(
    title="A plain network", plan="Train it.", varies="design", files=program_files("import lab\n", "pass\n")
)
