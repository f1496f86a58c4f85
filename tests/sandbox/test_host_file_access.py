"""Code can rename, link, lock and fill its folders: a file tree outside stays unchanged whatever the host does there.

Links are planted wherever the host reads, writes, moves, copies or removes files; then real cells plant them.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from labwright.record.run_folder import ResultFolder, create_draft_folder, seal_folder
from labwright.record.schema.nodes import Cell, CellOutcomeLine
from labwright.record.untrusted_files import (
    MAX_DEPTH,
    BadFile,
    copy_file,
    count_bytes,
    iterate_entries,
    lend_folder,
    list_names,
    make_folder,
    make_harmless,
    move_path,
    read_lines,
    remove_path,
    remove_tree,
    take_back_folder,
    write_file,
)
from labwright.sandbox.cell_runner import read_size
from labwright.sandbox.cell_scheduler import CellOrder
from labwright.sandbox.content_store import pack_archive, unpack_archive
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from labwright.sandbox.isolation.processes import ResourceLimits, Watchdog
from labwright.sandbox.job import CellResult, CellTask, Job, JobOutcome, SandboxError
from labwright.sandbox.output import Transcript
from labwright.sandbox.results import (
    KernelExecution,
    ResultCollector,
    collect_figures,
    hash_arrays,
    hash_artifacts,
    write_job_output,
)
from labwright.sandbox.scoring import read_final_predictions, read_index, seal_test_predictions
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.workspace import KernelScript, prepare_workspace, rescue_checkpoints
from labwright.stages.nodes.node_plots import PlotArrays
from tests.jobs import SCRIPT, cell_tasks
from tests.sandbox.conftest import SETTINGS, DatasetStore, run_alone
from tests.sandbox.hostile_mix import FOLDER_ACTS, snapshot_tree

LINE = json.dumps(
    {"file": "0" * 20 + ".npz", "dataset": "digits", "split": "test", "condition": "m", "kind": "predictions"}
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A user's file tree with all names that the host uses."""
    folder = tmp_path / "victim"
    for name in (
        "submissions sealed arrays artifacts/deep checkpoints figures inputs/artifacts "
        "cells/digits__m/checkpoints digits__m/checkpoints"
    ).split():
        (folder / name).mkdir(parents=True)
        (folder / name / "kept").write_text("the user's own")
    for name in ("measurements.jsonl", "stdout.txt", "submissions.jsonl", "experiment.py", "sealed/index.jsonl"):
        (folder / name).write_text(f"{LINE}\n")
    np.save(folder / "arrays" / "a.npy", np.ones(2))
    (folder / "kept").touch(0o600)
    (folder / "kept").chmod(0o4600)
    return folder


def _prepare(folder: Path) -> object:
    source = {"experiment.py": "print()"}
    return prepare_workspace(
        Job(name="n", folder=folder, source=source),
        CellOrder(SCRIPT, CellTask(), 1.0, source),
        folder,
        views=folder / "views",
        settings=SandboxSettings(),
    )


def _collect(folder: Path) -> object:
    script = KernelScript(Job(name="n", folder=folder, source={"experiment.py": ""}), SCRIPT, folder, 1.0, views={})
    return ResultCollector(folder / "labels", folder / "cache", 10**9, "scored").collect(
        script, KernelExecution(1.0, None, Transcript(100))
    )


def _write_output(folder: Path) -> object:
    """The cells' output is written next to their folders."""
    cell = Cell(dataset="digits", arm="m")
    job = Job(name="n", folder=folder, source={}, cells=cell_tasks((cell,)))
    lines = (CellOutcomeLine(cell=cell, outcome="measured"),)
    return write_job_output(
        folder, job, JobOutcome(cells=lines, folders={cell: ResultFolder(folder, CellResult(cell=cell))})
    )


def _read_arm(folder: Path) -> object:
    target, source = folder.with_name("reader"), {"experiment.py": ""}
    arm = Cell(dataset="digits", arm="m")
    order = CellOrder(SCRIPT, CellTask(), 1.0, source, read_cell=arm, read_folder=folder, checkpoints=folder)
    job = Job(name="n", folder=target, source=source)
    return prepare_workspace(job, order, target, views=folder / "views", settings=SandboxSettings())


def _packed(folder: Path) -> object:
    pack_archive(folder, folder.with_name("parcel"), max_bytes=10**6)
    return unpack_archive(folder.with_name("parcel"), folder.with_name("unpacked"))


def _sealed(folder: Path) -> None:
    seal_folder(folder, folder.with_name("final"))
    create_draft_folder(folder.with_name("final"))
    seal_folder(create_draft_folder(folder), folder.with_name("final"))


