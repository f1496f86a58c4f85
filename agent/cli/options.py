"""The base class of commands, options that several commands share, and the settings that these options set."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import typer
from typer import Argument, Option
from typer.core import TyperCommand, TyperOption
from typer.exceptions import TyperException
from typer.models import ParameterInfo

RunArgument = Annotated[
    Path,
    Argument(metavar="RUN", help="Folder of a run, such as runs/NAME; commands that only read it also accept its zip."),
]
TrackOption = Annotated[
    str | None,
    Option(
        metavar="wandb|mlflow[:PLACE]", help="Mirror the run to a tracker while it is running (docs/inspect-a-run.md)."
    ),
]
SHARED_OPTIONS = {
    "config": Annotated[Path | None, Option(help="A YAML file of settings; ${NAME} comes from the environment.")],
    "json": Annotated[bool, Option("--json", help="Print JSON (described in docs/json.md).")],
}
"""Options that many commands have and that are no settings."""
COUNT, NUMBER, REPEATED, SWITCH = int | None, float | None, list[str] | None, bool | None


class SettingOption(NamedTuple):
    """An option that sets one setting, whose description is the help."""

    key: str
    metavar: str | None = None
    kind: Any = str | None


SETTING_OPTIONS = {
    "model": SettingOption("models.name", "NAME"),
    "base_url": SettingOption("models.base_url", "URL"),
    "effort": SettingOption("effort", "quick|standard|thorough"),
    "workers": SettingOption("search.num_workers", "N", COUNT),
    "gpus": SettingOption("sandbox.gpus", "0,1"),
    "ray": SettingOption("sandbox.ray", "HOST:PORT"),
    "time_limit": SettingOption("time_limit", "12h"),
    "budget_usd": SettingOption("budget.usd", "X", NUMBER),
    "budget_tokens": SettingOption("budget.tokens", "N", COUNT),
    "gpu_hours": SettingOption("budget.gpu_hours", "X", NUMBER),
    "seed": SettingOption("seed", "N", COUNT),
    "bib": SettingOption("paper.bib", "FILE"),
    "papers": SettingOption("paper.papers", "DIR"),
    "template": SettingOption("paper.template", "NAME|DIR"),
    "data": SettingOption("data", "NAME=PATH[,target=COLUMN]...", REPEATED),
    "context": SettingOption("context", "DIR"),
    "memory": SettingOption("memory", "DIR"),
    "gate": SettingOption("gates", "NAME,..."),
    "code": SettingOption("code.repository", "DIR"),
    "command": SettingOption("code.command", "CMD"),
    "metric": SettingOption("code.metric", "SPEC"),
    "direction": SettingOption("code.direction", "max|min"),
    "test_metric": SettingOption("code.test_metric", "SPEC"),
    "predictions": SettingOption("code.predictions", "FILE[:COLUMN]"),
    "truth": SettingOption("code.truth", "FILE"),
    "expect": SettingOption("code.expect", "VALUE"),
    "frozen": SettingOption("code.frozen", "GLOB", REPEATED),
    "hide": SettingOption("code.hide", "REGEX", REPEATED),
    "python": SettingOption("code.python", "PATH"),
    "mount": SettingOption("code.mounts", "NAME=PATH", REPEATED),
    "env": SettingOption("code.env", "NAME=VALUE", REPEATED),
    "dirty": SettingOption("code.dirty", kind=SWITCH),
    "top": SettingOption("ablation.top", "N", COUNT),
    "budget_runs": SettingOption("ablation.budget_runs", "N", COUNT),
    "timeout": SettingOption("sandbox.timeout", "90s"),
    "reproduce_only": SettingOption("ablation.reproduce_only", kind=SWITCH),
    "accept_baseline": SettingOption("ablation.accept_baseline", kind=SWITCH),
}
"""Parameter name -> its option. These options override `assignments` (--set)."""
BUDGET_SETTINGS = ("time_limit", "budget_usd", "budget_tokens", "gpu_hours")
MODEL_SETTINGS = ("model", "base_url", "assignments")
RUN_SETTINGS = (*MODEL_SETTINGS, "effort", "workers", "gpus", "ray", *BUDGET_SETTINGS)
ABLATION_SETTINGS = ("timeout", "top", "budget_runs", "reproduce_only", "accept_baseline")
REPOSITORY_SETTINGS = tuple("command metric direction predictions truth expect python mount env dirty".split())
CODE_SETTINGS = ("code", *REPOSITORY_SETTINGS, "test_metric", "hide", "frozen")
STUDY_SETTINGS = (*RUN_SETTINGS, *"seed bib papers template data context memory gate config".split(), *CODE_SETTINGS)
IDEATION_SETTINGS = (*MODEL_SETTINGS, "gpus", "time_limit", "budget_usd", "budget_tokens", "data", "config", "json")


def _annotate(name: str) -> Any:
    """Return the annotation of a parameter that sets settings, or that many commands have."""
    if name in SHARED_OPTIONS:
        return SHARED_OPTIONS[name]
    if name == "assignments":
        help = "One setting, such as search.num_seeds=5; may be repeated."
        return Annotated[REPEATED, Option("--set", metavar="KEY=VALUE", help=help)]
    one = SETTING_OPTIONS[name]
    return Annotated[one.kind, Option(f"--{name.replace('_', '-')}", metavar=one.metavar)]


class ProgramCommand(TyperCommand):
    """A command that loads the settings for its help only, since this takes most of a second."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            vars(error)["ctx"] = ctx  # the parser does not set it if an option lacks its value
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for one in self.params:
            if (option := SETTING_OPTIONS.get(one.name or "")) is not None and isinstance(one, TyperOption):
                from labwright.agent.settings import describe_setting

                text = describe_setting(option.key) + "; may be repeated" * (option.kind == REPEATED)
                one.help = one.help or text[:1].upper() + text[1:]
        super().format_options(ctx, formatter)


