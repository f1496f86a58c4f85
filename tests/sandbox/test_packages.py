"""Packages for experiments: syntax, locking, installation and sharing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.sandbox import packages as packages_module
from labwright.sandbox.content_store import ContentStore
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from labwright.sandbox.isolation.interpreter import format_environment
from labwright.sandbox.job import PackageError
from labwright.sandbox.packages import (
    AllowedRequests,
    PackageLock,
    PackageOverlay,
    RunPackages,
    Uv,
    compute_environment_fingerprint,
    get_torch_backend_option,
    lock_packages,
    parse_allowed,
    parse_requirements,
    restore_packages,
)
from labwright.sandbox.repository.environment import add_packages, build_environment
from labwright.sandbox.settings import SandboxSettings
from tests.recorded_run import recorded_run
from tests.sandbox.package_index import PackageIndex, build_source, build_wheel


def test_a_list_of_names_says_what_is_a_package_a_model_and_data() -> None:
    found = parse_allowed(("timm>=1", "model:owner/net@abc", "data:birds=hf:owner/birds,config=x", "Box2D"))
    assert found == AllowedRequests(("timm>=1", "Box2D"), ("owner/net@abc",), ("birds=hf:owner/birds,config=x",))
    assert parse_requirements(found.packages) == {"timm": "timm>=1", "box2d": "Box2D"}


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("no package", "is not a package"),
        ("--index-url=x", "is not a package"),
        ("x @ https://example.org/x.whl", "has an address"),
        ("x:sdist", "is not a package"),
    ],
)
def test_what_is_no_package_is_refused_in_one_line(word: str, why: str) -> None:
    with pytest.raises(PackageError, match=why) as error:
        parse_allowed((word,))
    assert "\n" not in str(error.value)
    with pytest.raises(PackageError, match="lists my-net twice"):
        parse_requirements(("my_net", "My.Net>=1"))


# --- found, locked, installed, shared -------------------------------------------------------------------------------

SETTINGS = SandboxSettings(isolation="none")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index with `tiny` (which needs `small` and numpy), and a separate store and uv cache."""
    served = PackageIndex()
    for name, value in (
        ("UV_DEFAULT_INDEX", served.url),
        ("UV_HTTP_RETRIES", "0"),
        ("UV_NO_CONFIG", "1"),
        ("UV_CACHE_DIR", str(tmp_path / "uv")),
        ("XDG_CACHE_HOME", str(tmp_path / "cache")),
    ):
        monkeypatch.setenv(name, value)
    served.add(
        build_wheel(
            "tiny",
            "1.0",
            {"tiny.py": "import small\nVALUE = 1 + small.VALUE\n"},
            requires=("small", "numpy>=1", "nothing; extra == 'more'"),
        )
    )
    served.add(
        build_wheel(
            "small",
            "2.0",
            {
                "small/__init__.py": "VALUE = 41\n",
                "vega_datasets/_data/other.csv": "labels",
                "numpy.py": "raise SystemExit",
                "small/data/uci_Iris_data.csv.gz": "labels",
                "small.pth": "import os; os.environ['SMALL'] = str(os.getpid())\n",
            },
        )
    )
    yield served
    with suppress(OSError):
        served.close()


def installed(*words: str, settings: SandboxSettings = SETTINGS) -> PackageOverlay:
    overlay = RunPackages(settings.model_copy(update={"packages": words})).build_overlay()
    assert overlay is not None
    return overlay


def refused(*words: str, settings: SandboxSettings = SETTINGS) -> str:
    with pytest.raises(PackageError) as error:
        installed(*words, settings=settings)
    assert "\n" not in str(error.value) and len(str(error.value)) < 700
    return str(error.value)


@pytest.mark.slow
def test_what_the_interpreter_lacks_is_installed_once_and_shared(index: PackageIndex) -> None:
    first, second = installed("tiny", "numpy"), installed("numpy", "tiny")
    assert first.installed.packages == {"small": "2.0", "tiny": "1.0"}
    assert first.folder == second.folder and (first.installed.shared, second.installed.shared) == (False, True)
    assert first.installed.bytes > 0 and first.installed.asked == ("tiny", "numpy")
    assert first.folder is not None
    assert not any(path.stat().st_mode & 0o222 for path in first.folder.rglob("*"))
    assert installed("numpy").folder is None  # already installed


