"""Shared pieces: what a base project is, how a paper template is filled, and stock sections."""
from __future__ import annotations

import json
import random
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

DATASETS: dict[str, str] = {
    "digits": "the scikit-learn digits data (1,797 images of 8x8 pixels, ten classes)",
    "wine": "the wine recognition data (178 samples, 13 features, three classes)",
    "iris": "the iris data (150 samples, four features, three classes)",
    "breast_cancer": "the Wisconsin breast cancer data (569 samples, 30 features, two classes)",
    "seeds": "the wheat seeds data (210 samples, seven features, three classes)",
    "diabetes": "the diabetes progression data (442 patients, ten features)",
}


@dataclass
class Base:
    """A small project whose code can be run, with the template of its paper."""

    files: dict[str, str]
    run: list[str]
    title: str
    paper: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ctx:
    """What the hooks of one paper get to see."""

    root: Path
    params: dict[str, Any]
    results: dict[str, Any] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        return self.root / name

    def read(self, name: str) -> str:
        return self.path(name).read_text()

    def write(self, name: str, text: str) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text)

    def sub(self, name: str, old: str, new: str, count: int = -1) -> None:
        """Replace in a file, and fail when there is nothing to replace."""
        text = self.read(name)
        assert old in text, f"{self.root.name}: {old!r} not in {name}"
        self.write(name, text.replace(old, new, count))


Hook = Callable[[Ctx], None]


@dataclass
class Spec:
    """One paper: its base, its changes and its label."""

    base: str
    kind: str
    honest: bool
    what: str
    where: str                      # a file, or "file::needle" for file:line
    params: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)     # further sentences for the paper's slots (all true)
    setup: Hook | None = None       # honest changes to the code before it runs
    before: Hook | None = None      # the planted change of the code before it runs
    after: Hook | None = None       # the planted change of logs and results after the run
    skew: Hook | None = None        # the planted change of the numbers that the paper is filled from
    lies: dict[str, str] = field(default_factory=dict)      # planted sentences for the paper's slots
    last: Hook | None = None        # the planted change of the finished paper
    run: list[str] | None = None    # other commands than the base's


def fill_code(text: str, params: dict[str, Any]) -> str:
    for key, value in params.items():
        text = text.replace(f"@{key}@", str(value))
    left = re.findall(r"@[A-Z_]+@", text)
    assert not left, left
    return text.lstrip("\n")


def table(head: str, rows: list[list[Any]]) -> str:
    cols = [c.strip() for c in head.split("|")]
    lines = ["| " + " | ".join(cols) + " |", "|" + "|".join("---" for _ in cols) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows])


def p1(x: float) -> str:
    return f"{100 * x:.1f}"


def p2(x: float) -> str:
    return f"{100 * x:.2f}"


def f2(x: float) -> str:
    return f"{x:.2f}"


def f3(x: float) -> str:
    return f"{x:.3f}"


def f4(x: float) -> str:
    return f"{x:.4f}"


def ms(d: dict[str, float], fmt: Callable[[float], str] = f3) -> str:
    return f"{fmt(d['mean'])} ± {fmt(d['sd'])}"


def pms(d: dict[str, float]) -> str:
    return ms(d, p1)


def diff(a: float, b: float, fmt: Callable[[float], str] = f3) -> str:
    """Signed difference of the two numbers as printed, so that a reader gets the same."""
    digits = len(fmt(a).split(".")[1])
    return f"{float(fmt(a)) - float(fmt(b)):+.{digits}f}"


def adiff(a: float, b: float, fmt: Callable[[float], str] = f3) -> str:
    return diff(a, b, fmt).lstrip("+-")


def rel(a: float, b: float) -> str:
    return f"{100 * (a - b) / b:+.1f}%"


def cmp(a: float, b: float, words: str = "above|below|level with") -> str:
    up, down, same = words.split("|")
    return up if a > b else down if a < b else same


def top(d: dict[str, Any], key: str = "mean") -> str:
    return max(d, key=lambda k: d[k][key] if isinstance(d[k], dict) else d[k])


def low(d: dict[str, Any], key: str = "mean") -> str:
    return min(d, key=lambda k: d[k][key] if isinstance(d[k], dict) else d[k])


def p1_range(values: list[float]) -> str:
    return f"{min(values):+.1f} to {max(values):+.1f}"


HELPERS: dict[str, Any] = {f.__name__: f for f in (
    p1_range, table, p1, p2, f2, f3, f4, ms, pms, diff, adiff, rel, cmp, top, low)}

