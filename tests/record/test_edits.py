"""Edits make of a parent's files what they were made from; each one that misses is told with what is nearest."""

from __future__ import annotations

import pytest

from labwright.record.source_tree import SourceEdit, SourceTreeError, WholeFile, apply_edits, replace_text

PARENT = {"experiment.py": "import lab\n\nRATE = 0.1\nEPOCHS = 20\n\n\ndef train():\n    return RATE\n\n\ntrain()\n"}


def told(*edits: tuple[str, str], path: str = "experiment.py") -> str:
    with pytest.raises(SourceTreeError) as caught:
        apply_edits(PARENT, edits=[SourceEdit(path=path, find=find, replace=replace) for find, replace in edits])
    return str(caught.value)


def test_a_miss_is_told_with_the_nearest_lines_and_their_numbers() -> None:
    said = told(("RATE  = 0.1\nEPOCHS = 30", "x"), ("import lab", "import lab"), ("def trains():\n", ""))
    assert said.splitlines() == [
        "edit 1 of experiment.py: find does not occur ('RATE  = 0.1'); the nearest lines are",
        "    3| RATE = 0.1",
        "    4| EPOCHS = 20",
        "edit 3 of experiment.py: find does not occur ('def trains():'); the nearest lines are",
        "    7| def train():",
        "nothing was changed: give the whole answer again with these errors fixed",
    ]


def test_what_occurs_twice_is_told_with_its_lines() -> None:
    assert "find occurs 2 times, at lines 3, 8: quote more" in told(("RATE", "R"))
    assert "find occurs 2 times, at lines 7, 11" in told(("train()", "x"))
    with pytest.raises(SourceTreeError, match="find occurs 2 times, at lines 1, 2"):
        replace_text("x\nx\nx\n", [SourceEdit(path="", find="x\nx\n", replace="")], "a.py")
    assert "find is empty" in told(("", "x"))


def test_a_large_file_is_searched_in_bounded_time() -> None:
    text = "".join(f"value_{k} = {k} * scale + offset\n" for k in range(25_000))
    with pytest.raises(SourceTreeError, match="the nearest lines are\n"):
        replace_text(text, [SourceEdit(path="", find="value_12 = 12 * scale - offset\n" * 40, replace="")], "a.py")


def test_edits_of_what_is_not_there_or_given_whole_are_refused() -> None:
    assert "there is no file 'arms/a.py'; there are experiment.py" in told(("x", "y"), path="arms/a.py")
    whole = WholeFile(path="experiment.py", text="pass\n")
    edit = SourceEdit(path="experiment.py", find="import lab", replace="")
    with pytest.raises(SourceTreeError, match="given both as a whole file and as an edit"):
        apply_edits(PARENT, files=[whole], edits=[edit])
    with pytest.raises(SourceTreeError, match="given twice"):
        apply_edits(PARENT, files=[whole, whole])
    made = apply_edits(PARENT, files=[WholeFile(path="arms/a.py", text="A = 1\n")], removed=["experiment.py"])
    assert made == {"arms/a.py": "A = 1\n"} and apply_edits(PARENT, files=[whole]) == {"experiment.py": "pass\n"}
