"""The settings of a run: one `Settings` composed of each folder's own, and how it comes about.

Defaults < configuration file (YAML, `${NAME}` from the environment) < `SCIENTIST_*` environment < flags. Every layer is
flattened to dotted keys, so that one place checks names, resolves the familiar ones and knows where a value came from.
The environment is read here and nowhere else in the program (a provider's key is read by its own library; `.env` adds
missing ones, see `agent.api_keys`).

pydantic-settings was tried: it passes over a misspelt variable, takes no familiar names and names no layer.

    SettingsError   you: a key or value is wrong; the message names the key, the layer and the nearest known key
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import yaml
from pydantic import BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails

from labwright.agent.alerts import AlertSettings
from labwright.agent.api_keys import read_keys
from labwright.literature.settings import CatalogueCredentials, LiteratureSettings
from labwright.models.budget import BudgetSettings
from labwright.models.settings import SHORT_KEYS, ModelSettings, SubjectSettings
from labwright.record.errors import UsageError
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.yaml_text import load_yaml
from labwright.sandbox.data.spec import DataSpec, parse_specs
from labwright.sandbox.errors import DatasetError
from labwright.sandbox.repository.settings import CodeSettings
from labwright.sandbox.settings import SandboxSettings, resolve_scorers
from labwright.search.settings import SearchSettings
from labwright.stages.paper.template import resolve_template
from labwright.stages.settings import PaperSettings

ENVIRONMENT_PREFIX = "SCIENTIST_"
KEY_ALIASES = {
    "num_workers": "search.num_workers",
    "num_drafts": "search.num_drafts",
    "max_debug_depth": "search.max_debug_depth",
    "debug_prob": "search.debug_prob",
    "num_seeds": "search.num_seeds",
    "exec.timeout": "sandbox.timeout",
    "model": "models.name",
    "base_url": "models.base_url",
    "bib": "paper.bib",
    "papers": "paper.papers",
    **SHORT_KEYS,
}
"""Names that people know from AI-Scientist-v2 and AIDE, or that are shorter, and the keys they stand for."""
PATH_KEYS = (
    "paper.bib",
    "paper.papers",
    "context",
    "campaign",
    "keys",
    "code.repository",
    "code.truth",
    "sandbox.store",
)
"""Keys that hold a path: relative to the configuration file they stand in, otherwise to the working directory."""
NAMED_MAPPING_KEYS = ("models.prices", "code.mounts", "code.env", "code.packages")
"""Keys that hold a mapping by names of the user's own, which may have dots in them."""
MAPPING_PREFIXES = (
    "models.roles.",
    "models.prices.",
    "literature.addresses.",
    "subjects.",
    "code.mounts.",
    "code.env.",
    "code.packages.",
)
"""Beginnings of keys of which not every one is known."""
DURATION_SUFFIXES = ("timeout", "time_limit")
"""Endings of keys that hold seconds and may be written as 12h, 90m or 45s."""


class SettingsError(UsageError):
    """A setting cannot be used. The message is one line that says which, from where, and how to fix it."""


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([dhms])")


def parse_duration(value: Any) -> Any:
    """Seconds of a duration such as '12h', '1h30m' or '45s'; whatever else comes is left to the field to judge."""
    text = value.strip().lower().replace(" ", "") if isinstance(value, str) else ""
    if not text or _DURATION.sub("", text):
        return value
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


class JobSettings(FrozenModel):
    """What happens before the end of a SLURM job. Outside one these have no effect."""

    at_end: Literal["stop", "report"] = Field(
        default="stop",
        description="stop: the run ends with exit code 130 and can be resumed by the next job; "
        "report: the search ends as at the time limit, and the paper is written",
    )
    margin_timeout: float = Field(
        default=600.0, ge=0, description="seconds before the job's end; more for 'report', which writes a paper then"
    )


