"""What was installed for the experiments of a run."""

from __future__ import annotations

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel


class InstalledPackages(FrozenModel):
    """Packages that experiments import beside those of their interpreter; their lock is `packages.lock` in the run."""

    sha256: str = Field(description="of the lock")
    packages: dict[str, str] = Field(description="name -> version, of all that was installed")
    asked: tuple[str, ...] = Field(default=(), description="by settings and plan, as they were asked for")
    built: tuple[str, ...] = Field(default=(), description="names of those that were built from their source")
    until: str = Field(default="", description="nothing uploaded later was taken; empty: an index that does not tell")
    python: str = Field(default="", description="version of the interpreter")
    bytes: int = Field(default=0, description="of all files")
    seconds: float = Field(default=0.0, description="that resolving and installing took")
    shared: bool = Field(default=False, description="whether another run had installed the same before")

    def __str__(self) -> str:
        return ", ".join(f"{name} {version}" for name, version in self.packages.items())
