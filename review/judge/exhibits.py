"""What a paper is held against: a task description, code, a log, pictures of its pages, the record of its run.

Files are bounded, and whatever is cut is named. Nothing is executed, links are not followed, and orders to reviewers
are removed as they are from the paper. Of a folder of code the judge sees which files there are and the text of those
that matter most by name, size and mention in the paper; that is a guess at relevance, not a reading. Pages with a
removed passage are withheld: a picture would bring it back. Not guaranteed: an order that is drawn in a picture, and is
no text, reaches the model.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from models.backend import Image
from models.cutting import middle
from models.roles.judge import Exhibit, ExhibitKind, Pages, RecordFacts
from record.claims.differences import differences
from record.claims.means import ablations, paper_claims, replicates_of, winner
from record.fold.state import RunState
from record.nouns.data import arm_of
from record.nouns.nodes import SEARCH_KINDS
from record.nouns.papers import Draft, Removed
from review.evidence import tex
from review.evidence.allowed import CITES
from review.evidence.binder import used_keys
from review.judge.guards import neutral
from review.judge.guards.ink import TIMEOUT
from review.judge.reader import PaperError, decoded, private_copy, read_bounded

MOST_BYTES = 50_000_000
SHOWN = {"task": 9_000, "log": 9_000}
CODE_CHARACTERS, FILE_CHARACTERS, MOST_NAMES, MOST_ENTRIES = 19_000, 6_000, 60, 5_000
CODE = {".py": 3, ".ipynb": 1, ".sh": 1, ".yaml": 1, ".yml": 1, ".toml": 1, ".json": 0, ".md": 0, ".r": 2, ".jl": 2,
        ".cpp": 1, ".c": 1, ".cu": 2, ".java": 1, ".rs": 1}
"""Endings that may be shown, with their weight."""

_TELLING = re.compile(r"train|experiment|main|run|model|eval|method|algorithm|loss|data|baseline|ablat", re.IGNORECASE)
_ASIDE = re.compile(
    r"(?:^|/)(?:\.|tests?/|docs?/|node_modules/|venv/|build/|third_party/|__pycache__/)|setup\.py$|__init__\.py$")


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
        raise PaperError(f"there is no {path} for --{kind}: in {path.parent} there is " + (
            ", ".join(names) or f"no {' or '.join(endings)} either; give the path of a text file"))
    text = _text(path, kind)
    if not text.strip():
        raise PaperError(f"{path} is empty: give --{kind} a file with text, or leave it out")
    limit = SHOWN[kind]
    cut = (f"{len(text) - limit} of {len(text)} characters in the middle of {path.name}",) if len(text) > limit else ()
    shown, removed = neutral(middle(text, limit, worth=0), f"--{kind} {path.name}")
    return GuardedExhibit(Exhibit(kind=kind, name=path.name, text=shown, left_out=cut), removed)


def code_exhibit(folder: Path, paper: str) -> GuardedExhibit:
    """The files of a folder of code: names up to a bound, and the text of the most relevant. Raises `PaperError`."""
    sizes = _sizes(folder)
    if not sizes:
        raise PaperError(f"there is no code in {folder}: give --code the folder that holds the paper's code")
    ranked = sorted(sizes, key=lambda name: (-_weight(name, paper), sizes[name], name))
    listed = [f"{name} ({sizes[name]} bytes)" for name in sorted(sizes)]
    rest = [f"... and {len(listed) - MOST_NAMES} more files"] if len(listed) > MOST_NAMES else []
    blocks, left_out, used = ["\n".join(["Files:", *listed[:MOST_NAMES], *rest])], list[str](), 0
    for name in ranked:
        path = folder / name if folder.is_dir() else folder
        if used >= CODE_CHARACTERS - 500 or sizes[name] > MOST_BYTES:
            left_out.append(f"{name} ({sizes[name]} bytes): the whole of it")
            continue
        text = _text(path, "code")
        share = min(len(text), FILE_CHARACTERS, CODE_CHARACTERS - used)
        used += share
        if share < len(text):
            left_out.append(f"{name}: {len(text) - share} of {len(text)} characters in its middle")
        blocks.append(f"=== {name}\n{middle(text, share, worth=0)}")
    more = [f"and {len(left_out) - 19} more files"] if len(left_out) > 20 else []
    shown, removed = neutral("\n\n".join(blocks), f"--code {folder.name}")
    cut = (*left_out[:20 - len(more)], *more)
    return GuardedExhibit(Exhibit(kind="code", name=folder.name, text=shown, left_out=cut), removed)


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of files that may be code, by name, of at most `MOST_ENTRIES` files; links are passed by."""
    if folder.is_file():
        return {folder.name: folder.stat().st_size}
    walked = (Path(root, name) for root, _, names in os.walk(folder) if "/." not in root[len(str(folder)):]
              for name in names)
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in islice(walked, MOST_ENTRIES)
            if path.suffix.lower() in CODE and not path.is_symlink() and path.is_file()}


