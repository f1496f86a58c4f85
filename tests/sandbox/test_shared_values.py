"""Which parts of a cell's environment change a shared value."""

from __future__ import annotations

import functools
import os
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab import _zygote
from lab._job import JobFile
from lab._shared import compute_fingerprint

from labwright.record.schema.nodes import Cell
from labwright.sandbox.job import Job
from tests.jobs import cell_tasks
from tests.sandbox.conftest import DatasetStore, run_alone

PROGRAM = """
import functools, math
import numpy as np
import common

LEVEL = ""
TABLE = {}

def make(level, other=1):
    return {"level": level}

def through_a_global():
    return LEVEL

def through_another():
    return through_a_global()

class Maker:
    def __init__(self, level):
        self.level = level

    def build(self):
        return self.level

    def __call__(self):
        return self.level

def builds(level):
    global LEVEL
    LEVEL, TABLE["level"], common.LEVEL = level, level, level
    def nested():
        return level
    def default(given=level):
        return given
    def named(*, given=level):
        return given
    class Local:
        level_of_class = level
    shape, array, maker = (level, [1]), np.array([len(level), ord(level)]), Maker(level)
    @functools.wraps(nested)
    def wrapping():
        return nested()
    return {
        "captured": lambda: level, "partial": functools.partial(make, level),
        "keyword": functools.partial(make, "x", other=level), "nested": lambda: nested(), "tuple": lambda: shape[0],
        "array": lambda: array.sum(), "default": default, "keyword default": named, "bound method": maker.build,
        "callable": maker, "object": lambda: maker.level, "global": through_a_global, "far global": through_another,
        "table": lambda: TABLE["level"], "module of the program": lambda: common.LEVEL,
        "class": lambda: Local.level_of_class, "wrapping": wrapping,
        "set": (lambda one: lambda: one)({level, "y"}), "bytes": (lambda one: lambda: one)(level.encode()),
        "inner lambda": lambda: (lambda: level)()}

def same():
    return {"plain": lambda: np.zeros(3), "library": np.random.default_rng, "function": through_nothing,
            "class": lambda: Maker("z"), "partial": functools.partial(make, "z")}

def through_nothing():
    return [math.sqrt(x) for x in range(3)]
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[], dict[str, Any]]:
    """Recreate the program's globals, as in each process of a cell."""

    def load() -> dict[str, Any]:
        main: Any = types.ModuleType("__main__")
        main.__file__ = str(tmp_path / "experiment.py")
        common: Any = types.ModuleType("common")
        common.__file__ = str(tmp_path / "common.py")
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "common", common)
            exec(compile(PROGRAM, main.__file__, "exec"), main.__dict__)
        return main.__dict__

    return load