@pytest.mark.slow
def test_a_lock_is_never_resolved_again(index: PackageIndex, tmp_path: Path) -> None:
    overlay = installed("tiny")
    (tmp_path / "packages.lock").write_text(overlay.lock.text)
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    for path in (tmp_path / "cache").rglob("*"):  # its folders are read-only
        path.chmod(0o755)
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    index.add(build_wheel("tiny", "1.5", {"tiny.py": ""}))
    rebuilt = restore_packages(overlay.installed, tmp_path / "packages.lock", SETTINGS)
    assert rebuilt is not None and rebuilt.installed.packages == {"small": "2.0", "tiny": "1.0"}
    assert installed("tiny").installed.packages["tiny"] == "1.5"
    (tmp_path / "packages.lock").write_text(overlay.lock.text.replace("1.0", "1.5"))
    with pytest.raises(PackageError, match="is not the lock file in the record"):
        restore_packages(overlay.installed, tmp_path / "packages.lock", SETTINGS)


@pytest.mark.slow
def test_other_bytes_under_the_same_version_are_refused(index: PackageIndex, tmp_path: Path) -> None:
    overlay = installed("tiny")
    (tmp_path / "packages.lock").write_text(overlay.lock.text)
    for folder in ("uv", "cache"):
        subprocess.run(["chmod", "-R", "u+w", str(tmp_path / folder)], check=True)
        shutil.rmtree(tmp_path / folder)
    index.add(build_wheel("tiny", "1.0", {"tiny.py": "VALUE = 'another'\n"}))
    with pytest.raises(PackageError, match=r"cannot install small 2\.0, tiny 1\.0 from the lock with Python .*[Hh]ash"):
        restore_packages(overlay.installed, tmp_path / "packages.lock", SETTINGS)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.name.startswith(".part")]


@pytest.mark.slow
def test_two_at_once_make_it_once_and_what_was_changed_is_made_anew(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = list[Path](), packages_module._install_lock

    def counted(lock: PackageLock, store: ContentStore, settings: SandboxSettings) -> str:
        made.append(store.root)
        return make(lock, store, settings)

    monkeypatch.setattr(packages_module, "_install_lock", counted)
    with ThreadPoolExecutor(2) as both:
        folders = [one.folder for one in both.map(installed, ["tiny"] * 2)]
    assert folders[0] == folders[1] and len(made) == 1
    assert folders[0] is not None
    file = folders[0] / "tiny.py"
    file.chmod(0o644)
    file.write_text("VALUE = 'changed'\n")
    again = installed("tiny")
    assert again.folder is not None and not again.installed.shared
    assert "changed" not in (again.folder / "tiny.py").read_text() and installed("tiny").installed.shared


@pytest.mark.slow
def test_without_a_network_what_is_in_the_store_does(index: PackageIndex) -> None:
    everything = SETTINGS.model_copy(update={"allowed": ("small",)})
    installed("tiny", "small")
    index.close()
    told = RunPackages(SETTINGS.model_copy(update={"packages": ("tiny", "small")})).find_lock()
    assert told is not None and told.is_from_cache and installed("tiny", "small").installed.shared
    part = RunPackages(everything).build_overlay(("small",))  # a joint prefetch also serves a part of it
    assert part is not None and "small" in part.installed.packages
    why = refused("tiny", "other")
    assert why.startswith("the package index is unreachable, and tiny, other are not in the store: run `scientist pre")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nosuch",), "cannot install nosuch: .*was not found.*; check the name"),
        (
            ("numpy<1.5",),
            r"cannot install numpy<1.5: .*; numpy \S+ of sandbox.python cannot be changed: request another",
        ),
        (("needy",), r"cannot install needy: .*; numpy \S+ of sandbox.python cannot be changed"),
        (("future",), r"cannot install future: .*[Pp]ython.*4"),
        (("other",), r"cannot install other: .*wheels"),
        (("sourced",), r"cannot install sourced: .*; if you trust its source, install it into sandbox.python"),
        (("tiny>5",), "cannot install tiny>5: .*tiny"),
    ],
)
@pytest.mark.slow
def test_what_cannot_be_installed_is_told_in_one_line(index: PackageIndex, words: tuple[str, ...], told: str) -> None:
    index.add(build_wheel("needy", "1.0", {"needy.py": ""}, requires=("numpy<1.5",)))
    index.add(build_wheel("future", "1.0", {"future.py": ""}, python=">=4"), python=">=4")
    index.add(build_wheel("other", "1.0", {"other.py": ""}, tag="cp27-cp27m-win32"))
    index.add(build_source("sourced", "1.0"))
    assert re.search(told, refused(*words))


