"""The paper on class imbalance and augmentation: what claims something is chosen by a comparison's verdict.

No digit is typed here outside of macros, and no word that claims a difference stands outside of a comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.offline.claims import Claims, Outline, Paragraph, Part, listed, part
from models.offline.common.names import capital
from models.offline.common.paper import Writer
from models.offline.studies.image_imbalance.findings import (
    NO_AUGMENTATION,
    NO_BALANCING,
    NO_FOCUS,
    WORDS,
    Findings,
)
from models.roles import WriteInputs

TITLE = "Balanced Sampling and Augmentation under Class Imbalance: Which Part Does the Work?"

NETWORKS = (
    ("DeeperConvNet", "a small convolutional network: two layers of <s:code.CHANNELS> filters, "
                      "pooling, and a hidden layer of <s:code.HIDDEN> units"),
    ("DropoutConvNet", "a small convolutional network: <s:code.CHANNELS> filters, pooling, and "
                       "a hidden layer of <s:code.HIDDEN> units with dropout"),
    ("SmallConvNet", "a small convolutional network: <s:code.CHANNELS> filters, pooling, and a "
                     "hidden layer of <s:code.HIDDEN> units"),
    ("stride=2", "a small convolutional network without pooling: strided layers of <s:code.CHANNELS> and "
                 "<s:code.HIDDEN> filters and a linear layer"),
    ("nn.Linear", "a perceptron with one hidden layer of <s:code.HIDDEN> units"),
)


def outline(inputs: WriteInputs) -> Outline:
    """The whole paper for these inputs; holds for any outcome."""
    return _Writer(inputs, Findings(Claims(inputs), WORDS)).outline()


@dataclass(frozen=True)
class _Writer(Writer):
    find: Findings

    def title(self) -> str:
        return TITLE

    # --- abstract and introduction --------------------------------------------------------------------------------

    def abstract(self) -> str:
        find = self.find
        return self.claims.paragraph(
            "Where some classes have many images and others few, a common remedy is to draw rare classes more often "
            "and to transform their few images.",
            "We ask on small images whether this serves all classes, what it costs, and which part does the work.",
            "Rare classes, drawn anew for every seed, keep only a given share of their training images; test images "
            "stay balanced, and every arm draws equally many images.",
            f"{capital(find.summary())}.",
            find.parts_in_brief(),
        ).text

    def introduction(self) -> Part:
        say = self.claims.paragraph
        return part(
            "Introduction",
            say("Where images are collected as they come, some classes have many and others few.",
                "Networks trained on such data serve the frequent classes first <citep:buda2018systematic>, and the "
                "rare ones are often those that one asks for: the pest in the field, the lesion in the scan.",
                "The score that is reported may hide it.",
                "On test data as skewed as the training data, accuracy is carried by the frequent classes, and a "
                "network that never names a rare class can look well."),
            say("Two simple remedies are often named in one breath.",
                "Rare classes are drawn as often as frequent ones, which repeats their few images again and again; and "
                "images are shifted, turned or made noisy, so that a repeated image is not the same image.",
                "Where both are used at once, it remains open which part did the work, and what the frequent classes "
                "paid."),
            say("We ask the following.",
                "Does the pair of remedies help under a controlled imbalance, and what does it cost where there is "
                "none?",
                "What does each part do without the other?",
                "And if transformations are spent on rare classes in particular, do their traces become a cue, so that "
                "an image that looks transformed is taken for a rare one?"),
            say("The experiments are small on purpose: every condition is repeated with different seeds, compared "
                "seed by seed, and reported whether it favours the remedy or not.", rank=4),
        )

    def related(self) -> Part:
        say = self.claims.paragraph
        return part(
            "Related Work",
            say(r"\paragraph{Imbalance.} <citet:buda2018systematic> vary the ratio under control, as we do, and find "
                "oversampling to equal frequencies hard to beat in convolutional networks.",
                "Oversampling can be joined with synthetic examples <citep:chawla2002smote>, and losses can be "
                "weighted by an effective number of samples <citep:cui2019class>.",
                "<citet:kang2020decoupling> learn features from the data as they come and balance the classifier "
                "alone.",
                "We hold the balancing simple and ask what augmentation adds to it, and takes from it."),
            say(r"\paragraph{Augmentation.} Distorted copies were decisive in early work on written digits "
                "<citep:simard2003best>, and are now common <citep:shorten2019survey>.",
                "They are called label-preserving; that they preserve the distribution of images is not said."),
        )

    # --- method and set-up ------------------------------------------------------------------------------------------

    def method(self) -> Part:
        say = self.claims.paragraph
        return part(
            "Method",
            say(r"\paragraph{Imbalance.} As many classes are made rare as stay frequent.",
                "Which ones is drawn anew for every seed, so that no finding hangs on a class that is hard by itself.",
                r"With an imbalance ratio $\rho$, a class $c$ of $N_c$ training images keeps $n_c = N_c$ if it is "
                r"frequent and $n_c = \lfloor N_c / \rho \rfloor$, but never fewer than <s:code.LEAST>, if it is rare.",
                self._ratios(),
                "What is kept at a higher ratio is kept at a lower one, too."),
            say(r"\paragraph{Arms.} The \emph{baseline} minimises the cross-entropy and draws every remaining image "
                "equally often.",
                r"The \emph{method}, the remedy as a whole, draws every class equally often and shows a drawn image of "
                "class $c$ transformed with probability"),
            self.chance(),
            say("A transformation turns an image by up to <s:code.ROTATION> degrees, shifts it by at most "
                "<s:code.SHIFT> pixel along each axis, all drawn uniformly, and adds normal noise with a standard "
                "deviation of <s:code.NOISE> of the range of a pixel.",
                "<fig:examples> shows examples."),
            self.figure("examples"),
            say(r"\paragraph{Budget and pairing.} In every arm and at every ratio an epoch draws as many images as the "
                "whole training set had before it was thinned, so that no arm has the longer training.",
                "Under one seed all arms of a ratio start from the same weights and have the same images, and "
                "differences are taken seed by seed; the cut of the data is the same for every seed."),
        )

    def _ratios(self) -> str:
        named = listed([f"<s:level.{level}>" for level in self.find.raised])
        return self.claims.say(rf"Beside the whole training set we use ratios $\rho$ of {named}.") or (
            r"We use the whole training set and increasing ratios $\rho$.")

    def chance(self) -> Paragraph:
        """The probability of a transformation as a formula; in words where its constant may not be typed."""
        alpha = r"\alpha = <s:code.TRANSFORMED>" if self.claims.has("s", "code.TRANSFORMED") else r"\alpha"
        rises = "so that the fewer images a class has, the more often they are transformed."
        if "1" not in self.inputs.literals:
            return self.claims.paragraph(rf"that is ${alpha}$ for the largest class and rises to certainty, {rises}")
        formula = ("\\begin{equation*}\n  p_c = \\alpha + (1 - \\alpha)\\, \\frac{\\max_k n_k - n_c}{\\max_k n_k},\n"
                   "\\end{equation*}")
        return Paragraph(f"{formula}\n\n{self.claims.say(rf'with ${alpha}$, {rises}')}")

    def setup(self) -> Part:
        say, find = self.claims.paragraph, self.find
        return part(
            "Experimental Setup",
            say(rf"\paragraph{{Data.}} We use {listed([one.replace('_', ' ') for one in find.datasets])}.",
                "Digits are small scans of written digits <citep:pedregosa2011scikit>, centred and upright.",
                "Shapes are generated: discs, rings, squares, frames, triangles, diamonds, plus signs and crosses of "
                "random place, size and brightness under pixel noise, so that a shifted image is a likely one there."
                if "shapes" in find.datasets else "",
                find.sizes(),
                "Only the training part is thinned: development, validation and test parts keep the balance of the "
                "sets, whose classes are equally large to within a few images.",
                find.duplicates()),
            say("Pixels of digits come standardised one by one and are brought back to one range by their extremes "
                "among the remaining training images, since an image whose pixels have different units cannot be "
                "shifted." if "digits" in find.datasets else "", rank=1),
            say(rf"\paragraph{{Training.}} The network is {self._network()}.",
                "It is trained with Adam <citep:kingma2015adam> for <s:code.EPOCHS> epochs in batches of "
                "<s:code.BATCH>, with a learning rate of <s:code.LEARNING_RATE> and weight decay "
                "<s:code.WEIGHT_DECAY>.",
                "These values were chosen on validation data and are shared by both arms; the strength of the "
                "augmentation was fixed beforehand and not tuned, so that the method had no more tuning than the "
                "baseline."),
            say(r"\paragraph{Metrics.} The primary metric is macro F1, the mean over classes of the harmonic mean of "
                "precision and recall: all classes count alike, and a frequent class pays for the images that it takes "
                "from others.",
                "Log loss and accuracy stand beside it.",
                "Since our test images are balanced, accuracy is close to the mean recall and does not mislead as it "
                "would on skewed test data; but it does not see which class an image was lost to."),
            self.statistics(),
        )

    def _network(self) -> str:
        text = next((words for mark, words in NETWORKS if mark in self.inputs.winner_source), NETWORKS[-1][1])
        if not self.claims.say(text):
            text = text.replace("<s:code.CHANNELS> ", "").replace("<s:code.HIDDEN> ", "hidden ")
        return text if self.claims.say(text) else "a small network"

    # --- results ----------------------------------------------------------------------------------------------------

    def results(self) -> Part:
        say, find = self.claims.paragraph, self.find
        return part(
            "Results",
            self.table("main", ""),
            say(f"<tab:main> gives the {find.split} results of the baseline and of the whole remedy.",
                "<fig:primary-by-ratio> shows them against the ratio.",
                "<fig:ablation> shows them beside those of its parts."),
            say(rf"\paragraph{{What imbalance does.}} {find.harm()}",
                "These are means side by side, without a test; and a thinned training set is also a smaller one, so "
                "that not all of it is the skew."),
            self.figure("primary-by-ratio"),
            self.figure("ablation"),
            say(r"\paragraph{Does the remedy help?}", *find.level_by_level(),
                "Brackets hold the paired differences, remedy minus baseline, with their intervals."
                if find.compared() else f"{capital(find.summary())}.", find.unseen()),
            say(rf"\paragraph{{Other scores.}} {find.of_metric('log_loss')}", find.apart("log_loss")),
            say(find.of_metric("accuracy"), rank=3),
            self.table("metrics", "<tab:metrics> has the numbers of both.", rank=5),
            say(r"\paragraph{Who gains, who pays, and the traces.} <fig:recall-and-traces> splits the recall by kind "
                "of class, on the development part, to which nothing was fitted.",
                "Its right panel asks whether traces of a transformation pass for rareness: were they a cue, images of "
                "frequent classes would be called rare more often once transformed.",
                "A transformed image is also a harder one; the baseline, which never saw any, shows how much of the "
                "rise is that alone."),
            self.figure("recall-and-traces"),
        )

    def ablations(self) -> Part:
        say, find = self.claims.paragraph, self.find
        if not find.ablated:
            return part("Ablations")
        first = [arm for arm in (NO_BALANCING, NO_AUGMENTATION, NO_FOCUS) if arm in find.ablated]
        return part(
            "Ablations",
            say("Each ablation changes one part of the method and leaves all else, thinning and seeds included, as it "
                "was.",
                "<fig:ablation> shows them beside the whole method and the baseline."),
            self.table("ablation", "<tab:ablation> lists them on all datasets.", rank=6),
            *(say(*find.ablation(arm), rank=0 if arm in first else 4) for arm in find.ablated),
        )

    # --- the end ----------------------------------------------------------------------------------------------------

    def conclusion(self) -> Part:
        say, find = self.claims.paragraph, self.find
        return part(
            "Limitations and Conclusion",
            say("The imbalance is made by us and has two sizes of class; collected data have a long tail, and their "
                "rare classes may be the harder ones.",
                "Images and networks are small, rare classes keep a handful of images at the highest ratio, and the "
                "budget of draws is equal and short: transformed images are harder to learn, and a longer training may "
                "favour them.",
                *find.disclosures()),
            say("Only one strength of the augmentation was compared, and where test data are as skewed as training "
                "data, balanced sampling has a price that our balanced test images do not charge in full.", rank=2),
            say(*find.conclusion()),
        )
