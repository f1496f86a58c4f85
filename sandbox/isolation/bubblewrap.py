"""What a command in a sandbox sees of this machine, written as arguments of bubblewrap.

Kept: the filesystem holds the system's programs and libraries read-only, what is named in `Sandbox`, a private /tmp and
/dev/shm, and nothing else: no home, no source tree, no other run. Processes, System V objects, the host's name and (by
default) the network are its own; it has no capability and can gain no privilege, and it makes no further user
namespaces. When bubblewrap ends, so do all processes in the sandbox.

Not kept: what a hole in the kernel allows. System calls are not filtered. Names of the host's folders can be seen where
something below them is bound; /usr and parts of /etc can be read.

Source: bubblewrap's manual, bwrap(1).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labwright.sandbox.errors import IsolationError

BWRAP_PROGRAM = "bwrap"
WALLS_SCRIPT = Path(__file__).resolve().parents[1] / "kernel_side" / "lab" / "_walls.py"
"""What puts up walls within a sandbox; run as a program without arguments, it tries to."""

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ssl",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/texmf",
    "/var/lib/texmf",
    "/var/cache/fonts",
    "/sys/devices",
    "/sys/bus/pci",
)
_READ_ONLY_PROC = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/mtrr",
    "/proc/acpi",
    "/proc/scsi",
)
"""Where the whole machine is set. For root these are open to be written to by mere ownership, without a capability, and
bubblewrap 0.8 closes only some of them."""
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/services", "/etc/pki", "/run/systemd/resolve")

_TOO_WIDE_FOLDERS = (
    "/etc",
    "/var",
    "/tmp",
    "/run",
    "/proc",
    "/sys",
    "/dev",
    "/bin",
    "/lib",
    "/lib64",
    "/opt",
    "/mnt",
    "/srv",
)


@dataclass(frozen=True)
class SandboxSpec:
    """What lies within. Paths are those of outside, but for `seen` and `mounts`; what does not exist is left out."""

    folder: Path
    """The working folder: writable."""
    folder_inside: Path | None = None
    """What the working folder is called inside; None: as outside."""
    writable: tuple[Path, ...] = ()
    mounts: tuple[tuple[Path, Path], ...] = ()
    """What lies elsewhere inside: (outside, inside), read-only."""
    environments: tuple[Path, ...] = ()
    """Whole trees, read-only, less what is `hidden`."""
    hidden: tuple[Path, ...] = ()
    """Folders that appear empty, and files that cannot be opened."""
    readable: tuple[Path, ...] = ()
    """Read-only, also where they lie below something hidden."""
    tmp: Path | None = None
    """The folder that serves as /tmp; without one it is in memory."""
    devices: tuple[Path, ...] = ()
    network: bool = False
    shm_bytes: int = 64 * 2**20
    has_inner_walls: bool = False
    """Whether the command puts up further walls within: then it is the first process, and has the capability for that,
    which it takes from whatever it runs."""
    guard: str = ""
    """The interpreter that first shuts the devices of the machine, and takes from the command the capability for that;
    without one, a command of root can set their modes."""
    user_namespace: bool = True
    """False only where the kernel forbids user namespaces and we are root: then capabilities alone are dropped."""


def build_command(command: Sequence[str], sandbox: SandboxSpec) -> list[str]:
    """The command line that runs a command in the sandbox, in its folder; the environment is handed on."""
    user = ["--unshare-user", "--disable-userns"] if sandbox.user_namespace else []
    network = [] if sandbox.network else ["--unshare-net"]
    seen = str(sandbox.folder_inside or sandbox.folder)
    capable = [word for name in ("SYS_ADMIN", "SETPCAP") for word in ("--cap-add", f"CAP_{name}")]
    guard = [sandbox.guard, "-I", "-S", str(WALLS_SCRIPT)] if sandbox.guard else []
    # JPY_PARENT_PID would make ipykernel wait for a process that it cannot see.
    return [
        BWRAP_PROGRAM,
        "--die-with-parent",
        "--new-session",
        *user,
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        *network,
        "--hostname",
        "sandbox",
        "--cap-drop",
        "ALL",
        *(["--as-pid-1"] if sandbox.has_inner_walls else ()),
        *(capable if sandbox.has_inner_walls or guard else ()),
        "--unsetenv",
        "JPY_PARENT_PID",
        *_system_arguments(sandbox),
        *_tree_arguments(sandbox),
        *(["--ro-bind", str(WALLS_SCRIPT), str(WALLS_SCRIPT)] if guard else ()),
        "--bind",
        str(sandbox.folder),
        seen,
        *(word for outside, inside in sandbox.mounts for word in ("--ro-bind", str(outside), str(inside))),
        "--remount-ro",
        "/",
        "--chdir",
        seen,
        "--",
        *guard,
        *command,
    ]


def is_visible(path: Path, trees: Iterable[Path]) -> bool:
    """Whether a path lies within one of the trees, itself or by what it links to."""
    forms = {Path(os.path.abspath(path)), path.resolve()}
    return any(form.is_relative_to(tree) for form in forms for tree in {*trees, *(tree.resolve() for tree in trees)})


def select_exposable(trees: Iterable[Path]) -> tuple[Path, ...]:
    """Those that may be shown whole: none that holds a home or the system's own folders, nor what lies in another."""
    home = Path.home()
    kept = {
        tree
        for tree in trees
        if tree.is_absolute()
        and tree.is_dir()
        and str(tree) not in _TOO_WIDE_FOLDERS
        and not tree.is_relative_to("/usr")
        and not home.is_relative_to(tree)
    }
    forms = kept | {tree.resolve() for tree in kept}
    return tuple(
        sorted(form for form in forms if not any(form != other and form.is_relative_to(other) for other in forms))
    )


