"""Which GPUs a run may use: those that CUDA_VISIBLE_DEVICES leaves, and of these the ones that were asked for."""

from __future__ import annotations

from collections.abc import Sequence

from sandbox.errors import GpuError
from sandbox.gpus.device import Device


def visible(devices: Sequence[Device], variable: str | None) -> tuple[Device, ...]:
    """The devices that CUDA_VISIBLE_DEVICES leaves (None: it is not set), in its order.

    It holds indices, UUIDs, the beginnings of UUIDs, or UUIDs of MIG slices. What CUDA does not know ends the list: an
    index of -1 hides all that follow. Indices count in the order of the PCI bus, as with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    An index of a GPU that is cut into slices means its first slice.
    Source: CUDA C++ programming guide, "CUDA environment variables".
    """
    if variable is None:
        return tuple(devices)
    found: list[Device] = []
    for word in variable.split(","):
        one = _named(devices, word.strip())
        if one is None or one in found:
            break
        found.append(one)
    return tuple(found)


def chosen(seen: Sequence[Device], wanted: Sequence[str]) -> tuple[Device, ...]:
    """The devices that `sandbox.gpus` names: all where it is empty. Raises `GpuError`.

    An index counts among the visible ones, as torch does: with CUDA_VISIBLE_DEVICES=4,5, "0" is the GPU numbered 4.
    """
    found: list[Device] = []
    for word in wanted:
        one = next(iter(seen[int(word):]), None) if word.isdigit() else _named(seen, word)
        if one is None:
            raise GpuError(f"sandbox.gpus names {word!r}, which is none of the {len(seen)} visible GPUs: "
                           f"{listed(seen)}; give indices from 0, or UUIDs")
        if one in found:
            raise GpuError(f"sandbox.gpus names {one.uuid} twice: name each GPU once")
        found.append(one)
    return tuple(found) if wanted else tuple(seen)


def listed(devices: Sequence[Device]) -> str:
    """Devices in words."""
    return ", ".join(f"{place} {one.name} {one.uuid}" for place, one in enumerate(devices)) or "none"


def _named(devices: Sequence[Device], word: str) -> Device | None:
    """The one device of that index, UUID or beginning of a UUID."""
    if word.isdigit():
        return next((one for one in devices if one.index == int(word)), None)
    if not word.startswith(("GPU-", "MIG-")):
        return None
    exact = [one for one in devices if one.uuid == word]
    fits = exact or [one for one in devices if one.uuid.startswith(word)]
    return fits[0] if len(fits) == 1 else None
