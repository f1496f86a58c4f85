"""A kernel that really starts, runs two lines and hands over a measurement: what every experiment needs."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from agent.doctor.finding import Finding, fault, ok
from inspector.text import duration
from sandbox.errors import SandboxError
from sandbox.job import Outcome
from sandbox.settings import SandboxSettings

LIMIT = 30.0
"""Seconds for the two lines themselves."""
ANSWER = 42.0
SCRIPT = f"""
import lab
lab.result("answer", {ANSWER}, condition="probe", dataset="none", split="validation")
print("hello")
"""


def kernel(settings: SandboxSettings) -> Finding:
    """One real round trip, in the interpreter and within the limits that experiments get.

    Behind walls where they can be had; that they cannot is another finding.
    """
    if settings.isolation == "required":
        settings = settings.model_copy(update={"isolation": "auto"})
    mend = f"check sandbox.python ({settings.python}): it needs ipykernel and numpy"
    limit = LIMIT + settings.start_timeout + settings.grace
    try:
        outcome = asyncio.run(_tried(settings, limit))
    except TimeoutError:
        return fault("kernel", f"none answered within {limit:g} s", mend)
    except (SandboxError, OSError) as error:
        return fault("kernel", " ".join(str(error).split())[-400:], mend)
    if outcome.failure is not None:
        return fault("kernel", f"its code failed: {outcome.failure.message}", mend)
    if "hello" not in outcome.stdout_tail or [one.value for one in outcome.measurements] != [ANSWER]:
        return fault("kernel", "it ran, but what it printed and measured did not come back", mend)
    return ok("kernel", f"one started, ran and was measured (code {duration(outcome.seconds)})")


async def _tried(settings: SandboxSettings, limit: float) -> Outcome:
    from sandbox.single_file import run_file

    with tempfile.TemporaryDirectory(prefix="scientist-doctor-") as folder:
        path = Path(folder) / "probe.py"
        path.write_text(SCRIPT)
        async with asyncio.timeout(limit):
            return await run_file(path, timeout=LIMIT, settings=settings)
