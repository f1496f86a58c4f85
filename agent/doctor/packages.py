"""Python and packages: what the program needs of the interpreter that runs it, and experiments of the kernels' own."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from agent.doctor.command import run
from agent.doctor.finding import Finding, fault, ok, warning

ROOT = Path(__file__).resolve().parents[2]
OLDEST = (3, 11)
LIMIT = 180.0
"""Seconds for importing everything: torch and its like take long from a cold disk."""

MEND = "pip install -c constraints.txt -e . in the program's folder (or: make setup)"
IMPORTED_AS = {
    "scikit-learn": "sklearn", "pillow": "PIL", "pyyaml": "yaml", "pydantic-ai-slim": "pydantic_ai",
    "nvidia-ml-py": "pynvml",
}
"""Distributions whose package has another name."""
KERNEL = ("ipykernel", "numpy")
"""What a kernel does not start without."""
EXPERIMENTS = ("cloudpickle", "datasets", "matplotlib", "scikit-learn", "torch", "transformers")
"""What experiments are free to do without: prompts name what is there."""

SCRIPT = """
import importlib, json, sys
from importlib.metadata import version, PackageNotFoundError
for name, module in json.loads(sys.argv[1]):
    found = {"name": name, "version": None, "error": ""}
    try:
        found["version"] = version(name)
        importlib.import_module(module)
    except PackageNotFoundError:
        found["error"] = "not installed"
    except BaseException as error:
        found["error"] = " ".join((type(error).__name__ + ": " + str(error)).split())[:200]
    print("found " + json.dumps(found), flush=True)
"""


@dataclass(frozen=True)
class Package:
    """A distribution as an interpreter has it. `error` says why it cannot be used, or is empty."""

    name: str
    version: str | None
    error: str = ""


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """The version of Python that runs us."""
    shown = ".".join(str(part) for part in version)
    if version[:2] < OLDEST:
        return fault("python", f"{shown}, older than {'.'.join(map(str, OLDEST))}",
                     "install Python 3.11 or newer, then: make setup PYTHON=python3.11")
    return ok("python", shown)


def packages(*, limit: float = LIMIT) -> Finding:
    """Every package that we declare: importable by the interpreter that runs us, and of a version that we allow."""
    wanted = declared()
    if not wanted:
        return warning("packages", "the program's metadata names none: it was installed in an unusual way", MEND)
    found = installed(sys.executable, [one.name for one in wanted], limit=limit)
    if isinstance(found, str):
        return fault("packages", found, MEND)
    return judged(wanted, found, tested())


def of_experiments(interpreter: str, *, limit: float = LIMIT) -> Finding:
    """What kernels and experiments import, where they have an interpreter of their own."""
    if (shutil.which(interpreter) or interpreter) == sys.executable:
        return ok("experiments", "their interpreter is the program's own")
    found = installed(interpreter, (*KERNEL, *EXPERIMENTS), limit=limit)
    if isinstance(found, str):
        return fault("experiments", found, f"check sandbox.python ({interpreter})")
    missing = {one.name: f"{one.name} ({one.error})" for one in found if one.error}
    mend = f"{interpreter} -m pip install {' '.join(missing)}"
    if missing.keys() & set(KERNEL):
        return fault("experiments", f"{interpreter} lacks {', '.join(missing.values())}", mend)
    if missing:
        return warning("experiments", f"{interpreter} lacks {', '.join(missing.values())}: no experiment can use it",
                       f"if they should: {mend}")
    return ok("experiments", f"{interpreter} has all {len(found)} that they usually import")


def declared(root: Path = ROOT) -> list[Requirement]:
    """What the program asks for, extras left out: by pyproject.toml beside the code, or else as it was installed."""
    path = root / "pyproject.toml"
    if path.is_file():
        lines: list[str] = tomllib.loads(path.read_text())["project"]["dependencies"]
    else:
        lines = requires("scientist") or []
    return [one for line in lines if (one := Requirement(line)).marker is None or one.marker.evaluate({"extra": ""})]


def tested(root: Path = ROOT) -> dict[str, str]:
    """The versions that were tested together (constraints.txt beside the code); empty where it was not shipped."""
    path = root / "constraints.txt"
    found: dict[str, str] = {}
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            one = Requirement(line.partition("#")[0].strip())
        except InvalidRequirement:
            continue
        found[canonicalize_name(one.name)] = str(one.specifier).removeprefix("==")
    return found


def installed(interpreter: str, names: Sequence[str], *, limit: float) -> list[Package] | str:
    """Each distribution as a fresh process of the interpreter imports it; or a sentence, where that broke."""
    pairs = [(name, IMPORTED_AS.get(name, name.replace("-", "_"))) for name in names]
    ran = run([interpreter, "-c", SCRIPT, json.dumps(pairs)], limit=limit)
    lines = [line.removeprefix("found ") for line in ran.out.splitlines() if line.startswith("found ")]
    found: list[Package] = []
    for line in lines:
        values: dict[str, Any] = json.loads(line)
        found.append(Package(**values))
    if len(found) == len(names):
        return found
    return f"importing {names[len(found)]} broke the interpreter: {ran.said}" if found else ran.said


def judged(wanted: Sequence[Requirement], found: Sequence[Package], known: dict[str, str]) -> Finding:
    """Packages against what is asked for, and against the versions that were tested."""
    by_name = {one.name: one for one in found}
    broken = [f"{one.name} {one.version or ''}".strip() + f" ({one.error})" for one in found if one.error]
    wrong = [f"{name} {version} (wanted {need.specifier})" for need in wanted
             if (name := need.name) in by_name and (version := by_name[name].version) is not None
             and not need.specifier.contains(version, prereleases=True)]
    if broken or wrong:
        return fault("packages", "; ".join((*broken, *wrong)), MEND)
    other = [f"{one.name} {one.version} (tested {known[key]})" for one in found
             if (key := canonicalize_name(one.name)) in known and _public(one.version) != _public(known[key])]
    if other:
        return warning("packages", f"all {len(found)} import, but other versions than tested: {'; '.join(other)}",
                       f"if something misbehaves: {MEND}")
    return ok("packages", f"all {len(found)} import, " + ", ".join(
        f"{one.name} {one.version}" for one in found if one.name in ("torch", "numpy", "scikit-learn", "transformers")))


def _public(version: str | None) -> str:
    """A version without its build's mark: torch 2.13.0+cpu is torch 2.13.0."""
    return (version or "").partition("+")[0]
