"""Tables, appendix, references and characters, without TeX."""

from __future__ import annotations

import csv
import io
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.literature import LibraryError
from labwright.literature.bibtex import parse_bibtex
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.estimates import compute_paper_claims, find_ablation_conditions
from labwright.record.events.paper_events import FiguresDrawn
from labwright.record.events.run_events import LimitReached
from labwright.record.events.search_events import AttemptExecuted, DecisionMade, NodeJudged, NodesCompared
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RoleUsage, RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import Arm, DatasetFacts, parse_arm
from labwright.record.schema.decisions import CompareNodes, Cost, ExpandTree
from labwright.record.schema.nodes import Attempt, Failure
from labwright.record.schema.paper import FinalFigure, PaperDraft, PaperFinding, Section
from labwright.record.table import Table
from labwright.review.evidence import numbers
from labwright.review.evidence.tex_runner import latex_command, run_program
from labwright.stages.paper import paper_context
from labwright.stages.paper.appendix import MAX_ITEMS, list_disclosures, render_appendix, render_incidents
from labwright.stages.paper.citations import format_bibliography, read_verified_entries, to_reference
from labwright.stages.paper.disclosure import build_supplement_tables, format_files
from labwright.stages.paper.latex import escape, mark_recorded, replace_unprintable
from labwright.stages.paper.paper_context import CAPTION_WITHOUT_DESCRIPTION, PaperContext, build_paper_parts
from labwright.stages.paper.result_tables import build_result_tables
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import PaperAssessment, find_section, list_obstacles, parse_log
from labwright.stages.settings import PaperSettings
from tests.paper import synthetic_paper

STATE = synthetic_paper.make_state()
CLAIMS = synthetic_paper.make_claims(STATE)


def typed(text: str) -> list[str]:
    """Return digits outside of value macros, `\\rec` and column widths."""
    text = text.partition(r"\begin{document}")[2] or text
    commands = r"result|setup|ref|label|addlinespace|setlength\\(?:tabcolsep|LT\w+)|begin\{longtable\}"
    text = re.sub(rf"\\(?:{commands})(?:\{{[^{{}}]*\}}|\[[^\]]*\])", "", text)
    text = re.sub(r"\\rec\{(?:[^{}]|\{[^{}]*\})*\}|\\multicolumn\{\d+\}|[LR]\{\\dimexpr[^{}]*\}|@\{\}", "", text)
    return [one for _, one in numbers.find_numbers(text)]


def test_tables_print_bound_values_only():
    made = build_result_tables(
        compute_paper_claims(STATE),
        synthetic_paper.PLAN,
        synthetic_paper.ABLATED,
        {parse_arm(synthetic_paper.ABLATED[0]): "NOISE_KIND"},
        [one for one in CLAIMS if isinstance(one, ClaimDifference) and one.name == "log_loss"],
    )
    assert r": \texttt{NOISE\_\allowbreak{}KIND}" in made[2].tabular
    assert [(one.name, one.placement) for one in made] == [
        ("main", "main"),
        ("metrics", "appendix"),
        ("ablation", "appendix"),
    ]
    assert [typed(one.tabular) + typed(one.caption) for one in made] == [[], [], []]
    keys = set(re.findall(r"\\result\{([^{}]*)\}", "".join(one.tabular for one in made)))
    assert keys <= set(synthetic_paper.make_evidence(STATE).results) and len(keys) > 50


def test_arms_are_columns_many_arms_are_rows_and_a_missing_cell_is_a_dash():
    plan = synthetic_paper.PLAN.model_copy(
        update={
            "arms": tuple(
                arm.model_copy(update={"role": "method"}) if arm.role == "ablation" else arm
                for arm in synthetic_paper.PLAN.arms
            )
        }
    )
    some = [one for one in CLAIMS if one.condition != "method@noise20" and one.key.startswith("test/")]
    main, metrics, *_ = build_result_tables(some, plan)
    assert r"\begin{tabular}{@{}lrrrr@{}}" in main.tabular and "Arm" not in main.tabular
    assert (main.tabular.count(".ci}"), main.tabular.count(".pm}")) == (0, 16), "n and deviation give the interval"
    more = tuple(Arm(name=f"m{k}", role="method") for k in range(4))
    extra = [
        one.model_copy(
            update={"condition": f"{arm.name}@{one.level}", "values": tuple(k + each for each in one.values)}
        )
        for k, arm in enumerate(more, 1)
        for one in some[:9]
    ]
    many, *_ = build_result_tables([*some, *extra], plan.model_copy(update={"arms": (*plan.arms, *more)}))
    assert r"\begin{tabular}{@{}llrr@{}}" in many.tabular and "Arm" in many.tabular
    assert "--" in build_result_tables(some, synthetic_paper.PLAN)[0].tabular
    assert metrics.tabular.count("{@{}lrrrr@{}}") == 1 and "Calibration error, " in metrics.tabular


