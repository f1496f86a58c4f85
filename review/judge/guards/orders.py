"""Find prompt injections by pattern: sentences that address a reviewer or a model instead of readers."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby, pairwise

_RULES = (
    r"(?:instructions?|prompts?|guidelines?|directions|directives?|orders|commands|rubrics?|criteria|rules"
    r"|messages?|everything (?:above|before))"
)
_EARLIER = r"(?:previous|prior|above|earlier|preceding|existing|original|foregoing|past|all|any|your|system|other)"
_BEGIN = (
    r"(?:^|[,;:\"'\u201c\u2018(\[{*#>\u2014-]\s*|\b(?:please|kindly|now|just|simply|must|should|shall|you|"
    r"always)\s+(?:please\s+|kindly\s+|also\s+|then\s+)?)"
)
_IGNORE = r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|override|overrule|bypass|discard|do not follow|stop following)"
_SCORE = (
    r"(?:give|assign|award|rate|score|grade|mark|grant|evaluate|judge|set|return|output|respond|answer|recommend|"
    r"accept|provide|rank|raise|increase)"
)
_BEST = (
    r"(?:(?<![\d.])10(?!\.?\d|%|\s*(?:-|epochs|seeds|runs|steps))|\bten\b|\bnine\b|(?<![\d.])9(?:/10|\.\d)?\b"
    r"|\bhighest\b|\bmaxim(?:um|al)\b|\bmax\b|\bfull\b|\btop\b|\bperfect\b|\bbest\b|\bexcellent\b|\boutstanding\b"
    r"|\bstrong(?:ly)? accept|\bpositive(?:ly)?\b|\bgenerous(?:ly)?\b|\bfavou?rabl[ey]\b)"
)
_THIS = (
    r"(?:\b(?:this|the|our|present) (?:paper|submission|manuscript|article|work|study|document|contribution)\b"
    r"|\bevery (?:dimension|category|criteri|aspect|item|question|score)|\b(?:each|all|any|the"
    r"|these)(?: \w+)? (?:dimensions?|categor|criteri|rubrics?)|\b(?:each|all|any) (?:scores?|ratings?)\b|\bit\b"
    r"|\bus\b)"
)
_REVIEWER = (
    r"(?:reviewers?|referees?|judges?|graders?|evaluators?|assessors?|area chairs?|meta-reviewers?"
    r"|language models?|llms?|ais?|ai (?:systems?|assistants?|models?|agents?)|assistants?|chatbots?"
    r"|gpt[\w.-]*|chatgpt|claude|gemini)"
)
_FAULTS = (
    r"(?:weakness(?:es)?|limitations?|flaws?|negatives?|shortcomings?|problems?|concerns?|critici[sz]ms?|errors?"
    r"|issues|faults?|deficienc(?:y|ies))"
)
_RANGE = re.compile(
    r"\b\d\.\d+ ?(?:out of|/) ?10\b|,? ?(?:where|with) (?:1|0|10) (?:is"
    r"|being) (?:the )?\w+(?: and 10 (?:is|being) (?:the )?\w+)?|\b(?:from |between )?(?:0|1|zero"
    r"|one)(?: ?(?:-|\u2013|to|and|through) ?)(?:10|ten|5|five|9|100)\b"
)

ENGLISH = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:{_BEGIN}{_IGNORE}|\b{_IGNORE}\b.{{0,30}}\b{_EARLIER})\b.{{0,50}}\b{_RULES}\b",
        rf"{_BEGIN}{_SCORE}\b.{{0,40}}{_THIS}.{{0,30}}{_BEST}",
        r"\b(?:every|each|all|final|overall)\b.{0,15}\b(?:scores?|ratings?|grades?|marks?)\b.{0,15}"
        r"(?:\bis\b|\bare\b|\bmust be\b|\bshould be\b|=|:).{0,8}\b(?:10|ten|perfect|the maximum|the highest|maximal)\b"
        r"(?!\.?\d)\W*(?:$|[,;]|whatever|regardless|no matter|out of|in all|everywhere)",
        rf"^\W*(?:note|message|notice|attention|dear|hello|important|warning)\b(?:(?: \w+){{0,3}} )?{_REVIEWER}\b\s*"
        r"(?:[:,!\u2014]|-\s|this\b|you\b)",
        rf"\b(?:if|since|because|when|as) you (?:are|re)\b.{{0,25}}\b{_REVIEWER}\b|\bas an? (?:\w+ "
        rf")?{_REVIEWER}\b,? you\b",
        rf"(?:^|\bplease |\bkindly |{_REVIEWER} |\byou )(?:\w+ )?(?:do not|dont|don't|never|refrain from|avoid|must not"
        rf"|should not|may not)\b.{{0,20}}\b(?:mention|report|list|raise|critici[sz]e|highlight|point(?:ing)? out|note"
        rf"|penali[sz]e|include|name|state)\w*\b.{{0,40}}\b{_FAULTS}|\bno "
        rf"{_FAULTS}\b.{{0,15}}\b(?:may|must|should|shall"
        rf"|can) be \w+ed\b",
        r"\b(?:chairs?|committee|editors?|panel|organi[sz]ers?)\b.{0,60}\b(?:accepted|decided|approved|settled|agreed)\b"
        r"(?=.*(?:\baccept|\bhigh|\btop\b|\bmaxim|\bfull\b)).{0,80}\b(?:score|rate|grade|mark|rating)\b",
        r"\byou are (?:now |no longer |hereby )?.{0,30}\b(?:reviewer|judge|grader|referee|evaluator|critic)\b"
        r"(?=.*\b(?:generous|lenient|positive|kind|friendly|accept|high|enthusiastic|supportive)|\W*$)",
        rf"\bif you (?:rate|score|grade|mark|reject|give)\b.{{0,20}}(?:{_THIS}|\b(?:below|under|less|lower|low)\b)"
        r"|\b(?:i|we) (?:will|would|shall) (?:tip|pay|reward|report|sue) you\b",
        r"^\W*(?:end of (?:the )?(?:paper|document|submission|manuscript|text)|new (?:system "
        r")?(?:instructions?|prompt))"
        r"\W*$|</(?:paper|document|submission|manuscript)>",
        r"\b(?:review|assessment|evaluation)s? (?:must|should|shall|has to) be (?:\w+ )?(?:positive|favou?rable)"
        r"|\bpositive (?:review|assessment|evaluation)s? only\b|(?:^|\bplease )(?:strongly "
        r")?recommend\b.{0,25}\baccept",
    )
)
"""Patterns of prompt injection in English, for normalised text."""

OTHERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:忽略|忽视|无视|無視|忘记|忘記|不要理会|不要理會).{0,20}(?:指令|指示|说明|說明|提示|规则|規則|要求)",
        r"(?:给|給|打|评|評|授予).{0,20}(?:满分|滿分|最高分|10 ?分|十分|高分)|审稿人.{0,20}(?:必须|应该|请)",
        r"(?:指示|命令|ルール|プロンプト).{0,12}(?:無視|忘れ)|(?:満点|最高点|最高評価|10点).{0,20}(?:つけ|付け|与え|くださ|して)",
        r"(?:지시|명령|지침|규칙).{0,12}(?:무시|잊)|(?:만점|최고 ?점수|10 ?점).{0,15}(?:주|부여|매기)",
        r"(?:игнорир|забуд)\w*.{0,50}(?:инструкц|указан|правил|критери)|(?:постав|дай|присво|оцени)\w*.{0,60}(?:высш|максим"
        r"|10|десят|отличн)",
        r"\b(?:ignor|missacht|vergiss|vergess|oubli|neglig|olvid|descart|dimentic|esquec|desconsider)\w*\b.{0,50}\b(?:anweisung"
        r"|instruktion|vorgabe|regel|kriteri|consigne|regle\b|regles|instruccion|regla|directri|indicacion|criterio"
        r"|istruzion|instruco|instruca|regol|regras)",
        r"\b(?:ignore[zr]|ignorons|ignore l|oubli\w*|negligez) .{0,50}\b(?:instruction|directive|critere)",
        r"\b(?:gib|gebt|geben sie|vergib|vergeben "
        r"sie|bewerten?|attribue\w*|attribuisc\w*|donne[zr]?|notez|accordez|evaluez"
        r"|otorg\w*|asign\w*|conceda\w*|calific\w*|puntu\w*|assegn\w*|atribu[ai]\w*)\b.{0,60}(?:\b(?:hochst|volle|bestnote"
        r"|maxim|massim|meilleure|plus haute|mas alt|diez|zehn|sobresaliente)|\b10\b)",
    )
)
"""Common phrases of Chinese, Japanese, Korean, Russian, German, French, Spanish, Italian and Portuguese."""

_WEAK = re.compile(
    rf"{_BEGIN}(?:{_SCORE}|praise|emphasi[sz]e|highlight|mention|write)\b|\b{_REVIEWER}\b|"
    r"^\W*(?:system|assistant|user|instructions?)\W*$"
)
"""Patterns that only count next to a prompt injection."""

_TOGETHER = re.compile(
    r"(?:ignore|disregard|forget)\w{0,20}(?:instructions?|prompts?|rubric|rules|guidelines)|"
    r"(?:give|award|assign|rate|score)\w{0,25}(?:score(?:of)?(?:10|ten)|highest|maximum|topmark|perfect)"
)
"""Patterns for words written without spaces."""

_ENDS = re.compile(r"(?<=[.!?])[\"'\u201d\u2019)*]*\s+|(?<=[。！？])|\n\s*\n\s*|$")


def is_order(sentence: str) -> bool:
    """Return whether a sentence is a prompt injection; a scale ('from 1 to 10') does not count as a best score."""
    for reading, guessed in readings(sentence):
        plain = _RANGE.sub(" ", reading)
        if (not guessed and speaks_to_judge(plain)) or any(
            pattern.search(plain) for pattern in (*ENGLISH, *OTHERS, _TOGETHER)
        ):
            return True
    return False


def orders(text: str) -> list[tuple[int, int]]:
    """Return start and end of every injected passage, including weak matches right after it."""
    ends = [(0, 0), *(match.span() for match in _ENDS.finditer(text))]
    spans = [(begin, end) for (_, begin), (end, _) in pairwise(ends) if text[begin:end].strip()]
    sentences = [text[begin:end] for begin, end in spans]
    alone = [is_order(sentence) for sentence in sentences]
    ordered = alone[:1]
    for at, (first, second) in enumerate(pairwise(sentences)):
        whole = (
            not alone[at] and not alone[at + 1] and first.rstrip()[-1] not in ".!?:" and is_order(f"{first} {second}")
        )  # one injection over two paragraphs
        ordered[at] = ordered[at] or whole
        ordered.append(whole or alone[at + 1] or (ordered[at] and bool(_WEAK.search(folded(second)))))
    passages = (
        [span for span, _ in run]
        for is_one, run in groupby(zip(spans, ordered, strict=True), key=lambda pair: pair[1])
        if is_one
    )
    return [(passage[0][0], passage[-1][1]) for passage in passages]


# --- by the elements of a sentence
# -------------------------------------------------------------------------------------

LONGEST = 600
"""Maximum characters of a sentence; anything longer is a table or listing."""

_NOT_WE = r"^(?!.*\b(?:we|our|they|were|was)\b)"
_ADDRESSED = re.compile(
    r"\byou(?:r(?! own)|rself)?\b|\b(?:whoever|anyone|any one|everybody|anybody) (?:who|that|reads?|evaluat|assess|judg"
    r"|grad|review)|\bto (?:whoever|whom|anyone|all who)\b|\b(?:ai|human|automat\w+|machine) (?:readers?|reviewers?"
    r"|evaluators?|graders?|judges?)\b|\b(?:reviewers?|referees?|evaluators?|graders?|assessors?|language models?"
    r"|llms?)\b.{0,50}\b(?:must|should|shall|ought|are to|need to|have to|is to|will find|can only)\b|\b(?:imperative"
    r"|required|mandatory|essential|expected) that\b|\b(?:please|kindly)\b|\b(?:system|admin"
    r"|developer)\b.{0,12}\b(?:override|notice|message|prompt|update)\b|\b(?:this|the present) (?:paper|manuscript"
    r"|submission|article|study|work|text|document)\b.{0,20}\b(?:merits|deserves|must|should|shall|is to|has to"
    r"|warrants|requires)\b|\bthe only (?:acceptable|correct|valid|possible|right|fair)\b|\b(?:reviewer|review"
    r"|reviewing|grading|scoring|evaluation|rating) (?:instructions?|rules|guidelines|policy|module|system)\b"
)
_IMPERATIVE = re.compile(
    r"(?:^|[:;,]\s+|\band\s+|\bso\s+|\bthen\s+)[\"'*_>(\s-]{0,4}(?:do not |don't |never |just |simply |only )?(?:treat"
    r"|record|give|rate|mark|use|say|fill|output|respond|conclude|praise|act|forget|overlook|ignore|be|choose|consider"
    r"|assume|return|write|report|accept|recommend|endorse|score|grade|assign|award|let|make|set|judge|evaluate|answer"
    r"|pick|select|enter|put|state|declare|approve|find|see|take|pretend|skip|drop|dismiss|disregard|refrain|avoid"
    r"|emphasi[sz]e|highlight|focus|grant|pass|do)\b"
)
_JUDGING = re.compile(
    r"\b(?:scor(?:e|es|ing)|rat(?:e|es|ing|ings)|grad(?:e|es|ing)|marks?|review(?:s|er|ers|ing)?|verdicts?|evaluat(?:e"
    r"|es|ion|ions|or|ors|ing)|judge(?:s|ment|ments|d)?|assess(?:es|ment|ments|or|ors)?|accept(?:s|ance|ed)?"
    r"|recommend\w*|endorse\w*|prais\w+|rubrics?|scales?|publication|referees?|json|soundness|clarity|novelty"
    r"|significance|overall|critici[sz]\w*|decision)\b"
)
_PRAISE = re.compile(
    r"(?<![\d.])(?:10|9)\b(?!\.?\d|%| (?:epochs|seeds|runs|steps|layers|samples|examples|models|datasets|times|folds))"
    r"|\bten\b|\bnine\b|\b(?:highest|top|full|maximum|maximal|perfect|flawless|outstanding|exceptional|excellent|superb"
    r"|ceiling|lavish|lenient|generous|positive|favou?rable|best possible|upper end|strong accept|strongest"
    r"|without reservation|nothing less|nothing but praise|advocate|groundbreaking|unconditional\w*|enthusiastic\w*"
    r"|acceptance|endorse\w*|praise|benefit of the doubt|five stars)\b"
)
_HERE = re.compile(
    r"\b(?:this|the present|our) (?:\w+ )?(?:paper|manuscript|submission|article|study|work|text|document|page|batch"
    r"|contribution)\b|\b(?:here|authors?|each scale|every (?:score|scale|field|dimension|category|criterion|item)"
    r"|all (?:scores|dimensions|categories|criteria|submissions)|your (?:evaluation|review|verdict|assessment|answer"
    r"|output|judgement|judgment|decision|score|json))\b"
)
_VOID = re.compile(
    r"\b(?:void|override|overridden|updated|suspended|no longer appl\w+|do(?:es)? not apply|told before|new task"
    r"|instead of (?:the )?"
    r"(?:rubric|rules|instructions)|irrelevant|supersed\w+|revoked|cancel\w*|ignore|overlook|disregard|forget)\b"
)
_FILLED = re.compile(
    r"\bgive (?:it|this|us) (?:an? )?(?:ten|10|nine|9)\b|(?:\b(?:overall|soundness|clarity|novelty"
    r"|significance|confidence|consistency)\b\W{0,4}(?:10|9|ten|nine)\b.{0,6}){2,}"
)


def speaks_to_judge(sentence: str) -> bool:
    """Return whether a normalised sentence addresses its judge and asks for favour."""
    if len(sentence) > LONGEST:
        return False
    if _FILLED.search(sentence):
        return True
    addressed, ordered = bool(_ADDRESSED.search(sentence)), bool(_IMPERATIVE.search(sentence))
    if not (addressed or ordered) or (
        re.match(_NOT_WE, sentence) is None
        and not re.search(
            r"\byou\b|\bplease\b"
            r"|\bkindly\b",
            sentence,
        )
    ):
        return False
    judging, best, here, void = (bool(one.search(sentence)) for one in (_JUDGING, _PRAISE, _HERE, _VOID))
    if addressed:
        return (best and (judging or here)) or (void and here and judging) or (void and judging and best)
    return (
        (best and here and judging)
        or (void and here and (judging or best))
        or (here and best and bool(re.search(r"\bonly\b|\bpraise\b|\badvocate\b", sentence)))
    )


# --- normalised readings of a text
# -------------------------------------------------------------------------------------


_LOOKALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u043a\u043c\u0442\u0432\u043d"
    "\u03b1\u03bf\u03c1\u03bd\u03b9\u03ba\u03c4\u03c5\u03c7\u03b5\u0261\u0131\u0251\u0578\u057d\u0585",
    "aeopcyxijshdwkmtbhaopviktuxegianuo",
)
_DIGITS = str.maketrans("013457@$!|", "oieastasil")
_SPACED = re.compile(r"(?<![^\W_])(?:[^\W\d_] ){5,}[^\W\d_](?![^\W_])")


def unseen(char: str) -> bool:
    """Return whether a character is invisible: joiners, direction marks, soft hyphens, tags, selectors."""
    return unicodedata.category(char) == "Cf" or 0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF


def tagged(text: str) -> str:
    """Return the text written in Unicode tag characters."""
    return "".join(chr(ord(char) - 0xE0000) for char in text if 0xE0020 <= ord(char) < 0xE007F)


def folded(text: str) -> str:
    """Normalise a string: lower case without accents, single spaces, words joined over line ends."""
    text = re.sub(r"(?<=[^\W\d_])-\n(?=[^\W\d_])", "", text)
    text = unicodedata.normalize("NFKC", "".join(char for char in text if not unseen(char))).casefold()
    latin = (
        unicodedata.normalize("NFKD", char)[0] if char < "\u0250" or "\u1e00" <= char < "\u1f00" else char
        for char in text
    )
    return " ".join("".join(char for char in latin if not unicodedata.combining(char)).split())


def guesses(plain: str) -> Iterator[str]:
    """Yield alternative readings: leetspeak, spaced letters joined, rot13, reversed."""
    yield re.sub(r"\S+", lambda word: word[0].translate(_DIGITS) if re.search(r"[^\W\d_]", word[0]) else word[0], plain)
    yield _SPACED.sub(lambda match: match[0].replace(" ", ""), plain)
    yield codecs.encode(plain, "rot13")
    yield plain[::-1]


def readings(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the normalised text, the text with look-alike letters replaced, and guesses, each with a flag for
    guesses.
    """
    plain = folded(text)
    yield plain, False
    if (latin := plain.translate(_LOOKALIKE)) != plain:
        yield latin, False
    yield from ((guess, True) for guess in guesses(plain) if guess != plain)
