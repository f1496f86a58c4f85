"""Experiments of a run executed again from its record, and what their numbers come to.

The code, seed, limits and data of the record, in fresh kernels and a folder of its own; values are computed by us in
the same way, test predictions too. Where processor, interpreter and threads are those of the record, the digits that
are printed must be the same ones. Elsewhere, and on a GPU, a mean may differ as far as noise was measured: by less
than the difference of two means of so many replicates is in all but `CHANCE` of cases (Student t).

What it does not guarantee: that a number means what the paper says of it. Checkpoints are not used again, so an attempt
that went on from one runs as a whole.

    ReproductionError    you: there is nothing of the kind to run again, or its data are not those of the record
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from record.claims import Claim, interval, printed, replicates_of
from record.fold import RunState
from record.folder import RunFolder, read_source, sha256_of_files
from record.nouns import Attempt, Frozen, Measurement, Node
from record.typeset import as_read
from sandbox.datasets import Sources, materialise
from sandbox.errors import DatasetError, SubmissionRefused
from sandbox.evaluation.scorers import hand_on
from sandbox.handed_on import Left
from sandbox.job import Executor, Job, Outcome
from sandbox.scoring import score_sealed
from stages.evidence.score import frozen
from stages.writing.manuscript import claims_of

CHANCE = 0.001
"""How often a number of code that is not deterministic is called different though it is not."""

Verdict = Literal["equal", "within noise", "different", "missing"]
Tell = Callable[["NodeAgain", int, int], None]
"""Told of each node when it is done: how many are, and of how many."""
Quantity = tuple[str, str, str, str]


class ReproductionError(Exception):
    """A run or node cannot be executed again. The message says why, and what can be."""


class NodeAgain(Frozen):
    """One node executed again. `failure` is why its numbers are missing; empty where it ended as the record says."""

    node: str
    kind: str
    seed: int
    seconds: float
    recorded_seconds: float
    failure: str = ""
    measurements: tuple[Measurement, ...] = ()
    tests: tuple[Measurement, ...] = ()


class Number(Frozen):
    """A number over those of its nodes that ran again. `noise` is the most that it may be `off`; None: unknown."""

    key: str
    claim: bool
    """Whether the paper may print it by this key; other values stand in the appendix, or only in the record."""
    nodes: tuple[str, ...]
    of: int
    """Nodes that it is a mean over."""
    recorded: str
    again: str
    off: float | None
    noise: float | None
    verdict: Verdict


class Reproduction(Frozen):
    """What came of it. `unlike` says why digits need not be equal; empty: they must be."""

    nodes: tuple[NodeAgain, ...]
    numbers: tuple[Number, ...]
    unlike: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Nodes behind the paper's numbers that were not executed again, as was asked."""

    @property
    def good(self) -> bool:
        """Whether every node ended as recorded and every number is equal or within noise."""
        ended = not any(one.failure for one in self.nodes)
        return ended and all(one.verdict in ("equal", "within noise") for one in self.numbers)


def chosen(state: RunState, names: Sequence[str] = (), *, limit: int | None = None) -> list[Node]:
    """The nodes of these names; by default what the paper rests on, with at most `limit` replicates of each.

    Raises: `ReproductionError`.
    """
    for name in names:
        if name not in state.nodes:
            raise ReproductionError(f"this run has no node {name!r}: 'scientist tree RUN' lists them")
        if not state.nodes[name].attempts:
            kind, status = state.nodes[name].kind, state.nodes[name].status
            raise ReproductionError(f"{name} ({kind}, {status}) was never executed: choose one that was")
    if names:
        return [state.nodes[name] for name in dict.fromkeys(names)]
    found = [node for node in _resting(state)
             if limit is None or node.kind != "replicate" or _place(state, node) < limit]
    if not found:
        raise ReproductionError("no node of this run was carried to its paper yet: name one with --node")
    return found


async def reproduce(
    state: RunState, nodes: Sequence[Node], place: Place, *, unlike: Sequence[str] = (), tell: Tell | None = None,
) -> Reproduction:
    """Execute these nodes again, as many at a time as the executor has places. Raises `ExecutorError`."""
    done: list[NodeAgain] = []

    async def one(node: Node) -> NodeAgain:
        again = await _again(state, node, place)
        done.append(again)
        if tell is not None:
            tell(again, len(done), len(nodes))
        return again

    ran = await asyncio.gather(*map(one, nodes))
    names = {node.id for node in nodes}
    return Reproduction(
        nodes=tuple(ran), numbers=tuple(numbers(state, ran, same=not unlike)), unlike=tuple(unlike),
        left_out=tuple(node.id for node in _resting(state) if node.id not in names))


def _resting(state: RunState) -> list[Node]:
    """What the numbers of the paper rest on: nodes that were frozen for the test data."""
    return list({node.id: node for node in frozen(state)}.values())


