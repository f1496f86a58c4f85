"""The environment of a run: versions, devices, and their disclosure in the paper.

Also which model judges the work of a run.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from labwright.agent.settings import Settings
from labwright.models.roles import ROLES
from labwright.models.settings import REVIEWING_ROLES, ModelSettings, find_family, is_same_family
from labwright.record.events.search_events import REDUCTION_AUTHOR, REVIEW_AUTHOR
from labwright.record.machine import ComputeRate, Machine
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import ResourceNeeds
from labwright.sandbox.gpus import GpuDevice, open_gpu_leases, read_cuda_visible_devices
from labwright.sandbox.isolation.bubblewrap import BUBBLEWRAP
from labwright.sandbox.isolation.interpreter import inspect_interpreter, measure_rate
from labwright.sandbox.isolation.processes import compute_cell_capacity, compute_limits, read_machine_memory
from labwright.sandbox.job import GpuError
from labwright.sandbox.settings import SandboxSettings

REPORTED_PACKAGES = tuple("torch numpy scipy scikit-learn transformers datasets pandas matplotlib pillow".split())
"""Packages that prompts mention if installed."""


def list_packages(python: str) -> tuple[str, ...]:
    """List the packages available to experiments, as `name version`."""
    found = {name.lower(): version for name, version in inspect_interpreter(python).packages.items()}
    return tuple(f"{name} {found[name]}" for name in REPORTED_PACKAGES if name in found)


def describe_machine(settings: SandboxSettings) -> Machine:
    """Describe this machine and the interpreter of its kernels. Raises `ExecutorError` if the interpreter does not
    run."""
    found, processor = inspect_interpreter(settings.python), platform.machine()
    with contextlib.suppress(OSError):
        if model := re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            processor = " ".join(model[1].split())
    return Machine(
        processor=processor,
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=read_machine_memory(),
        gpus=tuple(one.name for one in find_devices(settings)),
        platform=found.platform,
        python=found.version,
        packages=found.packages,
    )


def measure_machine_rate(
    settings: SandboxSettings, *, at_once: int, known: ComputeRate | None = None
) -> ComputeRate | None:
    """Measure the compute rate with this many concurrent experiments; None if `known` was measured under the same
    conditions.

    Raises: `ExecutorError` if the interpreter of the kernels does not run.
    """
    machine, gpus = describe_machine(settings), find_devices(settings)
    places = len(gpus) * settings.slots_per_gpu // settings.gpus_per_node if gpus else at_once
    terms = ComputeRate(
        **machine.model_dump(include={"processor", "cores", "gpus"}),
        threads=settings.threads,
        memory_bytes=compute_limits(settings, slots=at_once).memory_bytes,
        at_once=max(1, min(at_once, places)),
        library="torch" if gpus else "numpy",
        moved=known is not None,
    )
    if known is not None and known.without_times == terms.without_times:
        return None
    return measure_rate(terms, settings, gpus)


def max_cell_resources(settings: SandboxSettings) -> ResourceNeeds:
    """Return the maximum resources of one cell on this machine or on a machine of the cluster."""
    if settings.executor == "ray":
        from labwright.sandbox.cluster.actor import compute_max_cell_capacity

        return compute_max_cell_capacity(settings)
    return compute_cell_capacity(settings, len(find_devices(settings)))


def find_devices(settings: SandboxSettings) -> tuple[GpuDevice, ...]:
    """Return the GPUs that the settings choose; empty if they cannot be queried, which the executor reports."""
    try:
        return open_gpu_leases(settings, read_cuda_visible_devices()).devices
    except GpuError:
        return ()


NO_ISOLATION_TEXT = "Experiments ran as ordinary processes, without isolation"
LABELS_EXPOSED_TEXT = (
    f"{NO_ISOLATION_TEXT}: withheld labels were not handed to their code, but it "
    "could have reached them, so values computed from its predictions are graded 'computed', not 'scored'."
)
NETWORK_ON_TEXT = (
    "Each experiment ran in a sandbox (bubblewrap) that kept the withheld labels from its code, but with a network, "
    "where labels of public data can be found; so values computed from its predictions are graded 'computed', not "
    "'scored'."
)
ISOLATED_TEXT = (
    "Each experiment ran in a sandbox (bubblewrap), with no network and no file but its own folder and the data views: "
    "its code could not reach the withheld labels."
)
REPOSITORY_NUMBERS_TEXT = (
    " The numbers are those that the repository's own code computes and reports, on data that it reads itself: no "
    "label was withheld from it, and all its values are graded 'logged'."
)
REPOSITORY_LABELS_TEXT = (
    " The labels of its predictions lay where the repository's code could not reach them. On what the code trained, it "
    "alone decides."
)
REPOSITORY_REACHABLE_LABELS_TEXT = (
    " The repository's code could have reached the labels of its predictions, so values computed from these are graded "
    "'computed', not 'scored'."
)
STRICT_ISOLATION_TEXT = (
    "Each experiment ran in a sandbox (bubblewrap), with no network and no file but a checkout of its own and what was "
    "mounted for it."
)
CHANGED_TERMS_TEXT = " This holds for a part of the run: it was resumed under other conditions."


def describe_isolation_for_readers(state: RunState) -> str:
    """Describe for the paper the weakest isolation that experiments of the run had."""
    statements = [
        ISOLATED_TEXT if one == BUBBLEWRAP else NETWORK_ON_TEXT if one.startswith(BUBBLEWRAP) else LABELS_EXPOSED_TEXT
        for one in state.isolations or ("",)
    ]
    if any(facts.source.startswith("git:") for facts in state.search.datasets):
        where = NO_ISOLATION_TEXT + "." if LABELS_EXPOSED_TEXT in statements else STRICT_ISOLATION_TEXT
        if not any(facts.sizes for facts in state.search.datasets):
            return where + REPOSITORY_NUMBERS_TEXT
        reachable = where != STRICT_ISOLATION_TEXT
        return where + (REPOSITORY_REACHABLE_LABELS_TEXT if reachable else REPOSITORY_LABELS_TEXT)
    weakest = next(text for text in (LABELS_EXPOSED_TEXT, NETWORK_ON_TEXT, ISOLATED_TEXT) if text in statements)
    return weakest + CHANGED_TERMS_TEXT * (len(set(statements)) > 1)


def paper_notice(state: RunState) -> str:
    """Return the statement on the origin of the paper for its appendix."""
    assert state.started is not None
    planned = state.find_approval("plan")
    edited_plan = (
        state.started.plan is not None
        or (planned is not None and planned.plan is not None)
        or any(one.by not in (REDUCTION_AUTHOR, REVIEW_AUTHOR) for one in state.search.amendments)
    )
    did = ["wrote or edited the data plan"] if edited_plan else []
    if state.user_nodes:
        did.append(f"wrote the code of {', '.join(f'{node.id} ({node.author})' for node in state.user_nodes)}")
    approval = state.find_approval("paper")
    if approval is not None and approval.draft is not None:
        did.append("edited the text")
    if passed := [name for name in state.gates if state.find_approval(name) is not None]:
        did.append(f"approved the {' and the '.join(passed)} before the program went on")
    people = "No person checked or edited it."
    if did:
        people = f"A person {' and '.join(did)}; no person checked or edited the rest."
    return (
        f"This paper was written by a program, scientist {state.started.version}, with the model "
        f"{' and '.join(state.models)}: plan, code, experiments, figures and text. {people}"
    )


# Say which model judges the work of a run, and how to have one of another family do it.

DEFAULT_REVIEWERS = {
    "ANTHROPIC": "anthropic:claude-sonnet-5-5",
    "OPENAI": "openai:gpt-6.1-sol",
    "GEMINI": "google:gemini-4-argon",
    "GOOGLE": "google:gemini-4-argon",
}
"""By provider as in NAME_API_KEY, a general model at $2 and $10 per million tokens in and out, which judges the work of
another provider's model. Source: genai-prices 0.2.3, November 2026."""


