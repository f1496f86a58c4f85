"""Score a finished paper with a rubric: every score has a reason and a checked quote.

`judge_case` makes one judgement of a `JudgeCase`, i.e. a paper that the guards have cleaned, a rubric and attachments,
screened for prompt injection by `screen_case`. `ask_panel` asks several judges. docs/judge.md describes how far
judgements can be trusted.
"""

from labwright.review.judge.attachments import (
    build_code_exhibit,
    collect_record_facts,
    read_file_exhibit,
    read_results_exhibit,
    render_pages,
)
from labwright.review.judge.guards import GuardedPaper, guard_paper
from labwright.review.judge.injection_screening import screen_case
from labwright.review.judge.judge import (
    JudgeCase,
    PanelMember,
    ask_panel,
    build_judge_inputs,
    build_judgement,
    drop_pictures,
    find_family_warnings,
    find_rubric,
    judge_case,
    load_bundled_rubrics,
    read_rubric,
)
from labwright.review.judge.paper_reader import JudgeError, Paper, PaperError, RubricError, read_paper

__all__ = [
    "GuardedPaper",
    "JudgeCase",
    "JudgeError",
    "PanelMember",
    "Paper",
    "PaperError",
    "RubricError",
    "ask_panel",
    "build_code_exhibit",
    "build_judge_inputs",
    "build_judgement",
    "collect_record_facts",
    "drop_pictures",
    "find_family_warnings",
    "find_rubric",
    "guard_paper",
    "judge_case",
    "load_bundled_rubrics",
    "read_file_exhibit",
    "read_paper",
    "read_results_exhibit",
    "read_rubric",
    "render_pages",
    "screen_case",
]
