r"""What the binder sends back of sentences and summaries that claim too much, and of honest ones (benchmarks/wording).

    python -m benchmarks.wordings [--refused FILE] [--out FILE]

Prints one JSON object: of either file recall (share of what claims too much that is sent back) and false refusals, with
95 % intervals (Clopper and Pearson), and the ids that were missed and refused by mistake. Of the summaries the check of
the source alone; `--refused` names a JSON list of the ids in which a reader with the prompt of role `scope` found a
claim beyond the verdicts, to be counted with it. Look at what comes of it once: the set measures, it is not to tune by.
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
from labwright.record.claims.clauses import clauses
from labwright.record.claims.decisions import Run, decide
from labwright.record.claims.differences import differences
from labwright.record.claims.means import claims_over
from labwright.record.claims.printing import printed
from labwright.record.fold.state import RunState
from labwright.record.nouns.data import DataPlan, DatasetFacts, Measurement
from labwright.record.nouns.nodes import Node
from labwright.record.nouns.papers import Draft, Section
from labwright.record.printed import count
from labwright.review.evidence import Evidence, check_draft

stats: Any = scipy_stats
HOME = Path(__file__).parent / "wording" / "wording.tar.gz"
WHERE = {"title": "title", "abstract": "abstract", "conclusion": "section 'Conclusion'"}


def evidence_of(study: Mapping[str, Any]) -> Evidence:
    """All that a draft on a study may lean on."""
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
    means = claims_over("test", nodes)
    pairs = differences(state, means)
    found = decide(
        plan,
        [
            Run(node.seed, node.id, {(one.dataset, one.condition, one.name): one.value for one in values})
            for node, values in nodes
        ],
        confirmed=True,
    )
    names = [text for one in (*plan.arms, *plan.levels, *plan.metrics) for text in (one.name, one.title)]
    names += [text for one in facts for text in (one.name, one.name.replace("_", " "), one.title)]
    return Evidence(
        results=printed([*means, *pairs]),
        setups={"run.seeds": count(len(seeds))},
        plan=plan,
        facts=facts,
        cites=frozenset(one["key"] for one in study["works"]),
        names=tuple(dict.fromkeys(filter(None, names))),
        verdicts=clauses(state, found, pairs),
        found={**{one.key: one.verdict for one in found}, **{one.key: one.called for one in pairs}},
    )


def refused(draft: Draft, evidence: Evidence, where: Iterable[str]) -> list[str]:
    """What the binder says of claims in these parts of a draft."""
    return [
        one.fix
        for one in check_draft(draft, evidence)
        if one.kind == "claim"
        and one.where in where
        and "no table that is placed" not in one.fix
        and "the tables are on" not in one.fix
    ]


def of_sentence(one: Mapping[str, Any], evidence: Evidence) -> list[str]:
    """What is said of a sentence, as a paragraph of a section."""
    draft = Draft(title="A study", abstract="", sections=(Section(title="Results", body=one["new"]),))
    return refused(draft, evidence, ("section 'Results'",))


def of_summary(one: Mapping[str, Any], evidence: Evidence) -> list[str]:
    """What is said of title, abstract and conclusion."""
    texts = one["new"]
    draft = Draft(
        title=texts["title"],
        abstract=texts["abstract"],
        sections=(Section(title="Conclusion", body=texts["conclusion"]),),
    )
    return refused(draft, evidence, WHERE.values())


def counted(said: Mapping[str, bool], key: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Recall and false refusals of what was said of each text."""
    found: dict[str, Any] = {}
    for name, label in (("recall", "too much"), ("false_refusals", "fine")):
        ids = [one for one in said if key[one]["label"] == label]
        hits = [one for one in ids if said[one]]
        ends: Any = stats.binomtest(len(hits), len(ids)).proportion_ci()
        found[name] = {
            "of": len(ids),
            "sent_back": len(hits),
            "low": round(float(ends.low), 3),
            "high": round(float(ends.high), 3),
            "ids": [one for one in ids if said[one] != (label == "too much")],
        }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--refused", type=Path, help="JSON list of ids of summaries that a reader of scope refuses")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    files = read_set(HOME)
    studies = {one["id"]: evidence_of(one) for one in json.loads(files["studies.json"])["studies"]}
    key = json.loads(files["key.json"])
    beyond = set(json.loads(asked.refused.read_text())) if asked.refused is not None else set[str]()
    result: dict[str, Any] = {}
    for name, check in (("sentences", of_sentence), ("abstracts", of_summary)):
        texts = json.loads(files[f"{name}.json"])
        said = {one["id"]: bool(check(one, studies[one["study"]])) for one in texts}
        result[name] = counted(said, key)
        if name == "abstracts" and asked.refused is not None:
            result["abstracts_with_scope"] = counted({one: known or one in beyond for one, known in said.items()}, key)
    text = json.dumps(result, indent=1)
    print(text)
    if asked.out is not None:
        asked.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
