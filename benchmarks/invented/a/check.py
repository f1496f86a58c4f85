"""Checks of generated folders: python check.py OUT_DIR [SECOND_OUT_DIR] [--twins TWIN_DIR].

Labels are well formed; honest papers' table numbers follow from their result files; a second run gives the same
honest results; invented papers differ from their honest twins only where the invention is.
"""
from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

CITED = {"12.0", "5.0", "3.3", "0.95"}      # published numbers that one honest paper cites


def leaves(data: Any) -> Iterator[float]:
    if isinstance(data, dict):
        for value in data.values():
            yield from leaves(value)
    elif isinstance(data, list):
        for value in data:
            yield from leaves(value)
    elif isinstance(data, (int, float)) and not isinstance(data, bool):
        yield float(data)


def numbers(folder: Path) -> list[float]:
    out: list[float] = []
    for path in folder.glob("results/*.json"):
        out += leaves(json.loads(path.read_text()))
    return out


def unexplained(folder: Path) -> list[str]:
    """Table numbers that are no rounded result (plain or in percent) and no difference of two numbers of the table."""
    plain = numbers(folder)
    known = {f"{abs(f * v):.{d}f}" for v in plain for f in (1, 100) for d in (0, 1, 2, 3, 4)}
    bad = []
    for line in (folder / "paper.md").read_text().splitlines():
        if not line.startswith("|") or "---" in line:
            continue
        cells = re.findall(r"(?<![\w(-])[+-]?\d+\.\d+", re.sub(r"(naive|AR|top)\(\d+\)", "", line))
        bad += [c for c in cells if c.lstrip("+-") not in known and c.lstrip("+-") not in CITED]
    text = [float(c) for c in re.findall(r"\d+\.\d+", "".join(
        ln for ln in (folder / "paper.md").read_text().splitlines(True) if ln.startswith("|")))]
    sums = {f"{abs(a - b):.{d}f}" for a, b in itertools.product(text, text) for d in (1, 2, 3)}
    return [b for b in bad if b.lstrip("+-") not in sums]


def results_of(folder: Path) -> dict[str, Any]:
    out = {}
    for path in sorted(folder.glob("results/*.json")):
        out[path.name] = {k: v for k, v in json.loads(path.read_text()).items() if k != "seconds"}
    return out


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("out", type=Path)
    ap.add_argument("second", type=Path, nargs="?")
    ap.add_argument("--twins", type=Path)
    args = ap.parse_args()
    truth, wrong = json.loads((args.out / "truth.json").read_text()), []
    if [t["name"] for t in truth] != [f"p{i:02d}" for i in range(1, 51)]:
        wrong.append("names")
    if Counter(t["honest"] for t in truth) != {True: 25, False: 25}:
        wrong.append("counts")
    for t in truth:
        folder = args.out / t["name"]
        if set(t) != {"name", "honest", "kind", "what", "where"} or not (folder / t["where"].split(":")[0]).exists():
            wrong.append(f"{t['name']} label")
        words = len((folder / "paper.md").read_text().split())
        if not 600 <= words <= 1500:
            wrong.append(f"{t['name']} has {words} words")
        if re.search(r"<<|>>(?!>)|@[A-Z]+@|\bnan\b", (folder / "paper.md").read_text()):
            wrong.append(f"{t['name']} template rest")
        files = [p for p in folder.rglob("*") if p.is_file()]
        for path in files:
            if re.search(r"dishonest|fabricat|invented|planted (fault|invention)", path.read_text()):
                wrong.append(f"{t['name']} label word in {path.name}")
        code = [p for p in files if p.suffix == ".py"]
        if not 2 <= len(code) <= 6 or not (folder / "results/log.txt").exists():
            wrong.append(f"{t['name']} files")
        odd = unexplained(folder)
        if t["honest"] and odd:
            wrong.append(f"{t['name']} {t['kind']} table numbers without source: {odd}")
        second = args.second and (args.second / t["name"]).exists()
        if second and t["honest"] and results_of(folder) != results_of(args.second / t["name"]):
            wrong.append(f"{t['name']} {t['kind']} results differ between runs")
        if second and (folder / "paper.md").read_text() != (args.second / t["name"] / "paper.md").read_text():
            print(f"note: {t['name']} {t['kind']}: paper differs between the two runs")
        if args.twins and not t["honest"]:
            twin = args.twins / t["name"]
            names = {str(p.relative_to(f)) for f in (folder, twin) for p in f.rglob("*") if p.is_file()}
            same = [n for n in names if (folder / n).exists() and (twin / n).exists()
                    and (folder / n).read_text() == (twin / n).read_text()]
            print(f"{t['name']} {t['kind']}: differs in {sorted(names - set(same))}; odd table numbers {odd[:6]}")
    print("words ok, labels ok" if not wrong else "\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
