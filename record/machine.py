"""What experiments ran in, as far as their numbers may depend on it."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel


class Machine(FrozenModel):
    """A machine and the interpreter of its kernels."""

    processor: str = Field(description="model name of the CPU, or its architecture where it has none to tell")
    cores: int = Field(description="CPU cores that may be used")
    memory_bytes: int
    gpus: tuple[str, ...] = Field(default=(), description="model names of the GPUs in use; empty on the CPU")
    platform: str
    python: str = Field(description="version of the interpreter that runs experiments")
    packages: dict[str, str] = Field(default_factory=dict, description="its distributions -> version")


BENCHMARK_NETWORK = "784 inputs, one hidden layer of 256, 10 classes; 4096 examples in batches of 128, plain SGD"
"""The network whose epoch is timed, in words; `sandbox.isolation.interpreter` has its code."""


class ComputeRate(FrozenModel):
    """How fast experiments run: what one of them gets, and two times that were measured with just that.

    As many processes were timed at once as experiments may run at once. None: it could not be measured.
    """

    processor: str
    cores: int
    memory_bytes: int = Field(description="that one experiment may hold")
    gpus: tuple[str, ...] = ()
    threads: int = Field(description="that one experiment may use")
    at_once: int = Field(description="experiments that may run at the same time")
    library: str = Field(default="numpy", description="what the times were measured with: numpy, or torch on a GPU")
    product_seconds: float | None = Field(default=None, description="of one 1024 x 1024 float32 matrix product")
    epoch_seconds: float | None = Field(
        default=None, description=f"of one epoch of a small network: {BENCHMARK_NETWORK}"
    )
    moved: bool = Field(
        default=False,
        description="whether the run was begun on other terms, and this was measured when it was taken up here",
    )

    @property
    def without_times(self) -> ComputeRate:
        """The terms without the times: equal where measuring again would tell nothing new."""
        return self.model_copy(update={"product_seconds": None, "epoch_seconds": None, "moved": False})


def describe_differences(first: Machine, second: Machine, *, packages: Iterable[str]) -> tuple[str, ...]:
    """In what two machines differ that may change the last digits of a number, in words; of packages, these count."""
    found = [
        f"{what} {a or 'none'} there, {b or 'none'} here"
        for what, a, b in (
            ("processor", first.processor, second.processor),
            ("GPUs", ", ".join(first.gpus), ", ".join(second.gpus)),
            ("Python", first.python, second.python),
        )
        if a != b
    ]
    there, here = ({name.lower(): version for name, version in of.packages.items()} for of in (first, second))
    found += [
        f"{name} {there.get(name, 'absent')} there, {here.get(name, 'absent')} here"
        for name in packages
        if there.get(name) != here.get(name)
    ]
    return tuple(found)
