"""Roles `cite_ask` and `cite_select`: the study's papers cite only their own library, and search for nothing.

So a run with the offline model needs no network, and is the same with and without one. Of the works shown, it
selects the first of each search whose title shares two words with the sentence.
"""

from __future__ import annotations

import re

from labwright.models.roles.paper_revision import (
    ChosenWork,
    CiteAskInputs,
    CiteQueries,
    CiteSelectInputs,
    CiteSelection,
)


def answer_cite_ask(inputs: CiteAskInputs) -> CiteQueries:
    """Ask for nothing."""
    return CiteQueries()


def answer_cite_select(inputs: CiteSelectInputs) -> CiteSelection:
    """Choose the first work of each search with words of its sentence in the title."""
    titles = {one.number: _extract_words(one.title) for one in inputs.works}
    chosen: list[ChosenWork] = []
    for place, search in enumerate(inputs.searches, 1):
        shared = (
            (number, sorted(_extract_words(search.sentence) & titles.get(number, set()))) for number in search.found
        )
        number, words = next((one for one in shared if len(one[1]) > 1), (0, list[str]()))
        if number and number not in [one.number for one in chosen]:
            chosen.append(
                ChosenWork(number=number, search=place, reason=f"its title is about {' and '.join(words[:3])}")
            )
    return CiteSelection(chosen=tuple(chosen))


def _extract_words(text: str) -> set[str]:
    return {one for one in re.findall(r"[a-z]+", text.lower()) if len(one) > 4}
