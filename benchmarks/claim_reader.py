"""Recall and false refusals of a claim reader, with 95 % Wilson intervals.

python -m benchmarks.claim_reader --model NAME [--base-url URL] [--second NAME] [--run RUN ...] [--cases N] [--set FILE]
                                  [--made-only] [--out FILE]

`made`: true sentences about the records of runs, written from templates with and without numbers, and overclaims that
differ from one of them in direction, arm, metric, level, certainty, generality, cause or size. `written`: titles,
abstracts and passages by an author who had not seen the checks (benchmarks/wording, its versions in plain words). A
text is refused if a claim that the reader finds in it does not match the record, or if a sentence of it gets no usable
reading. RUN is a run's folder or zip, by default the recorded run; the runs share the made sentences, of which a call
reads fifty.

Limits: a template has one sentence, so `made` does not measure pronouns; a text of `written` is refused as a whole.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.report import make_parser, print_report
from benchmarks.sets import read_set
from labwright.evals.intervals import compute_proportion
from labwright.models.client import Models
from labwright.models.retry import open_backend
from labwright.models.settings import ModelSettings, RoleModel
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import compute_claims
from labwright.record.claims.formatting import format_claims
from labwright.record.claims.hypothesis_tests import ReplicateValues, decide_from_runs
from labwright.record.claims.requested_estimates import list_requests
from labwright.record.event_log import MemoryLog, read_state
from labwright.record.reducers.run_state import RunState, SearchState
from labwright.record.result_macros import print_count
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, Measurement, parse_arm, parse_level
from labwright.record.schema.nodes import Node
from labwright.record.zips import open_run_folder
from labwright.review.claims.comparisons import Cell, ClaimRecord
from labwright.review.claims.rules import check_claims
from labwright.review.claims.sentences import split_sentences
from labwright.review.evidence import Evidence
from labwright.stages.paper.claim_check import read_sentences
from labwright.stages.paper.figures import expand_macros
from labwright.stages.paper.paper_context import PaperContext
from labwright.stages.settings import PaperSettings

SET_FOLDER = Path(__file__).parent / "wording" / "wording.tar.gz"
RECORDED = Path(__file__).parents[1] / "examples" / "recorded-run.zip"
NUMBERED = (
    "{place}, {first} {raises} {metric} by {value} compared with {second}.",
    "{place}, the {metric} of {first} is {higher} than that of {second} (difference {value}).",
    "{first} is {better} than {second} in {metric} {place}, by {value}.",
    "Compared with {second}, {first} {improves} the {metric} {place} ({value}).",
    "The {metric} of {first} and {second} differs by {value} {place}, in favour of {winner}.",
)
PLAIN = (
    "{place}, {first} has a {higher} {metric} than {second}.",
    "In {metric}, {first} comes out {better} than {second} {place}.",
    "{place}, the {metric} is {higher} with {first} than with {second}.",
    "Those who use {first} instead of {second} get a {better} {metric} {place}.",
)
OPEN = (
    "{place}, it stays open whether {first} changes {metric} against {second} ({value}).",
    "We find no clear difference in {metric} between {first} and {second} {place} ({value}).",
    "Our data do not decide which of {first} and {second} has the higher {metric} {place}.",
)
HONEST = (
    "Whether {first} behaves in the same way on other datasets is a question for further work.",
    "We compare {first} with {second} in {metric} {place}.",
    "A possible explanation, which we did not test, is that {first} regularises the network.",
    "For {second}, {metric} is measured {place} with the same seeds as for {first}.",
    "One might expect {first} to change the {metric} on larger data; we have not tried it.",
)
EQUAL = (
    "{first} and {second} have the same {metric} {place}.",
    "{place}, it makes no difference to {metric} whether {first} or {second} is used.",
    "{first} has no effect on {metric} {place}, compared with {second}.",
)
GENERAL = (
    "{winner} is the better choice in {metric}, whatever the data and the network.",
    "In practice, {winner} should replace {loser} wherever {metric} matters.",
    "Methods like {winner} improve {metric} for neural networks in general.",
)
REASONS = (
    ", because its representations are smoother.",
    ", which is due to a flatter minimum.",
    "; the reason is that it memorises fewer examples.",
    ", and better conditioned gradients explain this.",
)
TRUE_KINDS = ("numbered", "plain", "open", "value", "trend", "registered", "share", "honest")
MAX_TRIES = 40
"""Maximum number of draws for a sentence that differs from those made before."""
OVERCLAIMS = ("direction", "arm", "metric", "level", "certainty", "generality", "cause", "size")
SHARE = "The difference in {metric} between {first} and {second} {place} is {share} than half of that {reference}."


class Case(NamedTuple):
    """A text of the benchmark in LaTeX, by place; `kind` is the swapped field, or empty for a true text."""

    name: str
    kind: str
    parts: Mapping[str, str]
    too_much: bool


class CaseMaker:
    """Makes true sentences about a record and overclaims, from templates."""

    def __init__(self, record: ClaimRecord, rng: Random) -> None:
        self.record, self.rng = record, rng
        signs = {one.key: {one.excludes_zero} | self._list_registered_signs(one) for one in record.differences}
        pairs = [one for one in record.differences if one.low is not None]
        self.decided = [one for one in pairs if signs[one.key] == {True}]
        self.open = [one for one in pairs if signs[one.key] == {False}]
        self.shares = [*self._list_shares()]
        self.trends = [*self._list_trends()]

    def _list_registered_signs(self, one: ClaimDifference) -> set[bool | None]:
        """Return whether the intervals of registered comparisons exclude zero; None for an equivalence."""
        registered = self.record.find_registered(_get_contrast(one), one.name)
        return {None if each.is_absent else each.sign * one.mean > 0 for each in registered}

    def make_true(self, kind: str) -> str:
        """Return a true sentence; "" if the record has none of this kind."""
        pick, record = self.rng.choice, self.record
        if kind == "value":
            mean = pick(record.means)
            place = self._name_place(mean.dataset, mean.level)
            metric = record.plan.name_metric(mean.name)
            return rf"The {metric} of {record.name_arm(mean.arm)} {place} is \result{{{mean.key}.mean}}."
        if kind == "registered":
            known = [one for one in record.decisions if one.confirmed or one.verdict == "open"]
            said = {"supported": "is supported", "refuted": "is refuted", "open": "stays open"}
            lines = [f"Our hypothesis \u201c{one.hypothesis.name}\u201d {said[one.verdict]}." for one in known]
            return pick(lines) if lines else ""
        if kind in ("trend", "share"):
            found = self.trends if kind == "trend" else self.shares
            return pick(found)[0] if found else ""
        templates, source = {
            "numbered": (NUMBERED, self.decided),
            "plain": (PLAIN, self.decided),
            "open": (OPEN, self.open),
            "honest": (HONEST, record.differences),
        }.get(kind, (NUMBERED, []))
        return pick(templates).format_map(self.list_words(pick(source))) if source else ""

    def make_overclaim(self, kind: str) -> str:
        """Return a sentence that the record contradicts; "" if none of this kind can be made."""
        pick, record = self.rng.choice, self.record
        one = pick(self.decided)
        words, numbered = self.list_words(one), pick((True, False))
        template = pick(NUMBERED if numbered else PLAIN)
        if kind == "direction":
            return template.format_map(words | self._list_directions(one, flipped=True))
        if kind in ("arm", "metric", "level"):
            other = self._find_contrary(one, kind)
            if other is None:
                return ""
            field = {"arm": ("first", "second"), "metric": ("metric",), "level": ("place",)}[kind]
            return template.format_map(words | {name: self.list_words(other)[name] for name in field})
        if kind == "certainty":
            verdicts = [each for each in record.decisions if each.verdict == "open"]
            if verdicts and pick((True, False)):
                return f"Our results confirm the hypothesis \u201c{pick(verdicts).hypothesis.name}\u201d."
            undecided = self.list_words(pick(self.open)) if self.open else {}
            return pick((*PLAIN, *EQUAL)).format_map(undecided) if undecided else ""
        if kind == "generality":
            return pick(GENERAL).format_map(words)
        if kind == "cause":
            return template.removesuffix(".").format_map(words) + pick(REASONS)
        found = [*self.shares, *self.trends]
        return pick(found)[1] if found else ""

    def _find_contrary(self, one: ClaimDifference, kind: str) -> ClaimDifference | None:
        """Return a comparison that differs in one respect, and in which side is better or whether that is clear."""

        def describe(each: ClaimDifference) -> dict[str, tuple[str, ...]]:
            return {
                "arm": (each.arm, parse_arm(each.other)),
                "metric": (each.name,),
                "level": (each.dataset, each.level),
            }

        def winner(each: ClaimDifference) -> int:
            higher = self._is_higher_better(each.name)
            return ((each.mean > 0) == higher) - ((each.mean > 0) != higher) if each.excludes_zero else 0

        own = describe(one)
        found = [
            each
            for each in (*self.decided, *self.open)
            if [name for name, value in describe(each).items() if value != own[name]] == [kind]
            and winner(each) != winner(one)
            and (each.mean > 0, kind) != (one.mean > 0, "metric")
        ]
        return self.rng.choice(found) if found else None

    def _list_shares(self) -> Iterator[tuple[str, str]]:
        """Yield true and false sentences about the ratio of a difference at two levels or datasets."""
        for first, second in product(self.decided, self.decided):
            same = [(one.name, one.arm, parse_arm(one.other)) for one in (first, second)]
            near = first.dataset == second.dataset or first.level == second.level
            if first is not second and same[0] == same[1] and near:
                found = self.record.estimate_ratio(_get_contrast(first), _get_contrast(second), first.name)
                if found is None or found.low is None or found.high is None or found.low <= 0:
                    continue
                if found.low > 0.5 or found.high < 0.5:
                    words = self.list_words(first) | {"reference": self._name_place(second.dataset, second.level)}
                    shares = ("more", "less") if found.low > 0.5 else ("less", "more")
                    true, false = (SHARE.format_map(words | {"share": one}) for one in shares)
                    yield true, false

    def _list_trends(self) -> Iterator[tuple[str, str]]:
        """Yield true and false sentences about the change of an arm's values along the levels."""
        record, plan = self.record, self.record.plan
        levels = plan.level_names
        for arm, metric, use in product(plan.compared_arms, record.metrics, plan.datasets):
            steps = [
                record.estimate_contrast({(use.name, arm, after): 1.0, (use.name, arm, before): -1.0}, metric)
                for before, after in [*pairwise(levels), (levels[0], levels[-1])]
                if before != after
            ]
            signs = {one.sign if one is not None else 0 for one in steps}
            if len(signs) == 1 and 0 not in signs:
                ends = f"From {plan.name_level(levels[0])} to {plan.name_level(levels[-1])}"
                what = f"the {plan.name_metric(metric)} of {record.name_arm(arm)}"
                true, false = (
                    f"{ends}, {what} {verb} on {plan.name_dataset(use.name)}." for verb in ("rises", "falls")
                )
                yield (true, false) if signs == {1} else (false, true)

    def list_words(self, one: ClaimDifference) -> dict[str, str]:
        """Return the words for a comparison."""
        return {
            "first": self.record.name_arm(one.arm),
            "second": self.record.name_arm(parse_arm(one.other)),
            "metric": self.record.plan.name_metric(one.name),
            "place": self._name_place(one.dataset, one.level),
            "value": rf"\result{{{one.key}.mean}}",
            **self._list_directions(one),
        }

    def _name_place(self, dataset: str, level: str) -> str:
        at = f" at {self.record.plan.name_level(level)}" if level else ""
        return f"on {self.record.plan.name_dataset(dataset)}{at}"

    def _is_higher_better(self, metric: str) -> bool:
        return next(each.higher_is_better for each in self.record.plan.metrics if each.name == metric)

    def _list_directions(self, one: ClaimDifference, *, flipped: bool = False) -> dict[str, str]:
        rises = (one.mean > 0) != flipped
        wins = rises == self._is_higher_better(one.name)
        names = [self.record.name_arm(arm) for arm in (one.arm, parse_arm(one.other))]
        return {
            "raises": "raises" if rises else "lowers",
            "higher": "higher" if rises else "lower",
            "better": "better" if wins else "worse",
            "improves": "improves" if wins else "worsens",
            "winner": names[not wins],
            "loser": names[wins],
        }


