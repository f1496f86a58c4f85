"""What the paper rests on is run again with something changed (`review.honesty.probe`), before test is unsealed.

The winner in full: seed, labels, rows, names of arms; each ablation with rows alone. What one probe cannot be given of
time or budget ends unclear and says so. A probe executes each cell that it needs once, and rows of each arm one cell.
"""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.record.claims.means import ablations, replicates_of, winner
from labwright.record.descriptors import remove_tree
from labwright.record.events.searching import Probed, Suspected
from labwright.record.folder import read_source
from labwright.record.nouns.cells import Cell
from labwright.record.nouns.data import Measurement
from labwright.record.nouns.decisions import Work
from labwright.record.nouns.nodes import Finding, Node
from labwright.record.source import ENTRY as PROGRAM
from labwright.record.source import PLOTS, code_of
from labwright.record.syntax import reads_of
from labwright.review.honesty.name_probe import arms_probe, exchanged
from labwright.review.honesty.probe import (
    ENTRY,
    PERMUTATIONS,
    TASK,
    Probe,
    labels_probe,
    program,
    seed_probe,
    without_labels,
)
from labwright.review.honesty.row_probe import PROGRAM as ROWS
from labwright.review.honesty.row_probe import rows_probe, same
from labwright.review.honesty.run_facts import frozen_seed
from labwright.review.honesty.weighing import weighed
from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.job import Job, Outcome, TooLate
from labwright.sandbox.scoring import Predictions, chance_level, final_predictions
from labwright.stages.bench import Bench, do_work, note_time, numbered
from labwright.stages.evidence.reading import read_code
from labwright.stages.nodes.cells import again, measured_cells

Kind = Literal["seed", "labels", "rows", "arms"]


async def probe_winners(bench: Bench) -> None:
    """Probe and read the winner; where it turns out suspect, the one that takes its place, too; then the ablations."""

    async def work(client: ModelClient) -> None:
        while (
            (best := winner(bench.state)) is not None
            and not bench.state.nodes[best].suspect
            and not all(_probed(bench, best, kind) for kind in ("seed", "labels", "rows", "arms"))
        ):
            await _Probes(bench, best).all()
        await look_at_ablations(bench, client)

    await do_work(bench, TASK, work)


async def look_at_ablations(bench: Bench, client: ModelClient) -> None:
    """Probe the rows of the ablations that the paper reports, and have all code read, as far as it is not done."""
    probes = [_Probes(bench, node.id) for node in ablations(bench.state) if not _probed(bench, node.id, "rows")]
    seen = await asyncio.gather(*(one.rows_seen() for one in probes))
    for one, found in zip(probes, seen, strict=True):
        one.record("rows", *found)
    await read_code(bench, client)


def _probed(bench: Bench, node: str, probe: str) -> bool:
    return any(one.node == node and one.probe == probe for one in bench.state.probes)


def chosen_cells(cells: Sequence[Cell], reads: Mapping[str, str]) -> tuple[Cell, ...]:
    """Of each arm the first cell, and the cells whose artifacts these read."""
    chosen = list({cell.arm: cell for cell in reversed(cells)}.values())
    for cell in chosen:  # which grows meanwhile
        chosen += [
            one
            for one in cells
            if one not in chosen
            and one.arm == reads.get(cell.arm)
            and (one.dataset, one.level, one.seed) == (cell.dataset, cell.level, cell.seed)
        ]
    return tuple(one for one in cells if one in chosen)


class NotRunError(Exception):
    """A probe cannot be carried out; the message says why."""


