"""Shared pieces: a paper folder, running its code, number formats, and the text that many papers share."""
from __future__ import annotations

import csv
import json
import math
import os
import random
import re
import statistics as st
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Sequence

Parts = dict[str, str]


@dataclass
class Paper:
    """One folder under construction."""

    root: Path
    name: str
    seed: int
    cfg: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dir = self.root / self.name
        (self.dir / "code").mkdir(parents=True, exist_ok=True)
        (self.dir / "results").mkdir(exist_ok=True)
        self.rng = random.Random(self.seed)

    def write(self, rel: str, text: str) -> None:
        path = self.dir / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, rel: str) -> str:
        return (self.dir / rel).read_text()

    def sub(self, rel: str, old: str, new: str) -> None:
        text = self.read(rel)
        assert old in text, f"{self.name}: {old!r} not in {rel}"
        self.write(rel, text.replace(old, new))

    def js(self, rel: str) -> Any:
        return json.loads(self.read(rel))

    def dump(self, rel: str, obj: Any, indent: int | None = 2) -> None:
        self.write(rel, json.dumps(obj, indent=indent) + "\n")

    def rows(self, rel: str) -> list[dict[str, str]]:
        with open(self.dir / rel, newline="") as handle:
            return list(csv.DictReader(handle))

    def write_rows(self, rel: str, rows: Sequence[dict[str, Any]]) -> None:
        with open(self.dir / rel, "w", newline="") as handle:
            out = csv.DictWriter(handle, fieldnames=list(rows[0]), lineterminator="\n")
            out.writeheader()
            out.writerows(rows)

    def line(self, rel: str, needle: str) -> str:
        for i, text in enumerate(self.read(rel).splitlines(), 1):
            if needle in text:
                return f"{rel}:{i}"
        raise AssertionError(f"{self.name}: {needle!r} not in {rel}")

    def run(self, cmd: str, log: str | None = None, append: bool = False, ok: bool = True) -> int:
        """Execute a command of the paper, with the folder as working directory; keep its output as a log."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        env |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
                "PATH": f"{Path(sys.executable).parent}:{env.get('PATH', '')}"}
        done = subprocess.run(["bash", "-c", cmd], cwd=self.dir, env=env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, check=False)
        if ok and done.returncode:
            raise RuntimeError(f"{self.name}: {cmd}\n{done.stdout[-3000:]}")
        if log:
            before = self.read(log) if append else ""
            self.write(log, before + self.clean(done.stdout))
        return done.returncode

    def clean(self, text: str) -> str:
        text = text.replace(str(self.dir.resolve()), "/home/agent/run")
        return text.replace(str(Path(sys.executable).parent.parent), "/home/agent/venv")


def code(text: str) -> str:
    """Program text as written in the module, without the indentation."""
    return textwrap.dedent(text).lstrip("\n")


def mean(v: Sequence[float]) -> float:
    return sum(v) / len(v)


def sd(v: Sequence[float]) -> float:
    return st.stdev(v) if len(v) > 1 else 0.0


def sem(v: Sequence[float]) -> float:
    return sd(v) / math.sqrt(len(v))


def pm(v: Sequence[float], d: int = 3, how: str = "sd", scale: float = 1.0) -> str:
    """'mean ± spread'; how is sd, se or ci (1.96 standard errors)."""
    spread = {"sd": sd(v), "se": sem(v), "ci": 1.96 * sem(v)}[how]
    return f"{mean(v) * scale:.{d}f} ± {spread * scale:.{d}f}"


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    out += ["| " + " | ".join(str(c) for c in r) + " |" for r in rows]
    return "\n".join(out)


def para(text: str) -> str:
    """Fold a block of text into one paragraph a blank-line-separated block."""
    blocks = [" ".join(b.split()) for b in re.split(r"\n\s*\n", textwrap.dedent(text).strip())]
    return "\n\n".join(textwrap.fill(b, 100) if not b.startswith("|") else b for b in blocks)


def put(parts: Parts, key: str, text: str, front: bool = False) -> None:
    """Add a paragraph to a section."""
    text = text if text.lstrip().startswith("|") else para(text)
    parts[key] = (text + "\n\n" + parts[key]) if front else (parts[key] + "\n\n" + text)


def swap(parts: Parts, key: str, old: str, new: str) -> None:
    """Replace text of a section whatever its line breaks."""
    pattern = re.compile(r"\s+".join(re.escape(w) for w in old.split()))
    assert pattern.search(parts[key]), f"{old!r} not in {key}: {parts[key][:900]}"
    parts[key] = pattern.sub(lambda _: new, parts[key])


POOL = [
    """We chose the scale of the study so that a reader can repeat all of it on a laptop. The programs are short,
    they take their random numbers from generators with given seeds, and nothing is downloaded.""",
    """A word on what the numbers can and cannot carry. The comparison is between procedures under one fixed protocol.
    A difference that is small next to its spread should be read as no difference.""",
    """The work grew out of a practical question rather than a theoretical one: which of several simple choices should
    one make by default, when there is no time for a careful study of one's own? Questions of this kind are seldom
    answered in the literature because the answers are not exciting, and so defaults persist for reasons that nobody
    remembers. Small and complete comparisons are a cheap remedy.""",
    """Readers who want to extend the study will find it easiest to begin with the function that builds the data, since
    everything downstream takes only arrays. Adding a method means adding one function and one entry in the list of
    methods; the loop, the recording of results and the summary do not change.""",
    """Simple procedures deserve this attention. They are what most people run first, they set the bar that more
    elaborate proposals must clear, and their weak points are often inherited by the elaborate proposals.""",
    """We considered, and left out, two wider designs: a larger collection of data sets and a larger family of models.
    Either would make the conclusion broader, but both would make it harder to see why a result came out as it did.
    With a single setting, the reader can follow each number back to the few lines that produced it.""",
]


def render(p: Paper, title: str, parts: Parts, style: int) -> str:
    """The paper as markdown, padded with general remarks up to the least length."""
    pool = POOL[:]
    p.rng.shuffle(pool)
    keys = list(parts)

    def words() -> int:
        return sum(len(v.split()) for v in parts.values())

    target = 640 + p.rng.randrange(120)
    spots = [keys[1], keys[-2], keys[1], keys[-2], keys[1], keys[-2]]
    while words() < target and pool:
        put(parts, spots.pop(), pool.pop())
    out = [f"# {title}", ""]
    for i, key in enumerate(parts):
        head = {0: f"## {key}", 1: f"## {i}. {key}" if i else f"## {key}", 2: f"### {key.upper()}"}[style % 3]
        if style % 3 == 2 and i == 0:
            out += [f"**{key}.** {parts[key]}", ""]
            continue
        out += [head, "", parts[key], ""]
    return "\n".join(out)


@dataclass
class Spec:
    """One paper to be made."""

    topic: str
    honest: bool
    kind: str
    what: str
    where: str | tuple[str, str]
    cfg: dict[str, Any] = field(default_factory=dict)
    patch: list[tuple[str, str, str]] = field(default_factory=list)
    add: dict[str, str] = field(default_factory=dict)
    pre: Callable[[Paper], None] | None = None
    after: Callable[[Paper], None] | None = None
    edit: Callable[[Paper, Parts], None] | None = None
    title: str = ""
