"""The checks of honesty: planted programs are caught with their line, honest ones and our own studies are not."""

from __future__ import annotations

import pytest

from benchmarks.honesty import PLAN, report, wilson
from benchmarks.planted import programs
from record.nouns.data import DatasetFacts, DatasetUse, Grade, Measurement, MetricSpec, Split
from record.nouns.nodes import Finding
from review.honesty import check
from review.honesty.probe import labels_probe, seed_probe
from review.honesty.submissions import OF_CLASSES, OF_NUMBERS
from sandbox.metrics import METRICS
from tests.models.offline import inputs
from tests.models.offline.test_programs import every_program
from tests.review.honest import HONEST, NOTHING_LEARNT
from tests.stages import small_study
from tests.stages.test_own_scorer import POLICIES

ACCURACY = MetricSpec(name="accuracy", higher_is_better=True)
LOSS = MetricSpec(name="log_loss", higher_is_better=False)


def suspects(source: str, *, plots: str = "") -> list[Finding]:
    return [one for one in check({"experiment.py": source, "plots.py": plots}, PLAN) if one.suspect]


PLANTED = programs("tuned")


@pytest.mark.parametrize("kind", dict.fromkeys(program.kind for program in PLANTED))
@pytest.mark.slow
def test_planted_programs_of_a_kind_are_suspect_and_their_twins_are_not(kind: str) -> None:
    found = report(program for program in PLANTED if program.kind == kind)
    of = sum(program.kind == kind for program in PLANTED) // 2
    assert (found["recall"], found["false_alarms"]) == (f"{of}/{of}", f"0/{of}"), found


@pytest.mark.parametrize("what", HONEST)
def test_a_name_or_a_zero_alone_makes_no_program_suspect(what: str) -> None:
    assert suspects(HONEST[what]) == []


@pytest.mark.parametrize("where", NOTHING_LEARNT)
def test_a_learning_rate_of_0_is_found_where_it_reaches_the_parameters(where: str) -> None:
    assert "inert" in {one.kind for one in suspects(NOTHING_LEARNT[where])}


def test_a_finding_cites_its_line() -> None:
    [found] = suspects('import lab\n\nlab.result("robust_accuracy", 0.93, condition="method", dataset="digits")\n')
    assert (found.kind, found.file, found.line) == ("constant", "experiment.py", 3)
    assert found.text == 'lab.result("robust_accuracy", 0.93, condition="method", dataset="digits")'
    assert found.text in str(found)


@pytest.mark.parametrize("source", [one.experiment for one in every_program()[::20]])
@pytest.mark.slow
def test_offline_programs_pass(source: str) -> None:
    assert check({"experiment.py": source}, inputs.PLAN) == ()


@pytest.mark.slow
def test_whole_programs_of_studies_pass_with_their_plots() -> None:
    program = inputs.agenda_winner()
    assert check({"experiment.py": program.experiment, "plots.py": program.plots}, inputs.PLAN) == ()
    small = {"experiment.py": small_study.experiment(), "plots.py": small_study.plots()}
    assert check(small, small_study.PLAN) == ()


def test_typed_figures_are_found_and_reference_lines_are_not() -> None:
    typed = 'import matplotlib.pyplot as plt\nplt.bar(["a", "b", "c"], [0.91, 0.87, 0.95])\n'
    assert [one.file for one in suspects("", plots=typed)] == ["plots.py"]
    assert not suspects("", plots='import matplotlib.pyplot as plt\nplt.plot([0, 1], [0, 1])\n')


@pytest.mark.parametrize("script", [
    'scores = {"a": 0.91, "b": 0.87}\nplt.bar(list(scores), list(scores.values()))\n',
    'y = np.array([0.91, 0.87, 0.95])\nplt.plot([1, 2, 3], y)\n',
    'scores = {"a": 0.91, "b": 0.87}\nplt.bar(x=list(scores), height=[scores[k] for k in scores])\n',
    'gen = np.random.default_rng(1)\nplt.plot(np.cumsum(gen.normal(size=50)))\n'])