def _place(state: RunState, node: Node) -> int:
    """The how-manieth of its parent's replicates a node is, from 0; failed ones do not count."""
    return [one.id for one in replicates_of(state, node.parent or "") if one.status == "good"].index(node.id)


# --- executing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where nodes are executed again: the run that is read, and the folder beside it that is written."""

    run: RunFolder
    scratch: RunFolder
    executor: Executor
    timeout: float
    """Seconds of an attempt whose record does not say how long it had."""
    datasets: tuple[str, ...] = field(default=())


def lay_out_data(state: RunState, run: RunFolder, scratch: RunFolder, sources: Sources) -> tuple[str, ...]:
    """Copy the run's data; what is damaged is made anew from its source. Returns their names.

    Raises: `DatasetError`, and `ReproductionError` where they are not those of the record.
    """
    scratch.create()
    for facts in state.datasets:
        for there, here in ((run.views, scratch.views), (run.labels, scratch.labels)):
            file = f"{facts.name}.npz"
            if (there / file).is_file():
                shutil.copyfile(there / file, here / file)
        made = materialise(facts.name, views=scratch.views, labels=scratch.labels, seed=facts.seed, sources=sources)
        if made.fingerprint != facts.fingerprint:
            raise ReproductionError(f"the data {facts.name!r} cannot be made again: the run's copy was changed or is "
                                    f"gone, and its source now gives other data (fingerprint {made.fingerprint[:12]}..."
                                    f", recorded {facts.fingerprint[:12]}...)")
    try:
        hand_on(state.scorers, run.scorers, scratch.scorers)
    except DatasetError as error:
        raise ReproductionError(str(error)) from None
    return tuple(facts.name for facts in state.datasets)


async def _again(state: RunState, node: Node, place: Place) -> NodeAgain:
    recorded = node.attempts[-1]
    said = NodeAgain(node=node.id, kind=node.kind, seed=node.seed, seconds=0.0, recorded_seconds=recorded.seconds)
    folder = place.scratch.attempt(node.id, recorded.number)
    try:
        source = read_source(place.run.source(node.id))
    except (OSError, UnicodeDecodeError) as error:
        return said.model_copy(update={"failure": f"its code cannot be read: {error}"})
    if sha256_of_files(source) != node.source_sha256:
        return said.model_copy(update={"failure": "its code is not what the record says was run; nothing was executed"})
    outcome = await place.executor.run(Job(
        name=f"{node.id}/again", folder=folder, source=source, seed=node.seed, datasets=place.datasets,
        timeout=recorded.limit or place.timeout, alone=recorded.alone, artifacts=_artifacts(state, node, place.run)))
    said = said.model_copy(update={"seconds": outcome.seconds, "failure": _unlike(recorded, outcome),
                                   "measurements": outcome.measurements})
    if node.id not in state.tests or outcome.failure is not None:
        return said
    try:
        tests = await asyncio.to_thread(score_sealed, folder, place.scratch.labels, seed=node.seed)
        tests += await place.executor.evaluate(folder, seed=node.seed, sealed=outcome.sealed)
    except SubmissionRefused as error:
        return said.model_copy(update={"failure": f"its test predictions cannot be scored: {error}"})
    return said.model_copy(update={"tests": tests})


def _unlike(recorded: Attempt, outcome: Outcome) -> str:
    """How the end of an attempt differs from the recorded one; empty where it does not."""
    before, after = recorded.failure, outcome.failure
    if (before and before.kind) == (after and after.kind):
        return ""
    words = f"failed ({after.kind}): {after.message}" if after else "ran to its end"
    return f"{words}; by the record it {f'failed ({before.kind})' if before else 'ran to its end'}"


def _artifacts(state: RunState, node: Node, run: RunFolder) -> dict[str, Left]:
    """What the node's decision saw that others had left, as recorded."""
    seen = state.decisions[node.decision].seen
    return {one.id: Left(run.attempt(one.id, one.attempts[-1].number), one.attempts[-1].artifacts)
            for one in state.nodes.values() if one.decision in seen and one.status == "good"
            and one.attempts and one.attempts[-1].artifacts}


# --- comparing ------------------------------------------------------------------------------------------------------


def numbers(state: RunState, ran: Sequence[NodeAgain], *, same: bool) -> Iterator[Number]:
    """Every number that these nodes bear on, claims of the paper first; `same` asks for equal digits."""
    told = {one.node: one for one in ran}
    after = _with(state, told)
    covered: set[tuple[str, Quantity]] = set()
    claims, found = claims_of(state)
    later, differences = claims_of(after)
    by_key = {one.key: one for one in (*later, *differences)}
    for claim in (*claims, *found):
        if here := [node for node in claim.nodes if node in told]:
            yield _number(_of_claim(claim, by_key.get(claim.key), here), same=same)
    covered |= {(node, (one.split, one.dataset, one.name, one.condition)) for one in claims for node in one.nodes}
    for cell in _cells(state, told, covered):
        yield _number(cell, same=same)