def test_the_grade_of_each_metric_is_disclosed():
    graded = [one.model_copy(update={"grade": "scored"}) if one.name == "ece" else one for one in CLAIMS]
    lines = [one for one in list_disclosures(STATE, graded) if "by the program from submitted" in one]
    assert [one.partition(" by ")[0] for one in lines] == [
        "Calibration error was computed",
        "Log loss and accuracy were computed",
    ]


def test_a_study_of_a_repository_is_not_said_to_have_validation_data_or_known_counts():
    facts = DatasetFacts(
        name="digits",
        title="the repository's own data",
        source="git:0123456789ab",
        features=0,
        classes=0,
        sizes={},
        fingerprint="f" * 64,
        seed=0,
        task="none",
        command="python run.py",
        split_rule="made by the repository's own code",
    )
    run = replace(STATE, search=replace(STATE.search, datasets=(facts,), test_measurements={}))
    claims = [one.model_copy(update={"grade": "logged"}) for one in compute_paper_claims(run)]
    assert {one.split for one in claims} == {"validation"}
    [line] = [one for one in list_disclosures(run, claims) if "no test predictions" in one]
    assert "the code itself computes the metrics" in line and "validation" not in line
    main, *_ = build_result_tables(claims, synthetic_paper.PLAN)
    assert "validation data" not in main.caption
    text = render_appendix(run, claims)
    assert "splits: made by the repository's own code" in text
    assert "git:0123456789ab" in text and "the repository's own data" not in text
    assert "Search and tuning saw" not in text
    assert set(find_ablation_conditions(run)) == set(find_ablation_conditions(STATE)) != set()


def test_the_appendix_says_that_no_model_was_called_and_has_failures():
    assert "No model call was recorded" in render_appendix(STATE, CLAIMS)
    text = render_incidents(STATE)
    assert "cannot be multiplied" in text and r"\$f" in text and typed(text) == []


def eventful() -> RunState:
    """Build the synthetic run with a pruned node, retries for time and for memory, two comparisons and a limit."""
    log = synthetic_paper.make_events()
    k = sum(isinstance(event, DecisionMade) for event in log)
    timeout = Failure(kind="timeout", message="ran longer than 60 s")
    memory = Failure(kind="memory", message="out of memory at 3_000 MB & more")
    hopeless = Failure(kind="hopeless", message="loss 9.1 at step 40, median of 4 peers 0.3")
    attempts = {
        k + 1: (Attempt(number=1, seconds=60.2, limit=60, failure=timeout), Attempt(number=2, seconds=71, limit=90)),
        k + 2: (
            Attempt(number=1, seconds=5, limit=60, failure=memory),
            Attempt(number=2, seconds=6, limit=60, alone=True, failure=memory),
        ),
        k + 3: (Attempt(number=1, seconds=9, limit=60, failure=hopeless),),
    }
    for number, made in attempts.items():
        node, failure = f"n{number:04d}", made[-1].failure
        log.append(DecisionMade(k=number, action=ExpandTree(stage="agenda", kind="improve", parent="n0006", seed=7)))
        log += [AttemptExecuted(node=node, attempt=one) for one in made]
        status = "pruned" if failure is hopeless else "buggy" if failure else "good"
        log.append(NodeJudged(node=node, status=status, failure=failure, reasons=("why",) if failure else ()))
    log += [
        DecisionMade(k=k + 4, action=CompareNodes(stage="tuning", a="n0003", b="n0005")),
        NodesCompared(k=k + 4, a="n0003", b="n0005", better="n0005", reasons="n0003 fits its scaler on 100% of it"),
        DecisionMade(k=k + 5, action=CompareNodes(stage="tuning", a="n0004", b="n0005")),
        LimitReached(stage="agenda", reason="limit of 30 model calls: 28 are made"),
    ]
    return fold_events((event, float(at)) for at, event in enumerate(log))


