"""Packages installed for the experiments of a run."""

from __future__ import annotations

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel


class InstalledPackages(FrozenModel):
    """Packages installed in addition to those of the interpreter; their lock is `packages.lock` in the run."""

    sha256: str = Field(description="sha256 of the lock")
    packages: dict[str, str] = Field(description="name -> version of every installed package")
    asked: tuple[str, ...] = Field(default=(), description="requirements of settings and plan, as given")
    built: tuple[str, ...] = Field(default=(), description="no longer used: names of packages built from source")
    until: str = Field(default="", description="when they were resolved")
    python: str = Field(default="", description="version of the interpreter")
    bytes: int = Field(default=0, description="size of all files")
    seconds: float = Field(default=0.0, description="time for resolving and installing")
    shared: bool = Field(default=False, description="whether another run had already installed the same set")

    def __str__(self) -> str:
        return ", ".join(f"{name} {version}" for name, version in self.packages.items())
