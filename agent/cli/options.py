"""The base class of commands, options that several commands share, and the settings that these options set."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer import Argument, Option
from typer.models import ParameterInfo

RunArgument = Annotated[
    Path,
    Argument(metavar="RUN", help="Folder of a run, such as runs/NAME; commands that only read it also accept its zip."),
]
JsonOption = Annotated[bool, Option("--json", help="Print JSON (described in docs/command-line.md).")]
ConfigOption = Annotated[Path | None, Option(help="A YAML file of settings; ${NAME} comes from the environment.")]
TrackOption = Annotated[
    str | None,
    Option(
        metavar="wandb|mlflow[:PLACE]", help="Mirror the run to a tracker while it is running (docs/inspect-a-run.md)."
    ),
]
PapersOption = Annotated[
    Path | None,
    Option(metavar="DIR", help="Folder of PDFs; the paper may cite those found in a catalogue (docs/ideas.md)."),
]
ContextOption = Annotated[
    Path | None,
    Option(metavar="DIR", help="Folder of your papers (PDF) and notes, read before anything else (docs/ideas.md)."),
]


def _declare_setting(key: str, kind: Any, help: str, *names: str, metavar: str | None = None) -> tuple[Any, str]:
    return Annotated[kind, Option(*names, metavar=metavar, help=help)], key


SETTING_OPTIONS: dict[str, tuple[Any, str]] = {
    "model": _declare_setting(
        "models.name",
        str | None,
        "'offline', a pydantic-ai model string such as anthropic:NAME or openai-chat:NAME, or cli:claude or cli:codex.",
    ),
    "base_url": _declare_setting(
        "models.base_url", str | None, "Address of an OpenAI-compatible server, ending in /v1."
    ),
    "effort": _declare_setting(
        "effort",
        str | None,
        "quick, standard or thorough: one word for limits, seeds, trials and revisions; --dry-run compares the three.",
    ),
    "workers": _declare_setting("search.num_workers", int | None, "Number of concurrent experiments."),
    "gpus": _declare_setting(
        "sandbox.gpus",
        str | None,
        "GPUs to use, such as 0,1: indices within CUDA_VISIBLE_DEVICES, or UUIDs; sets sandbox.device to cuda.",
    ),
    "ray": _declare_setting(
        "sandbox.ray",
        str | None,
        "Run experiments on the machines of this Ray cluster; auto: the one of this machine (docs/hardware.md).",
        metavar="HOST:PORT",
    ),
    "time_limit": _declare_setting("time_limit", str | None, "Time limit of the whole run, such as 12h, 90m or 45s."),
    "budget_usd": _declare_setting("budget.usd", float | None, "Hard cap on model spend, in USD."),
    "budget_tokens": _declare_setting("budget.tokens", int | None, "Hard cap on prompt and answer tokens."),
    "gpu_hours": _declare_setting("budget.gpu_hours", float | None, "Hard cap on GPU-hours of experiments."),
    "seed": _declare_setting("seed", int | None, "Seed of the run."),
    "bib": _declare_setting(
        "paper.bib", Path | None, "A .bib file of references; the paper may cite the entries that are verified."
    ),
    "papers": (PapersOption, "paper.papers"),
    "template": _declare_setting(
        "paper.template",
        str | None,
        "Paper template: workshop, conference, ieee, acm, lncs, a venue with the folder of its official style "
        "(neurips=DIR, iclr=DIR, icml=DIR, aaai=DIR), or your own template folder (docs/paper.md).",
        metavar="NAME|DIR",
    ),
    "data": _declare_setting(
        "data",
        list[str] | None,
        "Your own data: CSV, Parquet, NPZ, a folder or hf:OWNER/SET (options: docs/data.md); may be repeated.",
        metavar="NAME=PATH[,target=COLUMN]...",
    ),
    "context": (ContextOption, "context"),
    "memory": _declare_setting(
        "memory",
        Path | None,
        "Folder with records of finished studies: it is read, and a record of this study is added (docs/memory.md).",
        metavar="DIR",
    ),
    "gate": _declare_setting(
        "gates",
        str | None,
        "Wait for 'scientist approve' at these points: plan, lock, paper (docs/control-a-run.md).",
        metavar="NAME,...",
    ),
    "code": _declare_setting(
        "code.repository", Path | None, "Git repository to study (docs/repositories.md).", metavar="DIR"
    ),
    "command": _declare_setting(
        "code.command",
        str | None,
        "Command of the repository, with {seed} in place of the seed; {out} is an output folder, {device} cpu or "
        "cuda, {overrides} the options of an arm. ablate finds it if it is not given.",
        metavar="CMD",
    ),
    "metric": _declare_setting(
        "code.metric",
        str | None,
        "Where the repository's result is: FILE.json:a.b, FILE.csv:column@last, FILE.txt:REGEX or stdout:REGEX. "
        "ablate --predictions: a metric such as accuracy.",
        metavar="SPEC",
    ),
    "direction": _declare_setting("code.direction", str | None, "Optimisation direction of the metric: max or min."),
    "metric_scale": _declare_setting(
        "code.scale", float | None, "Scale factor of the metric, e.g. 0.01 for percentages."
    ),
    "test_metric": _declare_setting(
        "code.test_metric",
        str | None,
        "With --code: where to read the test metric; sealed until the search ends.",
        metavar="SPEC",
    ),
    "predictions": _declare_setting(
        "code.predictions",
        str | None,
        "Predictions file written by the command, which scientist scores; with --code, instead of metrics.",
        metavar="FILE[:COLUMN]",
    ),
    "truth": _declare_setting(
        "code.truth", Path | None, "With --predictions: table of labels (label, id, split), hidden from the command."
    ),
    "expect": _declare_setting(
        "code.expect", str | None, "Expected result of the repository, with tolerance: 0.83, 0.83±0.02, 0.83±5%."
    ),
    "frozen": _declare_setting(
        "code.frozen",
        list[str] | None,
        "With --code: files that patches must not change; may be repeated.",
        metavar="GLOB",
    ),
    "hide": _declare_setting(
        "code.hide", list[str] | None, "With --code: pattern of output lines to hide; may be repeated.", metavar="REGEX"
    ),
    "python": _declare_setting(
        "code.python",
        str | None,
        "Python interpreter or conda prefix of the repository, used unchanged; default: scientist's own interpreter, "
        "with the repository's requirements installed separately.",
        metavar="PATH",
    ),
    "mount": _declare_setting(
        "code.mounts",
        list[str] | None,
        "Mount external data of the repository read-only, next to the checkout as NAME, "
        "or inside it if NAME has a slash (data/raw, ./data); may be repeated.",
        metavar="NAME=PATH",
    ),
    "env": _declare_setting(
        "code.env", list[str] | None, "Environment variable of the command; may be repeated.", metavar="NAME=VALUE"
    ),
    "resume_command": _declare_setting(
        "code.resume", str | None, "Command that resumes after a timeout, run in the same directory.", metavar="CMD"
    ),
    "dirty": _declare_setting("code.dirty", bool | None, "Include uncommitted changes of the repository.", "--dirty"),
    "top": _declare_setting("ablation.top", int | None, "Number of top components to report."),
    "budget_runs": _declare_setting(
        "ablation.budget_runs",
        int | None,
        "Total runs of the command, at least 8; default: derived from the number of components.",
    ),
    "timeout": _declare_setting("sandbox.timeout", str | None, "Wall-clock limit of one run, such as 90s or 2h."),
    "proxy": _declare_setting(
        "ablation.proxy",
        str | None,
        "Cheaper command with the same metric, used to rank components; reported values come from full runs, and rank "
        "agreement is reported.",
        metavar="CMD",
    ),
    "reproduce_only": _declare_setting(
        "ablation.reproduce_only", bool | None, "Reproduce only; skip ablations.", "--reproduce-only"
    ),
    "accept_baseline": _declare_setting(
        "ablation.accept_baseline",
        bool | None,
        "Run ablations even if the result differs from --expect.",
        "--accept-baseline",
    ),
    "assignments": _declare_setting(
        "", list[str] | None, "One setting, such as search.num_seeds=5; may be repeated.", "--set", metavar="KEY=VALUE"
    ),
}
"""Parameter name -> its option and its setting. These options override `assignments` (--set)."""
BUDGET_SETTINGS = ("time_limit", "budget_usd", "budget_tokens", "gpu_hours")
MODEL_SETTINGS = ("model", "base_url", "assignments")
RUN_SETTINGS = (*MODEL_SETTINGS, "effort", "workers", "gpus", "ray", *BUDGET_SETTINGS)
ABLATION_SETTINGS = ("metric_scale", "timeout", "top", "budget_runs", "proxy", "reproduce_only", "accept_baseline")
REPOSITORY_SETTINGS = tuple(
    "command metric direction predictions truth expect python mount env resume_command dirty".split()
)
CODE_SETTINGS = ("code", *REPOSITORY_SETTINGS, "test_metric", "hide", "frozen")


class CliCommand:
    """Base class of commands: each field of a subclass is a command-line parameter, and the subclass's docstring is the
    help text.

    The subclass is registered as a command of `to`. `work` (MODULE:FUNCTION in `labwright`) is imported and called
    with the parsed values, so that parsing and `--help` load nothing heavy. Values of the options in `settings` that
    the user gave are passed as `flags`, by dotted key.
    """

    work: ClassVar[str]
    flags: dict[str, Any]

    def __init__(self) -> None:
        vars(self).update(
            {name: one.default for name, one in vars(type(self)).items() if isinstance(one, ParameterInfo)}
        )

    def __init_subclass__(
        cls, *, to: typer.Typer, work: str, settings: Sequence[str] = (), name: str = "", **options: Any
    ) -> None:
        cls.work = work

        def command(**values: Any) -> int:
            if settings:
                # loads the settings of every package, which parsing and --help do not need
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
            parsed, (module, function) = cls(), work.split(":")
            vars(parsed).update(values)
            return getattr(import_module(f"labwright.{module}"), function)(parsed)

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
