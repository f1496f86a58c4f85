"""`scientist export`: one file to read, lines of JSON, a zip that opens as a run again."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from labwright.agent.cli import main
from labwright.inspector import html_file
from labwright.inspector.html_file import rewrite_page
from labwright.record.event_log import EventLog, read_events
from labwright.record.events.search_events import NodePlotted
from labwright.record.line_store import write_rows
from labwright.record.run_folder import RunFolder
from labwright.record.schema.paper import Figure, FigureFacts
from labwright.record.zips import open_run_folder
from tests.inspector.sample_run import make_ended
from tests.inspector.test_logs import written
from tests.inspector.web_server import ParsedPage

pytestmark = pytest.mark.slow

EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
KEY = "sk-0123456789abcdef-key"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run with code, a figure, output, data, labels, a cache, links and a key in a file."""
    story = make_ended()
    figure = Figure(name="loss.png", sha256="0", facts=FigureFacts(axes=()))
    story.add(NodePlotted(node="n0003", n=1, figures=(figure,)))
    folder = RunFolder(written(tmp_path / "runs" / "calm", story))
    files = {
        "nodes/n0003/source/experiment.py": f"print({EVIL!r})\n",
        "nodes/n0003/attempt1/stdout.txt": EVIL,
        "data/labels/digits.npz": "labels",
        "data/views/digits.npz": "views",
        "cache/big": "cache",
        "config.yaml": "seed: 1\n",
        "nodes/n0003/.attempt2.part/half": "half",
        ".env": f"A_API_KEY={KEY}",
        "nodes/n0003/attempt1/said.txt": "x" * (1 << 20) + KEY,
        "control/order.json": "{}",
    }
    for name, text in files.items():
        (folder.root / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.root / name).write_text(text)
    place = folder.root / "nodes/n0003/plots1/figures"
    place.mkdir(parents=True)
    Image.new("RGB", (40, 30), "red").save(place / "loss.png")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("SECRET")
    (folder.root / "nodes/n0003/attempt1/link.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (folder.root / "nodes/n0003/attempt1/folder").symlink_to(tmp_path / "outside")
    os.mkfifo(folder.root / "nodes/n0003/attempt1/fifo")
    return folder.root


def test_events_are_lines_of_json_and_the_same_each_time(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = run.parent / "one.jsonl", run.parent / "two.jsonl"
    assert main(["export", str(run), "--events", str(one)]) == main(["export", str(run), "--events", str(two)]) == 0
    assert one.read_bytes() == two.read_bytes()
    lines = [json.loads(line) for line in one.read_text().splitlines()]
    events = read_events(run / "events.jsonl")
    assert [line["seq"] for line in lines] == list(range(1, len(events) + 1))
    assert [(line["type"], line["at"]) for line in lines] == [(event.type, at) for event, at in events]
    capsys.readouterr()
    assert main(["export", str(run), "--events", "-"]) == 0
    assert capsys.readouterr().out == one.read_text()


def test_the_tree_is_that_of_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run), "--tree", "-"]) == main(["tree", str(run), "--json"]) == 0
    half = capsys.readouterr().out
    assert half[: len(half) // 2] == half[len(half) // 2 :]


# --- zip ------------------------------------------------------------------------------------------------------------


def test_a_zip_opens_as_a_run_and_holds_no_data(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert main(["export", str(run), "--zip", str(tmp_path / "a.zip")]) == 0
    said = capsys.readouterr().err
    assert all(word in said for word in ("link.txt", "folder (a link)", "fifo", "said.txt (contains an API key)"))
    with zipfile.ZipFile(tmp_path / "a.zip") as packed:
        names = packed.namelist()
        packed.extractall(tmp_path / "unpacked")
        everything = b"".join(packed.read(name) for name in names)
    assert "calm/nodes/n0003/attempt1/stdout.txt" in names and "calm/events.jsonl" in names
    assert not [name for name in names if re.search(r"labels|views|cache|control|\.part|\.env|link|lock|said", name)]
    assert b"SECRET" not in everything and KEY.encode() not in everything
    assert read_events(tmp_path / "unpacked/calm/events.jsonl") == read_events(run / "events.jsonl")
    assert main(["status", str(tmp_path / "unpacked" / "calm")]) == 0


def test_answers_of_language_models_are_in_a_zip_as_they_were_committed(run: Path, tmp_path: Path) -> None:
    write_rows(run / "exchanges.jsonl", "exchanges", [(1.0, '{"answered":[]}')])
    assert main(["export", str(run), "--zip", str(tmp_path / "a.zip")]) == 0
    packed = open_run_folder(tmp_path / "a.zip") / "exchanges.jsonl"
    assert packed.read_bytes() == (run / "exchanges.jsonl").read_bytes()


def test_zips_of_the_same_run_are_the_same(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), "--zip", str(tmp_path / "a.zip")]) == 0
    os.utime(run / "config.yaml", (1, 1))
    assert main(["export", str(run), "--zip", str(tmp_path / "b.zip"), "--with-data"]) == 0
    assert main(["export", str(run), "--zip", str(tmp_path / "c.zip")]) == 0
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "c.zip").read_bytes()
    with_data = set(zipfile.ZipFile(tmp_path / "b.zip").namelist())
    assert with_data - set(zipfile.ZipFile(tmp_path / "a.zip").namelist()) == {
        "calm/data/views/digits.npz",
        "calm/data/labels/digits.npz",
    }


