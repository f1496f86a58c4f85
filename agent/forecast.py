"""What a run will take, from its data plan and its limits: model calls, tokens, USD, hours of code, disk.

`likely` is what a run of this shape took where we measured one; `most` is where the limits end it (a transport or
schema retry is no call of its own and comes on top). Both are estimates: token counts are of one language model's run
and of rendered prompts, and a model that thinks before it answers writes several times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from agent.settings import Settings
from models import prices
from models.roles import ROLES
from models.roles.writing import MOST_SECTIONS
from models.settings import ModelSettings
from record.claims import MINIMUM_REPLICATES
from record.nouns.data import DataPlan, DatasetFacts
from record.nouns.decisions import Usage
from record.nouns.frozen import Frozen
from record.nouns.nodes import STAGES, StageName
from search.policy import LATE_DEBUGS
from search.replication import REPORTED
from search.settings import RETRY_FACTOR, SearchSettings
from search.tree import COMPARISONS
from stages.settings import OUTLINES, PLANNINGS, REVISIONS

DEBUGS_A_DRAFT = 0.6
"""Debug nodes that follow a first draft, on average: three drafts of five fail in the offline study."""
FAILED = 0.15
"""Share of search nodes that end in an error or unsound, so that nobody looks at figures or gives a verdict."""
SECTIONS = 7
"""Of a paper."""
MISSING = 1
"""Ablations that a reviewer asks for who asks for any: the median of AblationBench, table 2."""
REPLOTS = 0.3
"""Further plottings a node: 2 of 16 in the offline runs, 2 of 3 with a language model."""
_BASE_BYTES = 400_000
"""Source, notebook, figures and the log of one execution."""
_RUN_BYTES = 4_000_000
"""Paper, its rounds of LaTeX, and the log."""


class Amount(Frozen):
    """An estimate and its upper end."""

    likely: float
    most: float


class RoleCalls(Frozen):
    """Calls of one role."""

    role: str
    likely: int
    most: int


class Forecast(Frozen):
    """What a run will take. `usd` is None where a price is unknown, `gpu_hours` where experiments use no GPU."""

    calls: tuple[RoleCalls, ...]
    experiments: Amount
    input_tokens: Amount
    output_tokens: Amount
    usd: Amount | None = None
    code_hours: Amount
    wall_hours_of_code: Amount
    gpu_hours: Amount | None
    disk_gb: Amount

    @property
    def total_calls(self) -> Amount:
        """Over all roles."""
        return Amount(likely=sum(one.likely for one in self.calls), most=sum(one.most for one in self.calls))


@dataclass(frozen=True)
class _Counts:
    """Things that a run makes, by one estimate."""

    searched: float
    works: float
    replicates: float
    aggregates: int
    comparisons: int
    replots: float
    figure_tries: int
    reflections: int
    outlines: int
    writings: int
    citations: int
    """Rounds in which works are gathered."""
    plannings: tuple[int, int]
    """Calls for the plan of the ablations, and for what a reviewer misses."""
    retried: int = 0
    """Second attempts of each that runs: after one that ran out of memory or time."""

    @property
    def executions(self) -> float:
        return (self.searched + self.replicates) * (1 + self.retried)


def forecast(plan: DataPlan, datasets: Sequence[DatasetFacts], settings: Settings) -> Forecast:
    """What a run with this plan and these settings will take."""
    likely, most = _likely(settings), _most(settings)
    calls = tuple(RoleCalls(role=role, likely=round(low), most=ceil(max(low, high)))
                  for (role, low), high in zip(_calls(likely).items(), _calls(most).values(), strict=True))
    seconds = min(plan.expected_seconds, settings.sandbox.timeout)
    workers, limit = settings.search.num_workers, settings.time_limit * settings.search.num_workers
    longest = settings.sandbox.timeout * (1 + RETRY_FACTOR)  # an attempt at its limit, and its retry
    hours = Amount(likely=min(limit, likely.executions * seconds) / 3600,
                   most=min(limit, (most.searched + most.replicates) * longest) / 3600)
    size = bytes_of_execution(plan, datasets)
    views = sum(4 * sum(one.sizes.values()) * max(1, one.features) for one in datasets)
    read, written = (Amount(likely=sum(one.likely * ROLES[one.role].usual[side] for one in calls),
                            most=sum(one.most * ROLES[one.role].usual[side] for one in calls)) for side in (0, 1))
    return Forecast(
        calls=calls, experiments=Amount(likely=round(likely.executions), most=ceil(most.executions)),
        input_tokens=read, output_tokens=written, usd=_usd(calls, settings.models), code_hours=hours,
        wall_hours_of_code=Amount(likely=hours.likely / workers, most=hours.most / workers),
        gpu_hours=hours if settings.sandbox.device == "cuda" else None,
        disk_gb=Amount(likely=(likely.executions * size + views + _RUN_BYTES) / 1e9,
                       most=(2 * most.executions * size + views + 2 * _RUN_BYTES) / 1e9))


def _usd(calls: Sequence[RoleCalls], models: ModelSettings) -> Amount | None:
    """USD of the calls, where all prices are known; at most, if each is answered by the dearest model that may."""
    likely, most = 0.0, 0.0
    for line in calls:
        costs = usd_of_call(line.role, models)
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        likely += line.likely * (known[0] if known else 0.0)
        most += line.most * max(known, default=0.0)
    return Amount(likely=likely, most=most)


def usd_of_call(role: str, models: ModelSettings) -> tuple[float | None, ...]:
    """What one call usually costs with each model that may answer, first the one that is asked; None: unknown."""
    into, out = ROLES[role].usual
    usual = Usage(input_tokens=into, output_tokens=out)
    return tuple(prices.usd(one, usual) for one in models.candidates(ROLES[role]))


# --- nodes ----------------------------------------------------------------------------------------------------------


def _likely(settings: Settings) -> _Counts:
    search, paper, drafts = settings.search, settings.writing, settings.search.num_drafts
    first = min(search.preliminary.nodes, drafts + round(DEBUGS_A_DRAFT * drafts))
    planned = search.planned_ablations
    stage = min(search.ablation.nodes, round(planned * (1 + FAILED))) if planned else search.ablation.nodes
    missing = min(MISSING, paper.missing_ablations)
    searched = first + search.tuning.nodes + search.agenda.nodes + stage + missing
    works = searched * (1 - FAILED)
    ablated = round(stage * (1 - FAILED)) + missing
    return _Counts(
        searched=searched, works=works, replicates=_replicates(search, ablated, search.seeds),
        aggregates=sum(search.seeds(stage) > 0 for stage in STAGES), comparisons=1,
        replots=works * REPLOTS, figure_tries=min(2, paper.replots + 1),
        reflections=min(2, paper.reflections) + missing, outlines=1, writings=paper.writings(SECTIONS),
        citations=min(2, paper.citation_rounds), plannings=(bool(planned), bool(paper.missing_ablations)))


def _most(settings: Settings) -> _Counts:
    search, paper = settings.search, settings.writing
    again, missing = paper.replots, paper.missing_ablations
    searched = sum(search.limits(stage).nodes for stage in STAGES) + missing * (1 + LATE_DEBUGS)
    aggregates = sum(search.seeds(stage) > 0 for stage in STAGES)

    def widest(stage: StageName) -> int:
        return max(search.seeds(stage), search.max_seeds * (stage in REPORTED))

    return _Counts(
        searched=searched, works=searched,
        replicates=_replicates(search, search.ablation.nodes + missing, widest),
        aggregates=aggregates, comparisons=COMPARISONS * (len(STAGES) - 1),
        replots=(searched + aggregates) * again, figure_tries=again + 1,
        reflections=paper.reflections + REVISIONS * bool(missing),
        outlines=OUTLINES, writings=paper.writings(MOST_SECTIONS), retried=1,
        citations=paper.citation_rounds,
        plannings=(PLANNINGS * bool(search.planned_ablations), PLANNINGS * bool(missing)))


def _replicates(search: SearchSettings, ablated: int, seeds: Callable[[StageName], int]) -> int:
    """Each stage's best, and in the end every ablation that works; the winner has those of the agenda by then.

    `seeds` is how many a stage's best gets; an ablation gets no more than a comparison needs to be called.
    """
    first = sum(seeds(stage) for stage in STAGES[:-1])
    if not search.seeds("ablation"):
        return first
    variants = max(search.seeds("ablation"), min(seeds("ablation"), MINIMUM_REPLICATES))
    return first + max(0, seeds("ablation") - seeds("agenda")) + ablated * variants


# --- calls, tokens, bytes -------------------------------------------------------------------------------------------


def _calls(counts: _Counts) -> dict[str, float]:
    """Model calls by role; replicates need none, since they run their parent's code."""
    return {
        "plan": 1, "code": counts.searched, "plot": counts.aggregates + counts.replots,
        "vision": counts.works + counts.aggregates + counts.replots + counts.figure_tries, "feedback": counts.works,
        "compare": counts.comparisons, "summary": len(STAGES), "figures": counts.figure_tries,
        "outline": counts.outlines, "write": counts.writings, "reflect": counts.reflections, "judge": 1,
        "figure_review": counts.reflections, "ablation_plan": counts.plannings[0],
        "missing_ablations": counts.plannings[1], "cite_ask": counts.citations, "cite_select": counts.citations,
    }


def bytes_of_execution(plan: DataPlan, datasets: Sequence[DatasetFacts]) -> int:
    """What one experiment leaves on disk: withheld predictions of every condition, and what is around."""
    rows = [(one.sizes.get("validation", 0) + one.sizes.get("test", 0)) * max(1, one.classes) for one in datasets]
    return _BASE_BYTES + 8 * sum(rows) * len(plan.conditions)
