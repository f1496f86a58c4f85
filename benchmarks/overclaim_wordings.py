"""Which overclaiming sentences and summaries the paper checks reject, and which honest ones (benchmarks/wording).

python -m benchmarks.overclaim_wordings [--refused FILE] [--out FILE]

Prints one JSON object: for either file recall (share of overclaims rejected) and false refusals, with 95 %
intervals (Clopper and Pearson), and the ids of misses and false refusals. Summaries are only checked in the source;
`--refused` names a JSON list of the ids in which a reader with the prompt of role `scope` found an overclaim, which
count as rejected. This set is for measuring, not for tuning.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scipy import stats as scipy_stats

from benchmarks.sets import read_set
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_claims
from labwright.record.claims.formatting import format_claims
from labwright.record.claims.hypothesis_tests import ReplicateValues, decide_from_runs
from labwright.record.claims.sentences import EXPLORATORY_WORD, format_verdict_clauses, list_outcome_words
from labwright.record.printed_value import print_count
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, Measurement
from labwright.record.schema.nodes import Node
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import Evidence, check_draft

stats: Any = scipy_stats
SET_FOLDER = Path(__file__).parent / "wording" / "wording.tar.gz"
PART_PREFIXES = {"title": "title", "abstract": "abstract", "conclusion": "section 'Conclusion'"}


def build_evidence(study: Mapping[str, Any]) -> Evidence:
    """Return the evidence for a draft on a study."""
    plan = DataPlan.model_validate(study["plan"])
    facts = tuple(DatasetFacts.model_validate(one) for one in study["facts"])
    seeds: list[int] = study["seeds"]
    nodes = [
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
    state = RunState(data_plan=plan, datasets=facts, nodes={node.id: node for node, _ in nodes})
    means = compute_claims("test", nodes)
    pairs = compute_differences(state, means)
    found = decide_from_runs(
        plan,
        [
            ReplicateValues(node.seed, node.id, {(one.dataset, one.condition, one.name): one.value for one in values})
            for node, values in nodes
        ],
        confirmed=True,
    )
    names = [text for one in (*plan.arms, *plan.levels, *plan.metrics) for text in (one.name, one.title)]
    names += [text for one in facts for text in (one.name, one.name.replace("_", " "), one.title)]
    return Evidence(
        results=format_claims([*means, *pairs]),
        setups={"run.seeds": print_count(len(seeds))},
        plan=plan,
        facts=facts,
        cites=frozenset(one["key"] for one in study["works"]),
        names=tuple(dict.fromkeys(filter(None, names))),
        verdicts=format_verdict_clauses(state, found, pairs),
        outcome_words={
            **{one.key: list_outcome_words(one) for one in found},
            **{one.key: (EXPLORATORY_WORD,) for one in pairs},
        },
    )


def find_refused(draft: PaperDraft, evidence: Evidence, where: Iterable[str]) -> list[str]:
    """Return the violations about claims in these parts of a draft."""
    return [
        one.fix
        for one in check_draft(draft, evidence)
        if one.kind == "claim"
        and one.where in where
        and "no table that is placed" not in one.fix
        and "the tables are on" not in one.fix
    ]


def check_sentence(one: Mapping[str, Any], evidence: Evidence) -> list[str]:
    """Return the violations of a sentence, as a paragraph of a section."""
    draft = PaperDraft(title="A study", abstract="", sections=(Section(title="Results", body=one["new"]),))
    return find_refused(draft, evidence, ("section 'Results'",))


def check_summary(one: Mapping[str, Any], evidence: Evidence) -> list[str]:
    """Return the violations of title, abstract and conclusion."""
    texts = one["new"]
    draft = PaperDraft(
        title=texts["title"],
        abstract=texts["abstract"],
        sections=(Section(title="Conclusion", body=texts["conclusion"]),),
    )
    return find_refused(draft, evidence, PART_PREFIXES.values())


def count_refusals(refusals: Mapping[str, bool], key: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return recall and false refusals over all texts."""
    found: dict[str, Any] = {}
    for name, label in (("recall", "too much"), ("false_refusals", "fine")):
        ids = [one for one in refusals if key[one]["label"] == label]
        hits = [one for one in ids if refusals[one]]
        ends: Any = stats.binomtest(len(hits), len(ids)).proportion_ci()
        found[name] = {
            "of": len(ids),
            "sent_back": len(hits),
            "low": round(float(ends.low), 3),
            "high": round(float(ends.high), 3),
            "ids": [one for one in ids if refusals[one] != (label == "too much")],
        }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--refused", type=Path, help="JSON list of ids of summaries that a scope reader refuses")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    files = read_set(SET_FOLDER)
    studies = {one["id"]: build_evidence(one) for one in json.loads(files["studies.json"])["studies"]}
    key = json.loads(files["key.json"])
    beyond = set(json.loads(args.refused.read_text())) if args.refused is not None else set[str]()
    result: dict[str, Any] = {}
    for name, check in (("sentences", check_sentence), ("abstracts", check_summary)):
        texts = json.loads(files[f"{name}.json"])
        refusals = {one["id"]: bool(check(one, studies[one["study"]])) for one in texts}
        result[name] = count_refusals(refusals, key)
        if name == "abstracts" and args.refused is not None:
            result["abstracts_with_scope"] = count_refusals(
                {one: known or one in beyond for one, known in refusals.items()}, key
            )
    text = json.dumps(result, indent=1)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
