"""Twenty works in the catalogues, twenty true references to them and twenty false ones of five kinds."""

from __future__ import annotations

from labwright.literature.bibtex import BibEntry
from tests.literature.catalogues import TrueWork

TRUE: tuple[TrueWork, ...] = (
    TrueWork(
        "On Calibration of Modern Neural Networks",
        (("Chuan", "Guo"), ("Geoff", "Pleiss"), ("Yu", "Sun"), ("Kilian Q.", "Weinberger")),
        2017,
        arxiv="1706.04599",
        venue="ICML",
    ),
    TrueWork(
        "When Does Label Smoothing Help?",
        (("Rafael", "Müller"), ("Simon", "Kornblith"), ("Geoffrey E.", "Hinton")),
        2019,
        arxiv="1906.02629",
        venue="NeurIPS",
    ),
    TrueWork(
        "SMOTE",
        (("N. V.", "Chawla"), ("K. W.", "Bowyer"), ("L. O.", "Hall"), ("W. P.", "Kegelmeyer")),
        2002,
        doi="10.1613/jair.953",
        subtitle="Synthetic Minority Over-sampling Technique",
    ),
    TrueWork(
        "Long Short-Term Memory",
        (("Sepp", "Hochreiter"), ("Jürgen", "Schmidhuber")),
        1997,
        doi="10.1162/neco.1997.9.8.1735",
        venue="Neural Computation",
    ),
    TrueWork("Long Short-Term Memory", (("Ada", "Namesake"),), 2012, doi="10.5555/namesake.1"),
    TrueWork(
        "Learning Phrase Representations using RNN Encoder–Decoder",
        (("Kyunghyun", "Cho"), ("Bart", "van Merriënboer"), ("Çağlar", "Gülçehre")),
        2014,
        doi="10.3115/v1/D14-1179",
        arxiv="1406.1078",
    ),
    TrueWork(
        "Attention is All you Need",
        (("Ashish", "Vaswani"), ("Noam", "Shazeer"), ("Łukasz", "Kaiser")),
        2017,
        arxiv="1706.03762",
        abstract="",
    ),
    TrueWork(
        "Decoupling Representation and Classifier for Long-Tailed Recognition",
        (("Bingyi", "Kang"), ("Saining", "Xie")),
        2020,
        arxiv="1910.09217",
        venue="ICLR",
    ),
    TrueWork("Learning to Execute", (("Wojciech", "Zaremba"), ("Ilya", "Sutskever")), 2014, arxiv="1410.4615"),
    TrueWork(
        "β-Networks and $O(n)$ Search", (("María", "García López"), ("Søren", "Ångström")), 2021, doi="10.5555/ex.10"
    ),
    TrueWork(
        "A Broad Survey of Margins",
        tuple((f"Person{n}", f"Author{chr(97 + n)}") for n in range(12)),
        2022,
        doi="10.5555/ex.11",
    ),
    TrueWork(
        "Pre-Training at Small Scale", (("Quoc V.", "Le"), ("Di", "Wang")), 2020, online=2019, doi="10.5555/ex.12"
    ),
    TrueWork("Sampling Without Regret", (("Nando", "de Freitas"), ("Eva", "Smith")), 2018, doi="10.5555/ex.13"),
    TrueWork("What Is It Like to Be a Classifier?", (("Jean-Luc", "Müller-Lüdenscheidt"),), 2016, doi="10.5555/ex.14"),
    TrueWork("Report of the Consortium", (("", "The Example Consortium"),), 2015, doi="10.5555/ex.15"),
    TrueWork(
        "Rounding Errors & Their Friends", (("Pál", "Erdős"), ("Martin Luther", "King Jr.")), 1998, doi="10.5555/ex.16"
    ),
    TrueWork("Gradient Noise", (("Wei", "Zhang"), ("Yann", "LeCun")), 2023, doi="10.5555/ex.17", arxiv="2301.00017"),
    TrueWork("Deep Ensembles of Trees", (("Anna", "Muster"),), 2019, doi="10.5555/ex.18", abstract=""),
    TrueWork("Deep Ensembles of Shrubs", (("Anna", "Muster"),), 2021, doi="10.5555/ex.19"),
    TrueWork("Soft Targets: A Second Look", (("Rosa", "Beispiel"), ("Hans", "Beispiel")), 2020, doi="10.5555/ex.20"),
)
RETRACTED: tuple[TrueWork, ...] = tuple(
    TrueWork(
        f"Miracle Cure of Overfitting {word}",
        (("Bad", "Actor"), ("Good", "Witness")),
        2018,
        doi=f"10.5555/retracted.{n}",
        retracted=True,
    )
    for n, word in enumerate(("by Prayer", "by Sleep", "by Tea", "by Silence"))
)
WORLD = (*TRUE, *RETRACTED)


