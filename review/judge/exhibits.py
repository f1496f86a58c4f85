"""What a paper is held against: a task description, a log, result files, pictures of its pages, the record of its run.

Files are bounded, and whatever is cut is named; of a long log lines that repeat others but for their numbers are folded
first. Orders to reviewers are removed as they are from the paper. Pages with a removed passage are withheld: a picture
would bring it back. Code is in `review.judge.code`. Not guaranteed: an order that is drawn in a picture, and is no
text, reaches the model.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from labwright.models.backend import Image
from labwright.models.cutting import mark, middle, oneline, unmarked
from labwright.models.roles.judge import Exhibit, ExhibitKind, Pages, RecordFacts
from labwright.record.claims.differences import differences
from labwright.record.claims.means import ablations, paper_claims, replicates_of, winner
from labwright.record.fold.state import RunState
from labwright.record.nouns.data import arm_of
from labwright.record.nouns.nodes import SEARCH_KINDS
from labwright.record.nouns.papers import JUDGING, Draft, Removed
from labwright.review.evidence import tex
from labwright.review.evidence.allowed import CITES
from labwright.review.evidence.binder import used_keys
from labwright.review.judge.folding import folded
from labwright.review.judge.guards import harmless, visible
from labwright.review.judge.guards.ink import TIMEOUT
from labwright.review.judge.reader import PaperError, decoded, private_copy, read_bounded

MOST_BYTES = 50_000_000
SHOWN = {"task": 9_000, "log": 9_000}
RESULTS = frozenset({".json", ".jsonl", ".csv", ".tsv", ".txt", ".md", ".yaml", ".yml"})
A_RESULT, MOST_RESULTS, MOST_ENTRIES = 900, 8, 5_000
"""Characters of a file of results; how many are shown, and looked at."""
EMPTY = "(the file is empty)"
"""What a judge is shown of an empty log, which says something by itself."""


@dataclass(frozen=True)
class GuardedExhibit:
    """An exhibit, and what the guards took out of it."""

    exhibit: Exhibit
    removed: tuple[Removed, ...] = ()


def file_exhibit(kind: ExhibitKind, path: Path) -> GuardedExhibit:
    """A task description or a log; of a long one head and tail. Raises `PaperError`."""
    if not path.exists():
        endings = (".log", ".txt", ".out") if kind == "log" else (".md", ".txt")
        names = sorted(one.name for one in path.parent.glob("*") if one.suffix in endings)[:8]
        raise PaperError(
            f"there is no {path} for --{kind}: in {path.parent} there is "
            + (", ".join(names) or f"no {' or '.join(endings)} either; give the path of a text file")
        )
    text = text_of(path, kind)
    if not text.strip():
        if kind == "task":
            raise PaperError(f"{path} is empty: give --task a file with text, or leave it out")
        return GuardedExhibit(Exhibit(kind=kind, name=path.name, text=EMPTY))
    where, limit, cut = f"--{kind} {path.name}", SHOWN[kind], list[str]()
    text, hidden = visible(text, where)
    if len(text) > limit and kind == "log" and len(short := folded(text)) < len(text):
        cut.append(f"{len(text) - len(short)} of {len(text)} characters in lines of {path.name} that repeat others")
        text = short
    if len(text) > limit:
        cut.append(f"{len(text) - limit} of {len(text)} characters in the middle of {path.name}")
    shown, removed = harmless(middle(text, limit, worth=0), where)
    return GuardedExhibit(Exhibit(kind=kind, name=path.name, text=shown, left_out=tuple(cut)), (*hidden, *removed))


def results_exhibit(folder: Path, log: Path | None = None) -> GuardedExhibit | None:
    """The beginnings and ends of the text files in a folder of results, the shortest files first; not the `log`, which
    is shown by itself. None where there is no such file. Raises `PaperError`."""
    files = {
        path: size
        for path, size in files_of(folder, RESULTS).items()
        if not (log is not None and log.exists() and path.samefile(log))
    }
    blocks, removed, left_out = list[str](), list[Removed](), list[str]()
    for path in sorted(files, key=lambda one: (files[one], str(one))):
        name = shown_name(path.relative_to(folder).as_posix())
        if len(blocks) == MOST_RESULTS or files[path] > MOST_BYTES:
            left_out.append(f"{name} ({files[path]} bytes)")
            continue
        text, hidden = visible(text_of(path, "results"), f"--results {name}")
        removed += hidden
        blocks.append(f"{mark(f'{name}, {files[path]} bytes')}\n{middle(text, A_RESULT, worth=0)}")
    if not blocks:
        return None
    shown, found = harmless("\n\n".join(blocks), f"--results {folder.name}")
    return GuardedExhibit(
        Exhibit(kind="results", name=folder.name, text=shown, left_out=at_most(left_out, 10)), (*removed, *found)
    )


def files_of(folder: Path, endings: Container[str]) -> dict[Path, int]:
    """Bytes of the files below a folder with such an ending, of at most `MOST_ENTRIES` files; links are passed by."""
    walked = (
        Path(root, name) for root, _, names in os.walk(folder) if "/." not in root[len(str(folder)) :] for name in names
    )
    return {
        path: path.stat().st_size
        for path in islice(walked, MOST_ENTRIES)
        if path.suffix.lower() in endings and not path.is_symlink() and path.is_file()
    }


def shown_name(name: str) -> str:
    """The name of a file as it may stand in a prompt."""
    return unmarked(oneline(name, 160))


def at_most(files: Sequence[str], most: int) -> tuple[str, ...]:
    """Lines on files, and how many more there are."""
    more = [f"and {len(files) - most + 1} more files"] if len(files) > most else []
    return (*files[: most - len(more)], *more)


def text_of(path: Path, kind: str) -> str:
    """The text of a file. Raises `PaperError`."""
    data = read_bounded(path, MOST_BYTES, f"give a smaller file for --{kind}")
    return decoded(data, f"{path} is not text: give --{kind} a text file")


def exhibit_lines(shown: Sequence[GuardedExhibit]) -> tuple[str, ...]:
    """What a report says of the files that were shown."""
    return tuple(
        f"{one.exhibit.kind} {one.exhibit.name}" + "".join(f"; not shown: {line}" for line in one.exhibit.left_out)
        for one in shown
    )


# --- pictures of pages -----------------------------------------------------------------------------------------------

MOST_PAGES, LONGER_SIDE, MOST_PICTURE_BYTES = 8, 1100, 6_000_000
"""How many pages, pixels of a page's longer side, and bytes of all pictures together."""


