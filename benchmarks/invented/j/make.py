"""Writes the labelled set: python make.py OUT_DIR [--seed N]."""
from __future__ import annotations

import argparse
import json
import os
import random
import shutil
from pathlib import Path

from honest import HONEST
from invented import INVENTED
from lib import Paper, Spec, render
from topics_a import TOPICS_A
from topics_b import TOPICS_B

TOPICS = TOPICS_A | TOPICS_B


def build(spec: Spec, out: Path, name: str, seed: int) -> dict[str, object]:
    """Make one folder; returns its line of the truth."""
    p = Paper(out, name, seed, dict(spec.cfg))
    code, run, paper = TOPICS[spec.topic]
    files = code(p)
    for rel, old, new in spec.patch:
        assert old in files[rel], f"{spec.kind}: {old!r} not in {rel}"
        files[rel] = files[rel].replace(old, new)
    for rel, text in files.items():
        p.write(rel, text)
    if spec.pre:
        spec.pre(p)
    run(p)
    if spec.after:
        spec.after(p)
    for path in (p.dir / "results").rglob("*"):
        if path.is_file() and path.suffix != ".npz":
            path.write_text(p.clean(path.read_text()))
    title, parts = paper(p)
    if spec.edit:
        spec.edit(p, parts)
    p.write("paper.md", render(p, spec.title or title, parts, sum(map(ord, spec.topic)) + p.rng.randrange(2)))
    for cache in p.dir.rglob("__pycache__"):
        shutil.rmtree(cache)
    where = p.line(*spec.where) if isinstance(spec.where, tuple) else spec.where
    return {"name": name, "honest": spec.honest, "kind": spec.kind, "what": spec.what, "where": where}


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("out", type=Path)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--only", nargs="*", help="kinds or topics to make, for trying things out")
    a = ap.parse_args()
    specs = HONEST + INVENTED
    rng = random.Random(a.seed)
    names = [f"r{i:02d}" for i in range(1, len(specs) + 1)]
    rng.shuffle(names)
    a.out.mkdir(parents=True, exist_ok=True)
    truth = []
    for i, (spec, name) in enumerate(sorted(zip(specs, names), key=lambda x: x[1])):
        if a.only and not {spec.kind, spec.topic} & set(a.only):
            continue
        if (a.out / name).exists():
            shutil.rmtree(a.out / name)
        truth.append(build(spec, a.out, name, 1000 * a.seed + 17 * (i + 1)))
        if a.only:
            print(name, spec.kind, spec.topic, flush=True)
    stamp = max((q.stat().st_mtime for q in a.out.rglob("*")), default=0.0)
    for q in a.out.rglob("*"):
        os.utime(q, (stamp, stamp))
    if a.only and (a.out / "truth.json").exists():
        made = {t["name"] for t in truth}
        truth += [t for t in json.loads((a.out / "truth.json").read_text()) if t["name"] not in made]
        truth.sort(key=lambda t: str(t["name"]))
    (a.out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main()