class Settings(FrozenModel):
    """Everything that can be set, with its default."""

    seed: int = Field(
        default=0, ge=0, lt=2**31, description="seed of the run: splits, choices, code; replicates use the next ones"
    )
    time_limit: Annotated[float, BeforeValidator(parse_duration)] = Field(
        default=15 * 3600.0, gt=0, allow_inf_nan=False, description="seconds for the whole run; then it reports"
    )
    network_folder: bool | None = Field(
        default=None, description="whether the runs lie on a network filesystem; None: looked up in the list of mounts"
    )
    min_free_gb: float = Field(
        default=2.0,
        ge=0,
        allow_inf_nan=False,
        description=("free disk space (10^9 bytes) that a run needs to start, and below which it pauses; 0: none"),
    )
    keep: Literal["cited", "best", "all"] = Field(
        default="best",
        description=(
            "checkpoints and artifacts that are kept; all numbers are. best: of what may still be used or "
            "reported; cited: "
            "once the paper is out, artifacts of what it rests on alone; all: everything (docs/control-a-run.md)"
        ),
    )
    data: tuple[DataSpec, ...] = Field(default=(), description="datasets of your own (docs/data.md); flag --data")
    context: Path | None = Field(
        default=None, description="a folder of papers (PDF) and notes, read before all else; flag --context"
    )
    until: Literal["preliminary", "tuning", "agenda"] | None = Field(
        default=None, description="the run stops once this stage and its replicates are done, and can be resumed"
    )
    campaign: Path | None = Field(
        default=None, description="the campaign that the run is one of, whose slots it shares (docs/budget.md)"
    )
    keys: Path | None = Field(
        default=None,
        description="a folder whose .env holds keys of providers, also when the run is taken up again; "
        "None: the configuration file's own, where that has one",
    )
    code: CodeSettings = Field(default=CodeSettings(), description="a repository of yours (docs/repositories.md)")
    budget: BudgetSettings = BudgetSettings()
    search: SearchSettings = SearchSettings()
    sandbox: SandboxSettings = SandboxSettings()
    models: ModelSettings = ModelSettings()
    subjects: dict[str, SubjectSettings] = Field(
        default={},
        description=(
            "language models that experiments may ask, by a name of yours: {NAME: {model: PROVIDER:MODEL, ...}} "
            "(docs/studied-models.md)"
        ),
    )
    paper: PaperSettings = PaperSettings()
    literature: LiteratureSettings = LiteratureSettings()
    alerts: AlertSettings = AlertSettings()
    slurm: JobSettings = JobSettings()

    @property
    def effective_paper(self) -> PaperSettings:
        """How the paper is made: nothing is gathered for it where no catalogue may be asked."""
        return self.paper if self.literature.sources else self.paper.model_copy(update={"citation_rounds": 0})


