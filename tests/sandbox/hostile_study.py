"""A study whose first cell attacks its kernel and the other cells. `python -m tests.sandbox.hostile_study PLACE` runs
it and prints the outcome and output of each cell as JSON. It runs in a separate process if it must run as another
user."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from labwright.record.schema.nodes import Cell
from labwright.sandbox.datasets import materialise
from labwright.sandbox.job import CellResult, Job
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import cell_tasks
from tests.sandbox.conftest import DatasetStore, run_alone

LEFT_RUNNING = "71.23"
"""Seconds that a process left behind by a cell sleeps."""
PROGRAM = f"""
import ctypes, errno, fcntl, glob, os, resource, signal, socket, subprocess, time
import numpy as np
import lab

LIBC = ctypes.CDLL(None, use_errno=True)
SHM_KEY, KEYCTL_GET_PERSISTENT, PROCESS_KEYRING = 4711, 22, -2

def say(name, act):
    ctypes.set_errno(0)
    try:
        found = act()
    except OSError as error:
        found = errno.errorcode[error.errno]
    if found == -1:
        found = errno.errorcode[ctypes.get_errno()]
    print("SAYS", name, found, flush=True)

def files():
    # descriptors may refer to files that outlive this process
    return [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)
            and os.readlink("/proc/self/fd/" + name).startswith("/") and not os.get_inheritable(int(name))]

def attributes():
    return [name for number in files() for name in os.listxattr(number)]

def opened(pattern):
    count = 0
    for path in glob.glob(pattern):
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            count += 1
        except OSError:
            pass
    return count

def taken(pid):
    pidfd = os.pidfd_open(pid)
    return sum(LIBC.syscall(438, pidfd, number, 0) >= 0 for number in range(64))

def connected():
    open_ = 0
    for line in open("/proc/net/unix").read().splitlines()[1:]:
        path = line.split()[7:]
        if path:
            try:
                socket.socket(socket.AF_UNIX).connect(path[0].replace("@", chr(0), 1))
                open_ += 1
            except OSError:
                pass
    return open_

def attack():
    for who, pid in (("first", 1), ("zygote", os.getppid())):
        for part in ("mem", "environ", "fd/*", "root/experiment", "cwd/cells", "maps", "map_files/*", "task/*/mem"):
            say(who + " " + part, lambda: opened("/proc/" + str(pid) + "/" + part))
        say(who + " pidfd_getfd", lambda: taken(pid))
        say(who + " ptrace", lambda: LIBC.ptrace(0x4206, pid, 0, 0))
        vector = (ctypes.c_void_p * 2)(id(attack), 8)
        say(who + " process_vm_readv", lambda: LIBC.process_vm_readv(pid, vector, 1, vector, 1, 0))
        say(who + " setns", lambda: LIBC.setns(os.open("/proc/" + str(pid) + "/ns/mnt", os.O_RDONLY), 0))
    say("connection", lambda: [name for place in ("/tmp", "/experiment", "/dev", "/run")
                               for _, _, names in os.walk(place)
                               for name in names if name == "connection.json" or name.startswith("k-")])
    say("scratch", lambda: sorted(os.listdir(os.path.dirname(os.environ["LAB_JOB"]))))
    say("sockets", connected)
    say("umount folder", lambda: LIBC.umount2(b"/experiment", 2))
    say("umount tmp", lambda: LIBC.umount2(b"/tmp", 2))
    say("mount", lambda: LIBC.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None))
    say("remount", lambda: LIBC.mount(None, os.environ["XDG_CACHE_HOME"].encode() + b"/shared", None, 32 | 4096, None))
    say("new mounts", lambda: LIBC.unshare(0x20000))
    say("new user", lambda: LIBC.unshare(0x10000000))
    say("own capabilities", lambda: [line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")])
    say("inherited capabilities", lambda: subprocess.run(
        ["grep", "-c", "^Cap.*0000000000000000", "/proc/self/status"], capture_output=True, text=True).stdout.strip())
    say("cells", lambda: sorted(os.listdir("/experiment")) + sorted(os.listdir("/experiment/cells")))
    say("shared", lambda: open(os.environ["XDG_CACHE_HOME"] + "/shared/planted", "w").write("x"))
    say("inputs", lambda: open("inputs/planted", "w").write("x"))
    say("job", lambda: open(os.environ["LAB_JOB"], "w").write("x"))
    say("rename", lambda: os.rename(os.getcwd(), os.getcwd() + ".away"))
    say("device", lambda: os.utime("/dev/full", (1, 1)))
    say("input", lambda: os.utime(0, (1, 1)))
    # these do not belong to a network namespace, or make calls that are not seen
    for family in (socket.AF_VSOCK, 38):
        say("family " + str(int(family)), lambda: socket.socket(family, socket.SOCK_STREAM))
    say("uring", lambda: LIBC.syscall(425, 1, ctypes.byref(ctypes.create_string_buffer(120))))
    say("keys", lambda: LIBC.syscall(250, KEYCTL_GET_PERSISTENT, -1, PROCESS_KEYRING))

    with open("/bin/true") as file:  # whoever opens it would wait
        say("lease", lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK))

def leave_connection():
    # the system keeps the ports of a closed connection for a minute
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other = server.accept()[0]
        for end in (one, other):
            end.close()

def nest():
    # a path longer than the system takes, which the zygote must remove
    here = os.getcwd()
    os.chdir("/tmp")
    for _ in range(18):
        os.mkdir(250 * "d")
        os.chdir(250 * "d")
    os.chdir(here)

def leave():
    nest()
    for number in files():
        os.setxattr(number, "user.left", b"left")
        os.fchmod(number, 0)
    for name in ("digits__honest", "digits__other"):
        os.symlink("/usr", "/experiment/cells/" + name)
    for place in ("/tmp/left", "/dev/shm/left", os.environ["XDG_CACHE_HOME"] + "/left", "/experiment/left"):
        open(place, "w").close()
    np.left = os.environ["LEFT"] = "left"
    LIBC.shmget(SHM_KEY, 4096, 0o1666)
    leave_connection()
    os.chmod("/dev/pts/ptmx", 0)
    if os.fork() == 0:
        LIBC.prctl(36, 1, 0, 0, 0)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(chr(0) + "left")
        listener.listen()
        subprocess.Popen(["sh", "-c", "setsid sh -c 'trap \\"\\" TERM INT HUP; sleep {LEFT_RUNNING}' &"],
                         start_new_session=True)
        time.sleep(60)
    time.sleep(0.3)

def settings():
    return [resource.getrlimit(resource.RLIMIT_NOFILE), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0),
            open("/proc/self/coredump_filter").read()]

