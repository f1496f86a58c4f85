"""Nodes that a person wrote: what of a folder is read, what is refused in one line, and what it becomes at a point."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labwright.record.events.search_events import DecisionMade, NodeProposed
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, hash_texts, read_source, seal_source
from labwright.record.schema.decisions import ExpandTree
from labwright.record.source_tree import MAX_FILE_BYTES
from labwright.stages.nodes.repository_program import UserCodeError, UserProgram, build_first_choice, read_user_program
from tests.search.scripted_search import finished_search

CODE = "WIDTH = 3\nimport lab\nlab.seed_everything()\n"


def folder(root: Path, **files: str) -> Path:
    root.mkdir()
    for name, text in files.items():
        (root / name.replace("_", ".")).write_text(text)
    return root


def test_a_folder_is_code_and_plots(tmp_path: Path) -> None:
    place = folder(tmp_path / "own", experiment_py=CODE, plots_py="import numpy\n")
    (place / "__pycache__").mkdir()
    (place / ".git").mkdir()
    found = read_user_program(place, author="Ada", note="# Wider\n\nIt is wider.\n")
    files = {"experiment.py": CODE, "plots.py": "import numpy\n"}
    assert found == UserProgram("Ada", files, "# Wider\n\nIt is wider.") and found.title == "Wider"
    bare = read_user_program(folder(tmp_path / "bare", experiment_py=CODE), author="Ada", note="a note\nof two lines")
    assert bare.plan == "a note\nof two lines" and bare.title == "a note" and list(bare.files) == ["experiment.py"]
    assert read_user_program(tmp_path / "bare", author="Ada").title == "written by Ada"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "contains no experiment.py"),
        ({"experiment_py": "def"}, "is not valid Python, line 1"),
        ({"experiment_py": CODE, "plots_py": "x ="}, "plots.py is not valid Python"),
        ({"experiment_py": "#" * (MAX_FILE_BYTES + 1)}, "more than"),
        ({"experiment_py": CODE, "scores_json": "1"}, "'scores.json' is reserved for the harness"),
        ({"experiment_py": "from labwright.record.schema.idea import Idea"}, "imports 'labwright.record.schema.idea'"),
        ({"experiment_py": "import lab._store"}, "imports 'lab._store'"),
        ({"experiment_py": "(" * 5000 + ")" * 5000}, "is not valid Python"),
    ],
)
def test_a_folder_that_is_not_fit_is_refused_in_one_line(tmp_path: Path, files: dict[str, str], said: str) -> None:
    with pytest.raises(UserCodeError) as caught:
        read_user_program(folder(tmp_path / "own", **files), author="Ada")
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_tree_is_read_with_its_folders(tmp_path: Path) -> None:
    place = folder(tmp_path / "own", experiment_py="import search.grid\n" + CODE)
    for inner in ("search", "arms", ".venv/lib", "arms/__pycache__"):
        (place / inner).mkdir(parents=True)
    for name in ("search/grid.py", "arms/wide.py", ".venv/lib/x.py", "arms/__pycache__/wide.pyc"):
        (place / name).write_text("DEPTH = 2\n")
    assert list(read_user_program(place, author="Ada").files) == ["experiment.py", "arms/wide.py", "search/grid.py"]
    (place / "more").symlink_to(place / "arms")
    with pytest.raises(UserCodeError, match="more is a symbolic link"):
        read_user_program(place, author="Ada")


def test_links_pipes_and_other_bytes_are_never_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("KEY = 1\n")
    linked, piped, bytes_ = (folder(tmp_path / name) for name in ("linked", "piped", "bytes"))
    (linked / "experiment.py").symlink_to(secret)
    os.mkfifo(piped / "experiment.py")
    (bytes_ / "experiment.py").write_bytes(b"\xff\xfe")
    for place, said in (
        (linked, "a symbolic link"),
        (piped, "not a plain file"),
        (bytes_, "UTF-8"),
        (tmp_path / "none", "not a folder"),
        (secret, "not a folder"),
    ):
        with pytest.raises(UserCodeError, match=said):
            read_user_program(place, author="Ada")


# --- what it becomes ------------------------------------------------------------------------------------------------


def at(point: str) -> RunState:
    """A small search, up to a point."""
    from labwright.record.branching import cut_log

    whole = finished_search()
    return cut_log([(event, 0.0) for event in whole.events], point).state


def named(kind: str, status: str, stage: str) -> str:
    whole = finished_search()
    return next(
        node.id for node in whole.state.nodes.values() if (node.kind, node.status, node.stage) == (kind, status, stage)
    )


def begun(tmp_path: Path, state: RunState, point: str) -> tuple[DecisionMade, NodeProposed]:
    place = RunFolder(tmp_path)
    for node in state.nodes.values():
        seal_source(place.get_source_path(node.id), {"experiment.py": "print()\n", "plots.py": f"# of {node.id}\n"})
    tree = {"experiment.py": CODE, "arms/wide.py": "DEPTH = 2\n"}
    decided, proposed = build_first_choice(state, point, UserProgram("Ada", tree, plan="Wider."), place)
    assert isinstance(decided, DecisionMade) and isinstance(proposed, NodeProposed)
    files = read_source(place.get_source_path(proposed.node))
    assert tree.items() <= files.items() and proposed.source_sha256 == hash_texts(files)
    assert proposed.author == "Ada" and proposed.setups == {"WIDTH": 3, "DEPTH": 2}
    return decided, proposed


@pytest.mark.parametrize(
    ("stage", "kind"), [("preliminary", "draft"), ("tuning", "improve"), ("agenda", "improve"), ("ablation", "ablate")]
)
def test_at_a_stage_it_grows_the_stage_from_its_root(tmp_path: Path, stage: str, kind: str) -> None:
    state = at(stage)
    decided, proposed = begun(tmp_path, state, stage)
    assert isinstance(decided.action, ExpandTree) and (decided.action.stage, decided.action.kind) == (stage, kind)
    assert (decided.action.parent is None) == (stage == "preliminary")
    assert decided.k == state.last_decision + 1 and all(k in decided.seen for k in state.finished_decisions)
    if decided.action.parent is not None:  # without plots of its own it is drawn by those of its parent
        drawn = read_source(RunFolder(tmp_path).get_source_path(proposed.node))["plots.py"]
        assert drawn == f"# of {decided.action.parent}\n"


@pytest.mark.slow
def test_at_a_node_it_improves_what_works_and_mends_what_does_not(tmp_path: Path) -> None:
    good, buggy = named("draft", "good", "preliminary"), named("draft", "buggy", "preliminary")
    decided, _ = begun(tmp_path / "good", at(good), good)
    assert isinstance(decided.action, ExpandTree) and (decided.action.kind, decided.action.parent) == ("improve", good)
    decided, proposed = begun(tmp_path / "buggy", at(buggy), buggy)
    assert isinstance(decided.action, ExpandTree) and (decided.action.kind, decided.action.parent) == ("debug", buggy)
    assert proposed.varies == at(buggy).nodes[buggy].varies
    copy = named("replicate", "good", "tuning")
    with pytest.raises(UserCodeError, match=f"{copy} is a replicate.*--from n"):
        begun(tmp_path / "copy", at(copy), copy)
