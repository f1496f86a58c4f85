"""Of a folder of code: which files there are, and the text of those that say most of how the results were made.

What somebody found to matter comes first: files with signs of invention, whole where they are short, then scripts that
ran. The others follow by what their names say (evaluation, method, the rest), and scripts that did not run come last.
Files are bounded, whatever is cut is named, nothing is executed and links are not followed. Not guaranteed: that names
tell what a file does, or that a file which is left out would not have mattered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from labwright.models.cutting import mark, middle
from labwright.models.roles.judge import Exhibit
from labwright.record.nouns.papers import Removed
from labwright.review.judge.exhibits import MOST_BYTES, GuardedExhibit, at_most, files_of, shown_name, text_of
from labwright.review.judge.guards import harmless, visible
from labwright.review.judge.reader import PaperError

CHARACTERS, MOST_NAMES = 26_000, 60
"""Shown of all files together; names that are listed."""
FLAGGED_CHARACTERS, FILE_CHARACTERS, LEAST = 6_000, 5_000, 500
"""Shown of a file with signs of invention, and of another one; less than `LEAST` is not worth a file."""
CODE = {
    ".py": 3,
    ".ipynb": 1,
    ".sh": 1,
    ".yaml": 1,
    ".yml": 1,
    ".toml": 1,
    ".json": 0,
    ".md": 0,
    ".r": 2,
    ".jl": 2,
    ".cpp": 1,
    ".c": 1,
    ".cu": 2,
    ".java": 1,
    ".rs": 1,
}
"""Endings that may be shown, with their weight."""

_EVALUATION = re.compile(r"eval|metric|scor|bench|compar|analy[sz]|result", re.IGNORECASE)
_METHOD = re.compile(r"train|experiment|main|run|model|method|algorithm|loss|data|baseline|ablat", re.IGNORECASE)
_ASIDE = re.compile(
    r"(?:^|/)(?:\.|tests?/|docs?/|node_modules/|venv/|build/|third_party/|__pycache__/)|setup\.py$|__init__\.py$"
)
_ENTRY = re.compile(rb"^if __name__ == [\"']__main__[\"']", re.MULTILINE)


def code_exhibit(
    folder: Path, paper: str, *, ran: Collection[str] = (), flagged: Collection[str] = ()
) -> GuardedExhibit:
    """The files of a folder of code. `ran` are the scripts that are known to have run, `flagged` files with signs of
    invention, both as paths within the folder. Raises `PaperError`."""
    sizes = _sizes(folder)
    if not sizes:
        raise PaperError(f"there is no code in {folder}: give --code the folder that holds the paper's code")
    excerpt = _Excerpt(folder, sizes, frozenset(ran), frozenset(flagged), paper.lower())
    blocks = [excerpt.listing(), *excerpt.blocks()]
    shown, removed = harmless("\n\n".join(blocks), f"--code {folder.name}")
    exhibit = Exhibit(kind="code", name=folder.name, text=shown, left_out=excerpt.cut)
    return GuardedExhibit(exhibit, (*excerpt.hidden, *removed))


@dataclass
class _Excerpt:
    """What is shown of a folder; `left_out` and `hidden` grow while the files are read."""

    folder: Path
    sizes: dict[str, int]
    ran: frozenset[str]
    flagged: frozenset[str]
    paper: str
    left_out: list[str] = field(default_factory=list[str])
    hidden: list[Removed] = field(default_factory=list[Removed])

    def listing(self) -> str:
        """The names of the files, sizes in bytes."""
        names = [f"{shown_name(name)} ({self._said(name)})" for name in sorted(self.sizes)]
        rest = [mark(f"{len(names) - MOST_NAMES} more files")] if len(names) > MOST_NAMES else []
        return "\n".join(["Files:", *names[:MOST_NAMES], *rest])

    def blocks(self) -> Iterator[str]:
        """The text of files under a mark with their name, as long as there is room."""
        used = 0
        for name in sorted(self.sizes, key=self._rank):
            if CHARACTERS - used < LEAST or self.sizes[name] > MOST_BYTES:
                self.left_out.append(f"{shown_name(name)} ({self.sizes[name]} bytes): the whole of it")
                continue
            text, most = self._text(name), FLAGGED_CHARACTERS if name in self.flagged else FILE_CHARACTERS
            share = min(len(text), most, CHARACTERS - used)
            if share < len(text):
                self.left_out.append(f"{shown_name(name)}: {len(text) - share} of {len(text)} characters in its middle")
            used += share
            yield f"{mark(f'{shown_name(name)}, {self._said(name)}')}\n{middle(text, share, worth=0)}"

    @property
    def cut(self) -> tuple[str, ...]:
        """What is not shown, a line each, at most twenty."""
        return at_most(self.left_out, 20)

    def _text(self, name: str) -> str:
        text, hidden = visible(text_of(self._path(name), "code"), f"--code {shown_name(name)}")
        self.hidden += hidden
        return text

    def _path(self, name: str) -> Path:
        return self.folder / name if self.folder.is_dir() else self.folder

    def _said(self, name: str) -> str:
        """What is known of a file beside its name."""
        return (
            f"{self.sizes[name]} bytes" + ", ran" * (name in self.ran) + ", noted by the audit" * (name in self.flagged)
        )

    def _rank(self, name: str) -> tuple[float, ...]:
        """Files in this order are shown until there is no room."""
        path = Path(name)
        role = 0 if _EVALUATION.search(path.stem) else 1 if _METHOD.search(path.stem) else 2
        weight = (
            CODE.get(path.suffix.lower(), 0)
            - 0.2 * name.count("/")
            + 3 * (len(path.stem) > 3 and path.name.lower() in self.paper)
        )
        return (
            name not in self.flagged,
            name not in self.ran,
            self._never_ran(name),
            bool(_ASIDE.search(name)),
            not CODE.get(path.suffix.lower(), 0),
            role,
            -weight,
            self.sizes[name],
        )

    def _never_ran(self, name: str) -> bool:
        """Whether a file is a script, and none of those that ran, where it is known which did."""
        if not self.ran or name in self.ran or self.sizes[name] > MOST_BYTES:
            return False
        return name.endswith(".sh") or bool(_ENTRY.search(self._path(name).read_bytes()))


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of files that may be code, by name."""
    if folder.is_file():
        return {folder.name: folder.stat().st_size}
    return {path.relative_to(folder).as_posix(): size for path, size in files_of(folder, CODE).items()}
