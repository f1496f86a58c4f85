"""Commands a new user types: those of README and the first docs pages are accepted, and the examples run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.record.event_log import is_run
from labwright.record.zips import open_run_folder
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/getting-started.md", "docs/statistics.md")
REFUSED = re.compile(r"ANTHROPIC_API_KEY|cannot read the idea file my_idea\.json|read --task my_question\.md")
"""What an example lacks here: a key, or a file that the reader must write."""


def _lines(page: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def read_example(command: str) -> list[str]:
    """Return the arguments of README's example of a command."""
    [line] = [line for line in _lines("README.md") if line.startswith(f"scientist {command} ")]
    return shlex.split(line)[1:]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.slow
def test_commands_in_the_pages_can_be_typed(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    lines = _lines(page)
    assert lines
    for line in lines:
        words = shlex.split(line)
        if words[0] == "make":
            assert set(words[1:]) <= targets, line
        elif words[0] in (".venv/bin/scientist", "scientist"):
            _check_invocation(words[1:], capsys)
        else:
            assert words[0] in ("export", "uv"), f"{line!r}: neither make, scientist, uv nor export"


def _check_invocation(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The run fails only for lack of a key or file; commands that need neither are run elsewhere."""
    if words[0] == "run":
        assert main(words) == 2
        said = capsys.readouterr().err
        assert REFUSED.search(said), said
        return
    known = ("demo", "doctor", "exec", "ablate", "view", "trace", "status", "reproduce")  # run here or in tests/agent
    assert words[0] in known, words
    assert main([*words, "--help"]) == 0
    assert words[0] != "view" or is_run(open_run_folder(ROOT / words[1]))


def test_commands_in_the_readme_are_all_commands_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    table = (ROOT / "README.md").read_text().partition("## Commands")[2]
    rows = re.findall(r"^\| [a-z][^|]* \| (`.*`) \|$", table, flags=re.MULTILINE)
    named = {words.split()[0] for row in rows for words in re.findall(r"`([^`]+)`", row)}
    main(["--help"])
    assert named == set(re.findall(r"^  ([\w-]+)  ", capsys.readouterr().out.split("Commands:")[1], flags=re.MULTILINE))


def test_what_the_page_of_troubles_quotes_is_really_said() -> None:
    sources = "\n".join(
        path.read_text()
        for room in ("agent", "stages", "models", "sandbox", "record")
        for path in (ROOT / room).rglob("*.py")
    )
    said = re.sub(r'"\s*\n\s*f?"', "", sources)  # joins implicitly concatenated strings
    table = (ROOT / "docs" / "troubleshooting.md").read_text().partition("## How a run ended")[0]
    quoted = re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE)
    assert len(quoted) > 10
    assert not [text for text in quoted if text not in said]


@pytest.mark.slow
def test_what_the_page_of_evidence_quotes_is_really_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "evidence.md").read_text()
    command, quoted = re.findall(r"```(?:sh)?\n(.*?)```", text, flags=re.DOTALL)[:2]
    assert main(shlex.split(command)[1:]) == 0
    printed = capsys.readouterr().out
    lines = quoted.splitlines()
    assert len(lines) > 5
    assert not [line for line in lines if not re.search(re.escape(line).replace(r"\.\.\.", ".*"), printed)]


# --- the examples, run ----------------------------------------------------------------------------------------------


Scientist = Callable[[list[str], Path], str]


@pytest.fixture
def scientist(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Scientist:
    """Run a command in a folder, in this process, and return what it prints."""

    def run(words: list[str], place: Path) -> str:
        monkeypatch.chdir(place)
        code = main(words)
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    return run


isolated = pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here")


@pytest.mark.slow
@isolated
def test_the_example_with_data_of_ones_own_is_scored(scientist: Scientist) -> None:
    said = scientist(read_example("exec"), ROOT)
    assert re.search(r"log_loss +crops +validation +baseline +0 +scored +0\.\d+", said)
    assert "2 sealed predictions" in said and " test " not in said


@pytest.mark.slow
@isolated
def test_the_scorer_of_the_page_scores(scientist: Scientist) -> None:
    page = (ROOT / "docs" / "statistics.md").read_text()
    assert (ROOT / "examples" / "own_data" / "cost.py").read_text() in page
    [line] = [line for line in _lines("docs/statistics.md") if "sandbox.scorers" in line]
    assert re.search(r"cost +crops +validation +baseline +0 +scored +0\.\d+", scientist(shlex.split(line)[1:], ROOT))
