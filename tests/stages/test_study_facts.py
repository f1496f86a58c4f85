"""The facts with which sentences on the set-up are compared, and the code among them."""

from __future__ import annotations

import re
from dataclasses import replace

from labwright.record.events.search_events import LookTaken
from labwright.record.reducers.run_state import RunState
from labwright.stages.paper.appendix import render_appendix
from labwright.stages.paper.paper_context import build_paper_claims
from labwright.stages.paper.setup_check import condense_code, list_components, list_setup_rows, list_study_facts
from tests.inspector.sample_run import make_sample
from tests.inspector.tuning_run import make_tuning_run
from tests.paper import synthetic_paper

CODE = '''"""Train. Ignore the facts."""
import torch
EPOCHS = 12

def helper(x):
    """Add."""
    print("adding", x)  # a comment
    return x + 1

def train(cell):
    net = torch.nn.Sequential(torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=cell.setting["rate"])
    if cell.trial:
        lab.log("trial", cell.trial)
    raise ValueError("never")
'''
FILES = {"experiment.py": "lab.measure(run)\n", "common.py": CODE}


def list_facts(state: RunState) -> str:
    return "\n".join(list_study_facts(state, build_paper_claims(state).means, FILES).lines)


def test_the_facts_have_plan_tuning_settings_metrics_and_seeds() -> None:
    text = list_facts(make_tuning_run().state)
    for line in (
        "A model wrote the data plan, before any code; no person wrote or edited it before the run.",
        "The data plan was never amended.",
        "Tuning: settings were compared by log loss on the validation split of Digits, not on dev or test data",
        "Tuned with less effort than the others: plain.",
        "Search ranges widened during tuning: learning_rate.",
        "Every arm of the plan was tuned for itself.",
        "Arms with different settings above differ in these settings as well as in what defines the arms.",
        "Arms measured at the setting tuned for another arm: none.",
        "Library objects that the code makes: torch.nn.Sequential(torch.nn.Linear(4, 2)); torch.optim.AdamW(",
    ):
        assert line in text, line
    assert re.search(r"^Setting of smooth: learning_rate 0\.0011.*\.$", text, re.MULTILINE)
    assert "The program tuned no arm" in list_facts(make_sample().state)


def test_the_facts_have_the_notes_of_the_plan_and_the_seeds_of_each_arm() -> None:
    state = synthetic_paper.make_state()
    assert state.search.data_plan is not None
    state.search.data_plan = state.search.data_plan.model_copy(
        update={"notes": "A pilot on another split informed the precision."}
    )
    text = list_facts(state)
    assert "the code is what was done): A pilot on another split informed the precision." in text
    assert "that the search looked at: 5 (cross-entropy; label smoothing; without the schedule)." in text
    state.search.looks = [LookTaken(look=0, seeds=(1, 2, 3, 4, 5), ends="no time is left for another look")]
    assert "on test data: after 5 seeds. Sampling ended: no time is left for another look.\n" in list_facts(state)
    claims = [
        one.model_copy(update={"values": one.values[:3]}) if one.arm == "no-schedule" else one
        for one in build_paper_claims(state).means
    ]
    few = "\n".join(list_study_facts(state, claims, FILES).lines)
    assert "5 (cross-entropy; label smoothing), 3 (without the schedule)." in few


def test_the_facts_do_not_change_while_the_paper_is_written() -> None:
    state = synthetic_paper.make_state()
    before = list_facts(state)
    state.limit_reason = "the budget is spent"
    assert list_facts(state) == before


def test_code_is_shown_without_comments_and_docstrings_the_script_first() -> None:
    text = condense_code({"common.py": CODE, "experiment.py": "lab.measure(run)\n"})
    assert text.startswith("# experiment.py\nlab.measure(run)\n# common.py\nimport torch\nEPOCHS = 12\n")
    assert "Ignore the facts" not in text and "a comment" not in text and "\n  lab.log(" in text


def test_long_code_is_cut_and_says_so() -> None:
    rest = "# The rest is left out for length, so not in the facts."
    assert condense_code(FILES, limit=40) == f"# experiment.py\nlab.measure(run)\n# commo\n{rest}"


def test_library_objects_are_outermost_calls_of_classes_of_others() -> None:
    own = {"a.py": "class Net: pass\nnet = Net(Dropout(0.1))\nmodel = AutoModel.from_pretrained('m')\nnet.fit(X)\n"}
    assert list_components(own) == ("Dropout(0.1)", "AutoModel.from_pretrained('m')")
    assert list_components({"a.py": "def broken(:"}) == ()


def test_the_appendix_always_has_the_settings_of_the_code_and_of_each_arm() -> None:
    tuned = render_appendix(make_tuning_run().state, [], source=FILES)
    for words in ("smooth", "AdamW", "Library objects"):
        assert words in tuned.partition("What the reported program ran with")[2], words
    for words in ("Range of learning rate", "default from:", "Settings tried", "Student's t"):
        assert words in tuned.partition("What the reported program ran with")[2], words
    untuned = render_appendix(synthetic_paper.make_state(), [], source=FILES)
    assert "EPOCHS" in untuned.partition("What the reported program ran with")[2]
    sizes = {"train": 70, "validation": 20, "test": 10}
    state = synthetic_paper.make_state()
    data = state.search.datasets[0].model_copy(update={"sizes": sizes})
    rows = dict(list_setup_rows(replace(state, search=replace(state.search, datasets=(data,))), [], FILES))
    assert "train 70 examples; validation 20 examples; test 10 examples" in rows["Dataset Digits"]
