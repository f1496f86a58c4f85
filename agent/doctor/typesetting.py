"""The TeX set that papers are built with: programs, the packages that our templates load, and a base font."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from agent.doctor.command import run
from agent.doctor.finding import Finding, fault, ok, warning
from agent.doctor.systems import System

LIMIT = 30.0
NEEDED = {"pdflatex": "texlive-latex-base", "bibtex": "texlive-latex-base", "kpsewhich": "texlive-latex-base",
          "latexmk": "latexmk", "pdftotext": "poppler-utils", "pdffonts": "poppler-utils"}
"""Programs without which no paper is built or checked, and Debian's package of each."""
USEFUL = {"chktex": "chktex"}
"""Programs without which a paper is checked less."""

_BASE = {"article.cls", "fontenc.sty", "inputenc.sty", "amsmath.sty", "graphicx.sty", "array.sty", "longtable.sty",
         "hyperref.sty", "url.sty", "natbib.sty", "geometry.sty", "plainnat.bst"}
_FONTS = {"mathptmx.sty", "helvet.sty", "courier.sty", "ptmr8t.tfm", "amssymb.sty"}


def typesetting(system: System, templates: Path) -> Finding:
    """Whether papers can be built and checked."""
    missing = {name: package for name, package in NEEDED.items() if shutil.which(name) is None}
    files = [] if "kpsewhich" in missing else absent(wanted(templates))
    if isinstance(files, str):
        return fault("tex", files, system.install(NEEDED.values()))
    packages = {*missing.values(), *(package_of(name) for name in files)}
    if packages:
        named = ", ".join((*missing, *files))
        return fault("tex", f"missing: {named}; a run would end with the sources of its paper (exit 4)",
                     system.install(sorted(packages)))
    lesser = {name: package for name, package in USEFUL.items() if shutil.which(name) is None}
    if lesser:
        return warning("tex", f"papers can be built; missing: {', '.join(lesser)}", system.install(lesser.values()))
    return ok("tex", f"{', '.join((*NEEDED, *USEFUL))} and the {len(wanted(templates))} files that templates load")


def template(name: str) -> Finding:
    """Whether a template of the user's own, which the settings name, sets a paper of two lines."""
    from review.evidence.tex import TexMissing
    from stages.paper.sample import try_out
    from stages.paper.template import TemplateError, load

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


def absent(names: Iterable[str]) -> list[str] | str:
    """The files that TeX does not find; or a sentence, where it could not be asked."""
    names = list(names)
    ran = run(["kpsewhich", *names], limit=LIMIT)
    if ran.code is None:
        return ran.said
    found = {Path(line).name for line in ran.out.splitlines()}
    return [name for name in names if name not in found]


def package_of(name: str) -> str:
    """Debian's package that brings a file of TeX."""
    if name in _BASE:
        return "texlive-latex-base"
    return "texlive-fonts-recommended" if name in _FONTS else "texlive-latex-recommended"
