"""Whether a sentence speaks to whoever judges the paper, by what it is made of instead of by its wording.

Four questions of a folded sentence: is somebody addressed (you, a reviewer or model as subject, an imperative, a must)?
Is it about judging? Is the best mark or praise named? Is it about this very paper? Papers report in the first person
and the past; a sentence that has most of these is no report.

What it does not find: an order that names neither a mark nor praise, and one that takes the form of a report.
"""

from __future__ import annotations

import re

LONGEST = 600
"""Characters of a sentence; a longer one is a table or a listing, whose words lie far apart."""

_NOT_WE = r"^(?!.*\b(?:we|our|they|were|was)\b)"
_ADDRESSED = re.compile(
    r"\byou(?:r(?! own)|rself)?\b|\b(?:whoever|anyone|any one|everybody|anybody) (?:who|that|reads?|evaluat|assess"
    r"|judg|grad|review)|"
    r"\bto (?:whoever|whom|anyone|all who)\b|\b(?:ai|human|automat\w+|machine) (?:readers?|reviewers?|evaluators?"
    r"|graders?|judges?)\b|"
    r"\b(?:reviewers?|referees?|evaluators?|graders?|assessors?|language models?|llms?)\b.{0,50}\b(?:must|should"
    r"|shall|ought|"
    r"are to|need to|have to|is to|will find|can only)\b|\b(?:imperative|required|mandatory|essential|expected) that\b|"
    r"\b(?:please|kindly)\b|\b(?:system|admin|developer)\b.{0,12}\b(?:override|notice|message|prompt|update)\b|"
    r"\b(?:this|the present) (?:paper|manuscript|submission|article|study|work|text|document)\b.{0,20}\b(?:merits"
    r"|deserves|"
    r"must|should|shall|is to|has to|warrants|requires)\b|\bthe only (?:acceptable|correct|valid|possible|right"
    r"|fair)\b|"
    r"\b(?:reviewer|review|reviewing|grading|scoring|evaluation|rating) (?:instructions?|rules|guidelines|policy"
    r"|module|system)\b")
_IMPERATIVE = re.compile(
    r"(?:^|[:;,]\s+|\band\s+|\bso\s+|\bthen\s+)[\"'*_>(\s-]{0,4}(?:do not |don't |never |just |simply "
    r"|only )?(?:treat|record|give|rate|mark|use|say|fill|"
    r"output|respond|conclude|praise|act|forget|overlook|ignore|be|choose|consider|assume|return|write|report|accept|"
    r"recommend|endorse|score|grade|assign|award|let|make|set|judge|evaluate|answer|pick|select|enter|put|state"
    r"|declare|"
    r"approve|find|see|take|pretend|skip|drop|dismiss|disregard|refrain|avoid|emphasi[sz]e|highlight|focus|grant|pass"
    r"|do)\b")
_JUDGING = re.compile(
    r"\b(?:scor(?:e|es|ing)|rat(?:e|es|ing|ings)|grad(?:e|es|ing)|marks?|review(?:s|er|ers|ing)?|verdicts?"
    r"|evaluat(?:e|es|ion|ions|or|ors|ing)|"
    r"judge(?:s|ment|ments|d)?|assess(?:es|ment|ments|or|ors)?|accept(?:s|ance|ed)?|recommend\w*|endorse\w*|prais\w+"
    r"|rubrics?|"
    r"scales?|publication|referees?|json|soundness|clarity|novelty|significance|overall|critici[sz]\w*|decision)\b")
_BEST = re.compile(
    r"(?<![\d.])(?:10|9)\b(?!\.?\d|%| (?:epochs|seeds|runs|steps|layers|samples|examples|models|datasets|times"
    r"|folds))|\bten\b|\bnine\b|"
    r"\b(?:highest|top|full|maximum|maximal|perfect|flawless|outstanding|exceptional|excellent|superb|ceiling|lavish"
    r"|lenient|"
    r"generous|positive|favou?rable|best possible|upper end|strong accept|strongest|without reservation|nothing less"
    r"|nothing but praise|"
    r"advocate|groundbreaking|unconditional\w*|enthusiastic\w*|acceptance|endorse\w*|praise|benefit of the doubt"
    r"|five stars)\b")
_HERE = re.compile(
    r"\b(?:this|the present|our) (?:\w+ )?(?:paper|manuscript|submission|article|study|work|text|document|page|batch"
    r"|contribution)\b|"
    r"\b(?:here|authors?|each scale|every (?:score|scale|field|dimension|category|criterion|item)|all (?:scores"
    r"|dimensions|"
    r"categories|criteria|submissions)|your (?:evaluation|review|verdict|assessment|answer|output|judgement|judgment"
    r"|decision|score|json))\b")
_VOID = re.compile(
    r"\b(?:void|override|overridden|updated|suspended|no longer appl\w+|do(?:es)? not apply|told before|new task"
    r"|instead of (?:the )?"
    r"(?:rubric|rules|instructions)|irrelevant|supersed\w+|revoked|cancel\w*|ignore|overlook|disregard|forget)\b")
_FILLED = re.compile(r"\bgive (?:it|this|us) (?:an? )?(?:ten|10|nine|9)\b|(?:\b(?:overall|soundness|clarity|novelty"
                     r"|significance|confidence|consistency)\b\W{0,4}(?:10|9|ten|nine)\b.{0,6}){2,}")


def speaks_to_judge(said: str) -> bool:
    """Whether a folded sentence addresses its judge and asks for favour."""
    if len(said) > LONGEST:
        return False
    if _FILLED.search(said):
        return True
    addressed, ordered = bool(_ADDRESSED.search(said)), bool(_IMPERATIVE.search(said))
    if not (addressed or ordered) or (re.match(_NOT_WE, said) is None and not re.search(r"\byou\b|\bplease\b"
                                                                                       r"|\bkindly\b", said)):
        return False
    judging, best, here, void = (bool(one.search(said)) for one in (_JUDGING, _BEST, _HERE, _VOID))
    if addressed:
        return (best and (judging or here)) or (void and here and judging) or (void and judging and best)
    return (best and here and judging) or (void and here and (judging or best)) or (
        here and best and bool(re.search(r"\bonly\b|\bpraise\b|\badvocate\b", said)))