def test_what_happened_in_the_search_is_disclosed():
    text = render_incidents(eventful())
    assert typed(text) == []
    plain = re.sub(r"\\rec\{([^{}]*)\}", r"\1", text.replace(r"\allowbreak{}", ""))
    for said in ("improve, pruned: loss 9.1 at step 40", r"\item[agenda] limit of 30 model calls"):
        assert said in plain
    assert "gave the same values" not in plain
    brief = render_appendix(eventful(), CLAIMS)
    assert "loss 9.1 at step" in re.sub(r"\\rec\{([^{}]*)\}", r"\1", brief)
    assert typed(brief.replace("3pt", "")) == []
    ended = text.partition("Why the search of each stage ended:")[2]
    assert ended.index(r"\item[agenda] limit of") < ended.index(r"\item[preliminary]"), "limits are never cut"


def test_the_appendix_is_as_short_after_a_hundred_failures():
    state = eventful()
    broken = next(node for node in state.nodes.values() if node.status == "buggy")
    for k in range(200, 300):
        state.nodes[f"n{k:04d}"] = broken.model_copy(update={"id": f"n{k:04d}"})
    brief = render_appendix(state, CLAIMS)
    assert brief.count(r"\item[\rec{n02") <= MAX_ITEMS and "more in the disclosure" in brief
    assert all(mark_recorded(f"n{k:04d}") in render_incidents(state) for k in range(200, 300))


def test_code_that_ignores_its_seed_prints_no_interval_and_says_so():
    state = synthetic_paper.make_state()
    for node in [one for one in state.nodes.values() if one.kind == "replicate"]:
        same = {"seed": node.seed}
        first = next(one for one in state.nodes.values() if one.kind == "replicate" and one.parent == node.parent)
        attempt = node.attempts[0].model_copy(
            update={"measurements": tuple(one.model_copy(update=same) for one in first.measurements)}
        )
        state.nodes[node.id] = node.model_copy(update={"attempts": (attempt,)})
        state.search.test_measurements[node.id] = tuple(
            one.model_copy(update=same) for one in state.search.test_measurements[first.id]
        )
    claims = synthetic_paper.make_claims(state)
    assert claims and all(one.sd is None and one.n == 5 for one in claims)
    text = render_appendix(state, claims)
    assert "Nodes whose replicates gave the same values for every seed" in text
    main, *_ = build_result_tables(claims, synthetic_paper.PLAN, synthetic_paper.ABLATED)
    assert ".ci}" not in main.tabular
    assert typed(text.replace("3pt", "")) == []


def test_the_appendix_has_the_used_comparisons_as_estimates_without_a_verdict():
    found = [one for one in CLAIMS if isinstance(one, ClaimDifference)]
    text = render_appendix(STATE, CLAIMS, used=[one.key for one in found])
    table = text[text.index(r"\label{tab:record-comparisons}") :]
    assert table.count(".ci}") == table.count(".mean}") == len(found)
    assert "The interval covers seeds only for ece on digits, ece on wine: its values were not computed" in table
    assert "exploratory" in table and "not corrected" in text and typed(table) == []
    used = render_appendix(STATE, CLAIMS, used={found[0].key})
    assert used.count(f"{found[0].key}.ci}}") == 1 and f"{found[0].key}.ci}}" not in render_appendix(STATE, CLAIMS)


def test_costs_are_printed_or_said_to_be_unknown():
    state = synthetic_paper.make_state()
    state.calls.usage_by_role = {
        "code": RoleUsage(calls=3, input_tokens=1200, output_tokens=90, usd=0.5, unpriced=1),
        "write": RoleUsage(calls=1, unpriced=1),
    }
    text = render_appendix(state, [])
    assert r"for \rec{0.50} US dollars and \rec{2} calls of unknown price" in text and "caches" not in text
    assert "interrupted, or that failed" not in text
    state.calls.lost_costs = {3: Cost(usd=0.25), 7: Cost(usd=1.0)}
    assert r"may have cost up to \rec{1.25} US dollars more" in render_appendix(state, [])
    state.calls.usage_by_role["code"].cached_tokens = 800
    assert r"(\rec{800} of them from the providers' caches)" in render_appendix(state, [])


def test_an_appendix_of_an_empty_run_says_so():
    state = RunState()
    state.search.data_plan = STATE.search.plan
    text = render_appendix(state, [])
    assert "No experiment was run" in text and "Nothing was measured" in text