def look():
    say("places", lambda: [place for place in ("/tmp/left", "/dev/shm/left", "/experiment/left",
                           os.environ["XDG_CACHE_HOME"] + "/left") if os.path.exists(place)])
    say("memory", lambda: [hasattr(np, "left"), "LEFT" in os.environ])
    say("segment", lambda: LIBC.shmget(SHM_KEY, 4096, 0))
    say("attributes", attributes)
    say("processes", lambda: len([pid for pid in os.listdir("/proc") if pid.isdigit()]))
    say("abstract", lambda: socket.socket(socket.AF_UNIX).connect(chr(0) + "left"))
    say("connections", lambda: open("/proc/net/tcp").readlines()[1:])
    say("loopback", lambda: sum(map(int, open("/proc/net/dev").read().partition("lo:")[2].split()[:16])))
    say("own port", leave_connection)
    say("terminal", lambda: len(os.openpty()))
    say("locks", lambda: [name for name in os.listdir(os.environ["XDG_CACHE_HOME"] + "/shared") if "lock" in name])
    say("set", lambda: settings() == lab.shared("settings", settings))

def run(cell):
    data = lab.data(cell.dataset)
    lab.submit(split="validation", predictions=np.zeros(len(data.validation.x), int))
    if cell.arm == "hostile":
        attack()
        leave()
    elif cell.arm == "setting":
        for pid in (1, os.getppid()):
            say("limit of " + str(pid), lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (16, 16)))
            say("priority of " + str(pid), lambda: os.setpriority(os.PRIO_PROCESS, pid, 7))
            say("input priority of " + str(pid), lambda: LIBC.syscall(251, 1, pid, 3 << 13))
            say("dumps of " + str(pid), lambda: open("/proc/" + str(pid) + "/coredump_filter", "w").write("0x7f"))
            say("processors of " + str(pid), lambda: os.sched_setaffinity(pid, sorted(os.sched_getaffinity(0))[:1]))
    elif cell.arm == "unlucky" and lab.restore() is None:
        lab.checkpoint(1)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    elif cell.arm == "deadly":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    else:
        look()

lab.measure(run)
"""
ARMS = ("hostile", "other", "setting", "honest", "unlucky", "deadly", "last")


def run_hostile_cells(place: Path, isolation: str) -> dict[str, list[str]]:
    """Measure a cell of each arm in turn; return outcome, reason and output (`name: found`) of each."""
    materialise("digits", views=place / "views", labels=place / "labels", seed=1)
    settings = SandboxSettings.model_validate({"isolation": isolation, "grace": 0.5})
    cells = tuple(Cell(dataset="digits", arm=arm) for arm in ARMS)
    said: dict[str, list[str]] = {}

    async def took(cell: Cell, outcome: CellResult, folder: Path) -> Path:
        text = (folder / "stdout.txt").read_text()
        said[cell.arm] = [line[5:] for line in text.splitlines() if line.startswith("SAYS ")]
        return folder

    job = Job(
        name="hostile",
        folder=place / "job",
        source={"experiment.py": PROGRAM},
        cells=cell_tasks(cells, expected={cell: 9.0 - at for at, cell in enumerate(cells)}),
        timeout=300.0,
        may_skip_cells=False,
    )
    store = DatasetStore(place / "views", place / "labels", place / "cache")
    outcome = asyncio.run(run_alone(store, job, settings=settings, commit=took))
    return {line.cell.arm: [line.outcome, line.why, *said.get(line.cell.arm, ())] for line in outcome.cells}


if __name__ == "__main__":
    print(json.dumps(run_hostile_cells(Path(sys.argv[1]), sys.argv[2])))
