"""Paper templates: a folder each with template.toml, a skeleton and style files; ours under templates_latex/, or a
user's own (docs/templates.md).

A run keeps a copy of the template it began with, named by its hash: neither a change of the user's folder nor a new
version of ours reaches a paper that is resumed, built again or audited.

    TemplateError   the person who named it: there is none of that name, or it cannot be used; one line says why
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from labwright.record.errors import WrongUse
from labwright.record.folder import draft_of, seal
from labwright.record.nouns.frozen import Frozen

ROOT = Path(__file__).resolve().parents[2] / "templates_latex"
SHARED = "shared"
"""The folder under ROOT with the style files that go with every paper."""
DESCRIPTION = "template.toml"
STYLES = frozenset({".cls", ".sty", ".bst", ".clo", ".def", ".cfg"})
"""Text files of a template that TeX reads; they are copied into every paper made with it."""
PICTURES = frozenset({".pdf", ".png", ".jpg"})
MOST_FILES, MOST_BYTES = 60, 8_000_000
"""What a folder may hold at most of all of these: somebody who names the wrong folder is to learn it at once."""

_FORBIDDEN = re.compile(
    r"\\(?:write\s*18|ShellEscape|directlua|openin|openout)\b|\\input\s*\{?\s*[|/~]|\\(?:input|include)\s*\{[^}]*\.\./"
)
_OURS = re.compile(
    r"\\(?:[gex]?def|let|\w*[nN]ewcommand|\w*DocumentCommand|DeclareRobustCommand)\s*\*?\s*\{?\s*\\(?:result|setup|verdict"
    r"|rec|resultvalue|setupvalue|verdictvalue|maintextends|paperfigure|papertable|placefloat|definefloat)(?![a-zA-Z@])"
)
_COMMENT = re.compile(r"(?<!\\)%.*")


class TemplateError(WrongUse):
    """A template is not there or cannot be used."""


class Description(Frozen):
    """What template.toml says."""

    page_limit: int = Field(ge=1, le=100, description="pages of main text; references and appendix do not count")
    columns: int = Field(ge=1, le=2)
    title: str = ""
    skeleton: str = Field(default="paper.tex.jinja", pattern=r"^[\w.-]+$", description="a file of the folder")
    text_width: float = Field(default=6.5, gt=1, lt=20, allow_inf_nan=False, description="inches, over all columns")
    column_gap: float = Field(default=0.25, ge=0, lt=5, allow_inf_nan=False, description="inches between two columns")
    prints: tuple[str, ...] = Field(
        default=(), description="texts with numbers that the style prints itself, as the name of a conference"
    )


class Template(Description):
    """A template that can be read. `name` is what it was asked for with."""

    name: str
    folder: Path
    styles: Mapping[str, Path]
    """Style files by name, those that go with every paper among them."""
    pictures: Mapping[str, Path]

    @property
    def column_width(self) -> float:
        return self.text_width if self.columns == 1 else (self.text_width - self.column_gap) / 2

    @property
    def files(self) -> dict[str, Path]:
        own = (DESCRIPTION, self.skeleton)
        return {**{name: self.folder / name for name in own}, **self.styles, **self.pictures}

    @property
    def sha256(self) -> str:
        """One hash over the names and bytes of its files."""
        digest = hashlib.sha256()
        for name, path in sorted(self.files.items()):
            content = path.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()


def load(name: str = "workshop", root: Path = ROOT) -> Template:
    """The template of that name, or in that folder. Raises `TemplateError`."""
    if name in names(root):
        return _read(root / name, name, shared=root / SHARED if (root / SHARED).is_dir() else ROOT / SHARED)
    folder = Path(name)
    if folder.is_absolute() and folder.is_dir():
        found = _read(folder, name, shared=ROOT / SHARED)
        _check_own(found)
        return found
    known = ", ".join(names(root)) or "none"
    raise TemplateError(f"there is no template {name!r}, neither of ours ({known}) nor a folder of your own")


def names(root: Path = ROOT) -> list[str]:
    """The templates that come with the program."""
    return sorted(one.parent.name for one in root.glob(f"*/{DESCRIPTION}"))


def located(value: str, base: Path) -> str:
    """A template as a setting names it: one of ours by its name, a folder as an absolute path, seen from `base`."""
    if value in names():
        return value
    folder = (base / Path(value).expanduser()).resolve()
    return str(folder) if folder.is_dir() or "/" in value else value


def keep(template: Template, place: Path) -> str:
    """Copy a template into a run, below `place`; returns its hash, by which `kept` finds it again."""
    digest = template.sha256
    folder = place / digest[:16]
    if not folder.is_dir():
        draft = draft_of(folder)
        for name, path in template.files.items():
            (draft / name).write_bytes(path.read_bytes())
        seal(draft, folder)
    return digest


def kept(place: Path, digest: str) -> Template:
    """A run's own copy of a template. Raises `TemplateError` where it is gone or no longer what was recorded."""
    folder = place / digest[:16]
    if not (folder / DESCRIPTION).is_file():
        raise TemplateError(f"the run's copy of its template is gone: {folder}; name one with --template")
    found = _read(folder, str(folder))
    if found.sha256 != digest:
        raise TemplateError(f"the run's copy of its template was changed: {folder}; name one with --template")
    return found