def test_the_checklist_is_answered_from_the_record_and_left_open_where_it_cannot_tell():
    text = render_appendix(STATE, CLAIMS, checklist=True)
    assert text.count(r"\item[") - render_appendix(STATE, CLAIMS).count(r"\item[") == 16
    assert text.count(r"\textbf{Open.}") == 4 and "checklist" not in render_appendix(STATE, CLAIMS)
    assert r"\item[Statistical significance] \textbf{Yes.}" in text and typed(text.replace("3pt", "")) == []


def test_data_behind_the_paper_is_in_full_and_every_column_is_told():
    tables = {one.name: one for one in build_supplement_tables(STATE, CLAIMS)}
    made = format_files(tables.values())
    read = {name: list(csv.DictReader(io.StringIO(made[f"supplement/{name}.csv"]))) for name in tables}
    assert [float(one["value"]) for one in read["replicates"]] == [
        v for c in CLAIMS if not isinstance(c, ClaimDifference) for v in c.values
    ]
    assert len(read["comparisons"]) == sum(isinstance(one, ClaimDifference) for one in CLAIMS)
    told = made["supplement/README.md"]
    assert all(
        meaning and f"| {column} | {meaning} |" in told
        for one in tables.values()
        for column, meaning in ((column.title, column.meaning) for column in one.columns)
    )


def test_no_text_of_a_sheet_is_a_formula_of_a_spreadsheet():
    rows = [["=HYPERLINK(1)", "-2+3+cmd|x", "@SUM(A1)", "-0.1 0.2", "+1e-3", -0.5, "a = b"]]
    (line,) = csv.reader(Table.of("abcdefg", rows).to_csv().splitlines()[1:])
    assert line == ["'=HYPERLINK(1)", "'-2+3+cmd|x", "'@SUM(A1)", "-0.1 0.2", "+1e-3", "-0.5", "a = b"]


def test_the_library_that_ships_is_verified():
    entries = read_verified_entries(synthetic_paper.LIBRARY)
    assert 11 <= len(entries) == len(parse_bibtex(synthetic_paper.LIBRARY.read_text()))
    muller = to_reference(next(one for one in entries if one.key == "muller2019when"))
    assert (muller.authors.split(";")[0], muller.year, muller.abstract) == ("Müller, Rafael", "2019", "")
    written = format_bibliography(
        [entries[0].with_fields(abstract="We ask."), *entries[1:]], ["kingma2015adam", "guo2017calibration", "unknown"]
    )
    assert [one.key for one in parse_bibtex(written)] == ["guo2017calibration", "kingma2015adam"]
    assert "verified" not in written and "We ask" not in written
    [preprint] = parse_bibtex(format_bibliography(entries, ["zaremba2014learning"]))
    assert preprint.fields["howpublished"] == "arXiv:1410.4615" and "note" not in preprint.fields


def test_an_entry_that_nobody_verified_is_not_offered(tmp_path: Path):
    library = tmp_path / "a.bib"
    library.write_text(
        '@article{a1, title="T", verified = {}}\n@book{b, title={{N}ested {x}}, verified={isbn:1}, year=2001}'
    )
    assert read_verified_entries(library) == ()


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("@article{a, title = {open", "line 1: an entry cannot be parsed"),
        ("@article{a b, title={x}}", "'a b'"),
        ("@misc{a, x={1}}\n@misc{a, x={1}}", "line 2: the key 'a' is used twice"),
    ],
)
def test_a_library_that_cannot_be_read_says_why(tmp_path: Path, text: str, sign: str):
    (tmp_path / "a.bib").write_text(text)
    with pytest.raises(LibraryError, match=sign):
        read_verified_entries(tmp_path / "a.bib")
    with pytest.raises(LibraryError, match="cannot read"):
        read_verified_entries(tmp_path / "none.bib")


def test_text_of_the_record_is_escaped():
    assert escape("a_b & 5% {x} \\y") == r"a\_\allowbreak{}b \& 5\% \{x\} \textbackslash{}y"
    assert mark_recorded("seed 12 ok") == r"seed \rec{12} ok"


def test_characters_are_known_by_the_class_or_replaced_and_reported():
    styles = load_template().styles.values()
    fitted, lines = replace_unprintable({"a": "é ± – “α” e\u0301 中\x07\u200d"}, styles)
    assert fitted["a"].startswith("é ± – “α” é ") and fitted["a"].endswith(r"\unknowncharacter{}\unknowncharacter{}")
    assert len(lines) == 2 and any("U+4E2D" in one for one in lines)


