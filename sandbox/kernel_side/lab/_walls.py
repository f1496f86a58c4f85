"""Isolate one cell (or script) from other cells in the same kernel: it limits what the process can see and do.

Guarantees, if the kernel runs in a sandbox with user namespaces: the process sees its own folder, private /tmp,
/dev/shm, terminals and cache, shared values and its inputs read-only, but no other cell's folder and not the kernel's
connection. System V objects are private, and so is the network, since the system keeps the addresses of closed
connections for a minute. It has no capabilities and cannot gain any, so it cannot mount or unmount anything, and cannot
read or trace the processes that can: its zygote (`lab._zygote`) and its kernel. System calls that reach beyond
namespaces (other families of sockets than those of the network namespace, keyrings, leases on files) are refused.
Limits: it can kill its zygote, which ends its kernel; times, process ids and the page cache may tell one cell about
another.

Source: mount_namespaces(7), network_namespaces(7), capabilities(7), seccomp(2), ptrace(2) ("Ptrace access mode
checking").
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import select
import shutil
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIBC: Any = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWIPC, _NEWNET = 0x00020000, 0x08000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_CAPBSET_READ, _CAPBSET_DROP, _NO_NEW_PRIVS, _AMBIENT, _AMBIENT_CLEAR = 23, 24, 38, 47, 4
_LINUX_CAPABILITY_VERSION = 0x20080522
_SET_FLAGS, _INTERFACE_UP = 0x8914, 1
_SECCOMP, _FILTER_MODE = 22, 2
_ARCHITECTURES = {"x86_64": (0xC000003E, 41, 72, (248, 249, 250)), "aarch64": (0xC00000B7, 198, 25, (217, 218, 219))}
"""Machine -> its number in filters, and those of the calls socket, fcntl, and add_key, request_key, keyctl."""
_SET_LEASE = 1024
"""A lease on a file lets others wait for up to a minute when they open it, the host included."""
_URING_SETUP, _FIRST_X32_CALL = 425, 0x40000000
"""Calls made through a ring are not filtered."""
_SOCKET_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
"""The families that a network namespace separates; others, such as AF_VSOCK, reach the host."""
_SMALL_TMPFS_OPTIONS = b"size=1m,mode=755"
"""Mount options for folders that contain only mount points."""


class WallsError(OSError):
    """The process could not be isolated."""


@dataclass(frozen=True)
class KernelWalls:
    """Folders shared by all cells of a kernel. Paths are as seen by the zygote."""

    root: str
    """The kernel's folder, which contains the folders of the cells."""
    scratch: str
    """The folder for communication with the host."""
    cache: str
    tmp: str
    own_network: bool = True
    """Whether each cell has a network of its own, without other machines."""

    @classmethod
    def from_environment(cls) -> KernelWalls | None:
        """Return None if the host has found that cells cannot be isolated."""
        if os.environ.get("LAB_WALLS") != "1":
            return None
        return cls(
            os.environ["HOME"],
            os.path.dirname(os.environ["LAB_JOB"]),
            os.environ["XDG_CACHE_HOME"],
            os.environ["TMPDIR"],
            os.environ["LAB_NETWORK"] == "off",
        )


