"""What a paper claims to have used against log, code and results: seeds, test sets, data, models, people, hours.

A claim is held against all that is there together: it stands where any file bears it out, and where nothing could.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from review.foreign.passages import Passage
from review.foreign.signs.evidence import Evidence, plain
from review.foreign.signs.sign import Kind, Sign

_WORDS = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "eleven": 11,
    "twelve": 12,
    "fifteen": 15,
    "thirty": 30,
    "ten": 10,
    "twenty": 20,
}
_COUNT = r"(\d{1,3}|" + "|".join(_WORDS) + r")"
_SEEDS = re.compile(
    rf"\b{_COUNT}\s+(?:independent\s+|different\s+|random\s+|distinct\s+)*(?:random\s+)?(?:seeds|runs|repetitions|"
    r"repeats|replicates|trials|restarts)\b",
    re.I,
)
_FUTURE = re.compile(
    r"future|would|could|should|plan(?:ned)? to|next step|recommend|prior work|previous(?:ly)?|et al|\[\d+\]|\(\d{4}\)|"
    r"instead of|rather than|not |few\b|sometimes|often|common|usual|typical|unlike|such as those|limit|"
    r"only one|single|do(?:es)? not|were not",
    re.I,
)
_DATASETS = (
    "mnist fashion-mnist cifar-10 cifar-100 imagenet tiny-imagenet svhn stl-10 omniglot celeba imdb sst-2 ag_news glue "
    "superglue squad cnn/dailymail wikitext-2 wikitext-103 penn-treebank movielens yelp gsm8k mmlu "
    "truthfulqa hellaswag "
    "humaneval xsum 20newsgroups reuters adult compas german-credit california-housing boston-housing covertype "
    "iris wine digits breast_cancer diabetes olivetti kddcup99 cora citeseer pubmed ogbn-arxiv qm9 zinc librispeech "
    "coco pascal-voc ade20k cityscapes mimic-iii higgs letter satimage electricity etth1 weather traffic m4 "
    "ionosphere sonar heart-disease titanic bank-marketing abalone winequality spambase magic mushroom"
).split()
_MODELS = (
    "gpt-2 gpt-3 gpt-4 gpt-4o llama-2-7b llama-2 llama-3 mistral-7b bert-base roberta-base distilbert t5-small t5-base "
    "resnet-18 resnet-34 resnet-50 resnet-101 vgg-16 densenet mobilenet efficientnet vit-b/16 clip "
    "xgboost lightgbm catboost "
    "whisper wav2vec unet yolov5 stable-diffusion pythia opt-125m bloom phi-2 qwen gemma"
).split()
_PEOPLE = re.compile(
    rf"\b(\d{{1,4}}|{'|'.join(_WORDS)})\s+(?:\w+\s+){{0,3}}(?:participants|volunteers|annotators|raters|crowd ?workers|"
    r"students|clinicians|experts|human evaluators|respondents|users)\b",
    re.I,
)
_SUBJECTS = re.compile(r"participant|annotator|\braters?\b|respondent|volunteer|crowd ?work|clinician", re.I)
_PEOPLE_DID = re.compile(
    r"recruit|rated|annotat|survey|study|question|judg|complet|consent|particip|assess|evaluat|interview", re.I
)
_SWEEP = re.compile(
    r"(?:grid|random|hyper-?parameter|bayesian)?\s*(?:search|sweep|swept|tuned|tuning|searched|selected|varied|explored|grid)"
    r"[^.\n]{0,140}?(?:\{|\[|\(|from |over |among |in |across |"
    r"of )([^.\n]{0,20}?(?:\d[\d.eE^{}-]*(?:\s*,\s*(?:and |or )?|\s+and\s+|\s+or\s+)"
    r"){2,}\d[\d.eE-]*)",
    re.I,
)
_TEST_LOG = re.compile(
    r"\b(?:test(?:ing)?|held-?out|eval(?:uation)?)(?:[ _-]?(?:set|split|size|samples|examples|data|n|"
    r"questions|items|images))?"
    r"\s*(?:has|with|of|contains|[:=(]|size|\s)\s*(?:size\s*)?[=:]?\s*(\d+)(?![\d.%:/])",
    re.I,
)
_TEST_SAID = re.compile(
    r"(\d{1,3}(?:,\d{3})+|\d+)\s+(?:\w+\s+){0,2}?(?:test|held-?out|evaluation)\s+(?:\w+\s+)?(?:examples|samples|instances|images|"
    r"questions|items|documents|sentences|cases|points|prompts|rows|patients|problems|queries|reviews|observations)|"
    r"(?:test|held-?out|evaluation) (?:set|split|data)\s+(?:of|with|contains?|comprises?|consists? of|has|"
    r"size of|\(n\s*=|\(|=)\s*"
    r"(?:n\s*=\s*)?(\d{1,3}(?:,\d{3})+|\d+)\b",
    re.I,
)
_HOURS = re.compile(r"\b(\d+(?:\.\d+)?)\s*(?:\w+\s+)?(GPU[- ]hours?|hours?|GPU[- ]days?|days?)\b", re.I)
_EPOCHS = re.compile(r"\bepochs?\D{1,4}(\d+)\s*/\s*(\d+)", re.I)


def of_claims(passages: Sequence[Passage], text: str, evidence: Evidence) -> Iterator[Sign]:
    """All of them; `text` is the whole paper."""
    sentences = [sentence for sentence in re.split(r"(?<=[.!?])\s+|\n", _own_part(text)) if sentence.strip()]
    if evidence.code.strip() or evidence.logs.strip():
        yield from _seeds(sentences, evidence)
        yield from _test_set(sentences, evidence)
        yield from _names(text, passages, evidence, _DATASETS, "dataset")
        yield from _names(text, passages, evidence, _MODELS, "model")
        yield from _sweeps(sentences, evidence)
        yield from _hours(sentences, evidence)
        yield from _trained(text, evidence)
    if evidence.code.strip():
        yield from _procedures(sentences, evidence)
    yield from _people(sentences, evidence)


def _own_part(text: str) -> str:
    """The paper without what it says of others and of what comes: related work, future work, references."""
    parts = re.split(r"(?m)^(#{1,4}\s.*)$", text)
    kept = [parts[0]]
    for heading, body in zip(parts[1::2], parts[2::2], strict=False):
        if not re.search(r"related|background|reference|bibliograph|future|acknowledg|broader|ethic", heading, re.I):
            kept += [heading, body]
    return "\n".join(kept)


def _seeds(sentences: Sequence[str], evidence: Evidence) -> Iterator[Sign]:
    for sentence in sentences:
        match = _SEEDS.search(sentence)
        if match is None or sentence.startswith("#") or _FUTURE.search(sentence):
            continue
        claimed = _number(match[1])
        if evidence.names_count(claimed):
            return
        if _SIMULATED.search(" ".join(sentences[:12])) and "seed" not in match[0]:
            continue  # repetitions of a simulation have many names
        if 2 < claimed <= 200 and evidence.seeds < claimed and (evidence.seeds <= 1 or evidence.seeds <= claimed / 2):
            borne = f"{evidence.seeds} can be seen" if evidence.seeds else "none can be seen"
            typed = re.search(rf"(?<![\w.]){claimed}(?![\w.])", evidence.code) is not None
            what = f"{match[0]} are claimed, {borne} in code, log and results"
            yield _sign("seeds", what, sentence, .4 if typed else .65)
            return


_SIMULATED = re.compile(r"simulat|monte[- ]carlo", re.I)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _WORDS[text.lower()]


def _test_set(sentences: Sequence[str], evidence: Evidence) -> Iterator[Sign]:
    """The log's size of the test set against the paper's, or one on which nothing can be told."""
    sizes = {
        int(match): line
        for log in evidence.found.logs
        for line in log.lines
        for match in _TEST_LOG.findall(line.message)
        if int(match) > 0
    }
    if not sizes:
        return
    largest = max(sizes)
    said = {
        int((a or b).replace(",", "")): sentence
        for sentence in sentences
        if not _FUTURE.search(sentence)
        for a, b in _TEST_SAID.findall(sentence)
    }
    if said and max(said) >= 4 * largest and min(said) > largest:
        yield _sign(
            "small test set",
            f"the log has {largest} at most ({sizes[largest].text.strip()[:100]})",
            said[max(said)],
            0.75,
        )
    elif largest < 10 and not said:
        yield Sign("small test set", f"the test set has {largest} rows", "log", sizes[largest].text.strip()[:160], 0.45)


def _names(
    text: str, passages: Sequence[Passage], evidence: Evidence, known: Sequence[str], kind: Kind
) -> Iterator[Sign]:
    """Data and models that stand in tables of results, or of which it is said that they were used, and nowhere else."""
    tables = " ".join(
        f" {cell.row_label} {cell.column_label} {cell.text} " for passage in passages for cell in passage.cells
    )
    if re.search(r"publish|as reported|reported (?:by|in)|taken from|quoted from", text, re.I):
        tables = ""  # a table may hold numbers of others
    used = [
        sentence
        for sentence in re.split(r"(?<=[.!?])\s+|\n", _own_part(text))
        if re.search(
            r"\bwe (?:use|used|evaluate|evaluated|train|trained|test|tested|consider|ran|run|report|conduct)|"
            r"experiments (?:on|use)|"
            r"evaluated on|trained on|datasets?:|datasets are|results on|on (?:three|two|four|five) ",
            sentence,
            re.I,
        )
        and not _FUTURE.search(sentence)
    ]
    for name in known:
        pattern = re.compile(rf"(?<![\w-]){_loosely(name)}(?![\w])", re.I)
        inside = pattern.search(tables) or next((m for one in used if (m := pattern.search(one))), None)
        if inside is None or (
            name in _COMMON and not re.search(rf"{_loosely(name)}\s+(?:data\s?set|data)", text, re.I)
        ):
            continue
        if plain(name) not in evidence.all and not any(
            plain(word) in evidence.all for word in _ALIASES.get(name, ())
        ):
            where = next((one for one in used if pattern.search(one)), f"table: {inside[0]}")
            yield _sign(kind, f"{inside[0]} stands in no code, log or result", where, 0.6)


_COMMON = frozenset(
    "adult weather traffic electricity letter magic mushroom heart-disease wine digits iris higgs m4 phi-2 "
    "clip opt-125m whisper bloom gemma sonar".split()
)
_ALIASES = {
    "breast_cancer": ("wdbc", "cancer", "bc"),
    "20newsgroups": ("newsgroup",),
    "ag_news": ("agnews",),
    "sst-2": ("sst",),
    "california-housing": ("california",),
    "cnn/dailymail": ("cnn",),
    "bert-base": ("bert",),
    "wine": ("wine",),
    "llama-2": ("llama",),
    "llama-3": ("llama",),
    "gpt-4": ("gpt",),
    "gpt-2": ("gpt2",),
    "vit-b/16": ("vit",),
    "fashion-mnist": ("fmnist",),
    "xgboost": ("xgb",),
    "lightgbm": ("lgbm",),
    "movielens": ("ml100k", "ml1m"),
}


def _loosely(name: str) -> str:
    return r"[\s_/-]?".join(map(re.escape, re.split(r"[-_/ ]", name)))


def _sweeps(sentences: Sequence[str], evidence: Evidence) -> Iterator[Sign]:
    """Values that are said to have been searched, and stand in no code, log or result."""
    everything = f"{evidence.code}\n{evidence.logs}\n{evidence.results}"
    for sentence in sentences:
        match = _SWEEP.search(sentence)
        if match is None or _FUTURE.search(sentence):
            continue
        values = [value.strip("{}.^") for value in re.findall(r"\d[\d.eE-]*", match[1])]
        seen = [value for value in values if _stands(value, everything)]
        if len(values) >= 3 and len(seen) <= len(values) / 2:
            yield _sign(
                "sweep",
                f"of the values {', '.join(values)} only {len(seen)} stand in code, log or results",
                sentence,
                0.6,
            )


def _stands(value: str, text: str) -> bool:
    try:
        number = float(value)
    except ValueError:
        return True
    forms = {
        value,
        f"{number:g}",
        f"{number:.0e}",
        f"{number:.0e}".replace("e-0", "e-"),
        f"{number:.1f}",
        f"{number:.2f}",
    }
    return any(re.search(rf"(?<![\d.]){re.escape(form)}(?![\d])", text) for form in forms)


def _hours(sentences: Sequence[str], evidence: Evidence) -> Iterator[Sign]:
    """Hours of computing that are claimed, against the stamps of the longest log."""
    took = [log.seconds for log in evidence.found.logs if log.seconds is not None]
    if not took:
        return
    for sentence in sentences:
        if _FUTURE.search(sentence) or not re.search(r"train|run|took|experiment|comput|gpu", sentence, re.I):
            continue
        for amount, unit in _HOURS.findall(sentence):
            claimed = float(amount) * (86_400 if "day" in unit.lower() else 3_600)
            if claimed > 20 * max(sum(took), 30) and claimed >= 1800:
                yield _sign("time", f"by the stamps the logs took {sum(took):.0f} s together", sentence, 0.65)
                return


def _trained(text: str, evidence: Evidence) -> Iterator[Sign]:
    """Epochs that the log counts to, against those that the paper says, where they never meet."""
    counted = {int(total) for _, total in _EPOCHS.findall(evidence.logs)}
    said = {
        int(match)
        for match in re.findall(r"\b(?:for|over|of)\s+(\d{1,4})\s+(?:training\s+)?epochs\b", _own_part(text), re.I)
    }
    if counted and said and not said & counted and min(said) >= 3 * max(counted):
        yield Sign("time", f"the log counts to {max(counted)} epochs, the paper says {min(said)}", "log", "", 0.65)


_PROCEDURES: tuple[tuple[Kind, re.Pattern[str], re.Pattern[str]], ...] = (
    ("significance", re.compile(
        r"\bp\s*(?:=|<|\u2264)\s*0?\.\d+|t-test|wilcoxon|mann-whitney|\bANOVA\b|permutation test", re.I),
     re.compile(r"ttest|t_test|wilcoxon|mannwhitney|anova|f_oneway|permut|bootstrap|p_?val|stats|binom|mcnemar|sign_?test|"
                r"\berfc?\b|norm\.|cdf|\bp\s*=", re.I)),
    ("folds", re.compile(r"\b(?:\d+|five|ten|three|four|eight)-?\s?fold cross-?\s?validation", re.I),
     re.compile(r"fold|cross_val|array_split|\bcv\b|splits", re.I)),
    ("hardware", re.compile(
        r"\b(?:on|using|with) (?:an?|one|two|four|eight|\d+|the)?\s*(?:NVIDIA\s+)?(?:A100|H100|V100|RTX|T4|A6000|"
        r"GPUs?\b)", re.I), re.compile(r"cuda|gpu|device|jax|torch|tensorflow|xgboost", re.I)),
)
"""What a paper may say was done, and what of code, log or results bears it out."""


def _procedures(sentences: Sequence[str], evidence: Evidence) -> Iterator[Sign]:
    """Tests of significance, cross-validation and GPUs of which no code knows."""
    everything = f"{evidence.code}\n{evidence.logs}\n{evidence.results}"
    for kind, claim, bearing in _PROCEDURES:
        said = next((one for one in sentences if claim.search(one) and not _FUTURE.search(one)), None)
        if said is not None and not bearing.search(everything):
            yield _sign(kind, "no code, log or result knows of it", said, .6)


_RECRUITED = re.compile(
    r"\brecruited\b[^.]{0,60}\b(?:workers|participants|students|volunteers|users|people|raters|annotators)|"
    r"\b(?:workers|participants|students|volunteers|raters|annotators)\b[^.]{0,40}\b(?:were|was) "
    r"(?:recruited|paid|hired)", re.I)
_ASKED = re.compile(
    r"[\w/.-]*(?:vote|rating|annot|participant|survey|response|answer|label|study)[\w-]*\."
    r"(?:csv|jsonl?|tsv|parquet|npz)", re.I)


def _people(sentences: Sequence[str], evidence: Evidence) -> Iterator[Sign]:
    said = next((one for one in sentences if _RECRUITED.search(one) and not _FUTURE.search(one)), None)
    if said is not None and not _ASKED.search(f"{evidence.code}\n{evidence.results}"):
        yield _sign("people", "no code reads what they answered", said, .6)
        return
    if _SUBJECTS.search(f"{evidence.code}\n{evidence.logs}\n{evidence.results}"):
        return
    for sentence in sentences:
        match = _PEOPLE.search(sentence)
        if match is None or _FUTURE.search(sentence) or re.search(r"simulat|synthetic|public|released", sentence, re.I):
            continue
        if _PEOPLE_DID.search(sentence):
            yield _sign("people", "no code, log or data speaks of them", sentence, 0.6)
            return


def _sign(kind: Kind, what: str, sentence: str, weight: float) -> Sign:
    return Sign(kind, what, "paper", " ".join(sentence.split())[:200], weight)