def test_a_script_on_its_own_is_held_to_recorded_arrays(script: str) -> None:
    head = "import matplotlib.pyplot as plt\nimport numpy as np\n"
    assert [one.file for one in check({"loss.py": head + script}, plots=["loss.py"])] == ["loss.py"]
    recorded = 'y = np.load("inputs/n3/loss.npy")\nplt.plot(y)\nplt.bar(["a", "b"], [y[0], y[-1]])\nplt.axhline(0.5)\n'
    assert check({"loss.py": head + recorded}, plots=["loss.py"]) == ()


@pytest.mark.parametrize(("entry", "path"), [
    ("from work import *\n", "work.py"), ("import parts.work as work\nprint(work)\n", "parts/work.py")])
def test_a_program_in_several_files_is_looked_at_as_one(entry: str, path: str) -> None:
    for one in PLANTED[::15]:
        found = check({"experiment.py": entry, path: one.source, "table.csv": "a,b"}, PLAN)
        assert any(finding.suspect for finding in found) != one.honest, one.name
        assert all(finding.file == path and finding.line for finding in found if finding.suspect), found


CELLS = """
import importlib
import lab
from common import fit

def run(cell):
    data = lab.data(cell.dataset)
    arm = importlib.import_module(f"arms.{cell.arm.replace('-', '_')}")
    weights = fit(data.train.x, data.train.y, arm.RATE)
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, cell.condition, logits=arm.answer(weights, getattr(data, split).x))

lab.measure(run)
"""
FIT = """
import numpy as np
import lab

def fit(x, y, rate):
    weights = np.random.default_rng(lab.seed).normal(size=(x.shape[1], 10))
    for _ in range(50):
        weights -= rate * x.T @ (x @ weights - np.eye(10)[y])
    return weights
"""
ANSWER = "import numpy as np\nRATE = 0.001\n\ndef answer(weights, x):\n    return {}\n"


@pytest.mark.parametrize(("answer", "kinds"), [
    ("x @ weights", set[str]()), ("np.random.default_rng(0).random((len(x), 10))", {"random"}),
    ("np.zeros((len(x), 10)) + 0.1", {"constant"})])
def test_a_function_of_cells_is_followed_into_the_file_of_each_arm(answer: str, kinds: set[str]) -> None:
    files = {"experiment.py": CELLS, "common.py": FIT, "arms/baseline.py": ANSWER.format("x @ weights"),
             "arms/method.py": ANSWER.format(answer)}
    assert {one.kind for one in check(files, PLAN) if one.suspect and one.kind != "frozen seed"} == kinds


def test_a_policy_that_was_searched_for_is_handed_in_without_a_finding() -> None:
    assert check({"experiment.py": POLICIES}) == ()


BY_INDEX = '''
import numpy as np
import lab

rng = np.random.default_rng(lab.seed)
data = lab.data("digits")
weights = [rng.normal(size=(64, 10)), np.zeros(10)]
for _ in range(50):
    wrong = data.train.x @ weights[0] + weights[1] - np.eye(10)[data.train.y]
    for k, g in enumerate((data.train.x.T @ wrong, wrong.mean(0))):
        {step}
{after}
for split in ("validation", "test"):
    lab.submit("digits", split, "method", logits=getattr(data, split).x @ weights[0] + weights[1])
'''


@pytest.mark.parametrize(("step", "after", "kinds"), [
    ("weights[k] = weights[k] - 0.001 * g", "", []),
    ("weights[k] -= 0.001 * g", "", []),
    ("g = g / 2", "", ["untrained"]),
    ("weights[k] = weights[k] - 0.001 * g", "weights[0] = rng.normal(size=(64, 10))\nweights[1] = np.zeros(10)",
     ["untrained"])])
def test_weights_in_a_list_are_trained_where_elements_are_changed(step: str, after: str, kinds: list[str]) -> None:
    assert sorted({one.kind for one in suspects(BY_INDEX.format(step=step, after=after))}) == kinds


def test_training_that_nothing_calls_is_found_unless_something_else_learns() -> None:
    source = """
import lab
import numpy as np

data = lab.data("digits")


def optimise(net, x, y):
    loss = net(x, y)
    loss.backward()


near = ((data.validation.x[:, None] - data.train.x[None]) ** 2).sum(-1).argmin(1)
lab.submit("digits", "validation", "method", predictions={})
"""
    assert [one.kind for one in suspects(source.format("near % data.classes"))] == ["inert"]
    assert not suspects(source.format("data.train.y[near]"))


