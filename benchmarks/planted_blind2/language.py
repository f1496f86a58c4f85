"""The language that the kinds are written in, and the making of whole programs from it.

`«a¦b¦c»` is one of its options, `$word` the entry of that name in `pieces.WORDS`. A choice depends on the key of the
program and on the text of its options alone: the same options fall the same way throughout a program and in its twin,
so that the two differ in what makes the one dishonest, and hardly elsewhere. Above a line of `=====` stand definitions,
below it the steps. A `~` at the end of a line joins the next one to it, without that one's indent.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from random import Random

from benchmarks.planted_blind2.pieces import CONSTANTS, IMPORTS, TITLES, WORDS

INNERMOST = re.compile(r"«([^«»]*)»")
JOINED = re.compile(r"~\n *")
BAR = "=====\n"
HEADING = "«¦¦# settings¦# --- settings ---¦# what can be turned»"
DEFINED = {"hand": "define_hand", "improve": "define_improve", "accuracy": "define_accuracy", "fit": "define_learner",
           "proba": "define_learner"}


@dataclass(frozen=True)
class Kind:
    """`wrong` says what is dishonest about the one, `right` why the other is honest. `stops`: the planted one fails.

    `closest`: where there is a second twin, why it is honest, and the twin; half of the keys get it.
    """

    name: str
    wrong: str
    planted: str
    right: str
    twin: str
    closest: tuple[str, str] | None = None
    titles: str = TITLES
    stops: bool = False

    def honest(self, key: str) -> tuple[str, str]:
        """Why the twin of this key is honest, and its template."""
        if self.closest is not None and Random(f"{key}/twin").random() < 0.5:
            return self.closest
        return self.right, self.twin


def spelled(text: str, key: str) -> str:
    """The text with every choice made. Words are filled in first; a word alone on its line keeps that line's indent."""
    text = text.strip("\n")
    while True:
        before = text
        text = re.sub(r"(?m)^( +)\$([A-Za-z_]+)$", lambda found: textwrap.indent(WORDS[found[2]], found[1]), text)
        text = re.sub(r"\$([A-Za-z_]+)", lambda found: WORDS[found[1]], text)
        text = INNERMOST.sub(lambda found: Random(f"{key}/{found[1]}").choice(found[1].split("¦")), text)
        if text == before:
            return text


def program(template: str, key: str, titles: str = TITLES) -> str:
    """An experiment.py: docstring, imports, constants, definitions in some order, then the steps in some shape."""
    own, body = textwrap.dedent(JOINED.sub("", template)).split(BAR)
    constants, definitions = _parted(spelled(own, key))
    body = spelled(body, key)
    definitions += [spelled(WORDS[name], key) for name in _needed(template)]
    Random(f"{key}/order").shuffle(definitions)
    body = _wrapped(_shaped(_without_idle_draws(body), key))
    whole = "\n".join([*definitions, body])
    known = {line.split(" =")[0] for line in constants}
    constants += [spelled(f"{name} = {value}", key) for name, value in CONSTANTS.items()
                  if name not in known and re.search(rf"\b{name}\b", whole)]
    Random(f"{key}/constants").shuffle(constants)
    settings = "\n".join([*spelled(HEADING, key).splitlines(), *constants])
    parts = [part.strip() for part in (settings, *definitions, body)]
    return f'"""{spelled(titles, key)}"""\n\n{_imports(whole)}\n\n' + "\n\n\n".join(filter(None, parts)) + "\n"


def _needed(text: str) -> list[str]:
    """The shared definitions that a program calls, by the entries of `WORDS` that define them."""
    text = text + WORDS["basis"] if "$basis" in text else text
    return sorted({definition for word, definition in DEFINED.items() if f"${word}(" in text})


def _parted(own: str) -> tuple[list[str], list[str]]:
    """The upper-case constants of the definitions, and the definitions that are left."""
    lines = own.split("\n")
    constants = [line for line in lines if re.match(r"[A-Z][A-Z_]* = ", line)]
    left = "\n".join(line for line in lines if line not in constants).strip()
    return constants, [part for part in re.split(r"\n\n\n+", left) if part.strip()]


def _without_idle_draws(body: str) -> str:
    """The steps without a generator that nobody draws from."""
    made = re.search(r"(?m)^(\w+) = np\.random\.default_rng\(lab\.seed\)\n", body)
    idle = made is not None and len(re.findall(rf"\b{made[1]}\b", body.replace("np.random", ""))) == 1
    return body.replace(made[0], "", 1) if made is not None and idle else body


def _wrapped(body: str) -> str:
    """Long calls of `lab` on two lines."""
    long = re.compile(r"(?m)^(?=.{100})( *)(lab\.\w+\(.*?,) ((?:condition|probabilities)=.*)$")
    return long.sub(lambda found: f"{found[1]}{found[2]}\n{found[1]}    {found[3]}", body)


def _imports(whole: str) -> str:
    lines = [line for line, sign in IMPORTS if re.search(sign, whole)]
    return "\n".join(["import lab", *lines])


def _shaped(body: str, key: str) -> str:
    """The steps as they are, in a function, in a loop over datasets, or in a class."""
    shape = Random(f"{key}/shape").choice(["flat", "main", "main", "loop", "class"])
    inside = textwrap.indent(body, "    ")
    if shape == "main":
        name = spelled("«main¦run¦experiment¦study¦go»", key)
        guard = spelled(f'«{name}()¦if __name__ == "__main__":\n    {name}()»', key)
        return f"def {name}():\n    lab.seed_everything()\n{inside}\n\n\n{guard}"
    if shape == "loop" and "lab.data(DATASET)" in body:
        looped = inside.replace("lab.data(DATASET)", "lab.data(name)")
        calls = "for chosen in [DATASET]:\n    one_dataset(chosen)"
        return f"def one_dataset(name):\n{looped}\n\n\nlab.seed_everything()\n{calls}"
    if shape == "class":
        name = spelled("«Study¦Experiment¦Comparison¦Trial»", key)
        inside = textwrap.indent(inside, "    ")
        return f"class {name}:\n    def run(self):\n{inside}\n\n\nlab.seed_everything()\n{name}().run()"
    return f"lab.seed_everything()\n{body}"
