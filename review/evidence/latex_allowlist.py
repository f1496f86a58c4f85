"""The LaTeX commands and environments that a model may use; all others are refused.

This is an allow-list because TeX is a programming language that can read and write files, print any character
without typing it, and redefine its own commands.
"""

from __future__ import annotations

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
    {
        "equation",
        "equation*",
        "align",
        "align*",
        "gather",
        "gather*",
        "aligned",
        "split",
        "cases",
        "matrix",
        "pmatrix",
        "bmatrix",
        "vmatrix",
    }
)
ALIGNED_ENVIRONMENTS = MATH_ENVIRONMENTS - {"equation", "equation*"}
r"""Environments that use `&` and `\\` as separators."""
