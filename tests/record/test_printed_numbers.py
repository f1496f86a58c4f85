"""What a paper prints is made by the formatters of `record.result_macros` alone, and no text of code states
anything.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.record.result_macros import (
    PrintedValue,
    ResultMacroUse,
    find_macro_uses,
    format_key,
    parse_results,
    print_name,
    print_setting,
    render_results,
    to_plain_text,
)

ROOT = Path(__file__).parents[2]
HOSTILE = (
    r"\input{/etc/hostname}",
    r"\write18{id}",
    r"Adam\gdef\result##1{ ninety-nine}",
    r"\csname def\endcsname",
    r"\catcode`\%=12",
    "^^5cinput",
    "a % comment",
    "}{",
    "$x$ and $y$",
    "~",
    "#1",
    "\u202e",
    "\x00\x1b[2J",
    "\u00e9 \u6f22",
)


@pytest.mark.parametrize(
    "text",
    [
        "an accuracy of 99.9 percent on the test data",
        "adam2",
        "ninety_nine",
        "XL",
        "half of it",
        r"Adam\gdef\result##1{ ninety-nine percent}",
        "\u0663",
        "x" * 41,
        "  ",
    ],
)
def test_a_text_that_states_something_is_not_printed(text: str) -> None:
    assert print_setting(text) is None


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("adam_w", "adam_w"),
        ("label smoothing", "label smoothing"),
        ("0.1, 1e-05", "0.1, 10-5"),
        (-0.5, "-0.5"),
        (1e-5, "10-5"),
        (float("nan"), None),
        ("50%", None),
    ],
)
def test_names_and_numbers_of_code_are_printed_as_they_are(value: str | float, read: str | None) -> None:
    found = print_setting(value)
    assert (None if found is None else to_plain_text(found)) == read


@pytest.mark.slow
def test_nobody_else_makes_a_printed_value() -> None:
    with pytest.raises(TypeError, match=r"record\.result_macros"):
        PrintedValue("99.9", None)
    made: set[str] = set()
    for top in ROOT.iterdir():
        if top.name.startswith(".") or top.name == "tests":
            continue
        for path in top.rglob("*.py"):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if "PrintedValue" in text else ():
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PrintedValue":
                    made.add(str(path.relative_to(ROOT)))
    assert made == {"record/result_macros.py"}


@given(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=200)))
def test_whatever_a_name_is_it_is_one_line_of_text_to_tex(text: str) -> None:
    value = print_name(text)
    commands = set(re.findall(r"\\([A-Za-z]+|.)", value.tex))
    assert commands <= {"textasciitilde", "textasciicircum", *"&%#_${}"}
    bare = re.sub(r"\\(?:[A-Za-z]+|.)", "", value.tex)
    assert re.sub(r"\{\}", "", bare) == re.sub(r"[{}]", "", bare) and not re.search(r"[%#&~^$]", bare)
    use = ResultMacroUse("setup", "data.x.title")
    assert parse_results(render_results({use: value})) == {use: value.tex}


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=80)), min_size=4, max_size=4))
def test_whatever_things_are_called_their_key_is_plain(parts: list[str]) -> None:
    key = format_key(*parts)
    assert [use.key for use in find_macro_uses(rf"\result{{{key}}}")] == [key.strip()]
    assert render_results({ResultMacroUse("result", key): print_setting(1)}).count("value{") == 1
    assert format_key("test", "digits", "log_loss", "method@noise20") == "test/digits/log_loss/method@noise20"
