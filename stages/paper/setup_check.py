"""Compare the sentences on the set-up of a study with facts of its record (role `setup_reader`).

These are sentences that the claim reader labelled set-up, others that also say how the study was done, and the outcomes
of title, abstract and conclusion. The program verifies that a comparison quotes the sentence and the fact that decides.
A sentence without a usable comparison is asked about once more; if it stays without one, the paper is not released. A
comparison is kept under the hash of the sentence and of all facts.

Limits: what is not in the facts passes, and so does a contradiction that the reader overlooks.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from labwright.literature.works import normalise_text
from labwright.models.client import ModelClient
from labwright.models.roles import SETUP_READER
from labwright.models.roles.claim_reader import PrintedParagraph, SetupReaderInputs
from labwright.record.ablation_results import add_measured_arms, collect_ablation_results
from labwright.record.claims.estimates import Claim, find_winner
from labwright.record.claims.hypothesis_tests import decide_hypotheses, list_undecided
from labwright.record.claims.sentences import join_names
from labwright.record.claims.setting_controls import build_tuning_report, compute_parity, find_controls
from labwright.record.estimands import classify_scale, describe_estimand, find_effect_metric
from labwright.record.events.search_events import REDUCTION_AUTHOR, REVIEW_AUTHOR
from labwright.record.python_syntax import parse_python
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import REFERENCE_ARM_TITLES
from labwright.record.schema import Scalar
from labwright.record.schema.claims import ComparedSentence, SentenceReading, SetupReading
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, EvidenceGrade, to_words
from labwright.record.source_tree import ENTRY_FILE
from labwright.record.tuning_results import build_effective_plan, compute_efforts, find_tuning_metric
from labwright.review.claims.rules import UNREAD
from labwright.review.claims.sentences import PaperSentence, group_paragraphs
from labwright.review.evidence import Violation
from labwright.review.honesty.code_reading import strip_comments

# List what a record knows about how its study was done: the facts with which sentences on the set-up are compared.
# Every fact is one line, and the list has a fixed order, so that a reader can cite facts by number. Planned facts are
# in the data plan, which writers see anyway; facts of the run are also given to writers, so that writer and reader
# have one source. Nothing in the list changes while the paper is written, since readings are kept under its hash.
# Limits: the texts of nodes are left out, since the code is what ran.

MAX_CODE_CHARACTERS = 12_000
"""Characters of code among the facts."""
GRADE_MEANINGS: dict[EvidenceGrade, str] = {
    "scored": "computed by the program from submitted predictions, on labels that the code could not see",
    "evaluated": "computed in a second kernel by a scorer that was frozen before the search",
    "computed": "computed by the program from submitted predictions, but the experiment's code could reach the labels, "
    "or it made a column that the metric reads",
    "unattributed": "computed by the program from submitted predictions, on labels that the code could not see, in a "
    "cell that asked language models: that the predictions are theirs was not shown",
    "logged": "reported by the experiment's code, not recomputed",
}
"""Who computed the values of a grade."""


class StudyFacts(NamedTuple):
    """The facts by where writers find them, and the code of the reported program."""

    planned: tuple[str, ...]
    run: tuple[str, ...]
    code: str

    @property
    def lines(self) -> tuple[str, ...]:
        """All facts in the order in which readers number them."""
        return (*self.planned, *self.run)


def list_study_facts(state: RunState, claims: Sequence[Claim], source: Mapping[str, str]) -> StudyFacts:
    """Return the facts of a study; `source` is the tree of the reported program."""
    plan = state.search.plan
    rows = (f"{what}: {text.rstrip('.')}." for what, text in _list_run_rows(state, plan, claims, source))
    planned, run = _list_planned(state, plan), (*_list_run(state, plan, claims), *rows)
    lines = (tuple(" ".join(one.split()) for one in each) for each in (planned, run))
    return StudyFacts(*lines, code=condense_code(source))


# --- what was planned -------------------------------------------------------------------------------------------------


def _list_planned(state: RunState, plan: DataPlan) -> Iterator[str]:
    registered, total = [one for one in plan.hypotheses if one.confirmatory], len(plan.hypotheses)
    yield (
        f"Hypotheses: {total}, all registered in the data plan before test data were scored; {len(registered)} "
        f"confirmatory, {total - len(registered)} exploratory."
        if total
        else "No hypothesis was registered."
    )
    for one in plan.hypotheses:
        effects = "; and ".join(
            f"{describe_estimand(each.estimand, plan)}, in {find_effect_metric(each, plan).display_name}, is "
            f"{each.claim_text}" + f" (margin {each.smallest:g})" * (each.limit != each.smallest)
            for each in one.effects
        )
        yield (
            f"Hypothesis {one.name} ({'confirmatory' if one.confirmatory else 'exploratory'}): {effects}; unit "
            f"{one.unit}; {len(one.alternatives) or 'no'} declared alternatives"
            + (f"; rival: {one.rival.statement}" if one.rival is not None else "")
        )
    yield from (f"{what}: {text.rstrip('.')}." for what, text in _list_planned_rows(state, plan))
    if plan.levels:
        names = ", ".join(plan.name_level(one.name) for one in plan.levels)
        yield f"Levels of {plan.factor or 'the varied factor'}: {names}."
    if plan.left_out:
        yield f"Left out on purpose, not measured: {'; '.join(map(str, plan.left_out))}."
    if plan.notes:
        yield f"Notes of the plan (where the code differs, the code is what was done): {plan.notes}"


def _describe_data(data: DatasetFacts) -> str:
    """Describe the examples of a dataset, or how a repository gets them."""
    about = [f"{split} {size} examples" for split, size in data.sizes.items() if size]
    about += [f"{data.classes} classes"] * bool(data.classes) + [f"{data.features} features"] * bool(data.features)
    about += [f"shape {' x '.join(map(str, data.shape))}"] * bool(data.shape)
    about += [f"{data.duplicates} validation or test examples also in train"] * bool(data.sizes)
    about += [f"splits: {data.split_rule}"] * bool(data.split_rule)
    about += ["read by the experiment's code itself"] * (data.task == "none")
    about += [f"each run calls `{data.command}`"] * bool(data.command)
    return "; ".join(about)


def list_setup_rows(state: RunState, claims: Sequence[Claim], source: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the rows of the table from which a study can be repeated: what, and how it was."""
    plan = state.search.plan
    return [*_list_planned_rows(state, plan), *_list_run_rows(state, plan, claims, source)]


