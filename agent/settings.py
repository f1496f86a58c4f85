"""The settings of a run: one `Settings` composed of the settings of each package, and the code that builds it.

Precedence, lowest first: defaults, configuration file (YAML, `${NAME}` from the environment), `SCIENTIST_*`
environment, flags. Every layer is flattened to dotted keys; a single function checks names, resolves aliases and
records the source of each value. No other module reads the environment (provider libraries read their own keys;
`.env` adds missing ones, see `agent.api_keys`).

pydantic-settings is not used: it ignores misspelt variables, has no aliases and does not name the layer in errors.

Raises `SettingsError` if a key or value is wrong; the message names the key, the layer and the nearest known key.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import yaml
from pydantic import BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails

from labwright.agent.alerts import AlertSettings
from labwright.agent.api_keys import read_keys
from labwright.literature.catalogue_client import CatalogueCredentials, LiteratureSettings
from labwright.models.budget import BudgetSettings
from labwright.models.roles.experiment_code import CODER
from labwright.models.settings import SHORT_KEYS, ModelSettings, SubjectSettings
from labwright.record.errors import UsageError
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema import FrozenModel
from labwright.record.schema.idea import ResearchQuestion
from labwright.record.schema.nodes import GateName
from labwright.record.yaml_text import describe_yaml_error, load_yaml
from labwright.sandbox.data.spec import DataSpec, parse_specs
from labwright.sandbox.job import DatasetError
from labwright.sandbox.repository.environment import AblationSettings, CodeSettings
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
"""Alias -> key: names from AI-Scientist-v2 and AIDE, and shorter names."""
PATH_KEYS = tuple(
    "paper.bib paper.papers context campaign memory keys code.repository code.truth sandbox.store".split()
)
"""Keys whose value is a path, relative to the configuration file that sets it, otherwise to the working directory."""
NAMED_MAPPING_KEYS = ("models.prices", "code.mounts", "code.env", "code.packages")
"""Keys whose value maps user-defined names, which may contain dots."""
MAPPING_PREFIXES = tuple(
    (
        "models.roles. models.prices. literature.addresses. subjects. code.mounts. code.env. code.packages. question."
    ).split()
)
"""Prefixes of keys that are not all known in advance."""
DURATION_SUFFIXES = ("timeout", "time_limit")
"""Suffixes of keys whose value is in seconds and may be written as 12h, 90m or 45s."""


class SettingsError(UsageError):
    """Raised when a setting is invalid. The message is one line that names the setting, its source and the fix."""


def check_author(settings: Settings) -> None:
    """Refuse to let an author write every program if the model is none. Raises `SettingsError`."""
    names = [one.name for one in settings.models.list_candidates(CODER)]
    if settings.search.author == "always" and names in ([], ["offline"]):
        raise SettingsError(
            "search.author=always: the offline model cannot work with tools; set models.coder, or search.author=auto"
        )


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([dhms])")


def parse_duration(value: Any) -> Any:
    """Convert a duration such as '12h', '1h30m' or '45s' to seconds. Values in other forms are returned
    unchanged; the field checks them.
    """
    text = value.strip().lower().replace(" ", "") if isinstance(value, str) else ""
    if not text or _DURATION.sub("", text):
        return value
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


class JobSettings(FrozenModel):
    """What to do before a SLURM job ends. No effect outside SLURM."""

    at_end: Literal["stop", "report"] = Field(
        default="stop",
        description="stop: the run ends with exit code 130, and the next job can resume it; "
        "report: the search ends and the paper is written, as at the time limit",
    )
    margin_timeout: float = Field(
        default=600.0,
        ge=0,
        description="how many seconds before the end of the job to act; 'report' needs more, since it writes a paper",
    )


Effort = Literal["quick", "standard", "thorough"]
EFFORTS: Mapping[Effort, Mapping[str, Any]] = {
    "quick": {
        "time_limit": 2 * 3600.0,
        "sandbox.timeout": 900.0,
        "search.num_drafts": 2,
        "search.preliminary.nodes": 6,
        "search.tuning.nodes": 4,
        "search.agenda.nodes": 4,
        "search.ablation.nodes": 4,
        "search.max_trials": 8,
        "search.max_seeds": 20,
        "search.planned_ablations": 2,
        "paper.citation_rounds": 1,
        "paper.reflections": 2,
        "paper.missing_ablations": 0,
    },
    "standard": {},
    "thorough": {
        "time_limit": 48 * 3600.0,
        "sandbox.timeout": 3 * 3600.0,
        "search.num_drafts": 5,
        "search.preliminary.nodes": 40,
        "search.tuning.nodes": 24,
        "search.agenda.nodes": 24,
        "search.ablation.nodes": 24,
        "search.num_seeds": 10,
        "search.max_seeds": 300,
        "search.planned_ablations": 8,
        "paper.citation_rounds": 5,
        "paper.reflections": 5,
    },
}
"""The settings that one word stands for. All others keep their defaults, and a value that is set anywhere wins."""


class Settings(FrozenModel):
    """All settings with their defaults."""

    seed: int = Field(
        default=0,
        ge=0,
        lt=2**31,
        description=(
            "seed of the run, used for splits, search choices and code; replicates use the seeds that follow it"
        ),
    )
    effort: Effort = Field(
        default="standard",
        description=(
            "one word for limits, seeds, trials and rounds of revision (docs/budget.md); a value that is set anywhere "
            "wins"
        ),
    )
    time_limit: Annotated[float, BeforeValidator(parse_duration)] = Field(
        default=15 * 3600.0,
        gt=0,
        allow_inf_nan=False,
        description="seconds for the whole run, or such as 12h, 90m or 45s; after that it writes its report",
    )
    min_free_gb: float = Field(
        default=2.0,
        ge=0,
        allow_inf_nan=False,
        description="free disk space (10^9 bytes) required to start a run; below it, a running run pauses; 0: no check",
    )
    keep: Literal["cited", "best", "all"] = Field(
        default="best",
        description=(
            "checkpoints and artifacts to keep (numbers are always kept). best: those that may still be used or "
            "reported; cited: after the paper is released, only artifacts of results it cites; all: everything "
            "(docs/control-a-run.md)"
        ),
    )
    data: tuple[DataSpec, ...] = Field(
        default=(), description="your datasets: CSV, Parquet, NPZ, a folder or hf:OWNER/SET (docs/data.md)"
    )
    context: Path | None = Field(
        default=None, description="folder of papers (PDF) and notes, read before anything else"
    )
    until: Literal["preliminary", "tuning", "agenda"] | None = Field(
        default=None, description="stop the run after this stage and its replicates; it can be resumed"
    )
    campaign: Path | None = Field(
        default=None, description="campaign that the run belongs to and whose slots it shares (docs/budget.md)"
    )
    memory: Path | None = Field(
        default=None, description="folder with records of finished studies, to which this study adds its own"
    )
    gates: tuple[GateName, ...] = Field(
        default=(), description="where the run waits for `scientist approve`: plan, lock, paper"
    )
    keys: Path | None = Field(
        default=None,
        description="folder whose .env has the provider keys, also used when the run is resumed; "
        "None: the folder of the configuration file, if it has a .env",
    )
    code: CodeSettings = Field(default=CodeSettings(), description="repository to study (docs/repositories.md)")
    ablation: AblationSettings = AblationSettings()
    question: ResearchQuestion | None = Field(default=None, description="set automatically: question of run --task")
    budget: BudgetSettings = BudgetSettings()
    search: SearchSettings = SearchSettings()
    sandbox: SandboxSettings = SandboxSettings()
    models: ModelSettings = ModelSettings()
    subjects: dict[str, SubjectSettings] = Field(
        default={},
        description=(
            "language models that experiments may query, by a name you choose: {NAME: {model: PROVIDER:MODEL, ...}} "
            "(docs/studied-models.md)"
        ),
    )
    paper: PaperSettings = PaperSettings()
    literature: LiteratureSettings = LiteratureSettings()
    alerts: AlertSettings = AlertSettings()
    slurm: JobSettings = JobSettings()


def compose_settings(
    *, config: Path | None = None, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Build the settings of a new run. `flags` are dotted keys; `environment` defaults to that of the process.

    Raises: `SettingsError`.
    """
    variables = os.environ if environment is None else environment
    base: dict[str, Any] = {}
    if environment is None and config is not None and (config.parent / ".env").is_file():
        base["keys"] = str(config.parent.absolute())
        read_keys(config.parent, os.environ)  # before reading the file, which may refer to them
    layers: list[_Layer] = [
        ("in the environment", settings_from_environment(variables), Path()),
        ("on the command line", flags or {}, Path()),
    ]
    if config is not None:
        layers.insert(0, (f"in {config}", read_config(config, variables), config.parent))
    settings = _build_settings(base, layers)
    return _load_keys(settings) if environment is None else settings