@dataclass(frozen=True)
class PrivateRoom:
    """Private folder of one process, invisible to others while in use."""

    walls: KernelWalls
    place: str = field(default="")

    @classmethod
    def create(cls, walls: KernelWalls) -> PrivateRoom:
        """Create one. Its cache contains a file that each process would otherwise rebuild: matplotlib's font list."""
        place = tempfile.mkdtemp(prefix="room-", dir=walls.tmp)
        for name in ("tmp", "cache/shared"):
            os.makedirs(f"{place}/{name}")
        os.makedirs(f"{walls.cache}/shared", exist_ok=True)
        with suppress(OSError):
            shutil.copytree(
                f"{walls.cache}/matplotlib", f"{place}/cache/matplotlib", ignore=shutil.ignore_patterns("*-lock")
            )
        return cls(walls, place)

    def remove(self) -> None:
        """Remove it with its contents, when no process uses it any more."""
        remove_folder(self.place)

    def enter(self, own: str, inputs: str, job: bytes) -> None:
        """Isolate this process with its folder, its read-only inputs (empty: not protected) and the text of its job.

        Raises `WallsError`.
        """
        walls, scratch = self.walls, self.walls.scratch
        _check_result(LIBC.unshare(_NEWNS | _NEWIPC | (_NEWNET if walls.own_network else 0)), "unshare")
        if walls.own_network:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _INTERFACE_UP))
        _mount(None, "/", _REC | _PRIVATE)
        seen = _list_mounts_below(walls.tmp, without=(scratch, walls.cache))
        private = f"{self.place}/tmp", f"{self.place}/cache", f"{walls.cache}/shared", f"{scratch}/llm"
        kept = filter(os.path.exists, (own, inputs, *private, *seen))
        descriptors = {path: os.open(path, os.O_PATH) for path in kept}
        if own != walls.root:
            _mount_tmpfs(walls.root, _SMALL_TMPFS_OPTIONS)
            _bind_mount(descriptors[own], own)
        if inputs in descriptors:
            _bind_mount(descriptors[inputs], f"{own}/inputs", read_only=True)
        _bind_mount(descriptors[f"{self.place}/tmp"], walls.tmp)
        for path in seen:
            _bind_mount(descriptors[path], path)
        os.makedirs(scratch, exist_ok=True)
        _mount_tmpfs(scratch, _SMALL_TMPFS_OPTIONS)
        Path(scratch, os.path.basename(os.environ["LAB_JOB"])).write_bytes(job)
        if f"{scratch}/llm" in descriptors:
            _bind_mount(descriptors[f"{scratch}/llm"], f"{scratch}/llm")
        _mount(None, scratch, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
        _bind_mount(descriptors[f"{self.place}/cache"], walls.cache)
        _bind_mount(descriptors[f"{walls.cache}/shared"], f"{walls.cache}/shared", read_only=True)
        _protect_devices()
        _mount("devpts", "/dev/pts", _NOSUID | _NOEXEC, "devpts", b"newinstance,ptmxmode=0666,mode=620")
        size = os.statvfs("/dev/shm")
        _mount_tmpfs("/dev/shm", f"size={size.f_blocks * size.f_frsize},mode=1777".encode())
        os.chdir("/")  # the current folder is below one that is now covered
        for descriptor in descriptors.values():
            os.close(descriptor)
        _drop_privileges()


def remove_folder(place: str) -> None:
    """Remove a folder with its contents, including locked folders; the host removes what is nested too deep."""
    with suppress(RecursionError):
        for folder, inner, _ in os.walk(place):
            for path in (os.path.join(folder, name) for name in inner):
                with suppress(OSError):  # its path may be too long
                    if not os.path.islink(path):
                        os.chmod(path, 0o700)
        shutil.rmtree(place, ignore_errors=True)


def close_all_but(kept: Iterable[int]) -> None:
    """Close all other descriptors of this process."""
    first = 0
    for number in sorted(kept):
        if first < number:  # closerange(0, 0) would close everything
            os.closerange(first, number)
        first = number + 1
    os.closerange(first, 2**31 - 1)


# --- steps ------------------------------------------------------------------------------------------------------------


def _drop_privileges() -> None:
    for capability in range(64):
        if LIBC.prctl(_CAPBSET_READ, capability, 0, 0, 0) == 1:
            _check_result(LIBC.prctl(_CAPBSET_DROP, capability, 0, 0, 0), "drop of a capability")
    _check_result(LIBC.prctl(_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0), "drop of the ambient capabilities")
    header, none = (ctypes.c_uint32 * 2)(_LINUX_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _check_result(LIBC.capset(header, none), "capset")
    _check_result(LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _filter_system_calls()


def _filter_system_calls() -> None:
    """Refuse calls that namespaces do not separate, for this process and its future children. Raises `WallsError`."""
    if (known := _ARCHITECTURES.get(os.uname().machine)) is None:
        raise WallsError(errno.ENOSYS, "no numbers of system calls are known for this machine")
    architecture, socket_call, fcntl_call, key_calls = known
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allowed, refused, other_family = (
        (give, 0, 0, answer) for answer in (0x7FFF0000, 0x00050000 | errno.ENOSYS, 0x00050000 | errno.EAFNOSUPPORT)
    )
    steps = [(load, 0, 0, 4), (equal, 1, 0, architecture), refused, (load, 0, 0, 0)]
    steps += [(at_least, 0, 1, _FIRST_X32_CALL), refused]
    for call in (_URING_SETUP, *key_calls):
        steps += [(equal, 0, 1, call), refused]
    steps += [(equal, 0, 4, fcntl_call), (load, 0, 0, 24), (equal, 0, 1, _SET_LEASE), refused, allowed]
    steps += [(equal, 1, 0, socket_call), allowed, (load, 0, 0, 16)]
    for family in _SOCKET_FAMILIES:
        steps += [(equal, 0, 1, int(family)), allowed]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in (*steps, other_family)))
    program = struct.pack("@HP", len(steps) + 1, ctypes.addressof(code))
    _check_result(LIBC.prctl(_SECCOMP, _FILTER_MODE, program, 0, 0), "filter of system calls")


def _bind_mount(descriptor: int, target: str, *, read_only: bool = False) -> None:
    """Mount the file or folder behind a descriptor at a path, which is created if missing."""
    source = f"/proc/self/fd/{descriptor}"
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_NOFOLLOW, 0o600))
    _mount(source, target, _BIND | _REC)
    if read_only:
        _remount_read_only(target, _NODEV)