WORK: dict[str, Callable[[Path], object]] = {
    "prepare": _prepare,
    "collect": _collect,
    "write output": _write_output,
    "pack": _packed,
    "seal": _sealed,
    "disarm": lambda folder: make_harmless(folder, only_plain=True),
    "remove": lambda folder: [remove_path(folder, name) for name in ("arrays", "checkpoints", "inputs/artifacts")],
    "remove all": remove_tree,
    "rescue": rescue_checkpoints,
    "arrays": hash_arrays,
    "artifacts": lambda folder: hash_artifacts(folder, 10**9),
    "figures": collect_figures,
    "submissions": lambda folder: read_index(folder, "submissions.jsonl"),
    "predictions": lambda folder: read_final_predictions(folder, folder / "labels"),
    "seal predictions": lambda folder: seal_test_predictions(folder, folder / "labels"),
    "read arm": _read_arm,
    "write": lambda folder: [
        write_file(folder, name, "ours") for name in ("stdout.txt", "submissions/x", "sealed/index.jsonl", "node.ipynb")
    ],
    "make": lambda folder: [make_folder(folder, name) for name in ("figures", "inputs/artifacts/n", "sealed")],
    "copy": lambda folder: copy_file(folder, "stdout.txt", folder.with_name("copied"), "x", 100),
    "move": lambda folder: move_path(folder, "submissions", folder, "sealed"),
    "briefs": lambda folder: asyncio.run(
        PlotArrays("n", (folder / "arrays",), {"n1": (folder / "arrays",)}).read_briefs()
    ),
    "size": lambda folder: read_size(folder, "measurements.jsonl"),
    "count": count_bytes,
}
LINKED = (
    ". arrays artifacts submissions sealed checkpoints figures inputs cells kernels/1/cells "
    "cells/digits__m measurements.jsonl submissions.jsonl stdout.txt experiment.py artifacts/deep "
    "arrays/a.npy arrays/.hidden.npy sealed/index.jsonl"
).split()


@pytest.mark.parametrize("place", LINKED)
def test_a_link_leads_the_host_nowhere(tmp_path: Path, victim: Path, place: str) -> None:
    before = snapshot_tree(victim)
    for name, work in WORK.items():
        around = tmp_path / name.replace(" ", "_")
        folder = around / "attempt"
        around.mkdir()
        if place == ".":
            folder.symlink_to(victim)
        else:
            (folder / place).parent.mkdir(parents=True)
            (folder / place).symlink_to(victim / place if (victim / place).exists() else victim / "cells")
        with suppress(SandboxError, FileNotFoundError, NotADirectoryError, FileExistsError):
            work(folder)
        assert snapshot_tree(victim) == before, name
        mine = [
            path
            for path in around.rglob("*")
            if path.is_file() and not path.is_symlink() and path.resolve().is_relative_to(around)
        ]
        assert not [path for path in mine if path.stat().st_nlink > 1 or b"the user's own" in path.read_bytes()], name


EXCHANGES = """
import ctypes, os, sys
real, link = (f"{sys.argv[1]}/a/{name}".encode() for name in ("b", "link"))
os.symlink(sys.argv[2], link)
print("ready", flush=True)
while True:
    ctypes.CDLL(None).renameat2(-100, real, -100, link, 2)
"""


def test_code_that_exchanges_a_folder_for_a_link_all_the_time_redirects_nothing(tmp_path: Path, victim: Path) -> None:
    folder, before, done = tmp_path / "attempt", snapshot_tree(victim), Counter[str]()
    (folder / "a" / "b" / "arrays").mkdir(parents=True)
    (folder / "a" / "b" / "kept").write_text("of the code")
    acts: dict[str, Callable[[], object]] = {
        "read": lambda: read_lines(folder, "a/b/kept", 99),
        "list": lambda: list_names(folder, "a/b/arrays", ".npy"),
        "walk": lambda: [name for name, _ in iterate_entries(folder) if name.count("/") == 2 and "stdout" in name],
        "write": lambda: write_file(folder, "a/b/new/stdout.txt", "of the host"),
        "copy": lambda: copy_file(folder, "a/b/kept", tmp_path / "copies", "kept", 99),
        "move": lambda: move_path(folder, "a/b/new/stdout.txt", tmp_path / "copies", "stdout.txt"),
        "remove": lambda: remove_path(folder, "a/b/new"),
        "disarm": lambda: make_harmless(folder),
        "count": lambda: count_bytes(folder),
    }
    with subprocess.Popen([sys.executable, "-c", EXCHANGES, folder, victim], stdout=subprocess.PIPE) as exchanging:
        try:
            assert exchanging.stdout is not None and exchanging.stdout.readline() == b"ready\n"
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                for name, act in acts.items():
                    with suppress(BadFile, FileNotFoundError, NotADirectoryError):
                        found = act()
                        done[name] += 1
                        assert found in ([b"of the code"], []) or name not in ("read", "list", "walk"), (name, found)
        finally:
            exchanging.kill()
    assert snapshot_tree(victim) == before and min(done[name] for name in acts) > 5, done
    assert (tmp_path / "copies" / "kept").read_text() == "of the code"


