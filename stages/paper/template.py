"""Load paper templates: folders with `template.toml` and style files, either built in (`templates_latex/`) or a user's
own (docs/paper.md). A venue's built-in template takes the official style from a folder of the user: `icml=DIR`.

A run keeps a copy of its template, named by its hash, so later changes of the folder or the program do not affect a
paper that is resumed, rebuilt or audited.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from labwright.record.errors import UsageError
from labwright.record.run_folder import create_draft_folder, seal_folder
from labwright.record.schema import FrozenModel

TEMPLATES_ROOT = Path(__file__).resolve().parents[2] / "templates_latex"
SHARED_FOLDER = "shared"
"""Folder below `TEMPLATES_ROOT` with the style files for every paper."""
DESCRIPTION_FILE = "template.toml"
OWN_TEMPLATES = ("conference", "workshop")
"""Templates that need only the small TeX set and files of the program."""
STYLE_SUFFIXES = frozenset({".cls", ".sty", ".bst", ".clo", ".def", ".cfg"})
"""Text files of a template that TeX reads; they are copied into every paper made with it."""
PICTURE_SUFFIXES = frozenset({".pdf", ".png", ".jpg"})

_FORBIDDEN_MACRO = re.compile(
    r"\\(?:write\s*18|ShellEscape|directlua|openin|openout)(?![a-zA-Z])|\\input\s*\{?\s*[|/~]|\\(?:input|include)\s*\{[^}]*\.\./"
)
_REDEFINED_MACRO = re.compile(
    r"\\(?:[gex]?def|let|\w*[nN]ewcommand|\w*DocumentCommand|DeclareRobustCommand)\s*\*?\s*\{?\s*\\(?:result|setup"
    r"|rec|resultvalue|setupvalue|maintextends|paperfigure|papertable|placefloat|definefloat)(?![a-zA-Z@])"
)
_COMMENT = re.compile(r"(?<!\\)%.*")


class TemplateError(UsageError):
    """Raised when a template does not exist or is invalid."""


class TemplateDescription(FrozenModel):
    """Contents of `template.toml`."""

    page_limit: int = Field(ge=1, le=100, description="pages of main text; references and appendix do not count")
    columns: int = Field(ge=1, le=2)
    extra_pages: int = Field(default=0, ge=0, le=20, description="further pages of a version that names its authors")
    counts_references: bool = Field(default=False, description="whether references count as main text")
    title: str = ""
    style: str = Field(
        default="", description="pattern of the style's file name, such as icml*.sty; of several the last is used"
    )
    preamble: str = Field(default="", description="document class and style, for the skeleton of the program")
    opening: str = Field(
        default="{\\hyphenpenalty=5000\\rightskip=0pt plus 4em\\maketitle}\n\\noticefootnote\n\n"
        "\\begin{abstract}\n<< abstract >>\n\\end{abstract}",
        description="what stands before the first section, for the skeleton of the program",
    )
    bibliography_style: str = Field(default="plainnat", description="empty if the style sets it")
    names_authors: bool = Field(default=True, description="whether the bibliography style has the authors for \\citet")
    hyperref: bool = Field(default=True, description="whether the style permits hyperref")
    checklist: bool = Field(default=False, description="whether the NeurIPS checklist ends the paper")
    skeleton: str = Field(
        default="paper.tex.jinja", pattern=r"^[\w.-]+$", description="name of a file in the template's folder"
    )
    text_width: float = Field(default=6.5, gt=1, lt=20, allow_inf_nan=False, description="inches, over all columns")
    text_height: float = Field(default=9.0, gt=1, lt=20, allow_inf_nan=False, description="inches of a page of text")
    column_gap: float = Field(default=0.25, ge=0, lt=5, allow_inf_nan=False, description="inches between two columns")
    prints: tuple[str, ...] = Field(
        default=(),
        description="strings with numbers that the style itself prints, such as the name of a conference; # stands for "
        "any number or ordinal",
    )


class PaperTemplate(TemplateDescription):
    """A loaded template. `name` is the requested name or path."""

    name: str
    folder: Path
    skeleton_path: Path
    styles: Mapping[str, Path]
    """Style files by name, including those for every paper."""
    pictures: Mapping[str, Path]

    @property
    def column_width(self) -> float:
        return self.text_width if self.columns == 1 else (self.text_width - self.column_gap) / 2

    @property
    def style_name(self) -> str:
        """Name of the venue's style for TeX, such as icml2026; empty if the template names none."""
        found = fnmatch.filter(self.styles, self.style)
        return Path(max(found)).stem if found else ""

    @property
    def files(self) -> dict[str, Path]:
        own = {DESCRIPTION_FILE: self.folder / DESCRIPTION_FILE, self.skeleton: self.skeleton_path}
        return {**own, **self.styles, **self.pictures}

    def add_extra_pages(self) -> PaperTemplate:
        """Return the template with the page limit of a version that names its authors."""
        return self.model_copy(update={"page_limit": self.page_limit + self.extra_pages})

    @property
    def sha256(self) -> str:
        """Hash over the names and bytes of all files."""
        digest = hashlib.sha256()
        for name, path in sorted(self.files.items()):
            content = path.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()


