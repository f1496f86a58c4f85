"""Check claims about tests, hours, GPUs, data and participants against log, code and results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from labwright.review.external_papers.signs.counts import COUNT
from labwright.review.external_papers.signs.evidence import ClaimEvidence, plain
from labwright.review.external_papers.signs.sign import CIRCUMSTANTIAL, CONCLUSIVE, Kind, Sign

_FUTURE = re.compile(
    r"future|would|could|should|plan(?:ned)? to|next step|recommend|prior work|previous(?:ly)?|et al|\[\d+\]|\(\d{4}\)|"
    r"instead of|rather than|\bno\b|\bnot\b|\bnone\b|nor\b|without|sometimes|often|unlike|such as those",
    re.I,
)
_HOURS = re.compile(r"\b(\d+(?:\.\d+)?)\s*(?:\w+\s+)?(GPU[- ]hours?|hours?|GPU[- ]days?|days?)\b", re.I)
_SECONDS = re.compile(
    r"\b(?:time|elapsed|seconds|secs|duration|runtime|took|done in|wall\w*)\w*\W{0,4}(\d+(?:\.\d+)?)\s*(?:s\b|sec|"
    r"\b)",
    re.I,
)


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a paper, without related work, references and future work."""
    parts = re.split(r"(?m)^(#{1,4}\s.*)$", text)
    kept = [parts[0]]
    for heading, body in zip(parts[1::2], parts[2::2], strict=False):
        if not re.search(r"related|background|reference|bibliograph|future|acknowledg|broader|ethic", heading, re.I):
            kept += [heading, body]
    paragraphs = re.split(r"\n\s*\n|\n(?=[#|])", "\n".join(kept))
    return [
        " ".join(one.split())
        for paragraph in paragraphs
        for one in re.split(r"(?<=[.!?;])\s+", paragraph)
        if one.strip()
    ]