# --- depth, locks, users ----------------------------------------------------------------------------------------------


def as_ordinary_user(work: Callable[[Path], None]) -> None:
    """Run a function in a fresh folder as an ordinary user, in a separate process if the tests run as root."""
    if os.getuid() != 0:
        with tempfile.TemporaryDirectory() as name:
            return work(Path(name))
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            work(Path(tempfile.mkdtemp(dir="/tmp")))
            os._exit(0)
        except BaseException:  # noqa: BLE001  the exit code says it
            traceback.print_exc(file=sys.stderr)
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return None


def nested(folder: Path, depth: int) -> None:
    place = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)


def test_a_locked_folder_is_ours_again_for_an_ordinary_user() -> None:
    def work(around: Path) -> None:
        folder, kernel = around / "attempt", around / "kernel"
        (folder / "arrays").mkdir(parents=True)
        (folder / "arrays" / "a.npy").touch()
        kernel.mkdir()
        held = lend_folder(folder, kernel, "cells")
        for place in (kernel / "cells" / "attempt" / "arrays", kernel / "cells" / "attempt"):
            place.chmod(0)
        assert take_back_folder(held, folder, kernel, "cells")
        kernel.rmdir()
        make_harmless(folder)
        assert stat.S_IMODE((folder / "arrays").stat().st_mode) == 0o700
        for place in (folder / "arrays", folder):
            place.chmod(0)
        create_draft_folder(around / "attempt1").joinpath("x").mkdir()
        (around / ".attempt1.part" / "x").chmod(0)
        (around / ".attempt1.part").chmod(0)
        assert not list(create_draft_folder(around / "attempt1").iterdir()), (
            "a resumed run clears what a killed one left"
        )
        remove_tree(folder)
        remove_tree(around / ".attempt1.part")
        assert not list(around.iterdir())
        around.rmdir()

    as_ordinary_user(work)


def watch_disk(place: Path, limit: int) -> Watchdog:
    return Watchdog(
        os.getpid(),
        ResourceLimits(memory_bytes=2**62, disk_bytes=limit, tasks=10**6),
        folders=(place / "attempt",),
        shared=place / "cache",
        kill_all=lambda: None,
    )


def test_files_without_end_are_a_limit_though_they_are_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labwright.record.untrusted_files.MAX_ENTRIES", 20)
    (tmp_path / "attempt").mkdir()
    watchdog = watch_disk(tmp_path, 10**9)
    for number in range(20):
        (tmp_path / "attempt" / str(number)).touch()
    assert count_bytes(tmp_path / "attempt") == 0
    (tmp_path / "attempt" / "more").touch()
    failure = watchdog.check_disk()
    assert failure is not None and "more than 20 files" in failure.message


