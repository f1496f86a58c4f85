"""Tables of the appendix that run over pages."""

from __future__ import annotations

import re
from collections.abc import Sequence

PAGE = 5.6
"""Inches of text width for which the columns of a table are designed."""
WHOLE = 14
"""Rows at most of a table that no page break may divide."""
_WIDTH = re.compile(r"\{([\d.]+)in\}")


def longtable(columns: str, head: str, rows: Sequence[str], caption: str, name: str) -> str:
    """Rows of TeX as a small table with its head on every page, labelled `tab:record-NAME`.

    Widths in `columns` are inches on a page of `PAGE`; a table with such columns takes the whole width of the text,
    and these columns take what another page is wider or narrower.
    """
    if len(rows) <= WHOLE:
        rows = [f"{row}*" if row.endswith(r"\\") else row for row in rows]
    body = "\n".join(rows)
    spread = "in}" in columns
    total = sum(float(width) for width in _WIDTH.findall(columns))
    columns = _WIDTH.sub(lambda width: (
        rf"{{\dimexpr{width[1]}in+{float(width[1]) / total:.3f}\dimexpr\linewidth-{PAGE}in\relax\relax}}"), columns)
    if spread:
        columns = columns.replace("@{}", r"@{\extracolsep{\fill}}", 1)
    edges = r"\fullwidth" if spread else ""
    return (
        f"\\begingroup\\scriptsize\\setlength\\tabcolsep{{3pt}}{edges}\n"
        f"\\begin{{longtable}}{{{columns}}}\n\\caption{{{caption}}}\\label{{tab:record-{name}}}\\\\\n"
        f"\\toprule\n{head} \\\\\n\\midrule\n\\endfirsthead\n\\toprule\n{head} \\\\\n\\midrule\n\\endhead\n"
        f"\\bottomrule\n\\endlastfoot\n{body}\n\\end{{longtable}}\n\\endgroup")
