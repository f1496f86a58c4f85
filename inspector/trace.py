"""Where a printed number comes from: a pure reading of the record and of the paper's sources.

A number is looked for as it is printed: `0.021` is found in `-0.021 ± 0.003`, and not in `0.0214`. Numbers that a
figure draws are not found. The line of code is the call that can have handed the value in: several, where a script has
several that could.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from inspector.traced_code import assignment, handing_in
from inspector.traced_files import FileOf, files_of
from record.claims import Claim, Difference, differences, paper_claims, printed, setups, winner
from record.fold import RunState
from record.folder import RunFolder
from record.nouns import Frozen
from record.typeset import as_read

NEAREST = 5
SOURCES = ("paper.tex", "floats.tex", "appendix.tex")
FORMS = {"mean": "mean", "sd": "standard deviation", "low": "lower end of the interval", "ci": "interval",
         "high": "upper end of the interval", "n": "replicates", "pm": "mean and standard deviation",
         "ci_examples": "interval over test examples", "p": "p of the paired t test", "p_adjusted": "corrected p",
         "mde": "smallest difference that would have been found"}
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w]|\.\d)")
_USE = re.compile(r"\\(?:result|setup)\{([^{}]*)\}")
_REC = re.compile(r"\\rec\{((?:[^{}]|\{\})*)\}")


class Place(Frozen):
    """Where a number stands."""

    file: str
    line: int
    text: str


class Origin(Frozen):
    """One node behind a number."""

    node: str
    seed: int
    value: float
    condition: str
    files: tuple[FileOf, ...] = ()


class Candidate(Frozen):
    """One thing that a printed number may be. `what` says which form of it has the number."""

    kind: Literal["claim", "setting", "value", "text"]
    key: str
    what: str
    printed: str
    grade: str = ""
    places: tuple[Place, ...] = ()
    """Empty: the record has it, the paper does not print it."""
    origins: tuple[Origin, ...] = ()
    data: tuple[str, ...] = ()
    code: tuple[Place, ...] = ()
    again: str = ""
    """The command that makes the value again; empty where nothing is computed."""


class Trace(Frozen):
    """What a number may be, what the paper prints first; `nearest` where it is nothing."""

    number: str
    candidates: tuple[Candidate, ...]
    nearest: tuple[str, ...] = ()


def number_of(text: str) -> str | None:
    """A number as people write it, as it is printed: a real minus, a leading plus or a percent sign mended."""
    plain = text.strip().replace("\u2212", "-").removeprefix("+").removesuffix("%").strip()
    return plain if _NUMBER.fullmatch(plain) else None


def trace(state: RunState, folder: RunFolder, number: str, *, run: str) -> Trace:
    """All that the number may be; it must come from `number_of`. `run` names the folder in commands."""
    tracer = _Tracer(state, folder, number, run)
    found = [*tracer.claims(), *tracer.settings(), *tracer.values()]
    found += tracer.texts(found)
    shown = [one for one in found if one.places] or found
    return Trace(number=number, candidates=tuple(shown), nearest=() if shown else tuple(tracer.nearest()))


def trace_key(state: RunState, folder: RunFolder, key: str, *, run: str) -> Trace | None:
    """What a printed value is, by the key that it is bound to; None where the record has no such key."""
    tracer = _Tracer(state, folder, "", run)
    text = tracer.printed.get(key)
    if text is None:
        return None
    name, _, form = key.rpartition(".")
    claim = tracer.known.get(name)
    found = tracer.of_setting(key, text) if claim is None else tracer.of_claim(
        claim, FORMS.get(form, form), text, tracer.uses.get(key, ()))
    return Trace(number=text, candidates=(found,))


@dataclass
class _Tracer:
    state: RunState
    folder: RunFolder
    number: str
    run: str

    # --- what is printed --------------------------------------------------------------------------------------------

    def claims(self) -> Iterator[Candidate]:
        for claim in self.known.values():
            texts = {key: as_read(text) for key, text in printed([claim]).items()}
            forms = [key for key, text in texts.items() if self.in_text(text)]
            if forms:
                places = tuple(place for key in forms for place in self.uses.get(key, ()))
                chosen = next((key for key in forms if key in self.uses), forms[0])
                form = chosen.rpartition(".")[2]
                yield self.of_claim(claim, FORMS.get(form, form), texts[chosen], places)

    def settings(self) -> Iterator[Candidate]:
        for key, text in setups(self.state).items():
            if self.in_text(text) or _float(text) == float(self.number):
                yield self.of_setting(key, text)

    def values(self) -> Iterator[Candidate]:
        """Single values of the paper's claims, which the appendix lists by seed."""
        for claim in self.known.values():
            if isinstance(claim, Difference):
                continue
            hits = [(node, seed) for node, seed, value in zip(claim.nodes, claim.seeds, claim.values, strict=True)
                    if f"{value:.4g}" == self.number]
            rows = self.told(lambda text, claim=claim: text.startswith(
                f"{claim.dataset} & {claim.name.replace('_', ' ')} & {claim.condition} &"))
            for node, seed in hits:
                one = self.of_claim(claim, f"value of seed {seed}", self.number, tuple(rows), only=node)
                yield one.model_copy(update={"kind": "value"})

    def texts(self, found: Sequence[Candidate]) -> Iterator[Candidate]:
        """What else the program printed from the record: rows of the appendix that nothing else explains."""
        known = {(place.file, place.line) for one in found for place in one.places}
        rows = [place for place in self.told(lambda _: True) if (place.file, place.line) not in known]
        for place in rows:
            node = next((name for name in self.state.nodes if re.match(rf"{name}\b", place.text)), "")
            yield Candidate(kind="text", key=node, what="text of the record, set by the program", printed=self.number,
                            places=(place,), again=self.reproduce([node]) if node else "")

    def in_text(self, text: str) -> bool:
        asked = self.number
        return any(token == asked or (token == f"-{asked}") for token in _NUMBER.findall(text))

    # --- where it comes from ----------------------------------------------------------------------------------------

    def of_claim(
        self, claim: Claim, what: str, text: str, places: tuple[Place, ...], *, only: str | None = None
    ) -> Candidate:
        parts = self.parts(claim)
        origins = tuple(origin for part in parts for origin in self.origins(part) if only in (None, origin.node))
        return Candidate(
            kind="claim", key=claim.key, what=what, printed=text, grade=claim.grade, places=places, origins=origins,
            data=self.data(claim.dataset), code=tuple(dict.fromkeys(self.code(parts))),
            again=self.reproduce([one.node for one in origins]))

    def parts(self, claim: Claim) -> tuple[Claim, ...]:
        """A claim, or the two that a difference is between."""
        if not isinstance(claim, Difference):
            return (claim,)
        keys = [f"{claim.split}/{claim.dataset}/{claim.name}/{one}" for one in (claim.condition, claim.other)]
        return tuple(self.known[key] for key in keys if key in self.known)

    def origins(self, claim: Claim) -> Iterator[Origin]:
        for node, seed, value in zip(claim.nodes, claim.seeds, claim.values, strict=True):
            yield Origin(node=node, seed=seed, value=value, condition=claim.condition,
                         files=tuple(files_of(self.state.nodes[node], self.folder, claim)))

    def code(self, claims: Iterable[Claim]) -> Iterator[Place]:
        """Each line once for every source: replicates run that of their parent."""
        seen: set[str] = set()
        for claim in claims:
            sources = {self.state.nodes[name].source_sha256: name for name in reversed(claim.nodes)}
            for sha256, name in sources.items():
                if f"{sha256}{claim.key}" not in seen:
                    seen.add(f"{sha256}{claim.key}")
                    yield from self.lines(name, lambda text, claim=claim: handing_in(text, claim))

    def lines(self, node: str, look: Callable[[str], Iterable[int]]) -> Iterator[Place]:
        path = self.folder.source(node) / "experiment.py"
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            shown = text.splitlines()
            for number in look(text):
                yield Place(file=self.relative(path), line=number, text=shown[number - 1].strip())

    def data(self, name: str) -> tuple[str, ...]:
        return tuple(f"{one.name} from {one.source}, fingerprint {one.fingerprint}" for one in self.state.datasets
                     if one.name == name)

    def of_setting(self, key: str, text: str) -> Candidate:
        where, _, name = key.partition(".")
        best = winner(self.state) if where == "code" else None
        return Candidate(
            kind="setting", key=key, what=_setting(key), printed=text, places=self.uses.get(key, ()),
            data=self.data(name.partition(".")[0]) if where == "data" else (),
            code=tuple(self.lines(best, lambda text: assignment(text, name))) if best else (),
            again=self.reproduce([best]) if best else "")

    def reproduce(self, nodes: Iterable[str]) -> str:
        chosen = " ".join(f"--node {name}" for name in dict.fromkeys(nodes))
        return f"scientist reproduce {self.run} {chosen}".strip()

    # --- the record and the paper -----------------------------------------------------------------------------------

    @cached_property
    def known(self) -> dict[str, Claim]:
        found = paper_claims(self.state)
        return {one.key: one for one in (*found, *differences(self.state, found))}

    @cached_property
    def sources(self) -> Mapping[str, list[str]]:
        found = {self.folder.paper / name: name for name in SOURCES}
        return {self.relative(path): path.read_text(encoding="utf-8", errors="replace").splitlines()
                for path in found if path.is_file()}

    @cached_property
    def uses(self) -> dict[str, tuple[Place, ...]]:
        """Key -> where the paper prints it."""
        found: dict[str, tuple[Place, ...]] = {}
        for file, number, line in self.every_line():
            for key in dict.fromkeys(_USE.findall(line)):
                found[key] = (*found.get(key, ()), Place(file=file, line=number, text=self.around(line, key)))
        return found

    def around(self, line: str, key: str) -> str:
        """What stands around a key, every key as the value that it prints."""
        at = line.find(f"{{{key}}}")
        at = line.rfind("\\", 0, at + 1)
        before, after = (_plain(_USE.sub(lambda found: self.printed.get(found[1], found[1]), part))
                         for part in (line[:at], f" {line[at:]}"))
        start = before.rfind(" ", 0, max(0, len(before) - 60)) + 1
        return ("... " if start else "") + _cut(re.sub(r"\\[a-zA-Z]+|[{}$]", "", f"{before[start:]} {after}"))

    @cached_property
    def printed(self) -> dict[str, str]:
        return {key: as_read(text) for key, text in printed(self.known.values()).items()} | setups(self.state)

    def told(self, fits: Callable[[str], bool]) -> Iterator[Place]:
        """Lines whose recorded text (`\\rec`) has the number."""
        for file, number, line in self.every_line():
            if any(self.number == _plain(text).strip(".,;:()[]") for text in _REC.findall(line)):
                text = _plain(line)
                if fits(text):
                    yield Place(file=file, line=number, text=_cut(text))

    def every_line(self) -> Iterator[tuple[str, int, str]]:
        for file, lines in self.sources.items():
            for number, line in enumerate(lines, 1):
                yield file, number, line

    def relative(self, path: Path) -> str:
        return str(path.relative_to(self.folder.root))

    def nearest(self) -> list[str]:
        """What is printed and comes closest, also as a percentage; each with its key."""
        used = {key: text for key, text in self.printed.items() if key in self.uses} or self.printed
        asked = float(self.number)
        near = [(min(abs(float(token) - asked), abs(100 * float(token) - asked)), token, key)
                for key, text in used.items() for token in _NUMBER.findall(text)]
        return [f"{token} ({key})" for _, token, key in sorted(near)[:NEAREST]]


def _setting(key: str) -> str:
    kinds = {"code": "constant of the winner's code", "data": "a size of the data", "level": "level of the data plan",
             "run": "counted in the record"}
    return kinds.get(key.partition(".")[0], "setting")


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _plain(line: str) -> str:
    """A line of the program's own TeX as text, roughly."""
    line = re.sub(r"\\allowbreak\{\}", "", line)
    line = re.sub(r"\\(?:rec|emph|text[a-z]+)\{([^{}]*)\}", r"\1", line)
    return re.sub(r"\\([&%#_$])|\\\\", lambda found: found[1] or "", line).strip()


def _cut(text: str, width: int = 140) -> str:
    return text if len(text) <= width else f"{text[:width].rstrip()}..."
