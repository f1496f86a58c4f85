"""User scorers: read and frozen without running them, then run in a second kernel on submissions."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from labwright.record.schema.data_plan import Measurement
from labwright.sandbox.data.spec import parse_spec
from labwright.sandbox.datasets import build_registry, materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import DatasetError, Job, JobOutcome, SubmissionRefused
from labwright.sandbox.scorers import describe_scorer, freeze_scorer, parse_scorers, read_frozen_scorers, read_scorer
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import run_job
from tests.sandbox.conftest import SETTINGS

pytestmark = pytest.mark.slow

WALK = '''
import numpy as np

TAKES = "artifact"
METRICS = {"episode_return": "higher", "steps": "lower"}


def walk(submission, truth):
    """Return of a walk of at most 30 steps on five fields, over 40 episodes: submit an .npy of five chances.

    Not shown to anybody.
    """
    assert truth.y is None and (truth.path / "map.txt").read_text() == "5 fields"
    chances = np.load(submission.path, allow_pickle=False)
    if chances.shape != (5,):
        raise ValueError(f"five chances, not shape {chances.shape}")
    steps = []
    for episode in range(40):
        place = taken = 0
        while place < 4 and taken < 30:
            place = max(0, place + (1 if np.random.rand() < chances[place] else -1))
            taken += 1
        steps.append(taken)
    return {"episode_return": float(np.mean([1.0 if one < 30 else 0.0 for one in steps])), "steps": np.mean(steps)}
'''
POLICIES = """
import lab
import numpy as np

lab.seed_everything()
for split in ("validation", "test"):
    lab.submit_artifact("grid", split, "baseline", np.full(5, 0.5))
    lab.submit_artifact("grid", split, "method", np.full(5, 0.95))
"""
TOP_TWO = '''
METRICS = {"top_two": "higher"}


def top_two(submission, truth):
    """Share of rows whose class is among the two most likely ones."""
    assert submission.kind == "probabilities" and truth.x.shape[0] == len(truth.y) and truth.train_y is not None
    best = submission.values.argsort(axis=1)[:, -2:]
    return {"top_two": (best == truth.y[:, None]).any(axis=1).mean()}
'''
GUESS = """
import lab
import numpy as np

data = lab.data("digits")
for split in ("validation", "test"):
    rows = len(getattr(data, split).x)
    guess = np.full((rows, 10), 0.05)
    guess[:, :2] = 0.3
    lab.submit("digits", split, "baseline", probabilities=guess)
    if split == "validation":
        lab.submit("digits", split, "baseline", probabilities=guess, step=1)
