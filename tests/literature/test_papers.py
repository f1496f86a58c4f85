"""A folder of PDFs as references, and the command that verifies a library."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.literature import LibraryError
from labwright.literature.bibtex import build_entry, format_bibtex, parse_bibtex
from labwright.literature.catalogue_client import CATALOGUE_NAMES, CatalogueCredentials
from labwright.literature.lookup import open_literature, read_papers, read_verification
from labwright.literature.works import PublishedWork
from tests.literature.catalogues import Catalogues, stay_silent
from tests.literature.reference_sets import FALSE_ENTRIES, TRUE_ENTRIES, WORLD

pytestmark = pytest.mark.slow


@pytest.fixture
def catalogues() -> Generator[Catalogues]:
    with Catalogues(WORLD) as found:
        yield found


def pdf(path: Path, *lines: str) -> None:
    """Build a one-page PDF with these lines."""
    shown = " ".join(f"({line}) Tj 0 -16 Td" for line in lines)
    stream = f"BT /F1 12 Tf 60 720 Td {shown} ET".encode("latin-1")
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >> stream\n" % len(stream) + stream + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    data, places = b"%PDF-1.4\n", list[int]()
    for number, part in enumerate(parts, 1):
        places.append(len(data))
        data += b"%d 0 obj\n" % number + part + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % one for one in places)
    path.write_bytes(
        data
        + b"xref\n0 6\n0000000000 65535 f \n"
        + table
        + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(data)
    )


async def test_papers_are_found_by_identifier_or_title_and_others_are_said(
    tmp_path: Path, catalogues: Catalogues
) -> None:
    pdf(
        tmp_path / "a.pdf",
        "arXiv:1706.04599v2 [cs.LG] 3 Aug 2017",
        "On Calibration of Modern Neural Networks",
        "Chuan Guo  Geoff Pleiss  Yu Sun  Kilian Q. Weinberger",
        "Abstract",
    )
    pdf(
        tmp_path / "b.pdf",
        "Decoupling Representation and Classifier for",
        "Long-Tailed Recognition",
        "Bingyi Kang, Saining Xie",
    )
    pdf(tmp_path / "c.pdf", "Sampling Without Regret", "Somebody Else, University of Nowhere")
    pdf(tmp_path / "d.pdf")
    (tmp_path / "e.pdf").write_bytes(b"no PDF at all")
    pdf(
        tmp_path / "f.pdf",
        "Unrelated words at the top",
        "doi:10.5555/retracted.1",
        "Miracle Cure of Overfitting by Sleep",
        "Bad Actor, Good Witness",
    )
    (tmp_path / "notes.txt").write_text("not a paper")
    async with open_literature(catalogues.settings(), CatalogueCredentials()) as literature:
        with pytest.raises(LibraryError, match="does not exist"):
            await read_papers(tmp_path / "none", literature)
        found = await read_papers(tmp_path, literature, taken_keys=["guo2017calibration"])
        library = await literature.check(found.entries)
    assert [one.key for one in found.entries] == ["guo2017calibration-2", "kang2020decoupling", "actor2018miracle"]
    assert [one.split(",")[0] for one in found.notes] == ["c.pdf", "d.pdf", "e.pdf"]
    assert [one.key for one in library.usable_entries] == ["guo2017calibration-2", "kang2020decoupling"]


async def test_catalogues_that_never_answer_do_not_hold_a_folder_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labwright.literature.lookup.LIBRARY_TIMEOUT_SECONDS", 0.5)
    for name in "ab":
        pdf(tmp_path / f"{name}.pdf", "Some Title of a Paper", "Some Body")
    with Catalogues(WORLD, dict.fromkeys(CATALOGUE_NAMES, stay_silent)) as catalogues:
        async with open_literature(catalogues.settings(), CatalogueCredentials()) as literature:
            found = await read_papers(tmp_path, literature)
    assert found.entries == () and "a.pdf and 1 others: not looked up within 0.5 s" in found.notes[0]


def test_a_strangers_words_stay_inside_of_their_field() -> None:
    work = PublishedWork(
        source="openalex",
        id="W1",
        title="50% of {it} & BatchNorm more_\\input{/etc/passwd}",
        authors=("A. B}, x = {y",),
        years=(2020,),
        abstract="# $1 ~ \\emph{x}",
        dois=("10.5555/x",),
    )
    made = build_entry(work)
    [again] = parse_bibtex(format_bibtex([made]))
    assert again.fields == made.fields and made.key == "b2020batchnorm"
    assert "\\input" not in made.fields["title"] and "{BatchNorm}" in made.fields["title"]
    assert made.read_plain("title") == "50% of it & BatchNorm more_input/etc/passwd"


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["bib", "check", *arguments])
    return code, capsys.readouterr().out


def settings_of(catalogues: Catalogues, folder: Path) -> str:
    path = folder / "config.yaml"
    wanted = catalogues.settings().model_dump(mode="json")
    path.write_text(json.dumps({"literature": wanted}))
    return str(path)


def test_the_command_verifies_a_library_and_writes_its_records(
    tmp_path: Path, catalogues: Catalogues, capsys: pytest.CaptureFixture[str]
) -> None:
    library, out = tmp_path / "my.bib", tmp_path / "checked.bib"
    library.write_text(format_bibtex((*TRUE_ENTRIES[:2], *FALSE_ENTRIES[4:6])))
    config = settings_of(catalogues, tmp_path)
    code, said = run(str(library), "--config", config, "--out", str(out), capsys=capsys)
    assert code == 5 and "2 of 4 entries may be cited" in said and "refused" in said and "author 1 is" in said
    assert [bool(read_verification(one)) for one in parse_bibtex(out.read_text())] == [True, True, False, False]
    asked = len(catalogues.world.asked)
    out.write_text(format_bibtex(parse_bibtex(out.read_text())[:2]))
    code, said = run(str(out), "--config", config, "--json", capsys=capsys)
    assert code == 0 and len(catalogues.world.asked) == asked
    assert [one["outcome"] for one in json.loads(said)["entries"]] == ["verified"] * 2
    code, said = run(str(library), "--set", "literature.sources=[]", capsys=capsys)
    assert code == 5 and "no catalogue is configured" in " ".join(said.split())


@pytest.mark.parametrize(("text", "sign"), [(None, "cannot read"), ("@misc{a, title={", "line 1")])
def test_the_command_refuses_what_is_no_library(
    tmp_path: Path, text: str | None, sign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "a.bib").write_text(text)
    assert main(["bib", "check", str(tmp_path / "a.bib")]) == 2
    assert sign in capsys.readouterr().err
