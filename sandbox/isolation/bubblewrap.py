"""Build bubblewrap commands, which determine what a sandboxed command sees of this machine.

Guarantees: the filesystem contains the system's programs and libraries read-only, the paths in `SandboxSpec`, a private
/tmp and /dev/shm, and nothing else: no home, no source tree, no other run. Processes, System V objects, host name and
(by default) network are separate; the command has no capabilities and cannot gain any, nor create user namespaces. When
bubblewrap ends, so do all processes in the sandbox.

Limits: the sandbox is only as secure as the Linux kernel. System calls are filtered only by `lab._walls`. Names of host
folders are visible if a path inside them is mounted; /usr and parts of /etc can be read.

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

_TOO_WIDE_FOLDERS = "/etc /var /tmp /run /proc /sys /dev /bin /lib /lib64 /opt /mnt /srv".split()


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
    user = ["--unshare-user", "--disable-userns"] if sandbox.user_namespace else []
    network = [] if sandbox.network else ["--unshare-net"]
    seen = str(sandbox.folder_inside or sandbox.folder or "/")
    names = ("SYS_ADMIN", "SETPCAP", *(["NET_ADMIN"] if sandbox.has_inner_walls else ()))
    capable = [word for name in names for word in ("--cap-add", f"CAP_{name}")]
    guard = [sandbox.guard, "-I", "-S", str(WALLS_SCRIPT)] if sandbox.guard else []
    guard += ["--with-host"] if guard and sandbox.with_host else []
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
        *_system_arguments(sandbox),
        *_tree_arguments(sandbox),
        *(["--ro-bind", str(WALLS_SCRIPT), str(WALLS_SCRIPT)] if guard else ()),
        *(["--bind", str(sandbox.folder), seen] if sandbox.folder is not None else ()),
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
    """Whether a path, or the target of its links, is in any of the trees."""
    forms = {Path(os.path.abspath(path)), path.resolve()}
    return any(form.is_relative_to(tree) for form in forms for tree in {*trees, *(tree.resolve() for tree in trees)})


def select_exposable(trees: Iterable[Path]) -> tuple[Path, ...]:
    """Return the trees that may be mounted whole: none with a home or system folders, and none inside another."""
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
    """Check the folders that sandboxed code will read. Raises `IsolationError`."""
    home = Path.home()
    for name in paths:
        path = Path(name)
        why = (
            "is not an absolute path"
            if not path.is_absolute()
            else "does not exist"
            if not path.exists()
            else "contains your home or system folders, which experiments may not read"
            if home.is_relative_to(path.resolve()) or str(path.resolve()) in (*_TOO_WIDE_FOLDERS, *SYSTEM_FOLDERS)
            else "is not a folder"
            if not path.is_dir()
            else "is not readable by you"
            if not os.access(path, os.R_OK | os.X_OK)
            else ""
        )
        if why:
            raise IsolationError(f"sandbox.readable: {name!r} {why}: give folders of your own, such as your packages")


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
    tmp = ["--bind", str(sandbox.tmp)] if sandbox.tmp else memory
    return [
        *words,
        *_repeat_option("--ro-bind", map(Path, (*_SYSTEM_FILES, *(_NETWORK_FILES if sandbox.network else ())))),
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
