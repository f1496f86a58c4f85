"""A run killed right after an attempt ends as one that nothing happened to (after each kind of event: `make bench`)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from record.prompts import prompt_of
from record.reading import read_state
from tests.faults.killing import Killed
from tests.faults.same import latex, tree
from tests.faults.served import studying
from tests.models.openai_server import OpenAIServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")]


def test_killed_after_an_attempt_it_is_the_same_run(undisturbed: Path, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    with OpenAIServer(studying(noted)) as server:
        killed = Killed(tmp_path / "run", server, noted)
        assert killed.after(["executed"]) == "executed"
        state = killed.to_its_end()
    assert killed.kills == ["executed"]
    assert killed.asked_again() == 0 and killed.twice() == [] and killed.damaged == []
    assert tree(state) == tree(read_state(undisturbed))
    assert latex(killed.run) == latex(undisturbed)
    kept = [prompt_of(killed.run, one) for one in state.answers.values()]
    assert all(one is not None and one.asked is not None and not one.changed for one in kept)
