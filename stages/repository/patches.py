"""Arms of a study that a model makes by patches of the repository: what it is shown, and which patches may run.

A patch is refused, and asked for once more with the reason, where it does not fit, leaves an arm as the repository is,
touches the baseline, what is frozen or what measures, or swallows an exception.
"""

from __future__ import annotations

import re
from asyncio import to_thread
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath

from labwright.models.client import ModelClient
from labwright.models.errors import ModelOutputInvalid
from labwright.models.roles.coding import AuthorInputs, Program
from labwright.models.roles.patching import ARM_PATCH, ArmPatch, ArmShown, Patches, PatchingInputs, RepositoryShown
from labwright.models.roles.repository import Shown
from labwright.record.edits import changed
from labwright.record.estimands import main_arms
from labwright.record.events.repository import BaselineChecked
from labwright.record.events.searching import Decided
from labwright.record.folder import read_source
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.repository import written
from labwright.record.repository_source import ArmCode, Code, arm_in, program_of
from labwright.record.source import SourceError
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.repository.metric import parse_metric
from labwright.stages.bench import Bench, UserRepository
from labwright.stages.briefs import code_inputs
from labwright.stages.nodes.cells import arms_of
from labwright.stages.repository.context import context_of, requested
from labwright.stages.repository.scope import tampers

REQUESTS, REFUSALS = 3, 2
"""Times that an author may ask to see more, and is asked again where an answer cannot be used."""
EVALUATES = re.compile(r"metric|accurac|evaluat|(^|[._])(rmse|mse|auc|f1|r2)$", re.IGNORECASE)
"""Names of what computes a metric; narrower than where a part is taken out, since an arm may have scores of its own."""


class NothingLeftError(Exception):
    """The author was free to say that nothing is worth trying, and said so; the message is why."""


def by_words(plan: DataPlan) -> bool:
    """Whether words alone make every arm, so that no patch is written."""
    return all(arm.words for arm in plan.arms if arm.role != "baseline")


def search_of(plan: DataPlan) -> dict[str, int]:
    """Settings of the search of a repository's study, by key. Where words make all arms one program measures them, and
    none is searched for; no reference arms of ours are of use."""
    if not by_words(plan):
        return {"search.ladder": False}
    ablated = any(arm.role == "ablation" for arm in plan.arms)
    return {
        "search.ladder": False,
        "search.num_drafts": 1,
        "search.planned_ablations": 0,
        "search.preliminary.nodes": 2,
        "search.agenda.nodes": 1,
        "search.ablation.nodes": 2 if ablated else 1,
    }


async def patched_program(
    bench: Bench, decided: Decided, client: ModelClient, code: Code
) -> tuple[Program, dict[str, str], tuple[str, ...]]:
    """The program that measures arms as a model makes them, its files, and arms beside those of the plan.

    Raises `NothingLeftError`, `ModelError`.
    """
    assert bench.repository is not None and isinstance(decided.action, Expand)
    if any(arm.name == decided.action.arm and arm.role == "baseline" for arm in bench.plan.arms):
        raise NothingLeftError(f"{decided.action.arm} is a baseline, which no patch changes")
    inputs = await to_thread(_inputs, bench, decided)
    before = {one.name: ArmCode(words=one.words, patch=one.patch) for one in inputs.made} or {
        arm.name: ArmCode(words=arm.words) for arm in bench.plan.arms
    }
    author, refusals = Author(bench.repository, code, bench.plan, inputs, before), 0
    while True:
        answer = await client.ask(ARM_PATCH, inputs)
        if answer.nothing_left and inputs.covered:
            raise NothingLeftError(answer.nothing_left)
        if answer.wants and not answer.patches:
            inputs = await to_thread(author.shown, inputs, answer.wants)
            continue
        try:
            arms = await to_thread(author.arms, answer)
            return (
                Program(title=answer.title, plan=answer.plan, varies=answer.varies),
                program_of(bench.plan.arms, code, arms),
                answer.added(inputs),
            )
        except (SourceError, RepositoryError) as error:
            refusals += 1
            if refusals > REFUSALS:
                raise ModelOutputInvalid(f"no patch that may run after {refusals} tries: {error}") from None
            inputs = inputs.model_copy(update={"complaints": (str(error),)})


