"""A small invented set for AblationBench: papers of three parts each, their gold, and reviews."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PARTS = {
    "gate": ("mixing gate", "memory bank", "spread penalty"),
    "fold": ("token fold", "position prior", "head swap"),
    "sieve": ("edge sieve", "edge revival", "noise schedule"),
    "route": ("word router", "balance loss", "adapters"),
}
WORDS = " ".join(["It reads the recent past with a light cell and mixes in what it has seen before."] * 6)


def gold_lines(parts: tuple[str, ...]) -> str:
    return json.dumps(
        [
            {"name": f"Ablation {n}", "ablated_part": part, "action": "REMOVE", "metrics": ["MAE"]}
            for n, part in enumerate(parts, 1)
        ]
    )


def write_set(folder: Path) -> Path:
    """The set in a folder, as the benchmark's own layout."""
    rows: dict[str, list[dict[str, Any]]] = {"author": [], "reviewer": []}
    for id, parts in PARTS.items():
        method = "\n\n".join(f"**{part.capitalize()}.** {WORDS} Seen-{id}." for part in parts)
        text = (
            f"# The {id} paper\n\n## Abstract\n\n{WORDS}\n\n## 1 Introduction\n\n{WORDS}\n\n## 2 Method\n\n{method}"
            f"\n\n## 3 Experiments\n\n{WORDS} Hidden-{id}.\n\n## 4 Ablations\n\nWithout the {parts[0]} the error "
            f"is 9.6. Hidden-{id}.\n"
        )
        (folder / "papers" / id).mkdir(parents=True)
        (folder / "papers" / id / "paper.md").write_text(text)
        common = {"id": id, "paper_title": f"The {id} paper", "paper_abstract": WORDS, "paper_path": f"papers/{id}"}
        rows["author"].append({**common, "ablations_in_paper": gold_lines(parts[:2])})
        rows["reviewer"].append(
            {
                **common,
                "num_ablation_suggestions": 2,
                "review_text": json.dumps(
                    [f"Well written. Please ablate the {parts[1]}.", f"I miss an ablation of the {parts[2]}. Rating: 5"]
                ),
            }
        )
    for task, found in rows.items():
        (folder / task).mkdir()
        (folder / task / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    return folder