def load_template(name: str = "workshop") -> PaperTemplate:
    """Load a template by name, by `NAME=FOLDER` with the folder of a venue's style, or from a folder of its own.

    Raises `TemplateError`.
    """
    shared, known = TEMPLATES_ROOT / SHARED_FOLDER, list_templates()
    venue, _, kit = name.partition("=")
    if venue in known:
        if kit and not Path(kit).is_dir():
            raise TemplateError(f"template {name!r}: there is no folder {kit!r}: give the folder of the official style")
        found = _read_template(TEMPLATES_ROOT / venue, name, shared=shared, kit=Path(kit) if kit else None)
    elif Path(name).is_absolute() and Path(name).is_dir():
        found = _read_template(Path(name), name, shared=shared)
    else:
        raise TemplateError(
            f"there is no template {name!r}: give a built-in one ({', '.join(known)}) or the path of a template folder"
        )
    if found.style and not found.style_name:
        raise TemplateError(
            f"template {name!r} needs the official style: give the folder that has {found.style}, as {venue}=FOLDER"
        )
    _check_safety(found)
    return found


def list_templates() -> list[str]:
    """Return the names of the built-in templates."""
    return sorted(one.parent.name for one in TEMPLATES_ROOT.glob(f"*/{DESCRIPTION_FILE}"))


def resolve_template(value: str, base: Path) -> str:
    """Resolve a template setting: a built-in name stays unchanged, and the path of a folder, which is relative to
    `base`, becomes absolute.
    """
    venue, _, kit = value.partition("=")
    if venue in list_templates():
        return f"{venue}={(base / Path(kit).expanduser()).resolve()}" if kit else value
    folder = (base / Path(value).expanduser()).resolve()
    return str(folder) if folder.is_dir() or "/" in value else value


def copy_template(template: PaperTemplate, run_folder: Path) -> str:
    """Copy a template into `run_folder`; return its hash, which `load_copy` takes."""
    digest = template.sha256
    folder = run_folder / digest[:16]
    if not folder.is_dir():
        draft = create_draft_folder(folder)
        for name, path in template.files.items():
            (draft / name).write_bytes(path.read_bytes())
        seal_folder(draft, folder)
    return digest


def load_copy(run_folder: Path, digest: str) -> PaperTemplate:
    """Load a run's copy of a template. Raises `TemplateError` if it is missing or was changed."""
    folder = run_folder / digest[:16]
    if not (folder / DESCRIPTION_FILE).is_file():
        raise TemplateError(f"the run's copy of its template is missing: {folder}; name one with --template")
    found = _read_template(folder, str(folder))
    if found.sha256 != digest:
        raise TemplateError(f"the run's copy of its template was changed: {folder}; name one with --template")
    return found


def _read_template(folder: Path, name: str, shared: Path | None = None, kit: Path | None = None) -> PaperTemplate:
    path = folder / DESCRIPTION_FILE
    try:
        described = TemplateDescription.model_validate(tomllib.loads(path.read_text(encoding="utf-8")), strict=False)
    except FileNotFoundError:
        raise TemplateError(
            f"template {str(folder)!r} has no {DESCRIPTION_FILE}: write one with page_limit and columns"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TemplateError(f"cannot read {str(path)!r}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        message = {
            "missing": f"the key {key!r} is missing; page_limit and columns are required",
            "extra_forbidden": f"unknown key {key!r}; known keys: {', '.join(TemplateDescription.model_fields)}",
        }.get(first["type"], f"{key!r} {first['msg'].removeprefix('Input ')}, not {first['input']!r}")
        raise TemplateError(f"{str(path)!r}: {message}") from None
    own = _find_files(folder, STYLE_SUFFIXES | PICTURE_SUFFIXES)
    own |= _find_files(kit, STYLE_SUFFIXES) if kit is not None else {}
    common = _find_files(shared, STYLE_SUFFIXES) if shared is not None else {}
    if reserved := sorted(own.keys() & common.keys()):
        raise TemplateError(
            f"template {str(kit or folder)!r} contains {reserved[0]!r}, a name reserved for the program: remove it"
        )
    skeleton = folder / described.skeleton
    if shared is not None and described.preamble and not skeleton.exists():
        skeleton = shared / described.skeleton
    styles = {**common, **{name: path for name, path in own.items() if path.suffix in STYLE_SUFFIXES}}
    for path in (*styles.values(), skeleton):
        try:
            path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise TemplateError(f"template {str(folder)!r} has no skeleton {path.name!r}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(f"cannot read {str(path)!r} as UTF-8: {error}") from None
    return PaperTemplate(
        **described.model_dump(),
        name=name,
        folder=folder,
        skeleton_path=skeleton,
        styles=styles,
        pictures={name: path for name, path in own.items() if path.suffix in PICTURE_SUFFIXES},
    )


def _find_files(folder: Path, suffixes: frozenset[str]) -> dict[str, Path]:
    return {path.name: path for path in sorted(folder.iterdir()) if path.suffix in suffixes and path.is_file()}


def _check_safety(template: PaperTemplate) -> None:
    """Refuse templates that access files or programs from TeX, or redefine how numbers get into a paper."""
    for path in template.files.values():
        if TEMPLATES_ROOT in path.parents or path.suffix in PICTURE_SUFFIXES:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = _COMMENT.sub("", line)
            for pattern, why in (
                (_FORBIDDEN_MACRO, "a template may not run programs or open files"),
                (_REDEFINED_MACRO, "it binds the paper to the record"),
            ):
                if found := pattern.search(code):
                    command = found[0].strip()
                    raise TemplateError(f"{str(path)!r}, line {number}: the command {command!r} is forbidden: {why}")
