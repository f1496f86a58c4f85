"""Attachments for a judge: a task description, a log, result files, page images, the record of the run.

Files have a size limit and every cut is reported. Hidden and encoded text is removed as in the paper. Pages with a
removed passage are withheld, since the image would show it. Limits: a prompt injection drawn in an image reaches the
model.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from labwright.models.backend import Image
from labwright.models.prompt_filters import cut_line, cut_middle, format_mark, strip_marks
from labwright.models.roles.judge import Exhibit, ExhibitKind, RecordFacts, ShownPages
from labwright.pdf.reader import PdfError, render_page
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_paper_claims, find_ablation_nodes, find_replicates, find_winner
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import parse_arm
from labwright.record.schema.nodes import SEARCH_KINDS
from labwright.record.schema.paper import LATE_ROLES, PaperDraft, RemovedPassage
from labwright.review.evidence.latex_scanner import CITE_COMMANDS
from labwright.review.evidence.source_check import collect_used_keys
from labwright.review.external_papers.result_files import summarize_groups
from labwright.review.judge.guards import TIMEOUT_SECONDS, remove_encoded, strip_invisible
from labwright.review.judge.paper_reader import PaperError, decode_text, read_bounded

MAX_FILE_BYTES = 50_000_000
MAX_SHOWN_CHARACTERS = 9_000
RESULT_SUFFIXES = frozenset({".json", ".jsonl", ".csv", ".tsv", ".txt", ".md", ".yaml", ".yml"})
MAX_RESULT_CHARACTERS, MAX_RESULTS_SHOWN, MAX_ENTRIES = 900, 8, 5_000
"""Characters per result file; number of files shown; number of files scanned."""
EMPTY_FILE_NOTE = "(the file is empty)"
"""Text shown to a judge for an empty log, since its emptiness is informative."""


@dataclass(frozen=True)
class GuardedExhibit:
    """An exhibit, and the passages that the guards removed from it."""

    exhibit: Exhibit
    removed: tuple[RemovedPassage, ...] = ()


def read_file_exhibit(kind: ExhibitKind, path: Path) -> GuardedExhibit:
    """Read a file such as a task description or a log; a long one is cut in the middle.

    Raises `PaperError`.
    """
    if not path.exists():
        endings = (".log", ".txt", ".out") if kind == "log" else (".md", ".txt")
        names = sorted(one.name for one in path.parent.glob("*") if one.suffix in endings)[:8]
        there = ", ".join(names) or f"no file ending in {' or '.join(endings)}; give the path of a text file"
        raise PaperError(f"{path} (--{kind}) does not exist: {path.parent} contains {there}")
    text = read_text_file(path, kind)
    if not text.strip():
        if kind == "task":
            raise PaperError(f"{path} is empty: give --task a file with text, or omit it")
        return GuardedExhibit(Exhibit(kind=kind, name=path.name, text=EMPTY_FILE_NOTE))
    where, limit, cut = f"--{kind} {path.name}", MAX_SHOWN_CHARACTERS, list[str]()
    text, hidden = strip_invisible(text, where)
    if len(text) > limit:
        cut.append(f"{len(text) - limit} of {len(text)} characters in the middle of {path.name}")
    shown, removed = remove_encoded(cut_middle(text, limit, min_saved_share=0), where)
    return GuardedExhibit(Exhibit(kind=kind, name=path.name, text=shown, left_out=tuple(cut)), (*hidden, *removed))


def read_results_exhibit(folder: Path, log: Path | None = None) -> GuardedExhibit | None:
    """Return each text file in a results folder, shortest files first; of a long one its start, and a summary of its
    numbers by group or, without numbers, its end.

    `log` is excluded, as it is shown separately. None if there are no such files. Raises `PaperError`.
    """
    files = {
        path: size
        for path, size in list_files(folder, RESULT_SUFFIXES).items()
        if not (log is not None and log.exists() and path.samefile(log))
    }
    blocks, removed, left_out = list[str](), list[RemovedPassage](), list[str]()
    for path in sorted(files, key=lambda one: (files[one], str(one))):
        name = format_file_name(path.relative_to(folder).as_posix())
        if len(blocks) == MAX_RESULTS_SHOWN or files[path] > MAX_FILE_BYTES:
            left_out.append(f"{name} ({files[path]} bytes)")
            continue
        text, hidden = strip_invisible(read_text_file(path, "results"), f"--results {name}")
        removed += hidden
        blocks.append(f"{format_mark(f'{name}, {files[path]} bytes')}\n")
        left = len(text) - MAX_RESULT_CHARACTERS // 3
        groups = "\n".join(summarize_groups(path)) if len(text) > MAX_RESULT_CHARACTERS else ""
        if groups:
            mark = format_mark(f"{left} characters left out here; all numbers of the file by group")
            blocks[-1] += f"{text[:-left]}\n{mark}\n"
            text, _ = strip_invisible(groups, name)
        blocks[-1] += cut_middle(text, MAX_RESULT_CHARACTERS // 3 * (2 if groups else 3), min_saved_share=0)
    if not blocks:
        return None
    shown, found = remove_encoded("\n\n".join(blocks), f"--results {folder.name}")
    return GuardedExhibit(
        Exhibit(kind="results", name=folder.name, text=shown, left_out=format_file_list(left_out, 10)),
        (*removed, *found),
    )


def list_files(folder: Path, endings: Container[str]) -> dict[Path, int]:
    """Return the sizes in bytes of files below a folder with one of the endings, at most `MAX_ENTRIES`.

    Links are skipped.
    """
    walked = (
        Path(root, name) for root, _, names in os.walk(folder) if "/." not in root[len(str(folder)) :] for name in names
    )
    return {
        path: path.stat().st_size
        for path in islice(walked, MAX_ENTRIES)
        if path.suffix.lower() in endings and not path.is_symlink() and path.is_file()
    }


def format_file_name(name: str) -> str:
    """Return a file name in a form that is safe in a prompt."""
    return strip_marks(cut_line(name, 160))


def format_file_list(files: Sequence[str], max_lines: int) -> tuple[str, ...]:
    """Return one line per file, and the number of further files."""
    more = [f"and {len(files) - max_lines + 1} more files"] if len(files) > max_lines else []
    return (*files[: max_lines - len(more)], *more)


def read_text_file(path: Path, kind: str) -> str:
    """Read a text file. Raises `PaperError`."""
    data = read_bounded(path, MAX_FILE_BYTES, f"give --{kind} a smaller file")
    return decode_text(data, f"{path} is not text: give --{kind} a text file")


def describe_exhibits(exhibits: Sequence[GuardedExhibit]) -> tuple[str, ...]:
    """Return report lines about the files that were shown."""
    return tuple(
        f"{one.exhibit.kind} {one.exhibit.name}" + "".join(f"; not shown: {line}" for line in one.exhibit.left_out)
        for one in exhibits
    )


# --- pictures of pages -----------------------------------------------------------------------------------------------

MAX_PAGES, MAX_SIDE_PIXELS, MAX_PICTURE_BYTES = 8, 1100, 6_000_000
"""Number of pages, pixels of a page's longer side, and bytes of all images together."""


