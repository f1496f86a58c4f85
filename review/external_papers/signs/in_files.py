"""Find result files that are copies of one another under different names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import PurePosixPath

from labwright.review.external_papers.result_files import ValueSeries
from labwright.review.external_papers.scripts import extract_words
from labwright.review.external_papers.signs.evidence import ClaimEvidence, plain
from labwright.review.external_papers.signs.sign import CIRCUMSTANTIAL, CONCLUSIVE, Sign

_COPY = re.compile(
    r"final|best|latest|last|copy|backup|old|all|main|full|summary|results?|run|rerun|metrics?|out|v\d+|seed|fold|"
    r"trial|rep|\d+",
    re.I,
)
_REPEAT = re.compile(r"seed|fold|trial|rep|run|^\d+$|epoch|step|iter|round", re.I)
_SAME = re.compile(
    r"identical|coincide|the same (?:numbers|results|scores|values|predictions|as)|are equal|determinis", re.I
)
LEAST = 3
"""Minimum number of precise numbers that two parts must have in common; all of them must agree."""


def of_files(series: Sequence[ValueSeries], logs: str, *, said: str) -> Iterator[Sign]:
    """Find files, or parts of a file, with identical precise numbers; `said` is the text of the paper, which may
    disclose it.
    """
    files: dict[str, list[float]] = defaultdict(list)
    parts: dict[str, dict[str, list[tuple[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for one in series:
        if one.from_prose:
            continue
        files[one.file] += [value for value in one.values if _fine(value)]
        for key in _keys(one):
            parts[one.file][key[0]] += [(key[1], value) for value in one.values[:50] if _fine(value)]
    for a, b in combinations(sorted(files), 2):
        if len(files[a]) >= 2 * LEAST and files[a] == files[b] and _told_apart(a, b):
            yield Sign(
                "copied results",
                f"all {len(files[a])} precise numbers equal those of {b}",
                a,
                "",
                CIRCUMSTANTIAL if _SAME.search(said) else CONCLUSIVE,
            )
    yield from _seeds(files, logs)
    for name, inside in parts.items():
        yield from _parts(name, inside)


def _seeds(files: Mapping[str, list[float]], logs: str) -> Iterator[Sign]:
    """Find files of several seeds with identical numbers, if the log shows fewer seeds."""
    named = [name for name in files if re.search(r"seed\D?\d|run\D?\d", name, re.I) and len(files[name]) >= LEAST]
    same = [name for name in named if files[name] == files[named[0]]]
    ran = set(re.findall(r"\b(?:seed|run)\W{0,4}(\d+)", logs, re.I))
    if len(same) > 1 and ran and len(ran) < len(named):
        what = f"{len(same)} files of seeds have the same numbers, but the log has {len(ran)} seeds"
        yield Sign("copied results", what, same[0], "", CONCLUSIVE)


def _parts(name: str, inside: dict[str, list[tuple[str, float]]]) -> Iterator[Sign]:
    for a, b in combinations(sorted(inside), 2):
        if (
            len(inside[a]) >= LEAST
            and sorted(inside[a]) == sorted(inside[b])
            and not _REPEAT.search(a)
            and not _REPEAT.search(b)
            and len({value for _, value in inside[a]}) >= LEAST
        ):
            shown = ", ".join(f"{value:g}" for _, value in inside[a][:4])
            what = f"{a} and {b} have the same {len(inside[a])} numbers"
            yield Sign("copied results", what, name, shown, CIRCUMSTANTIAL)
            return


def _keys(one: ValueSeries) -> Iterator[tuple[str, str]]:
    """Yield the outermost JSON key of values, and the rest."""
    if "|" in one.key or " " in one.key or "." not in one.key:
        return
    parts = one.key.split(".")
    for at in range(min(2, len(parts) - 1)):
        yield ".".join(parts[: at + 1]), ".".join(parts[at + 1 :])


def of_names(series: Sequence[ValueSeries], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Find arms or datasets in the results that no code names, although the code names others of the same kind."""
    code = plain(f"{evidence.code} {' '.join(one.path for one in evidence.found.scripts)}")
    words = extract_words(evidence.code)
    for kind, names in _siblings(series).items():
        unknown = sorted(name for name in names if plain(name) not in code and not extract_words(name) <= words)
        known = names - set(unknown)
        if code and unknown and len(known) >= max(2, 2 * len(unknown)):
            what = f"no code names {', '.join(unknown)}, which appear next to {', '.join(sorted(known)[:4])}"
            yield Sign("line of no program", what, kind, unknown[0], CONCLUSIVE)
            return


def _siblings(series: Sequence[ValueSeries]) -> dict[str, set[str]]:
    """Return names that occur in the same position in files of one kind: in file names, keys or row labels."""
    found: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for one in series:
        if one.from_prose or one.file.endswith((".log", ".txt", ".out")):
            continue
        stem = re.sub(r"\d+", "#", PurePosixPath(one.file).stem).split("_")
        for at, part in enumerate(stem) if len(stem) > 1 else ():
            found["files", PurePosixPath(one.file).suffix, *stem[:at], "*", *stem[at + 1 :]].add(part)
        labels = one.key.split("|")[1:-1]
        if len(labels) == 1 and " " not in labels[0]:
            found[one.file, one.key.partition("|")[0]].add(labels[0])
        for place in one.places[:200] if "|" not in one.key else ():
            path = re.sub(r"\[\d+\]|\{[^}]*\}", "", place).split(".")
            for at, part in enumerate(path[:-1]):
                found[one.file, *path[:at], "*", *path[at + 1 :]].add(part)
    return {
        " ".join(kind): {name for name in names if len(re.findall("[A-Za-z]", name)) > 2}
        for kind, names in found.items()
    }


def _told_apart(a: str, b: str) -> bool:
    """Return whether two file names denote different things rather than copies or seeds."""
    words = [set(re.findall(r"[a-z]+|\d+", PurePosixPath(name).with_suffix("").as_posix().lower())) for name in (a, b)]
    left, right = words[0] - words[1], words[1] - words[0]
    return (
        bool(left and right)
        and not any(_COPY.fullmatch(word) for word in left | right)
        and (PurePosixPath(a).suffix == PurePosixPath(b).suffix)
    )


def _fine(value: float) -> bool:
    return value != round(value, 2) and abs(value) < 1e9  # larger ones are timestamps
