"""What is wrong with the words of a figure: underscores, quantities without their unit."""

from __future__ import annotations

import re
from collections.abc import Iterable

from record.nouns.data import MetricSpec

_QUANTITY = re.compile(
    r"\b(time|duration|latency|run-?time|elapsed|memory|energy|power (draw|consumption|use)|throughput|"
    r"bandwidth|rotation angle)\b", re.IGNORECASE)
"""Quantities that mean nothing without a unit; counts, shares, scores, rates and losses do."""
_NOT_ONE = re.compile(
    r"\b(time[- ]?steps?|times|discrete time|relative|normali[sz]ed|ratio|share|fraction|factor|speed-?up|number|"
    r"memory cells?|index|time series|full[- ]time|per cent|percent|over time|memory lengths?|log(arithm)? of)\b",
    re.IGNORECASE)
_UNIT = re.compile(
    r"[(\[/%$]|,\s*\w{1,6}$|\bin \w+|\b(n|u|µ|μ|m)?s\b|\b(milli|micro|nano)?(seconds?|minutes?|hours?|days?|weeks?)|"
    r"\b(ms|min|h|sec|secs|mins|hrs?|[kmgt]i?b|bytes?|joules?|k?wh?|watts?|degrees?|epochs?|steps?|iterations?|"
    r"updates?|tokens)\b", re.IGNORECASE)


def underscored(text: str) -> bool:
    """True for an underscore outside of mathematics, where it sets an index."""
    return "_" in ("".join(text.split("$")[::2]) if text.count("$") % 2 == 0 else text)


def lacks_unit(label: str, metrics: Iterable[MetricSpec] = ()) -> bool:
    """True for the label of a quantity that has a unit, by the data plan or by custom, where it names none."""
    if not label.strip() or _UNIT.search(label):
        return False
    for metric in metrics:
        name = (metric.title or metric.name).replace("_", " ").casefold()
        if metric.unit and name in label.casefold():
            return metric.unit.casefold() not in label.casefold()
    return bool(_QUANTITY.search(label)) and not _NOT_ONE.search(label)
