"""Small papers for every document class, with known sections and numbers, to test how PDFs are read.

Each paper has the sections in `TITLES`, whose text begins and ends with known words, sentences that name their place in
the reading order, and numbers that are results (`RESULTS`) among dates, section numbers, ISBNs, page numbers, years.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TITLES = ("Introduction", "Related Work", "Method", "Results", "Conclusion")
INNER = {"Method": ("Model", "Training Objective"), "Results": ("Main Comparison", "Effect of the Threshold")}
"""Subsections."""
RESULTS = ("91.4", "87.25", "0.613", "0.742", "12.8", "13.9")
"""The numbers that state results."""
SENTENCES = 14
"""Sentences of a section or subsection."""
ABSTRACT = (
    "This paper studies how small classifiers state their confidence when the training data are scarce and noisy. We "
    "compare two methods that differ in a single term of the loss, and we describe in detail where the difference "
    "comes from. The accuracy of the better one is 91.4 percent on the held-out part of the data, with the same budget."
)
TABLE = r"""\begin{tabular}{lrr}
method & loss & time \\ \hline
baseline & 0.742 & 12.8 \\
proposed & 0.613 & 13.9 \\
\end{tabular}"""
REFERENCES = r"""\begin{thebibliography}{9}
\bibitem{a} A. Author. \emph{A Book on Calibration}. Second edition, Publisher, 2019. ISBN 978-3-16-148410-0.
\bibitem{b} B. Writer and C. Editor. Confidence of small models. \emph{Journal of Tests}, \textbf{12}(3):245--267, 2021.
\end{thebibliography}"""


@dataclass(frozen=True)
class LatexPaper:
    """A paper. `document` is its LaTeX; `titles` are those of its sections, `inner` those of numbered subsections."""

    name: str
    document: str
    titles: tuple[str, ...]
    inner: tuple[str, ...] = ()
    has_abstract: bool = True


class LatexMissing(Exception):
    """A file that a paper needs is not installed."""


def name_place(number: int) -> str:
    """Return a word that names a place in the reading order: place 0 is Qaa, place 1 is Qab."""
    return f"Q{chr(ord('a') + number // 26)}{chr(ord('a') + number % 26)}"


def find_places(text: str) -> list[str]:
    """Return the names of places in a text, in order."""
    return re.findall(r"\bQ[a-z]{2}\b", text)


def _write_text(places: Iterator[str], title: str) -> str:
    sentences = [f"The text of {title.lower()} begins here."]
    for number in range(SENTENCES):
        sentences.append(f"{next(places)} describes how the model learns from the data that it is given in a step.")
        if number == SENTENCES // 2:
            sentences.append("\n\nA new paragraph follows.")
    return " ".join([*sentences, f"The text of {title.lower()} ends here."])


def write_body(
    *,
    section: str = r"\section{%s}",
    subsection: str = r"\subsection{%s}",
    float_environment: str = "table",
    titles: tuple[str, ...] = TITLES,
) -> str:
    """Return the sections of a paper in LaTeX."""
    places = map(name_place, range(26 * 26))
    parts: list[str] = []
    for title in titles:
        parts += [section % title, _write_text(places, title)]
        if title == "Related Work":
            parts.append(r"Earlier work\footnote{First shown on 3 May 2018 in a report of 40 pages.} is similar.")
        for inner in INNER.get(title, ()) if subsection else ():
            parts += [subsection % inner, _write_text(places, inner)]
        if title == "Results":
            caption = r"\caption{Loss and time of both methods.}"
            parts.append(rf"\begin{{{float_environment}}}[t]\centering {caption} {TABLE} \end{{{float_environment}}}")
            parts.append("The proposed method reaches an accuracy of 91.4 percent, the baseline one of 87.25 percent.")
    return "\n\n".join(parts)


_HEAD = r"""\makeatletter\def\@fnsymbol#1{\ensuremath{\ast}}\makeatother \title{On the Confidence of Small Classifiers}
\author{Ada Example\thanks{Sent on 28 November 2026. ISBN 978-1-4503-0000-5.}}
\date{28 November 2026}
"""
_PLAIN_FRONT = rf"\maketitle \begin{{abstract}}{ABSTRACT}\end{{abstract}}"
_BACK = r"\section*{Acknowledgements} We thank 3 people." + "\n" + REFERENCES
_APPENDIX = (
    r"\appendix \section{Proofs} The text of proofs begins here. It has a few words. The text of proofs ends here."
)
_ALL = (*TITLES, "Acknowledgements", "References")
_INNER = tuple(title for some in INNER.values() for title in some)


def _write_article(
    name: str, preamble: str = "", *, options: str = "", front: str = _PLAIN_FRONT, body: str = "", back: str = "",
    document_class: str = "article", titles: tuple[str, ...] = (*_ALL, "Proofs"), inner: tuple[str, ...] = _INNER,
    has_abstract: bool = True, head: str = _HEAD,
) -> LatexPaper:  # fmt: skip
    document = (
        rf"\documentclass[{options}]{{{document_class}}}"
        + f"\n{preamble}\n{head}\\begin{{document}}\n{front}\n{body or write_body()}\n{back or _BACK + _APPENDIX}\n"
        + r"\end{document}"
    )
    return LatexPaper(name, document, titles, inner, has_abstract)


_SECTION_STYLE = r"\makeatletter\renewcommand\section{\@startsection{section}{1}{0pt}{-3ex}{1.5ex}{%s}}\makeatother"
_STAMP = r"""\usepackage{eso-pic,graphicx,xcolor}
\AddToShipoutPictureBG{\AtPageCenter{\makebox(0,0){\rotatebox{50}{\textcolor[gray]{0.85}{\fontsize{70}{70}\selectfont
DRAFT 2026}}}}\AtPageLowerLeft{\put(28,250){\rotatebox{90}{\large arXiv:2611.01234v2 [cs.LG] 28 Nov 2026}}}}"""
_RUNNING = r"""\usepackage{fancyhdr}\pagestyle{fancy}\fancyhead[L]{Journal of Tests 12 (2026) 245--267}
\fancyhead[R]{\rightmark}\fancyfoot[C]{Page \thepage\ of 9}"""


def _list_articles() -> Iterator[LatexPaper]:
    yield _write_article("article")
    yield _write_article("article-two-columns", options="twocolumn")
    yield _write_article("article-wide-table", options="twocolumn,10pt", body=write_body(float_environment="table*"))
    yield _write_article("article-small-caps", _SECTION_STYLE % r"\centering\normalfont\scshape")
    yield _write_article("article-capitals", _SECTION_STYLE % r"\normalfont\normalsize\MakeUppercase")
    yield _write_article(
        "article-unnumbered",
        body=write_body(section=r"\section*{%s}", subsection=r"\subsection*{%s}"),
        back=_BACK,
        titles=_ALL,
        inner=(),
    )
    yield _write_article(
        "article-roman", r"\renewcommand\thesection{\Roman{section}.}\renewcommand\thesubsection{\Alph{subsection}.}",
        options="twocolumn",
        back=_BACK,
        titles=_ALL,
    )  # fmt: skip
    yield _write_article("article-running-heads", _RUNNING)
    yield _write_article("article-line-numbers", r"\usepackage{lineno}\linenumbers")
    yield _write_article("article-stamped", _STAMP)
    yield _write_article(
        "amsart",
        document_class="amsart",
        head=_HEAD.replace(r"\thanks", r"}\thanks").replace("0000-5.}}", "0000-5.}"),
        front=rf"\begin{{abstract}}{ABSTRACT}\end{{abstract}}\maketitle",
        inner=(),  # its subsections begin within a line
    )


def _list_books() -> Iterator[LatexPaper]:
    body = write_body(section=r"\chapter{%s}", subsection=r"\section{%s}")
    for name in ("report", "memoir"):
        yield _write_article(
            name, document_class=name, body=body, back=REFERENCES, titles=(*TITLES, "Bibliography"), front=_PLAIN_FRONT
        )


def _list_publishers() -> Iterator[LatexPaper]:
    """Yield papers in classes of publishers (Debian's texlive-publishers and texlive-latex-extra).

    Without texlive-fonts-extra (libertine, newtxmath, zi4), acmart uses Computer Modern, whose copyright sign Debian
    only has as a bitmap; so it is set in Times.
    """
    yield _write_article(
        "IEEEtran", document_class="IEEEtran", options="conference",
        front=_PLAIN_FRONT + r"\begin{IEEEkeywords}calibration\end{IEEEkeywords}", back=_BACK, titles=_ALL,
    )  # fmt: skip
    yield _write_article("IEEEtran-journal", document_class="IEEEtran", options="journal", back=_BACK, titles=_ALL)
    yield _write_article(
        "acmart", r"\usepackage{mathptmx}", document_class="acmart", options="sigconf",
        head=r"""\title{On the Confidence of Small Classifiers}
\author{Ada Example}\affiliation{\institution{University}\city{Town}\country{Country}}
\copyrightyear{2026}\acmYear{2026}\acmISBN{978-1-4503-0000-5}\acmDOI{10.1145/1234567.1234568}
\acmConference[Conf '26]{A Conference}{November 28--30, 2026}{Town, Country}
\begin{CCSXML}
\end{CCSXML}
\ccsdesc[500]{Computing methodologies~Neural networks}\keywords{calibration, classifiers}
""",
        front=rf"\begin{{abstract}}{ABSTRACT}\end{{abstract}}\maketitle", back=_BACK + _APPENDIX,
    )  # fmt: skip
    yield _write_article(
        "llncs", document_class="llncs", head=r"\title{On the Confidence of Small Classifiers}\author{Ada Example}"
        r"\institute{University, Town, 12345 Country}",
        front=rf"\maketitle \begin{{abstract}}{ABSTRACT}\keywords{{calibration}}\end{{abstract}}",
        back=_BACK, titles=_ALL,
    )  # fmt: skip
    for options in ("preprint,12pt", "final,5p,times,twocolumn"):
        yield _write_article(
            f"elsarticle-{options.split(',')[0]}", document_class="elsarticle", options=options, head="",
            front=r"\begin{frontmatter}\title{On the Confidence of Small Classifiers}\author{Ada Example}"
            rf"\begin{{abstract}}{ABSTRACT}\end{{abstract}}\begin{{keyword}}calibration\end{{keyword}}\end{{frontmatter}}",
            back=_BACK, titles=_ALL,
        )  # fmt: skip


PAPERS = (*_list_articles(), *_list_books(), *_list_publishers())


def typeset(paper: LatexPaper, folder: Path) -> Path:
    """Return the PDF of a paper, typeset twice for its references. Raises `LatexMissing`."""
    (folder / "paper.tex").write_text(paper.document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    environment = {**os.environ, "MKTEXPK": "0"}  # no fonts are made
    for _ in range(2):
        done = subprocess.run(
            command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=600, env=environment
        )
        log = done.stdout.decode("latin-1")
        if missing := re.search(r"File `([^']+)' not found|file (\w+)\): Font \w+ at \d+ not found", log):
            raise LatexMissing(missing[1] or missing[2])
        assert done.returncode == 0, log[-1500:]
    return folder / "paper.pdf"
