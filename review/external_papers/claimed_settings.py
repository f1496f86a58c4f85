"""List settings that a paper claims next to the lines of code that set them; the reader compares them.

The covered settings are counts of seeds, folds, epochs and the like, sizes of training and test sets, learning rates
and weights. A claim is skipped if the code contains its number but no line that visibly sets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from labwright.review.external_papers.signs.counts import COUNT, count

MAX_CLAIMS, MAX_LINES_PER_CLAIM, MAX_LINE_CHARACTERS = 10, 2, 90
_REPETITION_NAMES = "reps|repeats|repetitions|replicates|replications|trials|runs|seeds"
_COUNT_NAMES = {
    "seeds": "seeds|n_seed",
    "folds": "fold|split|cv",
    "epochs": "epoch",
    "repetitions": _REPETITION_NAMES,
    "repeats": _REPETITION_NAMES,
    "replications": _REPETITION_NAMES,
    "trials": _REPETITION_NAMES,
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
_VALUE_NAMES = {
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
"""Words for a setting, and the names that code uses for it."""
_SPLIT_NAMES = {
    "test": "test|test_size|held_out|holdout|eval",
    "held-out": "test|test_size|held_out|holdout|eval",
    "training": "train|train_size",
}
_WORDS_BETWEEN = (
    r"(?:(?:random|different|independent|separate|fixed|training|minibatch|gradient|cross-validation|local|"
    r"communication|boosting)\s+){0,2}"
)
_COUNT_CLAIM = re.compile(rf"(?<![\d.,-])\b{COUNT}\s+{_WORDS_BETWEEN}({'|'.join(_COUNT_NAMES)})\b", re.I)
_VALUE_CLAIM = re.compile(
    rf"\b({'|'.join(sorted(_VALUE_NAMES, key=len, reverse=True))})\s+(?:(?:of|is|was|=|to|set to)\s+)?"
    r"(\d+(?:\.\d+)?(?:e-?\d+)?)(?![\d.]*\s*%)",
    re.I,
)
_SPLIT_SIZE_CLAIM = re.compile(
    rf"(?<![\d.,-])\b{COUNT}\s+(test|held-out|training)\s+[a-z]+|"
    rf"\b(test|held-out|training)\s+(?:set|split|part|data)\s+(?:of|has|with|contains|is|holds)\s+{COUNT}\b"
    r"(?!\s*%)",
    re.I,
)
SETTING = re.compile(f"{_COUNT_CLAIM.pattern}|{_VALUE_CLAIM.pattern}|{_SPLIT_SIZE_CLAIM.pattern}", re.I)
"""A setting with its number, in a sentence."""


@dataclass(frozen=True)
class SettingClaim:
    """A claim: its quote, the setting, the number, and the names that code may use for it."""

    setting: str
    value: float
    code_names: str
    quote: str = field(compare=False)


def compare_claimed_settings(
    sentences: Sequence[str], code: Mapping[str, str], logs: Mapping[str, str], results: Iterable[float]
) -> Iterator[str]:
    """Yield `claimed 20 seeds; code: run.py:3 SEEDS = [0, 1, 2]`, each claim once.

    Logs are searched only for sizes.
    """
    claims = dict.fromkeys(one for sentence in sentences for one in _find_claims(sentence)) if code else ()
    numbers = {
        float(one)
        for one in re.findall(
            r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])", "\n".join((*code.values(), *logs.values())).replace("_", "")
        )
    } | set(results)
    lines: list[str] = []
    for one in claims:
        found = [*_find_assignments(one.code_names, code)][:MAX_LINES_PER_CLAIM]
        found += [*_find_assignments(one.code_names, logs)][:1] if one.setting in _SPLIT_NAMES else []
        if found:
            lines.append(f"claimed {one.quote}; code: {'; '.join(found)}")
        elif one.value not in numbers:
            lines.append(f"claimed {one.quote}; this number is not in code, logs or results")
    yield from lines[:MAX_CLAIMS]


def _find_claims(sentence: str) -> Iterator[SettingClaim]:
    for match in _COUNT_CLAIM.finditer(sentence):
        yield SettingClaim(match[2].lower(), count(match[1]), _COUNT_NAMES[match[2].lower()], match[0])
    for match in _VALUE_CLAIM.finditer(sentence):
        yield SettingClaim(match[1].lower(), float(match[2]), _VALUE_NAMES[match[1].lower()], match[0])
    for match in _SPLIT_SIZE_CLAIM.finditer(sentence):
        part = (match[2] or match[3]).lower()
        yield SettingClaim(part, count(match[1] or match[4]), _SPLIT_NAMES[part], match[0])


def _find_assignments(names: str, files: Mapping[str, str]) -> Iterator[str]:
    """Yield lines that set one of the names: assignments, defaults, options, keys, ranges of loops."""
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
                start = max(0, match.start() - 30) if len(line) > MAX_LINE_CHARACTERS else 0
                yield f"{path}:{number} {line[start:].strip()[:MAX_LINE_CHARACTERS]}"
