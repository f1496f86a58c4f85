"""The tree as rows, and as lines of a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from labwright.inspector.render import format_tree, print_lines
from labwright.inspector.tree import NodeRow, RunTree, StageRows, build_tree
from labwright.record.events.search_events import DecisionMade
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import StageName
from tests.inspector.sample_run import EventStory, make_ended, make_eventful, make_sample


def find_stage(tree: RunTree, name: StageName) -> StageRows:
    return next(stage for stage in tree.stages if stage.stage == name)


def rows(tree: RunTree) -> dict[str, NodeRow]:
    return {row.id: row for stage in tree.stages for row in stage.nodes}


def printed(tree: RunTree, width: int = 200, *, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None, legacy_windows=False)
    print_lines(console, format_tree(tree))
    return out.getvalue()


def test_rows_follow_their_parents_in_the_order_of_decisions() -> None:
    first = find_stage(build_tree(make_sample().state), "preliminary")
    assert [(row.id, row.depth, row.kind) for row in first.nodes] == [
        ("n0001", 0, "draft"),
        ("n0003", 1, "debug"),
        ("n0004", 2, "replicate"),
        ("n0002", 0, "draft"),
    ]
    assert (first.searched_count, first.node_limit, first.best) == (3, 5, "n0003")


def test_a_child_of_an_earlier_stage_is_a_root_of_its_own() -> None:
    tuning = find_stage(build_tree(make_sample().state), "tuning")
    assert [(row.id, row.parent, row.depth) for row in tuning.nodes] == [("n0005", "n0003", 0), ("n0006", "n0005", 1)]


def test_the_metric_is_the_methods_on_the_main_dataset() -> None:
    tree = build_tree(make_sample().state)
    assert tree.metric is not None and (tree.metric.name, tree.metric.dataset) == ("log_loss", "digits")
    found = rows(tree)
    assert found["n0003"].metric == pytest.approx(0.3)
    assert found["n0001"].metric is None and found["n0001"].failure == "shape"


def test_the_path_to_the_winner_is_marked() -> None:
    tree = build_tree(make_ended().state)
    assert tree.winner == "n0005"
    found = rows(tree)
    assert {row.id for row in found.values() if row.on_best_path} == {"n0001", "n0003", "n0005"}
    assert {row.id for row in found.values() if row.best} == {"n0003", "n0005"}


def test_a_run_without_events_has_an_empty_tree() -> None:
    assert printed(build_tree(RunState())) == "no nodes yet\n"


@pytest.mark.parametrize("story", [make_ended(), make_eventful()])
def test_every_prefix_of_a_log_has_a_tree(story: EventStory) -> None:
    for end in range(len(story.events) + 1):
        assert printed(build_tree(fold_events(story.events[:end])))


def test_a_log_whose_parents_make_a_circle_is_still_shown() -> None:
    story = EventStory()
    story.add_start()
    for k, parent in ((1, "n0002"), (2, "n0001"), (3, "nowhere")):
        story.add(DecisionMade(k=k, action=ExpandTree(stage="agenda", kind="improve", parent=parent, seed=1)))
    assert [row.id for row in find_stage(build_tree(story.state), "agenda").nodes] == ["n0001", "n0002", "n0003"]


def test_lines_say_state_in_words_and_symbols() -> None:
    text = printed(build_tree(make_ended().state))
    lines = {line.split("n00", 1)[1][:2]: line for line in text.splitlines() if " n00" in line and "best n" not in line}
    assert "✗" in lines["01"] and "shape" in lines["01"] and "•" in lines["01"]
    assert "★" in lines["03"] and "0.3" in lines["03"] and "debug" in lines["03"]
    assert "seed 2" in lines["04"]
    assert "replotted 1x" in lines["05"] and "LEARNING_RATE=0.003" in lines["05"]
    assert "running" in lines["06"]
    assert "log loss on digits" in text and "lower is better" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_hostile_text_reaches_no_terminal(terminal: bool) -> None:
    text = printed(build_tree(make_ended().state), terminal=terminal) + printed(
        build_tree(make_eventful().state), terminal=terminal
    )
    assert "[bold red]loss[/]" in text, "markup is shown, not obeyed"
    assert not {c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\u202c"}


def test_a_narrow_terminal_gets_one_line_a_node() -> None:
    tree = build_tree(make_ended().state)
    text = printed(tree, width=40, terminal=True)
    assert all(len(line) <= 40 for line in text.splitlines())
    assert len(text.splitlines()) == len(printed(tree, width=500, terminal=True).splitlines())


def test_a_terminal_without_unicode_gets_ascii() -> None:
    text = "\n".join(line.plain for line in format_tree(build_tree(make_ended().state), ascii=True))
    assert {c for c in text if ord(c) > 126} <= set("eslaf")


def test_what_a_stage_owes_and_that_its_code_ignores_the_seed_are_told() -> None:
    tree = build_tree(make_eventful().state)
    first = find_stage(tree, "preliminary")
    assert first.pending == ("1 replicate running", "its report")
    assert rows(tree)["n0001"].seedless and not rows(tree)["n0002"].seedless
    text = printed(tree)
    assert "pending: 1 replicate running, its report" in text and "ignores its seed" in text
    assert (
        find_stage(tree, "tuning").pending == ()
        and find_stage(build_tree(make_sample().state), "preliminary").pending == ()
    )


def test_retries_pruned_nodes_and_limits_are_shown() -> None:
    tree = build_tree(make_eventful().state)
    lines = printed(tree).splitlines()
    slow, doomed = (next(line for line in lines if f" {node} tune" in line) for node in ("n0005", "n0006"))
    assert "2 attempts, the last with a limit of 90 s instead of 60 s" in slow
    assert "pruned: far below its peers" in doomed
    tuning = find_stage(tree, "tuning")
    assert tuning.limited is not None and "limit of 9 model calls" in next(x for x in lines if x.startswith("tuning"))
