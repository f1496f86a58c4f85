"""Options that several commands share, and the settings that they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, as runs/NAME.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (described in docs/command-line.md).")]
Model = Annotated[str | None, typer.Option(
    help="'offline', or a pydantic-ai model string such as anthropic:NAME or openai-chat:NAME.")]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server, as a rule ending in /v1.")]
Assignments = Annotated[list[str] | None, typer.Option(
    "--set", metavar="KEY=VALUE", help="One setting, as search.num_seeds=5; may be repeated.")]
Workers = Annotated[int | None, typer.Option(help="Experiments that run at the same time.")]
Gpus = Annotated[str | None, typer.Option(
    help="GPUs to use, as 0,1: indices within CUDA_VISIBLE_DEVICES, or UUIDs; sets sandbox.device to cuda.")]
TimeLimit = Annotated[str | None, typer.Option(help="Of the whole run: 12h, 90m or 45s.")]
BudgetUsd = Annotated[float | None, typer.Option(help="USD at most for model calls; nothing passes it.")]
BudgetTokens = Annotated[int | None, typer.Option(help="Tokens at most, prompts and answers.")]
GpuHours = Annotated[float | None, typer.Option(help="Hours of experiments at most, times the GPUs of each.")]
Config = Annotated[Path | None, typer.Option(help="A YAML file of settings; ${NAME} is filled in.")]
Template = Annotated[str | None, typer.Option(
    metavar="NAME|DIR", help="Of the paper: workshop, conference, or a folder of your own (docs/templates.md).")]
Bib = Annotated[Path | None, typer.Option(help="A .bib file with verified entries that the paper may cite.")]
Papers = Annotated[Path | None, typer.Option(
    metavar="DIR", help="A folder of PDFs; those that a catalogue knows may be cited as well (docs/literature.md).")]
Context = Annotated[Path | None, typer.Option(
    metavar="DIR", help="A folder of your papers (PDF) and notes, which are read first (docs/context.md).")]
Data = Annotated[list[str] | None, typer.Option(
    "--data", metavar="NAME=PATH[,target=COLUMN]...", help="Data of your own: CSV, Parquet, NPZ, a folder or "
    "hf:OWNER/SET, with options as in docs/data.md; may be repeated.")]


def on(gpus: str | None) -> dict[str, Any]:
    """What --gpus means, as settings."""
    return {} if gpus is None else {"sandbox.gpus": gpus, "sandbox.device": "cuda"}


def capped(usd: float | None, tokens: int | None, gpu_hours: float | None) -> dict[str, Any]:
    """Ceilings on spending, as settings."""
    return {"budget.usd": usd, "budget.tokens": tokens, "budget.gpu_hours": gpu_hours}


def given(flags: dict[str, Any]) -> dict[str, Any]:
    """Flags without those that were left out."""
    return {key: value for key, value in flags.items() if value is not None}
