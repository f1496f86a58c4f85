"""Once an author says that nothing is left to try of an item, that item is not taken up again."""

from __future__ import annotations

import pytest

from labwright.record.event_log import MemoryLog
from labwright.record.events.search_events import NodeJudged
from labwright.record.schema.decisions import EndStage, ExpandTree
from labwright.record.schema.nodes import Failure, StageName
from labwright.search.settings import StageLimits
from tests.search import virtual_time
from tests.search.scripted_search import PLAN, SearchWorld, make_settings, new_log, run_search, run_whole_search

AGENDA = StageLimits(nodes=12)


class Declining(SearchWorld):
    """Of the first experiment nothing is left to try."""

    items: tuple[str, ...] = ("one",)

    def finish(self, node: str, k: int, action: ExpandTree) -> None:
        if action.kind == "improve" and action.item in self.items:
            self.log.append(
                NodeJudged(
                    node=node, status="cancelled", failure=Failure(kind="nothing left", message="it is answered")
                )
            )
        else:
            super().finish(node, k, action)


class DecliningAll(Declining):
    items = ("one", "two")


def items(log: MemoryLog) -> list[str]:
    return [
        one.action.item
        for one in log.state.decisions.values()
        if isinstance(one.action, ExpandTree) and one.action.kind == "improve"
    ]


def end_of(log: MemoryLog, stage: StageName) -> str:
    end = log.state.find_stage_end(stage)
    assert end is not None and isinstance(end.action, EndStage)
    return end.action.reason


@pytest.mark.parametrize("policy", ["best-first", "chain"])
def test_an_item_of_which_nothing_is_left_is_closed_and_the_others_go_on(policy: str) -> None:
    log, _ = run_whole_search(world=Declining, agenda=AGENDA, policy=policy, window=1, num_workers=1, buggy=0.0)
    assert items(log).count("one") == 1 and items(log).count("two") == len(items(log)) - 1 > 2
    assert end_of(log, "agenda") == "limit of 12 nodes"


@pytest.mark.parametrize("policy", ["best-first", "chain"])
def test_once_all_are_closed_the_agenda_ends(policy: str) -> None:
    log, _ = run_whole_search(world=DecliningAll, agenda=AGENDA, policy=policy, window=1, num_workers=1, buggy=0.0)
    assert items(log) == ["one", "two"]
    assert end_of(log, "agenda") == "no experiment has an idea left to try"
    assert log.state.search.stages["agenda"].best == log.state.search.stages["tuning"].best


@pytest.mark.parametrize(("covered", "asked"), [((), ["one", "two"]), ((1,), ["two"]), ((1, 2, 9), [])])
@pytest.mark.parametrize("policy", ["best-first", "chain"])
def test_where_nothing_is_selected_an_answered_or_covered_item_is_not_given_again(
    policy: str, covered: tuple[int, ...], asked: list[str]
) -> None:
    plan = PLAN.model_copy(update={"objective": "measure", "covered": covered})
    log, settings = new_log(plan=plan), make_settings(agenda=AGENDA, policy=policy, window=1, num_workers=1)
    virtual_time.run(run_search(log, SearchWorld(log, buggy=0.0), settings))
    assert items(log) == asked and end_of(log, "agenda") == "no experiment has an idea left to try"


def test_a_resumed_run_knows_what_is_closed() -> None:
    """Cut anywhere, the record alone tells which items are closed."""
    whole, _ = run_whole_search(world=Declining, agenda=AGENDA, window=1, num_workers=1, buggy=0.0)
    for cut in range(60, len(whole.events), 37):
        log = MemoryLog(whole.events[:cut])
        virtual_time.run(
            run_search(log, Declining(log, buggy=0.0), make_settings(agenda=AGENDA, window=1, num_workers=1))
        )
        assert items(log) == items(whole)