@dataclass(frozen=True)
class _Cell:
    """Values before and after, node by node; `sd` is over all `of` replicates. `texts` are both as they are printed,
    by form (`pm`, `ci` ...), where all that it is a mean over ran again."""

    key: str
    claim: bool
    nodes: tuple[str, ...]
    recorded: tuple[float, ...]
    again: tuple[float | None, ...]
    sd: float | None
    of: int
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


def _with(state: RunState, told: Mapping[str, NodeAgain]) -> RunState:
    """The state as if these nodes had measured what they measured again; what was not measured again is gone."""
    nodes = dict(state.nodes)
    for name, one in told.items():
        *earlier, last = nodes[name].attempts
        attempts = (*earlier, last.model_copy(update={"measurements": one.measurements}))
        nodes[name] = nodes[name].model_copy(update={"attempts": attempts})
    return replace(state, nodes=nodes, tests=state.tests | {
        name: one.tests for name, one in told.items() if name in state.tests})


def _of_claim(claim: Claim, after: Claim | None, here: Sequence[str]) -> _Cell:
    before = dict(zip(claim.nodes, claim.values, strict=True))
    again = dict(zip(after.nodes, after.values, strict=True)) if after is not None else {}
    whole = after is not None and after.nodes == claim.nodes == tuple(here)
    texts = {key.rpartition(".")[2]: (text, printed([after])[key]) for key, text in printed([claim]).items()
             } if whole and after else {}
    return _Cell(claim.key, True, tuple(here), tuple(before[node] for node in here),
                 tuple(again.get(node) for node in here), claim.sd, claim.n, texts)


def _cells(
    state: RunState, told: Mapping[str, NodeAgain], covered: set[tuple[str, Quantity]]
) -> Iterator[_Cell]:
    """Values that no claim is made of: on validation data, and of the seed that the search looked at."""
    for name, one in told.items():
        node = state.nodes[name]
        top = node.parent if node.kind == "replicate" and node.parent else name
        noise = _values(state, replicates_of(state, top))
        after = {_quantity(m): m.value for m in (*one.measurements, *one.tests)}
        for measured in (*node.measurements, *state.tests.get(name, ())):
            quantity = _quantity(measured)
            if (name, quantity) not in covered:
                spread = noise.get(quantity, [])
                yield _Cell(f"{name}:{'/'.join(quantity)}", False, (name,), (measured.value,), (after.get(quantity),),
                            interval(spread)[0], len(spread))


def _values(state: RunState, nodes: Iterable[Node]) -> dict[Quantity, list[float]]:
    found: dict[Quantity, list[float]] = {}
    for node in nodes:
        for one in (*node.measurements, *state.tests.get(node.id, ())):
            found.setdefault(_quantity(one), []).append(one.value)
    return found


def _quantity(one: Measurement) -> Quantity:
    return one.split, one.dataset, one.name, one.condition


def _number(cell: _Cell, *, same: bool) -> Number:
    again = [value for value in cell.again if value is not None]
    lost = len(again) < len(cell.again)
    off = None if lost else abs(fmean(again) - fmean(cell.recorded))
    noise = allowed(cell.sd, cell.of, len(cell.nodes))
    equal = not lost and all(a == b for a, b in (*zip(map(_text, cell.recorded), map(_text, cell.again), strict=True),
                                                 *cell.texts.values()))
    verdict: Verdict = "missing" if lost else "equal" if equal else "different"
    if verdict == "different" and not same and off is not None and noise is not None and off <= noise:
        verdict = "within noise"
    return Number(key=cell.key, claim=cell.claim, nodes=cell.nodes, of=max(cell.of, 1), off=off, noise=noise,
                  recorded=_shown(cell, cell.recorded, 0), again=_shown(cell, cell.again, 1), verdict=verdict)


def _text(value: float | None) -> str:
    """A value of one seed as the appendix prints it."""
    return "missing" if value is None else f"{value:.4g}"


def _shown(cell: _Cell, values: Iterable[float | None], side: int) -> str:
    """Mean and interval of a claim all of whose nodes ran, else the values of those that did."""
    if not cell.texts:
        return ", ".join(map(_text, values))
    return " ".join(as_read(cell.texts[form][side]) for form in ("pm", "ci"))


def allowed(sd: float | None, replicates: int, ran: int) -> float | None:
    """How far the mean over `ran` replicates may be from that over the same seeds before; None: no noise is known."""
    if sd is None or replicates < 2:
        return None
    from scipy.stats import t  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    quantile = float(t.ppf(1 - CHANCE / 2, replicates - 1))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return quantile * sd * math.sqrt(2 / ran)