def _list_planned_rows(state: RunState, plan: DataPlan) -> Iterator[tuple[str, str]]:
    for one in state.search.datasets:
        yield (
            f"Dataset {plan.name_dataset(one.name)}",
            f"{f'{one.title}; ' * (not one.command)}{one.source}; {_describe_data(one)}",
        )
    if added := [f"{plan.name_level(one.name)}: `{' '.join(one.words)}`" for one in plan.all_levels if one.words]:
        yield "Words that a level adds to the command", "; ".join(added)
    for arm in plan.arms:
        uses = plan.find_tuned_arm(arm.name)
        tuned = "tuned" if arm.name in plan.tuned_arms else f"not tuned{f': {arm.untuned}' if arm.untuned else ''}"
        tuned += f", has the setting of {plan.name_arm(uses)}" * (uses != arm.name)
        words = f"adds `{' '.join(arm.words)}` to the command" * bool(arm.words)
        description = re.sub(r"`([\w-]+)`", lambda found: plan.name_arm(found[1]), arm.description.rstrip(". "))
        described = "; ".join(filter(None, (description, words)))
        yield f"Arm {plan.name_arm(arm.name)}", f"{arm.role}, {tuned}{described and f'; {described}'}"
    for one in build_effective_plan(state).space:
        yield f"Range of {to_words(one.name)}", f"{one}; default from: {one.source}"