class CliCommand:
    """Base class of commands: each field of a subclass is a command-line parameter, and the subclass's docstring is the
    help text.

    The subclass is registered as a command of `to`. `work` (MODULE:FUNCTION in `labwright`) is imported and called
    with the parsed values, so that parsing and `--help` load nothing heavy. `options` names options that many commands
    have: `config` and `json` are passed as they are, settings that the user gave as `flags`, by dotted key.
    """

    work: ClassVar[str]
    flags: dict[str, Any]
    config: Path | None = None
    json: bool = False

    def __init__(self, **given: Any) -> None:
        """Set the parameters that are given, and the others to their defaults. Raises `TypeError` on other names."""
        fields = {name for one in (type(self), CliCommand) for name in inspect.get_annotations(one)}
        if unknown := sorted(given.keys() - fields):
            raise TypeError(f"{type(self).__name__} has no field {', '.join(unknown)}")
        known = vars(type(self)).items()
        vars(self).update({name: one.default for name, one in known if isinstance(one, ParameterInfo)} | given)

    def __init_subclass__(
        cls, *, to: typer.Typer, work: str, options: Sequence[str] = (), name: str = "", **more: Any
    ) -> None:
        cls.work = work

        def command(**values: Any) -> int:
            if names := [one for one in options if one not in SHARED_OPTIONS]:
                # loads the settings of every package, which parsing and --help do not need
                from labwright.agent.settings import settings_from_assignments

                given = {name: values.pop(name) for name in names}
                used = {name: value for name, value in given.items() if value is not None and value != []}
                values["flags"] = settings_from_assignments(used.pop("assignments", ())) | {
                    SETTING_OPTIONS[name].key: value for name, value in used.items()
                }
                if "gpus" in used:
                    values["flags"]["sandbox.device"] = "cuda"
                if "ray" in used:
                    values["flags"]["sandbox.executor"] = "ray"
            module, function = work.split(":")
            return getattr(import_module(f"labwright.{module}"), function)(cls(**values))

        fields = inspect.get_annotations(cls, eval_str=True) | {name: _annotate(name) for name in options}
        defaults = dict.fromkeys(options) | {"json": False} | vars(cls)
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=one,
                default=defaults.get(name, inspect.Parameter.empty),
            )
            for name, one in fields.items()
        ]
        first_sentence = " ".join((cls.__doc__ or "").split()).partition(". ")[0].rstrip(".") + "."
        command.__signature__ = inspect.Signature(parameters)  # pyrefly: ignore  what typer reads
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        to.command(
            name or cls.__name__.lower(), cls=ProgramCommand, help=cls.__doc__, short_help=first_sentence, **more
        )(command)