def test_an_arm_that_is_named_untrained_may_be() -> None:
    source = """
import lab
import torch

data = lab.data("digits")
net = torch.nn.Linear(64, 10)
lab.submit("digits", "validation", "{}", logits=net(torch.tensor(data.validation.x)))
"""
    assert [one.kind for one in suspects(source.format("method"))] == ["untrained"]
    assert not suspects(source.format("untrained"))


def test_an_arm_that_is_meant_to_know_nothing_is_only_noted() -> None:
    source = ('import lab\nimport numpy as np\ndata = lab.data("digits")\n'
              'p = np.full((len(data.validation.x), data.classes), 1 / data.classes)\n'
              'lab.submit("digits", "validation", "{}", probabilities=p)\n')
    assert [one.kind for one in suspects(source.format("method"))] == ["constant"]
    assert not suspects(source.format("uniform-guess"))


def test_a_count_of_steps_until_data_say_stop_is_measured() -> None:
    source = """
import lab
import numpy as np

fields = int((lab.data("grid").path / "map.txt").read_text().split()[0])


def steps(policy):
    place = taken = 0
    while place < fields - 1 and taken < 30:
        place = max(0, place + (1 if np.random.rand() < policy[place] else -1))
        taken += 1
    return taken


lab.seed_everything()
policy = np.full(fields, 0.5)
lab.log("loss", np.mean([steps(policy) for _ in range(20)]), condition="plain", dataset="grid", split="dev")
"""
    assert check({"experiment.py": source}) == ()


def test_code_that_is_no_python_has_no_findings() -> None:
    assert check({"experiment.py": "def ("}, PLAN) == ()


def test_wilson_intervals() -> None:
    assert wilson(0, 10) == (0.0, 0.278) and wilson(10, 10) == (0.722, 1.0)


# --- the probe ------------------------------------------------------------------------------------------------------


def measured(value: float, *, condition: str = "method", name: str = "accuracy", seed: int = 0) -> Measurement:
    return Measurement(name=name, value=value, condition=condition, dataset="digits", split="validation", seed=seed,
                       grade="computed")


def test_permuted_labels_must_cost_the_advantage_over_chance() -> None:
    chance = {"digits": 0.1}
    assert labels_probe([measured(0.95)], [measured(0.12)], metric=ACCURACY, chance=chance).outcome == "moved"
    kept = labels_probe([measured(0.95)], [measured(0.94)], metric=ACCURACY, chance=chance)
    assert kept.outcome == "still" and "99 %" in kept.why
    assert labels_probe([measured(0.11)], [measured(0.1)], metric=ACCURACY, chance=chance).outcome == "unclear"
    losses = [measured(value, name="log_loss") for value in (0.2, 2.6)]
    assert labels_probe(losses[:1], losses[1:], metric=LOSS, chance={"digits": 2.3}).outcome == "moved"


def test_another_seed_must_move_some_value() -> None:
    first, same, other = [measured(0.9)], [measured(0.9, seed=1)], [measured(0.8, seed=2)]
    assert seed_probe(first, [same, other], ACCURACY).outcome == "moved"
    assert seed_probe(first, [same], ACCURACY).outcome == "still"
    assert seed_probe(first, [], ACCURACY).outcome == "unclear"


# --- scores of rows whose labels the code cannot have ---------------------------------------------------------------


HEAD = """
import lab

data = lab.data("digits")
score = float((data.dev.x.sum(1) > data.dev.y).mean())
"""


@pytest.mark.parametrize(("call", "found"), [
    ('lab.result("accuracy", score, condition="method", dataset="digits")', ["unseen labels"]),
    ('lab.result("val_accuracy", score, condition="method", dataset=data.name, split="test")', ["unseen labels"]),
    ('lab.result("Macro-F1", score, condition="method", dataset="digits")', ["unseen labels"]),
    ('lab.result("dev_accuracy", score, condition="method", dataset="digits")', []),
    ('lab.result("accuracy", score, condition="method", dataset="digits", split="dev")', []),
    ('lab.result("mse", score, condition="method", dataset="digits")', []),
    ('lab.result("parameters", 640, condition="method", dataset="digits")', []),
    ('lab.result("accuracy", score, condition="method", dataset="grid")', []),
    ('lab.result("accuracy", score, condition="method", dataset="other")', [])])