@pytest.mark.slow
@pytest.mark.asyncio
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="TeX is not installed")
async def test_any_name_of_the_record_compiles_and_is_printed_as_text(tmp_path: Path) -> None:
    names = [f"a{chr(code)}b" for code in (*range(0x250), *range(0x2000, 0x2070), 0xFEFF, 0x202E, 0x1F600)]
    names += ["^^5cinput{/etc/hostname}", "\\write18{id}", "\\end{document}", "%x", "e\u0301\u0302", "{", "x" * 300]
    lines = "\\par\n".join(f"{function(name)}" for name in names for function in (escape, mark_recorded))
    (tmp_path / "a.tex").write_text(
        "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{times,hyperref}\n"
        "\\newcommand{\\rec}[1]{#1}\\newcommand{\\unknowncharacter}{?}\n"
        f"\\begin{{document}}{replace_unprintable({'': lines}, [])[0]['']}\\end{{document}}\n"
    )
    ran = await run_program(latex_command("a"), tmp_path, timeout=600)
    assert ran.code == 0, ran.output[-2000:]


def test_a_log_is_read():
    log = (
        "LaTeX Warning: Reference `fig:x' on page 1 undefined on input line 3.\n"
        "Overfull \\hbox (31.4pt too wide) in paragraph at lines 4--5\n"
        "Overfull \\hbox (3.1pt too wide) in paragraph\n"
    )
    assert [(str(one), one.blocks) for one in parse_log(log)] == [
        ("reference 'fig:x' is undefined and prints ??", True),
        ("a line is too wide by 31 pt, at lines 4--5: reword it", False),
    ]


def test_findings_name_the_section_and_those_of_the_appendix_say_so():
    source = '\\begin{abstract}\nWe ask.\n\\end{abstract}\n\n\\section{Results}\n\nIt is "so".\n\n\\section{End}\n'
    assert find_section(source, 2) == "abstract" and find_section(source, 9) == "section 'End'"
    log = "Overfull \\hbox (31.4pt too wide) in paragraph at lines 7--8\n"
    (wide,) = parse_log(log, source)
    assert wide.by_edit and str(wide) == "section 'Results': a line is too wide by 31 pt, at lines 7--8: reword it"
    (generated,) = parse_log(f"(./appendix.tex {log}", source)
    assert not generated.by_edit and str(generated).startswith("the appendix: a line is too wide")


def test_words_that_a_text_quotes_do_not_hold_up_its_release():
    """A finding quotes the draft: here the name of a section that says what a finding about the length would say."""
    source = "\\section{Where the limit is reached, TeX stopped}\n\nSo.\n"
    (quoted,) = parse_log("Overfull \\hbox (31.4pt too wide) in paragraph at lines 3--3\n", source)
    assert "the limit is" in str(quoted) and not quoted.blocks
    found = PaperAssessment(Path("paper.pdf"), 3.0, (quoted,))
    assert list_obstacles(found) == ()
    stopped = PaperFinding(text="a sentence in words of its own", blocks=True)
    assert list_obstacles(PaperAssessment(None, 3.0, (stopped, quoted))) == (str(stopped),)


def test_a_figure_outside_of_the_text_has_a_caption_that_may_be_printed(tmp_path: Path) -> None:
    state = synthetic_paper.make_state()
    placed = tuple(
        FinalFigure(name=name, description=text, placement="appendix")
        for name, text in (("plain", "The loss over training."), ("typed", "The loss fell by 97 %."))
    )
    state.paper.figures = FiguresDrawn(figures={}, descriptions={}, arrays=(), placed=placed)
    draft = PaperDraft(title="T", abstract="A.", sections=(Section(title="Introduction", body="We ask."),))
    parts = build_paper_parts(PaperContext(state, RunFolder(tmp_path), PaperSettings()), draft)
    assert parts.draft.captions == {"plain": "The loss over training.", "typed": CAPTION_WITHOUT_DESCRIPTION}


def test_a_long_table_of_values_is_meant_for_the_appendix_if_a_figure_shows_the_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_placed() -> list[str]:
        return [one.name for one in PaperContext(state, RunFolder(tmp_path), PaperSettings()).placed_tables]

    state = synthetic_paper.make_state()
    monkeypatch.setattr(paper_context, "MAX_ROWS_IN_TEXT", 2)
    assert "main" in list_placed(), "no figure shows them"
    figure = FinalFigure(name="decided", description="Differences.", placement="main")
    state.paper.figures = FiguresDrawn(figures={}, descriptions={}, arrays=(), placed=(figure,))
    assert "main" not in list_placed()
    monkeypatch.undo()
    assert "main" in list_placed(), "a short one stays"
