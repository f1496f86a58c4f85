"""How commands are declared, and the options that several share, with the settings that they stand for."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer import Argument, Option

RunArgument = Annotated[
    Path, Argument(metavar="RUN", help="The folder of a run, such as runs/NAME, or to read it its zip.")
]
JsonOption = Annotated[bool, Option("--json", help="Print JSON (described in docs/command-line.md).")]
ConfigOption = Annotated[Path | None, Option(help="A YAML file of settings; ${NAME} comes from the environment.")]
TrackOption = Annotated[
    str | None,
    Option(
        metavar="wandb|mlflow[:PLACE]", help="Mirror the run into a tracker while it goes on (docs/inspect-a-run.md)."
    ),
]
PapersOption = Annotated[
    Path | None,
    Option(metavar="DIR", help="A folder of PDFs; the paper may cite those found in a catalogue (docs/ideas.md)."),
]
ContextOption = Annotated[
    Path | None,
    Option(metavar="DIR", help="A folder of your papers (PDF) and notes, read before all else (docs/ideas.md)."),
]


def _declare_setting(key: str, kind: Any, help: str, *names: str, metavar: str | None = None) -> tuple[Any, str]:
    return Annotated[kind, Option(*names, metavar=metavar, help=help)], key


SETTING_OPTIONS: dict[str, tuple[Any, str]] = {
    "model": _declare_setting(
        "models.name",
        str | None,
        "'offline', or a pydantic-ai model string such as anthropic:NAME or openai-chat:NAME.",
    ),
    "base_url": _declare_setting(
        "models.base_url", str | None, "Address of an OpenAI-compatible server, ending in /v1."
    ),
    "workers": _declare_setting("search.num_workers", int | None, "Experiments that run at the same time."),
    "gpus": _declare_setting(
        "sandbox.gpus",
        str | None,
        "GPUs to use, such as 0,1: indices within CUDA_VISIBLE_DEVICES, or UUIDs; sets sandbox.device to cuda.",
    ),
    "ray": _declare_setting(
        "sandbox.ray",
        str | None,
        "Run experiments on the machines of this Ray cluster (docs/hardware.md).",
        metavar="HOST:PORT",
    ),
    "time_limit": _declare_setting("time_limit", str | None, "Time limit of the whole run, such as 12h, 90m or 45s."),
    "budget_usd": _declare_setting("budget.usd", float | None, "Most USD that model calls may cost; never exceeded."),
    "budget_tokens": _declare_setting(
        "budget.tokens", int | None, "Most tokens of prompts and answers; never exceeded."
    ),
    "gpu_hours": _declare_setting("budget.gpu_hours", float | None, "Most GPU-hours of experiments; never exceeded."),
    "seed": _declare_setting("seed", int | None, "Seed of the run."),
    "bib": _declare_setting("paper.bib", Path | None, "A .bib file with verified entries that the paper may cite."),
    "papers": (PapersOption, "paper.papers"),
    "template": _declare_setting(
        "paper.template",
        str | None,
        "Paper template: workshop, conference, or a folder of your own (docs/paper.md).",
        metavar="NAME|DIR",
    ),
    "data": _declare_setting(
        "data",
        list[str] | None,
        "Your own data: CSV, Parquet, NPZ, a folder or hf:OWNER/SET, with options as in docs/data.md; may be repeated.",
        metavar="NAME=PATH[,target=COLUMN]...",
    ),
    "context": (ContextOption, "context"),
    "code": _declare_setting(
        "code.repository",
        Path | None,
        "A git repository of yours that is studied (docs/repositories.md).",
        metavar="DIR",
    ),
    "command": _declare_setting(
        "code.command", str | None, "With --code: how it is run, with {seed}, and {overrides} for arms.", metavar="CMD"
    ),
    "metric": _declare_setting(
        "code.metric",
        str | None,
        "With --code: FILE.json:a.b, FILE.csv:column, tb:DIR:tag or stdout:REGEX, which selects.",
        metavar="SPEC",
    ),
    "direction": _declare_setting(
        "code.direction", str | None, "With --code: max or min, which is better of the metric."
    ),
    "test_metric": _declare_setting(
        "code.test_metric", str | None, "With --code: read as the metric is, and sealed to the end.", metavar="SPEC"
    ),
    "predictions": _declare_setting(
        "code.predictions",
        str | None,
        "With --code, in place of metrics: the predictions that it leaves, which we score.",
        metavar="FILE[:COLUMN]",
    ),
    "truth": _declare_setting(
        "code.truth", Path | None, "With --predictions: a table of labels (label, id, split), which it never sees."
    ),
    "expect": _declare_setting("code.expect", str | None, "With --code: what it is known to give, such as 0.83±0.02."),
    "frozen": _declare_setting(
        "code.frozen", list[str] | None, "With --code: files that no patch may change; may be repeated.", metavar="GLOB"
    ),
    "hide": _declare_setting(
        "code.hide",
        list[str] | None,
        "With --code: lines of its output that nobody sees; may be repeated.",
        metavar="REGEX",
    ),
    "python": _declare_setting(
        "code.python", str | None, "With --code: its interpreter or conda environment.", metavar="PATH"
    ),
    "mount": _declare_setting(
        "code.mounts",
        list[str] | None,
        "With --code: data from outside, read-only, beside the checkout "
        "as NAME, or in it at a NAME with a slash (data/raw, ./data); may be repeated.",
        metavar="NAME=PATH",
    ),
    "env": _declare_setting(
        "code.env", list[str] | None, "With --code: a variable of its command; may be repeated.", metavar="NAME=VALUE"
    ),
    "resume_command": _declare_setting(
        "code.resume", str | None, "With --code: the command after one that was cut.", metavar="CMD"
    ),
    "dirty": _declare_setting(
        "code.dirty", bool | None, "With --code: take work that is not committed, too.", "--dirty"
    ),
    "assignments": _declare_setting(
        "", list[str] | None, "One setting, such as search.num_seeds=5; may be repeated.", "--set", metavar="KEY=VALUE"
    ),
}
"""Parameter -> its option and its setting. They win over `assignments` (--set), which names settings of its own."""
BUDGET_SETTINGS = ("time_limit", "budget_usd", "budget_tokens", "gpu_hours")
MODEL_SETTINGS = ("model", "base_url", "assignments")
RUN_SETTINGS = (*MODEL_SETTINGS, "workers", "gpus", "ray", *BUDGET_SETTINGS)
CODE_SETTINGS = (
    "code",
    "command",
    "metric",
    "direction",
    "test_metric",
    "predictions",
    "truth",
    "expect",
    "hide",
    "frozen",
    "python",
    "mount",
    "env",
    "resume_command",
    "dirty",
)


class CliCommand:
    """What was asked for: each field of a subclass is a parameter of the command line, its docstring the help.

    The subclass is a command of `to`. Its `work` (MODULE:FUNCTION of `labwright`) gets the values, and is
    imported when called, so that parsing and `--help` load nothing heavy. Those of `settings` that are in use are
    `flags`, by dotted key.
    """

    work: ClassVar[str]
    flags: dict[str, Any]

    def __init_subclass__(
        cls, *, to: typer.Typer, work: str, settings: Sequence[str] = (), name: str = "", **options: Any
    ) -> None:
        cls.work = work

        def command(**values: Any) -> int:
            if settings:
                # every room's settings, which parsing and --help do without
                from labwright.agent.settings import settings_from_assignments

                given = {name: values.pop(name) for name in settings}
                used = {name: value for name, value in given.items() if value is not None and value != []}
                values["flags"] = settings_from_assignments(used.pop("assignments", ())) | {
                    SETTING_OPTIONS[name][1]: value for name, value in used.items()
                }
                if "gpus" in used:
                    values["flags"]["sandbox.device"] = "cuda"
                if "ray" in used:
                    values["flags"]["sandbox.executor"] = "ray"
            asked, (module, function) = cls(), work.split(":")
            vars(asked).update(values)
            return getattr(import_module(f"labwright.{module}"), function)(asked)

        parameters = [
            *(
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=annotation,
                    default=vars(cls).get(name, inspect.Parameter.empty),
                )
                for name, annotation in inspect.get_annotations(cls, eval_str=True).items()
            ),
            *(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, annotation=SETTING_OPTIONS[name][0], default=None
                )
                for name in settings
            ),
        ]
        first_sentence = " ".join((cls.__doc__ or "").split()).partition(". ")[0].rstrip(".") + "."
        command.__signature__ = inspect.Signature(parameters)  # pyright: ignore  what typer reads
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        to.command(name or cls.__name__.lower(), help=cls.__doc__, short_help=first_sentence, **options)(command)
