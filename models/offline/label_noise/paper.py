"""The paper on label noise and calibration: every sentence that claims something is chosen by a comparison's verdict.

No digit is typed here outside of macros, and no word that claims a difference stands outside of a comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.offline.claims import Claims, Outline, Paragraph, Part, part, places
from models.offline.label_noise.findings import Findings
from models.roles.writing import WriteInputs

TITLE = "Calibration under Label Noise: Label Smoothing, a Temperature, and the Labels It Is Fitted On"

NETWORKS = (
    ("SmallConvNet", "a small convolutional network on images (one convolution, pooling, one hidden layer of "
                     "<s:code.HIDDEN> units) and a perceptron with a hidden layer of the same width on tables"),
    ("nn.Dropout", "a perceptron with one hidden layer of <s:code.HIDDEN> units and dropout"),
    ("nn.Linear(HIDDEN, HIDDEN)", "a perceptron with a first and a second hidden layer of <s:code.HIDDEN> units each"),
    ("bias=False", "a softmax regression whose weight matrix is factorised into two, so that its rank is at most "
                   "<s:code.HIDDEN>"),
    ("nn.Linear", "a perceptron with one hidden layer of <s:code.HIDDEN> units"),
)


def outline(inputs: WriteInputs) -> Outline:
    """The whole paper for these inputs; holds for any outcome."""
    claims = Claims(inputs)
    findings = Findings(claims)
    writer = _Writer(inputs, claims, findings)
    results, ablations = writer.results(), writer.ablations()
    parts = [writer.introduction(), writer.related(), writer.method(), writer.setup(), results, ablations,
             writer.conclusion()]
    kept = [one for one in parts if one.paragraphs]
    text = "\n".join(one.body for one in kept)
    rest = places(inputs, text)
    parts = [part(one.title, *one.paragraphs, *rest) if one is results else one for one in kept]
    return Outline(TITLE, writer.abstract(), tuple(parts))


@dataclass(frozen=True)
class _Writer:
    inputs: WriteInputs
    claims: Claims
    findings: Findings

    def figure(self, name: str) -> Paragraph:
        return Paragraph(f"\\paperfigure{{{name}}}" if self.claims.in_text(name) else "")

    def table(self, name: str, sentence: str, rank: int = 0) -> Paragraph:
        """The table with the sentence that refers to it, so that one is never there without the other."""
        if not self.claims.has("tab", name):
            return Paragraph("", rank)
        return Paragraph(f"{self.claims.say(sentence)}\n\n\\papertable{{{name}}}".strip(), rank)

    # --- abstract and introduction --------------------------------------------------------------------------------

    def abstract(self) -> str:
        find = self.findings
        return self.claims.paragraph(
            "Labels collected in practice are partly wrong, and a network that is trained on them is asked for "
            "probabilities all the same.",
            f"We study how symmetric label noise in training affects the calibration of small networks on "
            f"{find.datasets_named}, and whether a simple remedy, label smoothing in training and one temperature "
            "fitted afterwards on a small development part with checked labels, helps.",
            "We judge by the log loss, a proper score, since calibration error alone is won by a model that says "
            "nothing.",
            *find.abstract_sentences(),
            find.trusted_labels_in_brief(),
        ).text

    def introduction(self) -> Part:
        say = self.claims.paragraph
        return part(
            "Introduction",
            say("A classifier is calibrated if, among the answers that it gives with a certain confidence, the share "
                "of right ones equals that confidence.",
                "Modern networks are often far from it <citep:guo2017calibration>, and decisions that weigh risks "
                "need the probabilities and not the answers alone.",
                "Labels, meanwhile, are rarely clean.",
                "Networks large enough for the task can fit labels that are drawn at random "
                "<citep:zhang2017understanding>, so that wrong labels do not simply average out: they are learned."),
            say("What this does to calibration is less obvious than what it does to accuracy.",
                "Noise in training labels tells a model to be less sure, which may even counter overconfidence; "
                "learning those labels by heart pulls the other way.",
                "Label smoothing <citep:szegedy2016rethinking> and temperature scaling <citep:guo2017calibration> "
                "are nearly free remedies that were studied mostly with clean labels."),
            say("We ask the following.",
                "Does label noise harm calibration when it is judged by a proper score, and not by calibration error "
                "alone?",
                "Does smoothing together with a temperature mend it?",
                "And how much of what it mends hangs on the labels that the temperature is fitted on being clean?"),
            say("The experiments are small on purpose: every condition is repeated with different seeds, compared "
                "seed by seed, and reported whether it favours the remedy or not.", rank=4),
            say("The answers are bounded by their setting, small networks on small datasets with noise that we drew "
                "ourselves, and negative or open outcomes are given the same room as others.", rank=5),
        )

    def related(self) -> Part:
        say = self.claims.paragraph
        return part(
            "Related Work",
            say(r"\paragraph{Calibration.} Expected calibration error compares confidence and accuracy within bins "
                "<citep:naeini2015obtaining>.",
                "<citet:guo2017calibration> showed that dividing the logits by one scalar, fitted on held-out data, "
                "removes much of the error of deep networks.",
                "Such a fit trusts its held-out labels, which is the assumption that we put to the test."),
            say(r"\paragraph{Learning from noisy labels.} Losses can be corrected when the noise process is known "
                "<citep:natarajan2013learning> or estimated <citep:patrini2017making>, and targets can be mixed with "
                "the model's own predictions <citep:reed2015training>.",
                "These works ask for accurate classifiers; we leave the training as simple as it is in common use "
                "and ask what becomes of the probabilities."),
            say(r"\paragraph{Label smoothing.} Smoothing was introduced as a regulariser "
                "<citep:szegedy2016rethinking>.",
                "<citet:muller2019when> found that it calibrates networks on clean labels, without a temperature.",
                "Closest to our question, <citet:lukasik2020does> ask whether it mitigates label noise and relate it "
                "to loss correction; their measure is accuracy, ours is a proper score of the probabilities."),
        )

    # --- method and set-up ------------------------------------------------------------------------------------------

    def method(self) -> Part:
        say = self.claims.paragraph
        return part(
            "Method",
            say(r"\paragraph{Noise.} With probability $\eta$, the noise rate, a training label $y$ is replaced by "
                r"$\tilde y$, drawn uniformly from the other $K-1$ classes."
                if "1" in self.inputs.literals else
                r"\paragraph{Noise.} With probability $\eta$, the noise rate, a training label $y$ is replaced by a "
                r"label $\tilde y$, drawn uniformly from the other classes.",
                self.findings.rates_named(),
                "Development, validation and test labels stay clean.",
                "For the development part this is an assumption, which stands for a small set that a person has "
                "checked; an ablation takes it away."),
            say(r"\paragraph{Arms.} The \emph{baseline} minimises the cross-entropy $-\log p_{\tilde y}(x)$ of the "
                r"softmax probabilities $p$ and uses them as they come.",
                r"The \emph{method} minimises the smoothed cross-entropy"),
            say("\\begin{equation*}\n  \\ell(x, \\tilde y) = -\\sum_{k} q_k \\log p_k(x), \\qquad\n"
                "  q = \\mathbf{e}_{\\tilde y} + \\alpha\\,(\\mathbf{u} - \\mathbf{e}_{\\tilde y}),\n\\end{equation*}"),
            say(r"where $\mathbf{e}_{\tilde y}$ is the indicator of the given label, $\mathbf{u}$ the uniform "
                rf"distribution over classes and ${self._strength()}$ the strength of smoothing.",
                r"After training it predicts $p_k(x) \propto \exp(z_k(x)/T)$ from the logits $z$, with the temperature "
                r"$T$ that has the lowest log loss on the development part, found on a grid.",
                "A temperature changes no answer, only how sure it is; accuracy can differ between the arms through "
                "smoothing alone."),
            say(r"\paragraph{Pairing.} Under one seed both arms start from the same weights and see the same wrong "
                "labels in the same batches.",
                "Differences are therefore taken seed by seed, which removes the variation that the arms share."),
        )

    def _strength(self) -> str:
        return r"\alpha = <s:code.SMOOTHING>" if self.claims.has("s", "code.SMOOTHING") else r"\alpha"

    def setup(self) -> Part:
        say, find = self.claims.paragraph, self.findings
        return part(
            "Experimental Setup",
            say(rf"\paragraph{{Data.}} We use {find.datasets_named}, which come with scikit-learn "
                "<citep:pedregosa2011scikit>.",
                find.sizes(),
                "Features are standardised with the moments of the training rows, and the cut is stratified by class.",
                find.duplicates()),
            say(rf"\paragraph{{Training.}} The network is {self._network()}.",
                "It is trained with Adam <citep:kingma2015adam> for <s:code.EPOCHS> epochs in batches of "
                "<s:code.BATCH>, with a learning rate of <s:code.LEARNING_RATE> and weight decay "
                "<s:code.WEIGHT_DECAY>.",
                "These values were chosen on validation data and are shared by both arms; the smoothing strength was "
                "fixed beforehand and not tuned, so that the method had no more tuning than the baseline."),
            say(r"\paragraph{Metrics.} The primary metric is the log loss on clean labels.",
                "It is a proper score: only the true probabilities minimise it in expectation.",
                "Expected calibration error (ECE) and accuracy stand beside it."),
            say("ECE alone would mislead here, since a model that always answers with the class frequencies has hardly "
                "any calibration error and is of no use.", rank=3),
            say(r"\paragraph{Statistics.} Search and tuning saw validation data only"
                + ("; test predictions were scored after everything was fixed." if find.split == "test" else
                   ", and no test predictions were scored: the results are on validation data."),
                "The chosen program is run again with <s:run.seeds> other seeds; the one that the selection looked at "
                "is left out.",
                "We report means and standard deviations, and intervals of the mean by Student's distribution.",
                "A difference counts as measured only if enough seeds were paired and it holds after a correction for "
                "the comparisons made beside it; printed intervals are not corrected."),
        )

    def _network(self) -> str:
        text = next((words for mark, words in NETWORKS if mark in self.inputs.winner_source), NETWORKS[-1][1])
        return text if self.claims.say(text) else text.replace("<s:code.HIDDEN> units", "hidden units").replace(
            "at most <s:code.HIDDEN>", "bounded")

    # --- results ----------------------------------------------------------------------------------------------------

    def results(self) -> Part:
        say, find = self.claims.paragraph, self.findings
        main, *others = find.datasets
        return part(
            "Results",
            self.table("main", ""),
            say(f"<tab:main> gives the {find.split} results of both arms.",
                "<fig:primary-by-noise> shows the primary metric against the noise rate."),
            say(rf"\paragraph{{What noise does.}} {find.harm(main)}", find.harm_scope()),
            self.figure("primary-by-noise"),
            say(rf"\paragraph{{Does the remedy help?}} {find.opening(main)}", *find.by_level(main)),
            *(say(*find.in_groups(other)) for other in others),
            say(find.unseen()),
            say(rf"\paragraph{{Calibration error.}} {find.of_metric('ece')}", find.disagreement()),
            say(find.of_metric("accuracy"), rank=2),
            self.table("metrics", "<tab:metrics> has the numbers of both.", rank=4),
            say("<fig:ece-by-noise> shows the calibration error against the noise rate."),
            self.figure("ece-by-noise"),
            say("<fig:reliability-and-memorisation> shows where in the range of confidences the arms depart from "
                "calibration, and how much of the wrong labels they learn by heart."),
            say("<fig:reliability-and-training> shows where in the range of confidences the arms depart from "
                "calibration, and the loss on clean labels while they train."),
            self.figure("reliability-and-memorisation"), self.figure("reliability-and-training"),
            say("It is drawn on the development part, on which the method's temperature was also fitted, so it "
                "flatters the method slightly and serves to look at, not to conclude from."
                if any(figure.name.startswith("reliability") for figure in self.inputs.figures) else "", rank=2),
        )

    def ablations(self) -> Part:
        say, find = self.claims.paragraph, self.findings
        if not find.ablated:
            return part("Ablations")
        main = find.datasets[0]
        return part(
            "Ablations",
            say("Each ablation changes one part of the method and leaves all else, noise and seeds included, as it "
                "was.",
                "<fig:ablation> shows them beside the whole method."),
            self.figure("ablation"),
            self.table("ablation", "<tab:ablation> lists them on all datasets.", rank=6),
            *(say(*find.ablation(arm, main), rank=0 if k < 4 else 4) for k, arm in enumerate(find.ablated)),
            *(say(*find.ablation_elsewhere(arm), rank=5 if k else 3) for k, arm in enumerate(find.ablated[:3])),
        )

    # --- the end ----------------------------------------------------------------------------------------------------

    def conclusion(self) -> Part:
        say, find = self.claims.paragraph, self.findings
        return part(
            "Limitations and Conclusion",
            say("The noise is symmetric, drawn by us and independent of the input; real labels are wrong where rows "
                "are hard, which may change the picture.",
                "Networks and datasets are small, and the development parts are smaller: a temperature that is fitted "
                "on few rows is itself uncertain.",
                "With only two classes, symmetric noise at the highest rate leaves little to learn from."
                if any(facts.classes == 2 for facts in self.inputs.facts) else "",
                *find.disclosures()),
            say("Clean labels for the development part are an expense that the baseline does not make, and one could "
                "spend them on training instead; we did not compare the two.", rank=2),
            say(*find.conclusion()),
            say("Whoever repeats this with larger models should keep the pairing by seed and a proper score: both "
                "decide what can be said from few replicates.", rank=5),
        )