def test_whatever_way_a_level_comes_in_the_value_is_another_one(
    program: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    def prints(level: str) -> dict[str, str]:
        return {name: compute_fingerprint(build, tmp_path) for name, build in program()["builds"](level).items()}

    one, again, other = prints("1"), prints("1"), prints("2")
    assert one == again
    assert [name for name in one if one[name] == other[name]] == []


def test_a_path_of_its_own_folder_is_the_same_in_every_cell(tmp_path: Path) -> None:
    def prints(folder: Path) -> tuple[str, str]:
        path, text = folder / "words.txt", f"{folder}/words.txt"
        return compute_fingerprint(lambda: path.name, folder), compute_fingerprint(lambda: text, folder)

    assert prints(tmp_path / "a") == prints(tmp_path / "b") != prints(tmp_path)[::-1]


@pytest.mark.parametrize("odd", [threading.Lock(), (one for one in "ab"), open(__file__)])  # noqa: SIM115
def test_what_cannot_be_compared_is_named(odd: object, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=type(odd).__name__):
        compute_fingerprint(lambda: odd, tmp_path)


@pytest.mark.slow
def test_torch_and_what_libraries_make_is_compared_by_content(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    from sklearn.linear_model import LogisticRegression

    def prints(seed: int) -> list[str]:
        torch.manual_seed(seed)
        net, rng, model = torch.nn.Linear(2, 2), np.random.default_rng(seed), LogisticRegression(C=seed + 1.0)
        return [compute_fingerprint(functools.partial(id, one), tmp_path) for one in (net, rng, model, net.weight)]

    first, again, other = prints(0), prints(0), prints(1)
    assert first == again and not set(first) & set(other)


BUILDS = """
import functools, os
import lab

def make(level):
    return level

def run(cell):
    level = cell.level
    def load():
        return level
    shape = (level,)
    class Reader:
        def read(self):
            return cell.level
    got = [lab.shared("features v1", lambda: cell.level), lab.shared("partial", functools.partial(make, level)),
           lab.shared("nested", lambda: load()), lab.shared("tuple", lambda: shape[0]),
           lab.shared("method", Reader().read), lab.shared("seeded", lambda: [cell.level, lab.seed])[0],
           lab.shared("forked", functools.partial(forked, cell))]
    lab.result("right", float(got == [cell.level] * len(got)))
    lab.result("builder", lab.shared("once", os.getpid))

def forked(cell):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, cell.level.encode())
        os._exit(0)
    os.wait()
    return os.read(read, 100).decode()

lab.measure(run)
"""


@pytest.mark.slow
@pytest.mark.parametrize("levels", ["12", pytest.param("21", marks=pytest.mark.bench)])
async def test_no_cell_is_given_what_was_built_for_another_level(
    store: DatasetStore, tmp_path: Path, levels: str
) -> None:
    cells = cell_tasks(Cell(dataset="digits", arm=arm, level=level) for arm in "mn" for level in levels)
    job = Job("builds", tmp_path / "job", {"experiment.py": BUILDS}, cells=cells, datasets=("digits",), timeout=100.0)
    outcome = await run_alone(store, job, cache=tmp_path / "cache")
    assert outcome.failure is None, outcome.failure
    assert [one.value for one in outcome.measurements if one.name == "right"] == [1.0] * 4
    assert len({one.value for one in outcome.measurements if one.name == "builder"}) == 1, "built once for all cells"


def test_only_plain_files_of_a_cell_become_shared_values(tmp_path: Path) -> None:
    def publish(name: str, prepare: Callable[[Path], object]) -> list[bytes]:
        folder, cache = tmp_path / name / "cell", tmp_path / name / "cache"
        folder.mkdir(parents=True)
        (cache / "shared").mkdir(parents=True)
        prepare(folder)
        fields: dict[str, Any] = {"seed": 0, "deadline": 0.0, "device": "cpu", "mode": "experiment", "entry": ""}
        _zygote._publish_shared_values(
            JobFile(folder=folder, cache=str(cache), datasets={}, checkpoint_bytes=10, **fields)
        )
        assert not (folder / ".shared").is_dir() or (folder / ".shared").is_symlink()
        return [path.read_bytes() for path in (cache / "shared").iterdir()]

    def fill(folder: Path) -> None:
        folder.mkdir()
        (folder / ("a" * 40)).write_bytes(b"value")
        (folder / ("b" * 40)).write_bytes(b"more than ten bytes")
        (folder / ("c" * 40)).mkdir()
        os.mkfifo(folder / ("d" * 40))
        (folder / ("e" * 40)).symlink_to(secret)
        (folder / "another").write_bytes(b"name")

    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    assert publish("filled", lambda folder: fill(folder / ".shared")) == [b"value"]
    fill(tmp_path / "elsewhere")
    assert publish("linked", lambda folder: (folder / ".shared").symlink_to(tmp_path / "elsewhere")) == []
    assert (tmp_path / "elsewhere").is_dir() and secret.read_bytes() == b"secret"


def test_the_shared_values_of_all_cells_have_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def limit(_: int) -> tuple[int, int]:
        return 10, 10

    monkeypatch.setattr("resource.getrlimit", limit)
    fields: dict[str, Any] = {"seed": 0, "deadline": 0.0, "device": "cpu", "mode": "experiment", "entry": ""}
    (tmp_path / "cache").mkdir()
    for number in range(4):
        folder = tmp_path / str(number)
        (folder / ".shared").mkdir(parents=True)
        (folder / ".shared" / (40 * str(number))).write_bytes(b"four")
        _zygote._publish_shared_values(JobFile(folder=folder, cache=str(tmp_path / "cache"), datasets={}, **fields))
    assert len(list((tmp_path / "cache" / "shared").iterdir())) == 2
