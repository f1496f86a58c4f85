"""`--space FILE`: what it says of a command is completed from the repository, held to it, and merged into plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from labwright.agent.cli import main
from labwright.agent.plan_files import read_space
from labwright.record.errors import UsageError
from labwright.record.schema.data_plan import Arm, DataPlan
from labwright.record.schema.repository import apply_space
from labwright.stages.repository.patch_scope import index_code
from labwright.stages.repository.program_facts import find_unknown_args
from tests.agent.test_repository_study import IDEA, PLAN
from tests.repositories import make_repository

TRAIN = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--lr", type=float, default=0.01, help="learning rate")
parser.add_argument("--width", type=int, default=8)
parser.add_argument("--no-bend", dest="bend", action="store_false")
parser.parse_args()
"""
HYDRA = {
    "train.py": "import hydra\n@hydra.main(config_path='conf', config_name='base')\ndef main(cfg): ...\nmain()\n",
    "conf/base.yaml": "defaults:\n- model: deep\nseed: 0\nsizes: [1, 2]\n",
    "conf/model/deep.yaml": "depth: 4\ndrop: null\n",
    "conf/model/wide.yaml": "width: 9\n",
}
ARGV = ("python", "train.py", "--seed", "{seed}", "{overrides}")
KNOWN = ("--command", " ".join(ARGV), "--metric", "metrics.json:val.quality", "--model", "offline")


def read(place: Path, told: str, *, files: dict[str, str] | None = None, argv: tuple[str, ...] = ARGV) -> Any:
    (place / "space.yaml").write_text(told)
    return read_space(place / "space.yaml", argv, index_code(files or {"train.py": TRAIN}))


def test_what_a_file_does_not_say_the_repository_does(tmp_path: Path) -> None:
    rate, width = read(tmp_path, "lr: {low: 1e-4, high: 0.1, log: true}\nwidth: {low: 2, high: 64}").hyperparameters
    assert (rate.word, rate.kind, rate.low, rate.default) == ("--lr {value}", "log", 1e-4, 0.01)
    assert rate.source == "the repository, train.py:5"
    assert (width.word, width.kind, width.default) == ("--width {value}", "integer", 8)
    (new,) = read(
        tmp_path,
        "hyperparameters: {x: {word: '--x {value}', low: 0, high: 1, default: 0, arms: [bent]}}\n"
        "arms: [{name: bent, role: method, description: a patch}]",
    ).hyperparameters
    assert new.word == "--x {value}", "a patch adds the option"
    (own,) = read(tmp_path, "rate: {word: '--lr {value}', options: [1, 2]}", argv=(*ARGV, "--lr", "2")).hyperparameters
    assert (own.kind, own.default, own.source) == ("choice", 2, "the command")
    (depth,) = read(tmp_path, "depth: {low: 1, high: 9}", files=HYDRA).hyperparameters
    assert (depth.word, depth.default, depth.kind) == ("model.depth={value}", 4, "integer")


@pytest.mark.parametrize(
    ("words", "files", "said"),
    [
        (["--no-bent"], {"train.py": TRAIN}, "has no option --no-bent, but --no-bend"),
        (["--no-be"], {"train.py": TRAIN}, ""),
        (["lr=2"], {"train.py": TRAIN}, "does not accept 'lr=2'"),
        (["--x"], {"train.py": TRAIN.replace("parse_args", "parse_known_args")}, ""),
        (["--x"], {"train.py": "import lib.a\n", "lib/a.py": "import lib.b\n", "lib/b.py": TRAIN}, "has no option --x"),
        (["--lr", "2"], {"train.py": "import lib.a\n", "lib/a.py": "import lib.b\n", "lib/b.py": TRAIN}, ""),
        (["--depth", "model.x=2"], HYDRA, ""),
    ],
)
def test_words_are_refused_where_the_code_is_sure(words: list[str], files: dict[str, str], said: str) -> None:
    wrong = find_unknown_args(words, ARGV, index_code(files))
    assert wrong.startswith(said) and bool(wrong) == bool(said)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("- a", "must name hyperparameters, arms or levels"),
        (": : :", "is not valid YAML"),
        ("lr: {low: 1}", "hyperparameter 'lr': low must be below high"),
        ("lr: {colour: red}", "hyperparameters.lr.colour: Extra inputs"),
        ("depth: {word: '--depth {value}', low: 1, high: 2, default: 1}", "the command has no option --depth"),
        ("lr: {word: '--lr', low: 0, high: 2}", "which lacks {value}"),
        ("arms: [{name: flat, role: method, words: [--bent]}]", "arm 'flat' has the words --bent"),
        (
            "arms: [{name: flat, role: method, words: [--seed, '3']}]",
            "arm 'flat' sets --seed, which the program sets for each run",
        ),
    ],
)
def test_a_space_that_cannot_be_is_one_line(tmp_path: Path, told: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, told)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_plan_has_what_the_space_says_and_may_not_contradict_it(tmp_path: Path) -> None:
    space = read(
        tmp_path,
        "hyperparameters: {lr: {low: 0, high: 1}}\nfactor: noise\nlevels: [{name: high, value: 1}]\n"
        "arms: [{name: flat, role: method, words: [--no-bend]}]",
    )
    plan = DataPlan.model_validate(
        PLAN
        | {
            "arms": [
                {"name": "baseline", "role": "baseline"},
                {"name": "flat", "role": "method", "description": "no bend"},
            ]
        }
    )
    made, faults = apply_space(plan, space)
    assert not faults and made.arms[1].words == ("--no-bend",) and made.arms[1].description == "no bend"
    assert made.space == space.hyperparameters and made.level_names == ("high",) and made.factor == "noise"
    assert apply_space(made, space) == (made, ())
    other = plan.model_copy(update={"factor": "size", "arms": (Arm(name="flat", role="method", words=("--lr", "9")),)})
    assert len(apply_space(other, space)[1]) == 2


@pytest.mark.slow
def test_the_command_line_takes_it_at_once_and_into_a_given_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_repository(tmp_path / "fit", {"train.py": TRAIN})
    Path("idea.json").write_text(IDEA)
    Path("plan.yaml").write_text(yaml.safe_dump(PLAN))
    Path("space.yaml").write_text("lr: {low: 0.001, high: 0.1, log: true}")
    asked = ["run", "--idea", "idea.json", "--plan", "plan.yaml", "--space", "space.yaml", "--dry-run"]
    assert main([*asked, "--code", "fit", *KNOWN]) == 0
    space = "- name: lr\n  kind: log\n  low: 0.001\n  high: 0.1\n  default: 0.01\n"
    assert space in capsys.readouterr().out
    assert main(asked) == 2
    assert "--space requires --code" in capsys.readouterr().err
    Path("space.yaml").write_text("noise: {word: '--noise {value}', low: 0, high: 1, default: 0}")
    assert main([*asked, "--code", "fit", *KNOWN]) == 2
    said = capsys.readouterr().err
    assert "has no option --noise" in said and said.count("\n") == 1
    Path("space.yaml").write_text("arms: [{name: flat, role: ablation, words: [--no-bend]}]")
    assert main([*asked, "--code", "fit", *KNOWN]) == 2
    assert "arm 'flat' has role 'method' in the plan" in capsys.readouterr().err
    Path("plan.yaml").write_text(yaml.safe_dump(PLAN).replace("--no-bend", "--no-bent"))
    Path("space.yaml").write_text("lr: {low: 0.001, high: 0.1, log: true}")
    assert main([*asked, "--code", "fit", *KNOWN]) == 2
    assert "has no option --no-bent, but --no-bend" in capsys.readouterr().err
