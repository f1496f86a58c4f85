"""Compare claimed counts (seeds, folds, settings, test set sizes) with code, logs and results."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from labwright.review.external_papers.passages import PaperPassage
from labwright.review.external_papers.printed_numbers import extract_numbers
from labwright.review.external_papers.result_files import ValueSeries
from labwright.review.external_papers.signs.evidence import ClaimEvidence
from labwright.review.external_papers.signs.in_records import is_share, step
from labwright.review.external_papers.signs.sign import CIRCUMSTANTIAL, CONCLUSIVE, Kind, Sign

_TENS = "twenty thirty forty fifty sixty seventy eighty ninety hundred".split()
WORDS = {
    word: at
    for at, word in enumerate(
        "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split(), 2
    )
} | {word: 10 * at for at, word in enumerate(_TENS, 2)}
COUNT = rf"(\d{{1,3}}(?:,\d{{3}})+|\d{{1,6}}|{'|'.join(WORDS)})"
_UNITS = (
    r"seeds|runs|repetitions|repeats|replicates|replications|trials|restarts|folds|configurations|combinations|"
    r"simulations|games|episodes|permutations|bootstrap samples|resamples"
)
_DONE = re.compile(
    rf"(?<!of )(?<!of the )\b{COUNT}\s+(?:\w+\s+)?({_UNITS})\b(?!\s+of\s+(?:the|these))|"
    rf"\brepeated\s+(?:\w+\s+)?{COUNT}\s+times\b",
    re.I,
)
_NOT_OURS = re.compile(
    r"future|would|could|should|plan(?:ned)? to|recommend|prior work|previous(?:ly)?|et al|\[\d+\]|\(\d{4}\)|"
    r"instead of|rather than|\bnot\b|sometimes|often|commonly|usual|typical|such as|at least|more than|"
    r"unlike|skipped|failed|excluded|wins?\b|ahead|better|worse|lowest|highest|first|last",
    re.I,
)


def of_counts(
    sentences: Sequence[str], passages: Sequence[PaperPassage], series: Sequence[ValueSeries], evidence: ClaimEvidence
) -> Iterator[Sign]:
    """Yield all such signs."""
    if not (evidence.code.strip() or evidence.logs.strip()):
        return
    lengths = frozenset(len(one.values) for one in series if not one.file.endswith((".log", ".txt", ".out")))
    yield from _repetitions(sentences, lengths, evidence)
    yield from _settings(passages, evidence)
    yield from _swept(sentences, evidence)
    yield from _test_set(sentences, evidence)
    yield from _resolution(sentences, series)


def count(text: str) -> int:
    return WORDS.get(text.lower(), 0) or int(text.replace(",", ""))


def _repetitions(sentences: Sequence[str], lengths: Collection[int], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Check seeds, folds and the like."""
    for sentence in sentences:
        if sentence.startswith(("#", "|")) or _NOT_OURS.search(sentence):
            continue
        for match in _DONE.finditer(sentence):
            claimed, unit = count(match[1] or match[3]), (match[2] or "runs").lower().rstrip("s")
            if (
                claimed < 3
                or evidence.names_count(claimed)
                or any(length >= claimed and length % claimed == 0 for length in lengths)
            ):
                continue
            if claimed > 12 and re.search(rf"(?<![\w.]){claimed}(?![\w.])", evidence.everything):
                continue
            seen = max(evidence.said_count(unit), evidence.shown(unit), evidence.seeds if unit in _SEEDED else 0)
            if seen >= claimed or (
                seen > 1 and claimed % seen == 0 and (claimed // seen <= 4 or claimed // seen in evidence.numbers)
            ):
                continue
            if (not seen or unit in _PRODUCTS) and any(
                claimed % a == 0 and (claimed / a in evidence.numbers or claimed / a <= 20)
                for a in (*evidence.numbers, *lengths)
                if a > 1
            ):
                continue  # several settings of one kind times several of another
            sure = 0 < seen <= claimed / 2
            borne = f"{seen} are visible" if seen else "none are visible"
            what = f"{match[0]} are claimed, {borne} in code, log and results"
            yield _sign(_KINDS.get(unit, "seeds"), what, sentence, CONCLUSIVE if sure else CIRCUMSTANTIAL)
            return


_PRODUCTS = ("run", "configuration", "combination", "simulation", "game", "episode")
_SEEDED = ("seed", "run", "repetition", "repeat", "replicate", "trial", "restart")
_KINDS: dict[str, Kind] = {"fold": "folds", "configuration": "sweep", "combination": "sweep"}


def _settings(passages: Sequence[PaperPassage], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Find settings in a table that differ from the code and occur in no other file."""
    for passage in passages:
        for cell in passage.cells if _SETTINGS.search(passage.text) else ():
            name = cell.row_label.strip("`* ")
            numbers, own = extract_numbers(cell.text, "cell"), cell.text.strip("`* ")
            if len(numbers) != 1 or not re.fullmatch(r"[A-Za-z]\w{2,30}", name) or numbers[0].text != own:
                continue
            value = numbers[0].value
            found = {
                float(one)
                for one in re.findall(
                    rf"(?<![\w.])[\"']?{re.escape(name)}[\"']?\s*(?::\s*\w+\s*)?[:=]\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)\b",
                    evidence.code,
                    re.I,
                )
            }
            if (
                len(found) == 1
                and value not in found
                and value not in evidence.numbers
                and not any(
                    abs(value / other - scale) < 1e-9 for other in found if other for scale in (100, 0.01, 1000, 0.001)
                )
            ):
                yield Sign(
                    "sweep",
                    f"the code sets {name} to {found.pop():g}",
                    f"table {passage.table}, {name}",
                    cell.text,
                    CONCLUSIVE,
                )
                return


_SETTINGS = re.compile(
    r"^\W*(?:setting|parameter|hyper\W?parameter|option|quantity|item|property|key|name)s?\b[^|\n]*\|\W*"
    r"(?:value|setting|default|number)",
    re.I,
)

_TEST = re.compile(
    rf"{COUNT}\s+(?:\w+\s+){{0,2}}?(?:test|held-?out|evaluation)\s+(?:\w+\s+)?(?:examples|samples|instances|images|"
    rf"questions|"
    rf"items|documents|sentences|cases|points|prompts|rows|patients|problems|queries|reviews|observations)|"
    rf"(?:test|held-?out|evaluation) (?:set|split|data|part)\s+(?:of|with|contains?|comprises?|consists? of|has|"
    rf"size of|"
    rf"\(n\s*=|\(|=)\s*(?:n\s*=\s*)?{COUNT}\b|\b(?:remaining|other|last|first)\s+{COUNT}\s+(?:\w+\s+)?test\b|"
    rf"{COUNT}\s+(?:independent\s+)?(?:replications|streams|simulated samples)",
    re.I,
)
_HELD = re.compile(
    r"(?:\b|_)(?:test|n_?test|test_?(?:size|n|set|samples|examples|part)|held_?out)[\"']?\s*(?:set|part|split)?\s*"
    r"(?:has|with|of|contains|size|[:=(\[ ])\s*[=:]?\s*\(?(\d{1,6})(?![\d.%:/])",
    re.I,
)


def _test_set(sentences: Sequence[str], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Find a claimed test set size that occurs nowhere although code, log or results have another size."""
    sizes = {int(one) for one in _HELD.findall(evidence.everything) if int(one) > 1}
    for sentence in sentences:
        said = {count(next(filter(None, match))) for match in _TEST.findall(sentence)}
        for size in said if sizes and not _NOT_OURS.search(sentence) else ():
            if size >= 2 * max(sizes) and size not in evidence.numbers:
                yield _sign("small test set", f"code, log and results have {max(sizes)}", sentence, CONCLUSIVE)
                return


_SWEPT = re.compile(r"(?:search|sweep|swept|tuned|tuning|searched|selected|varied|explored|grid)\b", re.I)


def _swept(sentences: Sequence[str], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Find lists of claimed values that are mostly missing from code, logs and results."""
    for sentence in sentences:
        lists = re.findall(r"[{\[(]((?:\d[\d.e-]*\s*,\s*){3,}(?:and |or )?\d[\d.e-]*)[}\])]", sentence)
        values = [float(one) for found in lists for one in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", found)]
        if (
            values
            and _SWEPT.search(sentence)
            and not _NOT_OURS.search(sentence)
            and 2 * sum(one in evidence.numbers for one in values) <= len(values)
        ):
            yield _sign("sweep", "few of these values are in code, log or results", sentence, CONCLUSIVE)
            return


_SHARE = re.compile(r"acc|accuracy|error_rate|success|hit_rate|solved|coverage|power|reject|rate$|recall|correct", re.I)
_NO_SHARE = re.compile(r"train|balanced|std|sd\b|ci\b|loss|delta|diff|drop|gain|p_value|chance|lr|learning|top", re.I)


def _resolution(sentences: Sequence[str], series: Sequence[ValueSeries]) -> Iterator[Sign]:
    """Find claimed sizes far above the resolution of all shares in the results."""
    text = "\n".join(sentences)
    said = {count(next(filter(None, match))): None for match in _TEST.findall(text)}
    values = [
        value
        for one in series
        if not one.from_prose and _SHARE.search(one.key) and not _NO_SHARE.search(one.key) and len(one.values) <= 1_000
        for value in one.values
        if 0 < value < 1 and step(value) < 0.01
    ]
    fine = [value for value in dict.fromkeys(values) if step(value) <= 1e-3]
    if not said or len(fine) < 6:
        return
    coarse = max(step(value) for value in fine)
    size = next(
        (
            size
            for size in range(4, int(0.5 / coarse))
            if (size * coarse) ** len(fine) < 1e-4 and all(is_share(value, size) for value in values)
        ),
        None,
    )
    if size is not None and min(said) >= 2 * size and not re.search(rf"(?<![\w.,]){size}(?!\w|[.,]\d)", text):
        sentence = next(one for one in sentences if _TEST.search(one))
        what = f"all {len(values)} shares of the results are counts of {size}"
        yield _sign("small test set", what, sentence, CONCLUSIVE)


def _sign(kind: Kind, what: str, sentence: str, weight: float) -> Sign:
    return Sign(kind, what, "paper", " ".join(sentence.split())[:200], weight)
