"""A paper without TeX."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.review.evidence import Violation
from labwright.stages.paper import typesetting
from labwright.stages.paper.typesetting import PaperAssessment


@pytest.fixture
def placeholder_pdf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write and check the LaTeX sources, but put a placeholder in the place of the PDF, for tests that do not look at
    it. Without any PDF, no paper could be released, whatever it says."""

    async def compile_nothing(work: Path, *_: object) -> PaperAssessment:
        for name in ("paper.pdf", "paper.log"):
            (work / name).write_bytes(b"")
        return PaperAssessment(work / "paper.pdf", 4, (), 4.0)

    async def find_nothing(*_: object, **__: object) -> tuple[Violation, ...]:
        return ()

    monkeypatch.setattr(typesetting, "_compile", compile_nothing)
    monkeypatch.setattr(typesetting, "_compile_supplement", find_nothing)
    monkeypatch.setattr(typesetting, "check_pdf", find_nothing)