def test_code_ends_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted files that are only mapped, or in a socket, are in no list."""
    free = [8 * 10**8]

    def read_free(_: object) -> int:
        return free[0]

    monkeypatch.setattr("labwright.sandbox.isolation.processes._read_free_bytes", read_free)
    watchdog = watch_disk(tmp_path, 10**12)
    watchdog.start()
    watchdog.stop()
    free[0] = 5 * 10**8
    assert watchdog.check_disk() is None
    free[0] = 3 * 10**8
    failure = watchdog.check_disk()
    assert failure is not None and "only 0.30 GB of the disk were free" in failure.message


def test_folders_in_folders_without_end_are_removed_and_refused(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    folder.mkdir()
    nested(folder, 300)
    with pytest.raises(BadFile, match=f"nested more than {MAX_DEPTH} deep"):
        list(iterate_entries(folder))
    with pytest.raises(BadFile, match="nested more"):
        count_bytes(folder)
    watchdog = watch_disk(tmp_path, 10**9)
    failure = watchdog.check_disk()
    assert failure is not None and "nested more" in failure.message, "so the disk limit cannot be exceeded there"
    with pytest.raises(BadFile, match="nested more"):
        make_harmless(folder)
    make_harmless(folder)
    (folder / "x").mkdir()
    nested(folder / "x", 300)
    (folder / "x").chmod(0)
    remove_tree(folder)
    assert not folder.exists()


def test_a_parcel_puts_nothing_outside_and_no_more_than_is_allowed(tmp_path: Path, victim: Path) -> None:
    before = snapshot_tree(victim)

    def parcel(*members: tuple[str, bytes, str, int]) -> Path:
        with tarfile.open(tmp_path / "parcel", "w") as file:
            for name, kind, link, size in members:
                info = tarfile.TarInfo(name)
                info.type, info.linkname, info.size, info.mode = kind, link, size, 0o7777
                file.addfile(info, io.BytesIO(bytes(size)) if size else None)
        return tmp_path / "parcel"

    reg, sym, hard, device = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE
    link = ("a", sym, str(victim), 0)
    for number, members in enumerate(
        (
            [("../x", reg, "", 3)],
            [("/tmp/x", reg, "", 3)],
            [link, ("a/kept", reg, "", 3)],
            [link, ("a/new/x", reg, "", 3)],
            [("big", reg, "", 2000)],
        )
    ):
        with pytest.raises(BadFile):
            unpack_archive(parcel(*members), tmp_path / f"to{number}", max_bytes=1000)
    to = tmp_path / "to"
    unpack_archive(
        parcel(("a", sym, str(victim / "kept"), 0), ("a", reg, "", 3), ("b", hard, "a", 0), ("c", device, "", 0)), to
    )
    assert [(path.name, path.is_symlink(), stat.S_IMODE(path.lstat().st_mode)) for path in to.iterdir()] == [
        ("a", False, 0o777)
    ], "a file in the place of a link; links to members and devices are passed over"
    assert snapshot_tree(victim) == before


# --- in the reach of a kernel -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_lent_lands_where_it_should_or_not_at_all(tmp_path: Path, victim: Path) -> None:
    """A thread left behind by a cell plants links at the next cell's folder."""
    before, over = snapshot_tree(victim), threading.Event()
    reach, aside = tmp_path / "1", tmp_path / "1.cells"
    reach.mkdir()

    def plant() -> None:
        while not over.is_set():
            for name in ("cells", "cells/digits__m", "x"):
                try:
                    (reach / name).parent.mkdir(exist_ok=True)
                    (reach / name).symlink_to(victim)
                except OSError:
                    pass

    thread = threading.Thread(target=plant)
    thread.start()
    try:
        for number in range(200):
            folder = aside / "digits__m"
            folder.mkdir(parents=True)
            (folder / "own").write_text(str(number))
            try:
                held = lend_folder(folder, reach, "cells")
            except BadFile:
                remove_tree(folder)
                remove_tree(reach, ignore_errors=True)
                reach.mkdir(exist_ok=True)
                continue
            there = take_back_folder(held, folder, reach, "cells")
            assert (folder / "own").exists() == there and folder.is_dir() and not folder.is_symlink()
            remove_tree(folder)
    finally:
        over.set()
        thread.join()
    assert snapshot_tree(victim) == before


def test_a_killed_run_rescues_checkpoints_of_its_own_alone(tmp_path: Path, victim: Path) -> None:
    draft, before = tmp_path / ".attempt1.part", snapshot_tree(victim)
    (draft / "kernels" / "1").mkdir(parents=True)
    (draft / "kernels" / "1" / "cells").symlink_to(victim / "cells")
    (draft / "kernels" / "2").symlink_to(victim)
    own = draft / "kernels" / "3" / "cells" / "digits__n" / "checkpoints"
    own.mkdir(parents=True)
    (own / "last").write_text("epoch 3")
    safe = rescue_checkpoints(draft)
    assert safe is not None
    assert [str(path.relative_to(safe)) for path in safe.rglob("*") if path.is_file()] == [
        "cells/digits__n/checkpoints/last"
    ]
    assert snapshot_tree(victim) == before


# --- whose a file is --------------------------------------------------------------------------------------------------


