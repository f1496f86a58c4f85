"""The binder over a draft's source: a good draft passes, every planted violation is caught, names do not help."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.record.result_macros import print_count
from labwright.record.schema.hypotheses import Effect, Hypothesis
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import Evidence, check_draft, numbers
from labwright.review.evidence.latex_scanner import scan
from labwright.review.evidence.pdf_check import check_printed_numbers
from tests.models.ideation_examples import EARLIER_STUDY
from tests.paper import synthetic_paper

EVIDENCE = synthetic_paper.make_evidence(synthetic_paper.make_state())
KEY = "test/digits/log_loss/method@noise20.mean"


def kinds(draft: PaperDraft, evidence: Evidence = EVIDENCE) -> set[str]:
    return {one.kind for one in check_draft(draft, evidence)}


def test_a_good_draft_has_no_violation():
    assert check_draft(synthetic_paper.DRAFT, EVIDENCE) == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("The accuracy is 0.97.", "number"),
        ("It reached $a = 1$.", "number"),
        ("It reached $\\frac{97}{100}$.", "number"),
        ("It reached $\\result{" + KEY + "}7$.", "number"),
        ("It reached $x^{0.97}$.", "number"),
        ("It reached ½ of it.", "number"),
        ("It reached ٣.", "number"),
        ("On CIFAR-100 it is worse.", "number"),
        ("The share is 95\\%.", "number"),
        ("Citing \\citep[p. 12]{guo2017calibration}.", "number"),
        ("It is \\result{test/digits/log_loss/method@noise20.median}.", "key"),
        ("It is \\result{ " + KEY + "}.", "key"),
        ("See \\citep{guo2017calibration,smith2024great}.", "citation"),
        ("\\paperfigure{nothing}", "figure"),
        ("\\paperfigure{loss}", "figure"),
        ("\\papertable{nothing}", "table"),
        ("\\emph{\\papertable{main}}", "table"),
        ("See Figure~\\ref{fig:nothing}.", "reference"),
        ("\\rec{0.97}", "command"),
        ("\\input{/etc/passwd}", "command"),
        ("\\def\\x{a}", "command"),
        ("\\catcode`\\%=12", "command"),
        ("\\csname input\\endcsname", "command"),
        ("\\usepackage{shellesc}", "command"),
        ("\\char48", "command"),
        ("\\the\\year", "command"),
        ("^^39^^37 percent", "command"),
        ("\\begin{tabular}{c}a\\end{tabular}", "command"),
        ("\\end{document}", "command"),
        ("It is nine\\emph{ty}.", "word"),
        ("It h{alv}es the error.", "word"),
        ("true % \\result{" + KEY + "}", "syntax"),
        ("0.9%\n7 is the accuracy", "number"),
        ("an open {brace", "syntax"),
        ("a close} brace", "syntax"),
        ("It is \\alpha.", "syntax"),
        ("a null \x00 byte", "syntax"),
    ],
)
@pytest.mark.slow
def test_a_planted_violation_is_caught(text: str, kind: str):
    found = check_draft(synthetic_paper.add_paragraph(text), EVIDENCE)

    assert kind in {one.kind for one in found}, found
    assert all(one.fix and one.where for one in found)


@pytest.mark.parametrize(
    "text",
    [
        "The 95\\% interval, the $95\\%$ confidence interval and the 95~\\% Student t interval.",
        "With $\\epsilon \\in [0, 1]$, $1-\\epsilon$, $x_{1}$, $x^2$, $K-1$, $1/K$, $\\{0,1\\}$, $\\frac{1}{2}$.",
        "Over $\\sum_{i=1}^{K}$, $i = 1, \\dots, K$, $\\{1, \\dots, K\\}$.",
        "On Optical digits with 40\\% noise, and in Section and figure words: one dataset, two datasets, three arms.",
        "It is $\\result{" + KEY + "} \\pm \\setup{code.EPOCHS}$, \\emph{\\result{" + KEY + "}}.",
        "``Quoted'' --- and – “unicode” with α ± β, naïve Müller, $\\mathbb{R}^{K}$.",
        "\\begin{align*} a &= b \\\\ c &= d \\end{align*}\n\n\\begin{enumerate}\\item A.\\end{enumerate}",
        "The half-width, double-blind review, a manifold and a threshold.",
    ],
)
def test_what_is_tied_or_notation_passes(text: str):
    assert check_draft(synthetic_paper.add_paragraph(text), EVIDENCE) == ()


@pytest.mark.parametrize(
    "text",
    [
        r"The accuracy is ninety-seven.",
        r"It is zero point nine seven.",
        r"It is right in nine out of ten cases.",
        r"It is smaller by a factor of two.",
        r"We ran VII seeds.",
        r"A three-layer network is used.",
        r"We use ten-fold cross-validation.",
        r"The loss tripled.",
        r"It is smaller by orders of magnitude.",
        r"A dozen epochs were run.",
        r"Two thirds of the labels are wrong.",
        r"A quarter of the labels is wrong.",
        r"The loss is a third lower.",
        r"One out of two is right.",
        r"The error is twenty-five percent.",
        r"The gain is one percentage point.",
        r"We use four arms.",
        r"We ran ten different seeds.",
        r"In four of five cases it is right.",
        r"The share is point nine.",
        r"It is one point five.",
        r"\emph{Ninety}-seven is the accuracy.",
        r"It took \setup{run.seeds} thousand steps.",
        r"It is $\text{ninety}$.",
        r"See \citep[nine of ten]{guo2017calibration}.",
        r"It trains for three hours.",
        r"It is twice as good.",
        r"It needs half the epochs.",
        r"The error is halved.",
        r"Of ten classes, three points differ.",
        r"Training takes three times longer.",
        r"Each of them takes three times as long.",
        r"We ran each of them seven times.",
    ],
)
@pytest.mark.slow
def test_a_number_in_words_is_refused_as_a_digit_is(text: str):
    assert "word" in kinds(synthetic_paper.add_paragraph(text))


@pytest.mark.parametrize(
    "text",
    [
        r"The first and the second of the three arms differ in the third respect.",
        r"One dataset, two datasets, three arms, three noise levels, three label noise rates, three metrics.",
        r"All three agree. The three arms agree. In all three, it is open.",
        r"There are ten classes in Optical digits, and a ten-class problem is easy.",
        r"It has sixty-four features and five seeds, over all five replicates.",
        r"A two-sided test, a one-hot vector, a zero-mean noise, one of them, in two of them.",
        r"In the first half of training, the second half, the half-width.",
        r"In May and March. The interval excludes zero.",
        r"Type II errors and Table~\ref{tab:main}; the CI, CV and MC estimates, VI and IV methods.",
        r"A third arm, a third dataset and a fifth column.",
        r"It is the fourth seed, often and someone's tone, a tension, the network.",
        r"The training data, cross-entropy, a seventh-order term is not used.",
        r"Let $f$ be twice differentiable.",
        r"The images, each of them three times, once with each label. We ran each arm five times with other seeds.",
        r"World War II and stage IV cancer, XL models.",
    ],
)
def test_prose_and_right_counts_of_what_the_plan_names_pass(text: str):
    assert check_draft(synthetic_paper.add_paragraph(text), EVIDENCE) == ()


def test_number_words_of_the_question_may_be_typed_but_not_of_a_result():
    question = "Does erasing halve the error, or do fewer images three times, at a quarter of the cost? Three runs"
    evidence = replace(EVIDENCE, question=question)
    for text in (
        "We label fewer images three times.",
        "It has a quarter of the cost.",
        "Given three times, they help.",
    ):
        draft = synthetic_paper.add_paragraph(text)
        assert "word" in kinds(draft) and check_draft(draft, evidence) == (), text
    for text in (
        "It takes three times longer.",
        "We label them four times.",
        "It is three times as good.",
        "Erasing halves the error.",
        "The error is a quarter of that of the baseline.",
        "It wins in three runs.",
    ):
        assert {one.kind for one in check_draft(synthetic_paper.add_paragraph(text), evidence)} == {"word"}, text


@pytest.mark.parametrize(
    "text",
    [
        r"$\mathbb{1}[y=k]$ and $\mathbb{1}_{y=k}$, $\mathbb{1}\{y = k\}$.",
        r"$\mathcal{N}(0,\sigma^2 I)$ and $\mathcal{N}(0, 1)$, $\mathcal{N}(\mathbf{0}, I)$.",
        r"$\max(0,x)$, $\max(0, 1-z)$, $\max\{0, x\}$, $\min(1, r)$, $\mathrm{clip}(x, 0, 1)$.",
        r"$\mathrm{acc}(o,0)$ minus $\mathrm{acc}(o,a)$.",
        r"$\|x\|_2$, $x \in \{0,1\}^K$, $y\in[0, 1]$, $f(x, 0)$.",
        r"$\mathcal{U}(0, a)$, $\mathcal{U}(-1, 1)$.",
        r"$D(o, a) = \mathrm{acc}(o, 0) - \mathrm{acc}(o, a)$",
    ],
)
def test_notation_of_formulas_passes(text: str):
    assert check_draft(synthetic_paper.add_paragraph(text), EVIDENCE) == ()


@pytest.mark.parametrize(
    "text",
    [
        r"$a = 1$",
        r"$f(x) = 2$",
        r"$(0.9, x)$",
        r"$\mathbb{7}$",
        r"$a = (x, 0)$",
        r"$a = \mathbf{1}$",
        r"$\mathcal{N}(0, 5)$",
    ],
)
def test_a_value_in_a_formula_is_no_notation(text: str):
    assert "number" in kinds(synthetic_paper.add_paragraph(text))


@pytest.mark.parametrize("place", ["title", "abstract", "section", "caption", "note"])
def test_a_number_in_words_is_seen_wherever_it_is_printed(place: str):
    draft = synthetic_paper.DRAFT
    planted = {
        "title": draft.model_copy(update={"title": "Right in nine of ten cases"}),
        "abstract": draft.model_copy(update={"abstract": draft.abstract + " It is ninety-seven."}),
        "section": draft.model_copy(update={"sections": (*draft.sections, Section(title="Ninety", body="Text."))}),
        "caption": draft.model_copy(update={"captions": {**draft.captions, "loss": "Over ninety epochs."}}),
        "note": synthetic_paper.add_paragraph("\\citep[nine of ten]{guo2017calibration}"),
    }[place]
    assert kinds(planted) == {"word"}


def test_structure_is_refused_where_only_a_line_stands():
    draft = synthetic_paper.DRAFT.model_copy(update={"title": "A\\footnote{b}", "abstract": "\\papertable{main}"})
    assert {one.where for one in check_draft(draft, EVIDENCE) if one.kind == "command"} == {"title", "abstract"}


def test_a_figure_without_a_caption_is_a_violation():
    evidence = replace(EVIDENCE, figures=EVIDENCE.figures | {"extra"})
    found = check_draft(synthetic_paper.DRAFT, evidence)
    assert [one.fix for one in found] == ["this figure has no caption: add one"]


def test_a_value_in_bold_is_a_violation_and_other_bold_text_is_none():
    key = f"\\result{{{next(iter(EVIDENCE.results))}}}"
    for text, refused in (
        (f"\\textbf{{the gain of {key}}}", True),
        (f"\\textbf{{\\emph{{a}} and \\emph{{{key}}}}}", True),
        (f"$\\mathbf{{{key}}}$", True),
        (f"\\textbf{{Results.}} It is {key}.", False),
        (f"$\\mathbf{{x}}$, {key}", False),
    ):
        found = [one.fix for one in check_draft(synthetic_paper.add_paragraph(text), EVIDENCE)]
        assert any("bold" in one for one in found) == refused, text


LEVELS = ("20 % noise", "40 % noise", "chance")


@pytest.mark.parametrize(
    "text",
    [
        "at 20\\% or 40\\%",
        "20--40\\% of the labels",
        "a label noise of 0.2 and 0.4",
        "at chance (0.1)",
        "between chance, 0.1, and 40\\% noise",
    ],
)
def test_names_and_numbers_of_levels_may_be_typed_in_source_and_pdf(text: str) -> None:
    printed = text.replace("\\", "").replace("--", "\N{EN DASH}")
    for one in (scan(text).plain, printed):
        assert not [*numbers.find_numbers(numbers.mask_levels(one, LEVELS, ("0.1", "0.2", "0.4"), "noise of labels"))]


DESIGN = "The choice on wrong labels. More labels do not help. Between 5 % and 30 % of the pool."


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("An earlier run reached 93\\% accuracy.", False),
        ("An earlier run lost 0.0123 points.", False),
        ("It trains on 5\\% of the pool.", True),
    ],
)
def test_a_value_of_an_earlier_run_is_no_choice_of_the_design(text: str, allowed: bool) -> None:
    """Even if the planner put it into the plan, whose percentages may otherwise be typed."""
    assert EVIDENCE.plan is not None
    notes = "An earlier run reached 93 % accuracy and lost 1.23 % of the accuracy. It trains on 5 % of the pool."
    effect = EARLIER_STUDY.verdicts[0].effects[0]
    verdict = EARLIER_STUDY.verdicts[0].model_copy(
        update={"effects": (effect, effect.model_copy(update={"mean": 0.9312}))}
    )
    study = EARLIER_STUDY.model_copy(update={"verdicts": (verdict,)})
    planned = replace(EVIDENCE, plan=EVIDENCE.plan.model_copy(update={"notes": notes}))
    section = Section(title="Setup", body=text)
    draft = synthetic_paper.DRAFT.model_copy(update={"sections": (*synthetic_paper.DRAFT.sections[:-1], section)})
    bound = {one.excerpt for one in check_draft(draft, planned) if one.kind == "number"}
    assert bool(bound) == ("0.0123" in text), "without the record it would be taken for a setting"
    refused = [one for one in check_draft(draft, replace(planned, earlier=(study,))) if one.kind == "number"]
    assert bool(refused) != allowed


def find_typed(text: str) -> list[str]:
    levels = numbers.mask_levels(text, LEVELS, ("0.1", "0.2", "0.4"), "noise of labels", DESIGN)
    return [found for _, found in numbers.find_numbers(numbers.mask_percentages(levels, DESIGN))]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("with 40\\% wrong labels", []),
        ("a probability of zero, 20\\% or 40\\%, each", []),
        ("from 5\\% to 30\\% of the pool, to the 90\\% quantile", []),
        ("a gain of 20\\%. With 40\\% more labels", ["20", "40"]),
        ("with 40\\% without labels", ["40"]),
        ("30\\% of the gain, from the 10\\% to the 90\\% quantile", ["30"]),
    ],
)
def test_settings_of_the_design_may_be_typed_with_what_they_are_settings_of(text: str, typed: list[str]) -> None:
    for one in (scan(text).plain, text.replace("\\", "")):
        assert find_typed(one) == typed


def test_a_name_without_a_letter_lets_no_number_pass():
    assert kinds(synthetic_paper.add_paragraph("It is 20 times 0.2."), replace(EVIDENCE, names=("20", "0.2"))) == {
        "number"
    }


@given(
    st.from_regex(r"[0-9]{1,3}\.[0-9]{1,4}", fullmatch=True),
    st.sampled_from(
        ["%s", "$%s$", "$x_{a} = %s$", "\\footnote{It is %s}", "$\\mathrm{acc}=%s$", "a~%s\\%%", "$\\frac{%s}{K}$"]
    ),
)
@pytest.mark.slow
def test_no_typed_decimal_passes(number: str, wrapping: str):
    assert "number" in kinds(synthetic_paper.add_paragraph(wrapping % number))


@pytest.mark.slow
def test_small_counts_of_what_no_setting_counts_pass() -> None:
    for text in ("Four lines of work touch it.", "We split it into two halves.", "We ask three separate questions."):
        assert "word" not in kinds(synthetic_paper.add_paragraph(text)), text
    for text in (
        "It has four random seeds.",
        "It ran five nodes.",
        "It reads thirteen books.",
        "It takes three minutes.",
    ):
        assert "word" in kinds(synthetic_paper.add_paragraph(text)), text
    assert "word" not in kinds(synthetic_paper.add_paragraph("We measure all nine cells."))
    assert "word" in kinds(synthetic_paper.add_paragraph("We measure all five cells."))


def test_ratios_in_words_may_be_written_only_where_a_hypothesis_is_about_a_ratio() -> None:
    text = "It keeps at most half of the gain, between the ends of the 95\\% CI \\result{KEY} points."
    draft = synthetic_paper.add_paragraph(text.replace("KEY", next(iter(EVIDENCE.results))))
    assert [one.excerpt for one in check_draft(draft, EVIDENCE) if one.kind == "word"]
    plan = EVIDENCE.plan
    assert plan is not None
    effect = Effect(estimand="a / b", smallest=0.1, claim="at most", bound=0.5)
    asked = Hypothesis(id="share", statement="It keeps half.", effects=(effect,), reason="r", confirmatory=False)
    evidence = replace(EVIDENCE, plan=plan.model_copy(update={"hypotheses": (asked,)}))
    assert not [one for one in check_draft(draft, evidence) if one.kind == "word"]


@pytest.mark.slow
def test_shares_and_counts_of_the_plan_may_be_written_in_words() -> None:
    arm = synthetic_paper.PLAN.arms[1].model_copy(
        update={
            "description": "the pool is split into 2 equal folds; half of it is kept, one of eighteen places is marked"
        }
    )
    arms = (synthetic_paper.PLAN.arms[0], arm, *synthetic_paper.PLAN.arms[2:])
    told = replace(EVIDENCE, plan=synthetic_paper.PLAN.model_copy(update={"arms": arms}))

    def find(text: str, evidence: Evidence) -> set[str]:
        return kinds(synthetic_paper.DRAFT.model_copy(update={"abstract": text}), evidence)

    for text in ("One half of the pool is kept.", "It halves the pool.", "It marks one of eighteen places."):
        assert find(text, told) == set() and find(text, EVIDENCE) == {"word"}, text
    for text in (
        "A fifth of the labels is flipped.",
        "At two fifths of the labels it holds.",
        "It has two equal folds.",
    ):
        assert find(text, EVIDENCE) == set(), text  # the levels
    assert find("Two thirds of the gain is lost.", told) == {"word"}
    assert find("It marks one of nineteen places.", told) == {"word"}
    assert find("It has 2 folds.", told) == {"number"}
    ablated = replace(EVIDENCE, texts=("a random quarter of the rows is kept",))
    assert find("A quarter of the rows is kept.", ablated) == set() and find("A quarter is kept.", EVIDENCE) == {"word"}


def test_a_count_at_the_end_of_a_page_is_read_with_what_the_next_page_counts() -> None:
    told = "It is cheap because the digits have {} \np\n\f running head\nfloat\n{} and many rows.\np"
    assert [*check_printed_numbers(told.format("ten", "classes"), EVIDENCE)] == []
    assert [one.kind for one in check_printed_numbers(told.format("seven", "classes"), EVIDENCE)] == ["word"]
    assert [one.kind for one in check_printed_numbers(told.format("fifteen", "ways"), EVIDENCE)] == ["word"]


def test_a_confidence_level_at_the_end_of_a_page_is_read_with_the_next_page() -> None:
    told = "The gain was N points ({} \np\n\f running head\nfloat\n{} N to N), which is much.\np"
    evidence = replace(EVIDENCE, literals=(*EVIDENCE.literals, "95% CI"))
    assert [*check_printed_numbers(told.format("95%", "CI"), evidence)] == []
    assert [one.kind for one in check_printed_numbers(told.format("94%", "CI"), evidence)] == ["number"]
    assert [one.kind for one in check_printed_numbers(told.format("95%", "of them"), evidence)] == ["number"]


def test_a_name_with_a_number_word_is_a_name_though_one_of_its_words_is_another_name() -> None:
    assert EVIDENCE.plan is not None
    evidence = replace(EVIDENCE, names=(*EVIDENCE.names, "folds", "five folds"))
    assert [*check_printed_numbers("With five folds it is better.\np", evidence)] == []
    assert [one.kind for one in check_printed_numbers("With nine folds it is better.\np", evidence)] == ["word"]


def test_a_part_of_a_named_whole_is_left_to_the_reader_and_the_whole_is_checked() -> None:
    for text in (
        "It holds in three of the three arms.",
        "Three of its rivals fail.",
        "It loses on three of our levels.",
    ):
        assert "word" not in kinds(synthetic_paper.add_paragraph(text)), text
    for text in (
        "It holds in three of the four arms.",
        "It holds in four of the three arms.",
        "It holds in four of the arms.",
        "It gains three of the points.",
        "It is right in four of five cases.",
    ):
        assert "word" in kinds(synthetic_paper.add_paragraph(text)), text


def test_a_name_that_contains_another_and_all_of_a_level_may_be_written_and_a_size_is_answered_with_its_key() -> None:
    plan = synthetic_paper.PLAN
    levels = (plan.levels[0].model_copy(update={"title": "all 898 rows", "value": 898.0}), *plan.levels[1:])
    told = replace(
        EVIDENCE,
        plan=plan.model_copy(update={"levels": levels, "factor": "training rows"}),
        names=("majority", "majority of three", "all 898 rows"),
        setups={**EVIDENCE.setups, "data.digits.train": print_count(719)},
    )

    def find(text: str) -> list[str]:
        draft = synthetic_paper.DRAFT.model_copy(update={"abstract": text})
        return [one.fix for one in check_draft(draft, told) if one.where == "abstract"]

    assert find("Both beat the majority of three. The gain is larger with few rows than with all 898.") == []
    assert r"print it with \setup{data.digits.train}," in find("The network learns from 719 rows.")[0]
    assert find("Both err on all 899.") and find("It misses 898 of them.")


def test_names_of_levels_with_large_numbers_and_rates_of_something_else_leave_small_counts_alone() -> None:
    plan = synthetic_paper.PLAN
    levels = tuple(one.model_copy(update={"title": f"{85 + k} training rows"}) for k, one in enumerate(plan.levels))
    changed = plan.model_copy(update={"levels": levels, "factor": "training rows"})
    told = replace(EVIDENCE, plan=changed, names=tuple(one.title for one in levels))
    for text in ("It tries six learning rates.", "It has four training sizes.", "It has five rates."):
        assert "word" not in kinds(synthetic_paper.DRAFT.model_copy(update={"abstract": text}), told), text
    assert "word" in kinds(synthetic_paper.DRAFT.model_copy(update={"abstract": "It has four levels."}), told)
