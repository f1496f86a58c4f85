"""What a study leaves to a next one: its surprises, and the verdicts that are open.

Each finding names a key of the record and quotes the record in a sentence that this module writes, so that the reasons
of an idea that follows a study can be checked (`FollowedStudy.find_finding`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from labwright.record.ablation_results import collect_ablation_results
from labwright.record.branching import hash_events
from labwright.record.claims.estimates import find_winner
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.sentences import describe_need, describe_support, describe_units
from labwright.record.errors import UsageError
from labwright.record.event_log import read_rows
from labwright.record.ideation import StudyFinding
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import find_reference_wins
from labwright.record.run_folder import RunFolder, hash_texts, read_source, write_file
from labwright.record.schema import describe_validation_error
from labwright.record.schema.earlier_study import (
    EarlierCode,
    EarlierEffect,
    EarlierFailure,
    EarlierStudy,
    EarlierVerdict,
    RecalledStudy,
)
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import SEARCH_KINDS
from labwright.record.source_tree import select_code
from labwright.record.tuning_results import find_chosen
from labwright.record.untrusted_files import open_plain_file


def list_surprises(state: RunState) -> tuple[StudyFinding, ...]:
    """Return what a study measured against its expectations: refuted hypotheses, measurements that agree with the rival
    explanation, the surprise that the planner of ablations named, and reference models that beat every arm.

    Before the confirmation, the verdicts are previews on validation data.
    """
    found = [finding for one in decide_hypotheses(state) for finding in find_surprises(one)]
    for each in (one for one in collect_ablation_results(state) if one.surprise is not None):
        quote = f"{each.surprise and each.surprise.finding} (its control {each.ablation.name}: {each.outcome})"
        found.append(StudyFinding(key=f"ablation/{each.ablation.name}", verdict="surprise", quote=quote))
    for win in find_reference_wins(state) if state.search.data_plan is not None else ():
        quote = f"the reference model {win.condition} beats every arm on {win.dataset} ({win.mean:.4g})"
        found.append(StudyFinding(key=f"reference/{win.dataset}", verdict="better", quote=quote))
    return tuple(found)


def list_open_verdicts(state: RunState) -> tuple[StudyFinding, ...]:
    """Return the hypotheses whose verdict is open, and the alternative forms in which a supported one does not hold."""
    return tuple(found for one in decide_hypotheses(state) for found in find_open_verdicts(one))


def find_surprises(one: HypothesisDecision) -> Iterator[StudyFinding]:
    """Yield the surprises of a hypothesis: that it is refuted, and that its rival explanation is right."""
    if one.verdict == "refuted":
        yield _describe_verdict(one)
    rival, sign = one.hypothesis.rival, one.rival_sign
    if rival is not None and one.rival is not None and sign is not None and one.has_effect and sign == rival.theirs:
        said = f"`{rival.estimand}` is {sign}{_format_estimate(one.rival)}, as the rival explanation says"
        yield StudyFinding(key=f"{one.key}/rival", verdict=sign, quote=f"{said}: {rival.statement}")


def find_open_verdicts(one: HypothesisDecision) -> Iterator[StudyFinding]:
    """Yield what a hypothesis leaves open: its verdict or, if it is supported, other forms of the question."""
    if one.verdict == "open":
        yield _describe_verdict(one)
    if one.verdict == "supported":
        for key, part in one.parts_by_key.items():
            if "/alternative-" in key and part.verdict != "supported":
                said = f"`{part.effect.estimand}`: {describe_support(part)}{_format_estimate(part)}"
                yield StudyFinding(
                    key=key, verdict=part.verdict, quote=f"{one.hypothesis.name} in another form, {said}"
                )


def _describe_verdict(one: HypothesisDecision) -> StudyFinding:
    parts = list[str]()
    for part in one.parts:
        said = (
            f"`{part.effect.estimand}`: {describe_support(part)}{_format_estimate(part)}, {describe_units(one, part)}"
        )
        parts.append("; ".join(filter(None, (said, describe_need(part)))))
    status = "preview on validation data" if one.hypothesis.confirmatory else "exploratory"
    preview = "" if one.confirmed else f" ({status})"
    statement = one.hypothesis.statement.rstrip(".")
    return StudyFinding(
        key=one.key, verdict=one.verdict, quote=f'"{statement}" is {one.verdict}{preview}: {"; ".join(parts)}'
    )


def _format_estimate(part: EffectDecision) -> str:
    interval = f" [{part.low:.4g}, {part.high:.4g}]" if part.low is not None and part.high is not None else ""
    return "" if part.mean is None else f", {part.mean:.4g}{interval}"


# A memory: a folder with one small record (`record.schema.earlier_study`) of each finished study, as ID.json. A
# record is written atomically at the end of a study, and written again if the same study ends again. Records are
# material that later prompts show, so the folder is treated as untrusted: only plain files of at most
# `MAX_RECORD_BYTES` are read, and one that is no record is reported. Limits: the records of two studies are ranked by
# the names of their data and by common words, so a related study in other words may not be shown. A record may be
# edited by anyone who can write to the folder; `digest` shows what it was made from.

MAX_RECORD_BYTES = 200_000
MAX_RECORDS = 5000
MAX_RECALLED = 6
MAX_CODE_CHARS = 16_000
MAX_FAILURES = 5
MAX_MESSAGE_CHARS = 300


class MemoryContents(NamedTuple):
    """The records of a memory, newest first, and the files that are no record, each with the reason."""

    studies: tuple[EarlierStudy, ...] = ()
    problems: tuple[str, ...] = ()


def read_memory(folder: Path) -> MemoryContents:
    """Read the records of a memory; an absent folder has none."""
    studies, problems = list[EarlierStudy](), list[str]()
    for path in sorted(folder.glob("*.json"))[:MAX_RECORDS] if folder.is_dir() else ():
        try:
            with open(open_plain_file(path), "rb") as file:
                text = file.read(MAX_RECORD_BYTES + 1)
            if len(text) > MAX_RECORD_BYTES:
                raise ValueError(f"more than {MAX_RECORD_BYTES} bytes")
            study = EarlierStudy.model_validate_json(text)
            if path.stem != study.id:
                raise ValueError(f"its id is {study.id}")
            studies.append(study)
        except (ValueError, OSError) as error:
            why = describe_validation_error(error) if isinstance(error, ValidationError) else error
            problems.append(f"{path.name} is not a record of a study: {why}")
    return MemoryContents(tuple(sorted(studies, key=lambda one: -one.finished_at)), tuple(problems))


def keep_study(folder: Path, study: EarlierStudy) -> Path:
    """Write a record to a memory and return its path. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{study.id}.json"
    write_file(path, study.model_dump_json(indent=1) + "\n")
    return path