"""


class Place:
    """Set up the datasets `grid` (a folder) and `digits` with the given scorers."""

    def __init__(self, root: Path, settings: SandboxSettings = SETTINGS, **scorers: str) -> None:
        self.root, self.settings = root, settings
        (root / "world").mkdir()
        (root / "world" / "map.txt").write_text("5 fields")
        for name, text in scorers.items():
            (root / f"{name}.py").write_text(text)
        spec = parse_spec({"name": "grid", "path": "world", "task": "none"}, root)
        self.sources = build_registry([spec])
        for name in ("grid", "digits"):
            materialise(name, views=root / "views", labels=root / "labels", seed=1, sources=self.sources)
        functions = {"grid": "walk", "digits": "top_two"}
        given = [f"{name}={root / name}.py:{functions[name]}" for name in scorers]
        for name, place in parse_scorers(self.sources, given).items():
            freeze_scorer(name, place, root / "scorers")

    def open_executor(self) -> LocalExecutor:
        labels, cache, scorers = (self.root / name for name in ("labels", "cache", "scorers"))
        return LocalExecutor(
            1, self.root / "views", labels=labels, settings=self.settings, cache=cache, scorers=scorers
        )

    async def run(self, code: str, seed: int = 3) -> tuple[JobOutcome, tuple[Measurement, ...] | str]:
        """The outcome of the code, and of its sealed part after the search."""
        executor = self.open_executor()
        folder = self.root / "job"
        try:
            source = {"experiment.py": code}
            job = Job("n1/1", folder, source, seed=seed, timeout=60.0, datasets=("grid", "digits"))
            outcome = await run_job(executor, job)
            try:
                return outcome, await executor.evaluate(folder, seed=seed, sealed=outcome.sealed)
            except SubmissionRefused as error:
                return outcome, str(error)
        finally:
            await executor.close()
            assert not list((self.root / "scoring").glob("*")), "copies of labels must not stay"


def values(found: tuple[Measurement, ...] | str) -> dict[tuple[str, str], float]:
    assert not isinstance(found, str), found
    return {(one.condition, one.name): one.value for one in found}


async def test_policies_are_evaluated_and_test_is_sealed_until_asked_for(tmp_path: Path) -> None:
    """By the scorer that was frozen, on what was sealed."""
    place = Place(tmp_path, grid=WALK)
    outcome, tests = await place.run(POLICIES)
    assert outcome.failure is None
    found = values(outcome.measurements)
    assert set(found) == {(arm, name) for arm in ("baseline", "method") for name in ("episode_return", "steps")}
    assert found["method", "episode_return"] == 1.0 > found["baseline", "episode_return"]
    assert {(one.split, one.grade, one.seed) for one in outcome.measurements} == {("validation", "computed", 3)}
    assert len(outcome.sealed) == 3 and "index.jsonl" in outcome.sealed
    assert values(tests) == found, "the seeds are set again for every submission"
    assert not isinstance(tests, str) and {one.split for one in tests} == {"test"}
    again, _ = await place.run(POLICIES)
    assert again.measurements == outcome.measurements
    (tmp_path / "scorers" / "grid.py").write_text(WALK.replace("40", "41"))
    with pytest.raises(SubmissionRefused, match="was changed after it was frozen"):
        read_frozen_scorers(tmp_path / "scorers")
    (tmp_path / "scorers" / "grid.py").write_text(WALK)
    (tmp_path / "job" / "sealed" / next(name for name in again.sealed if name.endswith("bin"))).write_bytes(b"x")
    executor = place.open_executor()
    with pytest.raises(SubmissionRefused, match="was changed after sealing"):
        await executor.evaluate(tmp_path / "job", seed=3, sealed=again.sealed)
    await executor.close()


async def test_a_scorer_of_predictions_gives_its_metric_beside_ours(tmp_path: Path) -> None:
    outcome, tests = await Place(tmp_path, digits=TOP_TWO).run(GUESS)
    assert outcome.failure is None
    labels = np.load(tmp_path / "labels" / "digits.npz")
    assert values(outcome.measurements)["baseline", "top_two"] == pytest.approx((labels["validation_y"] < 2).mean())
    assert {"accuracy", "auroc", "log_loss"} < {one.name for one in outcome.measurements}
    assert values(tests) == {("baseline", "top_two"): pytest.approx((labels["test_y"] < 2).mean())}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "import lab, numpy as np\nlab.submit_artifact('grid', 'validation', 'a', np.zeros(3))",
            "the scorer of 'grid' on submission of 'a' for grid/validation: ValueError: five chances, not shape (3,)",
        ),
        pytest.param(
            "import lab\nlab.submit_artifact('grid', 'validation', 'a', 'net.pt')",
            "there is no file or folder 'net.pt'",
            marks=pytest.mark.bench,
        ),
    ],
)
async def test_what_cannot_be_evaluated_is_the_failure_of_the_experiment(tmp_path: Path, code: str, words: str) -> None:
    outcome, _ = await Place(tmp_path, grid=WALK).run(code)
    assert outcome.failure is not None and words in outcome.failure.message


async def test_a_folder_arrives_as_it_was_and_a_forged_score_counts_for_nothing(tmp_path: Path) -> None:
    scorer = """
TAKES = "artifact"
METRICS = {"lines": "higher"}


def walk(submission, truth):
    return {"lines": sum(len(one.read_text().splitlines()) for one in submission.path.rglob("*.txt"))}
"""
    outcome, _ = await Place(tmp_path, grid=scorer).run("""
