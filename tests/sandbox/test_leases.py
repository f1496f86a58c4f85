"""GPU leases on simulated devices; locks are real files, and competing runs are real processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labwright.sandbox.gpus import GpuLeases, acquire_gpu_slot, filter_visible_devices, open_gpu_leases, select_devices
from labwright.sandbox.job import ExecutorError, GpuError
from labwright.sandbox.settings import SandboxSettings
from tests.fake_executor import FakeNvml, make_gpus

FOUR = make_gpus(4)


def uuid(n: int) -> str:
    return FOUR[n].uuid


# --- which -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "places"),
    [
        (None, [0, 1, 2, 3]),
        ("-1", []),
        ("2,0", [2, 0]),
        ("0,-1,2", [0]),
        ("1,1,2", [1]),
        (f"{uuid(3)},0", [3, 0]),
        ("GPU-0000", []),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_does(variable: str | None, places: list[int]) -> None:
    assert filter_visible_devices(FOUR, variable) == tuple(FOUR[place] for place in places)


def test_gpus_are_chosen_among_the_visible() -> None:
    seen = filter_visible_devices(FOUR, "3,1")
    assert select_devices(seen, ()) == (FOUR[3], FOUR[1])
    assert select_devices(seen, ("1",)) == (FOUR[1],)
    assert select_devices(seen, (uuid(3),)) == (FOUR[3],)
    with pytest.raises(GpuError, match=r"sandbox\.gpus: '2' is not one of the 2 visible GPUs: 0 scripted GPU-00000003"):
        select_devices(seen, ("2",))
    with pytest.raises(GpuError, match=r"names GPU-00000001.* twice"):
        select_devices(seen, ("1", uuid(1)))


# --- leases ----------------------------------------------------------------------------------------------------------


def leases(folder: Path, nvml: FakeNvml, variable: str | None = None, **settings: object) -> GpuLeases:
    given: dict[str, object] = {"device": "cuda", "gpu_wait": 0.3, **settings}
    return open_gpu_leases(SandboxSettings.model_validate(given), variable, nvml=nvml, folder=folder)


def hurried(folder: Path, nvml: FakeNvml) -> GpuLeases:
    """Create leases on all devices, with time running twenty times faster."""
    settings = SandboxSettings(device="cuda", gpu_wait=1.0)
    return GpuLeases(nvml, nvml.list_devices(), settings, folder=folder, clock=lambda: 20 * time.monotonic())


async def test_each_attempt_has_a_gpu_of_its_own_and_waits_for_one(tmp_path: Path) -> None:
    ours = leases(tmp_path / "locks", FakeNvml(FOUR), "2,0")
    assert ours.capacity == 2
    first, second = await ours.acquire(), await ours.acquire()
    assert [first.uuids, second.uuids] == [(uuid(2),), (uuid(0),)]
    third = asyncio.create_task(ours.acquire())
    await asyncio.sleep(0.5)  # longer than gpu_wait, which counts only while this run holds no GPU
    assert not third.done()
    ours.release(second, ())
    assert (await third).uuids == (uuid(0),)
    await ours.close()


async def test_several_gpus_are_given_together_or_not_at_all(tmp_path: Path) -> None:
    nvml = FakeNvml(FOUR[:3])
    pairs, single = leases(tmp_path / "locks", nvml, gpus_per_node=2), leases(tmp_path / "locks", nvml)
    pair, one = await pairs.acquire(), await single.acquire()
    assert (pair.uuids, one.uuids) == ((uuid(0), uuid(1)), (uuid(2),))
    waiting = asyncio.create_task(pairs.acquire())
    single.release(one, ())
    await asyncio.sleep(0.3)
    assert not waiting.done()
    assert (await single.acquire()).uuids == (uuid(2),)  # a waiting pair holds neither of its GPUs
    pairs.release(pair, ())
    assert (await waiting).uuids == (uuid(0), uuid(1))
    await pairs.close()
    await single.close()


async def test_a_lease_ends_when_the_driver_lists_our_processes_no_more(tmp_path: Path) -> None:
    nvml = FakeNvml(FOUR[:1])
    ours = leases(tmp_path / "locks", nvml)
    lease = await ours.acquire()
    nvml.used_bytes[uuid(0)] = {4242: 10**9, 77: 10**9}  # the second belongs to another process, which stays
    ours.release(lease, [4242])
    waiting = asyncio.create_task(ours.acquire())
    await asyncio.sleep(0.3)
    assert not waiting.done()
    del nvml.used_bytes[uuid(0)][4242]
    assert (await waiting).uuids == (uuid(0),)
    await ours.close()


async def test_a_process_that_never_ends_keeps_its_gpu_and_the_wait_for_it_has_a_limit(tmp_path: Path) -> None:
    nvml = FakeNvml(FOUR[:1])
    ours = hurried(tmp_path / "locks", nvml)
    lease = await ours.acquire()
    nvml.used_bytes[uuid(0)] = {4242: 10**9, 77: 10**9}
    ours.release(lease, [4242])
    words = rf"^an experiment has ended but still holds {uuid(0)} by process 4242: stop it with kill -9; "
    with pytest.raises(GpuError, match=words + r"as a result, within 1 s, no GPU had 2 GB free"):
        await ours.acquire()
    await ours.close()


async def test_neighbours_are_respected(tmp_path: Path) -> None:
    nvml = FakeNvml(FOUR[:2])
    nvml.used_bytes[uuid(0)] = {77: 79 * 10**9}
    ours = leases(tmp_path / "locks", nvml)
    lease = await ours.acquire()
    assert (lease.uuids, lease.free_bytes) == ((uuid(1),), {uuid(1): 80 * 10**9})
    ours.release(lease, ())
    await asyncio.sleep(0)
    nvml.used_bytes[uuid(1)] = {78: 79 * 10**9}
    with pytest.raises(GpuError, match=r"no GPU had 2 GB free .* 1\.0 GB free, processes: 1.*gpu_free_gb"):
        await ours.acquire()
    await ours.close()


# --- two runs --------------------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from labwright.sandbox.gpus import acquire_gpu_slot
held = acquire_gpu_slot(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
print("taken" if held else "refused", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("theirs", "ours", "refused"), [(1, 1, True), (1, 2, True), (2, 1, True), (2, 2, False)])
def test_two_runs_share_the_locks_and_a_killed_run_holds_none(
    tmp_path: Path, theirs: int, ours: int, refused: bool
) -> None:
    folder = tmp_path / "locks"
    command = [sys.executable, "-c", HOLD, str(folder), uuid(0), str(theirs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "taken\n"
        place = acquire_gpu_slot(folder, uuid(0), ours)
        assert (place is None) == refused
        if place is not None:
            assert acquire_gpu_slot(folder, uuid(0), ours) is None  # both of two places are taken
            place.close()
        other.kill()
        other.wait()
    again = acquire_gpu_slot(folder, uuid(0), ours)
    assert again is not None
    again.close()


def test_the_locks_are_out_of_reach_of_others(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ExecutorError, match="must be a folder that only you can access"):
        acquire_gpu_slot(folder, uuid(0), 1)
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(ExecutorError, match="must be a folder"):
        acquire_gpu_slot(folder, uuid(0), 1)


# --- no GPU ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "variable", "settings", "words"),
    [
        (0, None, {}, r"sandbox\.device is cuda, but the driver lists no GPU; .*--set sandbox\.device=cpu"),
        (2, "1", {"gpus": "1"}, r"sandbox\.gpus: '1' is not one of the 1 visible GPUs"),
    ],
)
def test_a_gpu_that_is_not_there_is_said_in_one_line(
    tmp_path: Path, devices: int, variable: str | None, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(GpuError, match=words) as caught:
        leases(tmp_path, FakeNvml(make_gpus(devices)), variable, **settings)
    assert "\n" not in str(caught.value)
