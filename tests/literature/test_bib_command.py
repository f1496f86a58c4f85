"""Works as entries, and the small command that verifies a library."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from agent.cli import main
from literature.library import as_bibtex, entry_of, parse
from literature.verification import verification_of
from literature.works import Work
from tests.literature.catalogues import Catalogues
from tests.literature.worlds import FALSE_ENTRIES, TRUE_ENTRIES, WORLD

pytestmark = pytest.mark.slow


@pytest.fixture
def catalogues() -> Generator[Catalogues]:
    with Catalogues(WORLD) as found:
        yield found


def test_a_strangers_words_stay_inside_of_their_field() -> None:
    work = Work(source="openalex", id="W1", title="50% of {it} & BatchNorm more_\\input{/etc/passwd}",
                authors=("A. B}, x = {y",), years=(2020,), abstract="# $1 ~ \\emph{x}", dois=("10.5555/x",))
    made = entry_of(work)
    [again] = parse(as_bibtex([made]))
    assert again.fields == made.fields and made.key == "b2020batchnorm"
    assert "\\input" not in made.fields["title"] and "{BatchNorm}" in made.fields["title"]
    assert made.plain("title") == "50% of it & BatchNorm more_input/etc/passwd"


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["bib", "check", *arguments])
    return code, capsys.readouterr().out


def settings_of(catalogues: Catalogues, folder: Path) -> str:
    path = folder / "config.yaml"
    wanted = catalogues.settings(cache=folder / "kept").model_dump(mode="json")
    path.write_text(json.dumps({"literature": wanted}))
    return str(path)


def test_the_command_verifies_a_library_and_writes_its_records(
    tmp_path: Path, catalogues: Catalogues, capsys: pytest.CaptureFixture[str],
) -> None:
    library, out = tmp_path / "my.bib", tmp_path / "checked.bib"
    library.write_text(as_bibtex((*TRUE_ENTRIES[:2], *FALSE_ENTRIES[4:6])))
    config = settings_of(catalogues, tmp_path)
    code, said = run(str(library), "--config", config, "--out", str(out), capsys=capsys)
    assert code == 5 and "2 of 4 entries may be cited" in said and "refused" in said and "author 1 is" in said
    assert [bool(verification_of(one)) for one in parse(out.read_text())] == [True, True, False, False]
    asked = len(catalogues.world.asked)
    out.write_text(as_bibtex(parse(out.read_text())[:2]))
    code, said = run(str(out), "--config", config, "--json", capsys=capsys)
    assert code == 0 and len(catalogues.world.asked) == asked
    assert [one["outcome"] for one in json.loads(said)["entries"]] == ["verified"] * 2
    code, said = run(str(library), "--set", "literature.sources=[]", capsys=capsys)
    assert code == 5 and "no catalogue is asked" in " ".join(said.split())


@pytest.mark.parametrize(("text", "sign"), [(None, "cannot read"), ("@misc{a, title={", "line 1")])
def test_the_command_refuses_what_is_no_library(
    tmp_path: Path, text: str | None, sign: str, capsys: pytest.CaptureFixture[str],
) -> None:
    if text is not None:
        (tmp_path / "a.bib").write_text(text)
    assert main(["bib", "check", str(tmp_path / "a.bib")]) == 2
    assert sign in capsys.readouterr().err