class _Probes:
    """The probes of one node."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.name = name
        source = read_source(bench.folder.source(name))
        self.code = {path: text for path, text in source.items() if path != PLOTS}
        self.seconds = 0.0
        self.taken = list[str]()
        """What was reserved in the budget, by name."""

    @property
    def node(self) -> Node:
        return self.bench.state.nodes[self.name]

    async def all(self) -> None:
        """All of them, as far as they are not recorded; nothing more of a node that turned out suspect."""
        for kind, probe in (("seed", self.seed), ("labels", self.labels), ("rows", self.rows), ("arms", self.arms)):
            if not _probed(self.bench, self.name, kind) and not self.node.suspect:
                await probe()

    async def seed(self) -> None:
        """The replicates ran the same code with other seeds; whether any value differs."""
        found = seed_probe(self.node.measurements, self._replicates(), self.bench.plan.primary)
        signs = weighed(frozen_seed(code_of(self.code)) if found.outcome == "still" else (), self.node.findings)
        if signs:
            self.bench.recorder.append(Suspected(node=self.name, findings=signs))
        self.record("seed", found)

    async def labels(self) -> None:
        """With permuted labels. What one permutation may take of the GPUs is left free from the start
        (`stages.shares`)."""
        metric, found, measured, runs = self.bench.plan.primary, Probe("still", ""), tuple[Measurement, ...](), 0
        chance = await to_thread(chance_level, self.bench.folder.labels, metric.name)
        try:
            if not any(".y" in text for text in code_of(self.code).values()):
                raise NotRunError("not run: the code reads no labels")
            while found.outcome == "still" and runs < PERMUTATIONS:
                outcome = await self._run("labels", runs, {ENTRY: program(runs)}, entry=ENTRY)
                runs, measured = runs + 1, outcome.measurements
                arms = without_labels(await self._before(), await self._after("labels", runs - 1), self.bench.plan)
                if arms:
                    found = Probe(
                        "still",
                        f"with permuted training labels the predictions of {', '.join(arms)} are "
                        "the same to the last digit: they do not come from the labels",
                    )
                    break
                found = labels_probe(self.node.measurements, measured, metric=metric, chance=chance)
            found = found._replace(why=f"{found.why} (permutation {runs} of at most {PERMUTATIONS})")
        except NotRunError as error:
            found = Probe("unclear", f"{found.why}; {error}" if found.why else str(error))
        self.record("labels", found, measured)

    async def rows(self) -> None:
        """With every second row to be predicted replaced."""
        self.record("rows", *await self.rows_seen())

    async def rows_seen(self) -> tuple[Probe, tuple[Measurement, ...]]:
        """What becomes of predictions where every second row is replaced, and what was measured.

        Where others move too, the code is run once more unchanged: code that gives other values by itself has shown
        nothing.
        """
        plan, measured = self.bench.plan, tuple[Measurement, ...]()
        try:
            before, cells = (
                await self._before(),
                chosen_cells(self._measured(), reads_of(self.code.get(PROGRAM, "")) or {}),
            )
            if not before:
                raise NotRunError("not run: no predictions were handed in")
            measured = (await self._run("rows", 0, {ENTRY: ROWS}, entry=ENTRY, cells=cells)).measurements
            words = " ".join([plan.task, plan.notes, *(f"{one.title} {one.description}" for one in plan.arms)])
            found = rows_probe(before, await self._after("rows", 0), plan, words=words)
            if found.outcome == "still":
                await self._run("rows", 1, {}, cells=cells)
                known = {(one.dataset, one.condition): one.values for one in before}
                if not all(
                    same(known[one.dataset, one.condition], one.values).all()
                    for one in await self._after("rows", 1)
                    if (one.dataset, one.condition) in known
                ):
                    found = Probe("unclear", "run once more unchanged, the code predicts other values")
        except NotRunError as error:
            found = Probe("unclear", str(error))
        return found, measured

    async def arms(self) -> None:
        """With the names of baseline and method exchanged, in a program of cells."""
        measured = tuple[Measurement, ...]()
        try:
            names, cells = self._pair()
            turned, replicates = exchanged(self.code, names), self._replicates()
            if turned is None or len(replicates) < 2:
                raise NotRunError(
                    "not run: the code uses the names of its arms in other ways than as texts"
                    if turned is None
                    else "not run: there are no two good replicates to compare with"
                )
            other = dict(zip(names, reversed(names), strict=True))
            told = {cell.model_copy(update={"arm": other[cell.arm]}): cell for cell in cells}
            measured = (await self._run("arms", 0, turned, whole=True, told=told)).measurements
            found = arms_probe(
                self.node.measurements, measured, replicates, names=names, metric=self.bench.plan.primary
            )
        except NotRunError as error:
            found = Probe("unclear", str(error))
        self.record("arms", found, measured)

    # --- what they share ----------------------------------------------------------------------------------------------

    def _replicates(self) -> list[tuple[Measurement, ...]]:
        return [one.measurements for one in replicates_of(self.bench.state, self.name) if one.status == "good"]

    async def _before(self) -> tuple[Predictions, ...]:
        """What the node handed in."""
        with suppress(SubmissionRefused):
            folder = self.bench.folder.attempt(self.name, self.node.attempts[-1].number)
            return await to_thread(final_predictions, folder, self.bench.folder.labels)
        return ()

    async def _after(self, kind: Kind, number: int) -> tuple[Predictions, ...]:
        with suppress(SubmissionRefused):
            return await to_thread(final_predictions, self._folder(kind, number), self.bench.folder.labels)
        return ()

    def _folder(self, kind: Kind, number: int) -> Path:
        return self.bench.folder.root / "probes" / self.name / f"{kind}{number}"

    def _measured(self) -> list[Cell]:
        """The cells behind the node's numbers, those on the smallest data first: seconds differ from run to run, and
        would have each look at other cells. None of a program that does all at once."""
        sizes = {one.name: one.features * sum(one.sizes.values()) for one in self.bench.facts}
        return sorted((line.cell for line in measured_cells(self.node)), key=lambda cell: sizes.get(cell.dataset, 0))

    def _pair(self) -> tuple[tuple[str, str], tuple[Cell, Cell]]:
        """The names of a baseline and of the method, with a cell of each at one place, on the smallest data."""
        measured = self._measured()
        roles = {arm.name: arm.role for arm in self.bench.plan.arms}
        pairs = [
            (a, b)
            for a in measured
            for b in measured
            if roles.get(a.arm) == "baseline"
            and (roles.get(b.arm) == "method")
            and (a.dataset, a.level) == (b.dataset, b.level)
        ]
        if not pairs or reads_of(self.code.get(PROGRAM, "")):
            raise NotRunError("not run: the program has no cells of a baseline and of the method that stand alone")
        a, b = pairs[0]
        return (a.arm, b.arm), (a, b)

    async def _run(
        self,
        kind: Kind,
        number: int,
        changed: Mapping[str, str],
        *,
        entry: str = PROGRAM,
        whole: bool = False,
        cells: tuple[Cell, ...] = (),
        told: Mapping[Cell, Cell] | None = None,
    ) -> Outcome:
        """What comes of the node's code with some files changed, or only these; of its `cells`, or of those that it is
        `told` in place of others. Raises `NotRunError`, also where it fails."""
        bench, name, folder = self.bench, f"{self.name}/{kind}{number}", self._folder(kind, number)
        if (why := self._barred()) is not None:
            raise NotRunError(f"not run: {why}")
        try:
            if bench.budget is not None:
                bench.budget.reserve_attempt(numbered(bench.recorder, Work(task=TASK)), name, bench.retry_seconds)
                self.taken.append(name)
            await to_thread(remove_tree, folder, ignore_errors=True)  # what a kill left
            job = again(
                Job(
                    name=name,
                    folder=folder,
                    source=dict(changed) if whole else self.code | dict(changed),
                    entry=entry,
                    seed=self.node.seed,
                    timeout=bench.retry_seconds,
                    late=lambda: bench.seconds_left() <= 0,
                    datasets=tuple(use.name for use in bench.plan.datasets),
                ),
                self.node,
                bench.state,
            )
            if told:
                job = replace(
                    job,
                    cells=tuple(told),
                    keys={},
                    expected={},
                    settings={cell: job.settings.get(was, {}) for cell, was in told.items()},
                )
            outcome = await bench.executor.run(replace(job, cells=cells) if cells and job.cells else job)
        except BudgetSpent as error:
            raise NotRunError(f"not run: {error}") from error
        except TooLate:
            note_time(bench)
            raise NotRunError(f"not run: {bench.state.limited}") from None
        self.seconds += outcome.seconds
        if outcome.failure is not None:
            raise NotRunError(f"the code failed: {outcome.failure.message}")
        return outcome

    def _barred(self) -> str | None:
        """Why nothing is executed."""
        if self.bench.state.limited is not None:
            return self.bench.state.limited
        if self.bench.plan.subjects:
            return "it asks language models"
        return "a repository reads its own data" if self.bench.repository is not None else None

    def record(self, kind: Kind, found: Probe, measured: tuple[Measurement, ...] = ()) -> None:
        """What came of a probe; suspect where it is what honest code does not do."""
        bench, budget = self.bench, self.bench.budget
        if found.outcome == "still" and kind != "seed":
            bench.recorder.append(Suspected(node=self.name, findings=(Finding(kind=kind, why=found.why),)))
        bench.recorder.append(
            Probed(
                node=self.name,
                probe=kind,
                seconds=self.seconds,
                measurements=measured,
                outcome=found.outcome,
                why=found.why,
            )
        )
        if budget is not None:
            for name in self.taken:
                budget.give_back(name)  # what was taken is settled by now
        self.seconds, self.taken = 0.0, []
