"""The environment of a kernel: an allow-list of the host's, and what makes code repeatable."""

from __future__ import annotations

import os
import site
from pathlib import Path

from sandbox.settings import SandboxSettings

KERNEL_SIDE = Path(__file__).resolve().parent / "kernel_side"

_ALLOWED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES",
            "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")


def kernel_environment(settings: SandboxSettings, folder: Path, *, scratch: Path, cache: Path) -> dict[str, str]:
    """The whole environment of a kernel. No key or token of the host is in it: only `_ALLOWED` names pass.

    `scratch` lives as long as the kernel. `cache` is shared by the kernels of a run: matplotlib's font list takes
    seconds to build and is the same for all of them.
    """
    threads = str(settings.threads)
    environment = {name: os.environ[name] for name in _ALLOWED if name in os.environ}
    environment |= {
        "HOME": str(folder), "TMPDIR": str(scratch), "LAB_JOB": str(scratch / "job.json"),
        "PYTHONPATH": str(KERNEL_SIDE), "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1",
        "SOURCE_DATE_EPOCH": "0",  # the same PDF for the same figure
        "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads,
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TOKENIZERS_PARALLELISM": "false",
        "MPLBACKEND": "Agg", "MPLCONFIGDIR": str(cache / "matplotlib"), "XDG_CACHE_HOME": str(cache),
        "IPYTHONDIR": str(cache / "ipython"), "JUPYTER_RUNTIME_DIR": str(scratch),
        "JUPYTER_CONFIG_DIR": str(cache / "jupyter"), "JUPYTER_DATA_DIR": str(cache / "jupyter"),
    }
    if settings.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if site.ENABLE_USER_SITE:  # packages installed with --user are found by HOME, which we change
        environment["PYTHONUSERBASE"] = site.getuserbase()
    return environment