import lab, json
from pathlib import Path
Path("samples/deep").mkdir(parents=True)
Path("samples/a.txt").write_text("one\\ntwo\\n")
Path("samples/deep/b.txt").write_text("three")
Path("samples/c.txt").symlink_to("a.txt")
lab.submit_artifact("grid", "validation", "method", "samples")
lab.result("lines", 99, condition="method", dataset="grid")
Path("scores.jsonl").write_text(json.dumps({"number": 0, "values": {"lines": 1000.0}}))
""")
    assert outcome.failure is None
    assert values(outcome.measurements) == {("method", "lines"): 5.0}


async def test_links_in_an_artifact_overwrite_no_scores(tmp_path: Path) -> None:
    """Links whose resolved path is longer than the system takes pass the filter of `tarfile` (CVE-2025-4517)."""
    outcome, tests = await Place(tmp_path, grid=WALK).run("""
import io, json, lab, tarfile
import numpy as np

for split in ("validation", "test"):
    lab.submit_artifact("grid", split, "method", np.full(5, 0.5))
lines = [json.loads(line) for line in open("submissions.jsonl")]
forged = b"\\n" * 3000 + json.dumps({"number": 0, "values": {"episode_return": 9.0, "steps": 1.0}}).encode()
for line in lines:
    with tarfile.open("submissions/" + line["file"], "w") as archive:
        def add(name, kind, target="", content=b""):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode, member.size = kind, target, 0o755, len(content)
            archive.addfile(member, io.BytesIO(content))
        deep, long = "", 247 * "d"
        for step in "abcdefghijklmnop":
            add(deep + long, tarfile.DIRTYPE)
            add(deep + step, tarfile.SYMTYPE, long)
            deep += long + "/"
        past = "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/" + 254 * "l"
        add(past, tarfile.SYMTYPE, 16 * "../")
        add("escape", tarfile.SYMTYPE, past + "/../../..")
        add("escape/scores.jsonl", tarfile.REGTYPE, content=forged)
with open("submissions.jsonl", "w") as file:
    file.writelines(json.dumps({**line, "packed": True}) + "\\n" for line in lines)
""")
    assert outcome.measurements == () and outcome.failure is not None
    assert "neither a file nor a folder" in outcome.failure.message and "neither a file nor a folder" in str(tests)


# --- reading a scorer -------------------------------------------------------------------------------------------------


def test_a_scorer_is_read_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("raise SystemExit('run')\n" + WALK)
    scorer, text = read_scorer("grid", f"{path}:walk")
    assert (scorer.takes, [one.name for one in scorer.metrics]) == ("artifact", ["episode_return", "steps"])
    assert [one.higher_is_better for one in scorer.metrics] == [True, False]
    assert scorer.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert "submit an .npy of five chances." in describe_scorer(scorer) and "Not shown" not in describe_scorer(scorer)
    freeze_scorer("grid", f"{path}:walk", tmp_path / "frozen")
    (tmp_path / "dos.py").write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    freeze_scorer("grid", f"{tmp_path / 'dos.py'}:walk", tmp_path / "dos")
    assert read_frozen_scorers(tmp_path / "dos") == read_frozen_scorers(tmp_path / "frozen")
    path.write_text("changed")
    assert freeze_scorer("grid", f"{path}:walk", tmp_path / "frozen") == scorer, "frozen scorers stay unchanged"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (TOP_TWO, "own.py", "no function is given: write FILE.py:FUNCTION"),
        (TOP_TWO, "gone.py:top_two", "cannot use .*gone.py"),
        (TOP_TWO.replace("(submission, truth)", "(values)"), "own.py:top_two", "must take two arguments"),
        (TOP_TWO.replace('"higher"', '"up"'), "own.py:top_two", "must be 'higher' or 'lower', not 'up'"),
        (TOP_TWO.replace('"top_two"', '"accuracy"'), "own.py:top_two", "a built-in metric"),
    ],
)
def test_a_scorer_that_cannot_be_used_is_refused_in_words(tmp_path: Path, text: str, place: str, words: str) -> None:
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(DatasetError, match=words):
        read_scorer("digits", str(tmp_path / place))