def _get_contrast(one: ClaimDifference) -> dict[Cell, float]:
    return {(one.dataset, one.arm, one.level): 1.0, (one.dataset, parse_arm(one.other), parse_level(one.other)): -1.0}


def make_cases(record: ClaimRecord, count: int, rng: Random) -> list[Case]:
    """Return `count` different true sentences about a record and as many overclaims, evenly over the kinds of which it
    has any. Raises `ValueError` if the record has too few."""
    maker, found, seen = CaseMaker(record, rng), list[Case](), set[str]()
    if not maker.decided:
        raise ValueError("no difference of the record excludes zero: give another --run")
    for too_much, kinds in ((False, TRUE_KINDS), (True, OVERCLAIMS)):
        make = maker.make_overclaim if too_much else maker.make_true
        left, made = [*kinds], 0
        while made < count and left:
            for kind in left[: count - made]:
                texts = (make(kind) for _ in range(MAX_TRIES))
                text = next((one for one in texts if one and one not in seen), "")
                if text:
                    seen.add(text)
                    made += 1
                    name = f"{kind}-{made}" if too_much else f"true-{kind}-{made}"
                    parts = {"section 'Results'": text[:1].upper() + text[1:]}
                    found.append(Case(name, kind if too_much else "", parts, too_much))
                else:
                    left.remove(kind)
        if made < count:
            raise ValueError(f"the record gives only {made} sentences of {count}: ask for fewer --cases")
    return found


