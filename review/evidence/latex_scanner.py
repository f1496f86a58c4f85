"""Scan LaTeX written by a model for the text that it prints, the keys that it refers to, and forbidden constructs.

The scanner reads TeX tokens rather than matching regular expressions, so it finds a number wherever it would be
printed, math included. It refuses every command that is not in `review.evidence.latex_scanner`. It expands
no macros, so commands that could print unseen text are not allowed.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from labwright.review.evidence.violations import Kind

# The LaTeX commands and environments that a model may use; all others are refused. This is an allow-list because TeX
# is a programming language that can read and write files, print any character without typing it, and redefine its own
# commands.

VALUE_COMMANDS = frozenset({"result", "setup"})
CITE_COMMANDS = frozenset({"cite", "citep", "citet", "citealp", "citealt", "citeauthor"})
FLOAT_COMMANDS = frozenset({"paperfigure", "papertable"})
KEYED_COMMANDS = VALUE_COMMANDS | CITE_COMMANDS | FLOAT_COMMANDS | {"ref", "rec", "begin", "end"}
"""Commands whose argument is a key that is not printed."""

INLINE_COMMANDS = frozenset(
    "emph textbf textit texttt textsc textrm textsf text mbox "
    "ldots dots textendash textemdash textquoteleft textquoteright textquotedblleft textquotedblright "
    "textasciitilde textasciicircum textbackslash textless textgreater textbar textquotedbl allowbreak "
    "c v u H o O ss ae AE oe OE aa AA l L i j quad qquad noindent LaTeX TeX".split()
)
"""Text formatting, accented letters and spaces."""

BLOCK_COMMANDS = frozenset("item paragraph subsection subsubsection footnote notag nonumber".split())
"""Structure: refused in titles and captions."""

GREEK_COMMANDS = frozenset(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi varpi rho varrho "
    "sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
    "ell infty partial nabla hbar Re Im aleph".split()
)

MATH_COMMANDS = GREEK_COMMANDS | frozenset(
    "frac dfrac tfrac sqrt binom sum prod int log ln exp min max arg lim sup inf sin cos tan tanh det dim ker Pr gcd "
    "hat bar tilde vec dot ddot widehat widetilde overline underline underbrace overbrace stackrel "
    "mathrm mathbf mathcal mathbb mathit mathsf mathtt operatorname boldsymbol displaystyle textstyle "
    "left right big Big bigg Bigg bigl bigr Bigl Bigr middle mid "
    "cdot times pm mp div ast star circ bullet oplus otimes odot setminus "
    "le leq ge geq neq ne equiv approx sim simeq cong propto ll gg prec succ perp parallel "
    "to rightarrow leftarrow Rightarrow Leftarrow leftrightarrow Leftrightarrow mapsto longrightarrow implies iff "
    "in notin ni subset subseteq supset supseteq cup cap emptyset varnothing forall exists neg land lor wedge vee "
    "cdots vdots ddots prime top bot langle rangle lfloor rfloor lceil rceil lvert rvert lVert rVert vert Vert colon "
    "tfrac limits nolimits substack".split()
)

SYMBOL_COMMANDS = frozenset("%&#_${},;:! -/'\"`^~=.|")
r"""Control symbols such as `\%` and `\,`, and accents. The scanner handles `\\` and `\( \) \[ \]`."""

TEXT_ENVIRONMENTS = frozenset({"itemize", "enumerate", "description", "quote"})
MATH_ENVIRONMENTS = frozenset(
    "equation equation* align align* gather gather* aligned split cases matrix pmatrix bmatrix vmatrix".split()
)
ALIGNED_ENVIRONMENTS = MATH_ENVIRONMENTS - {"equation", "equation*"}
r"""Environments that use `&` and `\\` as separators."""


BLANK, KEY, CITE = "\x01", "\x00", "\x02"
"""Placeholders in `ScannedText.plain` for a command, a bound value and a citation."""

_KEY_PATTERN = re.compile(r"[A-Za-z0-9_.@~/:+,*\s-]+")
_FRACTION_COMMANDS = frozenset({"frac", "dfrac", "tfrac", "binom"})
_TEXT_COMMANDS_IN_MATH = frozenset({"text", "mbox", "textbf", "textit", "textrm", "textsf", "texttt", "emph"})


@dataclass(frozen=True)
class MacroUse:
    r"""A command with a key: `\result{k}`, `\citep{a,b}` (one use per key), `\paperfigure{f}`, `\ref{fig:f}`."""

    command: str
    key: str
    at: int
    depth: int
    """Number of enclosing groups, formulas and environments."""


@dataclass(frozen=True)
class LatexProblem:
    """LaTeX that no draft may contain, regardless of the evidence."""

    at: int
    kind: Kind
    fix: str


@dataclass
class ScannedText:
    """Result of a scan.

    `plain` has the length of the source: printed characters unchanged, commands and keys blanked.
    """

    source: str
    plain: str = ""
    math: bytearray = field(default_factory=bytearray)
    script: bytearray = field(default_factory=bytearray)
    """Nonzero for characters in an index, an exponent or a fraction."""
    uses: list[MacroUse] = field(default_factory=list[MacroUse])
    problems: list[LatexProblem] = field(default_factory=list[LatexProblem])


@dataclass
class _OpenGroup:
    opener: str
    at: int
    math: bool
    script: bool = False
    after: list[str] = field(default_factory=list[str])
    """Number of arguments after this group that the command before it still expects."""


def scan(source: str, *, inline: bool = False) -> ScannedText:
    """Return the text that a source prints and the keys that it refers to.

    With `inline`, used for titles and captions, structure is refused.
    """
    return _Scanner(source, inline).run()


class _Scanner:
    def __init__(self, source: str, inline: bool) -> None:
        self.source, self.inline = source, inline
        self.out = ScannedText(source, math=bytearray(len(source)), script=bytearray(len(source)))
        self.plain = list(source)
        self.stack = [_OpenGroup("", 0, False)]
        self.pending: list[str] = []
        self.i = 0

    def run(self) -> ScannedText:
        while self.i < len(self.source):
            self._step()
        for frame in self.stack[1:]:
            self._report(frame.at, "syntax", f"{frame.opener!r} is never closed: close it or remove it")
        self.out.plain = "".join(self.plain)
        return self.out

    # --- tokens -----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        at, char, top = self.i, self.source[self.i], self.stack[-1]
        if char == "\\":
            return self._read_control()
        self.i += 1
        if char == "%":
            end = self.source.find("\n", at)
            self.i = len(self.source) if end < 0 else end
            self._blank_out(at, self.i)
            return self._report(
                at, "syntax", r"'%' starts a comment, which hides the rest of the line: write \% for a percent sign"
            )
        if char == "^" and self.source.startswith("^", at + 1):
            self.i += 1
            return self._report(at, "command", "'^^' types a character by its code: remove it")
        if char == "{":
            how = self.pending.pop(0) if self.pending else ""
            self.stack.append(
                _OpenGroup("{", at, top.math and how != "text", top.script or how == "script", self.pending)
            )
            self.pending = []
            return None
        if char == "}":
            return self._close_group("{", at)
        if char == "$":
            return self._read_dollar(at)
        if char == "#" or (char == "&" and not self._is_aligned()):
            return self._report(at, "syntax", f"a bare {char!r} is an error in LaTeX: write \\{char}")
        if char in "_^":
            if not top.math:
                self._report(at, "syntax", f"{char!r} outside a formula is an error: write \\_ or put it in $...$")
            self.pending = ["script"]
            return None
        if char == "&":
            return None
        if not char.isspace():
            self.out.math[at] = top.math
            self.out.script[at] = (bool(self.pending) and self.pending.pop(0) == "script") or top.script
        if unicodedata.category(char) == "Cc" and char not in "\n\t\r":
            self._report(at, "syntax", f"control character U+{ord(char):04X}: remove it")

    def _is_aligned(self) -> bool:
        return any(frame.opener in ALIGNED_ENVIRONMENTS for frame in self.stack)

    # --- groups and formulas ----------------------------------------------------------------------------------------

    def _close_group(self, opener: str, at: int) -> None:
        if self.stack[-1].opener == opener:
            self.pending = self.stack.pop().after
            return
        self._report(
            at,
            "syntax",
            f"closes {opener!r}, but the innermost open group is {self.stack[-1].opener or 'none'!r}: balance "
            "braces, formulas and environments",
        )

    def _read_dollar(self, at: int) -> None:
        opener = "$$" if self.source.startswith("$", at + 1) and self.stack[-1].opener != "$" else "$"
        self.i = at + len(opener)
        self._blank_out(at, self.i)
        self.pending = []
        if self.stack[-1].opener == opener:
            self.stack.pop()
        elif self.stack[-1].math:
            self._close_group(opener, at)
        else:
            if opener == "$$":
                self._report_block(at, "$$")
            self.stack.append(_OpenGroup(opener, at, math=True))

    def _report_block(self, at: int, what: str) -> None:
        if self.inline:
            self._report(at, "command", f"{what} is not allowed in a title, abstract or caption: use running text")

    # --- commands ---------------------------------------------------------------------------------------------------

    def _read_control(self) -> None:
        at = self.i
        match = re.compile(r"\\([A-Za-z]+)(\*?)").match(self.source, at)
        if match is None:
            return self._read_symbol(at)
        name, self.i = match[1], match.end()
        self._blank_out(at, self.i, "a" if name in GREEK_COMMANDS else BLANK)
        if self.source.startswith("{}", self.i):  # which ends the command and prints nothing
            self._blank_out(self.i, self.i + 2)
        if name in KEYED_COMMANDS:
            return self._read_keyed_command(name, at)
        if name in BLOCK_COMMANDS:
            self._report_block(at, "\\" + name)
        elif name in MATH_COMMANDS and not self.stack[-1].math and name not in INLINE_COMMANDS:
            self._report(at, "syntax", f"\\{name} is only allowed in a formula: put it in $...$")
        elif name not in MATH_COMMANDS and name not in INLINE_COMMANDS:
            self._report(at, "command", f"\\{name} is not an allowed command: remove it")
        self.pending = (
            ["script"] * 2 if name in _FRACTION_COMMANDS else ["text"] if name in _TEXT_COMMANDS_IN_MATH else []
        )

    def _read_symbol(self, at: int) -> None:
        char = self.source[at + 1 : at + 2]
        self.i = min(at + 2, len(self.source))
        self.plain[at] = BLANK
        self.pending = []
        if char in ("(", "["):
            self._blank_out(at, self.i)
            if char == "[":
                self._report_block(at, "a display")
            self.stack.append(_OpenGroup("\\" + char, at, math=True))
        elif char in (")", "]"):
            self._blank_out(at, self.i)
            self._close_group("\\(" if char == ")" else "\\[", at)
        elif char == "\\":
            self._blank_out(at, self.i)
            if not self._is_aligned():
                self._report(at, "command", r"'\\' forces a line break: start a new paragraph instead")
        elif not char.isspace() and char not in SYMBOL_COMMANDS:
            self._report(at, "command", f"\\{char} is not an allowed command: remove it")
        elif char not in "%&#_${}":
            self._blank_out(at, self.i)

    def _read_keyed_command(self, name: str, at: int) -> None:
        while name in CITE_COMMANDS and (note := re.compile(r"\s*\[([^\[\]{}]*)\]").match(self.source, self.i)):
            inner = scan(note[1], inline=True)  # its argument is printed, so scan it as text
            self.out.problems += [LatexProblem(note.start(1) + one.at, one.kind, one.fix) for one in inner.problems]
            self.i = note.end()
        argument = re.compile(r"\s*\{([^{}]*)\}").match(self.source, self.i)
        if argument is None or not _KEY_PATTERN.fullmatch(argument[1]):
            return self._report(at, "key", f"\\{name} needs a plain key in braces, e.g. \\{name}{{...}}")
        self.i = argument.end()
        char = KEY if name in VALUE_COMMANDS else CITE if name in CITE_COMMANDS else BLANK
        self._blank_out(argument.start(), self.i, char)
        key = " ".join(argument[1].split())
        if name in ("begin", "end"):
            return self._read_environment(name, key, at)
        if name in FLOAT_COMMANDS:
            self._report_block(at, "\\" + name)
        if name not in CITE_COMMANDS and key != argument[1]:
            return self._report(at, "key", f"write \\{name}{{{key}}}, without spaces around the key")
        for one in key.split(",") if name in CITE_COMMANDS else [key]:
            self.out.uses.append(MacroUse(name, one.strip(), at, len(self.stack) - 1))

    def _read_environment(self, verb: str, name: str, at: int) -> None:
        self.pending = []
        if name not in TEXT_ENVIRONMENTS | MATH_ENVIRONMENTS:
            return self._report(at, "command", f"environment {name!r} is not allowed: remove it")
        self._report_block(at, f"environment {name!r}")
        if verb == "end":
            return self._close_group(name, at)
        self.stack.append(_OpenGroup(name, at, math=name in MATH_ENVIRONMENTS))

    # --- notes ------------------------------------------------------------------------------------------------------

    def _blank_out(self, start: int, end: int, char: str = BLANK) -> None:
        self.plain[start:end] = [" " if self.source[k].isspace() else char for k in range(start, end)]

    def _report(self, at: int, kind: Kind, fix: str) -> None:
        self.out.problems.append(LatexProblem(at, kind, fix))
