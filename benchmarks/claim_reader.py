"""Recall and false refusals of a claim reader, with 95 % Wilson intervals.

python -m benchmarks.claim_reader --model NAME [--base-url URL] [--second NAME] [--run RUN] [--cases N] [--set FILE]
                                  [--out FILE]

`made`: true sentences about a run's record, written from templates, and overclaims that differ from one of them in
direction, arm, metric, level, certainty, generality or cause. `written`: titles, abstracts and passages by an author
who had not seen the checks (benchmarks/wording, its versions in plain words). A text is refused if a claim that the
reader finds in it does not match the record, or if a sentence of it gets no usable reading. RUN is a run's folder or
zip, by default the recorded run.

Limits: a template has one sentence, so `made` does not measure pronouns; a text of `written` is refused as a whole.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.sets import read_set
from labwright.evals.proportions import compute_proportion
from labwright.models.client import Models
from labwright.models.failover import open_backend
from labwright.models.settings import ModelSettings, RoleModel
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import compute_claims
from labwright.record.claims.formatting import format_claims, format_decisions
from labwright.record.claims.hypothesis_tests import ReplicateValues, decide_from_runs, decide_hypotheses
from labwright.record.event_log import MemoryLog
from labwright.record.log_reader import read_state
from labwright.record.printed_value import print_count
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, Measurement
from labwright.record.schema.nodes import Node
from labwright.record.zips import open_run_folder
from labwright.review.claims.comparisons import ClaimRecord
from labwright.review.claims.rules import check_claims
from labwright.review.claims.sentences import split_sentences
from labwright.review.evidence import Evidence
from labwright.stages.paper.claim_check import read_sentences
from labwright.stages.paper.figure_review import expand_macros
from labwright.stages.paper.paper_context import build_paper_claims

SET_FOLDER = Path(__file__).parent / "wording" / "wording.tar.gz"
RECORDED = Path(__file__).parents[1] / "examples" / "recorded-run.zip"
TEMPLATES = (
    "At {level} on {dataset}, {first} {raises} {metric} by {value} compared with {second}.",
    "On {dataset} at {level}, the {metric} of {first} is {higher} than that of {second} (difference {value}).",
    "{first} is {better} than {second} in {metric} on {dataset} at {level}, by {value}.",
    "Compared with {second}, {first} {improves} the {metric} on {dataset} at {level} ({value}).",
    "The {metric} of {first} and {second} on {dataset} at {level} differs by {value}, in favour of {winner}.",
)
OPEN_TEMPLATES = (
    "On {dataset} at {level}, it stays open whether {first} changes {metric} against {second} ({value}).",
    "We find no clear difference in {metric} between {first} and {second} on {dataset} at {level} ({value}).",
)
HONEST_TEMPLATES = (
    "Whether {first} behaves in the same way on other datasets is a question for further work.",
    "We compare {first} with {second} in {metric} on {dataset}.",
    "A possible explanation, which we did not test, is that {first} regularises the network.",
)
OVERCLAIMS = ("direction", "arm", "metric", "level", "certainty", "generality", "cause")


class Case(NamedTuple):
    """A text of the benchmark in LaTeX, by place; `kind` is the swapped field, or empty for a true text."""

    name: str
    kind: str
    parts: Mapping[str, str]
    too_much: bool


def make_cases(record: ClaimRecord, count: int, rng: Random) -> list[Case]:
    """Return `count` true sentences about a record and as many overclaims, evenly over their kinds."""
    pairs = [one for one in record.differences if one.low is not None]
    decided, undecided = [one for one in pairs if one.excludes_zero], [one for one in pairs if not one.excludes_zero]
    found: list[Case] = []
    for number in range(count):
        source, templates = (undecided, OPEN_TEMPLATES) if number % 4 == 3 and undecided else (decided, TEMPLATES)
        template = rng.choice(HONEST_TEMPLATES if number % 8 == 6 else templates)
        found.append(_make_case(f"true-{number}", "", template, _list_words(rng.choice(source), record)))
    for number in range(count):
        kind = OVERCLAIMS[number % len(OVERCLAIMS)]
        text, words = _make_overclaim(kind, record, decided, undecided, rng)
        found.append(_make_case(f"{kind}-{number}", kind, text, words))
    return found


def _make_case(name: str, kind: str, template: str, words: Mapping[str, str]) -> Case:
    text = template.format_map(words)
    return Case(name, kind, {"section 'Results'": text[:1].upper() + text[1:]}, bool(kind))


def _make_overclaim(
    kind: str,
    record: ClaimRecord,
    decided: Sequence[ClaimDifference],
    undecided: Sequence[ClaimDifference],
    rng: Random,
) -> tuple[str, dict[str, str]]:
    """Return a template and its words, one of which the record contradicts."""
    plan, one = record.plan, rng.choice(decided)
    words, template = _list_words(one, record), rng.choice(TEMPLATES)
    if kind == "direction":
        words |= _list_directions(one, record, flipped=True)
    elif kind == "arm":
        others = [record.name_arm(arm) for arm in record.arms if arm not in (one.arm, one.other.partition("@")[0])]
        words["first"] = rng.choice(others or [words["second"]])
        words["second"] = words["second"] if others else _list_words(one, record)["first"]
    elif kind == "metric":
        words["metric"] = plan.name_metric(rng.choice([each.name for each in plan.metrics if each.name != one.name]))
    elif kind == "level":
        words["level"] = plan.name_level(rng.choice([name for name in plan.level_names if name != one.level]))
    elif kind == "certainty" and undecided:
        words = _list_words(rng.choice(undecided), record)
        template = "{first} and {second} have the same {metric} on {dataset} at {level} ({value})."
    elif kind == "certainty":
        template = "It is proven beyond doubt that " + template
    elif kind == "generality":
        template = rng.choice(
            (
                "{winner} is the better choice in {metric}, whatever the data and the network.",
                "In practice, {winner} should replace {loser} wherever {metric} matters.",
            )
        )
    else:
        template = f"{template.removesuffix('.')}, because its representations are smoother."
    return template, words


def _list_words(one: ClaimDifference, record: ClaimRecord) -> dict[str, str]:
    plan, other = record.plan, one.other.partition("@")[0]
    return {
        "first": record.name_arm(one.arm),
        "second": record.name_arm(other),
        "metric": plan.name_metric(one.name),
        "dataset": plan.name_dataset(one.dataset),
        "level": plan.name_level(one.level) if one.level else "the only level",
        "value": rf"\result{{{one.key}.mean}}",
        **_list_directions(one, record),
    }


def _list_directions(one: ClaimDifference, record: ClaimRecord, *, flipped: bool = False) -> dict[str, str]:
    higher = next(each.higher_is_better for each in record.plan.metrics if each.name == one.name)
    rises = (one.mean > 0) != flipped
    wins = rises == higher
    names = [record.name_arm(arm) for arm in (one.arm, one.other.partition("@")[0])]
    return {
        "raises": "raises" if rises else "lowers",
        "higher": "higher" if rises else "lower",
        "better": "better" if wins else "worse",
        "improves": "improves" if wins else "worsens",
        "winner": names[not wins],
        "loser": names[wins],
    }


def build_run_record(path: Path) -> tuple[ClaimRecord, Evidence]:
    """Return the record of a run, and the evidence for its numbers."""
    state = read_state(open_run_folder(path))
    assert state.data_plan is not None, "the run has no plan"
    claims = build_paper_claims(state)
    record = ClaimRecord(state.data_plan, decide_hypotheses(state), claims.means, claims.differences)
    printed = format_claims(claims.all_claims, record.plan) | format_decisions(record.decisions, record.plan)
    return record, Evidence(results=printed)


def build_study_record(study: Mapping[str, Any]) -> tuple[ClaimRecord, Evidence]:
    """Return the record of a study of the written set, and the evidence for its numbers."""
    plan, seeds = DataPlan.model_validate(study["plan"]), list[int](study["seeds"])
    runs = [
        (
            Node(id=f"n{seed}", decision=seed, parent=None, stage="agenda", kind="replicate", seed=seed, status="good"),
            tuple(
                Measurement(
                    name=metric,
                    value=values[place],
                    condition=condition,
                    dataset=dataset,
                    split="test",
                    seed=seed,
                    grade="scored",
                )
                for dataset, cells in study["values"].items()
                for condition, metrics in cells.items()
                for metric, values in metrics.items()
            ),
        )
        for place, seed in enumerate(seeds)
    ]
    facts = tuple(DatasetFacts.model_validate(one) for one in study["facts"])
    state = RunState(data_plan=plan, datasets=facts, nodes={node.id: node for node, _ in runs})
    means = compute_claims("test", runs)
    pairs = compute_differences(state, means)
    decisions = decide_from_runs(
        plan,
        [
            ReplicateValues(node.seed, node.id, {(one.dataset, one.condition, one.name): one.value for one in values})
            for node, values in runs
        ],
        confirmed=True,
    )
    evidence = Evidence(results=format_claims([*means, *pairs]), setups={"run.seeds": print_count(len(seeds))})
    return ClaimRecord(plan, decisions, means, pairs), evidence


def read_written_cases() -> Iterator[tuple[str, list[Case]]]:
    """Yield the texts of the written set by study, in plain words."""
    files = read_set(SET_FOLDER)
    key: dict[str, dict[str, str]] = json.loads(files["key.json"])
    by_study: dict[str, list[Case]] = defaultdict(list)
    for name in ("sentences.json", "abstracts.json"):
        for one in json.loads(files[name]):
            text = one["old"]
            parts = (
                {"section 'Results'": text}
                if isinstance(text, str)
                else {"title": text["title"], "abstract": text["abstract"], "section 'Conclusion'": text["conclusion"]}
            )
            label = key[one["id"]]
            by_study[one["study"]].append(Case(one["id"], label["kind"], parts, label["label"] == "too much"))
    yield from by_study.items()


async def find_refusals(models: Models, record: ClaimRecord, evidence: Evidence, cases: Iterable[Case]) -> set[str]:
    """Return the names of the refused cases. Each case is read as a part of its own, in one go with the others."""
    texts = [(one.name, where, text) for one in cases for where, text in one.parts.items()]
    places = {f"section 'Part {number}'": row for number, row in enumerate(texts, 1)}
    parts = {place: text for place, (_, _, text) in places.items()}
    sentences = [
        replace(one, read_twice="Results" not in places[one.where][1])
        for one in split_sentences(parts, record, lambda source: expand_macros(source, evidence))
    ]
    readings = {one.sha256: one for one in await read_sentences(models.make_client(1, 0), record, sentences, {})}
    return {places[sentence.where][0] for sentence, _ in check_claims(sentences, readings, record)}


def summarise(cases: Sequence[Case], refused: set[str]) -> dict[str, Any]:
    """Return recall by kind and false refusals, with the names of the misses and false refusals."""
    over, fine = ([one for one in cases if one.too_much == wanted] for wanted in (True, False))
    kinds = dict.fromkeys(one.kind for one in over)
    by_kind = {kind: [one for one in over if one.kind == kind] for kind in kinds}
    return {
        "recall": _count(over, refused),
        "false_refusals": _count(fine, refused),
        "recall_by_kind": {kind: _count(rows, refused) for kind, rows in by_kind.items()} if len(kinds) < 10 else {},
        "missed": [one.name for one in over if one.name not in refused],
        "refused": [one.name for one in fine if one.name in refused],
    }


def _count(cases: Sequence[Case], refused: set[str]) -> dict[str, Any]:
    return compute_proportion(sum(one.name in refused for one in cases), len(cases)).model_dump()


def read_own_cases(path: Path) -> list[Case]:
    """Read a set about the run: JSON lines with `id`, `text` (LaTeX) and `kind` (empty: a true text)."""
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return [Case(one["id"], one["kind"], {"section 'Results'": one["text"]}, bool(one["kind"])) for one in rows]


async def measure(settings: ModelSettings, run: Path, count: int, seed: int, own: Path | None = None) -> dict[str, Any]:
    """Return the results of both sets for the configured readers; `own` replaces the written set."""

    def open_models() -> Models:  # calls are numbered from zero
        return Models(open_backend(settings), MemoryLog(), settings, time.monotonic)

    record, evidence = build_run_record(run)
    rng = Random(seed)
    made = make_cases(record, count, rng)
    rng.shuffle(made)
    studies = {one["id"]: one for one in json.loads(read_set(SET_FOLDER)["studies.json"])["studies"]}
    written: list[Case] = []
    refused: set[str] = set()
    if own is not None:
        refused = await find_refusals(open_models(), record, evidence, written := read_own_cases(own))
    for study, cases in read_written_cases() if own is None else ():
        written += cases
        refused |= await find_refusals(open_models(), *build_study_record(studies[study]), cases)
    return {
        "readers": settings.model_names,
        "made": summarise(made, await find_refusals(open_models(), record, evidence, made)),
        "written": summarise(written, refused),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="as models.name")
    parser.add_argument("--base-url", help="address of an OpenAI-compatible server, ending in /v1")
    parser.add_argument("--second", help="model of the second reader; default: the same")
    parser.add_argument("--run", type=Path, default=RECORDED, help="folder or zip of a run with a decided record")
    parser.add_argument("--cases", type=int, default=200, help="true sentences, and as many overclaims")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", type=Path, help="JSON lines with id, text and kind about the run, for `written`")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    roles = {"second_claim_reader": RoleModel(name=given.second)} if given.second else {}
    settings = ModelSettings(name=given.model, base_url=given.base_url, roles=roles)
    text = json.dumps(asyncio.run(measure(settings, given.run, given.cases, given.seed, given.set)), indent=1)
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
