"""Attacks on the sandbox, each a file run by `scientist exec` (explained in docs/sandbox.md). Every bomb is bounded, so
it is harmless even if it works. Requires bubblewrap and user namespaces or root."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import venv
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models import override_allow_model_requests

from benchmarks.studied_llm_server import StudiedLlmServer
from labwright.agent.cli import main
from labwright.review.evidence import tex_runner
from labwright.sandbox import cell_runner
from labwright.sandbox.isolation import bubblewrap
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.job import Job
from labwright.sandbox.settings import SandboxSettings
from tests.sandbox.conftest import DatasetStore, holds_eventually, run_alone
from tests.sandbox.data.sample_files import make_rows, write_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not bubblewrap.get_probed_isolation().is_on,
        reason=f"no isolation here: {bubblewrap.get_probed_isolation().reason}",
    ),
]

Run = Callable[..., dict[str, Any]]

SUBMIT = """
import lab, numpy as np
data = lab.data("wine")
for split in ("validation", "test"):
    lab.submit("wine", split, "method", predictions=np.zeros(data.rows(split), dtype=int))
"""


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run code with `scientist exec --json` and return the output."""

    def work(
        code: str,
        *assignments: str,
        timeout: str = "30s",
        isolation: str = "required",
        data: str = "",
        cells: str = "",
        on: str = "",
    ) -> dict[str, Any]:
        path = tmp_path / "probe.py"
        path.write_text(textwrap.dedent(code))
        settings = (f"sandbox.isolation={isolation}", "sandbox.grace=0.5", *assignments)
        capsys.readouterr()
        main(
            [
                "exec",
                str(path),
                "--json",
                "--timeout",
                timeout,
                *(["--data", data] if data else []),
                *(["--cells", cells, "--on", on] if cells else []),
                *(word for one in settings for word in ("--set", one)),
            ]
        )
        return json.loads(capsys.readouterr().out)

    return work


def failure(found: dict[str, Any]) -> tuple[str, str]:
    assert found["failure"] is not None, found
    return found["failure"]["kind"], found["failure"]["message"]


def running(mark: str) -> list[int]:
    """Return the processes with these words on their command line."""
    found: list[int] = []
    for one in Path("/proc").iterdir():
        with suppress(OSError):
            if one.name.isdigit() and mark.encode() in (one / "cmdline").read_bytes().replace(b"\0", b" "):
                found.append(int(one.name))
    return found


# --- what it sees -----------------------------------------------------------------------------------------------------


