"""Static analysis of a repository: commands, options, edits of its code."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.models.offline.repository_author import find_function, return_argument, return_zeros
from labwright.record.schema.repository import build_edit
from labwright.sandbox.repository.git_mirror import apply_edit
from labwright.stages.repository.patch_scope import index_code
from labwright.stages.repository.program_facts import (
    find_keys,
    find_missing_script,
    find_options,
    find_seed_args,
    find_unknown_args,
)
from tests.repositories import FILES

HYDRA = {
    "run.py": "import hydra\n\n\n@hydra.main(config_path='conf', config_name='config')\ndef main(cfg):\n    pass\n\n\n"
    "if __name__ == '__main__':\n    main()\n",
    "conf/config.yaml": "defaults:\n  - model: gated\n  - schedule: cosine\nseed: 1\nepochs: 3\n",
    "conf/model/gated.yaml": "use_gate: true\nwidth: 8\n",
    "conf/model/plain.yaml": "use_gate: false\n",
    "conf/schedule/cosine.yaml": "warmup: 2\n",
    "conf/schedule/none.yaml": "{}\n",
}


def test_options_and_keys_that_can_be_turned_off() -> None:
    off = {
        one.dest: one.off_args
        for one in find_options(
            index_code(
                {
                    "a.py": textwrap.dedent("""
        import argparse
        p = argparse.ArgumentParser()
        p.add_argument("--no-gate", dest="gate", action="store_false")
        p.add_argument("--mix", action=argparse.BooleanOptionalAction, default=True)
        p.add_argument("--no_norm", action="store_true")
        p.add_argument("--fast", action="store_true")
        p.add_argument("--skip", type=bool, default=True)
        p.add_argument("--rate", type=float, default=0.1)
    """)
                }
            )
        )
    }
    assert off == {
        "gate": ("--no-gate",),
        "mix": ("--no-mix",),
        "no_norm": ("--no_norm",),
        "fast": (),
        "skip": ("--skip", "False"),
        "rate": (),
    }
    code = index_code(HYDRA)
    assert {one.name: one.value for one in find_keys(("python", "run.py"), code)} == {
        "seed": 1,
        "epochs": 3,
        "model.use_gate": True,
        "model.width": 8,
        "schedule.warmup": 2,
    }


# --- edits ------------------------------------------------------------------------------------------------------------

LINES = st.lists(st.sampled_from(["a = 1\n", "b = 2\n", "c = 3\n", "\n", "a = 1 \n"]), min_size=1, max_size=12)


@given(before=LINES, after=LINES)
def test_an_edit_makes_exactly_the_other_text(before: list[str], after: list[str]) -> None:
    old, new = "".join(before), "".join(after)
    if old != new:
        assert apply_edit(old, build_edit("x.py", old, new)) == new


MODULE = '''
import functools


@functools.lru_cache
def plain(x, scale=2):
    """Says something."""
    if x > 3:
        return x
    return (x *
            scale)


class Layer:
    def forward(self, x, y):
        def inner(z):
            return z
        return inner(x) + y


def one_line(x): return x + 1


def both(x):
    return x, {"a": [x]}


def stream(x):
    yield x


def nothing(x):
    print(x)
'''


def test_functions_give_back_zeros_or_their_argument() -> None:
    text = MODULE.lstrip()
    space: dict[str, object] = {}

    def zero(symbol: str) -> str | None:
        function = find_function(text, symbol)
        assert function is not None
        return return_zeros(text, function)

    def give_back(symbol: str, parameter: str) -> str:
        function = find_function(text, symbol)
        assert function is not None
        return return_argument(text, function, parameter)

    exec(zero("plain") or "", space)
    assert space["plain"](5) == 0 and space["plain"](1) == 0  # pyrefly: ignore
    exec(zero("Layer.forward") or "", space)
    assert space["Layer"]().forward([1, 2], [3]) == [0, 0, 0]  # pyrefly: ignore
    exec(zero("both") or "", space)
    assert space["both"](2) == (0, {"a": [0]})  # pyrefly: ignore
    exec(give_back("Layer.forward", "y"), space)
    assert space["Layer"]().forward(1, 7) == 7  # pyrefly: ignore
    exec(give_back("plain", "scale"), space)
    assert space["plain"](5) == 2 and space["plain"].__doc__ == "Says something."  # pyrefly: ignore
    exec(give_back("one_line", "x"), space)
    assert space["one_line"](4) == 4  # pyrefly: ignore
    assert zero("stream") is None and zero("nothing") is None and find_function(text, "Layer.backward") is None


@pytest.mark.parametrize(
    ("argv", "lacking"),
    [
        (("python", "nope.py", "--seed", "{seed}"), "nope.py"),
        (("python3.11", "-u", "lib/nope.py"), "lib/nope.py"),
        (("python", "train.py"), ""),
    ],
)
def test_a_script_that_a_command_names_and_the_repository_lacks(argv: tuple[str, ...], lacking: str) -> None:
    assert find_missing_script(argv, FILES) == lacking


TRAIN = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n')\nif __name__ == '__main__':\n    pass\n"


def test_hydra_is_judged_by_what_the_script_of_a_command_uses() -> None:
    code = index_code(HYDRA | {"train.py": TRAIN})
    assert find_seed_args(code, ("python", "run.py")) == ("seed={seed}",)
    assert find_unknown_args(("--m", "3"), ("python", "train.py"), code).startswith("has no option --m")
    assert not find_unknown_args(("--m", "3"), ("python", "run.py"), code)
    assert find_keys(("python", "run.py"), code) and not find_keys(("python", "train.py"), code)