def test_a_score_of_withheld_rows_is_never_said_by_the_code(call: str, found: list[str]) -> None:
    plan = PLAN.model_copy(update={"datasets": (*PLAN.datasets, DatasetUse(name="grid"))})
    facts = (facts_of("digits", classes=10), facts_of("grid", task="none"))
    assert [one.kind for one in check({"experiment.py": HEAD + call}, plan, facts=facts)] == found


@pytest.mark.parametrize(("task", "dataset", "suspect"), [
    ("forecast a simulated series", "wave", False), ("forecast a series", "wave", True),
    ("forecast a simulated series", "digits", True)])
def test_generated_data_are_a_note_where_the_plan_says_so(task: str, dataset: str, suspect: bool) -> None:
    source = ('import lab\nimport numpy as np\nwave = np.random.default_rng(lab.seed).normal(size=90)\n'
              f'lab.result("jump_error", np.mean(np.diff(wave) ** 2), condition="method", dataset="{dataset}")\n')
    found = check({"experiment.py": source}, PLAN.model_copy(update={"task": task}))
    assert [(one.kind, one.suspect) for one in found] == [("random", suspect)]


def facts_of(name: str, *, classes: int = 0, task: str = "") -> DatasetFacts:
    return DatasetFacts(name=name, source="here", features=1, classes=classes, sizes={}, fingerprint="", seed=0,
                        task=task)


def logged(name: str, grade: Grade = "logged", *, step: int | None = None, split: Split = "validation") -> Measurement:
    return Measurement(name=name, value=0.9, condition="method", dataset="digits", split=split, seed=0, grade=grade,
                       step=step)


def test_what_was_recorded_is_held_to_the_same_rule() -> None:
    facts = (facts_of("digits", classes=10),)
    [found] = check({}, PLAN, facts=facts, measurements=[logged("accuracy"), logged("accuracy")])
    assert found.suspect and found.line == 0 and "cannot have the labels" in str(found)
    source = {"experiment.py": HEAD + 'lab.result("accuracy", score, condition="method", dataset="digits")'}
    [once] = check(source, PLAN, facts=facts, measurements=[logged("accuracy")])
    assert once.line > 0
    fine = [logged("accuracy", "scored"), logged("accuracy", "evaluated"), logged("accuracy", step=3), logged("mse"),
            logged("accuracy", split="dev"), logged("dev_accuracy")]
    assert check({}, PLAN, facts=facts, measurements=fine) == ()
    assert check({}, PLAN, facts=(), measurements=[logged("accuracy")]) == ()


def test_every_metric_that_we_score_is_among_those_that_take_labels() -> None:
    assert set(METRICS) <= OF_CLASSES | OF_NUMBERS and not OF_CLASSES & OF_NUMBERS


# --- what honest work does that looks like a trick ------------------------------------------------------------------


NET = """
import copy
import lab
import torch

data = lab.data("digits")
x, y = torch.as_tensor(data.train.x), torch.as_tensor(data.train.y)
first, last = torch.nn.Linear(64, 8), torch.nn.Linear(8, 10)
net = torch.nn.Sequential(first, last)
optimiser = torch.optim.Adam(net.parameters(), lr={lr})
for epoch in range(30):
    {before}
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    {between}
    optimiser.step()
{after}
lab.submit("digits", "validation", "method", logits=net(torch.as_tensor(data.validation.x)))
"""
LATER = "for group in optimiser.param_groups: group['lr'] = 0.01 * epoch"
OTHER = "other = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.Linear(8, 10))\n"


@pytest.mark.parametrize(("lr", "before", "between", "after", "kinds"), [
    ("0.0", "optimiser.zero_grad()", "", "", ["inert"]),
    ("0.0", LATER, "", "", []),
    ("0.0", LATER.replace("0.01 * epoch", "0.0"), "", "", ["inert"]),
    ("0.1", "optimiser.zero_grad()", "", "", []),
    ("0.1", "", "optimiser.zero_grad()", "", ["untrained"]),
    ("0.1", "", "", OTHER + "other.load_state_dict(copy.deepcopy(net.state_dict()))\nnet = other", []),
    ("0.1", "", "", OTHER + "net.load_state_dict(other.state_dict())", ["untrained"]),
    ("0.1", "", "", OTHER + "net = other", ["untrained"])])
