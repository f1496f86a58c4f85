"""A node's source is a tree of small text files: written, read and hashed whole; what is none is refused before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.record.run_folder import hash_texts, read_source, seal_source
from labwright.record.schema.repository import RepositoryCommand
from labwright.record.source_tree import (
    CODE_FILE,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TREE_BYTES,
    RepositoryProgram,
    SourceTreeError,
    check_source,
    parse_program,
    read_constants,
    select_code,
)

TREE = {
    "experiment.py": "import common\r\nX = 'é'\n",
    "arms/method.py": "RATE = 0.1\n",
    "data/grid.json": "[1]",
    "plots.py": "SIZE = 3\n",
}


def test_a_tree_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = tmp_path / "source"
    digest = seal_source(place, TREE)
    assert read_source(place) == TREE and list(read_source(place)) == sorted(TREE)
    assert digest == hash_texts(read_source(place)) != hash_texts(TREE | {"arms/method.py": "RATE = 0.2\n"})
    assert seal_source(place, {"experiment.py": "pass\n"}) and list(read_source(place)) == ["experiment.py"]
    (tmp_path / "secret").write_text("KEY")
    (place / "linked.py").symlink_to(tmp_path / "secret")
    (place / "folder").symlink_to(tmp_path)
    assert list(read_source(place)) == ["experiment.py"], "no link is followed"


def test_a_program_of_an_earlier_version_is_read() -> None:
    command = RepositoryCommand(argv=("python", "run.py"), metric="stdout:x (.*)")
    program = RepositoryProgram(commit="c", tree="t", command=command, name="x")
    stored = program.model_dump(mode="json")
    stored["command"]["seeded"], stored["predictions"] = False, ""
    assert parse_program({CODE_FILE: json.dumps(stored)}) == program
    stored["command"]["metric"], stored["predictions"] = "", "out/p.csv"
    read = parse_program({CODE_FILE: json.dumps(stored)})
    assert read is not None and read.command.predictions == "out/p.csv"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"../up.py": ""}, "is not a valid path below the root"),
        ({"/etc/x.py": ""}, "is not a valid path below the root"),
        ({"a/../../x.py": ""}, "is not a valid path below the root"),
        ({"a\\b.py": ""}, "is not a valid path below the root"),
        ({".hidden/x.py": ""}, "is not a valid path below the root"),
        ({"a/.x": ""}, "is not a valid path below the root"),
        ({"": ""}, "is not a valid path below the root"),
        ({"a//b.py": ""}, "is not a valid path below the root"),
        ({"a b.py": ""}, "is not a valid path below the root"),
        ({"a/b/c/d/e/f/g.py": ""}, "is not a valid path below the root"),
        ({"x" * 300: ""}, "is not a valid path below the root"),
        ({"arrays/loss.npy": ""}, "harness"),
        ({"lab.py": ""}, "harness"),
        ({"a": "", "a/b.py": ""}, "is a file itself"),
        ({"a.py": "\udcff"}, "UTF-8"),
        ({"a.txt": "\0"}, "UTF-8"),
        ({"a.txt": "x" * (MAX_FILE_BYTES + 1)}, "more than 1000000"),
        ({"a.txt": "é" * (MAX_FILE_BYTES // 2 + 1)}, "more than"),
        ({f"a{k}.py": "" for k in range(MAX_FILES + 1)}, "files, more than"),
        ({f"a{k}.txt": "x" * MAX_FILE_BYTES for k in range(MAX_TREE_BYTES // MAX_FILE_BYTES + 1)}, "together"),
    ],
)
def test_what_is_no_source_is_refused_before_anything_is_written(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    with pytest.raises(SourceTreeError, match=said):
        check_source(files)
    with pytest.raises(SourceTreeError):
        seal_source(tmp_path / "source", files)
    assert not list(tmp_path.iterdir())


def test_code_and_settings_are_those_of_all_files_but_plots() -> None:
    assert list(select_code(TREE)) == ["experiment.py", "arms/method.py"]
    assert read_constants(TREE) == {"X": "é", "RATE": 0.1}
    assert read_constants(TREE | {"arms/other.py": "RATE = 0.2\nDEPTH = 2\n"}) == {"X": "é", "DEPTH": 2}
    assert read_constants(TREE | {"arms/other.py": "RATE = 0.1\n"})["RATE"] == 0.1
