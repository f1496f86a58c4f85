"""A plain paper for any study: what was compared, on what, with which result. A study may replace any part of it.

No digit is typed here outside of macros, and no word that claims a difference stands outside of a comparison.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from models.offline.claims import Claims, Outline, Paragraph, Part, part, places
from models.offline.common.findings import Findings
from models.offline.common.names import Words, capital
from models.roles import WriteInputs


def outline(inputs: WriteInputs) -> Outline:
    """The whole paper for these inputs; holds for any outcome."""
    return Writer(inputs, Findings(Claims(inputs), Words())).outline()


@dataclass(frozen=True)
class Writer:
    """The parts of a paper, in the order in which they stand."""

    inputs: WriteInputs
    find: Findings

    @property
    def claims(self) -> Claims:
        return self.find.claims

    def outline(self) -> Outline:
        """All parts that hold anything; a float that no part places stands at the end of the results."""
        results = self.results()
        parts = [self.introduction(), self.related(), self.method(), self.setup(), results, self.ablations(),
                 self.conclusion()]
        kept = [one for one in parts if one.paragraphs]
        rest = places(self.inputs, "\n".join(one.body for one in kept))
        parts = [part(one.title, *one.paragraphs, *rest) if one is results else one for one in kept]
        return Outline(self.title(), self.abstract(), tuple(parts))

    # --- floats -----------------------------------------------------------------------------------------------------

    def figure(self, name: str) -> Paragraph:
        return Paragraph(f"\\paperfigure{{{name}}}" if self.claims.in_text(name) else "")

    def table(self, name: str, sentence: str, rank: int = 0) -> Paragraph:
        """The table with the sentence that refers to it, so that one is never there without the other."""
        if not self.claims.has("tab", name):
            return Paragraph("", rank)
        return Paragraph(f"{self.claims.say(sentence)}\n\n\\papertable{{{name}}}".strip(), rank)

    # --- parts ------------------------------------------------------------------------------------------------------

    def title(self) -> str:
        return self.plain(self.inputs.idea.title) or "A Comparison of Arms"

    def abstract(self) -> str:
        return self.claims.paragraph(
            self.plain(self.inputs.data_plan.task), f"Here {self.find.summary()}.",
            *(f"As to the {self.find.metric(one.name)}, {self.find.summary(one.name)}."
              for one in self.inputs.data_plan.metrics[1:2])).text

    def introduction(self) -> Part:
        return part(
            "Introduction",
            self.claims.paragraph(self.plain(self.inputs.data_plan.task), self.plain(self.inputs.data_plan.notes)),
            self.claims.paragraph("Every condition is repeated with different seeds, compared seed by seed, and "
                                  "reported whether it favours the method or not.", rank=4))

    def related(self) -> Part:
        return part("Related Work")

    def method(self) -> Part:
        say = self.claims.paragraph
        arms = [rf"\paragraph{{{capital(self.plain(arm.title) or arm.role)}.}} {capital(self.plain(arm.description))}"
                for arm in self.inputs.data_plan.arms if arm.role != "ablation" and arm.description]
        return part("Method", *(say(text if text.endswith(".") else f"{text}.") for text in arms))

    def setup(self) -> Part:
        say, find = self.claims.paragraph, self.find
        return part("Experimental Setup",
                    say(rf"\paragraph{{Data.}} We use data {find.words.on(find.datasets)}."
                        .replace("data on ", ""), find.sizes(), find.duplicates()),
                    self.statistics())

    def statistics(self) -> Paragraph:
        return self.claims.paragraph(
            r"\paragraph{Statistics.} Search and tuning saw validation data only"
            + ("; test predictions were scored after everything was fixed." if self.find.split == "test" else
               ", and no test predictions were scored: the results are on validation data."),
            "The chosen program is run again with <s:run.seeds> other seeds; the one that the selection looked at is "
            "left out.",
            "We report means and standard deviations, and intervals of the mean by Student's distribution.",
            "A difference counts as measured only if enough seeds were paired and it holds after a correction for the "
            "comparisons made beside it; printed intervals are not corrected.")

    def results(self) -> Part:
        say, find = self.claims.paragraph, self.find
        figures = [one.name for one in self.inputs.figures if one.name != "ablation"]
        return part(
            "Results",
            self.table("main", f"<tab:main> gives the {find.split} results."),
            say(*(("Brackets hold paired differences, the method minus the baseline, and their intervals.",
                   *find.level_by_level(), find.unseen())
                  if find.level_by_level() else (f"{capital(find.summary())}.",))),
            *(one for name in figures for one in (say(f"<fig:{name}> shows it."), self.figure(name))),
            *(say(find.of_metric(metric.name), rank=2) for metric in self.inputs.data_plan.metrics[1:]),
            self.table("metrics", "<tab:metrics> has the numbers of the secondary metrics.", rank=4))

    def ablations(self) -> Part:
        say, find = self.claims.paragraph, self.find
        if not find.ablated:
            return part("Ablations")
        return part(
            "Ablations",
            say("Each ablation changes one part of the method and leaves all else, seeds included, as it was.",
                "<fig:ablation> shows them beside the whole method."),
            self.figure("ablation"), self.table("ablation", "<tab:ablation> lists them on all datasets.", rank=6),
            *(say(*find.ablation(arm), rank=0 if k < 4 else 4) for k, arm in enumerate(find.ablated)))

    def conclusion(self) -> Part:
        say, find = self.claims.paragraph, self.find
        return part("Limitations and Conclusion",
                    say("The experiments are small, and what they show is bounded by their setting.",
                        *find.disclosures()),
                    say(f"{capital(find.summary())}."))

    def plain(self, text: str) -> str:
        """Prose of an idea or a plan without the sentences that hold a number or a sign of TeX, which nothing ties."""
        sentences = re.split(r"(?<=[.!?])\s+", text.strip())
        return " ".join(one for one in sentences if not re.search(r"[\d\\{}$%&#^_~<>]", one))