def of_claims(sentences: Sequence[str], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Yield all such signs."""
    if evidence.code.strip() or evidence.logs.strip():
        yield from _hours(sentences, evidence)
    if evidence.code.strip():
        yield from _significance(sentences, evidence)
        yield from _hardware(sentences, evidence)
        yield from _names(sentences, evidence)
    yield from _people(sentences, evidence)


def _hours(sentences: Sequence[str], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Check claimed hours of computing against log timestamps, or recorded seconds."""
    took = [log.duration_seconds for log in evidence.found.logs if log.duration_seconds is not None]
    said = [float(one) for one in _SECONDS.findall(f"{evidence.logs}\n{evidence.results}")]
    if not took and not said:
        return
    passed, how = (sum(took), "the log timestamps give") if took else (sum(said), "logs and results give")
    for sentence in sentences:
        if _FUTURE.search(sentence) or not re.search(r"train|run|took|experiment|comput|gpu", sentence, re.I):
            continue
        for amount, unit in _HOURS.findall(sentence):
            claimed = float(amount) * (86_400 if "day" in unit.lower() else 3_600)
            if claimed > 20 * max(passed, 30) and claimed >= 1800:
                yield _sign("time", f"{how} {passed:.0f} s together", sentence, CONCLUSIVE if took else 0.6)
                return


_GPU = re.compile(r"\b(?:on|using|with)\s+(?:\w+\s+){0,6}?(?:A100|H100|V100|RTX ?\d+|T4|A6000|TPU\w*|GPUs)\b", re.I)
_ON_GPU = re.compile(
    r"torch|tensorflow|keras|jax|flax|cupy|cuml|cuda|cudf|numba|xgboost|lightgbm|catboost|transformers|vllm|"
    r"openai|anthropic|"
    r"gpu",
    re.I,
)


def _hardware(sentences: Sequence[str], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Find claimed accelerators that none of the code's libraries can use."""
    said = next((one for one in sentences if _GPU.search(one) and not _FUTURE.search(one)), None)
    if said is not None and not _ON_GPU.search(f"{evidence.code}\n{evidence.logs}"):
        yield _sign("hardware", "nothing in code or log can use one", said, CONCLUSIVE)


_USED = re.compile(
    r"\bwe (?:also )?(?:use|evaluate|train|test|run|ran|fine-?tune|compare)\w*|trained on|evaluated on", re.I
)


def _names(sentences: Sequence[str], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Find data and models that are claimed to be used but named in no file."""
    for sentence in sentences:
        for name in re.findall(r"\b[A-Z][A-Za-z]{2,}-\d+\w*", sentence) if _USED.search(sentence) else ():
            if plain(name) not in evidence.all and not _FUTURE.search(sentence) and "publish" not in sentence:
                yield _sign("dataset", f"{name} is in no code, log or result", sentence, CIRCUMSTANTIAL)
                return


_TESTS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = (
    (re.compile(r"\bt[ -]tests?\b", re.I), re.compile(r"ttest|t_test|t\.cdf|t\.sf|stdtr|stats\.t\b|welch", re.I)),
    (re.compile(r"wilcoxon|signed[- ]rank", re.I), re.compile(r"wilcoxon|signed_?rank", re.I)),
    (re.compile(r"mann[- ]whitney", re.I), re.compile(r"mann_?whitney|ranksums|\bu_?test", re.I)),
    (re.compile(r"\bANOVA\b"), re.compile(r"anova|f_oneway|f\.sf", re.I)),
    (re.compile(r"mcnemar", re.I), re.compile(r"mcnemar|binom|chi2", re.I)),
    (
        re.compile(r"\bp\s*=\s*0?\.\d+", re.I),
        re.compile(
            r"p_?val|pval|\bp\s*=|\.sf\(|\.cdf\(|ttest|wilcoxon|permut|binom|sign_?test|erfc?\b|\"p\"|'p'|boot|null|"
            r"stats",
            re.I,
        ),
    ),
)
"""Tests that a paper may claim, and what code or results contain if they were done."""


def _significance(sentences: Sequence[str], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Find claimed significance tests without any code, and p values in no result."""
    text = " ".join(sentences)
    values = [float(one) for one in re.findall(r"\bp\s*[=<\u2264]\s*(0?\.\d+)", text, re.I)]
    if any(value in evidence.numbers for value in values if value not in (0.05, 0.01, 0.001)):
        return
    for claim, bearing in _TESTS:
        said = next((one for one in sentences if claim.search(one) and not _FUTURE.search(one)), None)
        if said is not None and not bearing.search(evidence.everything):
            weight = CONCLUSIVE if values else CIRCUMSTANTIAL
            yield _sign("significance", "no code, log or result has it", said, weight)
            return


_PEOPLE = re.compile(
    rf"\b{COUNT}\s+(?:\w+\s+){{0,3}}(?:participants|volunteers|annotators|raters|crowd ?workers|students|clinicians|"
    r"physicians|experts|human evaluators|respondents|subjects|judges)\b|\b(?:recruited|hired|asked|paid)\b[^.]{0,60}\b"
    r"(?:workers|participants|students|volunteers|people|raters|annotators|colleagues|clinicians|experts)|"
    r"\b(?:workers|participants|students|volunteers|raters|annotators|clinicians)\b[^.]{0,40}\b(?:were|was) "
    r"(?:recruited|paid|hired|asked)",
    re.I,
)
_PEOPLE_DID = re.compile(
    r"recruit|rated|annotat|survey|questionnaire|judg|complet|consent|particip|assess|interview|decid|solve|asked|paid|"
    r"hired|label|agree",
    re.I,
)
_ASKED = re.compile(
    r"[\w/.-]*(?:vote|rating|annot|participant|survey|response|answer|human|study|label)[\w-]*\.(?:csv|jsonl?|tsv|"
    r"parquet|npz)|"
    r"participant|annotator|\braters?\b|respondent|volunteer|clinician|human_",
    re.I,
)


def _people(sentences: Sequence[str], evidence: ClaimEvidence) -> Iterator[Sign]:
    """Find claimed participants whose answers are in no file."""
    if _ASKED.search(f"{evidence.code}\n{evidence.logs}\n{evidence.results}"):
        return
    for sentence in sentences:
        if (
            _PEOPLE.search(sentence)
            and _PEOPLE_DID.search(sentence)
            and not _FUTURE.search(sentence)
            and not re.search(r"simulat|synthetic|public|released|applicants", sentence, re.I)
        ):
            yield _sign("people", "no code, log or data mentions them", sentence, CONCLUSIVE)
            return


def _sign(kind: Kind, what: str, sentence: str, weight: float) -> Sign:
    return Sign(kind, what, "paper", sentence[:200], weight)