def collected(store: DatasetStore, folder: Path, cell: Cell = SCRIPT) -> CellResult:
    job = Job(name="n", folder=folder, source={"experiment.py": ""})
    return ResultCollector(store.labels, store.cache, 10**9, "scored").collect(
        KernelScript(job, cell, folder, 1.0, views={}), KernelExecution(1.0, None, Transcript(100))
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "import numpy, os; os.mkdir('arrays'); numpy.save('arrays/net__digits__base.npy', [1])",
            "does not name its cell",
        ),
        ("import os; os.mkdir('artifacts'); os.mknod('artifacts/net__digits__base')", "does not name its cell"),
        ("from pathlib import Path; Path('submissions.jsonl').write_text(LINE)", "not to its own file"),
    ],
)
def test_no_cell_leaves_a_file_that_is_another_ones(
    store: DatasetStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(code, {"LINE": LINE})
    outcome = collected(store, tmp_path, Cell(dataset="digits", arm="m"))
    assert outcome.failure is not None and words in outcome.failure.message


# --- real cells -------------------------------------------------------------------------------------------------------

HOSTILE = (
    FOLDER_ACTS
    + """
import lab, numpy as np
def run(cell):
    data, here = lab.data(cell.dataset), os.getcwd()
    lab.submit(split="validation", predictions=np.zeros(len(data.validation.x), int))
    if cell.arm in FOLDER_ACTS:
        FOLDER_ACTS[cell.arm](here)
lab.measure(run)
"""
)
ARMS = ("honest", "renames", "links", "replaces", "removes", "locks", "links_above", "nests", "last")


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["none", "auto"])
def test_a_folder_that_code_did_away_with_is_that_cells_failure(
    store: DatasetStore, tmp_path: Path, victim: Path, isolation: Literal["none", "auto"]
) -> None:
    settings = SETTINGS.model_copy(update={"isolation": isolation})
    cells, before = tuple(Cell(dataset="digits", arm=arm) for arm in ARMS), snapshot_tree(victim)
    told: list[CellResult] = []

    async def took(cell: Cell, outcome: CellResult, folder: Path) -> Path:
        final = tmp_path / "sealed" / cell.name.replace(" ", "_")
        final.parent.mkdir(exist_ok=True)
        seal_folder(folder, final)
        told.append(outcome)
        return final

    job = Job(
        name="n",
        folder=create_draft_folder(tmp_path / "attempt1"),
        timeout=90.0,
        cells=cell_tasks(cells, expected={cell: float(len(cells) - number) for number, cell in enumerate(cells)}),
        source={"experiment.py": HOSTILE.replace("VICTIM", repr(str(victim)))},
    )
    outcome = asyncio.run(run_alone(store, job, settings=settings, cache=tmp_path / "cache", commit=took))
    seal_folder(tmp_path / ".attempt1.part", tmp_path / "attempt1")
    lines = {line.cell.arm: line for line in outcome.cells}
    walls = isolation == "auto" and get_probed_isolation().between_cells  # then the parent of its folder belongs to it
    assert {arm for arm, line in lines.items() if line.outcome == "measured"} == {
        "honest",
        "locks",
        "last",
        *(["links_above"] if walls else []),
    }
    for arm in ("renames", "links", "replaces", "removes", *([] if walls else ["links_above"])):
        assert lines[arm].why.startswith(
            "other: OSError: [Errno " if walls else "other: the code renamed, replaced or removed its working folder"
        ), arm
    assert "nested more than" in lines["nests"].why
    assert {one.measurements[0].value for one in told if one.failure is None} == {told[0].measurements[0].value}, (
        "what the others did changes nothing"
    )
    assert snapshot_tree(victim) == before


def test_many_open_files_are_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the search for deleted ones takes minutes, in which anything can be written."""
    monkeypatch.setattr("labwright.sandbox.isolation.processes.MAX_OPEN_FILES", 2)
    (tmp_path / "attempt").mkdir()
    watchdog = watch_disk(tmp_path, 10**9)
    failure = watchdog.check_disk()
    assert failure is not None and "more than 2 open files" in failure.message


def test_files_of_many_lines_or_long_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"[" * 200_000)
    (tmp_path / "many").write_bytes(b"1\n" * 1_000_001)
    for name, words in (("long", "a line of more than"), ("many", "more than 1000000 lines")):
        with pytest.raises(BadFile, match=words):
            read_lines(tmp_path, name, 2**30)


def test_no_code_grades_itself_by_answers_that_nobody_gave(store: DatasetStore, tmp_path: Path) -> None:
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / "ab.json").write_text('{"ids": [["a-0"]]}')
    (tmp_path / "submissions.jsonl").write_text(
        json.dumps(
            {
                "file": "ab.json",
                "dataset": "digits",
                "split": "validation",
                "condition": "m",
                "kind": "answers",
                "read": "label",
                "grade": "scored",
            }
        )
    )
    outcome = collected(store, tmp_path)
    assert outcome.failure is not None and "it may not query any" in outcome.failure.message
    assert not outcome.measurements