def _remount_read_only(target: str, flags: int = 0) -> None:
    """Remount a path read-only; devices can still be written to."""
    kept = os.statvfs(target).f_flag & _NOEXEC  # flags set outside must be kept
    _mount(None, target, _REMOUNT | _BIND | _RDONLY | _NOSUID | kept | flags)


def _protect_devices() -> None:
    """Prevent changes to mode or times of the machine's devices, which code running as root could make."""
    for device in _list_mounts_below("/dev", without=("/dev/shm", "/dev/pts")):
        _remount_read_only(device)
    for number in (0, 1, 2):
        if stat.S_ISCHR(os.fstat(number).st_mode):  # earlier descriptors stay open otherwise
            silent = os.open(os.devnull, os.O_RDWR)
            os.dup2(silent, number)
            os.close(silent)


def _mount_tmpfs(target: str, options: bytes) -> None:
    _mount("tmpfs", target, _NOSUID | _NODEV, "tmpfs", options)


def _mount(source: str | None, target: str, flags: int, kind: str | None = None, options: bytes | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _check_result(LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), options), f"mount of {target}")


def _list_mounts_below(place: str, *, without: tuple[str, ...]) -> list[str]:
    """List the outermost mounts under a folder, except those under `without`."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = [re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), line.split()[4]) for line in file]
    outermost: list[str] = []
    for path in sorted(points):
        covered = any(f"{path}/".startswith(f"{other}/") for other in (*without, *outermost))
        if path.startswith(f"{place}/") and not covered:
            outermost.append(path)
    return outermost


def _check_result(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise WallsError(number, f"{what}: {os.strerror(number)}")


def try_walls() -> None:
    """Test whether this process can be isolated. Raises `WallsError`."""
    walls = KernelWalls("/experiment", "/tmp/scratch", "/experiment/cache", "/tmp")
    os.makedirs(f"{walls.scratch}")
    os.makedirs("/experiment/cells/own/inputs")
    os.environ["LAB_JOB"] = f"{walls.scratch}/job.json"
    PrivateRoom.create(walls).enter("/experiment/cells/own", "/experiment/cells/own/inputs", b"{}")


def exec_without_privileges(command: list[str]) -> None:
    """Replace this process by a command without capabilities that cannot change devices. Raises `WallsError`,
    `OSError`."""
    _check_result(LIBC.unshare(_NEWNS), "unshare")
    _mount(None, "/", _REC | _PRIVATE)
    _protect_devices()
    _drop_privileges()
    os.execvp(command[0], command)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--with-host"]:
        del sys.argv[1]
        (host := select.poll()).register(0, 0)
        if host.poll(0):  # standard input has no writer any more: a sandbox ends with its host only once it is complete
            sys.exit("the host process ended before the command started")
    exec_without_privileges(sys.argv[1:]) if sys.argv[1:] else try_walls()
