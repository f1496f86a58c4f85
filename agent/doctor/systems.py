"""How a missing program is installed, by family of Linux distribution."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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


@dataclass(frozen=True)
class System:
    """A distribution by its os-release: `ID`, `VERSION_ID` and the family it belongs to."""

    id: str = "linux"
    version: str = ""
    family: Family = "other"

    def install(self, packages: Iterable[str]) -> str:
        """The command that installs what Debian calls by these names."""
        names = [name for one in packages for name in _PACKAGES.get(self.family, {}).get(one, one).split()]
        return f"{_COMMANDS[self.family]} {' '.join(dict.fromkeys(names))}"


def read_system(path: Path = Path("/etc/os-release")) -> System:
    """The distribution that we run on; one without a name where the file cannot be read."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return System()
    values: dict[str, str] = {key: value.strip().strip("\"'")
                              for key, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)}
    names = [values.get("ID", "linux"), *re.findall(r"[\w.-]+", values.get("ID_LIKE", ""))]
    known: list[Family] = [family for name in names if (family := _FAMILIES.get(name.partition("-")[0])) is not None]
    return System(names[0], values.get("VERSION_ID", ""), known[0] if known else "other")