def test_what_a_network_comes_to_is_followed(lr: str, before: str, between: str, after: str, kinds: list[str]) -> None:
    source = NET.format(lr=lr, before=before or "pass", between=between or "pass", after=after)
    assert sorted({one.kind for one in suspects(source)}) == kinds


BY_GRADIENT = """
import lab
import torch

data = lab.data("digits")
x, y = torch.as_tensor(data.train.x), torch.as_tensor(data.train.y)
for arm in ("baseline", "method"):
    body, head = torch.nn.Linear(64, 8), torch.nn.Linear(8, 10)
    net = torch.nn.Sequential(body, head)
    for weight in {frozen}.parameters():
        weight.requires_grad_(arm == "method")
    moving = [weight for weight in net.parameters() if weight.requires_grad]
    for _ in range(30):
        slopes = torch.autograd.grad(torch.nn.functional.cross_entropy(net(x), y), moving)
        with torch.no_grad():
            for weight, slope in zip(moving, slopes):
                weight -= 0.1 * slope
    lab.submit("digits", "validation", arm, logits=head(body(torch.as_tensor(data.validation.x))))
"""


@pytest.mark.parametrize(("frozen", "kinds"), [("body", []), ("torch.nn.Sequential(body, head)", ["untrained"])])
def test_a_head_is_trained_on_a_frozen_layer(frozen: str, kinds: list[str]) -> None:
    assert [one.kind for one in suspects(BY_GRADIENT.format(frozen=frozen))] == kinds


PAIRS = """
import lab
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

data = lab.data("digits")
models = [LogisticRegression(C=c).fit(data.train.x, data.train.y) for c in (1.0, 2.0)]
by_score = lambda pair: accuracy_score(data.dev.y, pair[1].predict(data.dev.x))
pairs = sorted([("baseline", models[0]), ("method", models[1])], key=by_score)
for {loop}:
    lab.submit("digits", "validation", arm, probabilities=model.predict_proba(data.validation.x))
"""


@pytest.mark.parametrize(("loop", "kinds"), [
    ("arm, model in pairs", []), ('arm, (_, model) in zip(("baseline", "method"), pairs)', ["swapped"])])
def test_pairs_that_are_only_put_in_order_are_no_swap(loop: str, kinds: list[str]) -> None:
    assert sorted({one.kind for one in suspects(PAIRS.format(loop=loop))}) == kinds


# --- arms that are one, and what the harness keeps to itself --------------------------------------------------------


ARMS = """
import lab
from sklearn.linear_model import LogisticRegression

data = lab.data("digits")


def learn(arm, scaled):
    x = data.train.x {change}
    return LogisticRegression().fit(x, data.train.y)


for arm, scaled in (("baseline", False), ("method", True)):
    p = lab.shared({key}, lambda: learn(arm, scaled).predict_proba(data.validation.x))
    lab.submit("digits", "validation", arm, probabilities=p)
"""


@pytest.mark.parametrize(("change", "key", "kinds"), [
    ("* 2 if scaled else data.train.x", 'f"p-{arm}"', []), ("* 2", 'f"p-{arm}"', ["one for two"]),
    ("* 2 if scaled else data.train.x", '"p"', ["one for two"])])
def test_arms_that_are_one_are_found(change: str, key: str, kinds: list[str]) -> None:
    assert [one.kind for one in suspects(ARMS.format(change=change, key=key))] == kinds


@pytest.mark.parametrize(("line", "reaches"), [
    ("n = sum(one.nbytes for one in gc.get_objects() if type(one) is np.ndarray)", False),
    ("n = lab.seed + lab.seconds_left()", False), ("n = getattr(lab.data('digits'), 'dev')", False),
    ("n = [vars(one) for one in gc.get_objects()]", True), ("n = list(vars(lab).values())", True),
    ("n = gc.get_referrers(lab)", True), ("n = lab._data.views", True), ("from lab._data import data", True),
    ("n = inspect.currentframe().f_back.f_locals", True), ("n = getattr(lab, '_data')", True)])
def test_reaching_for_what_the_harness_keeps_is_found(line: str, reaches: bool) -> None:
    found = suspects(f"import gc\nimport inspect\nimport lab\nimport numpy as np\n{line}\n")
    assert {one.kind for one in found} == ({"reaching"} if reaches else set())
