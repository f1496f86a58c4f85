"""The versions of a paper's text: each assessed as a whole, ranked by what is wrong with it; the best one is
released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from labwright.record.events.papers import Drafted
from labwright.record.nouns.papers import Draft
from labwright.stages.bench import Bench
from labwright.stages.paper.findings import of_abstract, too_thin
from labwright.stages.paper.material import Material, parts_for, write_inputs
from labwright.stages.paper.obligations import left_out
from labwright.stages.paper.typeset import Assessment, assess


def material_of(bench: Bench, k: int | None = None) -> Material:
    """The run's record as a paper is made from it: as it is now, or as decision k saw it, which prompts are
    made from.
    """
    state = bench.state if k is None else bench.state.as_of(k)
    return Material(state, bench.folder, bench.paper, bench.notice, bench.isolation(state))


async def drafted(bench: Bench, draft: Draft, *, number: int) -> Drafted:
    """A version of the text with all that is found in it, built in a folder of its own. It is not recorded yet."""
    material = material_of(bench)
    found = await assess_draft(bench, material, draft, f"round{number}")
    limit, inputs = material.template.page_limit, write_inputs(material)
    return Drafted(
        round=number,
        draft=draft,
        pages=found.pages,
        findings=found.findings,
        over=round(max(0.0, (found.filled or 0.0) - limit), 2),
        left_out=left_out(draft, inputs.statements, material.evidence.tabled),
        violations=tuple(str(violation) for violation in found.violations),
        untied=dict(Counter(violation.where for violation in found.violations)),
        complaints=(
            *(f"section {one.title!r} is empty: write it" for one in draft.sections if not one.body.strip()),
            *too_thin(found.filled, limit),
            *of_abstract(draft.abstract, material.evidence),
        ),
    )


async def assess_draft(
    bench: Bench, material: Material, draft: Draft, folder: str, *, refused: Sequence[str] = (), whole: bool = False
) -> Assessment:
    """A draft checked and built into that folder of the paper's rounds; for the reasons in `refused` it is stamped as a
    DRAFT, `whole` makes the supplement, too."""
    return await assess(
        parts_for(material, draft, refused=refused, whole=whole),
        material.template,
        bench.folder.paper / "rounds" / folder,
        timeout=bench.paper.timeout,
    )


def best_of(drafts: Sequence[Drafted]) -> Drafted:
    """The version to release: least untied or left out, then least to fix; of equals the latest."""
    return min(reversed(counted(drafts)), key=rank)


def counted(drafts: Sequence[Drafted]) -> Sequence[Drafted]:
    """The versions that were assessed against the record as it is: those since it changed last."""
    return drafts[max((at for at, one in enumerate(drafts) if one.anew), default=0) :]


def rank(one: Drafted) -> tuple[float, ...]:
    """What is wrong with a version, what weighs most first: less is better."""
    return (
        len(one.violations) + len(one.left_out),
        sum(finding.blocks for finding in one.findings),
        one.over,
        len(one.findings) + len(one.complaints),
    )


def reasons_against(found: Assessment) -> tuple[str, ...]:
    """Why a paper is not released; empty when it is."""
    untied = tuple(str(violation) for violation in found.violations)
    return untied + tuple(finding.text for finding in found.findings if finding.blocks)