def _read(folder: Path, name: str, shared: Path | None = None) -> Template:
    path = folder / DESCRIPTION
    try:
        described = Description.model_validate(tomllib.loads(path.read_text(encoding="utf-8")), strict=False)
    except FileNotFoundError:
        raise TemplateError(
            f"template {str(folder)!r} has no {DESCRIPTION}: write one with page_limit and columns"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TemplateError(f"cannot read {str(path)!r}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        said = {
            "missing": f"the key {key!r} is missing; page_limit and columns must be there",
            "extra_forbidden": f"unknown key {key!r}; there are {', '.join(Description.model_fields)}",
        }.get(first["type"], f"{key!r} {first['msg'].removeprefix('Input ')}, not {first['input']!r}")
        raise TemplateError(f"{str(path)!r}: {said}") from None
    own = _files(folder, STYLES | PICTURES)
    common = _files(shared, STYLES) if shared is not None else {}
    if taken := sorted(own.keys() & common.keys()):
        raise TemplateError(f"template {str(folder)!r} holds {taken[0]!r}, a name of the program's own: remove it")
    styles = {**common, **{name: path for name, path in own.items() if path.suffix in STYLES}}
    for path in (*styles.values(), folder / described.skeleton):
        try:
            path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise TemplateError(f"template {str(folder)!r} has no skeleton {path.name!r}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(f"cannot read {str(path)!r} as UTF-8: {error}") from None
    return Template(
        **described.model_dump(),
        name=name,
        folder=folder,
        styles=styles,
        pictures={name: path for name, path in own.items() if path.suffix in PICTURES},
    )


def _files(folder: Path, suffixes: frozenset[str]) -> dict[str, Path]:
    found = {path.name: path for path in sorted(folder.iterdir()) if path.suffix in suffixes and path.is_file()}
    size = sum(path.stat().st_size for path in found.values())
    if len(found) > MOST_FILES or size > MOST_BYTES:
        raise TemplateError(
            f"template {str(folder)!r} holds {len(found)} files for TeX, {size / 1e6:.1f} MB; at most "
            f"{MOST_FILES} and {MOST_BYTES / 1e6:g} MB: leave only what its style needs"
        )
    return found


def _check_own(template: Template) -> None:
    """Refuse what would reach out of TeX, or would change how numbers get into a paper."""
    for path in (template.folder / template.skeleton, *template.styles.values()):
        lines = path.read_text(encoding="utf-8").splitlines() if path.parent == template.folder else []
        for number, line in enumerate(lines, 1):
            code = _COMMENT.sub("", line)
            if found := _FORBIDDEN.search(code):
                raise TemplateError(
                    f"{str(path)!r}, line {number}: the command {found[0].strip()!r} is forbidden: a "
                    "template runs no program and opens no file"
                )
            if found := _OURS.search(code):
                raise TemplateError(
                    f"{str(path)!r}, line {number}: {found[0].strip()!r} is forbidden: this macro ties "
                    "the paper to the record"
                )
