"""The machine on which experiments ran: the properties on which their numbers may depend.

Also the environment variables for connections.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, MutableMapping

from pydantic import Field

from labwright.record.schema import FrozenModel


class Machine(FrozenModel):
    """A machine and the interpreter of its kernels."""

    processor: str = Field(description="model name of the CPU, or its architecture if unknown")
    cores: int = Field(description="CPU cores available")
    memory_bytes: int
    gpus: tuple[str, ...] = Field(default=(), description="model names of the GPUs in use; empty on the CPU")
    platform: str
    python: str = Field(description="version of the interpreter that runs experiments")
    packages: dict[str, str] = Field(default_factory=dict, description="installed distributions -> version")


BENCHMARK_NETWORK = "784 inputs, one hidden layer of 256, 10 classes; 4096 examples in batches of 128, plain SGD"
"""Description of the network whose epoch is timed; its code is in `sandbox.isolation.interpreter`."""


class ComputeRate(FrozenModel):
    """Speed of experiments: the resources of one experiment, and two times measured with these resources.

    As many processes are timed in parallel as experiments may run in parallel. None: not
    measurable.
    """

    processor: str
    cores: int
    memory_bytes: int = Field(description="memory limit of one experiment")
    gpus: tuple[str, ...] = ()
    threads: int = Field(description="thread limit of one experiment")
    at_once: int = Field(description="experiments that may run in parallel")
    library: str = Field(default="numpy", description="library used for timing: numpy, or torch on a GPU")
    product_seconds: float | None = Field(default=None, description="time of one 1024 x 1024 float32 matrix product")
    epoch_seconds: float | None = Field(
        default=None, description=f"time of one epoch of a small network: {BENCHMARK_NETWORK}"
    )
    moved: bool = False
    """Whether the run started with other resources, so that the speed was measured again when it was resumed here."""

    @property
    def without_times(self) -> ComputeRate:
        """The resources without the times; if they are equal, the speed need not be measured again."""
        return self.model_copy(update={"product_seconds": None, "epoch_seconds": None, "moved": False})


def describe_differences(first: Machine, second: Machine, *, packages: Iterable[str]) -> tuple[str, ...]:
    """Describe differences between two machines that may change the last digits of a number; only `packages`
    are compared."""
    values = [(one.processor, ", ".join(one.gpus), one.python) for one in (first, second)]
    rows = zip(("processor", "GPUs", "Python"), *values, strict=True)
    found = [f"{what} {a or 'none'} there, {b or 'none'} here" for what, a, b in rows if a != b]
    versions = [{name.lower(): version for name, version in one.packages.items()} for one in (first, second)]
    for name in packages:
        there, here = (known.get(name, "absent") for known in versions)
        found += [f"{name} {there} there, {here} here"] if there != here else []
    return tuple(found)


# Environment variables for connections: proxies and certificates, which HTTP clients read on their own.

_PROXY_VARIABLES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def normalise_no_proxy(environ: MutableMapping[str, str]) -> None:
    """Rewrite NO_PROXY entries that HTTP clients reject: `[::1]` loses its brackets, IPv6 networks (`fd00::/8`) are
    removed.

    Server names never match an IPv6 network, so no valid entry is lost.
    """
    for name in [name for name in environ if name.upper() == "NO_PROXY"]:
        kept = [one.strip() for one in environ[name].split(",") if not (":" in one and "/" in one and "://" not in one)]
        environ[name] = ",".join(one[1:-1] if one.startswith("[") and one.endswith("]") else one for one in kept)


def format_connection_advice(error: Exception) -> str:
    """Return advice for an environment in which no client could be created; it starts with a semicolon."""
    names = _CERTIFICATE_VARIABLES if isinstance(error, OSError) else _PROXY_VARIABLES
    named = [name for name, value in os.environ.items() if name.upper() in names and value]
    if isinstance(error, ImportError) and "socks" in str(error).lower():
        proxies = [name for name in named if os.environ[name].lower().startswith("socks")]
        return f"; pip install socksio, or unset {' and '.join(proxies) or 'the proxy'}"
    return f"; correct {' or '.join(named)}" if named else ""
