"""A whole small run in which a reviewer asks for an ablation: real kernels, real record, real TeX; a scripted model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.audit import audit
from models.backend import Reply, Request
from models.roles.revising import ReflectInputs, Reflection, TextEdit
from models.scripted import ScriptedModel
from models.settings import ModelSettings
from record.claims import claims_on_test
from record.events import Event
from record.reading import read_events, read_state
from record.trials import trials
from tests.stages.small_study import IDEA, small_model
from tests.stages.test_whole_run import small_settings

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")]

KEY = "diff/iris/log_loss/half-weight~shrunk"


class Telling(ScriptedModel):
    """The small study's model, whose reflector tells what was run since, by its key."""

    def __init__(self) -> None:
        super().__init__(_told)
        self._small = small_model("half-weight")

    async def answer(self, request: Request) -> Reply:
        if isinstance(request.inputs, ReflectInputs) and request.inputs.news:
            return await super().answer(request)
        return await self._small.answer(request)


def _told(request: Request) -> Reflection:
    inputs = request.inputs
    assert isinstance(inputs, ReflectInputs)
    if inputs.tried:
        return Reflection(done=True)
    results = next(one for one in inputs.draft.sections if one.title == "Results")
    first = results.body.split("\n\n")[0]
    said = rf"{first} The paired difference that a reviewer asked for is \result{{{KEY}.mean}}."
    return Reflection(done=False, edits=(TextEdit(section="Results", old=first, new=said),))


def _opened(_: ModelSettings) -> Telling:
    return Telling()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from agent import run

    runs = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "open_backend", _opened)
        code = run.start(IDEA, small_settings(search__num_drafts=1), runs=runs, name="whole",
                         listener=lambda event, state: None)
    assert code == 0, read_state(runs / "whole").ended
    return runs / "whole"


def _at(events: Sequence[Event], kind: str) -> int:
    return next(n for n, event in enumerate(events) if event.type == kind)


def test_it_is_run_scored_once_and_printed(whole: Path) -> None:
    state = read_state(whole)
    planned, late = trials(state)
    assert (planned.by, late.by) == ("author", "reviewer") and late.replicates == planned.replicates >= 2
    assert late.outcome == "measured" and late.arms == ("half-weight",)
    conditions = {claim.condition for claim in claims_on_test(state)}
    assert conditions == {"plain", "shrunk", "without-shrinkage", "half-weight"}
    events = [event for event, _ in read_events(whole / "run.db")]
    asked, released = _at(events, "ablations_missed"), _at(events, "released")
    scored = [event.node for event in events if event.type == "unsealed"]
    assert len(scored) == len(set(scored))
    assert {event.node for event in events[asked:released] if event.type == "unsealed"} == {
        node.id for node in state.nodes.values() if late.node in (node.id, node.parent)}
    assert KEY in (whole / "paper" / "paper.tex").read_text()


def test_the_paper_and_the_disclosure_tell_who_asked_and_the_audit_is_clean(whole: Path) -> None:
    text = (whole / "paper" / "paper.tex").read_text() + (whole / "paper" / "appendix.tex").read_text()
    assert "Whoever asked had read the test" in " ".join(text.split())
    told = json.loads((whole / "review" / "disclosure.json").read_text())["ablations"]
    assert [(one["ablation"]["name"], one["by"], one["outcome"]) for one in told["trials"]] == [
        ("without-shrinkage", "author", "measured"), ("half-weight", "reviewer", "measured")]
    assert told["risks"] == ["Few classes (not tested: the data plan has one dataset)"]
    assert audit(whole).findings == []
