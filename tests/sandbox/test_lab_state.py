"""Files that code leaves for other attempts and nodes, and code in several processes, in real kernels."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import lab
import numpy as np
import pytest
import pytest_asyncio
from lab import _zygote

from labwright.record.untrusted_files import BadFile
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import ArtifactFile, CellTask, ExecutorError, Job
from labwright.sandbox.results import hash_artifacts
from labwright.sandbox.scoring import score_sealed
from labwright.sandbox.workspace import remove_rescued, rescue_checkpoints
from tests.jobs import SCRIPT, run_job
from tests.sandbox.conftest import SETTINGS, DatasetStore, KernelBench, is_gone, write_job_file

pytestmark = pytest.mark.slow

TINY = "\nlab.result('size', 3, condition='baseline', dataset='digits')\n"


# --- in this process --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up the folder of a job with little disk space and an artifact of n1."""
    inputs = tmp_path / "inputs" / "artifacts" / "n1"
    inputs.mkdir(parents=True)
    (inputs / "net.pt").write_text("weights")
    np.save(inputs / "mean.npy", np.ones(2))
    monkeypatch.chdir(tmp_path)
    return write_job_file(
        tmp_path,
        monkeypatch,
        datasets={},
        cache=str(tmp_path / "cache"),
        artifacts={"n1": ["net.pt", "mean.npy", "far"]},
        pretrained={"a/b@1": "/m/b1", "a/b@2": "/m/b2"},
        checkpoint_bytes=100_000,
        artifact_bytes=10_000,
    )


def test_a_state_comes_back_as_it_was(folder: Path) -> None:
    assert lab.restore() is None
    lab.checkpoint({"epoch": 3, "weights": np.arange(4)})
    lab.checkpoint([1, 2], name="curve")
    lab.checkpoint({"epoch": 4, "weights": np.arange(4)})
    state = lab.restore()
    assert (state["epoch"], list(state["weights"]), lab.restore("curve")) == (4, [0, 1, 2, 3], [1, 2])
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["curve", "state"]


@pytest.mark.parametrize("state", [np.zeros(200_000, np.uint8), {"f": lambda: 0}, pytest])
def test_a_state_that_cannot_be_kept_leaves_the_one_before(folder: Path, state: object) -> None:
    lab.checkpoint("before")
    with pytest.raises(lab.LabError, match=r"lab\.checkpoint\('state'\)"):
        lab.checkpoint(state)
    assert lab.restore() == "before"
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["state"]


def test_artifacts_are_files_folders_and_arrays(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    (folder / "words.txt").write_text("a b")
    lab.save_artifact("words", "words.txt")
    lab.save_artifact("net", folder / "model")
    lab.save_artifact("net", folder / "model")
    lab.save_artifact("mean", np.ones(3))
    lab.save_artifact("v1.5.npy", [1, 2])
    assert sorted(hash_artifacts(folder, 10_000)) == ["mean.npy", "net/config.json", "v1.5.npy", "words"]
    assert hash_artifacts(folder, 10_000)["words"] == hashlib.sha256(b"a b").hexdigest()
    assert lab.artifact("net.pt", node="n1").read_text() == "weights"
    assert list(np.load(lab.artifact("mean", node="n1"))) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lab.save_artifact("a", "missing.pt"), r"there is no file or folder 'missing\.pt'"),
        (lambda: lab.save_artifact("../a", np.ones(2)), r"cannot use the name '\.\./a'"),
        (lambda: lab.artifact("net", node="n1"), r"no artifact 'net' of node 'n1'; .*: n1: net\.pt, mean\.npy, far"),
        (lambda: lab.artifact("far", node="n1"), r"not copied: write both as plain strings"),
        (lambda: lab.pretrained("a/b"), r"several revisions 'a/b'"),
        (lambda: lab.launch("train.py", processes=0), r"at least one process, not 0"),
    ],
)
def test_wrong_use_is_refused_in_words(folder: Path, call: Callable[[], object], words: str) -> None:
    with pytest.raises(lab.LabError, match=words):
        call()
    assert not list(folder.glob("artifacts/*"))


def test_a_shared_value_is_built_once_for_a_key_and_a_text(folder: Path) -> None:
    def built() -> list[str]:
        return (folder / "built").read_text().split()

    def one() -> dict[str, Any]:
        with (folder / "built").open("a") as file:
            file.write("one ")
        return {"drawn": np.random.rand(3), "mean": np.arange(4.0).reshape(2, 2).T, "words": ("a", 10)}

    def other() -> int:
        with (folder / "built").open("a") as file:
            file.write("other ")
        return 20

    np.random.seed(5)
    values = [lab.shared("a", one), lab.shared("a", one), lab.shared("b", one)]
    assert np.random.rand() == np.random.RandomState(5).rand()  # those of the caller continue
    assert (lab.shared("a", other), built()) == (20, ["one", "one", "other"])
    assert values[0]["drawn"].tobytes() == values[1]["drawn"].tobytes() != values[2]["drawn"].tobytes()
    assert (values[0]["words"], values[0]["mean"].tolist()) == (("a", 10), [[0.0, 2.0], [1.0, 3.0]])
    with pytest.raises(ValueError, match="read-only"):
        values[0]["mean"][0] = 1
    for path in (folder / ".shared").iterdir():
        path.unlink()
        path.write_bytes(b"garbage")
    assert lab.shared("a", one)["drawn"].tobytes() == values[0]["drawn"].tobytes()


