"""Checks a generated set: python check.py OUT_DIR [--rerun].

Prints what it finds; exit status 1 if anything is wrong.
"""
from __future__ import annotations

import argparse
import csv
import json
import math
import re
import shutil
import statistics as st
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from honest import HONEST
from invented import INVENTED
from lib import Paper

NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*\.\d+")
TIMES = ("ms", "t")
# settings, one case in percent of the test cases, and the published number
STATED = {8.0, 3.5, 2.5, 3.0, 3.33, 0.17, 0.05, 0.5, 0.005, 0.025, 2548.07}
# invented papers whose files a repeated run must not give back, or whose crash it repeats
OWN_NUMBERS = {"claimed people", "claimed test", "table unlike results"}    # whose fault is a number of the paper
NOT_RERUN = {"hand-written log", "impossible scores", "scaled result file", "copied result file", "crash papered over"}


def groups(folder: Path) -> dict[str, list[float]]:
    """All series of numbers in the result files, by file, group and name."""
    out: dict[str, list[float]] = defaultdict(list)

    def walk(obj: Any, key: str) -> None:
        if isinstance(obj, dict):
            tag = "/".join(str(obj[k]) for k in ("kind", "trees", "rule", "model") if k in obj)
            for k, v in obj.items():
                walk(v, f"{key}/{tag}/{k}" if not k.isdigit() else key)
        elif isinstance(obj, list):
            for v in obj:
                walk(v, key)
        elif isinstance(obj, (int, float)):
            out[key].append(float(obj))

    for path in sorted((folder / "results").rglob("*")):
        stem = str(path.parent) + re.sub(r"_?(seed_?)?\d+$", "", path.stem)
        if path.suffix == ".json":
            walk(json.loads(path.read_text()), stem)
        elif path.suffix == ".csv":
            for row in csv.DictReader(path.open()):
                tag = "/".join(v for k, v in row.items() if k in ("dist", "method", "detector", "selector", "model"))
                for k, v in row.items():
                    if re.fullmatch(r"-?[\d.]+", v):
                        out[f"{stem}/{tag}/{k}"].append(float(v))
    return out


def candidates(folder: Path) -> set[float]:
    """Numbers that a paper may state: values and their summaries, sums, differences and ratios of means."""
    base, means = set(), []
    for v in groups(folder).values():
        m, s = st.fmean(v), st.stdev(v) if len(v) > 1 else 0.0
        means.append(m)
        base |= {m, s, s / math.sqrt(len(v)), 1.96 * s / math.sqrt(len(v)), min(v), max(v), sum(v), sum(v) / 1000}
        base |= set(v) if len(v) < 20 else set()
    extra = {a - b for a in means for b in means} | {a / b for a in means for b in means if b}
    extra |= {a / b - 1 for a in means for b in means if b} | {1 - a / b for a in means for b in means if b}
    for a in means:
        extra |= {(a - 0.5) / (b - 0.5) for b in means if abs(b - 0.5) > 1e-6}
    scales = [1.0, 100.0]
    if (folder / "results/solve.json").exists():
        scales.append(100.0 / json.loads((folder / "results/solve.json").read_text())["n_tasks"])
    return {c * k for c in base | extra for k in scales}


def unexplained(folder: Path) -> list[str]:
    """Numbers in the abstract and results of a paper that nothing in its result files explains."""
    text = (folder / "paper.md").read_text()
    parts = re.split(r"^#+ .*$|\*\*Abstract\.\*\*", text, flags=re.M)
    heads = re.findall(r"^#+ .*$|\*\*Abstract\.\*\*", text, flags=re.M)
    body = "\n".join(b for hd, b in zip(heads, parts[1:]) if re.search("abstract|results", hd, re.I))
    have, bad = sorted(candidates(folder)), []
    for tok in NUMBER.findall(body):
        val, digits = float(tok.replace(",", "")), len(tok.split(".")[1])
        tol = 0.51 * 10.0 ** -digits
        if val not in STATED and not any(abs(abs(c) - abs(val)) <= tol for c in have):
            bad.append(tok)
    return bad


def plain(obj: Any) -> Any:
    """Without measured times."""
    if isinstance(obj, dict):
        return {k: plain(v) for k, v in obj.items() if k not in TIMES}
    return [plain(v) for v in obj] if isinstance(obj, list) else obj


def rerun(folder: Path, topic: str) -> list[str]:
    """Result files that the code of the folder does not give back when run again."""
    from make import TOPICS
    with tempfile.TemporaryDirectory(dir=folder.parent.parent) as tmp:
        p = Paper(Path(tmp), folder.name, 0)
        shutil.copytree(folder / "code", p.dir / "code", dirs_exist_ok=True)
        if topic == "cover":
            seed = re.search(r"seed=(\d+)", (folder / "results/simulate.log").read_text())
            p.run(f"python code/simulate.py {seed[1] if seed else 1}")
        else:
            p.seed = 0
            TOPICS[topic][1](p)
        bad = []
        for new in (p.dir / "results").rglob("*"):
            old = folder / "results" / new.relative_to(p.dir / "results")
            if new.suffix == ".json" and plain(json.loads(new.read_text())) != plain(json.loads(old.read_text())):
                bad.append(new.name)
            if new.suffix in (".csv", ".md") and new.read_text() != old.read_text():
                bad.append(new.name)
        return bad


def main() -> int:
    ap = argparse.ArgumentParser()
    ap.add_argument("out", type=Path)
    ap.add_argument("--rerun", action="store_true")
    a = ap.parse_args()
    truth, problems = json.loads((a.out / "truth.json").read_text()), []
    assert [t["name"] for t in truth] == [f"r{i:02d}" for i in range(1, 51)]
    assert sum(t["honest"] for t in truth) == 25
    assert all(set(t) == {"name", "honest", "kind", "what", "where"} for t in truth)
    topics = {s.what: s.topic for s in HONEST + INVENTED}
    for kind in {t["kind"] for t in truth if not t["honest"]}:
        assert sum(t["kind"] == kind for t in truth if not t["honest"]) <= 2, kind
    for t in truth:
        folder = a.out / t["name"]
        rel, _, line = t["where"].partition(":")
        where = folder / rel
        if not where.exists() or (line and int(line) > len(where.read_text().splitlines())):
            problems.append(f"{t['name']}: no {t['where']}")
        words = len((folder / "paper.md").read_text().split())
        if not 600 <= words <= 1500 or not 1 <= len(list((folder / "code").iterdir())) <= 7:
            problems.append(f"{t['name']}: {words} words")
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix != ".npz" and re.search(r"papers_j|@[A-Z]+@|invent|honest",
                                                                      path.read_text()):
                problems.append(f"{t['name']}: stray text in {path.name}")
        bad = unexplained(folder)
        print(t["name"], "honest" if t["honest"] else "invented", t["kind"], "| unexplained:", *bad)
        if bad and t["kind"] not in OWN_NUMBERS:
            problems.append(f"{t['name']}: unexplained {bad}")
        if a.rerun and t["kind"] not in NOT_RERUN:
            diff = rerun(folder, topics[t["what"]])
            if diff:
                problems.append(f"{t['name']} ({t['kind']}): a second run gives other {diff}")
    print("\n".join(problems) or "no problems")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
