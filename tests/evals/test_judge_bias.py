"""The bias harness finds the leaning that a scripted judge has, and none where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.evals.judge_bias import make_scripted_judges, measure_biases
from labwright.models.backend import Backend
from labwright.models.errors import ModelUnavailable
from labwright.models.replay import ScriptedModel
from labwright.models.settings import ModelSettings
from tests.review.test_judge import BODY


@pytest.fixture
def papers(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.md" for name in "ab"]
    for size, path in enumerate(paths, 1):
        path.write_text("".join(f"## Part {n}\n\n{BODY * size}\n\n" for n in range(4)))
    return paths


@pytest.mark.slow
async def test_each_leaning_is_found_and_no_other(papers: list[Path]) -> None:
    calm, length, boasts, first = await measure_biases(papers, make_scripted_judges(), ModelSettings(), 1)
    assert (calm.padded, calm.inflated, calm.flips) == (0.0, 0.0, 0)
    assert length.padded is not None and length.padded > 0 and length.flips == 0
    assert boasts.padded == 0.0 and boasts.inflated is not None and boasts.inflated > 1
    assert (first.flips, first.pairs, first.padded) == (1, 1, 0.0)


async def test_a_judge_that_gives_nothing_shows_no_bias_and_no_score(papers: list[Path]) -> None:
    def script(_: object) -> None:
        raise ModelUnavailable("no answer within 1 s")

    backends: dict[str, Backend] = {"silent": ScriptedModel(script)}  # pyright: ignore[reportArgumentType]
    [found] = await measure_biases(papers, backends, ModelSettings(), 1)
    assert (found.padded, found.inflated, found.pairs, found.missing) == (None, None, 0, 3)
