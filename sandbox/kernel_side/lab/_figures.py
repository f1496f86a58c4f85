"""Extract facts about a matplotlib figure when it is saved, and write them next to the image as <file>.facts.json.

The format is `record.schema.figures.FigureFacts`. The host treats it as untrusted, since code can write anything there.
This never makes a plot fail: errors are stored in the field `error`, and after `MAX_FIGURE_SECONDS` the remaining
facts are left out (`cut`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import time
from typing import Any

from lab import _series, _texts

MAX_FIGURE_SECONDS = 2.0
"""Wall clock limit for one figure in seconds."""
_MAX_TEXT_CHARS = 300
"""Maximum number of characters kept of a label or title."""
_MAX_PANELS, _MAX_SERIES, _MAX_WORDS = 36, 40, 40
"""Maximum numbers of recorded items: axes per figure; series per axes; and tick labels, legend entries or notes per
axes.
"""


def watch_figures(figure_class: Any) -> None:
    """Make `Figure.savefig` write the facts next to each saved file."""
    save = figure_class.savefig

    @functools.wraps(save)
    def savefig(self: Any, fname: Any, *args: Any, **options: Any) -> Any:
        done = save(self, fname, *args, **options)
        if isinstance(fname, (str, os.PathLike)):
            _write_facts(self, os.fspath(fname), options)
        return done

    figure_class.savefig = savefig


def _write_facts(figure: Any, path: Any, options: dict[str, Any]) -> None:
    import matplotlib  # already imported, since a figure was saved

    settings = matplotlib.rcParams
    with contextlib.suppress(Exception):  # saving must not fail; without facts the host judges only the image
        if not (options.get("format") or os.path.splitext(path)[1]):  # matplotlib adds an extension if there is none
            path = f"{path.rstrip('.')}.{settings['savefig.format']}"
        try:
            dpi = options.get("dpi", settings["savefig.dpi"])
            tight = options.get("bbox_inches", settings["savefig.bbox"]) == "tight"
            fields = build_facts(figure, tight=tight) | ({} if dpi in ("figure", None) else {"dpi": float(dpi)})
        except Exception as error:
            fields = {"error": f"{type(error).__name__}: {error}"[:_MAX_TEXT_CHARS]}
        with open(f"{path}.facts.json", "w", encoding="utf-8") as file:
            json.dump(fields, file)


def build_facts(figure: Any, *, tight: bool = False) -> dict[str, Any]:
    """Build the fields of `FigureFacts`; colour bars do not count as axes. `tight`: cropped to its content when
    saved."""
    until = time.monotonic() + MAX_FIGURE_SECONDS
    width, height = (float(side) for side in figure.get_size_inches())
    figure.draw_without_rendering()  # saving may have moved labels, at another dpi or by cropping
    return {"width_inches": width, "height_inches": height, "dpi": float(figure.dpi)} | _build_drawn_facts(
        figure, tight, until
    )


def _build_drawn_facts(figure: Any, tight: bool, until: float) -> dict[str, Any]:
    """Describe the content of each axes, and the positions of labels."""
    plots = [axes for axes in figure.axes if not _is_colourbar(axes)]
    bars = [axes for axes in figure.axes if _is_colourbar(axes)]
    outside = [
        text.get_text() for text in (*figure.texts, *(text for legend in figure.legends for text in legend.get_texts()))
    ]
    fields: dict[str, Any] = {
        "axes": [_build_axes_facts(axes, plots, bars) for axes in plots[:_MAX_PANELS]],
        "words": [_truncate(text) for text in outside if text.strip()][:_MAX_WORDS],
        "scales": [_truncate(axes.get_xlabel() or axes.get_ylabel()) for axes in bars],
    }
    try:
        texts = _texts.collect_texts(figure, until)
        sizes = sorted((item.points, item.text) for item in (*texts.items, *texts.inside) if item.points > 0)
        places: dict[str, Any] = {
            "cut": texts.is_truncated,
            "overlaps": _texts.find_overlaps(texts, plots),
            "clipped": [] if tight else _texts.find_clipped(texts, figure.bbox),
            "smallest_font": sizes[0][0] if sizes else None,
            "smallest_text": sizes[0][1] if sizes else "",
        }
        if tight:  # the saved file has the size of the drawing
            box = figure.get_tightbbox()
            places |= {"width_inches": float(box.width), "height_inches": float(box.height)}
        return fields | places
    except Exception as error:
        return fields | {"error": f"{type(error).__name__}: {error}"[:_MAX_TEXT_CHARS]}


def _is_colourbar(axes: Any) -> bool:
    return axes.get_label() == "<colorbar>" or getattr(axes, "_colorbar", None) is not None


# --- one axes -------------------------------------------------------------------------------------------------------


def _build_axes_facts(axes: Any, plots: list[Any], bars: list[Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "title": _truncate(axes.get_title() or axes.get_title(loc="left") or axes.get_title(loc="right")),
        "xlabel": _truncate(_find_label(axes, "x")),
        "ylabel": _truncate(_find_label(axes, "y")),
        # three-dimensional axes switch `axison` off while drawing, and keep the requested value separately
        "visible": bool(axes.get_visible() and getattr(axes, "_axis3don", axes.axison)),
    }
    fields |= {"series": 1, "legend": _has_legend(axes, plots, set())}
    with contextlib.suppress(Exception):  # artists may come from any library, so record as much as possible
        series = _series.collect_series(axes)
        labels = {line.label for line in series if line.label}
        drawn, labelled = _series.count_series(series)
        fields |= {
            "series": drawn,
            "labelled_series": labelled,
            "legend": _has_legend(axes, plots, labels),
            "empty": not any(line.has_finite_values for line in series),
        }
        fields |= _build_more_facts(axes, bars) | {
            "drawn": [_series.build_fields(line) for line in series[:_MAX_SERIES]]
        }
    return fields


def _build_more_facts(axes: Any, bars: list[Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "spread": _series.has_spread(axes),
        "covered": round(_texts.compute_covered_share(axes), 3),
    }
    words: list[str] = []
    if hasattr(axes, "get_zlabel"):
        fields["zlabel"] = _truncate(axes.get_zlabel())
    for side, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        texts = [text.get_text() for text in _texts.iterate_tick_labels(axis)] if axis.get_visible() else []
        fields |= {
            f"{side}ticks": len(texts),
            f"{side}scale": str(axis.get_scale()),
            f"{side}limits": [float(end) for end in axis.get_view_interval()],
            f"{side}words": bool(texts) and not any(_is_number(text) for text in texts),
        }
        words += [text for text in texts if not _is_number(text)]
    if axes.name == "polar":  # angles and radii need no names
        fields |= {"xticks": 0, "yticks": 0}
    legend = axes.get_legend()
    notes = [text.get_text() for text in axes.texts if text.get_visible() and text.get_text().strip()]
    return fields | {
        "tick_words": [_truncate(text) for text in words[:_MAX_WORDS]],
        "notes": [_truncate(text) for text in notes[:_MAX_WORDS]],
        "note_count": len(notes),
        "colourbar": bool(bars),
        "legend_entries": [_truncate(text.get_text()) for text in legend.get_texts()[:_MAX_WORDS]] if legend else [],
    }


def _is_number(text: str) -> bool:
    """Whether the text starts with a digit, with any unit; preceding TeX commands and brackets are ignored."""
    return re.match(r"[\s$({\u2212+.-]*\d", re.sub(r"\\[a-zA-Z]+", "", text)) is not None


def _truncate(text: str) -> str:
    return str(text)[:_MAX_TEXT_CHARS]


def _find_label(axes: Any, which: str) -> str:
    """Return the label of the axis, otherwise that of a panel sharing the axis, otherwise that of the whole figure."""
    shared = getattr(axes, f"get_shared_{which}_axes")().get_siblings(axes)
    texts = [
        *(getattr(panel, f"get_{which}label")() for panel in (axes, *shared)),
        *(getattr(figure, f"get_sup{which}label")() for figure in (axes.figure, axes.get_figure(root=True))),
    ]
    return next((text for text in texts if text.strip()), "")


def _has_legend(axes: Any, plots: list[Any], labels: set[str]) -> bool:
    """Whether a legend explains these series: a legend of the axes, of the figure, or of another panel."""
    if axes.get_legend() is not None or axes.figure.legends or axes.get_figure(root=True).legends:
        return True
    others = (other.get_legend() for other in plots)
    explained = [{text.get_text() for text in legend.get_texts()} for legend in others if legend is not None]
    return bool(labels) and any(labels <= texts for texts in explained)