# --- html -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_file_that_opens_without_a_server(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "calm.html"
    assert main(["export", str(run), "--html", str(file)]) == 0
    text = file.read_text()
    seen = ParsedPage(text)
    assert not {"script", "form", "iframe", "link", "button", "input", "base"} & set(seen.tags)
    assert "default-src 'none'" in text and "data:image/png;base64," in text
    ids = seen.all("id")
    assert len(ids) == len(set(ids)), "no id stands twice"
    assert {f"page-nodes-n000{k}" for k in range(1, 7)} <= set(ids)
    for link in seen.all("href"):
        assert link.startswith(("#", "data:application/pdf")), link
        assert not link.startswith("#") or link[1:] in ids, link
    assert all(source.startswith("data:image/png;base64,") for source in seen.all("src"))
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name == "style"]
    assert "&lt;script&gt;alert(2)" in text and "<script" not in text and "\x1b" not in text


def test_rewriting_drops_what_acts_and_leads_out() -> None:
    page = (
        '<p>out</p><main id="main"><a href="https://evil.example/">x</a><a class="c" href="#in">y</a>'
        '<b id="in">z</b>'
        '<form><p>gone</p></form><button>gone</button><input name="n"><img src="/a.png" alt="&#34;A&#34;">'
        '<img loading="lazy" src="/b.png"><svg viewBox="0 0 1 1"><path d="M0 0"/></svg>&lt;b&gt; href=&#34;/'
        "</main>out"
    )

    def inside(link: str) -> str:
        return f' href="#n1-{link[1:]}"' if link.startswith("#") else ""

    found = rewrite_page(page, "n1-", link=inside, picture={"/b.png": "data:b"}.get)
    assert found == (
        '<a>x</a><a class="c" href="#n1-in">y</a><b id="n1-in">z</b>'
        '<span class="dim">[image left out: &#34;A&#34;]</span><img loading="lazy" src="data:b">'
        '<svg viewBox="0 0 1 1"><path d="M0 0"/></svg>&lt;b&gt; href=&#34;/'
    )


def test_what_does_not_fit_is_left_out_and_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_file, "MAX_BYTES", 20_000)
    found = html_file.export_page(run, as_of="today", version=1)
    assert any(re.fullmatch(r"nodes \(\d+\)", one) for one in found.left_out)
    assert "Left out because of size" in found.html


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to export"),
        (["--zip", "-"], "works only with --events, --tree and --exchange"),
        (["--events", "."], "is a folder"),
        (["--events", "there"], "already exists"),
        (["--with-data", "--tree", "-"], "requires --zip"),
        (["--events", "no/folder/file"], "cannot be written"),
        (["--zip", "long" * 80], "the name is too long"),
        (["--events", "a", "--tree", "a"], "two exports have the same FILE"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    run: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    Path("there").write_text("mine")
    before = sorted(path.name for path in run.parent.iterdir())
    assert main(["export", str(run), *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert sorted(path.name for path in run.parent.iterdir()) == before and Path("there").read_text() == "mine"


def test_what_was_made_before_something_failed_stays_and_is_printed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", '<meta name="viewport"')  # stands on the page alone
    arguments = ["--events", str(tmp_path / "made"), "--html", str(tmp_path / "page.html")]
    assert main(["export", str(run), *arguments]) == 2
    out, err = capsys.readouterr()
    assert "no page was written" in err and err.count("\n") == 1 and out.startswith(f"{tmp_path / 'made'}: ")
    assert (tmp_path / "made").read_text().startswith('{"seq":1')


def test_force_puts_a_new_file_in_its_place(run: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    assert main(["export", str(run), "--events", str(tmp_path / "there"), "--force"]) == 0
    assert (tmp_path / "there").read_text().startswith('{"seq":1')


def test_a_log_that_holds_a_key_is_not_exported(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "Calm Calm Calm Calm")
    log = EventLog(run / "events.jsonl")
    log.append(NodePlotted(node="n0003", n=2, seconds=1.0))
    log.close()
    assert main(["export", str(run), "--events", "-"]) == 0
    monkeypatch.setenv("OPENAI_API_KEY", '"type":"plotted"')
    assert main(["export", str(run), "--events", "-"]) == 2
    assert "contains the value of an API key" in capsys.readouterr().err