def _weight(name: str, paper: str) -> float:
    """How much a file is likely to say of the paper's experiments."""
    path = Path(name)
    weight = CODE.get(path.suffix.lower(), 0) + 2 * bool(_TELLING.search(path.stem))
    weight -= 4 * bool(_ASIDE.search(name)) + 0.2 * name.count("/")
    return weight + 3 * (len(path.stem) > 3 and path.name.lower() in paper.lower())


def _text(path: Path, kind: str) -> str:
    data = read_bounded(path, MOST_BYTES, f"give a smaller file for --{kind}")
    return decoded(data, f"{path} is not text: give --{kind} a text file")


def exhibit_lines(shown: Sequence[GuardedExhibit]) -> tuple[str, ...]:
    """What a report says of the files that were shown."""
    return tuple(
        f"{one.exhibit.kind} {one.exhibit.name}" + "".join(f"; not shown: {line}" for line in one.exhibit.left_out)
        for one in shown)


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
            await tex.run(["pdftoppm", "-q", "-png", "-cropbox", "-singlefile", "-f", str(page), "-l", str(page),
                           "-scale-to", str(LONGER_SIDE), copy.name, f"page-{page}"], copy.parent, timeout=TIMEOUT)
            drawn = copy.with_name(f"page-{page}.png")
            taken = sum(len(image.data) for image in images.values())
            if not drawn.exists() or taken + drawn.stat().st_size > MOST_PICTURE_BYTES:
                break
            images[page] = Image(drawn.read_bytes())
    return Pictures(Pages(shown=tuple(images), total=total, withheld=tuple(withheld)), tuple(images.values()))


# --- the record of its run -------------------------------------------------------------------------------------------



def facts_of(state: RunState, draft: Draft) -> RecordFacts:
    """The facts behind the paper that was made from `draft`: counts from the record up to the release.

    The judge's own calls are left out, so that a run resumed between its answer and its judgement asks the same again.
    """
    plan, released = state.data_plan, state.released
    nodes = [node for node in state.nodes.values() if node.kind in SEARCH_KINDS]
    copies = replicates_of(state, winner(state) or "")
    claims = paper_claims(state)
    paid = state.usage_without("judge")
    roles = {arm.name: arm.role for arm in plan.arms} if plan else {}
    directions = Counter(one.called for one in differences(state, claims)
                         if roles.get(arm_of(one.condition)) == "method")
    return RecordFacts(
        released=released is not None and released.released, pages=released.pages if released else None,
        nodes=len(nodes), failed=sum(node.status in ("buggy", "pruned", "cancelled") for node in nodes),
        doubted=sum(bool(node.suspect) or (node.verdict is not None and not node.verdict.sound) for node in nodes),
        replicates=sum(one.status == "good" for one in copies),
        replicates_failed=sum(one.status != "good" for one in copies),
        fewest_seeds=min((claim.n for claim in claims), default=0), ablations=len(ablations(state)),
        datasets=len(state.datasets), conditions=len(plan.conditions) if plan else 0,
        for_method=directions["improved"], for_other=directions["worsened"],
        no_difference=directions["no measurable difference"], undecided=directions["unknown"],
        grades=tuple(sorted(Counter(str(claim.grade) for claim in claims).items())),
        bound_values=len(used_keys(draft.texts)), references=len(used_keys(draft.texts, CITES)),
        figures=len(used_keys(draft.texts, frozenset({"paperfigure"}))), limited=state.limited or "",
        models=state.models, calls=paid.calls, usd=round(paid.usd, 4), unpriced=paid.unpriced,
        code_seconds=round(state.seconds_of_code, 1))
