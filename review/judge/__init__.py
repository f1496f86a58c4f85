"""Score a finished paper with a rubric: every score has a reason and a checked quote.

`judge_case` makes one judgement of a `JudgeCase`, i.e. a paper that the guards have cleaned, a rubric and attachments,
screened for prompt injection by `screen_case`. `ask_panel` asks several judges. docs/judge.md describes how far
judgements can be trusted.
"""