def make_entry(key: str, title: str, author: str, year: int | str, **more: str) -> BibEntry:
    return BibEntry(kind="article", key=key, fields={"title": title, "author": author, "year": str(year), **more})


TRUE_ENTRIES: tuple[BibEntry, ...] = (
    make_entry(
        "guo",
        "On calibration of modern neural networks",
        "Guo, Chuan and Pleiss, Geoff and others",
        2017,
        note="arXiv:1706.04599",
    ),
    make_entry(
        "muller",
        "When Does Label Smoothing Help?",
        r"M{\"u}ller, Rafael and Kornblith, Simon and Hinton, Geoffrey",
        2019,
    ),
    make_entry(
        "smote",
        "{SMOTE}: Synthetic Minority Oversampling Technique",
        "Chawla, Nitesh V. and Bowyer, Kevin W. and Hall, Lawrence O. and Kegelmeyer, W. Philip",
        2002,
        doi="10.1613/JAIR.953",
    ),
    make_entry(
        "lstm",
        "Long Short-Term Memory",
        r"Hochreiter, S. and Schmidhuber, J{\"u}rgen",
        1997,
        doi="https://doi.org/10.1162/neco.1997.9.8.1735",
    ),
    make_entry("namesake", "Long short-term memory", "Ada Namesake", 2012),
    make_entry(
        "cho",
        "Learning Phrase Representations using {RNN} Encoder--Decoder",
        r"Cho, Kyunghyun and van Merrienboer, Bart and Gulcehre, Caglar",
        2014,
        doi="10.3115/v1/D14-1179",
    ),
    make_entry(
        "vaswani", "Attention is All you Need", r"Vaswani, Ashish and Shazeer, Noam and Kaiser, {\L}ukasz", 2017
    ),
    make_entry(
        "kang",
        "Decoupling Representation and Classifier for Long-Tailed Recognition",
        "Kang, Bingyi and Xie, Saining",
        2019,
        eprint="1910.09217",
        archiveprefix="arXiv",
    ),
    make_entry("zaremba", "Learning to Execute", "Zaremba, W. and Sutskever, I.", 2014, note="arXiv:1410.4615v3"),
    make_entry(
        "beta",
        r"$\beta$-Networks and $O(n)$ Search",
        r"Garc{\'\i}a L{\'o}pez, Mar{\'\i}a and {\AA}ngstr{\"o}m, S{\o}ren",
        2021,
        doi="10.5555/ex.10",
    ),
    make_entry("survey", "A Broad Survey of Margins", "Authora, Person0 and Authorb, Person1 and others", 2022),
    make_entry("online", "Pretraining at small scale", "Le, Quoc and Wang, Di", 2020, doi="10.5555/ex.12"),
    make_entry("regret", "Sampling without Regret", "de Freitas, Nando and Smith, E.", 2018),
    make_entry("classifier", "What is it like to be a classifier?", r"M{\"u}ller-L{\"u}denscheidt, Jean-Luc", 2016),
    make_entry("consortium", "Report of the {Consortium}", "{The Example Consortium}", 2015, doi="10.5555/ex.15"),
    make_entry(
        "erdos", r"Rounding Errors \& Their Friends", r"Erd{\H{o}}s, P{\'a}l and King, Jr., Martin Luther", 1998
    ),
    make_entry(
        "zhang", "Gradient Noise", "Zhang Wei and Le Cun, Yann", 2023, doi="10.5555/ex.17", note="arXiv:2301.00017"
    ),
    make_entry("trees", "Deep Ensembles of Trees", "Muster, Anna", 2019),
    make_entry("shrubs", "Deep Ensembles of Shrubs", "A. Muster", 2021, doi="10.5555/ex.19"),
    make_entry("soft", "Soft Targets: A Second Look", "Beispiel, Rosa and Beispiel, Hans", 2020),
)