@pytest.mark.parametrize(
    ("key", "build", "words"),
    [
        ("large", lambda: np.zeros(200_000, np.uint8), r"lab\.shared\('large'\): \d+ bytes, more than the 100000"),
        ("odd", lambda: lambda: 0, r"lab\.shared\('odd'\) cannot be pickled"),
        (3, lambda: 0, "the key must be a string"),
    ],
)
def test_a_value_that_cannot_be_shared_is_refused(
    folder: Path, key: Any, build: Callable[[], object], words: str
) -> None:
    with pytest.raises(lab.LabError, match=words):
        lab.shared(key, build)


# --- what the host reads and copies ----------------------------------------------------------------------------------


def plant_large(base: Path) -> None:
    (base / "large").write_bytes(bytes(2000))


def plant_odd_name(base: Path) -> None:
    (base / "a b").write_text("")


def plant_link(base: Path) -> None:
    (base / "secret").symlink_to("/etc/passwd")


def plant_link_in_a_folder(base: Path) -> None:
    (base / "net").mkdir()
    (base / "net" / "x").symlink_to("/etc/passwd")


def plant_linked_folder(base: Path) -> None:
    (base / "net").mkdir()
    (base / "net" / "x").symlink_to("/etc")


@pytest.mark.parametrize(
    "plant", [plant_large, plant_odd_name, plant_link, plant_link_in_a_folder, plant_linked_folder]
)
def test_artifacts_that_are_no_plain_files_are_refused(tmp_path: Path, plant: Callable[[Path], object]) -> None:
    (tmp_path / "artifacts").mkdir()
    plant(tmp_path / "artifacts")
    with pytest.raises(BadFile):
        hash_artifacts(tmp_path, 1000)


def test_checkpoints_of_a_killed_run_are_put_aside(tmp_path: Path) -> None:
    draft = tmp_path / ".attempt1.part"
    assert rescue_checkpoints(draft) is None
    for text in ("older", "newer"):
        (draft / "kernels" / "1" / "cells" / "script" / "checkpoints").mkdir(parents=True)
        (draft / "kernels" / "1" / "cells" / "script" / "checkpoints" / "state").write_text(text)
        safe = rescue_checkpoints(draft)
        assert safe is not None and (safe / "cells" / "script" / "checkpoints" / "state").read_text() == text
    assert rescue_checkpoints(draft) == safe  # killed again before it saved anything
    remove_rescued(draft)
    assert rescue_checkpoints(draft) is None


# --- through kernels --------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(params=[pytest.param("none", marks=pytest.mark.bench), "auto"])
async def anywhere(request: pytest.FixtureRequest, store: DatasetStore, tmp_path: Path) -> AsyncIterator[KernelBench]:
    """Without a sandbox, and with one if this machine supports it."""
    settings = SETTINGS.model_copy(update={"isolation": request.param})
    executor = LocalExecutor(1, store.views, labels=store.labels, settings=settings, cache=store.cache)
    yield KernelBench(executor, tmp_path / "job")
    await executor.close()


COUNTING = """
import lab, time, os
epoch = lab.restore() or 0
print('from', epoch)
while epoch < 3:
    epoch += 1
    lab.checkpoint(epoch)
    if epoch == 2 and not os.path.exists('inputs/quiet'):
        {end}
lab.result('epochs', epoch, condition='baseline', dataset='digits')
"""


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        ("time.sleep(60)", "timeout"),
        pytest.param("raise MemoryError", "memory", marks=pytest.mark.bench),
        ("os.kill(os.getpid(), 9)", "died"),
    ],
)
async def test_a_second_attempt_goes_on_where_the_first_was_cut(bench: KernelBench, end: str, kind: str) -> None:
    first = await bench.run(COUNTING.format(end=end), timeout=3.0 if kind == "timeout" else 60.0)
    assert first.failure is not None and first.failure.kind == kind and not first.resumed
    again = Job(
        name="again",
        folder=bench.folder.with_name("second"),
        source={"experiment.py": COUNTING.format(end="pass")},
        timeout=30.0,
        cells={SCRIPT: CellTask(folder=bench.folder)},
    )
    second = await run_job(bench.executor, again)
    assert (second.stdout_tail, second.resumed, second.failure) == ("from 2\n", True, None)
    assert not (again.folder / "checkpoints").exists()  # finished: nobody will resume from it
    assert (bench.folder / "checkpoints" / "state").exists()