def forget_studies(folder: Path, name: str = "") -> tuple[EarlierStudy, ...]:
    """Delete the record with this id or of this run, or all records; return them. Raises `UsageError`."""
    known = read_memory(folder).studies
    chosen = tuple(one for one in known if not name or name in (one.id, one.run))
    if name and not chosen:
        raise UsageError(f"{folder} has no record {name!r}: list the records with 'scientist memory list {folder}'")
    for one in chosen:
        (folder / f"{one.id}.json").unlink(missing_ok=True)
    return chosen


# --- records --------------------------------------------------------------------------------------------------------


def build_earlier_study(state: RunState, folder: RunFolder, *, failed: str) -> EarlierStudy:
    """Build the record of a study that has ended; `failed` says why its last version of the paper was not released.

    Raises `RecordError`.
    """
    assert state.started is not None
    if state.paper.current is not None and state.paper.current.released.released:
        failed = ""
    idea, plan = state.started.idea, state.search.data_plan
    metrics = (name for one in (plan.metrics if plan is not None else ()) for name in (one.name, one.title) if name)
    return EarlierStudy(
        id=hashlib.sha256(f"{folder.root.name}\n{state.started_at}".encode()).hexdigest()[:12],
        run=folder.root.name,
        digest=hash_events(read_rows(folder.events)),
        finished_at=state.last_event_at,
        version=state.started.version,
        name=idea.name,
        title=idea.title,
        short_hypothesis=idea.short_hypothesis,
        idea_sha256=hash_idea(idea),
        failed=failed[:MAX_MESSAGE_CHARS],
        datasets=tuple(one.name for one in state.search.datasets),
        metrics=tuple(dict.fromkeys(metrics)),
        verdicts=tuple(map(_to_earlier_verdict, decide_hypotheses(state))),
        failures=_collect_failures(state),
        code=_collect_code(state, folder),
    )