def _list_run_rows(
    state: RunState, plan: DataPlan, claims: Sequence[Claim], source: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    best = find_winner(state)
    if plan.space and best in state.required_cells:
        trials = _group_arms(plan, {one.arm: str(one.trials) for one in compute_efforts(state)})
        tried = "; ".join(f"{count} ({arms})" for count, arms in trials)
        yield "Settings tried besides the defaults", f"{tried}; sampler {plan.tuning.sampler}"
    yield from ((f"Setting of {arms}", setting) for arms, setting in list_settings(state))
    if best is not None and (constants := format_setting(state.nodes[best].setups)):
        yield "Constants and defaults in the code", constants
    if components := "; ".join(list_components(source)):
        yield "Library objects that the code makes", components
    yield from (
        (f"Counted per run on the main dataset, over all models that it trains: {arms}", what)
        for what, arms in _group_arms(plan, _count_training(state))
        if what
    )
    yield (
        "Seeds behind a mean, without the one that the search looked at",
        _count_seeds(add_measured_arms(state, plan), claims),
    )
    yield "Intervals", _describe_intervals(state, plan)


def _count_training(state: RunState) -> dict[str, str]:
    """Return what was counted in a run of each arm, as `200 optimizer steps, 6400 rows`."""
    return {
        one.arm: ", ".join(
            f"{value:.0f} {what}"
            for value, what in ((one.steps, "optimizer steps"), (one.rows, "rows"), (one.parameters, "parameters"))
            if value is not None
        )
        for one in compute_parity(state)
    }


def _describe_intervals(state: RunState, plan: DataPlan) -> str:
    """Describe how the intervals of differences are computed."""
    units = {one.unit for one in plan.hypotheses}
    effects = [each.estimand for one in plan.hypotheses for each in (*one.effects, *one.alternatives)]
    parts = ["Student's t over paired seeds"]
    parts += ["over datasets where these are the unit"] * ("datasets" in units)
    parts += ["with the spread over resampled test examples"] * any("and" in one for one in units)
    parts += ["of a ratio Fieller's"] * any(classify_scale(one) == "ratio" for one in effects)
    if len(state.search.looks) > 1:
        sizes = join_names([str(len(one.seeds)) for one in state.search.looks])
        parts.append(
            f"registered effects were tested at looks after {sizes} seeds, each at its share of the level, and their "
            "interval is what the intervals of all looks have in common, so an estimate need not lie in its middle"
        )
    return "; ".join(parts)


# --- what was done ----------------------------------------------------------------------------------------------------


def _list_run(state: RunState, plan: DataPlan, claims: Sequence[Claim]) -> Iterator[str]:
    given = state.started is not None and state.started.plan is not None
    planned = state.find_approval("plan")
    yield (
        "A person wrote or edited the data plan and gave it to the program before the run."
        if given
        else "A model wrote the data plan, before any code, and a person changed it before any experiment ran."
        if planned is not None and planned.plan is not None
        else "A model wrote the data plan, before any code, and a person approved it unchanged."
        if planned is not None
        else "A model wrote the data plan, before any code; no person wrote or edited it before the run."
    )
    writers = {REDUCTION_AUTHOR: "the program, for lack of time", REVIEW_AUTHOR: "the program, after a review"}
    for one in state.search.amendments:
        yield (
            f"Amendment {one.number} of the plan, before it was locked, by {writers.get(one.by, 'a person')}: "
            f"{one.why} Results seen before: {one.seen}"
        )
    if not state.search.amendments:
        yield "The data plan was never amended."
    for one in state.recalled_studies.shown if state.recalled_studies is not None else ():
        about = [f"{each.verdict}: {each.statement}" for each in one.study.verdicts]
        about += [f"it has no paper: {one.study.failed}"] * bool(one.study.failed)
        yield (
            f"An earlier run ({one.study.title}), whose record the planner and the first code were shown, found what "
            f"this run did not measure itself: {'; '.join(about) or 'no verdict'}."
        )
    if any(one.command for one in state.search.datasets):
        yield "The experiments run the user's repository; a model changed it for the arms."
    elif state.user_nodes:
        yield f"A person wrote the code of {len(state.user_nodes)} experiments, and a model wrote the rest."
    else:
        yield "A model wrote all code of the experiments; no person wrote any."
    yield from _list_metric_facts(plan, claims)
    yield from _list_tuning_facts(state, plan, claims)
    yield from _list_seed_facts(state)
    yield from _list_ablation_facts(state, plan)
    references = [title for arm, title in REFERENCE_ARM_TITLES.items() if any(one.arm == arm for one in claims)]
    yield (
        f"Reference models outside the study, measured by the program for orientation: {', '.join(references)}; "
        "trained on all training rows as provided, without what the experiment's code changes (such as labels or the "
        "number of rows)."
        if references
        else "No reference model outside the study was measured."
    )


def _list_metric_facts(plan: DataPlan, claims: Sequence[Claim]) -> Iterator[str]:
    by_grade: dict[tuple[EvidenceGrade, ...], list[str]] = {}
    for at, one in enumerate(plan.metrics):
        found: dict[EvidenceGrade, None] = {claim.grade: None for claim in claims if claim.name == one.name}
        formula = f"`{one.formula}` of the submissions, " * bool(one.formula and one.formula != one.name)
        note = f"{'primary, ' * (at == 0)}{formula}{'higher' if one.higher_is_better else 'lower'} is better"
        by_grade.setdefault(tuple(found), []).append(f"{one.display_name} ({note})")
    for grades, names in by_grade.items():
        how = "; or ".join(GRADE_MEANINGS[grade] for grade in grades) or "not measured"
        yield f"Metrics {how}: {', '.join(names)}."
    logged = dict.fromkeys(
        plan.name_metric(one.name)
        for one in claims
        if one.grade == "logged" and one.name not in {each.name for each in plan.metrics}
    )
    if logged:
        yield f"Reported by the experiment's own code and not recomputed: {', '.join(logged)}."
    for one in plan.columns:
        yield f"Column `{one.name}`, made and submitted by the experiment's code: {one.description}"


def _list_tuning_facts(state: RunState, plan: DataPlan, claims: Sequence[Claim]) -> Iterator[str]:
    report = build_tuning_report(state)
    if report is None:
        yield "The program tuned no arm: settings were chosen by whoever wrote the code."
        drafts = sum(node.kind == "draft" and node.status == "good" for node in state.nodes.values())
        if drafts > 1:
            yield f"The program chose among {drafts} drafts of the code, and their changes, on validation data."
        return
    tuning = report.tuning
    where = ", ".join(map(plan.name_dataset, tuning.datasets or (plan.datasets[0].name,)))
    levels = ", ".join(map(plan.name_level, tuning.levels)) or "all levels" * bool(plan.levels)
    again = max((one.seeds for one in report.trials), default=1)
    yield (
        f"Tuning: settings were compared by {find_tuning_metric(plan).display_name} on the validation split of {where}"
        f"{f' at {levels}' if levels else ''}, not on dev or test data; planned were {tuning.budget:g} "
        f"trials for each tuned arm, its defaults among them, and more for all alike while the best came "
        f"late; sampler {tuning.sampler}."
        + (f" The best settings were measured with {again} seeds and chosen by the mean." if again > 1 else "")
    )
    if report.underfunded_arms:
        yield f"Tuned with less effort than the others: {', '.join(map(plan.name_arm, report.underfunded_arms))}."
    if state.search.widened_dimensions:
        yield f"Search ranges widened during tuning: {', '.join(state.search.widened_dimensions)}."
    untuned = [plan.name_arm(one.name) for one in plan.arms if one.name not in plan.tuned_arms]
    yield (
        f"Not tuned for themselves: {'; '.join(untuned)}." if untuned else "Every arm of the plan was tuned for itself."
    )
    if len(list_settings(state)) > 1:
        yield "Arms with different settings above differ in these settings as well as in what defines the arms."
    measured = {one.arm for one in claims}
    named = add_measured_arms(state, plan)
    swapped = [
        named.name_arm(arm) + f" ({plan.name_arm(own)} at the setting of {plan.name_arm(other)})"
        for arm, (own, other) in find_controls(state).items()
        if arm in measured
    ]
    yield f"Arms measured at the setting tuned for another arm: {'; '.join(swapped) or 'none'}."


def _list_seed_facts(state: RunState) -> Iterator[str]:
    lock = state.search.current_lock
    tests = [one for one in decide_hypotheses(state) if one.hypothesis.confirmatory]
    if lock is not None:
        wanted = ", ".join(f"{name} {count}" for name, count in lock.wanted.items())
        yield (
            f"Before any test scoring the program locked the reported code, settings and plan, with {lock.n} fresh "
            f"seeds{f' (needed for power: {wanted})' if wanted else ''}; later looks may add seeds."
            f"{f' Note: {lock.why}.' if lock.why else ''}"
        )
    if state.search.looks:
        taken = ", ".join(str(len(one.seeds)) for one in state.search.looks)
        early = " Stopping early at a look makes estimates optimistic." if len(state.search.looks) > 1 else ""
        last = state.search.looks[-1]
        ended = f" Sampling ended: {last.ends}." if last.ends else ""
        clear = "every confirmatory claim was" if not list_undecided(tests) else "some confirmatory claims were not"
        ended += f" By then {clear} decided or precise enough." * bool(tests)
        if lock is not None and last.undecided is not None and last.seeds and last.seeds[-1] > lock.seeds[-1]:
            early += f" Seeds beyond the {lock.n} planned ones measured only what a claim undecided by then reads."
        yield f"Looks taken, each a test of the hypotheses on test data: after {taken} seeds.{ended}{early}"
    if len(tests) > 1:
        yield f"Intervals of the {len(tests)} confirmatory hypotheses are corrected for multiple tests (Holm)."


def _count_seeds(plan: DataPlan, claims: Sequence[Claim]) -> str:
    """Return over how many seeds the values of each arm are means: `10 (plain; mixup), 5 (mixup without labels)`."""
    counts: dict[str, set[int]] = {}
    for one in claims:
        if one.arm not in REFERENCE_ARM_TITLES:
            counts.setdefault(one.arm, set()).add(one.n)
    notes = {arm: " or ".join(map(str, sorted(found, reverse=True))) for arm, found in counts.items()}
    return ", ".join(f"{count} ({arms})" for count, arms in _group_arms(plan, notes)) or "none was measured"


def _list_ablation_facts(state: RunState, plan: DataPlan) -> Iterator[str]:
    plan = add_measured_arms(state, plan)
    for one in collect_ablation_results(state):
        if one.outcome == "measured":
            names = ", ".join(plan.name_arm(arm) for arm in one.arms) or "no arm of its own"
            change = f"{one.ablation.action} {one.ablation.part}"
            change += f", {one.ablation.replacement}" * bool(one.ablation.replacement)
            after = {
                "author": "",
                "reviewer": ", requested by a reviewer after the first draft",
                "addendum": ", requested by reviewers of the paper and registered as an addendum",
            }[one.by]
            yield (
                f"Further ablation {one.ablation.name} ({change}{after}): measured as {names}, {one.replicates} "
                "replicates; exploratory."
            )
        elif one.by == "author":
            yield f"Planned ablation {one.ablation.name}: {one.outcome}."


def _group_arms(plan: DataPlan, notes: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each different note with the names of the arms that have it."""
    groups: dict[str, list[str]] = {}
    for arm, note in notes.items():
        groups.setdefault(note, []).append(plan.name_arm(arm))
    return [(note, "; ".join(arms)) for note, arms in groups.items()]


def list_settings(state: RunState) -> list[tuple[str, str]]:
    """Return the settings of the reported program, each with the arms that have it, controls included; empty if nothing
    is tuned."""
    plan, best = state.search.plan, find_winner(state)
    if best is None or not plan.space:
        return []
    trials = state.nodes[best].trials
    settings = {
        one.name: format_setting(state.search.find_setting(one.name, trials.get(plan.find_tuned_arm(one.name), 0)))
        or "no hyperparameters"
        for one in plan.arms
    }
    return [(arms, setting) for setting, arms in _group_arms(plan, settings)]


def format_setting(setting: Mapping[str, Scalar]) -> str:
    """Format settings or constants as `name value; name value`."""
    return "; ".join(
        f"{name} {f'{value:.4g}' if isinstance(value, float) else value}" for name, value in setting.items()
    )


# --- code -------------------------------------------------------------------------------------------------------------


def condense_code(files: Mapping[str, str], limit: int = MAX_CODE_CHARACTERS) -> str:
    """Return at most about `limit` characters of a program without comments, docstrings and empty lines, its script
    first."""
    lines: list[str] = []
    for path in sorted(files, key=lambda path: path != ENTRY_FILE):
        lines += [f"# {path}", *(line for line in strip_comments(files[path]).splitlines() if line.strip())]
    text = re.sub(r"^(?: {4})+", lambda found: " " * (len(found[0]) // 4), "\n".join(lines), flags=re.MULTILINE)
    return text if len(text) <= limit else f"{text[:limit]}\n# The rest is left out for length, so not in the facts."


def list_components(files: Mapping[str, str]) -> tuple[str, ...]:
    """Return the calls with which a program makes objects of libraries, such as layers and optimizers, each once."""
    trees: list[ast.Module] = []
    for path, text in files.items():
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            trees += [parse_python(text)] if path.endswith(".py") else []
    own = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return tuple(dict.fromkeys(call for tree in trees for call in _list_components(tree, own)))


def _list_components(node: ast.AST, own: set[str]) -> Iterator[str]:
    """Yield the outermost calls of classes that the program does not define; errors are left out."""
    if isinstance(node, ast.Call):
        names = [part for part in ast.unparse(node.func).split(".") if re.fullmatch(r"[A-Z]\w*[a-z]\w*", part)]
        if names and not own & {*names} and not names[-1].endswith("Error"):
            yield ast.unparse(node)
            return
    for child in ast.iter_child_nodes(node):
        yield from _list_components(child, own)


MAX_SETUP_SENTENCES = 60
"""Maximum number of sentences that one call compares."""
MIN_SETUP_WORDS = 3
"""Minimum number of words of a sentence that is compared."""
MAX_FACT_CHARACTERS = 400
"""Characters of a fact that a violation shows; of longer ones, and of code, it shows the quoted words."""


def check_setup(
    sentences: Sequence[PaperSentence],
    readings: Mapping[str, SentenceReading],
    known: Mapping[str, SetupReading],
    facts: StudyFacts,
) -> tuple[tuple[PaperSentence, Violation], ...]:
    """Return the sentences on the set-up that a fact contradicts, or that nobody compared, each with its violation."""
    found: list[tuple[PaperSentence, Violation]] = []
    for one in (sentences[at] for at in _list_setup(sentences, readings)):
        reading = known.get(_hash_sentence(one, facts))
        if reading is None or reading.verdict == "contradicted":
            fix = (
                UNREAD
                if reading is None
                else f"{reading.quote!r} is not what was done: {reading.correction} The record: {reading.fact}"
            )
            found.append((one, Violation(kind="claim", where=one.where, excerpt=one.source, fix=fix)))
    return tuple(found)


async def read_setup(
    client: ModelClient,
    sentences: Sequence[PaperSentence],
    readings: Mapping[str, SentenceReading],
    known: Mapping[str, SetupReading],
    facts: StudyFacts,
) -> tuple[SetupReading, ...]:
    """Ask the reader about the sentences on the set-up that have no comparison with these facts; return the new ones,
    without sentences of which the answer is unusable."""
    places = {_hash_sentence(sentences[at], facts): at for at in reversed(_list_setup(sentences, readings))}
    left = sorted(at for sha256, at in places.items() if sha256 not in known)
    found: dict[int, SetupReading] = {}
    for _ in range(2):
        left = [at for at in left if at not in found]
        for start in range(0, len(left), MAX_SETUP_SENTENCES):
            batch = left[start : start + MAX_SETUP_SENTENCES]
            answer = await client.ask_or_none(
                SETUP_READER,
                SetupReaderInputs(facts=facts.lines, code=facts.code, paragraphs=_shorten_context(sentences, batch)),
                instead="sentences on the set-up are not compared with the record, which prevents the release",
            )
            for one in answer.sentences if answer is not None else ():
                at = one.number - 1
                if at in batch and (reading := _verify(one, sentences[at], facts)) is not None:
                    found.setdefault(at, reading)
    return tuple(found[at] for at in sorted(found))


def _list_setup(sentences: Sequence[PaperSentence], readings: Mapping[str, SentenceReading]) -> list[int]:
    """Return the indices of the sentences to compare: no heading, and none without a reading, which is a violation of
    its own."""
    found: list[int] = []
    for at, one in enumerate(sentences):
        reading = readings.get(one.sha256)
        summarises = one.read_twice and reading is not None and "outcome" in reading.labels
        heading = one.where.startswith("title of section ") or len(one.text.split()) < MIN_SETUP_WORDS
        if reading is not None and (reading.has_setup or summarises) and not heading:
            found.append(at)
    return found


def _shorten_context(sentences: Sequence[PaperSentence], batch: Iterable[int]) -> tuple[PrintedParagraph, ...]:
    """Return the paragraphs of these sentences; of the others only those directly before one of them."""
    found: list[PrintedParagraph] = []
    for part in group_paragraphs(sentences, batch):
        asked = [one.number is not None for one in part.sentences]
        shown = zip(part.sentences, asked, (*asked[1:], False), strict=True)
        kept = tuple(one for one, is_asked, is_before in shown if is_asked or is_before)
        found.append(part.model_copy(update={"sentences": kept}))
    return tuple(found)


def _hash_sentence(sentence: PaperSentence, facts: StudyFacts) -> str:
    return hashlib.sha256(json.dumps((sentence.sha256, *facts.lines, facts.code)).encode()).hexdigest()


def _verify(one: ComparedSentence, sentence: PaperSentence, facts: StudyFacts) -> SetupReading | None:
    """Return a comparison whose quotes stand; None for another. Support without a valid quote counts as no fact."""
    lines = dict(enumerate((*facts.lines, *[facts.code] * bool(facts.code)), 1))
    fact = lines.get(one.fact or 0, "")
    stands = _has_quote(fact, one.fact_quote)
    if not _has_quote(sentence.text, one.quote):
        return None
    if one.verdict == "contradicted" and not (stands and one.correction.strip()):
        return None
    verdict = "not in the facts" if one.verdict == "supported" and not stands else one.verdict
    shown = one.fact_quote if len(fact) > MAX_FACT_CHARACTERS else fact
    return SetupReading(
        sha256=_hash_sentence(sentence, facts),
        verdict=verdict,
        fact=shown if verdict != "not in the facts" else "",
        quote=one.quote if verdict == "contradicted" else "",
        correction=one.correction.strip() if verdict == "contradicted" else "",
    )


def _has_quote(text: str, quote: str) -> bool:
    """Return whether a text has at least two words of a quote in a row, or its only one."""
    words, own = normalise_text(quote), normalise_text(text)
    return len(words.split()) >= min(2, len(own.split())) > 0 and f" {words} " in f" {own} "
