"""Planted false references: none of twenty is accepted, and none of twenty true ones is lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from labwright.literature.bibtex import BibEntry, format_bibtex, parse_bibtex
from labwright.literature.catalogue_client import (
    CATALOGUE_NAMES,
    CatalogueCredentials,
    CatalogueName,
    LiteratureSettings,
)
from labwright.literature.lookup import CheckedLibrary, Verification, hash_compared, open_literature
from tests.literature.catalogues import (
    Catalogues,
    Fault,
    answer_malformed,
    answer_other_form,
    break_connection,
    fail_busy,
    fail_unavailable,
)
from tests.literature.reference_sets import FALSE_ENTRIES, RETRACTED_ENTRIES, TRUE, TRUE_ENTRIES, WORLD

pytestmark = pytest.mark.slow

FAULTS: tuple[Fault, ...] = (fail_unavailable, fail_busy, answer_malformed, answer_other_form, break_connection)


async def checked(entries: tuple[BibEntry, ...], faults: dict[CatalogueName, Fault] | None = None) -> CheckedLibrary:
    with Catalogues(WORLD, faults) as catalogues:
        async with open_literature(catalogues.settings(), CatalogueCredentials()) as literature:
            return await literature.check(entries)


def shipped(library: CheckedLibrary) -> set[str]:
    return {one.key for one in library.usable_entries}


async def test_no_false_reference_ships_and_no_true_one_is_lost():
    library = await checked((*TRUE_ENTRIES, *FALSE_ENTRIES))
    assert len(TRUE) == len(TRUE_ENTRIES) == len(FALSE_ENTRIES) == 20
    assert shipped(library) == {one.key for one in TRUE_ENTRIES}
    abstracts = {one.entry.key: one.entry.fields.get("abstract", "") for one in library.checked}
    assert abstracts["guo"] == "We study something, and find that it holds." and abstracts["vaswani"] == ""
    assert all(one.outcome.outcome == "refused" for one in library.checked if one.entry in FALSE_ENTRIES)
    reasons = {one.entry.key: one.reason for one in library.checked}
    assert "no catalogue that answered has" in reasons["i1"] and "10.1162/neco" in reasons["i4"]
    assert "author 1 is" in reasons["a1"] and "order differs" in reasons["a1"]
    assert "it has 2 authors, the source 3" in reasons["a3"]
    assert "the year is '2018'" in reasons["y1"] and "1997" in reasons["y2"]
    assert all(reasons[one.key] == "it is retracted" for one in RETRACTED_ENTRIES)
    assert "is another work, 'Deep Ensembles of Trees'" in reasons["d1"] and "lists its doi" in reasons["d2"]


@pytest.mark.parametrize(
    "source",
    ["openalex", *(pytest.param(one, marks=pytest.mark.bench) for one in CATALOGUE_NAMES if one != "openalex")],
)
async def test_with_one_catalogue_down(source: CatalogueName):
    for fault in (fail_unavailable, answer_malformed):
        library = await checked((*TRUE_ENTRIES, *FALSE_ENTRIES), {source: fault})
        assert shipped(library) == {one.key for one in TRUE_ENTRIES}, fault.__name__


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.__name__)
async def test_with_all_of_them_failing_nothing_ships_and_nothing_is_called_false(fault: Fault):
    library = await checked((*TRUE_ENTRIES[:4], *FALSE_ENTRIES[:4]), dict.fromkeys(CATALOGUE_NAMES, fault))
    assert not library.usable_entries
    assert all(one.outcome.outcome == "unverified" for one in library.checked)


async def test_the_year_of_a_version_counts_where_a_catalogue_lists_that_version():
    online = next(one for one in TRUE_ENTRIES if one.key == "online").with_fields(year="2019")
    preprint = next(one for one in TRUE_ENTRIES if one.key == "kang").with_fields(year="2020", eprint="", note="")
    library = await checked((online, preprint))
    assert len(library.usable_entries) == 2
    library = await checked((online,), {"crossref": fail_unavailable})
    assert "lists 2020" in library.checked[0].reason and library.checked[0].outcome.outcome == "unverified"


async def test_without_those_that_list_retractions_nothing_ships():
    library = await checked(
        (*TRUE_ENTRIES, *RETRACTED_ENTRIES), {"openalex": fail_unavailable, "crossref": fail_unavailable}
    )
    assert not library.usable_entries
    assert "lists retractions answered" in library.checked[0].reason


async def test_a_retraction_that_one_catalogue_alone_knows_is_enough():
    known = [one for one in WORLD if not one.retracted]
    bad = [one for one in WORLD if one.retracted]
    works = [
        *known,
        *(replace(one, within=("crossref",)) for one in bad),
        *(replace(one, retracted=False, within=("openalex", "semantic_scholar")) for one in bad),
    ]
    with Catalogues(works) as catalogues:
        async with open_literature(catalogues.settings(), CatalogueCredentials()) as literature:
            assert not (await literature.check(RETRACTED_ENTRIES)).usable_entries


async def test_a_record_makes_a_library_work_offline_until_it_is_edited():
    written = format_bibtex(one.entry for one in (await checked(TRUE_ENTRIES)).checked)
    again = parse_bibtex(written)
    async with open_literature(LiteratureSettings(sources=()), CatalogueCredentials()) as nobody:
        assert len((await nobody.check(again)).usable_entries) == 20
        braced = tuple(one.with_fields(title="{" + one.fields["title"] + "}", pages="1--2") for one in again)
        assert len((await nobody.check(braced)).usable_entries) == 20
        for field, value in (
            ("title", "Another Title"),
            ("author", "Nobody, Else"),
            ("year", "1901"),
            ("doi", "10.5555/other"),
            ("note", "arXiv:9901.00001"),
        ):
            edited = await nobody.check(tuple(one.with_fields(**{field: value}) for one in again[3:4]))
            assert not edited.usable_entries, field
            reason = edited.checked[0].reason
            assert "edited after its verification, and no catalogue is configured" in reason
    record = Verification(
        source="by hand, example.org",
        id="doi:10.1/x",
        date=date(2026, 1, 2),
        agreed=("title", "authors", "year"),
        sha256=hash_compared(again[0]),
    )
    assert str(record).startswith("source: by hand, example.org; id: doi:10.1/x; date: 2026-01-02; agreed: title, ")


async def test_one_work_under_two_keys_is_merged_with_a_note():
    twice = TRUE_ENTRIES[3].model_copy(update={"key": "hochreiter"}).with_fields(doi="")
    library = await checked((TRUE_ENTRIES[3], TRUE_ENTRIES[4], twice))
    assert shipped(library) == {"lstm", "namesake"}
    assert library.checked[2].reason == "the same work as 'lstm': cite that one"
    assert library.checked[2].outcome.outcome == "verified"
