"""Whether an idea's estimate is within the means of this machine, by rule.

Not guaranteed: that the estimate is right. It is a model's guess; what is checked is that it fits.
"""

from __future__ import annotations

import re

from record.ideation import DataNeed, Estimate, Fit, Means

_HUB = re.compile(r"^(?:hf:)?[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?(?:@[\w.-]+)?$")


def fit_of(estimate: Estimate, means: Means) -> Fit:
    """Whether an estimate fits, and what does not, one sentence each."""
    why = [*_time(estimate, means), *_memory(estimate, means), *_software(estimate, means),
           *(fault for need in estimate.data if (fault := _data(need, means)))]
    return Fit(fits=not why, why=tuple(why))


def _time(estimate: Estimate, means: Means) -> list[str]:
    found: list[str] = []
    if estimate.hours > means.hours:
        found.append(f"it takes {estimate.hours:g} h by its estimate, and the run may take {means.hours:g} h")
    if estimate.node_hours > means.node_hours:
        found.append(f"its longest experiment takes {estimate.node_hours:g} h, and one may take {means.node_hours:g} h")
    if estimate.node_hours > estimate.hours:
        found.append(f"one experiment of {estimate.node_hours:g} h does not fit into a study of {estimate.hours:g} h")
    return found


def _memory(estimate: Estimate, means: Means) -> list[str]:
    wanted = estimate.gpu_memory_gb
    if not wanted:
        return []
    if not means.gpus:
        return [f"it wants a GPU with {wanted:g} GB, and the run has none"]
    if means.gpu_memory_gb and wanted > means.gpu_memory_gb:
        return [f"it wants {wanted:g} GB of GPU memory, and there are {means.gpu_memory_gb:g} GB"]
    return []


def _software(estimate: Estimate, means: Means) -> list[str]:
    have = {_package(one.split()[0]) for one in means.packages if one.strip()}
    found = [f"the package {name!r} is not installed" for name in estimate.packages
             if _package(name) not in have and _package(name) not in _STANDARD]
    if estimate.network and not means.network:
        found.append("its experiments need a network, and have none")
    models = {one.split("@")[0] for one in means.pretrained}
    found += [f"the pretrained model {name!r} is not on this machine, and the hub is not reached"
              for name in estimate.pretrained if name.split("@")[0] not in models and not means.fetching]
    return found


def _data(need: DataNeed, means: Means) -> str | None:
    if need.source in ("catalogue", "own"):
        have = means.own if need.source == "own" else means.datasets
        return None if need.name in have else (
            f"there is no dataset {need.name!r} here; there are {', '.join(have) or 'none'}")
    if need.source == "hub":
        if not _HUB.match(need.name):
            return f"{need.name!r} is no dataset of the hub: name it OWNER/SET"
        return None if means.fetching else f"the dataset {need.name!r} is on the hub, which is not reached from here"
    if need.source == "other":
        return f"the dataset {need.name!r} cannot be had: it is neither here nor on the hub"
    return None


_STANDARD = frozenset(("python", "json", "math", "random", "itertools", "collections", "statistics", "csv", "re"))


def _package(name: str) -> str:
    name = re.split(r"[\[=<>~!; ]", name.strip(), maxsplit=1)[0].lower().replace("_", "-")
    return {"sklearn": "scikit-learn", "pil": "pillow", "cv2": "opencv-python"}.get(name, name)
