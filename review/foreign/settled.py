"""What a paper claims of its set-up beside the lines of code that set it: for a reader to hold together, no judgement.

Counts of seeds, folds, epochs and the like, sizes of training and test parts, learning rates and weights. Of a claim
whose number stands in the code, though no line is seen to set it, nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from labwright.review.foreign.signs.counts import COUNT, count

MOST, MOST_LINES, LONGEST = 10, 2, 90
_AGAIN = "reps|repeats|repetitions|replicates|replications|trials|runs|seeds"
_COUNTED = {
    "seeds": "seeds|n_seed",
    "folds": "fold|split|cv",
    "epochs": "epoch",
    "repetitions": _AGAIN,
    "repeats": _AGAIN,
    "replications": _AGAIN,
    "trials": _AGAIN,
    "restarts": "restart|init",
    "rounds": "round",
    "episodes": "episode",
    "iterations": "iter|iteration|step",
    "steps": "step|iter|iteration",
    "permutations": "perm|permutation|flip",
    "resamples": "boot|bootstrap|resample",
    "bootstrap samples": "boot|bootstrap|resample",
    "clients": "client",
    "trees": "tree|estimator",
    "layers": "layer|depth",
}
_VALUED = {
    "learning rate": "lr|learning_rate|eta|step_size",
    "batch size": "batch|batch_size",
    "weight": "weight|lam|lambda",
    "weight decay": "decay|weight_decay",
    "momentum": "momentum",
    "dropout": "drop|dropout",
    "hidden size": "hidden|width",
    "hidden units": "hidden|width",
    "penalty": "penalty|reg|lam|lambda|alpha|l2",
    "temperature": "temperature|temp|tau",
}
"""What is counted or set in words, and the names that code has for it."""
_PARTS = {
    "test": "test|test_size|held_out|holdout|eval",
    "held-out": "test|test_size|held_out|holdout|eval",
    "training": "train|train_size",
}
_AMONG = (
    r"(?:(?:random|different|independent|separate|fixed|training|minibatch|gradient|cross-validation|local|"
    r"communication|boosting)\s+){0,2}"
)
_OF_COUNTS = re.compile(rf"(?<![\d.,-])\b{COUNT}\s+{_AMONG}({'|'.join(_COUNTED)})\b", re.I)
_OF_VALUES = re.compile(
    rf"\b({'|'.join(sorted(_VALUED, key=len, reverse=True))})\s+(?:(?:of|is|was|=|to|set to)\s+)?"
    r"(\d+(?:\.\d+)?(?:e-?\d+)?)(?![\d.]*\s*%)",
    re.I,
)
_OF_PARTS = re.compile(
    rf"(?<![\d.,-])\b{COUNT}\s+(test|held-out|training)\s+[a-z]+|"
    rf"\b(test|held-out|training)\s+(?:set|split|part|data)\s+(?:of|has|with|contains|is|holds)\s+{COUNT}\b"
    r"(?!\s*%)",
    re.I,
)
SETTING = re.compile(f"{_OF_COUNTS.pattern}|{_OF_VALUES.pattern}|{_OF_PARTS.pattern}", re.I)
"""A setting with its number, as a sentence has it."""


@dataclass(frozen=True)
class Claim:
    """A claim in its words: what is claimed, the number, the names for it in code."""

    what: str
    value: float
    names: str
    said: str = field(compare=False)


def claimed_settings(
    sentences: Sequence[str], code: Mapping[str, str], logs: Mapping[str, str], results: Iterable[float]
) -> Iterator[str]:
    """`claimed 20 seeds; code: run.py:3 SEEDS = [0, 1, 2]`, each claim once; logs are read for sizes alone."""
    claims = dict.fromkeys(one for sentence in sentences for one in _claims(sentence)) if code else ()
    numbers = {
        float(one)
        for one in re.findall(
            r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])", "\n".join((*code.values(), *logs.values())).replace("_", "")
        )
    } | set(results)
    lines: list[str] = []
    for one in claims:
        found = [*_set(one.names, code)][:MOST_LINES]
        found += [*_set(one.names, logs)][:1] if one.what in _PARTS else []
        if found:
            lines.append(f"claimed {one.said}; code: {'; '.join(found)}")
        elif one.value not in numbers:
            lines.append(f"claimed {one.said}; code, logs and results do not have this number")
    yield from lines[:MOST]


def _claims(sentence: str) -> Iterator[Claim]:
    for match in _OF_COUNTS.finditer(sentence):
        yield Claim(match[2].lower(), count(match[1]), _COUNTED[match[2].lower()], match[0])
    for match in _OF_VALUES.finditer(sentence):
        yield Claim(match[1].lower(), float(match[2]), _VALUED[match[1].lower()], match[0])
    for match in _OF_PARTS.finditer(sentence):
        part = (match[2] or match[3]).lower()
        yield Claim(part, count(match[1] or match[4]), _PARTS[part], match[0])


def _set(names: str, files: Mapping[str, str]) -> Iterator[str]:
    """Lines that give such a name a number: assigned, a default, an option, a key, the range of a loop."""
    name = rf"(?i:[\w-]*(?<![a-z])(?:{names})s?)(?i:(?![a-z])[\w-]*)"
    one = rf"(?i:{re.sub(r's?(?=[|]|$)', 's?', names)})"
    sets = re.compile(
        rf"(?<![\w-]){name}[\"']?\s*(?::\s*[\w\[\]]+\s*)?[:=](?!=)\s*(?:list\(|tuple\()?(?:range\(|\[|\()?\s*-?\d|"
        rf"^\s*(?:\w+,\s*)*{name}(?:\s*,\s*\w+)*\s*=(?!=).*,.*\d|\bfor\s+{one}\s+in\s+(?:range\(|\[|\()\s*\d|"
        rf"[\"']--?{name}[\"'].*\bdefault\s*=\s*\S*\d|--{name}[ =]+\d"
    )
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if not line.lstrip().startswith(("#", "assert", "return ")) and (match := sets.search(line)):
                start = max(0, match.start() - 30) if len(line) > LONGEST else 0
                yield f"{path}:{number} {line[start:].strip()[:LONGEST]}"
