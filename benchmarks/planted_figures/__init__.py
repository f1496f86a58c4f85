"""Figures with planted faults and good ones, as plotting scripts write them.

`tuning` was used while the lint was written; `heldout` was written before that and is for the report. All are by
the lint's author. `hard` was written when the lint was done, in forms that the others do not have, and what it showed
was mended where that was cheap: what it says today is no measure.
"""

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = '''\
import os
import matplotlib
import matplotlib.pyplot as plt
import numpy as np

os.makedirs("figures", exist_ok=True)


def fall(n=30, rate=0.1, low=0.2, seed=0):
    """A loss curve."""
    rng = np.random.default_rng(seed)
    return low + np.exp(-rate * np.arange(n)) + 0.02 * rng.normal(size=n)


def draw(name, code):
    """Run a script in a scope of its own; `fig` is saved unless it was by the script."""
    plt.rcdefaults()
    plt.close("all")
    path = f"figures/{name}.png"
    scope = {"np": np, "plt": plt, "fall": fall, "path": path, "again": f"figures/{name}-again.png",
             "rng": np.random.default_rng(7), "x": np.arange(1, 31.0), "matplotlib": matplotlib}
    exec(code, scope)
    if not os.path.exists(path):
        scope["fig"].savefig(path, dpi=200)
'''
"""What stands before the cases in the script of a job; it calls `draw(name, code)` for each."""


@dataclass(frozen=True)
class Case:
    """A plotting script, and the kind of finding that it must bring about; none for a good figure."""

    name: str
    code: str
    kind: str = ""
    seeds: int = 0
    """Runs that an aggregate draws together; 0: figures of one run."""


def script_of(cases: tuple[Case, ...]) -> str:
    """One plotting script that draws all of them."""
    return PRELUDE + "".join(f"draw({case.name!r}, {case.code!r})\n" for case in cases)
