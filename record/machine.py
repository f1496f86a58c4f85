"""What experiments ran in, as far as their numbers may depend on it."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from record.nouns.frozen import Frozen


class Machine(Frozen):
    """A machine and the interpreter of its kernels."""

    processor: str = Field(description="model name of the CPU, or its architecture where it has none to tell")
    cores: int = Field(description="CPU cores that may be used")
    memory_bytes: int
    gpus: tuple[str, ...] = Field(default=(), description="model names of the GPUs in use; empty on the CPU")
    platform: str
    python: str = Field(description="version of the interpreter that runs experiments")
    packages: dict[str, str] = Field(default_factory=dict, description="its distributions -> version")


def unlike(one: Machine, other: Machine, *, packages: Iterable[str]) -> tuple[str, ...]:
    """In what two machines differ that may change the last digits of a number, in words; of packages, these count."""
    found = [f"{what} {a or 'none'} there, {b or 'none'} here" for what, a, b in (
        ("processor", one.processor, other.processor), ("GPUs", ", ".join(one.gpus), ", ".join(other.gpus)),
        ("Python", one.python, other.python)) if a != b]
    there, here = ({name.lower(): version for name, version in of.packages.items()} for of in (one, other))
    found += [f"{name} {there.get(name, 'absent')} there, {here.get(name, 'absent')} here" for name in packages
              if there.get(name) != here.get(name)]
    return tuple(found)