INVENTED = (
    make_entry("i1", "Entropy-Guided Curriculum Distillation for Robust Margins", "Guo, Chuan and Sun, Yu", 2021),
    make_entry("i2", "On Calibration of Ancient Neural Networks", "Guo, Chuan and Pleiss, Geoff", 2017),
    make_entry(
        "i3", "Attention is All you Need: A Survey", "Vaswani, Ashish and Shazeer, Noam and Kaiser, Lukasz", 2017
    ),
    make_entry("i4", "A Title of a Work That Nobody Wrote", "Hochreiter, Sepp", 1999, doi="10.1162/neco.1997.9.8.1735"),
)
WRONG_AUTHORS = (
    make_entry("a1", "Learning to Execute", "Sutskever, Ilya and Zaremba, Wojciech", 2014),
    make_entry("a2", "Deep Ensembles of Trees", "Muster, Berta", 2019),
    make_entry("a3", "When Does Label Smoothing Help?", 'M{\\"u}ller, Rafael and Kornblith, Simon', 2019),
    make_entry(
        "a4",
        "On Calibration of Modern Neural Networks",
        "Guo, Chuan and Pleiss, Geoff and Sun, Yu and Bengio, Yoshua",
        2017,
        note="arXiv:1706.04599",
    ),
)
WRONG_YEAR = (
    make_entry("y1", "Attention is All you Need", "Vaswani, Ashish and Shazeer, Noam and Kaiser, Lukasz", 2018),
    make_entry("y2", "Long Short-Term Memory", "Hochreiter, Sepp and Schmidhuber, J.", 2012),
    make_entry("y3", "Sampling Without Regret", "de Freitas, Nando and Smith, Eva", "2018a", doi="10.5555/ex.13"),
    make_entry("y4", "Pre-Training at Small Scale", "Le, Quoc V. and Wang, Di", 2021, doi="10.5555/ex.12"),
)
RETRACTED_ENTRIES = tuple(
    make_entry(f"r{n}", one.title, "Actor, Bad and Witness, Good", 2018, **({"doi": one.doi} if n % 2 else {}))
    for n, one in enumerate(RETRACTED)
)
WRONG_IDENTIFIER = (
    make_entry("d1", "Deep Ensembles of Shrubs", "Muster, Anna", 2021, doi="10.5555/ex.18"),
    make_entry("d2", "Gradient Noise", "Zhang, Wei and LeCun, Yann", 2023, doi="10.5555/no.such"),
    make_entry("d3", "Learning to Execute", "Zaremba, Wojciech and Sutskever, Ilya", 2014, note="arXiv:1706.04599"),
    make_entry(
        "d4", "Soft Targets", "Beispiel, Rosa and Beispiel, Hans", 2020, doi="10.5555/ex.20"
    ),  # two words: too short
)
FALSE_ENTRIES = (*INVENTED, *WRONG_AUTHORS, *WRONG_YEAR, *RETRACTED_ENTRIES, *WRONG_IDENTIFIER)