@dataclass(frozen=True)
class Pictures:
    """Pictures of pages, and which pages they are."""

    pages: Pages
    images: tuple[Image, ...] = ()


async def pictures(pdf: Path, total: int, *, withheld: Sequence[int] = (), most: int = MOST_PAGES) -> Pictures:
    """The first pages of a PDF that are not withheld. None are shown where poppler cannot draw. Raises `TexMissing`."""
    wanted = [page for page in range(1, total + 1) if page not in withheld][:most]
    images: dict[int, Image] = {}
    with private_copy(pdf.read_bytes()) as copy:
        for page in wanted:
            await tex.run(
                [
                    "pdftoppm",
                    "-q",
                    "-png",
                    "-cropbox",
                    "-singlefile",
                    "-f",
                    str(page),
                    "-l",
                    str(page),
                    "-scale-to",
                    str(LONGER_SIDE),
                    copy.name,
                    f"page-{page}",
                ],
                copy.parent,
                timeout=TIMEOUT,
            )
            drawn = copy.with_name(f"page-{page}.png")
            taken = sum(len(image.data) for image in images.values())
            if not drawn.exists() or taken + drawn.stat().st_size > MOST_PICTURE_BYTES:
                break
            images[page] = Image(drawn.read_bytes())
    return Pictures(Pages(shown=tuple(images), total=total, withheld=tuple(withheld)), tuple(images.values()))


# --- the record of its run -------------------------------------------------------------------------------------------


def facts_of(state: RunState, draft: Draft) -> RecordFacts:
    """The facts behind the paper that was made from `draft`: counts from the record up to the release.

    What judging takes is left out, so that a run resumed between its answer and its judgement asks the same again.
    """
    plan, released = state.data_plan, state.released
    nodes = [node for node in state.nodes.values() if node.kind in SEARCH_KINDS]
    copies = replicates_of(state, winner(state) or "")
    claims = paper_claims(state)
    paid = state.usage_without(*JUDGING)
    roles = {arm.name: arm.role for arm in plan.arms} if plan else {}
    directions = Counter(
        one.called for one in differences(state, claims) if roles.get(arm_of(one.condition)) == "method"
    )
    return RecordFacts(
        released=released is not None and released.released,
        pages=released.pages if released else None,
        nodes=len(nodes),
        failed=sum(node.status in ("buggy", "pruned", "cancelled") for node in nodes),
        doubted=sum(bool(node.suspect) or (node.verdict is not None and not node.verdict.sound) for node in nodes),
        replicates=sum(one.status == "good" for one in copies),
        replicates_failed=sum(one.status != "good" for one in copies),
        fewest_seeds=min((claim.n for claim in claims), default=0),
        ablations=len(ablations(state)),
        datasets=len(state.datasets),
        conditions=len(plan.conditions) if plan else 0,
        for_method=directions["improved"],
        for_other=directions["worsened"],
        no_difference=directions["not significant"],
        undecided=directions["unknown"],
        grades=tuple(sorted(Counter(str(claim.grade) for claim in claims).items())),
        bound_values=len(used_keys(draft.texts)),
        references=len(used_keys(draft.texts, CITES)),
        figures=len(used_keys(draft.texts, frozenset({"paperfigure"}))),
        limited=state.limited or "",
        models=state.models,
        calls=paid.calls,
        usd=round(paid.usd, 4),
        unpriced=paid.unpriced,
        code_seconds=round(state.seconds_of_code, 1),
    )
