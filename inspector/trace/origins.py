"""What is behind a value of the record: nodes, files, data, lines of code, and the command that makes it again.

The line of code is the call that can have handed the value in: several, where a script has several that could.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from inspector.files import LARGEST, bytes_of
from inspector.trace.code import assignment, handing_in
from inspector.trace.files import files_of
from inspector.trace.nouns import Candidate, Origin, Place
from record.claims import Claim, Difference, winner
from record.fold.state import RunState
from record.folder import RunFolder


class Origins:
    """Looks claims and settings up in a state of the record. `run` names the folder in commands."""

    def __init__(self, state: RunState, folder: RunFolder, known: Mapping[str, Claim], run: str) -> None:
        self._state, self._folder, self._known, self._run = state, folder, known, run

    def of_claim(
        self, claim: Claim, what: str, text: str, places: tuple[Place, ...], *, only: str | None = None
    ) -> Candidate:
        """A claim that is printed as `text`; of one node alone, where `only` names it."""
        parts = self._parts(claim)
        origins = tuple(origin for part in parts for origin in self._origins(part) if only in (None, origin.node))
        return Candidate(
            kind="claim", key=claim.key, what=what, printed=text, grade=claim.grade, places=places, origins=origins,
            data=self._data(claim.dataset), code=tuple(dict.fromkeys(self._code(parts))),
            again=self.reproduce([one.node for one in origins]))

    def of_setting(self, key: str, text: str, places: tuple[Place, ...]) -> Candidate:
        where, _, name = key.partition(".")
        best = winner(self._state) if where == "code" else None
        return Candidate(
            kind="setting", key=key, what=_setting(where), printed=text, places=places,
            data=self._data(name.partition(".")[0]) if where == "data" else (),
            code=tuple(self._lines(best, lambda text: assignment(text, name))) if best else (),
            again=self.reproduce([best]) if best else "")

    def reproduce(self, nodes: Iterable[str]) -> str:
        chosen = " ".join(f"--node {name}" for name in dict.fromkeys(nodes))
        return f"scientist reproduce {self._run} {chosen}".strip()

    def _parts(self, claim: Claim) -> tuple[Claim, ...]:
        """A claim, or the two that a difference is between."""
        if not isinstance(claim, Difference):
            return (claim,)
        keys = [f"{claim.split}/{claim.dataset}/{claim.name}/{one}" for one in (claim.condition, claim.other)]
        return tuple(self._known[key] for key in keys if key in self._known)

    def _origins(self, claim: Claim) -> Iterator[Origin]:
        for node, seed, value in zip(claim.nodes, claim.seeds, claim.values, strict=True):
            yield Origin(node=node, seed=seed, value=value, condition=claim.condition,
                         files=tuple(files_of(self._state.nodes[node], self._folder, claim)))

    def _code(self, claims: Iterable[Claim]) -> Iterator[Place]:
        """Each line once for every source: replicates run that of their parent."""
        seen: set[str] = set()
        for claim in claims:
            sources = {self._state.nodes[name].source_sha256: name for name in reversed(claim.nodes)}
            for sha256, name in sources.items():
                if f"{sha256}{claim.key}" not in seen:
                    seen.add(f"{sha256}{claim.key}")
                    yield from self._lines(name, lambda text, claim=claim: handing_in(text, claim))

    def _lines(self, node: str, look: Callable[[str], Iterable[int]]) -> Iterator[Place]:
        path = str((self._folder.source(node) / "experiment.py").relative_to(self._folder.root))
        found = bytes_of(self._folder.root, path, LARGEST)
        if found is not None:
            text = found.decode("utf-8", "replace")
            shown = text.splitlines()
            for number in look(text):
                yield Place(file=path, line=number, text=shown[number - 1].strip())

    def _data(self, name: str) -> tuple[str, ...]:
        return tuple(f"{one.name} from {one.source}, fingerprint {one.fingerprint}" for one in self._state.datasets
                     if one.name == name)


def _setting(where: str) -> str:
    kinds = {"code": "constant of the winner's code", "data": "a size of the data", "level": "level of the data plan",
             "run": "counted in the record"}
    return kinds.get(where, "setting")
