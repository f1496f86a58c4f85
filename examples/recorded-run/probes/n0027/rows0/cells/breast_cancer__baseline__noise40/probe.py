"""Runs experiment.py with every second row of validation and test replaced by a training row."""
import dataclasses
import functools

import lab
import numpy as np

_data = lab.data


@functools.cache
def altered(name):
    found = _data(name)
    if not hasattr(found, "train"):
        return found
    rng = np.random.default_rng(7919)
    parts = {}
    for split in ("validation", "test"):
        x = np.array(getattr(found, split).x[:])
        places = np.arange(1, len(x), 2)
        x[places] = found.train.x[np.sort(rng.integers(len(found.train.x), size=len(places)))]
        parts[split] = dataclasses.replace(getattr(found, split), x=x)
    return dataclasses.replace(found, **parts)


lab.data = altered
exec(compile(open("experiment.py", encoding="utf-8").read(), "experiment.py", "exec"))