def test_what_is_built_against_torch_is_built_as_the_interpreters_torch_is() -> None:
    assert get_torch_backend_option({"torch": "2.13.0+cpu"}) == ["--torch-backend", "cpu"]
    assert get_torch_backend_option({"torch": "2.13.0+cu126"}) == ["--torch-backend", "cu126"]
    assert (
        get_torch_backend_option({"torch": "2.13.0"})
        == get_torch_backend_option({"torch": "2.13.0a0+git1f"})
        == get_torch_backend_option({})
        == []
    )


# --- in a kernel, from a source, in a run ---------------------------------------------------------------------------
isolated = pytest.mark.skipif(not get_probed_isolation().is_on, reason="no sandbox here")

SCRIPT = """
import os, subprocess, sys
import numpy, small, tiny
import lab
assert not WALLS or os.environ["SMALL"] == str(os.getpid()), "package code ran in the kernel"
assert numpy.__version__ and tiny.VALUE == 42, "the interpreter's own numpy comes first"
assert subprocess.run([sys.executable, "-c", "import tiny"]).returncode == 0
folder = os.path.dirname(small.__file__)
try:
    open(os.path.join(folder, "mine.py"), "w")
    raise SystemExit("could write")
except OSError:
    pass
assert not os.path.exists(os.path.join(folder, "..", "vega_datasets", "_data", "other.csv")), "labels are reachable"
try:
    raise SystemExit(open(os.path.join(folder, "data", "uci_Iris_data.csv.gz")).read() and "read labels")
except PermissionError:
    pass
lab.submit("digits", "validation", "plain", predictions=numpy.zeros(len(lab.data("digits").validation.x), int))
"""


