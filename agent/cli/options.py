"""How commands are declared, and the options that several share, with the settings that they stand for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, such as runs/NAME.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (described in docs/command-line.md).")]
Config = Annotated[Path | None, typer.Option(help="A YAML file of settings; ${NAME} is filled in.")]
Context = Annotated[Path | None, typer.Option(
    metavar="DIR", help="A folder of your papers (PDF) and notes, which are read first (docs/context.md).")]
Runs = Annotated[Path, typer.Option(help="The folder in which the run's own folder is made.")]

SETTINGS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "model": (Annotated[str | None, typer.Option(
        help="'offline', or a pydantic-ai model string such as anthropic:NAME or openai-chat:NAME.")],
        ("models.name",)),
    "base_url": (Annotated[str | None, typer.Option(
        help="Address of an OpenAI-compatible server, usually ending in /v1.")], ("models.base_url",)),
    "workers": (Annotated[int | None, typer.Option(
        help="Experiments that run at the same time.")], ("search.num_workers",)),
    "gpus": (Annotated[str | None, typer.Option(
        help="GPUs to use, as 0,1: indices within CUDA_VISIBLE_DEVICES, or UUIDs; sets sandbox.device to cuda.")],
        ("sandbox.gpus",)),
    "time_limit": (Annotated[str | None, typer.Option(
        help="Time limit of the whole run: 12h, 90m or 45s.")], ("time_limit",)),
    "budget_usd": (Annotated[float | None, typer.Option(
        help="USD that model calls may cost; never exceeded.")], ("budget.usd",)),
    "budget_tokens": (Annotated[int | None, typer.Option(
        help="Tokens that may be used, prompts and answers together.")], ("budget.tokens",)),
    "gpu_hours": (Annotated[float | None, typer.Option(
        help="Hours that experiments may take, times the GPUs of each.")], ("budget.gpu_hours",)),
    "bib": (Annotated[Path | None, typer.Option(
        help="A .bib file with verified entries that the paper may cite.")], ("paper.bib",)),
    "template": (Annotated[str | None, typer.Option(
        metavar="NAME|DIR", help="Of the paper: workshop, conference, or a folder of your own (docs/templates.md).")],
        ("paper.template",)),
    "data": (Annotated[list[str] | None, typer.Option(
        "--data", metavar="NAME=PATH[,target=COLUMN]...", help="Data of your own: CSV, Parquet, NPZ, a folder or "
        "hf:OWNER/SET, with options as in docs/data.md; may be repeated.")], ("data",)),
    "context": (Context, ("context",)),
    "assignments": (Annotated[list[str] | None, typer.Option(
        "--set", metavar="KEY=VALUE", help="One setting, such as search.num_seeds=5; may be repeated.")], ()),
}
"""Parameter -> its option and its settings. They win over `assignments` (--set), which names settings of its own."""
BUDGET = ("time_limit", "budget_usd", "budget_tokens", "gpu_hours")
MODEL = ("model", "base_url", "assignments")


def declared(work: str, *settings: str) -> Callable[[Callable[..., None]], Callable[..., int]]:
    """A decorator that makes a command of a declaration, whose work (MODULE:FUNCTION) is imported when it is called.

    The work gets all parameters by keyword, and those of `settings` that are in use as `flags`, by dotted key. Raises
    `SettingsError`.
    """

    def decorate(declaration: Callable[..., None]) -> Callable[..., int]:
        @functools.wraps(declaration)
        def command(**values: Any) -> int:
            module, _, function = work.partition(":")
            if settings:
                # every room's settings, which parsing and --help do without
                from agent.settings import from_assignments

                given = {name: values.pop(name) for name in settings}
                used = {name: value for name, value in given.items() if value is not None and value != []}
                values["flags"] = from_assignments(used.pop("assignments", ())) | {
                    key: value for name, value in used.items() for key in SETTINGS[name][1]}
                if "gpus" in used:
                    values["flags"]["sandbox.device"] = "cuda"
            return getattr(import_module(module), function)(**values)

        signature = inspect.signature(declaration, eval_str=True)
        shared = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=SETTINGS[name][0])
                  for name in settings]
        parameters = [*signature.parameters.values(), *shared]
        command.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore  what typer reads
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorate
