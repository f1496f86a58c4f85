"""Patterns of names and calls that the honesty checks use."""

from __future__ import annotations

import re

SCORE_CALL = re.compile(r"(^|\.)(mean|nanmean|average|item|fmean|median|\w+_score|\w+_error|log_loss|score)$")

QUALITY_NAME = re.compile(
    r"acc|loss|(^|_)f1|auc|auroc|(^|_)(mse|mae|rmse|r2|nll|ece|iou|map|fid|mrr|ppl)(_|$)|error|score|reward|return|"
    r"bleu|rouge|perplexity|brier|precision|recall|dice|mcc|psnr|ssim|likelihood|correct|success|win_rate|"
    r"calibration",
    re.I,
)
"""Metrics of quality; a parameter count or a duration does not depend on data."""

CHANCE_ARM_NAME = re.compile(
    r"chance|random|uniform|guess|constant|dummy|majority|prior|null|naive|untrained|coin", re.I
)
"""Names of arms that are deliberately uninformed."""

UNTRAINED_ARM_NAME = re.compile(r"untrained|random|frozen|init|zero-?shot|chance|guess|dummy|no-?training|prior", re.I)
"""Names of arms that are deliberately untrained."""

TRAINING_CALL = re.compile(r"^_*(fit|train)", re.I)
"""Names of functions that train."""