def test_no_key_is_in_its_environment_or_in_that_of_a_process_that_it_sees(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    found = run("""
        import os
        print("sk-planted" in str(dict(os.environ)))
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                print(pid, b"sk-planted" in open(f"/proc/{pid}/environ", "rb").read())
            except OSError:
                print(pid, "closed")
        print(os.getppid())
    """)
    first, *seen, parent = found["stdout_tail"].splitlines()
    assert (first, parent) == ("False", "2")
    assert len(seen) == 3 and not any(line.endswith("True") for line in seen)


def test_files_outside_its_folder_are_not_there(run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("planted")
    home = Path.home()
    found = run(f"""
        import os
        from pathlib import Path
        print(Path({str(secret)!r}).exists())
        for folder, _, files in os.walk({str(home)!r}):
            if files and not folder.startswith({tuple(map(str, inspect_interpreter(sys.executable).trees))!r}):
                print(folder, files)
        print(os.path.exists({__file__!r}))
    """)
    assert found["stdout_tail"] == "False\nFalse\n"
    held = run(f"print(open({str(secret)!r}).read())", isolation="none")
    assert held["stdout_tail"] == "planted\n"  # the probe itself works


def test_nothing_outside_its_folder_can_be_written(run: Run, tmp_path: Path) -> None:
    places = ("/", "/usr", "/etc", sys.prefix, str(tmp_path), str(Path.home()), "/proc/sys/kernel", "/var", "/dev")
    found = run(f"""
        import lab, os
        from lab import _job
        views = os.path.dirname(lab.__file__)
        for place in ({", ".join(map(repr, places))}, views, os.path.dirname(os.environ["LAB_JOB"])):
            try:
                open(os.path.join(place, "planted"), "w").write("x")
                print("wrote to", place)
            except OSError:
                pass
        for folder, _, files in os.walk("/proc/sys"):
            for path in (os.path.join(folder, name) for name in files):
                try:
                    os.close(os.open(path, os.O_WRONLY))
                    print("could set", path)
                except OSError:
                    pass
        for write, path in ((os.chmod, "/usr/bin"), (os.chmod, {sys.executable!r})):
            try:
                write(path, 0o777)
                print("changed", path)
            except OSError:
                pass
        open("own", "w").close(); open("/tmp/own", "w").close(); open("/dev/shm/own", "w").close()
        print("end")
    """)
    written = [line for line in found["stdout_tail"].splitlines() if str(tmp_path) not in line]
    assert written == ["end"]
    assert not (tmp_path / "planted").exists()


def test_the_network_of_the_host_is_not_its_own(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, _unix(tmp_path / "socket") as path:
        attack = f"""
            import socket
            for family, address in ((socket.AF_INET, {listener.getsockname()!r}), (socket.AF_UNIX, {path!r}),
                                    (socket.AF_UNIX, "\\0scientist-probe")):
                try:
                    socket.socket(family, socket.SOCK_STREAM).connect(address)
                    print("open")
                except OSError:
                    print("closed")
        """
        assert run(attack)["stdout_tail"] == "closed\n" * 3
        assert run(attack, "sandbox.network=on")["stdout_tail"] == "open\nclosed\nopen\n"


@contextmanager
def _unix(path: Path) -> Generator[str]:
    named, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    with named, abstract:
        named.bind(str(path))
        abstract.bind("\0scientist-probe")
        named.listen()
        abstract.listen()
        yield str(path)


@pytest.fixture
def subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[StudiedLlmServer, tuple[str, str]]]:
    """Set up a studied model that requires a key known to the host, the settings to call it, and a quiz."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-subject")
    (tmp_path / "quiz.csv").write_text(
        "q,label\n" + "".join(f"number {i},{'odd' if i % 2 else 'even'}\n" for i in range(60))
    )
    with override_allow_model_requests(True), StudiedLlmServer(even_or_odd, key="sk-of-the-subject") as server:
        yield (
            server,
            (
                f"subjects.small={{model: 'openai-chat:m', base_url: '{server.url}'}}",
                f"data=quiz={tmp_path / 'quiz.csv'},target=label,text=q",
            ),
        )


def even_or_odd(model: str, text: str, draw: int) -> str:
    """The answer of the studied model."""
    return "odd" if int(text.split()[-1]) % 2 else "even"


def test_a_subject_is_asked_without_its_key_or_a_network(
    run: Run, subject: tuple[StudiedLlmServer, tuple[str, str]]
) -> None:
    server, settings = subject
    found = run(
        f"""
        import json, lab, os, socket
        print(lab.llm("small").ask("number 7", logprobs=0))
        texts = [str(dict(os.environ)), open(os.environ["LAB_JOB"]).read()]
        for place in ("/proc", "/tmp", "/experiment", os.path.dirname(os.environ["LAB_JOB"])):
            for folder, folders, files in os.walk(place):
                for path in (os.path.join(folder, name) for name in files):
                    try:
                        texts.append(open(path, "rb").read(10**6).decode(errors="replace") if not path.endswith(
                            ("kmsg", "kcore", "pagemap", "clear_refs", "mem")) and os.path.basename(path) in (
                            "environ", "cmdline") or place != "/proc" else "")
                    except OSError:
                        pass
        print("key", any("sk-" + "of-the-subject" in text for text in texts), len(texts) > 10)
        try:
            socket.create_connection(("127.0.0.1", {server.port}), timeout=3)
            print("network")
        except OSError:
            print("no network")
        lab.result("done", 1.0, dataset="wine", condition="m")
    """,
        *settings,
    )
    assert found["failure"] is None, found
    first, *rest = found["stdout_tail"].splitlines()
    assert "text='odd'" in first and "m-2026" in first and rest == ["key False True", "no network"]
    assert sum(server.counts().values()) == 1


def test_the_socket_of_a_cell_is_its_own_and_bears_with_anything(
    run: Run, subject: tuple[StudiedLlmServer, tuple[str, str]]
) -> None:
    server, settings = subject
    found = run(
        """
        import json, lab, os, socket, time
        from lab import _job
        path = _job.read_job().llm
        for act in (os.unlink, lambda one: os.rename(one, one + "2"), socket.socket(socket.AF_UNIX).bind):
            try:
                act(path)
                print("replaced")
            except OSError:
                pass
        print([name for name in os.listdir(os.path.dirname(os.path.dirname(path)))], os.path.exists(path))
        for folder, _, files in os.walk("/"):
            if "exchanges.jsonl" in files:
                print("found", folder)
        def say(*lines):
            line = socket.socket(socket.AF_UNIX)
            line.connect(path)
            for one in lines:
                line.sendall(one)
            return json.loads(line.makefile().readline())
        asked = {"n": 1, "subject": "small", "messages": [{"role": "user", "content": "number 1"}]}
        for forged in ({"cell": "other"}, {"key": "other"}, {"subject": "other"}, {"messages": []}, {"ordinal": 0}):
            print("error" in say(json.dumps({**asked, **forged}).encode() + b"\\n"))
        for odd in (b"\\xff\\n", b"[]\\n", b"[" * 10**5 + b"\\n", b'{"n": 1e999}\\n', b"null\\n"):
            print("error" in say(odd))
        try:
            print("error" in say(*[b"x" * 10**6] * 3))
        except (OSError, ValueError):    # closed before everything was sent
            print(True)
        lines = []
        for _ in range(200):    # more connections than are served; the rest are closed
            lines.append(socket.socket(socket.AF_UNIX))
            lines[-1].connect(path)
        for one in lines:
            one.close()
        time.sleep(1)    # until the host has noticed it
        print(lab.llm("small").ask("number 1").text)
        lab.result("done", 1.0, dataset="wine", condition="m")
    """,
        *settings,
    )
    assert found["failure"] is None, found
    there, *answers, last = found["stdout_tail"].splitlines()
    assert there.count("scientist-kernel-") == 1 and there.endswith("True")
    assert answers == ["True"] * 11 and last == "odd"
    assert sum(server.counts().values()) == 1


@pytest.mark.parametrize(
    ("cite", "words"),
    [
        ("['0' * 32 + '-0'] + ids[1:]", "row 0 cites '00000000000000000000000000000000-0', which is not an answer"),
        pytest.param(
            "[ids[0].rpartition('-')[0] + '-1'] + ids[1:]",
            "which is not an answer that a model gave to this cell",
            marks=pytest.mark.bench,
        ),
        pytest.param("[ids[1]] + ids[1:]", "again: each answer can serve only one row", marks=pytest.mark.bench),
        ("[theirs] + ids[1:]", "which is not an answer that a model gave to this cell"),
        pytest.param("[[]] + ids[1:]", "row 0 cites no answer", marks=pytest.mark.bench),
    ],
)
def test_a_forged_citation_is_refused(
    run: Run, subject: tuple[StudiedLlmServer, tuple[str, str]], cite: str, words: str
) -> None:
    found = run(
        f"""
        import os, lab

        def run(cell):
            data, small = lab.data("quiz"), lab.llm("small")
            if cell.arm == "first":
                open("theirs", "w").write(small.ask("the other cell's, number 4").id)
                lab.save_artifact("theirs", "theirs")
                small.ask("number 5")
            ids = [one.id for one in small.ask_many(list(data.validation.x))]
            if cell.arm == "second":
                theirs = lab.artifact("theirs", arm="first").read_text()
                ids = {cite}
            lab.submit(split="validation", answers=ids, read="label")

        lab.measure(run, reads={{"second": "first"}})
    """,
        *subject[1],
        cells="first,second",
        on="quiz",
    )
    _, message = failure(found)
    assert words in message, message
    assert [
        (one["condition"], one["value"], one["grade"]) for one in found["measurements"] if one["name"] == "accuracy"
    ] == [("first", 1.0, "scored")]


def test_what_cites_no_answer_is_unattributed(run: Run, subject: tuple[StudiedLlmServer, tuple[str, str]]) -> None:
    found = run(
        """
        import json, lab, numpy as np

        def run(cell):
            data, small = lab.data("quiz"), lab.llm("small")
            truth = [int(row.split()[-1]) % 2 for row in data.validation.x]
            mine = np.array([data.class_names.index("odd" if one else "even") for one in truth])
            if cell.arm == "claims":
                small.ask("number 3")
                lab.submit(split="validation", predictions=mine)
                lines = [json.loads(line) for line in open("submissions.jsonl")]
                with open("submissions.jsonl", "w") as file:
                    file.write(json.dumps({**lines[0], "grade": "scored", "read": "label"}))
            elif cell.arm == "repeats":
                said = small.ask_many(["number 1" if one else "number 2" for one in truth])
                lab.submit(split="validation", answers=said, read="label")
            else:
                lab.submit(split="validation", predictions=mine)

        lab.measure(run)
    """,
        *subject[1],
        cells="claims,repeats,alone",
        on="quiz",
    )
    assert found["failure"] is None, found
    assert {
        one["condition"]: (one["grade"], one["value"]) for one in found["measurements"] if one["name"] == "accuracy"
    } == {"claims": ("unattributed", 1.0), "repeats": ("unattributed", 1.0), "alone": ("scored", 1.0)}


def test_labels_of_bundled_datasets_are_nowhere(run: Run) -> None:
    """No package contains a non-empty file named after these datasets."""
    found = run(f"""
        import os, sklearn.datasets
        for name in ("load_wine", "load_diabetes"):
            try:
                getattr(sklearn.datasets._base, name)()
                print("loaded", name)
            except Exception as error:
                print(type(error).__name__)
        names = ("iris", "digits", "wine_data", "breast_cancer", "diabetes")
        ends = (".csv", ".gz", ".txt", ".arff", ".npz")
        for tree in ({sys.prefix!r}, {sys.base_prefix!r}, "/usr/lib/python3", "/usr/local/lib", os.getcwd(),
                     os.environ["XDG_CACHE_HOME"]):
            for folder, _, files in os.walk(tree):
                for one in files:
                    if one.endswith(ends) and any(name in one.lower() for name in names):
                        print(os.path.join(folder, one))
    """)
    assert found["stdout_tail"] == "FileNotFoundError\nFileNotFoundError\n"


def test_the_grade_tells_whether_labels_were_out_of_reach(run: Run) -> None:
    for settings, isolation, grade, terms in (
        ((), "required", "scored", "bubblewrap"),
        (("sandbox.network=on",), "required", "computed", "bubblewrap, with network"),
        ((), "none", "computed", "none: sandbox.isolation is none"),
    ):
        found = run(SUBMIT, *settings, isolation=isolation)
        assert found["failure"] is None and len(found["sealed"]) == 2
        assert {one["grade"] for one in found["measurements"]} == {grade}
        assert found["isolation"] == terms


def test_the_file_that_own_data_come_from_is_hidden_where_all_around_it_is_shown(run: Run, tmp_path: Path) -> None:
    write_table(tmp_path / "fields.csv", make_rows())
    (tmp_path / "beside").write_text("shown")
    found = run(
        f"""
        import lab
        print(len(lab.data("fields").train.x), open("{tmp_path}/beside").read())
        open("{tmp_path}/fields.csv").read()
    """,
        f"sandbox.readable={tmp_path}",
        data=f"fields={tmp_path}/fields.csv,target=good,drop=farm,drop=day,drop=tons",
    )
    assert found["stdout_tail"] == "60 shown\n"
    assert "PermissionError" in failure(found)[1]


@pytest.mark.parametrize("isolation", ["required", pytest.param("none", marks=pytest.mark.bench)])
def test_of_ours_only_lab_can_be_imported_in_whatever_environment(run: Run, tmp_path: Path, isolation: str) -> None:
    """In a user environment that finds neighbouring packages through a path file."""
    own = tmp_path / "own"
    venv.create(own, with_pip=False)
    [site] = own.glob("lib/python3*/site-packages")
    [packages] = Path(sys.prefix).glob("lib/python3*/site-packages")
    (site / "mine.pth").write_text(f"{packages}\n{Path(__file__).resolve().parents[2] / 'src'}\n")
    (site / "mine.py").write_text("VALUE = 3\n")
    found = run(
        """
        import lab, mine, sys
        print(sys.prefix, mine.VALUE)
        for name in ("labwright", "labwright.record"):
            try:
                __import__(name)
                print("found", name)
            except ModuleNotFoundError:
                pass
    """,
        f"sandbox.python={own}/bin/python",
        f"sandbox.readable={packages}",
        isolation=isolation,
    )
    assert found["stdout_tail"] == f"{own} 3\n"


# --- what it uses up --------------------------------------------------------------------------------------------------


def _no_group(name: str, tasks: int) -> None:
    """As in most containers, control groups are not writable."""


@pytest.mark.parametrize("groups", [pytest.param(True, marks=pytest.mark.bench), False])
def test_a_fork_bomb_is_put_out(run: Run, monkeypatch: pytest.MonkeyPatch, groups: bool) -> None:
    """Limited by a control group if possible, otherwise by the watchdog."""
    if not groups:
        monkeypatch.setattr("labwright.sandbox.kernels.create_task_group", _no_group)
    found = run(
        """
        import subprocess, time
        started = [subprocess.Popen(["sleep", "43.21"], start_new_session=True) for _ in range(300)]
        time.sleep(60)
    """,
        "sandbox.tasks=80",
    )
    kind, message = failure(found)
    assert kind == "other" and ("sandbox.tasks" in message or "Resource temporarily unavailable" in message)
    assert running("sleep 43.21") == []


def test_a_memory_bomb_is_put_out_with_its_peak(run: Run) -> None:
    found = run(
        """
        import time
        print("begun", flush=True)
        held = []
        for _ in range(40):
            held.append(b"x" * 50_000_000)
            time.sleep(0.02)
        time.sleep(60)
    """,
        "sandbox.memory_gb=0.6",
    )
    kind, message = failure(found)
    assert kind == "memory" and "sandbox.memory_gb" in message and "0.60 GB" in message
    peak = float(message.split("used ")[1].split(" GB")[0])
    assert 0.6 <= peak < 2.5
    assert found["stdout_tail"] == "begun\n"


@pytest.mark.bench
def test_shared_memory_is_memory(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(
        """
        import time
        with open("/dev/shm/held", "wb") as file:
            for _ in range(40):
                file.write(b"x" * 50_000_000)
                time.sleep(0.02)
            time.sleep(60)
    """,
        "sandbox.memory_gb=0.6",
    )
    assert failure(found)[0] == "memory"
    monkeypatch.setattr(bubblewrap, "SHM_BYTES", 10**7)
    small = run("open('/dev/shm/held', 'wb').write(b'x' * 50_000_000)")
    assert "No space left" in failure(small)[1]


@pytest.mark.parametrize(
    "attack",
    [
        "open(f'file{i}', 'wb').write(b'x' * 20_000_000)",
        pytest.param("open(f'/tmp/file{i}', 'wb').write(b'x' * 20_000_000)", marks=pytest.mark.bench),
        pytest.param(
            "f = open('file', 'wb'); f.write(b'x' * 20_000_000); f.flush(); os.unlink('file'); held.append(f)",
            marks=pytest.mark.bench,
        ),
    ],
)
def test_a_disk_bomb_is_put_out(run: Run, attack: str) -> None:
    found = run(
        f"""
        import os, time
        held = []
        for i in range(60):
            {attack}
            time.sleep(0.1)
        time.sleep(60)
    """,
        "sandbox.disk_gb=0.2",
    )
    kind, message = failure(found)
    assert kind == "other" and "sandbox.disk_gb" in message


def test_ten_gigabytes_of_output_are_cut_off(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_runner, "MAX_PRINTED_CHARS", 10**8)
    found = run("for i in range(10_000):\n    print('x' * 1_000_000)\n", timeout="200s")
    kind, message = failure(found)
    assert kind == "other" and "it printed more than 100,000,000 characters" in message
    assert len(found["stdout_tail"]) == 4000


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_a_grandchild_with_a_session_of_its_own_does_not_outlive_it(run: Run) -> None:
    found = run("""
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "54.32"])
            os._exit(0)
        children = f"/proc/{os.getppid()}/task/{os.getppid()}/children"
        while open(children).read().count(" ") < 2:
            time.sleep(0.05)
        print(True)
    """)
    assert found["stdout_tail"] == "True\n"
    assert running("sleep 54.32") == []


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (
            "import time\nwhile True:\n    try:\n        time.sleep(9)\n    except BaseException:\n        pass\n",
            "killed",
        ),
        pytest.param("print('begun', flush=True)\nsum(range(10**12))\n", "killed", marks=pytest.mark.bench),
        pytest.param("import time\ntime.sleep(60)\n", "interrupted", marks=pytest.mark.bench),
    ],
)
def test_at_its_limit_it_ends_whatever_it_does(run: Run, code: str, how: str) -> None:
    """Also if it catches KeyboardInterrupt or is in a long C call."""
    found = run(code, timeout="1s")
    kind, message = failure(found)
    assert kind == "timeout" and how in message
    assert found["seconds"] < 60


def test_killing_us_kills_it(tmp_path: Path) -> None:
    path = tmp_path / "probe.py"
    path.write_text(
        "import subprocess, time\nsubprocess.Popen(['sleep', '65.43'], start_new_session=True)\ntime.sleep(60)\n"
    )
    host = subprocess.Popen(
        [sys.executable, "-m", "labwright", "exec", str(path), "--set", "sandbox.isolation=required"],
        stdout=subprocess.DEVNULL,
    )
    try:
        assert holds_eventually(lambda: bool(running("sleep 65.43")))
    finally:
        host.send_signal(signal.SIGKILL)
        host.wait()
    assert holds_eventually(lambda: not running("sleep 65.43"))


# --- what it leaves ---------------------------------------------------------------------------------------------------


def test_a_link_planted_for_our_reader_leads_nowhere(run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text('{"name": "planted", "value": 1}\n')
    for name in ("arrays/a.npy", "measurements.jsonl", "submissions.jsonl"):
        found = run(f"""
            import os
            os.makedirs("arrays", exist_ok=True)
            os.symlink({str(secret)!r}, {name!r})
            for ours in ("node.ipynb", "stdout.txt"):
                os.symlink({str(secret)!r}, ours)
        """)
        assert failure(found)[0] == "other" and "planted" not in json.dumps(found)
    assert secret.read_text() == '{"name": "planted", "value": 1}\n'


async def test_a_program_that_would_make_others_us_is_disarmed(store: DatasetStore, tmp_path: Path) -> None:
    code = (
        "import os, shutil\nos.mkdir('deep')\nshutil.copy('/bin/sh', 'deep/sh')\nos.chmod('deep/sh', 0o6755)\n"
        "os.symlink('/bin/su', 'su')\n"
    )
    job = Job(name="x", folder=tmp_path / "job", source={"experiment.py": code})
    await run_alone(store, job, settings=SandboxSettings())
    assert (tmp_path / "job" / "deep" / "sh").stat().st_mode & 0o7777 == 0o755


def test_a_crash_log_is_read_from_what_it_cannot_replace(run: Run, tmp_path: Path) -> None:
    found = run("""
        import os
        log = os.path.join(os.path.dirname(os.environ["LAB_JOB"]), "crash.log")
        try:
            os.unlink(log)
            os.symlink("/etc/passwd", log)
        except OSError as error:
            print(error.strerror)
        os._exit(1)
    """)
    assert failure(found)[0] == "died" and "root:" not in found["failure"]["traceback"]


def test_forged_measurements_are_what_the_code_said_and_no_more(run: Run) -> None:
    forged = [
        {
            "name": "accuracy",
            "value": 1.0,
            "condition": "method",
            "dataset": "wine",
            "split": split,
            "step": None,
            "grade": "scored",
        }
        for split in ("validation", "test")
    ]
    found = run(f"""
        {SUBMIT.strip().replace(chr(10), chr(10) + " " * 8)}
        import json
        with open("measurements.jsonl", "a") as file:
            for line in {forged!r}:
                file.write(json.dumps(line) + "\\n")
        text = open("submissions.jsonl").read()
        open("submissions.jsonl", "w").write(text.replace('"kind"', '"grade": "evaluated", "kind"'))
    """)
    [accuracy] = [one for one in found["measurements"] if one["name"] == "accuracy"]
    assert accuracy["grade"] == "scored" and accuracy["value"] < 1 and accuracy["split"] == "validation"
    only = run(f"import json\nopen('measurements.jsonl', 'w').write(json.dumps({forged[0]!r}))\n")
    assert [one["grade"] for one in only["measurements"]] == ["logged"]


# --- beside experiments -----------------------------------------------------------------------------------------------


async def test_plots_are_drawn_behind_the_same_walls(store: DatasetStore, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("planted")
    code = (
        f"import os\nimport matplotlib.pyplot as plt\nprint(os.path.exists({str(secret)!r}))\n"
        "plt.plot([1, 2])\nplt.xlabel('x')\nplt.ylabel('y')\nplt.savefig('figures/a.png')\n"
    )
    job = Job(name="plot", folder=tmp_path / "job", entry="plots.py", kind="plot", source={"plots.py": code})
    outcome = await run_alone(store, job, settings=SandboxSettings())
    assert outcome.failure is None and outcome.stdout_tail == "False\n"
    assert [one.name for one in outcome.figures] == ["a.png"]


async def test_tex_runs_behind_walls(tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()
    secret = tmp_path / "secret.txt"
    secret.write_text("planted")
    ran = await tex_runner.run_program(["cat", str(secret)], tmp_path / "desk", timeout=10)
    assert ran.code == 1 and "No such file" in ran.output
    ran = await tex_runner.run_program(
        ["sh", "-c", "echo x > new; cat new; wc -l < /proc/net/dev"], tmp_path / "desk", timeout=10
    )
    assert ran.output.split()[0] == "x" and (tmp_path / "desk" / "new").exists()
    assert ran.output.split()[-1] == "3"  # two header lines and the loopback


# --- without a sandbox ------------------------------------------------------------------------------------------------


def test_required_walls_that_cannot_be_had_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        bubblewrap,
        "get_probed_isolation",
        lambda: bubblewrap.IsolationStatus(is_on=False, reason="it is not there", fix="get it"),
    )
    (tmp_path / "probe.py").write_text(SUBMIT)
    idea = Path(__file__).resolve().parents[2] / "examples" / "ideas" / "label_noise_calibration.json"
    required = ("--set", "sandbox.isolation=required")
    for command in (
        ["exec", str(tmp_path / "probe.py"), *required],
        ["run", "--idea", str(idea), "--runs", str(tmp_path / "runs"), *required],
    ):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "it is not there" in said and "get it" in said and "sandbox.isolation=auto" in said
        assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_one_file_has_the_limit_of_all_at_once(run: Run) -> None:
    hole = "with open('file', 'wb') as file:\n    file.seek(300_000_000)\n    file.write(b'x')"  # takes no room on disk
    kind, message = failure(run(hole, "sandbox.disk_gb=0.2"))
    assert kind == "other" and "File too large" in message


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os\nos._exit(7)\n", "exit code 7"),
        pytest.param("import ctypes\nctypes.string_at(0)\n", "SIGSEGV", marks=pytest.mark.bench),
        pytest.param("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "SIGKILL", marks=pytest.mark.bench),
        ("import os, signal\nos.kill(1, signal.SIGKILL)\nraise SystemExit('still here')\n", "still here"),
    ],
)
def test_a_death_is_a_result_with_its_reason(run: Run, code: str, words: str) -> None:
    kind, message = failure(run(code))
    assert words in message and kind == ("other" if words == "still here" else "died")


def test_a_hostile_pickle_is_not_opened(run: Run, tmp_path: Path) -> None:
    mark = tmp_path / "opened"
    found = run(f"""
        import os, numpy as np
        class Hostile:
            def __reduce__(self):
                return os.mkdir, ({str(mark)!r},)
        os.makedirs("arrays")
        np.save("arrays/a.npy", np.array([Hostile()], dtype=object), allow_pickle=True)
    """)
    assert "Python objects" in failure(found)[1] and not mark.exists()


def test_walls_that_are_only_wanted_are_done_without_and_it_is_said(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(
        bubblewrap,
        "get_probed_isolation",
        lambda: bubblewrap.IsolationStatus(is_on=False, reason="it is not there", fix="get it"),
    )
    found = run(SUBMIT, isolation="auto")
    assert found["isolation"] == "none: it is not there"
    assert {one["grade"] for one in found["measurements"]} == {"computed"}
    assert main(["exec", str(tmp_path / "probe.py"), "--json", "--set", "sandbox.isolation=auto"]) == 0
    assert "without isolation" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap here")
def test_a_busy_machine_is_not_taken_for_one_without_a_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "probe.py").write_text(SUBMIT)
    isolation = bubblewrap.get_probed_isolation()
    bubblewrap.get_probed_isolation.cache_clear()
    monkeypatch.setattr(bubblewrap, "PROBE_TIMEOUTS_SECONDS", (1e-6, 2e-6))
    assert main(["exec", str(tmp_path / "probe.py"), "--set", "sandbox.isolation=auto"]) == 2
    assert capsys.readouterr().err == (
        "scientist: the sandbox did not start within 2e-06 s: the machine is busy; try again\n"
    )
    monkeypatch.setattr(bubblewrap, "PROBE_TIMEOUTS_SECONDS", (1e-6, 600.0))
    assert bubblewrap.probe_isolation() == isolation, "the second, longer attempt counts"
