"""The pretrained models that a run may use: named by its settings, fetched before its first experiment.

    PretrainedError    (sandbox.errors) you: a model is not named as it must be, or cannot be fetched
"""

from __future__ import annotations

from pathlib import Path

from agent.settings import Settings
from record.folder import RunFolder
from sandbox.pretrained import pretrained_of, provide


def provided(settings: Settings, folder: RunFolder) -> dict[str, Path]:
    """`OWNER/NAME@REVISION` -> its folder in the run, fetched where it is not there yet. Raises `PretrainedError`."""
    models = pretrained_of(settings.sandbox.pretrained)
    return {str(model): provide(model, folder.root / "data" / "pretrained").folder for model in models}
