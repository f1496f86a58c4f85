"""Runs whose model fails in every known way, or that are killed, have the same tree, numbers and paper.

Neither is compared with a run that nothing happened to: what both would have to get wrong alike is looked for in
`make bench`, which kills one after every kind of event.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from record.claims import paper_claims
from record.prompts import prompt_of
from record.reading import read_state
from tests.faults.conftest import FAULTS, Faulty
from tests.faults.killing import Killed
from tests.faults.same import latex, tree
from tests.faults.served import studying
from tests.models.openai_server import OpenAIServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")]


def test_a_run_with_a_fault_in_every_three_calls_and_one_that_is_killed_are_the_same(
    faulty: Faulty, tmp_path: Path
) -> None:
    noted, reference = tmp_path / "noted", read_state(faulty.run)
    assert faulty.requests // 3 >= len(FAULTS)
    assert sum(one.retries for one in reference.answers.values()) >= len(FAULTS)
    with OpenAIServer(studying(noted)) as server:
        killed = Killed(tmp_path / "run", server, noted)
        assert killed.after(["executed"]) == "executed"
        state = killed.to_its_end()
    assert killed.kills == ["executed"]
    assert killed.asked_again() == 0 and killed.twice() == [] and killed.damaged == []
    assert tree(state) == tree(reference)
    assert paper_claims(state) == paper_claims(reference)
    assert latex(killed.run) == latex(faulty.run)
    kept = [prompt_of(killed.run, one) for one in state.answers.values()]
    assert all(one is not None and one.asked is not None and not one.changed for one in kept)