def override_settings(recorded: Mapping[str, Any], flags: Mapping[str, Any]) -> Settings:
    """Return recorded settings with some keys replaced, for a resumed run, and load its API keys from the same folder.

    Raises: `SettingsError`.
    """
    return _load_keys(_build_settings(recorded, [("on the command line", flags, Path())]))


def adapt(state: RunState, flags: Mapping[str, Any], run: RunFolder) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings to continue a run on this machine, and one line for each recorded path that is replaced.

    The run may come from another machine: a missing path is replaced by the run's own copy, or dropped if there
    is none. The record does not change, and flags are used unmodified. Raises: `SettingsError`.
    """
    assert state.started is not None
    recorded = _flatten(override_settings(state.started.settings, state.overrides).model_dump(mode="json"))
    overridden = {KEY_ALIASES.get(key, key) for key in flags}
    found = {key: one for key, one in _replace_missing(recorded, run).items() if key not in overridden}
    settings = override_settings(recorded | {key: value for key, (value, _) in found.items()}, flags)
    return settings, tuple(line for _, line in found.values())


def _replace_missing(recorded: Mapping[str, Any], run: RunFolder) -> dict[str, tuple[Any, str]]:
    """Return key -> replacement of a path that does not exist on this machine, and a line that reports it."""

    def exists(value: Any) -> bool:
        return Path(str(value)).expanduser().exists()

    replacements: dict[str, tuple[Any, str]] = {
        "sandbox.python": (sys.executable, f"experiments use {sys.executable}"),
        "sandbox.store": (None, "the default store is used"),
        "paper.bib": (str(run.library), "the run's copy is used")
        if run.library.is_file()
        else (None, "no bibliography is used"),
        "paper.papers": (None, "the paper cites the entries read from it earlier"),
        "memory": (None, "no memory is used"),
        "context": (str(run.context) if run.context.is_dir() else None, "the run's copy is used"),
    }
    gone = {key for key in replacements if recorded.get(key) and not exists(recorded[key])}
    if shutil.which(str(recorded.get("sandbox.python"))) is not None:
        gone.discard("sandbox.python")
    if exists(Path(str(recorded.get("memory"))).expanduser().parent):  # where it can be made
        gone.discard("memory")
    found = {
        key: (value, f"{recorded[key]} ({key}) is not on this machine: {what}")
        for key, (value, what) in replacements.items()
        if key in gone
    }
    readable = list(recorded.get("sandbox.readable") or ())
    if missing := [one for one in readable if not exists(one)]:
        line = f"{', '.join(map(str, missing))} (sandbox.readable) is not on this machine: experiments cannot read it"
        found["sandbox.readable"] = [one for one in readable if one not in missing], line
    return found


def _load_keys(settings: Settings) -> Settings:
    """Load the providers' API keys into the environment and return the settings."""
    for folder in (settings.keys, Path()):
        if folder is not None:
            read_keys(folder, os.environ)
    return settings