@dataclass(frozen=True)
class PagePictures:
    """Images of pages and the numbers of these pages."""

    pages: ShownPages
    images: tuple[Image, ...] = ()


async def render_pages(
    pdf: Path, total: int, *, withheld: Sequence[int] = (), max_pages: int = MAX_PAGES
) -> PagePictures:
    """Render the first pages of a PDF that are not withheld, up to one that cannot be rendered."""
    wanted = [page for page in range(1, total + 1) if page not in withheld][:max_pages]
    images: dict[int, Image] = {}
    for page in wanted:
        try:
            drawn = await asyncio.to_thread(render_page, pdf, page, pixels=MAX_SIDE_PIXELS, timeout=TIMEOUT_SECONDS)
        except PdfError:
            break
        if sum(len(image.data) for image in images.values()) + len(drawn) > MAX_PICTURE_BYTES:
            break
        images[page] = Image(drawn)
    return PagePictures(ShownPages(shown=tuple(images), total=total, withheld=tuple(withheld)), tuple(images.values()))


# --- the record of its run -------------------------------------------------------------------------------------------


def collect_record_facts(state: RunState, draft: PaperDraft) -> RecordFacts:
    """Return the facts behind the paper made from `draft`: counts from the record up to the release.

    The cost of judging is excluded, so that a run resumed between an answer and its judgement asks the same
    question again.
    """
    plan, released = state.search.data_plan, state.paper.released
    nodes = [node for node in state.nodes.values() if node.kind in SEARCH_KINDS]
    copies = find_replicates(state, find_winner(state) or "")
    claims = compute_paper_claims(state)
    paid = state.calls.sum_usage_without(*LATE_ROLES)
    roles = {arm.name: arm.role for arm in plan.arms} if plan else {}
    compared = [one for one in compute_differences(state, claims) if roles.get(parse_arm(one.condition)) == "method"]
    verdicts = Counter(one.verdict for one in decide_hypotheses(state) if one.confirmed)
    return RecordFacts(
        released=released is not None and released.released,
        pages=released.pages if released else None,
        nodes=len(nodes),
        failed=sum(node.has_failed for node in nodes),
        doubted=sum(bool(node.suspect) or (node.verdict is not None and not node.verdict.sound) for node in nodes),
        replicates=sum(one.status == "good" for one in copies),
        replicates_failed=sum(one.has_failed for one in copies),
        fewest_seeds=min((claim.n for claim in claims), default=0),
        ablations=len(find_ablation_nodes(state)),
        datasets=len(state.search.datasets),
        conditions=len(plan.conditions) if plan else 0,
        supported=verdicts["supported"],
        refuted=verdicts["refuted"],
        open=verdicts["open"],
        for_method=sum(one.excludes_zero and one.better == one.condition for one in compared),
        for_other=sum(one.excludes_zero and one.better == one.other for one in compared),
        unclear=sum(not one.excludes_zero for one in compared),
        grades=tuple(sorted(Counter(str(claim.grade) for claim in claims).items())),
        bound_values=len(collect_used_keys(draft.texts)),
        references=len(collect_used_keys(draft.texts, CITE_COMMANDS)),
        figures=len(collect_used_keys(draft.texts, frozenset({"paperfigure"}))),
        limited=state.limit_reason or "",
        models=state.models,
        calls=paid.calls,
        usd=round(paid.usd, 4),
        unpriced=paid.unpriced,
        code_seconds=round(state.experiment_seconds, 1),
    )


