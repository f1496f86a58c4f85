"""The environment of a kernel: an allow-list of the host's, and what makes code repeatable."""

from __future__ import annotations

import os
import site
from pathlib import Path

from sandbox.gpus.device import Device
from sandbox.isolation.limits import rlimits
from sandbox.isolation.scratch import Scratch
from sandbox.settings import SandboxSettings

KERNEL_SIDE = Path(__file__).resolve().parent / "kernel_side"

_ALLOWED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME",
            "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")


def visible_devices() -> str | None:
    """CUDA_VISIBLE_DEVICES as this process was given it; None where it is not set."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def threads_of(settings: SandboxSettings) -> dict[str, str]:
    """The variables by which libraries keep to the threads of one experiment."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(settings.threads))


def kernel_environment(
    settings: SandboxSettings, folder: Path, *, scratch: Scratch, cache: Path, gpus: tuple[Device, ...] = (),
    isolated: bool = False,
) -> dict[str, str]:
    """The whole environment of a kernel. No key or token of the host is in it: only `_ALLOWED` names pass.

    `scratch` lives as long as the kernel. `cache` is shared by the kernels of a run: matplotlib's font list takes
    seconds to build and is the same for all of them; settings that code could leave there for others to run are not.
    The code sees the leased `gpus` and no others.
    """
    tmp = "/tmp" if isolated else str(scratch.tmp)
    environment = {name: os.environ[name] for name in _ALLOWED if name in os.environ}
    environment |= {
        "HOME": str(folder), "TMPDIR": tmp, "LAB_JOB": str(scratch.job), "LAB_RLIMITS": rlimits(settings),
        "PYTHONPATH": str(KERNEL_SIDE), "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1",
        "SOURCE_DATE_EPOCH": "0",  # the same PDF for the same figure
        **threads_of(settings),
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "LAB_DETERMINISTIC": str(int(settings.deterministic)),
        "TOKENIZERS_PARALLELISM": "false",
        "MPLBACKEND": "Agg", "MPLCONFIGDIR": str(cache / "matplotlib"), "XDG_CACHE_HOME": str(cache),
        "IPYTHONDIR": f"{tmp}/.ipython", "JUPYTER_RUNTIME_DIR": tmp, "JUPYTER_CONFIG_DIR": f"{tmp}/.jupyter",
        "JUPYTER_DATA_DIR": f"{tmp}/.jupyter",
    }
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(one.uuid for one in gpus)
    if site.ENABLE_USER_SITE:  # packages installed with --user are found by HOME, which we change
        environment["PYTHONUSERBASE"] = site.getuserbase()
    return environment