def check_readable(paths: Iterable[str]) -> None:
    """Refuse what code in the sandbox is not to read, or cannot. Raises `IsolationError`."""
    home = Path.home()
    for name in paths:
        path = Path(name)
        why = (
            "is no absolute path"
            if not path.is_absolute()
            else "is not there"
            if not path.exists()
            else "holds your home or the system's own folders, which no experiment may read"
            if home.is_relative_to(path.resolve()) or str(path.resolve()) in (*_TOO_WIDE_FOLDERS, *SYSTEM_FOLDERS)
            else "is not a folder"
            if not path.is_dir()
            else "cannot be read by you"
            if not os.access(path, os.R_OK | os.X_OK)
            else ""
        )
        if why:
            raise IsolationError(f"{name!r} (sandbox.readable) {why}: name folders of your own, as your packages")


def _system_arguments(sandbox: SandboxSpec) -> list[str]:
    """Programs and libraries, /proc, /dev, and memory that serves as /dev/shm and, where no folder does, as /tmp."""
    words: list[str] = []
    for path in SYSTEM_FOLDERS:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    memory = ["--perms", "1777", "--size", str(sandbox.shm_bytes), "--tmpfs"]
    tmp = ["--bind", str(sandbox.tmp)] if sandbox.tmp else memory
    return [
        *words,
        *_repeat_option("--ro-bind", map(Path, _SYSTEM_FILES + (_NETWORK_FILES if sandbox.network else ()))),
        "--proc",
        "/proc",
        *_repeat_option("--ro-bind", map(Path, _READ_ONLY_PROC)),
        "--dev",
        "/dev",
        *_repeat_option("--dev-bind", sandbox.devices),
        *memory,
        "/dev/shm",
        "--remount-ro",
        "/dev",
        *tmp,
        "/tmp",
    ]


def _tree_arguments(sandbox: SandboxSpec) -> list[str]:
    """Trees, then what hides parts of them, then what shines through, then what can be written."""
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