@dataclass(frozen=True)
class Author:
    """What answers of one author become."""

    repository: UserRepository
    code: Code
    plan: DataPlan
    inputs: AuthorInputs
    before: Mapping[str, ArmCode]
    """What makes each arm in the node to start from."""

    def shown(self, inputs: PatchingInputs, wants: Sequence[str]) -> PatchingInputs:
        """The same question, with what was asked to be seen."""
        texts = self.repository.mirror.texts(self._tree(self.before.get(self._method, ArmCode())))
        found, missed = requested(wants, texts)
        seen = {(one.path, one.first): one for one in (*inputs.requested, *found)}
        return inputs.model_copy(
            update={"requested": tuple(seen.values()), "complaints": missed, "requests_left": inputs.requests_left - 1}
        )

    def arms(self, answer: Patches) -> dict[str, ArmCode]:
        """What makes each arm after an answer. Raises `SourceError`, `RepositoryError` where it may not run."""
        added, arms = answer.added(self.inputs), dict(self.before)
        for patch in answer.patches:
            for arm in patch.arms:
                self._may_change(arm, added)
                arms[arm] = self._made(patch, self._start(patch, arm, arms))
        if arms == self.before:
            raise SourceError("patches: nothing is changed by them")
        self._differ(arms, added)
        return arms

    @property
    def _method(self) -> str:
        return next(arm.name for arm in self.plan.arms if arm.role == "method")

    def _tree(self, arm: ArmCode) -> str:
        return self.repository.mirror.patched(self.code.tree, arm.patch)

    def _may_change(self, arm: str, added: Sequence[str]) -> None:
        role = next((one.role for one in self.plan.arms if one.name == arm), "")
        if role == "baseline":
            raise SourceError(f"patches: {arm} is the baseline, the repository as it is: no patch changes it")
        if added and arm not in added:
            raise SourceError(f"patches: an ablation makes its own arm, {added[0]}, and leaves {arm} as it is")
        if not role and arm not in self.before and arm not in added:
            raise SourceError(
                f"patches: there is no arm {arm!r}; the plan has "
                f"{', '.join(one.name for one in self.plan.arms if one.role != 'baseline')}"
            )
        if self.inputs.arm and arm != self.inputs.arm:
            raise SourceError(f"patches: only {self.inputs.arm} is to be made better, and {arm} stays as it is")

    def _start(self, patch: ArmPatch, arm: str, arms: Mapping[str, ArmCode]) -> ArmCode:
        if patch.start:
            if patch.start not in arms:
                raise SourceError(f"start: there is no arm {patch.start!r}; there are {', '.join(arms)}")
            return arms[patch.start]
        own = arms.get(arm, ArmCode())
        return arms[self._method] if self.inputs.stage == "ablation" and own == ArmCode() else own

    def _made(self, patch: ArmPatch, start: ArmCode) -> ArmCode:
        mirror = self.repository.mirror
        tree = self._tree(start)
        texts, after = mirror.texts(tree), dict[str, str]()
        for file in patch.files:
            after[_inside(file.path)] = file.text
        for path in dict.fromkeys(edit.path for edit in patch.edits):
            if path in after:
                raise SourceError(f"{path} is given whole and edited: do one of both")
            if path not in texts:
                raise SourceError(f"edits: there is no text file {path}; a new one goes into files")
            after[path] = changed(texts[path], [edit for edit in patch.edits if edit.path == path], path)
        for path, text in after.items():
            self._may_be(path, text)
        made = mirror.with_files(tree, after) if after else tree
        return ArmCode(
            words=start.words if patch.words is None else patch.words, patch=mirror.difference(self.code.tree, made)
        )

    def _may_be(self, path: str, text: str) -> None:
        base = self.repository.mirror.texts(self.code.tree)
        if pattern := next((one for one in self.repository.frozen if fnmatch(path, one)), ""):
            raise SourceError(f"{path} is frozen ({pattern}): it may not change")
        metrics = [parse_metric(one) for one in (self.code.command.metric, self.code.test_metric) if one]
        if path in (*(one.place for one in metrics), self.code.predictions.partition(":")[0]):
            raise SourceError(f"{path} is where the result is read: the program writes it, no patch does")
        if text != base.get(path) and (why := tampers(path, base.get(path, ""), text, EVALUATES)):
            raise SourceError(why)
        keys = "|".join(re.escape(one.name.rpartition(".")[2]) for one in metrics if one.kind != "stdout")
        writes = re.compile(rf"[\"'](?:{keys})[\"']") if keys else None
        lost = [
            line.strip()
            for line in base.get(path, "").splitlines()
            if writes is not None
            and writes.search(line)
            and line.strip() not in {one.strip() for one in text.splitlines()}
        ]
        if lost and path.endswith(".py"):
            raise SourceError(f"{path}: it changes a line that writes the result, `{lost[0][:120]}`: leave it as it is")

    def _differ(self, arms: Mapping[str, ArmCode], added: Sequence[str]) -> None:
        """Refuse arms that are the repository as it is, or each other."""
        roles = {arm.name: arm.role for arm in self.plan.arms}
        owed = [arm for arm in (*main_arms(self.plan), *added) if roles.get(arm) != "baseline"]
        seen = {(made.words, made.patch): name for name, made in arms.items() if roles.get(name) == "baseline"}
        for arm in dict.fromkeys(owed):
            made = arms.get(arm, ArmCode())
            if (other := seen.get((made.words, made.patch))) is not None:
                raise SourceError(f"arm {arm} is the same as {other}: it has neither words nor a patch of its own")
            seen[made.words, made.patch] = arm