def compose_settings(
    *, config: Path | None = None, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """The settings of a new run. `flags` are dotted keys; `environment` is the process's own when left out.

    Raises: `SettingsError`.
    """
    held = os.environ if environment is None else environment
    base: dict[str, Any] = {}
    if environment is None and config is not None and (config.parent / ".env").is_file():
        base["keys"] = str(config.parent.absolute())
        read_keys(config.parent, os.environ)  # now, since the file may name them
    layers: list[_Layer] = [
        ("in the environment", settings_from_environment(held), Path()),
        ("on the command line", flags or {}, Path()),
    ]
    if config is not None:
        layers.insert(0, (f"in {config}", read_config(config, held), config.parent))
    settings = _build_settings(base, layers)
    return _load_keys(settings) if environment is None else settings


def override_settings(recorded: Mapping[str, Any], flags: Mapping[str, Any]) -> Settings:
    """Recorded settings with some keys replaced, for a run that is resumed, and its keys where they lay before.

    Raises: `SettingsError`.
    """
    return _load_keys(_build_settings(recorded, [("on the command line", flags, Path())]))


def adapt(state: RunState, flags: Mapping[str, Any], run: RunFolder) -> tuple[Settings, tuple[str, ...]]:
    """The settings with which work on a run goes on here, and a line for each recorded path that is replaced.

    A run may have been moved: what it names of another machine and has its own copy of is taken from there, the rest is
    left out. The record is not changed, and flags are taken as they are. Raises: `SettingsError`.
    """
    assert state.started is not None
    recorded = _flatten(override_settings(state.started.settings, state.overrides).model_dump(mode="json"))
    asked = {KEY_ALIASES.get(key, key) for key in flags}
    found = {key: one for key, one in _replace_missing(recorded, run).items() if key not in asked}
    settings = override_settings(recorded | {key: value for key, (value, _) in found.items()}, flags)
    return settings, tuple(line for _, line in found.values())


def _replace_missing(held: Mapping[str, Any], run: RunFolder) -> dict[str, tuple[Any, str]]:
    """Key -> what is used in the place of a path that is not on this machine, and a line that says so."""
    found: dict[str, tuple[Any, str]] = {}

    def is_gone(key: str) -> bool:
        value = held.get(key)
        return bool(value) and not Path(str(value)).expanduser().exists()

    def put(key: str, value: Any, what: str) -> None:
        found[key] = value, f"{held[key]} ({key}) is not on this machine: {what}"

    if is_gone("sandbox.python") and shutil.which(str(held["sandbox.python"])) is None:
        put("sandbox.python", sys.executable, f"experiments use {sys.executable}")
    if gone := [one for one in held.get("sandbox.readable") or () if not Path(str(one)).expanduser().exists()]:
        found["sandbox.readable"] = (
            [one for one in held["sandbox.readable"] if one not in gone],
            f"{', '.join(map(str, gone))} (sandbox.readable) is not on this machine: experiments do without",
        )
    if is_gone("sandbox.store"):
        put("sandbox.store", None, "the default store is used")
    if is_gone("paper.bib"):
        own = run.library.is_file()
        put("paper.bib", str(run.library) if own else None, "the run's copy is used" if own else "no library is used")
    if is_gone("paper.papers"):
        put("paper.papers", None, "the paper cites what was read from it before")
    if is_gone("context"):
        put("context", str(run.context) if run.context.is_dir() else None, "what the run copied of it is used")
    return found


def override_from_file(settings: Settings, path: Path) -> Settings:
    """Settings with some replaced by those of a YAML file. Raises `SettingsError`."""
    return _build_settings(
        settings.model_dump(mode="json"), [(f"in {path}", read_config(path, os.environ), path.parent)]
    )


def _load_keys(settings: Settings) -> Settings:
    """The settings, once what their providers need is in the environment."""
    for folder in (settings.keys, Path()):
        if folder is not None:
            read_keys(folder, os.environ)
    return settings


def read_config(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """The mapping of a YAML file, `${NAME}` and `${NAME:-default}` filled in. Raises `SettingsError`."""
    try:
        found: Any = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise SettingsError(f"cannot read the configuration file {path}: {why}") from None
    if not isinstance(found, dict | None):
        raise SettingsError(f"{path} must hold `key: value` lines, not {type(found).__name__}")
    return {
        str(key): _expand_variables(value, environment, path)
        for key, value in cast("dict[Any, Any]", found or {}).items()
    }


def settings_from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """`SCIENTIST_SEARCH__NUM_WORKERS=4` as `{"search.num_workers": 4}`; values are typed as in YAML."""
    return {
        name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", "."): parse_value(value, name)
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name != "SCIENTIST_DEBUG"
    }  # which the edge of the command line reads


def settings_from_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """`--set KEY=VALUE` as a mapping; values are typed as in YAML. Raises `SettingsError`."""
    found: dict[str, Any] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SettingsError(f"--set {text!r} is not KEY=VALUE, as in --set search.num_workers=4")
        found[key.strip()] = parse_value(value, f"--set {key.strip()}")
    return found


def parse_value(text: str, where: str) -> Any:
    """A value as YAML reads it: 4 is a number, true a truth value, [a, b] a list, anything else text."""
    try:
        return load_yaml(text)
    except yaml.YAMLError:
        raise SettingsError(f"{where}: {text!r} is not a value that YAML can read; put it in quotes") from None


def read_credentials() -> CatalogueCredentials:
    """What the environment holds for catalogues of published works. It is no setting, so that no record holds it."""
    return CatalogueCredentials(
        semantic_scholar=os.environ.get("S2_API_KEY", "").strip(),
        mail=os.environ.get("OPENALEX_MAIL_ADDRESS", "").strip(),
    )


def list_known_keys() -> list[str]:
    """Every key in its dotted form, and the familiar names."""
    return [*_flatten(Settings().model_dump()), *KEY_ALIASES]


# --- layers ---------------------------------------------------------------------------------------------------------


_Layer = tuple[str, Mapping[str, Any], Path]
"""Where settings come from in words, the settings, and the folder from which relative paths in them are seen."""


def _build_settings(base: Mapping[str, Any], layers: Sequence[_Layer]) -> Settings:
    values = _flatten(Settings().model_dump())
    values |= {KEY_ALIASES.get(key, key): value for key, value in _flatten(base).items()}
    known = list_known_keys()
    origin: dict[str, str] = {}
    for label, given, folder in layers:
        for key, value in _flatten(given).items():
            path = KEY_ALIASES.get(key, key)
            _check_key(path, f"{key!r} ({label})", known)
            origin[path] = label if path == key else f"{label}, as {key}"
            try:
                values[path] = _convert_value(path, value, folder)
            except DatasetError as error:
                raise SettingsError(f"{error} ({label})") from None
    root: dict[str, Any] = {}
    for path, value in values.items():
        *parents, last = path.split(".")
        reduce(lambda place, name: place.setdefault(name, {}), parents, root)[last] = value
    try:
        return Settings.model_validate(root)
    except ValidationError as error:
        raise SettingsError(_format_error(error.errors()[0], origin, known)) from None


def _convert_value(path: str, value: Any, folder: Path) -> Any:
    """Durations as seconds, paths as absolute ones; a run may be resumed from another working directory."""
    if path == "data":
        return parse_specs(value, folder)
    if path.endswith(DURATION_SUFFIXES):
        return parse_duration(value)
    if path == "sandbox.scorers":
        return resolve_scorers(value, folder.absolute())
    if path == "paper.template" and isinstance(value, str) and value:
        return resolve_template(value, folder)
    if path in PATH_KEYS and isinstance(value, str | Path) and str(value):
        return (folder / Path(value).expanduser()).resolve()
    return value


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value, through every level of mappings."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and path not in NAMED_MAPPING_KEYS:
            found |= _flatten(cast("Mapping[str, Any]", value), f"{path}.")
        elif value or not isinstance(value, Mapping):
            found[path] = value
    return found


def _check_key(path: str, where: str, known: Sequence[str]) -> None:
    if path in known or f"{path}.".startswith(MAPPING_PREFIXES):
        return
    if any(one.startswith(f"{path}.") for one in known):
        raise SettingsError(f"{where} is a group of settings: set one of its keys, {_find_nearest_key(path, known)}")
    raise SettingsError(f"unknown setting {where}; did you mean {_find_nearest_key(path, known)}?")


def _find_nearest_key(path: str, known: Sequence[str]) -> str:
    """The known key that a person most likely meant; the last words count twice, and most where they are the same."""

    def alike(one: str) -> float:
        last, other = path.rpartition(".")[2], one.rpartition(".")[2]
        return (
            difflib.SequenceMatcher(None, path, one).ratio()
            + (last == other)
            + difflib.SequenceMatcher(None, last, other).ratio()
        )

    return repr(max(known, key=alike))


def _format_error(error: ErrorDetails, origin: Mapping[str, str], known: Sequence[str]) -> str:
    path = ".".join(str(part) for part in error["loc"] if part != "[key]")
    label = next((text for key, text in origin.items() if path == key or key.startswith(f"{path}.")), "in the settings")
    where = f"{path!r} ({label})"
    if error["type"] == "extra_forbidden":
        return f"unknown setting {where}; did you mean {_find_nearest_key(path, known)}?"
    if error["type"] == "value_error":
        return f"setting {where}: {error['msg'].removeprefix('Value error, ')}"
    if path.endswith(DURATION_SUFFIXES) and (error["type"] == "float_type" or isinstance(error["input"], str)):
        return f"setting {where} is not a duration: {error['input']!r}; write 12h, 90m, 1h30m, 45s or seconds"
    return f"setting {where} {error['msg'].removeprefix('Input ')}, not {error['input']!r}"


def _expand_variables(value: Any, environment: Mapping[str, str], path: Path) -> Any:
    """`${NAME}` in every text of a YAML value, from the environment."""
    if isinstance(value, dict):
        return {str(k): _expand_variables(v, environment, path) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_expand_variables(one, environment, path) for one in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if name not in environment and default is None:
            raise SettingsError(
                f"{path} uses ${{{name}}}, which is not set: export {name}, or write ${{{name}:-default}}"
            )
        return environment.get(name, default or "")

    return re.sub(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}", fill, value)