def choose_reviewer(settings: Settings, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return settings with a default reviewer, if none is configured and the keys of both providers are set.

    None is chosen next to a local or command-line model, and none of a provider whose address the environment changes.
    """
    models, keyed = settings.models, _list_keyed(environ)
    provider = models.name.partition(":")[0].partition("-")[0]
    others = [name for name in keyed if not name.startswith(f"{provider}:")]
    paid = models.base_url is None and others != keyed
    if not others or not paid or models.reviewer is not None or models.find_reviewer() is not None:
        return settings
    return settings.model_copy(update={"models": models.model_copy(update={"reviewer": others[0]})})


def describe_reviewer(models: ModelSettings, environ: Mapping[str, str] = os.environ) -> str:
    """Return one line on the model of the roles that judge; empty if there is nothing to say."""
    if (reviewer := models.find_reviewer()) is not None:
        judging = ((name, models.list_candidates(ROLES[name])) for name in ROLES if name in REVIEWING_ROLES)
        judged = [name for name, asked in judging if [one.name for one in asked[:1]] == [reviewer.name]]
        return (
            f"{reviewer.name} judges what {models.name} makes ({', '.join(judged)}); to let {models.name} do it: "
            "--set models.reviewer=false"
        )
    others = [name for name in _list_keyed(environ) if not is_same_family(name, models.name)]
    if models.reviewer is not None or find_family(models.name) in (None, "offline") or not others:
        return ""
    return (
        f"{models.name} also judges its own work, although there is a key of another provider: name a model of another "
        f"family, such as --set models.reviewer={others[0]}"
    )


def _list_keyed(environ: Mapping[str, str]) -> list[str]:
    """Return the default reviewers of the providers whose key is set and whose address is not."""
    return [
        name
        for key, name in DEFAULT_REVIEWERS.items()
        if environ.get(f"{key}_API_KEY") and not environ.get(f"{key}_BASE_URL")
    ]
