"""Project files: the package contents, the claims of README and docs, and `make`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from labwright.agent.cli.campaign import CampaignReport, CampaignRow
from labwright.agent.cli.options import SETTING_OPTIONS
from labwright.agent.cli.run import DEMO_FOLDER
from labwright.agent.settings import DURATION_SUFFIXES, EFFORTS, Settings, compose_settings
from labwright.evals.detection import DetectionThreshold
from labwright.inspector.provenance import NumberTrace, TraceCandidate
from labwright.inspector.status import BudgetUsage, RemainingEstimate, RunStatus
from labwright.inspector.summary import RunListRow
from labwright.models.settings import RoleModel
from labwright.record.schema.idea import read_idea
from labwright.stages.evidence.reproduction import ReproducedNumber

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "agent",
    "evals",
    "stages",
    "review",
    "search",
    "models",
    "sandbox",
    "literature",
    "record",
    "inspector",
    "pdf",
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


# --- dependencies ---------------------------------------------------------------------------------------------------


def test_every_dependency_says_who_imports_it() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for requirement in _requirements():
        [line] = [line for line in text.splitlines() if f'"{requirement}"' in line and line.startswith("    ")]
        assert re.search(r"# \w+", line), f"{requirement} has no comment that names its importer"


UNPINNED = {"mlflow"}
"""Packages of an extra installed without constraints: MLflow 3.17 needs an older pyarrow than the pinned one."""


def test_every_dependency_has_a_tested_version() -> None:
    pinned = {_name(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    assert {_name(one) for one in _requirements()} - UNPINNED <= pinned


def _requirements() -> list[str]:
    """Return all requirements, including extras; an extra that refers to another of this project adds none."""
    project = PROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return [one for group in groups for one in group if not one.startswith("labwright[")]


def test_torch_is_pinned_exactly_and_alike() -> None:
    [line] = [one for one in (ROOT / "constraints.txt").read_text().splitlines() if one.startswith("torch==")]
    assert PROJECT["project"]["optional-dependencies"]["torch"] == [line]
    assert not [one for one in PROJECT["project"]["dependencies"] if one.startswith("torch")]


def _name(requirement: str) -> str:
    return re.split(r"[\[=<>~!; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


# --- what is shipped ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_regular_install_has_code_prompts_and_templates(tmp_path: Path) -> None:
    built = _wheel(tmp_path)
    names = zipfile.ZipFile(built).namelist()
    shipped = {name for name in names if ".dist-info/" not in name}
    for path in _files_to_ship():
        assert f"labwright/{path}" in shipped, f"{path} is missing from the wheel"
    assert {"/".join(name.split("/")[1:2]) for name in shipped if name.startswith("labwright/")} == {
        *PACKAGES,
        "templates_latex",
        "demo",
        "__init__.py",
        "__main__.py",
    }
    assert all(name.startswith("labwright/") for name in shipped)
    assert not [name for name in shipped if "__pycache__" in name]
    site = tmp_path / "site"
    zipfile.ZipFile(built).extractall(site)
    code = (
        "import labwright.stages.paper.template as t; print(t.__file__); print(t.load_template('workshop').folder)\n"
        "from labwright.agent.cli.run import DEMO_FOLDER; print(DEMO_FOLDER)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert all(line.startswith(str(site)) for line in found.stdout.split())


def _wheel(place: Path) -> Path:
    """Build a wheel from a copy, so that the checkout gets no build folder."""
    copy = place / "copy"
    copy.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    for name in (*PACKAGES, "templates_latex"):
        shutil.copytree(ROOT / name, copy / name, ignore=ignore)
    shutil.copytree(ROOT / "examples", copy / "examples", ignore=shutil.ignore_patterns("*.zip"))
    shutil.copytree(ROOT / "src", copy / "src", ignore=ignore, symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    code = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, timeout=600, check=True)
    [wheel] = place.glob("*.whl")
    return wheel


def _files_to_ship() -> Iterator[str]:
    for name in (*PACKAGES, "templates_latex"):
        for path in (ROOT / name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("exec", "{script}"),
        pytest.param(("doctor",), marks=pytest.mark.bench),
        pytest.param(("run", "--idea", "{idea}", "--dry-run", "--runs", "{runs}"), marks=pytest.mark.bench),
    ],
)
def test_modules_of_others_on_the_path_of_python_do_not_get_in_the_way(words: tuple[str, ...], tmp_path: Path) -> None:
    hostile = tmp_path / "hostile"
    for name in PACKAGES:
        (hostile / name).mkdir(parents=True)
        (hostile / name / "__init__.py").write_text(f"raise SystemExit('{name} of another project was imported')\n")
    script = tmp_path / "own.py"
    script.write_text(
        "import lab\nimport numpy as np\n\nx = lab.data('iris').validation.x\n"
        "lab.submit('iris', 'validation', 'even', logits=np.zeros((len(x), 3)))\n"
    )
    places = {"script": script, "idea": ROOT / "examples/ideas/label_noise_calibration.json", "runs": tmp_path / "runs"}
    done = subprocess.run(
        [sys.executable, "-m", "labwright", *(word.format(**places) for word in words)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(hostile)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0 and "of another project" not in done.stdout + done.stderr, done.stderr[-2000:]


# --- README, docs, examples -----------------------------------------------------------------------------------------


def test_links_in_the_pages_lead_somewhere() -> None:
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "runs/README.md")]
    for page in (*pages, *(ROOT / "docs").glob("*.md")):
        assert not re.search(r"install .*labwright\[", page.read_text()), "from a checkout it is '.[NAME]'"
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_architecture_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)+(?:\.py)?)`", text)
    places = [ROOT, *(ROOT / "src" / "labwright").iterdir()]
    assert len(named) > 50 and not [name for name in named if not any((place / name).exists() for place in places)]
    paths = re.findall(r"\((\d+) files\)(.*?)(?=\n\*\*|\n## )", text, re.DOTALL)
    counted = [len({*re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", path)}) for _, path in paths]
    assert counted == [int(count) for count, _ in paths]


def test_every_page_of_the_docs_is_listed() -> None:
    listed = (ROOT / "docs" / "README.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert not [page for page in pages if page not in listed]


@pytest.mark.parametrize(
    ("page", "model"),
    [
        ("json.md", RunStatus),
        ("json.md", BudgetUsage),
        ("json.md", RemainingEstimate),
        ("json.md", RunListRow),
        ("budget.md", CampaignReport),
        ("budget.md", CampaignRow),
        ("evidence.md", NumberTrace),
        ("evidence.md", TraceCandidate),
        ("evidence.md", ReproducedNumber),
        ("judge.md", DetectionThreshold),
    ],
)
def test_pages_name_every_field_of_json_output(page: str, model: type[BaseModel]) -> None:
    named = set(re.findall(r"`(\w+)(?:\[\])?`", (ROOT / "docs" / page).read_text()))
    assert set(model.model_fields) <= named


def test_the_settings_tables_list_every_setting() -> None:
    """SNAPSHOT_UPDATE=1 writes the tables again."""
    page = ROOT / "docs" / "command-line.md"
    before, marker, after = page.read_text().partition("<!-- settings -->\n")
    tables, end, rest = after.partition("<!-- end of settings -->")
    if os.environ.get("SNAPSHOT_UPDATE") == "1":
        page.write_text(before + marker + "\n".join(_tables()) + "\n\n" + end + rest)
        return
    keys = [line.split("|")[1] for line in tables.splitlines() if line.startswith("|")]
    assert keys == [line.split("|")[1] for line in _tables() if line.startswith("|")], "SNAPSHOT_UPDATE=1 writes them"


def test_the_page_lists_the_values_of_each_effort() -> None:
    """SNAPSHOT_UPDATE=1 writes the table again."""
    page = ROOT / "docs" / "budget.md"
    head = "| setting | quick | standard | thorough |\n|---|---|---|---|\n"
    before, _, after = page.read_text().partition(head)
    table, _, rest = after.partition("\n\n")
    wanted = "\n".join(_effort_rows())
    if os.environ.get("SNAPSHOT_UPDATE") == "1":
        page.write_text(f"{before}{head}{wanted}\n\n{rest}")
        return
    assert table == wanted, "SNAPSHOT_UPDATE=1 writes the table again"


def _find_value(settings: Any, key: str) -> Any:
    for name in key.split("."):
        settings = settings[name]
    return settings


def _effort_rows() -> Iterator[str]:
    found = [compose_settings(flags={"effort": one}, environment={}).model_dump() for one in EFFORTS]
    for key in dict.fromkeys(key for one in EFFORTS.values() for key in one):
        values = [_find_value(one, key) for one in found]
        shown = (f"{value / 3600:g} h" if key.endswith(DURATION_SUFFIXES) else str(value) for value in values)
        yield f"| `{key}` | {' | '.join('as planned' if one == 'None' else one for one in shown)} |"


def _tables() -> Iterator[str]:
    """Yield the lines of one table for each group of settings; those without a group come first."""
    groups = dict[str, list[str]]()
    for key, default, meaning in _rows(Settings(), ""):
        group = key.partition(".")[0] if "." in key else "run"
        groups.setdefault(group, []).append(f"| `{key}` | {default} | {meaning} |")
    for group, rows in groups.items():
        yield from ("", f"### {group}", "", "| key | default | meaning |", "|---|---|---|", *rows)


def _rows(settings: BaseModel, prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in type(settings).model_fields.items():
        value: Any = getattr(settings, name)
        if name == "roles":
            yield from _rows(RoleModel(), f"{prefix}roles.ROLE.")
            continue
        if isinstance(value, BaseModel):
            yield from _rows(value, f"{prefix}{name}.")
            continue
        shown = {"None": "none", "{}": "none", sys.executable: "this Python"}.get(str(value), str(value))
        flags = [
            f"; flag --{flag.replace('_', '-')}" for flag, one in SETTING_OPTIONS.items() if one.key == prefix + name
        ]
        text = " ".join((field.description or "").split())
        yield f"{prefix}{name}", shown, text.rstrip("." * len(flags)) + "".join(flags)


def test_the_demo_can_be_started() -> None:
    settings = compose_settings(config=ROOT / "examples" / "demo.yaml", environment={})
    bib = ROOT / "examples" / "library.bib"
    assert settings.paper.bib == bib and bib.is_file()
    assert (settings.models.name, settings.search.order, settings.search.num_workers) == ("offline", "ticket", 2)
    demo = compose_settings(config=DEMO_FOLDER / "demo.yaml", environment={})
    assert demo == settings and read_idea(DEMO_FOLDER / "idea.json").title


def test_files_name_no_machine_and_no_registry() -> None:
    wrong = re.compile(r"/root/|/home/\w|/work/|https?://(?:pypi|download\.pytorch|files\.pythonhosted)")
    named = (
        "pyproject.toml",
        "constraints.txt",
        "Makefile",
        "README.md",
        "CONTRIBUTING.md",
        ".ci/run",
        "agent/doctor/debian_packages.sh",
        "examples/demo.yaml",
        "Dockerfile",
    )
    for path in (*(ROOT / name for name in named), *(ROOT / "docs").glob("*.md")):
        assert not wrong.search(path.read_text()), path


# --- make -----------------------------------------------------------------------------------------------------------


def test_setup_is_a_no_op_the_second_time(tmp_path: Path) -> None:
    """If the stamp matches the dependencies, make does nothing; otherwise it sets up again."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    stamp = re.findall(r"installed-\d+-\d+", _make(tmp_path, "-n", "setup"))[-1]
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / stamp).touch()
    assert "Nothing to be done" in _make(tmp_path, "setup")
    with open(tmp_path / "constraints.txt", "a") as file:
        file.write("another==1\n")
    assert "pip install" in _make(tmp_path, "-n", "setup")


def test_setup_installs_torch_first_and_exactly(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    installs = [line for line in _make(tmp_path, "-n", "setup").splitlines() if "pip install" in line]
    assert re.search(r" torch==\d+\.\d+\.\d+ uv==\S+$", installs[0])
    assert len(installs) == 3 and "uv pip install" in installs[1] and "-m pip install" in installs[2]
    assert all(line.rstrip("\\ ").endswith("-c constraints.txt -e '.[dev]'") for line in installs[1:])


def _make(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def test_where_nothing_may_be_installed_the_line_to_run_is_printed(tmp_path: Path) -> None:
    """Without tools and apt-get on PATH, one line says what to run, and setup continues."""
    for tool in ("bash", "id", "env"):
        found = shutil.which(tool)
        assert found
        (tmp_path / tool).symlink_to(found)
    command = [str(tmp_path / "bash"), str(ROOT / "agent" / "doctor" / "debian_packages.sh")]
    done = subprocess.run(
        command,
        env={"PATH": str(tmp_path), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0 and done.stdout == ""
    [line] = done.stderr.splitlines()
    for package in ("texlive-latex-base", "latexmk", "bubblewrap"):
        assert package in line.split("To install them: sudo apt-get install")[1]