# Excerpt of a code folder for a judge: the file list, and the text of the files most relevant to the results, in an
# order suggested by their names (evaluation, method, the rest). Sizes are limited, every cut is reported, nothing is
# executed and links are not followed. Limits: names may mislead, and an omitted file may matter.

MAX_CHARACTERS, MAX_NAMES = 26_000, 60
"""Characters shown of all files together; number of names listed."""
MAX_FILE_CHARACTERS, MIN_FILE_CHARACTERS = 5_000, 500
"""Characters shown of a file; a shorter excerpt is omitted."""
PROGRAM_SUFFIXES = frozenset(".py .ipynb .sh .r .jl .cpp .c .cu .java .rs".split())
CODE_SUFFIXES = PROGRAM_SUFFIXES | frozenset(".yaml .yml .toml .json .md".split())
"""File endings that may be shown, programs first."""

_EVALUATION_NAME = re.compile(r"eval|metric|scor|bench|compar|analy[sz]|result", re.IGNORECASE)
_METHOD_NAME = re.compile(r"train|experiment|main|run|model|method|algorithm|loss|data|baseline|ablat", re.IGNORECASE)
_SKIPPED_PATH = re.compile(
    r"(?:^|/)(?:\.|tests?/|docs?/|node_modules/|venv/|build/|third_party/|__pycache__/)|setup\.py$|__init__\.py$"
)


def build_code_exhibit(folder: Path, paper: str) -> GuardedExhibit:
    """Return an excerpt of the files in a code folder; `paper` is the text that may name them. Raises `PaperError`."""
    if folder.is_file():
        paths, sizes = {folder.name: folder}, {folder.name: folder.stat().st_size}
    else:
        found = list_files(folder, CODE_SUFFIXES)
        paths = {path.relative_to(folder).as_posix(): path for path in found}
        sizes = {name: found[path] for name, path in paths.items()}
    if not sizes:
        raise PaperError(f"{folder} contains no code: give --code the folder with the paper's code")
    paper = paper.lower()

    def rank(name: str) -> tuple[float, ...]:
        path = Path(name)
        return (
            bool(_SKIPPED_PATH.search(name)),
            path.suffix.lower() not in PROGRAM_SUFFIXES,
            0 if _EVALUATION_NAME.search(path.stem) else 1 if _METHOD_NAME.search(path.stem) else 2,
            path.name.lower() not in paper,
            sizes[name],
        )

    listed = [f"{format_file_name(name)} ({sizes[name]} bytes)" for name in sorted(sizes)]
    more = [format_mark(f"{len(listed) - MAX_NAMES} more files")] if len(listed) > MAX_NAMES else []
    blocks = ["\n".join(["Files:", *listed[:MAX_NAMES], *more])]
    removed, left_out, room = list[RemovedPassage](), list[str](), MAX_CHARACTERS
    for name in sorted(sizes, key=rank):
        title = format_file_name(name)
        if room < MIN_FILE_CHARACTERS or sizes[name] > MAX_FILE_BYTES:
            left_out.append(f"{title} ({sizes[name]} bytes): all of it")
            continue
        text, hidden = strip_invisible(read_text_file(paths[name], "code"), f"--code {title}")
        removed += hidden
        share = min(len(text), room, MAX_FILE_CHARACTERS)
        if share < len(text):
            left_out.append(f"{title}: {len(text) - share} of {len(text)} characters in its middle")
        room -= share
        blocks.append(f"{format_mark(f'{title}, {sizes[name]} bytes')}\n{cut_middle(text, share, min_saved_share=0)}")
    shown, encoded = remove_encoded("\n\n".join(blocks), f"--code {folder.name}")
    exhibit = Exhibit(kind="code", name=folder.name, text=shown, left_out=format_file_list(left_out, 20))
    return GuardedExhibit(exhibit, (*removed, *encoded))