RELATED = [
    "Small and well-understood benchmarks have long served as test beds for comparisons of this kind. Reviews of "
    "empirical practice in machine learning keep returning to the same advice: compare under one budget, report the "
    "spread over repetitions, and keep the baselines strong. A good share of reported differences disappears when this "
    "advice is followed. Our study is in that tradition, and it proposes no new theory. It asks a narrow question "
    "with a setup that anyone can repeat on a laptop, and reports what came out.",
    "There is a large literature around this question, most of it at scales that we cannot reach. Work on small data "
    "differs in what limits a method: variance of the split usually outweighs the bias of the model, and simple "
    "estimators are hard to beat. Textbook treatments recommend starting from such estimators and adding one thing at "
    "a time. We follow that recommendation, and we avoid claims about larger data sets, other "
    "modalities or other model families, for which our evidence says nothing.",
    "The components that we use are standard and are described in the usual textbooks and in the documentation of "
    "scikit-learn. What differs between published comparisons is mostly the protocol: how data are split, which "
    "settings are held fixed, and how many repetitions stand behind a number. We therefore describe the protocol "
    "before anything else. We do not compare with numbers taken over from other articles unless this is said "
    "explicitly, since splits and preprocessing differ.",
    "Earlier work falls into two groups. The first proposes methods, and shows them at their best. The second repeats "
    "them under a common protocol and often finds smaller effects. Both are useful, but the second is rarer, in "
    "particular for problems small enough that an experiment takes seconds. We add one data point to the second "
    "group. Where our findings agree with common experience we say so, and where they do not we try to "
    "offer a reason without over-interpreting a handful of runs.",
    "Comparisons such as ours are easy to run and easy to get wrong. Known traps are tuning on the test split, "
    "standardising before splitting, and quoting the best of several runs. The code that accompanies this paper is "
    "short enough to be read in a few minutes, so that a reader can check what was done. Beyond this we "
    "rely on well-known algorithms and refer to standard references for their derivation.",
]
REPRO = [
    "The code is in `code/`, and what it wrote is in `results/`. The experiments need a CPU only and the whole study "
    "takes little time. Library versions other than ours may change the last digits.",
    "All scripts, the log and the result files come with this paper. No GPU is needed. Random number generators "
    "are seeded, so a rerun with the same library versions should reproduce the numbers.",
    "We ship the scripts together with their output. The dependencies are Python, numpy and scikit-learn. Run the main "
    "script from the top folder to repeat the study; existing files in `results/` are overwritten.",
    "Scripts and outputs are part of the submission: `code/` holds the former, `results/` the latter. Seeds are fixed "
    "in the code. We ran everything on CPU cores of an ordinary server.",
]
ETHICS = [
    "The study uses public or generated data without personal information, and we see no direct ethical concern.",
    "We see no particular risk in this work beyond the general one of reading too much into small benchmarks.",
    "No new data about people were collected. The compute used is negligible.",
    "The work is methodological and small; we expect its societal effect to be small as well.",
]


def stock(rng: random.Random) -> dict[str, str]:
    related = rng.sample(RELATED, 2 if rng.random() < 0.5 else 1)
    return {"RELATED": "\n\n".join(related), "REPRO": rng.choice(REPRO), "ETHICS": rng.choice(ETHICS)}


def fill_paper(base: Base, ctx: Ctx, extra: dict[str, str], rng: random.Random) -> str:
    """Evaluate the <<...>> expressions of the template over the result files."""
    space: dict[str, Any] = {**HELPERS, "R": ctx.results, "P": ctx.params, "DS": DATASETS, **stock(rng)}
    for slot in ("X_ABS", "X_SETUP", "X_RES", "X_LIM", "X_METHOD"):
        space[slot] = ""

    def one(match: re.Match[str]) -> str:
        return str(eval(" ".join(match.group(1).split()), space))  # noqa: S307 - our own templates

    for slot, text in extra.items():
        space[slot] = re.sub(r"<<(.+?)>>", one, text, flags=re.S)
    text = re.sub(r"<<(.+?)>>", one, base.paper.strip(), flags=re.S)
    title = re.sub(r"<<(.+?)>>", one, ctx.params.get("HEAD", base.title))
    text = restyle(f"# {title}\n\n" + text + "\n", rng)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text))


def restyle(text: str, rng: random.Random) -> str:
    """Vary headings and line wrapping, keep every word."""
    if rng.random() < 0.5:
        number = iter(range(1, 30))
        text = re.sub(r"^## (?!Abstract)", lambda m: f"## {next(number)}. ", text, flags=re.M)
    if rng.random() < 0.5:
        text = text.replace("## Experimental setup", "## Experiments: setup").replace("## Method", "## Approach")
    if rng.random() < 0.3:
        text = re.sub(r"(\d) ± ([\d.]+)", r"\1 (\2)", text).replace("mean ± sd", "mean, sd in brackets")
    width = rng.choice([10 ** 6, 10 ** 6, 80, 100, 120])       # often one line per paragraph
    blocks = []
    for block in text.split("\n\n"):
        head = ""
        if block.startswith("## ") and "\n" in block:
            head, block = block.split("\n", 1)
            head += "\n\n"
        keep = block.lstrip().startswith(("|", "#"))
        if not keep:
            block = textwrap.fill(" ".join(block.split()), width, break_on_hyphens=False)
        blocks.append(head + block)
    return "\n\n".join(blocks) + "\n"


class Tree(dict):
    """A dictionary whose keys can be read as attributes."""

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError as error:
            raise AttributeError(key) from error


def load_results(root: Path) -> dict[str, Any]:
    """results.json, and further json files below their stem."""
    out = Tree()
    for path in sorted((root / "results").glob("*.json")):
        data = json.loads(path.read_text(), object_hook=Tree)
        if path.stem == "results":
            out.update(data)
        else:
            out[path.stem] = data
    return out