@isolated
@pytest.mark.slow
def test_experiments_import_them_and_cannot_change_them(
    index: PackageIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "try.py").write_text(SCRIPT.replace("WALLS", str(get_probed_isolation().between_cells)))
    monkeypatch.chdir(tmp_path)
    code = main(["exec", str(tmp_path / "try.py"), "--set", "sandbox.packages=tiny", "--json"])
    assert (json.loads(capsys.readouterr().out)["failure"], code) == (None, 0)
    assert main(["exec", str(tmp_path / "try.py"), "--set", "sandbox.packages=nosuch"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_a_plan_asks_for_what_is_listed_alone(index: PackageIndex, tmp_path: Path) -> None:
    index.add(build_wheel("tiny_other", "1.0", {"tiny_other.py": ""}, requires=("numpy<1.5",)))
    handed = list[PackageOverlay]()
    more = RunPackages(
        SETTINGS.model_copy(update={"packages": ("small",), "allowed": ("tiny==1.0", "tiny-other", "model:a/b@c")}),
        handed.append,
    )
    assert more.names == ("tiny==1.0", "tiny-other")
    assert more.find_faults(("Tiny", "numpy", "small")) == more.find_faults(("tiny ~= 1.0", "small!=3")) == ()
    assert more.find_faults(("timm",)) == (
        "package 'timm' is not allowed: `packages` may contain tiny==1.0, tiny-other; remove it",
    )
    assert "numpy" in more.find_faults(("tiny_other",))[0]
    found = more.install(("tiny",), tmp_path / "packages.lock")
    assert found is not None and found.asked == ("small", "tiny==1.0") and handed[0].installed == found
    assert (tmp_path / "packages.lock").read_text() == handed[0].lock.text
    assert RunPackages(SETTINGS).install((), tmp_path / "none.lock") is None and not (tmp_path / "none.lock").exists()
    other = compute_environment_fingerprint(SETTINGS, (), handed[0])
    assert found.sha256 in other and compute_environment_fingerprint(SETTINGS, ()) != other
    assert format_environment(SETTINGS.python, found.packages, found.sha256).rstrip().endswith("small==2.0\ntiny==1.0")


@pytest.mark.parametrize("verb", [["resume", "RUN"], ["branch", "RUN", "--from", "agenda", "--runs", "/nowhere"]])
def test_packages_are_fixed_with_the_plan(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run = str(recorded_run())
    assert main([*(run if word == "RUN" else word for word in verb), "--set", "sandbox.packages=tiny"]) == 2
    assert "the packages of a run are fixed with its data plan" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_is_refused_before_it_is_made_and_prefetch_fetches(
    index: PackageIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("sandbox: {isolation: auto, packages: [small], allowed: ['tiny']}\n")
    assert main(["prefetch", str(config)]) == 0
    assert capsys.readouterr().out.startswith("packages: small 2.0, tiny 1.0; 0.0 MB")
    config.write_text("sandbox: {isolation: auto, packages: [small], allowed: ['tiny', 'no name']}\n")
    idea = Path(__file__).parents[2] / "examples/ideas/label_noise_calibration.json"
    run = ["run", "--idea", str(idea), "--runs", str(tmp_path / "runs"), "--config", str(config)]
    assert main(run) == 2
    config.write_text("sandbox: {isolation: auto, packages: [nosuch]}\n")
    assert main(run) == 2
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "scientist",
        "scientist",
    ] and not (tmp_path / "runs").exists()


# --- of a repository ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        "tiny==1.0\nclip @ git+https://localhost/clip.git\n",
        "tiny==1.0\nno-such-package>=3\n",
        "tiny==1.0\nsmall==1.0\n",
        "tiny==1.0\nneeds-none==1.0\n",
        "tiny==1.0; python_version > '3'\ntiny<2\n",
        "tiny==1.*\nsmall==2.0+cu113\n",
    ],
)
@pytest.mark.slow
def test_what_cannot_be_had_keeps_nothing_else_of_a_repository_away(index: PackageIndex, asked: str) -> None:
    index.add(build_wheel("needs_none", "1.0", {"needs_none.py": ""}, requires=("no-such-package",)))
    found = build_environment({"requirements.txt": asked}, SETTINGS)
    assert found.facts.packages["tiny"] == "1.0" and found.facts.packages["small"] == "2.0"
    told = {one.wanted: one.found for one in found.facts.deviations}
    for line in asked.splitlines()[1:]:
        if "tiny" in line:
            assert not told
        elif line.startswith("small"):
            assert told == {line: "2.0"}, "only the pin that cannot be met is relaxed"
        else:
            (why,) = told.values()
            assert list(told) == [line] and ("not installed" in why or "from an address" in why) and "\n" not in why
    again = build_environment({"requirements.txt": asked}, SETTINGS, installed_before=found.facts.packages)
    assert again.facts.packages == found.facts.packages


def test_no_packages_to_add_change_nothing() -> None:
    found = build_environment({}, SETTINGS)
    assert add_packages(found, (), SETTINGS) == found


@pytest.mark.parametrize(
    "line",
    ["-e ./inner", "-r /etc/passwd", "small; os_name == 'x\n-e ./inner\n'", "small @ file:./inner", "--index-url x"],
)
def test_uv_gets_only_packages_of_an_index(tmp_path: Path, line: str) -> None:
    """uv would run a folder's code on the host, and print a file's lines."""
    with pytest.raises(PackageError, match=r"is not a package|has an address"):
        lock_packages(Uv(SETTINGS.python, tmp_path), ["small", line], {})
