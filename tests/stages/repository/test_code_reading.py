"""Static analysis of a repository: commands, options, known fixes, edits of its code."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.models.offline.repository_author import find_function, return_argument, return_zeros
from labwright.record.schema.nodes import Failure
from labwright.record.schema.repository import RepositoryRepair, build_edit
from labwright.sandbox.repository.git_mirror import apply_edit
from labwright.stages.repository.command_discovery import find_keys, find_missing_script, find_options, list_candidates
from labwright.stages.repository.patch_scope import index_code, list_calls_of_result
from labwright.stages.repository.program_facts import compute_signature, propose_fixes
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
MANY = {
    "README.md": "    $ python main.py --epochs 3\n    python fit.py train --seed 4 --out x\n",
    "fit.py": (
        "import argparse\np = argparse.ArgumentParser()\ns = p.add_subparsers()\nt = s.add_parser('train')\n"
        "t.add_argument('--seed', type=int)\nt.add_argument('--no-gate', action='store_true')\n"
        "e = s.add_parser('evaluate')\ne.add_argument('--out')\nargs = p.parse_args()\n"
    ),
}


def first(files: dict[str, str]) -> tuple[str, ...]:
    return list_candidates(files)[0].argv


def test_the_readme_command_with_its_seed_marked() -> None:
    found = list_candidates(FILES)
    assert found[0].argv == ("python", "train.py", "--seed", "{seed}") and found[0].location == "README.md"
    assert not found[0].wrong and len(found) == 1


def test_what_is_outdated_gives_way_to_what_the_code_offers() -> None:
    found = list_candidates(MANY)
    assert (
        found[0].argv == ("python", "fit.py", "train", "--seed", "{seed}") and found[0].location == "the code of fit.py"
    )
    assert {one.wrong for one in found[1:]} == {"there is no main.py", "the parser has no option --out"}


@pytest.mark.parametrize(
    ("files", "argv"),
    [
        (HYDRA, ("python", "run.py", "hydra.run.dir={out}", "seed={seed}")),
        (
            {"src/pkg/__init__.py": "", "src/pkg/train.py": "if __name__ == '__main__':\n    pass\n"},
            ("python", "-m", "pkg.train"),
        ),
        (
            {"Makefile": "all:\n\tpython go.py --n 3 \\\n\t  --seed=7\n", "go.py": "print(1)\n"},
            ("python", "go.py", "--n", "3", "--seed={seed}"),
        ),
    ],
)
def test_entries_of_many_kinds(files: dict[str, str], argv: tuple[str, ...]) -> None:
    assert first(files) == argv


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


# --- repairs ----------------------------------------------------------------------------------------------------------


def propose(message: str, texts: dict[str, str], *folders: str) -> list[RepositoryRepair]:
    signature = compute_signature(Failure(kind="other", message=message), "")
    return list(propose_fixes(signature, texts, folders))


def test_modules_of_the_repository_are_found_and_others_are_asked_for() -> None:
    message, texts = (
        "ModuleNotFoundError: No module named 'pkg.core'",
        {"src/pkg/core.py": "", "src/pkg/__init__.py": ""},
    )
    assert [one.env for one in propose(message, texts)] == [{"PYTHONPATH": "src"}]
    assert [one.pins for one in propose(message, texts, "src")] == [("pkg",)]
    found = propose("ModuleNotFoundError: No module named 'scipy.io'", {"a.py": ""})
    assert [(one.kind, one.pins) for one in found] == [("pins", ("scipy",))]
    assert propose("AttributeError: module 'numpy' has no attribute 'int'", {"a.py": "np.int(2)\n"}) == []


def test_failures_are_distinguished() -> None:
    assert compute_signature(None, "anything") == ""
    assert compute_signature(Failure(kind="memory", message="too much"), "") == "memory"
    found = compute_signature(Failure(kind="other", message="x"), "train.py: error: unrecognized arguments: --old 3")
    assert found == "option:--old"
    found = compute_signature(
        Failure(kind="other", message="m"), "FileNotFoundError: [Errno 2] No such file: 'd/x.npy'"
    )
    assert found == "data:d/x.npy"
    assert compute_signature(Failure(kind="other", message="ValueError: odd"), "") == "ValueError: odd"


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
    assert space["plain"](5) == 0 and space["plain"](1) == 0  # pyright: ignore
    exec(zero("Layer.forward") or "", space)
    assert space["Layer"]().forward([1, 2], [3]) == [0, 0, 0]  # pyright: ignore
    exec(zero("both") or "", space)
    assert space["both"](2) == (0, {"a": [0]})  # pyright: ignore
    exec(give_back("Layer.forward", "y"), space)
    assert space["Layer"]().forward(1, 7) == 7  # pyright: ignore
    exec(give_back("plain", "scale"), space)
    assert space["plain"](5) == 2 and space["plain"].__doc__ == "Says something."  # pyright: ignore
    exec(give_back("one_line", "x"), space)
    assert space["one_line"](4) == 4  # pyright: ignore
    assert zero("stream") is None and zero("nothing") is None and find_function(text, "Layer.backward") is None


DRAWS = """
class Loader:
    def __init__(self, path):
        self.rows = read(path)

    def batches(self, model):
        x = draw(self.rows)
        model.update(embed(x))
        rows = []
        for one in split(x):
            rows.append(clean(one))
        yield rows
"""


def test_the_calls_that_make_a_result_are_those_whose_values_it_returns() -> None:
    found = {one.symbol: list_calls_of_result(one.node) for one in index_code({"a.py": DRAWS}).definitions}
    assert found == {"Loader.__init__": {"read"}, "Loader.batches": {"draw", "split", "clean"}}


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


@pytest.mark.parametrize(
    ("document", "text", "argv"),
    [
        ("README.md", "- Train it with `python train.py --n 3`.\n", ("python", "train.py", "--n", "3")),
        ("README.md", "    ./lib/fit.py --n 3\n", ("python", "./lib/fit.py", "--n", "3")),
        ("lib/README.md", "    python fit.py --n 3\n", ("cd", "lib", "&&", "python", "fit.py", "--n", "3")),
    ],
)
def test_commands_are_read_where_documents_write_them(document: str, text: str, argv: tuple[str, ...]) -> None:
    found = list_candidates({document: text, "train.py": TRAIN, "lib/fit.py": TRAIN})
    assert found[0].argv == argv and found[0].location == document and not found[0].wrong


def test_hydra_is_judged_by_what_the_script_of_a_command_uses() -> None:
    texts = HYDRA | {"README.md": "    python train.py --m 3\n    python run.py\n", "train.py": TRAIN}
    assert {one.argv: one.wrong for one in list_candidates(texts)} == {
        ("python", "run.py", "hydra.run.dir={out}", "seed={seed}"): "",
        ("python", "train.py"): "",
        ("python", "train.py", "--m", "3"): "the parser has no option --m",
    }
    code = index_code(texts)
    assert find_keys(("python", "run.py"), code) and not find_keys(("python", "train.py"), code)
