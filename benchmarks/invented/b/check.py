"""Checks on a generated folder: python check.py OUT_DIR [--seed N] [--twins]"""
from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import Counter
from dataclasses import replace
from multiprocessing import get_context
from functools import partial
from pathlib import Path
from typing import Any

import make
from core import read_json

LEAK = re.compile(
    r"plant(ed|s)\b|honest|invent(ed|ion) (paper|result)|fabricat|papers_b|made[- ]up result|/tmp/",
                  re.I)
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+")
TIMES = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.,]+|\[ *[\d.]+s[^\]]*\]|\"ts\": [\d.]+|(seconds|elapsed_s|ms)\W+[\d.]+"
                   r"|\"seconds\": \{[^}]*\}")


def bare(path: Path) -> str:
    return TIMES.sub("T", path.read_text())


def stored(folder: Path) -> list[float]:
    text = "\n".join(p.read_text() for sub in ("results", "code") for p in (folder / sub).rglob("*") if p.is_file())
    return sorted({abs(float(x)) for x in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)})


def unexplained(folder: Path) -> list[str]:
    """Decimals of the paper that are no rounding of a stored number (or 100 times, or one minus it)."""
    have = stored(folder)
    out = []
    for x in NUMBER.findall((folder / "paper.md").read_text()):
        digits, value = len(x.split(".")[1]), float(x)
        half = 0.5 * 10 ** -digits + 1e-9
        if not any(abs(k * h - value) <= half or abs(100 * (1 - h) - value) <= half for h in have
                   for k in (1, 100, 1000)):
            out.append(x)
    return out


def results(job: make.Job, folder: Path) -> Any:
    _, base, style, _ = make.choose(job)
    return (base.load or read_json)(folder, style.res)


def twin(seed: int, out: Path, tmp: Path, n: int) -> str:
    """The same paper without its fault: which files differ?"""
    job = make.jobs(seed)[n]
    if job.plant is None:
        return ""
    bare_plant = replace(job.plant, code=None, post=None, parts=None, v=make.SIM if job.spec.base.__name__ == "crowd"
                         else None,
                         where=("paper.md", "#"))
    make.make_one(replace(job, plant=bare_plant), tmp)
    a, b = out / job.name, tmp / job.name
    names = {str(p.relative_to(x)) for x in (a, b) for p in x.rglob("*") if p.is_file()}
    diff = sorted(f for f in names if not ((a / f).exists() and (b / f).exists() and bare(a / f) == bare(b / f)))
    return f"{job.name} {job.plant.kind}: {', '.join(diff)}"


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("out", type=Path)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--twins", action="store_true")
    ap.add_argument("--same", type=Path)
    args = ap.parse_args()
    truth = json.loads((args.out / "truth.json").read_text())
    bad: list[str] = []
    assert [t["name"] for t in truth] == [f"q{i:02d}" for i in range(1, 51)]
    assert all(set(t) == {"name", "honest", "kind", "what", "where"} for t in truth)
    assert sum(t["honest"] for t in truth) == 25
    kinds = Counter(t["kind"] for t in truth if not t["honest"])
    assert max(kinds.values()) <= 3, kinds
    for t, job in zip(truth, make.jobs(args.seed)):
        folder = args.out / t["name"]
        place = t["where"].split(":")
        if not (folder / place[0]).exists():
            bad.append(f"{t['name']}: where {t['where']}")
        words = len((folder / "paper.md").read_text().split())
        n_code = sum(p.is_file() for p in (folder / "code").rglob("*"))
        if not 600 <= words <= 1500 or not 2 <= n_code <= 7:
            bad.append(f"{t['name']} {job.spec.base.__name__}: {words} words, {n_code} code files")
        for p in folder.rglob("*"):
            if p.is_file() and (hit := LEAK.search(p.read_text())):
                bad.append(f"{t['name']}: leak {hit[0]!r} in {p.name}")
        odd = unexplained(folder)
        print(t["name"], "H" if t["honest"] else "P", job.spec.base.__name__, words, n_code, "derived:", " ".join(odd))
        if t["honest"]:
            old = (folder / "paper.md").read_text()
            code = [str(p.relative_to(folder / "code")) for p in (folder / "code").rglob("*") if p.is_file()]
            make.write_paper(job, folder, results(job, folder), code)
            new = (folder / "paper.md").read_text()
            (folder / "paper.md").write_text(old)
            if sorted(NUMBER.findall(old)) != sorted(NUMBER.findall(new)):
                bad.append(f"{t['name']}: paper does not follow from results")
        if args.same:
            other = args.same / t["name"]
            for p in folder.rglob("*"):
                if p.is_file() and p.name != "paper.md" and bare(p) != bare(other / p.relative_to(folder)):
                    bad.append(f"{t['name']}: {p.name} differs between two runs")
    if args.twins:
        make.warm_up()
        with tempfile.TemporaryDirectory() as tmp, get_context("fork").Pool(2) as pool:
            for line in pool.imap(partial(twin, args.seed, args.out.resolve(), Path(tmp).resolve()), range(50)):
                if line:
                    print(line)
    print("\n".join(bad) or "all checks passed")


if __name__ == "__main__":
    main()