def _inputs(bench: Bench, decided: Decided) -> PatchingInputs:
    """What the author of patches is shown for an expansion."""
    of, action = bench.repository, decided.action
    assert of is not None and isinstance(action, Expand)
    shared = code_inputs(bench, decided)
    made: dict[str, ArmCode] = {}
    if action.parent is not None:
        source, parent = read_source(bench.folder.source(action.parent)), bench.state.nodes[action.parent]
        made = {name: arm_in(source, name) for name in arms_of(parent, bench.plan)}
    return patching(shared, shown_of(of, bench.state.code.baseline, called=bench.plan.primary.name)).model_copy(
        update={
            "changed": _changed(of, made),
            "made": tuple(ArmShown(name=name, words=one.words, patch=one.patch) for name, one in made.items()),
        }
    )


def patching(shared: AuthorInputs, repository: RepositoryShown) -> PatchingInputs:
    """What an author of code is shown, for one of patches."""
    same = {name: getattr(shared, name) for name in AuthorInputs.model_fields}
    return PatchingInputs(**same, repository=repository, requests_left=REQUESTS)


def shown_of(
    of: UserRepository, checked: BaselineChecked | None, *, called: str = "", first: Iterable[str] = ()
) -> RepositoryShown:
    """The repository as it is, as far as it is shown, the files of `first` before others; `called`: its metric."""
    context = context_of(of.mirror.texts(of.code.tree), of.code.command.argv, first)
    read = of.code.command.metric or f"{of.code.predictions}, predictions that the program scores"
    over = (
        "with one seed"
        if checked is None or checked.spread is None
        else (f"over three seeds (sample deviation {checked.spread:.2g})")
    )
    as_it_is = (
        f"{called or of.code.command.metric} {checked.mean:.6g} {over}, in {checked.seconds:.3g} s a run"
        if checked is not None and checked.mean is not None and checked.seconds is not None
        else ""
    )
    return RepositoryShown(
        as_it_is=as_it_is,
        command=written(of.code.command.argv),
        metric=read + (f" ({called})" if called else ""),
        scored=bool(of.code.predictions),
        test_metric=bool(of.code.test_metric),
        map=context.map,
        shown=context.shown,
        left_out=context.left_out,
        frozen=of.frozen,
    )


def _changed(of: UserRepository, made: Mapping[str, ArmCode]) -> tuple[Shown, ...]:
    """Files that the first patched arm changes, as it has them."""
    arm = next((name for name, one in made.items() if one.patch), None)
    if arm is None:
        return ()
    before, after = of.mirror.texts(of.code.tree), of.mirror.texts(of.mirror.patched(of.code.tree, made[arm].patch))
    paths = [path for path, text in after.items() if before.get(path) != text]
    return tuple(one.model_copy(update={"path": f"{one.path} (in {arm})"}) for one in requested(paths, after)[0])


def _inside(path: str) -> str:
    """The path of a new file. Raises `SourceError` where it is none within the repository."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\\" in path or ".." in parts or ".git" in parts or path.endswith("/"):
        raise SourceError(f"files: {path!r} is no path of a file in the repository")
    return path
