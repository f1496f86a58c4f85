"""Typed inputs of the roles around the plan: what to look for, what papers used, what is wrong with a plan."""

from __future__ import annotations

from pydantic import BaseModel

from labwright.models.roles.ideation import PageText
from labwright.models.roles.node_assessment import CodeReaderInputs
from labwright.models.roles.study_plan import PriorSearchInputs, PriorWorkInputs, ProtocolReviewInputs
from labwright.record.schema.data_plan import DataPlan, DatasetFacts
from labwright.record.schema.hypotheses import ProtocolFinding, ReviewedFinding
from labwright.record.schema.idea import Idea
from labwright.record.schema.prior_work import PriorPaper, PriorUse, SharedPriorUse

PRIOR = (
    PriorPaper(
        title="Margins of Old",
        file="old.pdf",
        stored="context/01_old.pdf",
        sha256="0",
        uses=(
            PriorUse(what="dataset", name="USPS", quote="We use the USPS digits"),
            PriorUse(what="baseline", name="SVM", quote="against an SVM"),
            PriorUse(what="value", name="SVM on USPS: error 4.2", quote="SVM 4.2"),
        ),
    ),
    PriorPaper(
        title="Margins of Late",
        file="arXiv 1234.56789.pdf",
        stored="context/prior/01_l.pdf",
        sha256="1",
        uses=(PriorUse(what="baseline", name="Support vector machine (SVM)", quote="a support vector machine"),),
    ),
)
COMMON = (SharedPriorUse(what="baseline", name="SVM", papers=("Margins of Old", "Margins of Late")),)
FINDING = ProtocolFinding(
    kind="baseline",
    severity="should",
    where="arms[plain]",
    what="The plain network has no weight decay.",
    mend="Put weight decay into its space.",
)
ANSWERED = ReviewedFinding(**FINDING.model_dump(), answer="It has it now.", changed=True)
HOURS = (
    "2 slots, 75 min, 305 slot-seconds a seed of all 12 cells, of which 6 decide (measured): 29 seeds if all "
    "hours went there, 17 in their share of six tenths",
)


def make_inputs(idea: Idea, plan: DataPlan, catalogue: tuple[DatasetFacts, ...]) -> dict[str, BaseModel]:
    """One of each."""
    return {
        "prior_search": PriorSearchInputs(idea=idea, most=3),
        "prior_work": PriorWorkInputs(
            idea=idea,
            file="old.pdf",
            unread=900,
            pages=(PageText(page=1, text="Margins of Old. We use the USPS digits against an SVM."),),
        ),
        "protocol_review": ProtocolReviewInputs(
            idea=idea,
            data_plan=plan,
            catalogue=catalogue,
            others=("wine",),
            seeds=20,
            node_seconds=120.0,
            run_seconds=3600.0,
            estimands={"margin@n50 - plain@n50": "Margin penalty at n50 minus Plain network"},
            prior=PRIOR,
            common=COMMON,
            hours=HOURS,
        ),
        "code_reader": CodeReaderInputs(
            task=plan.task,
            arms=plan.arms,
            metrics=plan.metrics,
            datasets=("digits",),
            kind="ablate",
            ablated="without-warmup",
            change="Training starts at the full rate; all else is kept",
            files={"experiment.py": "   1 import lab\n   4 lab.measure(run)"},
        ),
    }


def make_huge_changes(long: str) -> dict[str, dict[str, object]]:
    """The changes that make their inputs as large as they may be."""
    uses = tuple(PriorUse(what="dataset", name="n" * 200, quote="q" * 400) for _ in range(40))
    papers = tuple(one.model_copy(update={"title": long, "uses": uses}) for one in PRIOR * 3)
    rows = tuple(one.model_copy(update={"name": long}) for one in COMMON * 99)
    finding = ReviewedFinding.model_validate(
        FINDING.model_dump() | {"what": long[:1200], "mend": long[:1200], "answer": long[:1200]}
    )
    return {
        "prior_search": {},
        "prior_work": {"pages": (PageText(page=1, text=long * 9),) * 5},
        "plan": {"prior": papers, "common": rows, "findings": (finding,) * 8},
        "protocol_review": {"prior": papers, "common": rows, "answered": (finding,) * 8, "others": (long,) * 99},
        "code_reader": {"task": long[:9000], "ablated": long, "files": {f"part{n}.py": long for n in range(99)}},
    }
