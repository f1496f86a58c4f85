"""Excerpt of a code folder for a judge: the file list, and the text of the files most relevant to the results.

Scripts that ran come first, in full if short. Other files follow in an order suggested by their names (evaluation,
method, the rest); scripts that did not run come last. Sizes are limited, every
cut is reported, nothing is executed and links are not followed. Limits: names may mislead, and an omitted file may
matter.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from labwright.models.prompt_filters import cut_middle, format_mark
from labwright.models.roles.judge import Exhibit
from labwright.record.schema.paper import RemovedPassage
from labwright.review.judge.attachments import (
    MAX_FILE_BYTES,
    GuardedExhibit,
    format_file_list,
    format_file_name,
    list_files,
    read_text_file,
)
from labwright.review.judge.guards import remove_encoded, strip_invisible
from labwright.review.judge.paper_reader import PaperError

MAX_CHARACTERS, MAX_NAMES = 26_000, 60
"""Characters shown of all files together; number of names listed."""
MAX_RAN_CHARACTERS, MAX_FILE_CHARACTERS, MIN_FILE_CHARACTERS = 6_000, 5_000, 500
"""Characters shown of a script that ran, and of any other file; a shorter excerpt is omitted."""
CODE_SUFFIX_RANKS = {
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
"""File endings that may be shown, with their weights."""

_EVALUATION_NAME = re.compile(r"eval|metric|scor|bench|compar|analy[sz]|result", re.IGNORECASE)
_METHOD_NAME = re.compile(r"train|experiment|main|run|model|method|algorithm|loss|data|baseline|ablat", re.IGNORECASE)
_SKIPPED_PATH = re.compile(
    r"(?:^|/)(?:\.|tests?/|docs?/|node_modules/|venv/|build/|third_party/|__pycache__/)|setup\.py$|__init__\.py$"
)
_MAIN_BLOCK = re.compile(rb"^if __name__ == [\"']__main__[\"']", re.MULTILINE)


def build_code_exhibit(folder: Path, paper: str, *, ran_scripts: Collection[str] = ()) -> GuardedExhibit:
    """Return an excerpt of the files in a code folder.

    `ran_scripts` are the scripts known to have run, as relative paths. Raises `PaperError`.
    """
    sizes = _list_code_files(folder)
    if not sizes:
        raise PaperError(f"{folder} contains no code: give --code the folder with the paper's code")
    excerpt = _CodeExcerpt(folder, sizes, frozenset(ran_scripts), paper.lower())
    blocks = [excerpt.format_listing(), *excerpt.iter_blocks()]
    shown, removed = remove_encoded("\n\n".join(blocks), f"--code {folder.name}")
    exhibit = Exhibit(kind="code", name=folder.name, text=shown, left_out=excerpt.omitted_lines)
    return GuardedExhibit(exhibit, (*excerpt.removed, *removed))


@dataclass
class _CodeExcerpt:
    """The excerpt of a folder; `left_out` and `hidden` grow while files are read."""

    folder: Path
    sizes: dict[str, int]
    ran_scripts: frozenset[str]
    paper: str
    left_out: list[str] = field(default_factory=list[str])
    removed: list[RemovedPassage] = field(default_factory=list[RemovedPassage])

    def format_listing(self) -> str:
        """Return the names and sizes in bytes of the files."""
        names = [f"{format_file_name(name)} ({self._describe_file(name)})" for name in sorted(self.sizes)]
        rest = [format_mark(f"{len(names) - MAX_NAMES} more files")] if len(names) > MAX_NAMES else []
        return "\n".join(["Files:", *names[:MAX_NAMES], *rest])

    def iter_blocks(self) -> Iterator[str]:
        """Yield the text of each file under a mark with its name, within the limit."""
        used = 0
        for name in sorted(self.sizes, key=self._sort_key):
            if MAX_CHARACTERS - used < MIN_FILE_CHARACTERS or self.sizes[name] > MAX_FILE_BYTES:
                self.left_out.append(f"{format_file_name(name)} ({self.sizes[name]} bytes): all of it")
                continue
            text, most = (
                self._read_text(name),
                MAX_RAN_CHARACTERS if name in self.ran_scripts else MAX_FILE_CHARACTERS,
            )
            share = min(len(text), most, MAX_CHARACTERS - used)
            if share < len(text):
                self.left_out.append(
                    f"{format_file_name(name)}: {len(text) - share} of {len(text)} characters in its middle"
                )
            used += share
            mark = format_mark(f"{format_file_name(name)}, {self._describe_file(name)}")
            yield f"{mark}\n{cut_middle(text, share, min_saved_share=0)}"

    @property
    def omitted_lines(self) -> tuple[str, ...]:
        """Yield the omissions, one line each, at most twenty."""
        return format_file_list(self.left_out, 20)

    def _read_text(self, name: str) -> str:
        text, hidden = strip_invisible(read_text_file(self._resolve(name), "code"), f"--code {format_file_name(name)}")
        self.removed += hidden
        return text

    def _resolve(self, name: str) -> Path:
        return self.folder / name if self.folder.is_dir() else self.folder

    def _describe_file(self, name: str) -> str:
        """Return the known facts about a file other than its name."""
        return f"{self.sizes[name]} bytes" + ", ran" * (name in self.ran_scripts)

    def _sort_key(self, name: str) -> tuple[float, ...]:
        """Sort key: files are shown in this order until the limit is reached."""
        path = Path(name)
        role = 0 if _EVALUATION_NAME.search(path.stem) else 1 if _METHOD_NAME.search(path.stem) else 2
        weight = (
            CODE_SUFFIX_RANKS.get(path.suffix.lower(), 0)
            - 0.2 * name.count("/")
            + 3 * (len(path.stem) > 3 and path.name.lower() in self.paper)
        )
        return (
            name not in self.ran_scripts,
            self._is_unrun_script(name),
            bool(_SKIPPED_PATH.search(name)),
            not CODE_SUFFIX_RANKS.get(path.suffix.lower(), 0),
            role,
            -weight,
            self.sizes[name],
        )

    def _is_unrun_script(self, name: str) -> bool:
        """Return whether a file is a script that did not run; False if it is not known which scripts ran."""
        if not self.ran_scripts or name in self.ran_scripts or self.sizes[name] > MAX_FILE_BYTES:
            return False
        return name.endswith(".sh") or bool(_MAIN_BLOCK.search(self._resolve(name).read_bytes()))


def _list_code_files(folder: Path) -> dict[str, int]:
    """Return the sizes in bytes of files that may be code, by name."""
    if folder.is_file():
        return {folder.name: folder.stat().st_size}
    return {path.relative_to(folder).as_posix(): size for path, size in list_files(folder, CODE_SUFFIX_RANKS).items()}
