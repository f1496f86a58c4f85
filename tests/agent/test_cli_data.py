"""Data of the user's own on the command line: refused before anything is created, or recorded and watched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.agent.data import add_idea_data, check_unchanged, pin_data, survey_own_data
from labwright.agent.settings import Settings, SettingsError, compose_settings, override_settings
from labwright.record.event_log import read_state
from labwright.record.schema.idea import Idea
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from labwright.sandbox.job import DatasetError
from tests.agent.test_cli_bad_input import refused
from tests.inspector.sample_run import make_sample
from tests.inspector.test_logs import written
from tests.sandbox.data.sample_files import make_rows, write_pictures, write_table

pytestmark = pytest.mark.slow

OPTIONS = "target=good,drop=farm,drop=day,drop=tons"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "fields.csv", make_rows())
    (tmp_path / "idea.json").write_text(json.dumps({"Name": "calm", "Title": "Calm", "Experiments": ["one"]}))
    return tmp_path


def with_rows(change: Callable[[int, dict[str, object]], dict[str, object]]) -> None:
    write_table(Path("bad.csv"), [row | change(i, row) for i, row in enumerate(make_rows())])


BAD: dict[str, tuple[Callable[[], object], str, str]] = {
    "missing file": (lambda: None, f"bad=nowhere.csv,{OPTIONS}", "does not exist or cannot be opened"),
    "no rows": (
        lambda: Path("bad.csv").write_text("rain,good\n"),
        "bad=bad.csv,target=good",
        "it has a header but no rows",
    ),
    "broken image": (
        lambda: (write_pictures(Path("bad"), {"a": 30, "b": 30}) / "a" / "000.png").write_bytes(b"x"),
        "bad=bad",
        "a/000.png cannot be read as an image",
    ),
    "unknown option": (lambda: None, "bad=x.csv,tagret=good", "unknown option 'tagret'"),
    "class called None": (
        lambda: with_rows(lambda i, _: {"good": ("None", "NA", "poor")[i % 3]}),
        f"bad=bad.csv,{OPTIONS}",
        "is missing in 80 rows (the first is row 1): fill in or remove them; NA, None and the like count as missing",
    ),
    "dates": (
        lambda: with_rows(lambda i, _: {"ph": f"{1 + i % 28}.{1 + i // 28}.2024"}),
        f"bad=bad.csv,{OPTIONS}",
        "column 'ph' contains 120 different dates (such as '1.1.2024'), more than 20: convert it to numbers",
    ),
    "bundled name": (lambda: None, f"iris=fields.csv,{OPTIONS}", "a bundled dataset has this name"),
}


@pytest.mark.parametrize("fault", BAD)
def test_data_at_fault_are_one_line_and_leave_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    make, text, words = BAD[fault]
    make()
    assert words in refused(capsys, "run", "--idea", "idea.json", "--data", text)


def test_rows_shared_by_given_splits_are_a_warning_before_the_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**row, "part": "test" if i % 4 == 0 else "train"} for i, row in enumerate(make_rows())]
    for i in range(0, 40, 4):
        rows[i] = {**rows[i + 1], "part": "test"}
    write_table(Path("bad.csv"), rows)
    settings = compose_settings(flags={"data": f"bad=bad.csv,split=part,{OPTIONS}"}, environment={})
    warnings = survey_own_data(settings)
    assert warnings and all(line.startswith("data 'bad': ") and "also occur in" in line for line in warnings)
    assert main(["run", "--idea", "idea.json", "--data", f"bad=bad.csv,split=part,{OPTIONS}", "--dry-run"]) == 0
    assert f"scientist: {warnings[0]}" in capsys.readouterr().err


def test_flag_file_and_environment_name_data(place: Path) -> None:
    text = f"fields=fields.csv,{OPTIONS}"
    (place / "below").mkdir()
    config = place / "below" / "run.yaml"
    config.write_text(
        "data:\n  - {name: fields, path: ../fields.csv, target: good, drop: [farm, day, tons]}\n"
        "  - other=hf:some/set,target=y\n"
    )
    flag = compose_settings(flags={"data": [text]}, environment={}).data
    by_file = compose_settings(config=config, environment={}).data
    assert compose_settings(environment={"SCIENTIST_DATA": text}).data == flag
    assert [one.name for one in by_file] == ["fields", "other"]
    assert by_file[0].path is not None and by_file[0].path.resolve() == place / "fields.csv"
    assert compose_settings(config=config, flags={"data": [text]}, environment={}).data == flag, (
        "a flag replaces the list"
    )
    with pytest.raises(SettingsError, match=r"data 'x' is not NAME=PATH.* \(in "):
        config.write_text("data: [x]")
        compose_settings(config=config, environment={})


def test_an_idea_brings_data_and_flags_go_first(place: Path) -> None:
    idea = Idea.model_validate(
        {
            "Name": "n",
            "Title": "t",
            "Experiments": ["e"],
            "Datasets": ["iris", f"fields=fields.csv,{OPTIONS}", "more=fields.csv,target=soil"],
        }
    )
    named = compose_settings(flags={"data": "fields=fields.csv,target=tons"}, environment={})
    found = add_idea_data(named, idea, place)
    assert [(one.name, one.target) for one in found.data] == [("fields", "tons"), ("more", "soil")]
    assert add_idea_data(Settings(), idea, place).data[0].drop == ("farm", "day", "tons")


def test_a_change_is_noticed_when_a_run_is_resumed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = pin_data(compose_settings(flags={"data": f"fields=fields.csv,{OPTIONS}"}, environment={}))
    recorded = settings.model_dump(mode="json")
    assert override_settings(recorded, {}) == settings
    story = make_sample()
    started = story.events[0][0].model_copy(update={"settings": recorded})
    story.events[0] = (started, story.events[0][1])
    run = written(place / "calm", story)
    write_table(place / "fields.csv", make_rows(119))
    with pytest.raises(DatasetError, match="it changed since the run began"):
        check_unchanged(settings)
    before = read_state(run)
    for more, words in (
        ((), "data 'fields' (fields.csv): it changed since the run began (sha256 "),
        (("--set", "data=a=b.csv"), "the data of a run is fixed when it starts"),
    ):
        assert main(["resume", str(run), *more]) == 2
        err = capsys.readouterr().err
        assert words in err and err.count("\n") == 1 and read_state(run) == before
    (place / "fields.csv").unlink()
    check_unchanged(settings)


def test_exec_says_how_a_target_is_read_and_takes_files_with_a_byte_order_mark(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{i * 37 % 101}.{i % 7};{'ab'[i % 2]};{'yes' if i % 3 else 'no'};\n" for i in range(90))
    (place / "german.csv").write_text(f"x;kind;good;\n{rows}", encoding="utf-8-sig")
    (place / "near.py").write_text("SIZE = 2\n", encoding="utf-8-sig")
    (place / "try.py").write_text(
        "import lab\nimport near\nd = lab.data('german')\nprint(d.names, d.class_names, near.SIZE)\n"
        "lab.submit('german', 'validation', 'none', predictions=[0] * len(d.validation.x))\n",
        encoding="utf-8-sig",
    )
    assert main(["exec", "try.py", "--data", "german=german.csv,target=good", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["stdout_tail"] == "('x', 'kind=a', 'kind=b') ('no', 'yes') 2\n"
    assert "data 'german': the target 'good' is read as 2 classes (no, yes)\n" in shown.err


def test_exec_serves_own_data(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pictures(place / "drawn", {"cat": 30, "dog": 30})
    (place / "try.py").write_text(
        "import numpy as np\nimport lab\n"
        "d = lab.data('drawn')\nprint(d.train.x.shape, d.train.x.dtype, d.class_names)\n"
        "t = lab.data('fields')\nprint(t.names[0], t.train.x.shape)\n"
        "lab.submit('drawn', 'validation', 'base', predictions=np.zeros(len(d.validation.x), int))\n"
    )
    assert main(["exec", "try.py", "--data", "drawn=drawn", "--data", f"fields=fields.csv,{OPTIONS}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["stdout_tail"].splitlines() == ["(30, 6, 6, 1) float32 ('cat', 'dog')", "soil=clay (60, 6)"]
    accuracy = next(one for one in found["measurements"] if one["name"] == "accuracy")
    assert accuracy["value"] == 0.5 and accuracy["grade"] == ("scored" if get_probed_isolation().is_on else "computed")
    assert "does not exist or cannot be opened" in refused(capsys, "exec", "try.py", "--data", "drawn=gone")
