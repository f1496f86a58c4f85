"""Small stand-ins for the official styles of venues: their interfaces, and the habits that have broken papers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_LAYOUT = r"""
\RequirePackage[letterpaper,textwidth=5.5in,textheight=9in]{geometry}
"""
_FILES = {
    "neurips": {
        "neurips_2099.sty": _LAYOUT
        + r"""
\newif\iffinal
\DeclareOption{final}{\finaltrue}
\ProcessOptions\relax
\RequirePackage{mathptmx,natbib}
\def\@maketitle{\begin{center}{\LARGE\bfseries\@title\par}\iffinal\@author\else Anonymous Author(s)\fi\end{center}}
\def\maketitle{\@maketitle{\footnotesize\iffinal\else Submitted to \fi
  113th Conference on Neural Information Processing Systems (NeurIPS 2099).\par}}
\iffinal\else\RequirePackage{lineno}\linenumbers\fi
"""
    },
    "iclr": {
        "iclr2098_conference.sty": r"\PackageError{iclr}{an older style is not to be used}{}",
        "iclr2099_conference.sty": _LAYOUT
        + r"""
\RequirePackage{natbib}
\newif\iffinal
\def\iclrfinalcopy{\finaltrue}
\def\maketitle{{\LARGE\sc\@title\par}\iffinal Published\else Under review\fi\ as a conference paper at ICLR 2099\par
  \iffinal\@author\else Anonymous authors\fi\par}
\def\section{\@startsection{section}{1}{\z@}{-2ex}{1ex}{\large\sc\raggedright}}
\def\addcontentsline#1#2#3{}
""",
    },
    "icml": {
        "icml2099.sty": r"""
\RequirePackage{times,natbib}
\newif\iffinal
\DeclareOption{accepted}{\finaltrue}
\ProcessOptions\relax
\setlength\textheight{9in}\setlength\textwidth{6.75in}\setlength\columnsep{0.25in}
\setlength\topmargin{-0.5in}\setlength\oddsidemargin{-0.2in}
\twocolumn \sloppy
\def\icmltitlerunning#1{\markboth{#1}{#1}}
\def\icmltitle#1{{\centering\Large\bf #1\par}}
\newenvironment{icmlauthorlist}{\begin{center}}{\end{center}}
\def\icmlauthor#1#2{\iffinal\mbox{\bf #1}\else Anonymous Authors\fi}
\def\icmlaffiliation#1#2{}
\def\icmlcorrespondingauthor#1#2{}
\def\Notice@String{Proceedings of the 116$^{th}$ International Conference on Machine Learning, PMLR 999, 2099.
  Copyright 2099 by the author(s).}
\def\printAffiliationsAndNotice#1{\footnotetext{Anonymous Institution. Do not distribute.}}
"""
    },
    "aaai": {
        "aaai2099.sty": r"""
\newif\iffinal\finaltrue
\DeclareOption{submission}{\finalfalse}
\ProcessOptions\relax
\setlength\textheight{9in}\setlength\textwidth{7in}\setlength\columnsep{0.375in}
\setlength\topmargin{-0.5in}\setlength\oddsidemargin{-0.25in}
\twocolumn \sloppy
\long\gdef\affiliations#1{}
\def\maketitle{\twocolumn[{\centering{\LARGE\bf\@title\par}\iffinal\@author\else Anonymous submission\fi\par}]
  \iffinal{\def\thefootnote{}\footnotetext{Copyright \copyright\space 2099, Association}}\fi}
\setcounter{secnumdepth}{0}
\AtBeginDocument{\bibliographystyle{aaai2099}%
  \@ifpackageloaded{hyperref}{\PackageError{aaai}{You must not use hyperref}{}}{}%
  \@ifpackageloaded{fontenc}{\PackageError{aaai}{Package fontenc is forbidden}{}}{}}
"""
    },
}
_BIBLIOGRAPHY_STYLES = {"iclr": "iclr2099_conference.bst", "icml": "icml2099.bst", "aaai": "aaai2099.bst"}


def write_kit(venue: str, folder: Path) -> Path:
    """Write the stand-in for a venue's style into a new folder, with plainnat as its bibliography style."""
    folder.mkdir()
    for name, text in _FILES[venue].items():
        (folder / name).write_text(f"\\ProvidesPackage{{{Path(name).stem}}}\n{text.strip()}\n")
    if venue in _BIBLIOGRAPHY_STYLES:
        plain = subprocess.run(["kpsewhich", "plainnat.bst"], capture_output=True, text=True, check=True).stdout.strip()
        shutil.copyfile(plain, folder / _BIBLIOGRAPHY_STYLES[venue])
    (folder / "example_paper.pdf").write_bytes(b"the kit's own example, which is not copied")
    return folder