def read_config(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Read a YAML mapping and expand `${NAME}` and `${NAME:-default}`. Raises `SettingsError`."""
    try:
        found: Any = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = error.strerror if isinstance(error, OSError) else describe_yaml_error(error)
        raise SettingsError(f"cannot read the configuration file {path}: {why}") from None
    if not isinstance(found, dict | None):
        raise SettingsError(f"{path} must contain `key: value` lines, not {type(found).__name__}")
    return _expand_variables(found or {}, environment, path)


def settings_from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Convert `SCIENTIST_SEARCH__NUM_WORKERS=4` to `{"search.num_workers": 4}`; values are parsed as YAML."""
    return {
        name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", "."): parse_value(value, name)
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name != "SCIENTIST_DEBUG"
    }  # SCIENTIST_DEBUG is read by agent.cli.errors


def settings_from_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Convert `--set KEY=VALUE` to a mapping; values are parsed as YAML. Raises `SettingsError`."""
    found: dict[str, Any] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SettingsError(f"--set {text!r} is not KEY=VALUE, as in --set search.num_workers=4")
        found[key.strip()] = parse_value(value, f"--set {key.strip()}")
    return found


def parse_value(text: str, where: str) -> Any:
    """Parse a value as YAML: 4 is a number, true a boolean, [a, b] a list, anything else a string."""
    try:
        return load_yaml(text)
    except yaml.YAMLError:
        raise SettingsError(f"{where}: {text!r} is not valid YAML; put it in quotes") from None


def read_credentials() -> CatalogueCredentials:
    """Read the credentials for literature catalogues from the environment. They are not settings and are never
    recorded.
    """
    return CatalogueCredentials(
        semantic_scholar=os.environ.get("S2_API_KEY", "").strip(),
        mail=os.environ.get("OPENALEX_MAIL_ADDRESS", "").strip(),
    )


def list_differences(known: Settings, wanted: Settings) -> dict[str, Any]:
    """Return the keys whose values differ, with the wanted values."""
    before = _flatten(known.model_dump(mode="json"))
    return {key: value for key, value in _flatten(wanted.model_dump(mode="json")).items() if before.get(key) != value}


def describe_setting(key: str) -> str:
    """Return the description of a setting on one line."""
    *groups, name = key.split(".")
    model: Any = reduce(lambda model, group: model.model_fields[group].annotation, groups, cast("Any", Settings))
    return " ".join((model.model_fields[name].description or "").split())


def list_known_keys() -> list[str]:
    """List every dotted key and every alias."""
    return [*_flatten(Settings().model_dump()), *KEY_ALIASES]


# --- layers ---------------------------------------------------------------------------------------------------------


_Layer = tuple[str, Mapping[str, Any], Path]
"""Description of the source, the settings, and the folder that their relative paths refer to."""


_RETIRED_KEYS = frozenset(
    "sandbox.pool literature.cache literature.cache_days code.scale code.resume ablation.proxy search.family "
    "alerts.webhook alerts.ntfy".split()
)
"""Settings of earlier versions, which recorded runs may have."""


def _build_settings(base: Mapping[str, Any], layers: Sequence[_Layer]) -> Settings:
    values = _flatten(Settings().model_dump())
    recorded = {KEY_ALIASES.get(key, key): value for key, value in _flatten(base).items()}
    values |= {key: value for key, value in recorded.items() if key not in _RETIRED_KEYS}
    known = list_known_keys()
    origin: dict[str, str] = {}
    values |= _list_effort_values(next((given["effort"] for _, given, _ in reversed(layers) if "effort" in given), ""))
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
    if any(key.startswith("question.") for key in values):
        del values["question"]
    for path, value in values.items():
        *parents, last = path.split(".")
        reduce(lambda place, name: place.setdefault(name, {}), parents, root)[last] = value
    try:
        return Settings.model_validate(root)
    except ValidationError as error:
        raise SettingsError(_format_error(error.errors()[0], origin, known)) from None


def _list_effort_values(effort: Any) -> dict[str, Any]:
    """Return the settings of an effort, and the defaults of those that only other efforts set; empty if it is unknown,
    which validation reports."""
    if effort not in EFFORTS:
        return {}
    defaults = _flatten(Settings().model_dump())
    return {key: defaults[key] for one in EFFORTS.values() for key in one} | dict(EFFORTS[effort])


def _convert_value(path: str, value: Any, folder: Path) -> Any:
    """Convert durations to seconds and paths to absolute ones, since a run may be resumed from another directory."""
    if path == "data":
        return parse_specs(value, folder)
    if path == "gates" and isinstance(value, str):
        return tuple(one.strip() for one in value.split(",") if one.strip())
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
    """Flatten nested mappings to dotted key -> value."""
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
    """Return the most similar known key. The last component has double weight, and more if it is identical."""

    last = path.rpartition(".")[2]

    def alike(one: str) -> float:
        other = one.rpartition(".")[2]
        return (last == other) + sum(SequenceMatcher(None, *two).ratio() for two in ((path, one), (last, other)))

    return repr(max(known, key=alike))


def _format_error(error: ErrorDetails, origin: Mapping[str, str], known: Sequence[str]) -> str:
    path = ".".join(str(part) for part in error["loc"] if part != "[key]")
    labels = (text for key, text in origin.items() if f"{path}.".startswith(f"{key}.") or key.startswith(f"{path}."))
    where = f"{path!r} ({next(labels, 'in the settings')})"
    if error["type"] == "extra_forbidden":
        return f"unknown setting {where}; did you mean {_find_nearest_key(path, known)}?"
    if error["type"] == "value_error":
        return f"setting {where}: {error['msg'].removeprefix('Value error, ')}"
    if path.endswith(DURATION_SUFFIXES) and (error["type"] == "float_type" or isinstance(error["input"], str)):
        return f"setting {where} is not a duration: {error['input']!r}; write 12h, 90m, 1h30m, 45s or seconds"
    return f"setting {where} {error['msg'].removeprefix('Input ')}, not {error['input']!r}"


def _expand_variables(value: Any, environment: Mapping[str, str], path: Path) -> Any:
    """Expand `${NAME}` in every string of a YAML value from the environment."""
    if isinstance(value, dict):
        return {str(k): _expand_variables(v, environment, path) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_expand_variables(one, environment, path) for one in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if name not in environment and default is None:
            fix = f"export {name}, or write ${{{name}:-default}}"
            raise SettingsError(f"{path} uses ${{{name}}}, which is not set: {fix}")
        return environment.get(name, default or "")

    return re.sub(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}", fill, value)