LEAVE = f"""
import lab, numpy as np, pathlib
pathlib.Path('notes.txt').write_text('hello')
lab.save_artifact('notes', 'notes.txt')
lab.save_artifact('mean', np.arange(3))
print(lab.shared('sum', lambda: sum(range(10)))){TINY}
"""
TAKE = f"""
import lab, numpy as np
print(lab.artifact('notes', node='n1').read_text(), np.load(lab.artifact('mean', node='n1')).sum())
print(lab.shared('sum', lambda: sum(range(10)))){TINY}
"""


async def test_artifacts_go_from_node_to_node_as_recorded(anywhere: KernelBench) -> None:
    left = await anywhere.run(LEAVE)
    assert left.artifacts == {"notes": hashlib.sha256(b"hello").hexdigest(), "mean.npy": left.artifacts["mean.npy"]}
    take = Job(
        name="take",
        folder=anywhere.folder.with_name("second"),
        source={"experiment.py": TAKE},
        timeout=30.0,
        artifacts={"n1": {name: ArtifactFile(anywhere.folder, sha256) for name, sha256 in left.artifacts.items()}},
    )
    outcome = await run_job(anywhere.executor, take)
    assert outcome.stdout_tail == "hello 3\n45\n"
    (anywhere.folder / "artifacts" / "notes").write_text("other")
    with pytest.raises(ExecutorError, match="artifact 'notes' of n1 was changed after it was recorded"):
        await run_job(anywhere.executor, take)


# --- several processes ------------------------------------------------------------------------------------------------


HANDING_IN = """
import lab, numpy as np
from multiprocessing import get_context

ARMS = ('baseline', 'method', 'forked', 'spawned')

def hand_in(arm):
    for split in ('validation', 'test'):
        guess = np.full(lab.data('digits').rows(split), ARMS.index(arm))
        lab.submit('digits', split, arm, predictions=guess)

if __name__ == '__main__':
    lab.launch(lambda: hand_in('baseline'), processes=1)
    lab.launch(lambda: hand_in('method'), processes=1)
    for way, arm in (('fork', 'forked'), ('spawn', 'spawned')):
        with get_context(way).Pool(1) as pool:
            pool.map(hand_in, [arm])
    try:
        lab.launch(lambda: hand_in('method'), processes=1)
    except lab.LabError as error:
        print('called before' in str(error))
"""


async def test_what_several_processes_hand_in_is_scored_as_what_it_is(bench: KernelBench, store: DatasetStore) -> None:
    outcome = await bench.run(HANDING_IN)
    assert (outcome.failure, outcome.stdout_tail.splitlines()[-1]) == (None, "True")
    tests = score_sealed(bench.folder, store.labels, seed=0, expected=outcome.sealed)
    labels = np.load(store.labels / "digits.npz")
    for split, found in (("validation", outcome.measurements), ("test", tests)):
        truth: list[int] = labels[f"{split}_y"].tolist()
        shares = {
            arm: truth.count(guess) / len(truth)
            for guess, arm in enumerate(("baseline", "method", "forked", "spawned"))
        }
        assert {one.condition: one.value for one in found if one.name == "accuracy"} == pytest.approx(shares)


LAUNCHED = """
import os, sys, time
print(sys.argv[1], os.environ['RANK'], os.environ['WORLD_SIZE'], flush=True)
if os.environ['RANK'] == '1' and 'fail' in sys.argv:
    raise RuntimeError('CUDA out of memory. Tried to allocate 20.00 MiB')
if 'fail' in sys.argv:
    time.sleep(60)
"""


async def test_a_script_is_launched_with_the_variables_of_torchrun_and_one_failure_ends_all(bench: KernelBench) -> None:
    code = (
        "import lab\nprint(lab.launch('train.py', processes=2, arguments=['go']))\n"
        "lab.launch('train.py', processes=2, arguments=['come', 'fail'])\n"
    )
    outcome = await bench.run(code, beside={"train.py": LAUNCHED})
    assert sorted(outcome.stdout_tail.splitlines()[:3]) == ["None", "[0] go 0 2", "[1] go 1 2"]
    failure = outcome.failure
    assert failure is not None and failure.kind == "memory" and outcome.seconds < 60
    assert "LabError: process 1 of 2 ended with exit code 1:" in failure.message
    assert "RuntimeError: CUDA out of memory" in failure.message


async def test_launched_processes_end_with_their_kernel(bench: KernelBench) -> None:
    code = "import lab\nlab.launch('train.py', processes=2)"
    beside = {
        "train.py": "import os, time\nopen(f'pid{os.environ[\"RANK\"]}', 'w').write(str(os.getpid()))\n"
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)"
    }
    outcome = await bench.run(code, beside=beside, timeout=4)
    assert outcome.failure is not None and outcome.failure.kind == "timeout"
    pids = [int(path.read_text()) for path in bench.folder.glob("pid*")]
    assert len(pids) == 2 and all(is_gone(pid) for pid in pids)


def test_a_folder_with_the_name_of_a_program_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "inputs" / "arms" / "early" / "net.py").mkdir(parents=True)
    (tmp_path / "own.py").mkdir()
    _zygote.cache_font_list(tmp_path)
