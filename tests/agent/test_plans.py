"""Plans as files: what `--dry-run --out` writes `--plan` takes; what cannot be carried out is one line and exit 2; and
amendments, numbered until the lock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import yaml

from labwright.agent.cli import main
from labwright.agent.plan_files import plan_to_yaml, read_plan
from labwright.agent.run_process import CommandHandler
from labwright.models.offline.study import load_study
from labwright.record.control_files import describe_seen_results, find_refusal, send_command
from labwright.record.events.run_events import CommandReceived
from labwright.record.events.search_events import ConfirmationLocked, LookTaken
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import Effect
from labwright.search.scheduler import RunControl
from tests.hypotheses import make_hypotheses
from tests.paper import synthetic_paper
from tests.search.scripted_search import PLAN, new_log

ROOT = Path(__file__).parents[2]
IDEA = ROOT / "examples" / "ideas" / "label_noise_calibration.json"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_plan_is_written_and_read_again_as_it_was(tmp_path: Path) -> None:
    plan = load_study().plan
    (tmp_path / "plan.yaml").write_text(plan_to_yaml(plan))
    assert read_plan(tmp_path / "plan.yaml") == plan
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    assert read_plan(tmp_path / "plan.json") == plan, "the run's own copy can be given as well"


@pytest.mark.slow
def test_what_a_dry_run_writes_another_takes_without_a_planner(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "--idea", str(IDEA), "--dry-run", "--config", str(ROOT / "examples" / "demo.yaml")]
    assert main([*command, "--out", "plan.yaml"]) == 0
    said = capsys.readouterr()
    assert "run it with --plan plan.yaml" in said.err and "id: calmer-under-noise" in said.out
    changed = yaml.safe_load(Path("plan.yaml").read_text())
    changed["hypotheses"][0]["effects"][0]["smallest"] = 0.123
    Path("mine.yaml").write_text(yaml.safe_dump(changed))
    assert main([*command, "--plan", "mine.yaml"]) == 0
    said = capsys.readouterr()
    assert "smallest: 0.123" in said.out and "this dry run made 1 model call" in said.out, "of the reviewer"
    assert main([*command, "--out", "plan.yaml"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_a_plan_that_a_dry_run_reviewed_is_not_reviewed_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "--idea", str(IDEA), "--dry-run", "--config", str(ROOT / "examples" / "demo.yaml")]
    assert main([*command, "--out", "plan.yaml"]) == 0
    first = capsys.readouterr().out
    assert main([*command, "--plan", "plan.yaml"]) == 0
    again = capsys.readouterr().out
    assert "this dry run made 0 model calls" in again
    assert [line for line in again.splitlines() if "findings on the plan" in line] == [
        line for line in first.splitlines() if "findings on the plan" in line
    ]
    Path("plan.yaml").write_text(Path("plan.yaml").read_text().replace("Classify", "Sort"))
    assert main([*command, "--plan", "plan.yaml"]) == 0
    assert "this dry run made 1 model call" in capsys.readouterr().out
    Path("plan.review.json").write_text("{}")
    assert main([*command, "--plan", "plan.yaml"]) == 2
    assert "plan.review.json is not a valid review: delete it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"arms": []}, "no arm has the role 'baseline'"),
        ({"hypotheses": []}, "no hypothesis is confirmatory"),
        ({"datasets": [{"name": "moon"}]}, "there is no dataset 'moon'"),
        ({"colour": "red"}, "colour: Extra inputs"),
        ({"hypotheses": [{"id": "Bad Id"}]}, "hypotheses.0.id"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_one_line(
    change: dict[str, object], why: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = yaml.safe_load(plan_to_yaml(load_study().plan)) | change
    Path("plan.yaml").write_text(yaml.safe_dump(whole))
    assert main(["run", "--idea", str(IDEA), "--plan", "plan.yaml", "--model", "offline"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "plan.yaml" in said
    assert why in said or (why == "no arm has the role 'baseline'" and "arms" in said), said
    assert [path.name for path in place.iterdir()] == ["plan.yaml"], "nothing is left behind"


def test_too_few_clusters_of_a_users_own_data_are_refused_before_anything_is_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = Random(0)
    rows = [f"{rng.random()},{rng.random()},{rng.choice('ab')},ward{k % 4}" for k in range(400)]
    Path("care.csv").write_text("\n".join(["age,dose,target,ward", *rows]) + "\n")
    whole = yaml.safe_load(plan_to_yaml(load_study().plan))
    whole["datasets"] = [{"name": "care"}]
    whole["anchors"] = whole["left_out"] = []
    whole["tuning"]["datasets"] = []
    whole["hypotheses"] = whole["hypotheses"][:1]
    whole["hypotheses"][0] |= {"unit": "seeds and clusters", "cluster": "ward"}
    Path("plan.yaml").write_text(yaml.safe_dump(whole))
    assert (
        main(
            [
                "run",
                "--idea",
                str(IDEA),
                "--plan",
                "plan.yaml",
                "--model",
                "offline",
                "--data",
                "care=care.csv,target=target,meta=ward",
            ]
        )
        == 2
    )
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "form 4 clusters by 'ward', but at least 5 are needed" in said, said


@pytest.mark.parametrize("text", ["", "- a list", ": : :", "a: &x [*x]"])
def test_a_file_that_is_no_plan_is_one_line(text: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.yaml").write_text(text)
    assert main(["run", "--idea", str(IDEA), "--plan", "plan.yaml", "--model", "offline"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# --- amendments -----------------------------------------------------------------------------------------------------

ASKED = PLAN.model_copy(update={"hypotheses": make_hypotheses("method", "baseline", higher=False)})


def amended(plan: DataPlan, **changes: object) -> CommandReceived:
    return CommandReceived(verb="amend", text="a reader asked", by="ann", plan=plan.model_copy(update=changes))


def stronger(plan: DataPlan) -> CommandReceived:
    [one] = plan.hypotheses
    return amended(
        plan, hypotheses=(one.model_copy(update={"effects": (Effect(estimand="baseline - method", smallest=0.2),)}),)
    )


def test_an_amendment_is_numbered_with_what_had_been_seen_and_taken_once(tmp_path: Path) -> None:
    log, folder = new_log(plan=ASKED), RunFolder(tmp_path / "run")
    folder.create_folders()
    steering = CommandHandler(folder, log, RunControl(), lambda: None)
    before = log.state.search.plan_hash
    send_command(folder.root, stronger(ASKED))
    steering.process_commands()
    steering.process_commands()
    [one] = log.state.search.amendments
    assert (one.number, one.by, one.why) == (1, "ann", "a reader asked")
    assert one.seen == "validation values of 0 experiments and 0 replicates; no test value"
    assert (
        log.state.search.data_plan is not None and log.state.search.data_plan.hypotheses[0].effects[0].smallest == 0.2
    )
    assert log.state.search.plan_hash != before
    assert read_plan(folder.root / "data_plan.json") == log.state.search.data_plan
    send_command(folder.root, stronger(ASKED))
    steering.process_commands()
    assert len(log.state.search.amendments) == 1 and log.state.ignored_command_count == 1, "the plan is unchanged"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (amended(ASKED, expected_seconds=9.0), "expected_seconds of the plan cannot change"),
        (amended(ASKED, hypotheses=()), "no hypothesis is confirmatory"),
        (amended(ASKED), "the plan is unchanged"),
        (CommandReceived(verb="amend", text="w"), "no plan given"),
    ],
)
def test_what_may_not_be_amended_is_refused(command: CommandReceived, why: str) -> None:
    assert why in (find_refusal(new_log(plan=ASKED).state, command, is_running=True) or "")


def test_after_the_lock_nothing_is_amended() -> None:
    log = new_log(plan=ASKED)
    assert find_refusal(log.state, stronger(ASKED), is_running=True) is None
    log.append(
        ConfirmationLocked(
            plan=log.state.search.plan_hash, amendments=0, winner="n0001", source="0", n=5, seeds=(1, 2, 3, 4, 5)
        )
    )
    assert "locked" in (find_refusal(log.state, stronger(ASKED), is_running=True) or "")


def test_seen_results_of_a_study_without_test_data_name_no_split() -> None:
    state = synthetic_paper.make_state()
    assert describe_seen_results(state).startswith("validation values of ")
    nodes = {
        name: one.model_copy(
            update={"attempts": tuple(each.model_copy(update={"sealed": {}}) for each in one.attempts)}
        )
        for name, one in state.nodes.items()
    }
    look = LookTaken(look=0, seeds=(1,))
    bare = replace(state, nodes=nodes, search=replace(state.search, test_measurements={}, looks=[look]))
    seen = describe_seen_results(bare)
    assert seen.startswith("values of ") and seen.endswith(", every verdict; the study has no test data")
