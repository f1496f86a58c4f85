"""What a paper is made from: the record as the writer sees it, and as the builder sets it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from models.roles import ClaimLine, Comparison, FinalFigure, WriteInputs
from record.claims import (
    Claim,
    Difference,
    ablation_conditions,
    differences,
    ignores_seed,
    paper_claims,
    printed,
    replicates_of,
    setups,
    winner,
)
from record.fold import RunState
from record.folder import RunFolder, read_source
from record.nouns import DataPlan, Draft, arm_of, level_of
from review.evidence.violations import LITERALS, Evidence
from stages.paper import references
from stages.paper.appendix import appendix
from stages.paper.parts import FigureFile, PaperParts, Table
from stages.paper.references import Entry
from stages.paper.tables import tables
from stages.paper.template import Template, load
from stages.settings import PaperSettings

SHOWN = {"mean": "mean", "pm": "mean and standard deviation", "ci": "95 % interval of the mean", "n": "replicates"}
"""The forms of a claim that a writer is offered, and what they print."""


@dataclass(frozen=True)
class Material:
    """A record, and what is beside it that a paper needs."""

    state: RunState
    folder: RunFolder
    settings: PaperSettings
    notice: str = ""
    isolation: str = ""

    @property
    def template(self) -> Template:
        """Raises `stages.paper.template.TemplateError`."""
        return load(self.settings.template)

    @property
    def library(self) -> tuple[Entry, ...]:
        """The verified entries that may be cited. Raises `stages.paper.references.LibraryError`."""
        return _library(self.folder.library)

    @property
    def evidence(self) -> Evidence:
        """All that a draft may lean on."""
        claims, found = claims_of(self.state)
        return Evidence(
            results=printed([*claims, *found]), setups=setups(self.state),
            cites=frozenset(entry.key for entry in self.library),
            figures=frozenset(one.name for one in _figures(self.state)),
            tables=frozenset(table.name for table in _tables(self.state)), names=_names(self.state),
            comparisons=tuple(_comparison(one) for one in found))


@cache
def _library(bib: Path) -> tuple[Entry, ...]:
    return references.read(bib) if bib.is_file() else ()


def claims_of(state: RunState) -> tuple[list[Claim], list[Difference]]:
    """The claims that the paper may print, and their paired differences."""
    claims = paper_claims(state)
    return claims, differences(state, claims)


def write_inputs(material: Material) -> WriteInputs:
    """What the writer gets: the whole record in bounded form, ablations and replicate statistics included."""
    state = material.state
    assert state.started is not None and state.data_plan is not None
    claims, found = claims_of(state)
    best = state.nodes[winner(state) or ""]
    return WriteInputs(
        idea=state.started.idea, data_plan=state.data_plan, facts=state.datasets,
        results=_lines(state.data_plan, [*claims, *found]),
        summaries=tuple(stage.summary for stage in state.stages.values() if stage.summary is not None),
        setups=tuple(ClaimLine(key=key, printed=text, meaning=key.replace(".", " "))
                     for key, text in setups(state).items()),
        comparisons=tuple(_comparison(one) for one in found), figures=_figures(state),
        tables=tuple(table.name for table in _tables(state)),
        references=tuple(entry.reference for entry in material.library), literals=LITERALS,
        page_limit=material.template.page_limit, winner_plan=best.plan,
        winner_source=read_source(material.folder.source(best.id))["experiment.py"],
        disclosures=(material.isolation, *_disclosures(state)))


def parts_for(material: Material, draft: Draft, *, refused: bool = False) -> PaperParts:
    """A draft with all that it may lean on, ready to be checked and built."""
    state = material.state
    figures = material.folder.drawn
    return PaperParts(
        draft=draft, refused=refused, tables=_tables(state), library=material.library, notice=material.notice,
        figures=tuple(FigureFile(name=one.name, path=figures / f"{one.name}.pdf") for one in _figures(state)),
        appendix=appendix(state, paper_claims(state), isolation=material.isolation), evidence=material.evidence)


def _tables(state: RunState) -> tuple[Table, ...]:
    assert state.data_plan is not None
    return tables(paper_claims(state), state.data_plan, state.datasets, ablation_conditions(state))


def _figures(state: RunState) -> tuple[FinalFigure, ...]:
    described = state.figures.descriptions if state.figures else {}
    return tuple(FinalFigure(name=name, description=text) for name, text in described.items())


def _lines(plan: DataPlan, claims: list[Claim]) -> tuple[ClaimLine, ...]:
    texts = printed(claims)
    return tuple(ClaimLine(key=f"{claim.key}.{suffix}", printed=texts[f"{claim.key}.{suffix}"],
                           meaning=f"{meaning}: {_meaning(plan, claim)}")
                 for claim in claims for suffix, meaning in SHOWN.items())


def _meaning(plan: DataPlan, claim: Claim) -> str:
    metric = next((one.title or one.name for one in plan.metrics if one.name == claim.name), claim.name)
    what = _condition(plan, claim.condition)
    if isinstance(claim, Difference):
        what = f"paired difference, {what} minus {_condition(plan, claim.other)}"
    return f"{metric} on {claim.dataset} ({claim.split}), {what}"


def _condition(plan: DataPlan, condition: str) -> str:
    arm = next((one.title or one.name for one in plan.arms if one.name == arm_of(condition)), arm_of(condition))
    level = next((one.title or one.name for one in plan.levels if one.name == level_of(condition)), "")
    return f"{arm} at {level}" if level else arm


def _comparison(one: Difference) -> Comparison:
    worse = one.other if one.better == one.condition else one.condition
    return Comparison(key=one.key, dataset=one.dataset, metric=one.name, better=one.better, worse=worse,
                      verdict=one.called, n=one.n)


def _names(state: RunState) -> tuple[str, ...]:
    plan = state.data_plan
    assert plan is not None
    named = [text for one in (*plan.arms, *plan.levels, *plan.metrics) for text in (one.name, one.title)]
    named += [text for facts in state.datasets for text in (facts.name, facts.name.replace("_", " "), facts.title)]
    return tuple(dict.fromkeys(text for text in (*named, *plan.conditions) if text))


def _disclosures(state: RunState) -> tuple[str, ...]:
    """What a reader must be told of this run, in words without numbers (the appendix has those)."""
    untested = state.data_plan.untested if state.data_plan else ()
    told = [f"Not tested, though the idea asks for it: {text}" for text in untested]
    best = winner(state)
    if best and any(one.status != "good" for one in replicates_of(state, best)):
        told.append("Some replicates of the reported configuration failed; the appendix lists them.")
    if best and ignores_seed(state, best):
        told.append("The code of the reported configuration gave the same values for every seed, as that of a "
                    "deterministic method does: its replicates say nothing of the spread, which is unknown.")
    if any(node.status == "pruned" for node in state.nodes.values()):
        told.append("Some experiments were ended by the program before they were done, since they could not come to "
                    "anything; the appendix lists them with the reasons.")
    if any(stage.limited for stage in state.stages.values()):
        told.append("The search of some stages was ended by a ceiling on time or model calls; the appendix names them.")
    if {claim.split for claim in paper_claims(state)} == {"validation"}:
        told.append("The code handed in no test predictions: all results are on validation data that selection saw.")
    if any(claim.grade == "logged" for claim in paper_claims(state)):
        told.append("Some values were said by the code itself and could not be computed by the harness.")
    if state.figures is not None and not state.figures.looked:
        told.append("No model looked at the figures, since the one that was used takes no pictures; a program checked "
                    "their labels, legends and axes.")
    if state.limited:
        told.append(f"The run was ended early: {state.limited.split(' of ')[0]}.")
    return tuple(told)