def build_run_record(path: Path) -> tuple[ClaimRecord, Evidence]:
    """Return the record of a run with the estimates of its paper, and the evidence for its numbers."""
    folder = RunFolder(open_run_folder(path))
    state = read_state(folder.root)
    material = PaperContext(state, folder, PaperSettings(), requests=list_requests(state))
    return material.claim_record, material.evidence


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
    state = RunState(search=SearchState(data_plan=plan, datasets=facts), nodes={node.id: node for node, _ in runs})
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


async def measure(
    settings: ModelSettings,
    runs: Sequence[Path],
    count: int,
    seed: int,
    own: Path | None = None,
    *,
    made_only: bool = False,
) -> dict[str, Any]:
    """Return the results of both sets for the configured readers. The runs have equal shares of the made sentences;
    `own` is about the first one and replaces the written set."""

    def open_models() -> Models:  # calls are numbered from zero
        return Models(open_backend(settings), MemoryLog(), settings, time.monotonic)

    records, rng = [build_run_record(run) for run in runs], Random(seed)
    made: list[Case] = []
    found = set[str]()
    for number, (record, evidence) in enumerate(records, 1):
        share = count // len(runs) + (number <= count % len(runs))
        cases = [one._replace(name=f"{number}/{one.name}") for one in make_cases(record, share, rng)]
        rng.shuffle(cases)
        made += cases
        found |= await find_refusals(open_models(), record, evidence, cases)
    studies = {one["id"]: one for one in json.loads(read_set(SET_FOLDER)["studies.json"])["studies"]}
    written: list[Case] = []
    refused: set[str] = set()
    if own is not None:
        refused = await find_refusals(open_models(), *records[0], written := read_own_cases(own))
    for study, cases in read_written_cases() if own is None and not made_only else ():
        written += cases
        refused |= await find_refusals(open_models(), *build_study_record(studies[study]), cases)
    return {"readers": settings.model_names, "made": summarise(made, found), "written": summarise(written, refused)}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", required=True, help="as models.name")
    parser.add_argument("--base-url", help="address of an OpenAI-compatible server, ending in /v1")
    parser.add_argument("--second", help="model of the second reader; default: the same")
    parser.add_argument(
        "--run", type=Path, nargs="+", default=[RECORDED], help="folders or zips of runs with a decided record"
    )
    parser.add_argument("--cases", type=int, default=200, help="true sentences, and as many overclaims")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", type=Path, help="JSON lines with id, text and kind about the run, for `written`")
    parser.add_argument("--made-only", action="store_true", help="leave the written set out")
    given = parser.parse_args()
    roles = {"second_claim_reader": RoleModel(name=given.second)} if given.second else {}
    settings = ModelSettings(name=given.model, base_url=given.base_url, roles=roles)
    print_report(
        asyncio.run(measure(settings, given.run, given.cases, given.seed, given.set, made_only=given.made_only)),
        given.out,
    )


if __name__ == "__main__":
    main()
