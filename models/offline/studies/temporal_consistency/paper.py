"""The paper on temporal consistency: every sentence that claims something is chosen by a comparison's verdict."""

from __future__ import annotations

from models.offline.claims import Claims, Outline, Paragraph, Part, listed, part
from models.offline.common.findings import Findings
from models.offline.common.names import Cell, capital
from models.offline.common.paper import Writer
from models.offline.studies.temporal_consistency.names import ENCODER, NETWORKS, PLAIN_ENCODER, WORDS, on_operators
from models.roles import WriteInputs

TITLE = "Does Temporal Consistency of Hidden States Help a Small Network Read Arithmetic?"


def outline(inputs: WriteInputs) -> Outline:
    """The whole paper for these inputs; holds for any outcome."""
    return _Writer(inputs, Findings(Claims(inputs), WORDS)).outline()


class _Writer(Writer):
    def title(self) -> str:
        return TITLE

    # --- abstract and introduction ----------------------------------------------------------------------------------

    def abstract(self) -> str:
        find = self.find
        hardest = (find.datasets[-1], find.levels[-1])
        numbers = (f"{capital(find.words.on([hardest[0]]))} {find.at(hardest[1])} the mean accuracy is "
                   f"{find.result(hardest, find.baseline, form='mean')} without the penalty and "
                   f"{find.result(hardest, find.method, form='mean')} with it.")
        return self.claims.paragraph(
            "A network that reads an expression token by token and composes its value should carry a running result "
            "and change it a little at every step.",
            "We ask whether it helps to say so: a penalty on the squared change of successive hidden states is added "
            "to the cross-entropy of a small sequence model that tells in which range the value of an arithmetic "
            "expression lies.",
            "Complexity grows by the number of operators, no expression stands in two splits, and both arms are paired "
            "seed by seed.",
            f"On unseen expressions, {find.summary()}.", numbers,
            f"{capital(find.summary('log_loss'))}." if find.compared("log_loss") else "",
            self._order_in_brief()).text

    def _order_in_brief(self) -> str:
        groups = self.find.groups("without-order", self.find.method)
        if set(groups) == {"none"}:
            return ("Comparing each state with one at a random place instead of the one before makes no measurable "
                    "difference, so we could not measure that anything here hangs on time.")
        return ""

    def introduction(self) -> Part:
        say = self.claims.paragraph
        return part(
            "Introduction",
            say("Sequence models often answer new combinations of known parts wrongly <citep:lake2018generalization>, "
                "though recurrent networks can learn to evaluate nested arithmetic <citep:hupkes2018visualisation> and "
                "short programs <citep:zaremba2014learning>.",
                "It is tempting to help them by a regulariser.",
                "One candidate is temporal consistency: if the hidden state after each token holds what has been read "
                "so far, it should change little from one token to the next, and a penalty on that change should "
                "favour networks that build a result up in steps."),
            say("There is a case against it, too.",
                "An operator or a closing bracket may change the value of an expression altogether, and a state that "
                "is kept from moving cannot follow.",
                "A penalty on states can also act in ways that have nothing to do with composition, for instance by "
                "making states small and answers less sure."),
            say("We ask the following.",
                "Are more unseen expressions answered rightly with the penalty, and does it matter more as complexity "
                "grows or training data are few?",
                "Does what it does hang on the order of tokens in time, on its weight, or on the recurrent network?",
                "And do accuracy and log loss tell the same story?"),
            say("A program studied the question before, with a negative outcome <citep:yamada2025ai>.",
                "Its authors' own review found that most test expressions also stood in training, and that embeddings "
                "were penalised where the text spoke of hidden states, so the question is open.", rank=1),
            say("The experiments are small on purpose, so that every condition can be repeated; negative and open "
                "outcomes are given the same room as others.", rank=4))

    def related(self) -> Part:
        say = self.claims.paragraph
        return part(
            "Related Work",
            say(r"\paragraph{Slow states.} <citet:krueger2015regularizing> penalise the change of the norm of "
                r"successive "
                "hidden states, and <citet:merity2017revisiting> the change of the states themselves, both for "
                "language models.",
                "Our penalty is the latter, as a mean of squares instead of a norm, on another kind of task: one whose "
                "answer is right or wrong, and whose difficulty can be set."),
            say(r"\paragraph{Composition.} <citet:lake2018generalization> test sequence models on commands whose parts "
                r"are "
                "known and whose combinations are new.",
                "<citet:hupkes2018visualisation> look into recurrent networks that read nested arithmetic and find "
                "states in line with a running result, which is what makes the penalty plausible.",
                "Our test asks less than new combinations do: unseen expressions are drawn like those of training."))

    # --- method and set-up ------------------------------------------------------------------------------------------

    def method(self) -> Part:
        say = self.claims.paragraph
        weight = r"\lambda = <s:code.LAMBDA>" if self.claims.has("s", "code.LAMBDA") else r"\lambda"
        return part(
            "Method",
            say(r"\paragraph{Penalty.} A network reads the tokens $x$ of an expression of $T$ tokens and forms hidden "
                r"states $h_t$ of $d$ units, one a token.",
                r"The \emph{baseline} minimises the cross-entropy $-\log p_y(x)$ of the class $y$.",
                r"The \emph{method} minimises"),
            Paragraph("\\begin{equation*}\n  \\ell(x, y) = -\\log p_y(x) + \\lambda\\, \\frac{1}{d\\,(T-1)} "
                      "\\sum_{t=2}^{T} \\lVert h_t - h_{t-1} \\rVert^2\n\\end{equation*}"),
            say(f"with ${weight}$; in a batch the mean is taken over all pairs of successive tokens.",
                "The penalty acts on hidden states and not on embeddings, its gradient reaches both states of a pair, "
                "and padding takes no part.",
                "It does nothing at test time."),
            say(r"\paragraph{Pairing.} Under one seed both arms start from the same weights and see the same rows in "
                r"the "
                "same batches for equally many updates.",
                "Differences are therefore taken seed by seed, which removes the variation that the arms share."))

    def setup(self) -> Part:
        say, find = self.claims.paragraph, self.find
        return part(
            "Experimental Setup",
            say(r"\paragraph{Data.} An expression is a random tree over digits and the operators $+$, $-$ and "
                r"$\times$, "
                "printed with the brackets that it needs; it is read token by token.",
                f"Its class is one of <s:data.{find.datasets[0]}.classes> ranges of its value, the same for every "
                "complexity.",
                f"There is one dataset {on_operators(find.datasets)} each." if len(find.datasets) > 1 else "",
                self._sizes(),
                self._distinct()),
            say(rf"\paragraph{{Training.}} The network is {self._network()}.",
                "It is trained with Adam <citep:kingma2015adam> for <s:code.STEPS> updates with batches of "
                "<s:code.BATCH>, a learning rate of <s:code.LEARNING_RATE> and weight decay <s:code.WEIGHT_DECAY>, on "
                f"the first rows of a random order of the training part: {self._few_and_many()}.",
                "These values were chosen on validation data and are shared by both arms.",
                "The weight of the penalty was fixed beforehand and not tuned, so that the method had no more tuning "
                "than the baseline; an ablation changes it."),
            say(r"\paragraph{Metrics.} The primary metric is accuracy, since the claim is about right answers.",
                "Log loss and expected calibration error (ECE) stand beside it: a penalty that makes answers less sure "
                "can lower the log loss of an overfitted network without any further right answer."),
            self.statistics())

    def _few_and_many(self) -> str:
        known = [f"<s:level.{level}>" for level in self.find.levels if self.claims.has("s", f"level.{level}")]
        return f"{listed(known)} of them" if known else "few or many of them"

    def _sizes(self) -> str:
        """The parts of the main dataset; the others are cut by the same rule."""
        main = self.find.datasets[0]
        said = (f"{capital(on_operators([main]))}, training, development, validation and test hold "
                f"<s:data.{main}.train>, <s:data.{main}.dev>, <s:data.{main}.validation> and <s:data.{main}.test> "
                "expressions")
        others = "; the others are cut alike" if len(self.find.datasets) > 1 else ""
        return f"{said}{others}." if self.claims.say(said) else ""

    def _distinct(self) -> str:
        facts = [one for one in self.inputs.facts if one.name in self.find.datasets]
        if not facts or any(one.duplicates for one in facts):
            return self.find.duplicates()
        return ("All expressions of a dataset are distinct, so none stands in two parts; those that differ only in the "
                "order of a sum or a product count as different.")

    def _network(self) -> str:
        text = next((words for mark, words in NETWORKS if mark in self.inputs.winner_source), "a small sequence model")
        text = text if self.claims.say(text) else "a small sequence model"
        read = "class Network" in self.inputs.winner_source and self.claims.has("s", "code.EMBEDDING")
        return text + (", reading embeddings of <s:code.EMBEDDING> units" if read else "")

    # --- results ----------------------------------------------------------------------------------------------------

    def results(self) -> Part:
        say, find = self.claims.paragraph, self.find
        cells = find.level_by_level()
        return part(
            "Results",
            self.table("main", ""),
            say(f"<tab:main> gives the {find.split} accuracy of both arms.", "<fig:accuracy-by-complexity> shows it "
                                                                             "against "
                "the number of operators."),
            self.figure("accuracy-by-complexity"),
            say(r"\paragraph{Does the penalty help?}",
                "Brackets hold paired differences, with the penalty minus without, and their intervals." if cells else
                "The record holds no paired comparison of the arms, so nothing is claimed.", *cells, find.unseen()),
            say(rf"\paragraph{{Complexity.}} {self._complexity()}", rank=1),
            say(r"\paragraph{Log loss and calibration.}", *find.level_by_level("log_loss"), self._disagreement(),
                find.of_metric("ece")),
            self.table("metrics", "<tab:metrics> has the numbers of both.", rank=4),
            say("<fig:change-and-loss> shows what the penalty acts on, the change of the states on the development "
                "part, and beside it the loss there while training."),
            self.figure("change-and-loss"),
            say("<fig:change-and-brackets> shows what the penalty acts on, the change of the states, and the loss "
                "while training; on the right it asks whether the arms differ where structure has to be undone, in "
                "expressions with brackets."),
            self.figure("change-and-brackets"))

    def _complexity(self) -> str:
        """Means of the baseline along complexity, as numbers side by side; no test is attached to it."""
        find, level = self.find, self.find.levels[-1]
        means = [f"{find.result((name, level), find.baseline, form='mean')} {on_operators([name])}"
                 for name in find.datasets]
        if len(means) < 2:
            return ""
        said = f"{capital(find.at(level))}, the baseline's accuracy is {listed(means)}."
        return f"{said} These are means side by side; no test is attached to them." if self.claims.say(said) else ""

    def _disagreement(self) -> str:
        """That log loss and accuracy disagree, where their verdicts do."""
        right, sure, apart = self.find.compared(), self.find.compared("log_loss"), self._sure_alone()
        if apart:
            return (f"So {self.find.where(apart)} a better log loss comes with no more right answers: judged by the "
                    "score alone, the penalty would pass for a success there.")
        if set(right.get("better", [])) & set(sure.get("worse", [])):
            return "Somewhere more right answers come with a worse log loss, so the scores do not tell the same story."
        return ""

    def _sure_alone(self) -> list[Cell]:
        """Where the log loss is better and the accuracy is not."""
        right = self.find.compared().get("better", [])
        return [cell for cell in self.find.compared("log_loss").get("better", []) if cell not in right]

    # --- ablations --------------------------------------------------------------------------------------------------

    def ablations(self) -> Part:
        say, find = self.claims.paragraph, self.find
        arms = [arm for arm in find.ablated if arm != PLAIN_ENCODER]
        if not arms:
            return part("Ablations")
        return part(
            "Ablations",
            say("Each ablation changes one thing about the method and leaves all else, rows and batches included, as "
                "it was; outcomes are against the whole method.",
                "<fig:ablation> shows them for the shortest expressions."),
            self.figure("ablation"),
            self.table("ablation", "<tab:ablation> lists them on all datasets.", rank=6),
            *(say(*find.ablation(arm), *(self._encoder() if arm == ENCODER else ()), rank=0 if k < 4 else 4)
              for k, arm in enumerate(arms)))

    def _encoder(self) -> list[str]:
        """The encoder with and without the penalty, as means side by side: the record pairs neither with the other."""
        find = self.find
        cells = [(name, find.levels[-1]) for name in find.datasets]
        means = [f"{find.result(cell, ENCODER)} against {find.result(cell, PLAIN_ENCODER)} {on_operators([cell[0]])}"
                 for cell in cells]
        known = [one for one in means if self.claims.say(one)]
        if not known:
            return []
        only = ("Since it is slow, it was trained on the simplest and the most complex expressions only. "
                if len(known) < len(cells) else "")
        return [f"{only}For the encoder itself, {find.at(find.levels[-1])}, the accuracy with the penalty against that "
                f"without is {listed(known)}; these are means side by side, without a test of their difference."]

    # --- the end ----------------------------------------------------------------------------------------------------

    def conclusion(self) -> Part:
        say, find = self.claims.paragraph, self.find
        return part(
            "Limitations and Conclusion",
            say("The task is synthetic, its expressions are short, and unseen ones are drawn like those of training, "
                "which asks less of composition than longer expressions would.",
                "The networks are small and trained briefly, and nothing stops their training early.",
                "One weight was used for all complexities.",
                *find.disclosures()),
            say(f"Under these limits, {self._answer()}",
                "The log loss would have told another story in places, so answers and probabilities should be scored "
                "apart." if self._sure_alone() else ""),
            say("Whoever tries the penalty on larger tasks should score answers and probabilities apart, and pair the "
                "arms by seed: both decide what can be said.", rank=5))

    def _answer(self) -> str:
        groups = self.find.compared()
        if not groups or set(groups) == {"unknown"}:
            return ("the replicates do not allow a statement on whether temporal consistency helps to answer unseen "
                    "expressions; the means are reported for whoever adds more.")
        if set(groups) == {"better"}:
            return ("temporal consistency of hidden states improved the accuracy on unseen expressions in every "
                    "comparison.")
        if "better" not in groups:
            worse = ", and in some it costs right answers" if "worse" in groups and len(groups) > 1 else (
                "; in all of them it costs right answers" if "worse" in groups else "")
            return ("in no comparison could we measure that temporal consistency of hidden states helps to answer "
                    f"unseen expressions{worse}. It may be that a state which follows an expression has to move; we "
                    "did not test that.")
        rest = {"worse": "it costs right answers in others", "none": "no difference is measurable in others",
                "unknown": "others remain open"}
        others = "; ".join(text for name, text in rest.items() if name in groups)
        return f"temporal consistency improved the accuracy in some comparisons; {others}."
