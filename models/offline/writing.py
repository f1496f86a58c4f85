"""Role `write`: the study's outline, flattened into a draft."""

from __future__ import annotations

from importlib import import_module

from models.offline.claims import Outline
from models.offline.length import Measure
from models.offline.study import study_of_idea
from models.roles import WriteInputs
from record.nouns import Draft, Section


def write(inputs: WriteInputs) -> Draft:
    """The paper that the comparisons support, whatever they are, with what fits into the pages by an estimate."""
    paper = fitted(outline(inputs), inputs)
    sections = tuple(Section(title=part.title, body=part.body) for part in paper.parts)
    captions = {figure.name: figure.description for figure in inputs.figures}
    return Draft(title=paper.title, abstract=paper.abstract, sections=sections, captions=captions)


def fitted(paper: Outline, inputs: WriteInputs) -> Outline:
    """The outline without the ranks that would take it over the limit."""
    measure = Measure(inputs)
    for rank in paper.ranks:
        if measure.pages(paper) <= inputs.page_limit:
            break
        paper = paper.without(rank)
    return paper


def outline(inputs: WriteInputs) -> Outline:
    """The study's paper with the rank of each paragraph. Raises `CatalogueError` for an idea that is no study."""
    study = study_of_idea(inputs.idea)
    own = (study.home / "paper.py").is_file()
    return import_module(f"models.offline.{f'studies.{study.home.name}' if own else 'common'}.paper").outline(inputs)
