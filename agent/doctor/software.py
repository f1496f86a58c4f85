"""Software that a run needs: Python and its packages, TeX for its papers, and how to install what is missing."""

from __future__ import annotations

import asyncio
import json
import platform
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from agent.doctor.probe import Finding, fault, ok, run, warning
from review.evidence.tex import TexMissing
from stages.paper.sample import try_out
from stages.paper.template import TemplateError, load

ROOT = Path(__file__).resolve().parents[2]
OLDEST = (3, 11)
LIMIT = 180.0
"""Seconds for importing everything: torch and its like take long from a cold disk."""

FIX = "pip install -c constraints.txt -e . in the program's folder (or: make setup)"
IMPORTED_AS = {
    "scikit-learn": "sklearn", "pillow": "PIL", "pyyaml": "yaml", "pydantic-ai-slim": "pydantic_ai",
    "nvidia-ml-py": "pynvml", "python-dotenv": "dotenv",
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
        return warning("packages", "the program's metadata names none: it was installed in an unusual way", FIX)
    found = installed(sys.executable, [one.name for one in wanted], limit=limit)
    if isinstance(found, str):
        return fault("packages", found, FIX)
    return judged(wanted, found, tested())


def of_experiments(interpreter: str, *, limit: float = LIMIT) -> Finding:
    """What kernels and experiments import, where they have an interpreter of their own."""
    if (shutil.which(interpreter) or interpreter) == sys.executable:
        return ok("experiments", "their interpreter is the program's own")
    found = installed(interpreter, (*KERNEL, *EXPERIMENTS), limit=limit)
    if isinstance(found, str):
        return fault("experiments", found, f"check sandbox.python ({interpreter})")
    missing = {one.name: f"{one.name} ({one.error})" for one in found if one.error}
    fix = f"{interpreter} -m pip install {' '.join(missing)}"
    if missing.keys() & set(KERNEL):
        return fault("experiments", f"{interpreter} lacks {', '.join(missing.values())}", fix)
    if missing:
        return warning("experiments", f"{interpreter} lacks {', '.join(missing.values())}: no experiment can use it",
                       f"if they should: {fix}")
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
    found = [Package(**json.loads(line.removeprefix("found "))) for line in ran.out.splitlines()
             if line.startswith("found ")]
    if len(found) == len(names):
        return found
    return f"importing {names[len(found)]} broke the interpreter: {ran.problem}" if found else ran.problem


def judged(wanted: Sequence[Requirement], found: Sequence[Package], known: dict[str, str]) -> Finding:
    """Packages against what is asked for, and against the versions that were tested."""
    by_name = {one.name: one for one in found}
    broken = [f"{one.name} {one.version or ''}".strip() + f" ({one.error})" for one in found if one.error]
    wrong = [f"{name} {version} (wanted {need.specifier})" for need in wanted
             if (name := need.name) in by_name and (version := by_name[name].version) is not None
             and not need.specifier.contains(version, prereleases=True)]
    if broken or wrong:
        return fault("packages", "; ".join((*broken, *wrong)), FIX)
    other = [f"{one.name} {one.version} (tested {known[key]})" for one in found  # torch 2.13.0+cpu is torch 2.13.0
             if (key := canonicalize_name(one.name)) in known
             and (one.version or "").partition("+")[0] != known[key].partition("+")[0]]
    if other:
        return warning("packages", f"all {len(found)} import, but other versions than tested: {'; '.join(other)}",
                       f"if something misbehaves: {FIX}")
    return ok("packages", f"all {len(found)} import, " + ", ".join(
        f"{one.name} {one.version}" for one in found if one.name in ("torch", "numpy", "scikit-learn", "transformers")))


# --- distributions of Linux ------------------------------------------------------------------------------------------

Family = Literal["debian", "fedora", "arch", "suse", "alpine", "other"]

_FAMILIES: dict[str, Family] = {
    "debian": "debian", "ubuntu": "debian", "fedora": "fedora", "rhel": "fedora", "centos": "fedora", "arch": "arch",
    "suse": "suse", "opensuse": "suse", "sles": "suse", "alpine": "alpine",
}
_COMMANDS: dict[Family, str] = {
    "debian": "sudo apt-get install -y --no-install-recommends", "fedora": "sudo dnf install -y",
    "arch": "sudo pacman -S --needed", "suse": "sudo zypper install -y", "alpine": "sudo apk add",
    "other": "install with your package manager:",
}
_PACKAGES: dict[Family, dict[str, str]] = {
    "fedora": {
        "texlive-latex-base": "texlive-latex texlive-bibtex",
        "texlive-latex-recommended": "texlive-collection-latexrecommended",
        "texlive-fonts-recommended": "texlive-collection-fontsrecommended", "chktex": "texlive-chktex"},
    "arch": {
        "texlive-latex-base": "texlive-basic texlive-latex", "texlive-latex-recommended": "texlive-latexrecommended",
        "texlive-fonts-recommended": "texlive-fontsrecommended", "latexmk": "texlive-binextra",
        "chktex": "texlive-binextra", "poppler-utils": "poppler"},
    "suse": {
        "texlive-latex-base": "texlive-latex texlive-bibtex",
        "texlive-latex-recommended": "texlive-collection-latexrecommended",
        "texlive-fonts-recommended": "texlive-collection-fontsrecommended", "latexmk": "texlive-latexmk",
        "chktex": "texlive-chktex", "poppler-utils": "poppler-tools"},
    "alpine": {
        "texlive-latex-base": "texlive", "texlive-latex-recommended": "texmf-dist-latexextra",
        "texlive-fonts-recommended": "texmf-dist-fontsrecommended", "latexmk": "texlive-binextra",
        "chktex": "texlive-binextra"},
}
"""Names of Debian's packages elsewhere, where they differ."""


def install_command(family: Family, packages: Iterable[str]) -> str:
    """The command that installs what Debian calls by these names."""
    names = [name for one in packages for name in _PACKAGES.get(family, {}).get(one, one).split()]
    return f"{_COMMANDS[family]} {' '.join(dict.fromkeys(names))}"


def read_family() -> Family:
    """The family of the Linux distribution that we run on."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "other"
    names = (release["ID"], *release.get("ID_LIKE", "").split())
    known: list[Family] = [family for name in names if (family := _FAMILIES.get(name.partition("-")[0])) is not None]
    return known[0] if known else "other"


# --- TeX -------------------------------------------------------------------------------------------------------------

TEX_LIMIT = 30.0
NEEDED = {"pdflatex": "texlive-latex-base", "bibtex": "texlive-latex-base", "kpsewhich": "texlive-latex-base",
          "latexmk": "latexmk", "pdftotext": "poppler-utils", "pdffonts": "poppler-utils"}
"""Programs without which no paper is built or checked, and Debian's package of each."""
USEFUL = {"chktex": "chktex"}
"""Programs without which a paper is checked less."""

_BASE = {"article.cls", "fontenc.sty", "inputenc.sty", "amsmath.sty", "graphicx.sty", "array.sty", "longtable.sty",
         "hyperref.sty", "url.sty", "natbib.sty", "geometry.sty", "plainnat.bst"}
_FONTS = {"mathptmx.sty", "helvet.sty", "courier.sty", "ptmr8t.tfm", "amssymb.sty"}


def typesetting(family: Family, templates: Path) -> Finding:
    """Whether papers can be built and checked."""
    missing = {name: package for name, package in NEEDED.items() if shutil.which(name) is None}
    files = [] if "kpsewhich" in missing else absent(wanted(templates))
    if isinstance(files, str):
        return fault("tex", files, install_command(family, NEEDED.values()))
    packages = {*missing.values(), *(package_of(name) for name in files)}
    if packages:
        named = ", ".join((*missing, *files))
        return fault("tex", f"missing: {named}; a run would end with the sources of its paper (exit 4)",
                     install_command(family, sorted(packages)))
    lesser = {name: package for name, package in USEFUL.items() if shutil.which(name) is None}
    if lesser:
        return warning("tex", f"papers can be built; missing: {', '.join(lesser)}",
                       install_command(family, lesser.values()))
    return ok("tex", f"{', '.join((*NEEDED, *USEFUL))} and the {len(wanted(templates))} files that templates load")


def template(name: str) -> Finding:
    """Whether a template of the user's own, which the settings name, sets a paper of two lines."""
    try:
        asyncio.run(try_out(load(name)))
    except TexMissing as error:
        return warning("template", f"{name} was not tried", str(error))
    except TemplateError as error:
        return fault("template", str(error), "see docs/templates.md")
    return ok("template", f"{name} sets a paper of two lines")


def wanted(templates: Path) -> tuple[str, ...]:
    """The files that our templates load: their packages, and the base class and font."""
    found = {"article.cls", "ptmr8t.tfm"}
    for path in sorted(path for kind in ("cls", "sty", "tex.jinja") for path in templates.glob(f"*/*.{kind}")):
        for group in re.findall(r"^[^%\n]*\\(?:RequirePackage|usepackage)(?:\[[^\]]*\])?\{([^}]*)\}",
                                path.read_text(), re.MULTILINE):
            found |= {f"{name.strip()}.sty" for name in group.split(",")}
    own = {path.name for path in templates.glob("*/*.sty")}
    return tuple(sorted(found - own))


def absent(names: Sequence[str]) -> list[str] | str:
    """The files that TeX does not find; or a sentence, where it could not be asked."""
    ran = run(["kpsewhich", *names], limit=TEX_LIMIT)
    found = {Path(line).name for line in ran.out.splitlines()}
    return ran.problem if ran.code is None else [name for name in names if name not in found]


def package_of(name: str) -> str:
    """Debian's package that brings a file of TeX."""
    if name in _BASE:
        return "texlive-latex-base"
    return "texlive-fonts-recommended" if name in _FONTS else "texlive-latex-recommended"