def _to_earlier_verdict(one: HypothesisDecision) -> EarlierVerdict:
    effects = (
        EarlierEffect(
            estimand=part.effect.estimand, mean=part.mean, low=part.low, high=part.high, seeds=len(part.values)
        )
        for part in one.parts
    )
    return EarlierVerdict(
        key=one.hypothesis.id,
        statement=one.hypothesis.statement,
        verdict=one.verdict,
        confirmed=one.confirmed,
        effects=tuple(effects),
    )


def _collect_failures(state: RunState) -> tuple[EarlierFailure, ...]:
    """Return the most frequent failures of the search's experiments, by their kind and first line."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for node in state.nodes.values():
        if node.kind in SEARCH_KINDS and node.failure is not None and not node.failure.ours:
            first = (node.failure.message.strip().splitlines() or [""])[0][:MAX_MESSAGE_CHARS]
            nodes.setdefault((node.failure.kind, first), []).append(node.id)
    frequent = sorted(nodes.items(), key=lambda one: -len(one[1]))[:MAX_FAILURES]
    return tuple(EarlierFailure(kind=kind, message=message, nodes=tuple(ids)) for (kind, message), ids in frequent)


def _collect_code(state: RunState, folder: RunFolder) -> EarlierCode | None:
    """Return the code of the reported node; None without one."""
    best = find_winner(state)
    if best is None or state.nodes[best].suspect:
        return None
    node, files = state.nodes[best], select_code(read_source(folder.get_source_path(best)))
    chosen = find_chosen(state, best) if best in state.required_cells else {}
    return EarlierCode(
        node=node.id,
        title=node.title,
        plan=node.plan,
        varies=node.varies,
        sha256=hash_texts(files),
        settings={arm: one.setting for arm, one in chosen.items() if one.setting},
        files=files if sum(map(len, files.values())) <= MAX_CODE_CHARS else {},
    )


def hash_idea(idea: Idea) -> str:
    """Return the hash of an idea's title and hypothesis, which ignores case, spacing and punctuation."""
    words = re.findall(r"\w+", f"{idea.title} {idea.short_hypothesis}".casefold())
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


# --- choice ---------------------------------------------------------------------------------------------------------


def select_studies(
    studies: Iterable[EarlierStudy], text: str, *, idea_sha256: str = "", datasets: Sequence[str] = ()
) -> tuple[RecalledStudy, ...]:
    """Return the records that prompts about a text show, at most `MAX_RECALLED`, each with the reason.

    First that of the same idea, then by the number of common datasets, then by the share of common words that are rare
    in the memory, then the newest.
    """
    known = sorted(studies, key=lambda one: -one.finished_at)
    words_by_study = {one.id: _split_words(f"{one.title} {one.short_hypothesis}") for one in known}
    frequency, wanted = Counter(word for words in words_by_study.values() for word in words), _split_words(text)
    ranked = list[tuple[tuple[float, ...], RecalledStudy]]()
    for one in known:
        same = bool(idea_sha256) and one.idea_sha256 == idea_sha256
        data = [name for name in one.datasets if name in datasets or name.casefold() in wanted]
        common = sorted(words_by_study[one.id] & wanted, key=lambda word: (frequency[word], word))
        reasons = ["the same idea"] * same
        reasons += [f"the same data: {', '.join(data)}"] * bool(data)
        reasons += [f"common words: {', '.join(common[:5])}"] * bool(common)
        score = (same, len(data), sum(1 / frequency[word] for word in common))
        ranked.append((score, RecalledStudy(study=one, why="; ".join(reasons) or "one of the latest")))
    ranked.sort(key=lambda one: one[0], reverse=True)
    return tuple(one for _, one in ranked[:MAX_RECALLED])


def _split_words(text: str) -> set[str]:
    return set(re.findall(r"\w{5,}", text.casefold()))


def format_study_json(studies: Sequence[EarlierStudy]) -> str:
    """Format records as JSON, without their code."""
    return json.dumps([one.model_dump(mode="json", exclude={"code": {"files"}}) for one in studies], indent=1)
