r"""The estimate of a hypothesis in a paper is traced to the runs from which it was computed."""

from __future__ import annotations

from pathlib import Path

from labwright.inspector.number_tracer import NumberTracer
from labwright.record.run_folder import RunFolder
from tests.hypotheses import make_hypotheses
from tests.paper import synthetic_paper


def test_an_effect_is_traced_to_every_unit_by_its_key_and_by_its_numbers(tmp_path: Path) -> None:
    run = synthetic_paper.make_state()
    assert run.search.data_plan is not None
    run.search.data_plan = run.search.data_plan.model_copy(
        update={"hypotheses": make_hypotheses("method", "baseline", higher=False, level="noise20")}
    )
    paper = RunFolder(tmp_path).paper_folder
    paper.mkdir(parents=True)
    (paper / "paper.tex").write_text(
        "\\begin{document}\nThe gain is \\result{hypothesis/gain/1.mean}.\n\\end{document}\n"
    )
    tracer = NumberTracer(run, RunFolder(tmp_path), run="RUN")
    found = tracer.trace_key("hypothesis/gain/1.mean")
    assert found is not None
    [one] = found.candidates
    assert one.what == "effect of a hypothesis, positive, supported" and one.printed == "0.055"
    assert [(place.file, place.line) for place in one.places] == [("paper/paper.tex", 2)]
    effects = [origin for origin in one.origins if origin.condition == "baseline@noise20 - method@noise20"]
    cells = [origin for origin in one.origins if origin not in effects]
    assert len(effects) == 5 and len(cells) == 10
    assert {origin.condition for origin in cells} == {"method@noise20", "baseline@noise20"}
    assert any("digits" in line for line in one.data) and one.reproduce_command.startswith(
        "scientist reproduce RUN --node "
    )
    assert "hypothesis/gain/1" in {each.key for each in tracer.trace_number("0.055").candidates}
