"""What code that asked language models hands in: predictions that the host reads off the cited answers itself.

Kept: an answer counts only as it was committed for this very cell. What such code hands in otherwise is `unattributed`:
nobody knows whose it is. The same answer serves one row alone, and where answers to one question serve several rows
(which honest code needs only for rows that are equal), what they give is `unattributed` too.

Not guaranteed: that a question asks what its row shows. Code can have its own guess repeated by a subject.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from labwright.record.llm_calls import EXCHANGES_LIST
from labwright.record.schema.data_plan import EvidenceGrade
from labwright.record.schema.llm_exchanges import LLMExchange
from labwright.sandbox.answer_parser import TRUNCATION_MARK, build_answer_parser
from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.llm_gateway import LlmSession
from labwright.sandbox.safe_io import open_regular, raise_read_errors_as, remove_path, write_file
from labwright.sandbox.scoring import SUBMISSION_INDEX, Submission, read_columns, read_index, read_truth_labels

MIN_AGREEMENT_EXAMPLES = 100
"""Labelled examples, at least, on which a model that grades is held against labels."""
_MAX_REPEATED_SHARE = 0.05
"""Share of rows whose question may be another row's too: data have rows that are equal."""
_MAX_CITATION_BYTES = 32 * 2**20
"""Of a file of ids, each of which becomes an object of ours."""


class CitedAnswers(BaseModel):
    """What `lab.submit` wrote: ids of answers for each row, one a draw."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ids: list[list[str]]
    agreement: dict[int, list[str]] = Field(default_factory=dict[int, list[str]])


def write_exchange_ids(folder: Path, session: LlmSession) -> str:
    """Write the ids of what a cell was answered, with the sha256 of the answers; the sha256 of that file."""
    digest = hashlib.sha256()
    lines: list[str] = []
    for exchange in session.list_ids():
        if (found := session.subjects.find(session.key, exchange)) is not None:
            lines.append(f'{{"id": "{exchange}", "sha256": "{found.sha256}"}}\n')
            digest.update(lines[-1].encode())
    write_file(folder, EXCHANGES_LIST, "".join(lines))
    return digest.hexdigest()


def attribute_answers(folder: Path, labels: Path, views: Path, session: LlmSession) -> list[str]:
    """Make predictions of cited answers, and mark what cites none. Returns what is to be told.

    Raises `SubmissionRefused`.
    """
    told: list[str] = []
    listed = read_index(folder, SUBMISSION_INDEX)
    made: list[Submission] = []
    for one in listed:
        if one.kind in ("answers", "judged"):
            one, words = _attribute_submission(folder, one, labels, views, session)
            told += words
        elif session.answer_counts:
            one = one.model_copy(update={"grade": "unattributed"})
        made.append(one)
    if made != listed:
        write_file(folder, SUBMISSION_INDEX, "".join(one.model_dump_json() + "\n" for one in made))
    return told


def _attribute_submission(
    folder: Path, one: Submission, labels: Path, views: Path, session: LlmSession
) -> tuple[Submission, list[str]]:
    with (
        raise_read_errors_as(f"{one.description} is not what lab.submit writes", SubmissionRefused, ValidationError),
        open_regular(folder, f"submissions/{one.file}", _MAX_CITATION_BYTES) as file,
    ):
        cited = CitedAnswers.model_validate_json(file.read())
    truth, classes = read_truth_labels(labels, one)
    if len(cited.ids) != len(truth):
        raise SubmissionRefused(f"{one.description}: cites answers for {len(cited.ids)} rows, not {len(truth)}")
    read = build_answer_parser(one.read, classes, read_columns(labels, one.dataset, one.split)[0])
    answers = _find_cited_exchanges(one, [*cited.ids, *cited.agreement.values()], session)
    grade = _find_grade(answers)
    rows = [[read(draw.text + TRUNCATION_MARK * (draw.finish == "length")) for draw in draws] for draws in answers]
    told: list[str] = []
    if grade is not None:
        told.append(f"{one.description}: many rows cite answers to the same question, so what it gives is {grade}")
    if one.kind == "answers":
        values, unread = _predict_rows(rows, truth, classes, one)
        arrays: dict[str, Any] = {"predictions": values}
        update: dict[str, Any] = {"kind": "predictions", "unread": unread}
    else:
        grades, dev = rows[: len(truth)], rows[len(truth) :]
        unread = sum(_mean_of_draws(draws) is None for draws in rows)
        arrays = {
            "judged": np.array(
                [value for draws in grades if (value := _mean_of_draws(draws)) is not None], dtype=float
            ),
            "agreement": np.array([_compute_agreement(one, cited, dev, views, classes)]),
        }
        if not len(arrays["judged"]):
            raise SubmissionRefused(f"{one.description}: no answer could be read as {one.read!r}")
        update, grade = {"unread": unread}, grade or "judged"
    if unread:
        so = (
            "they count as wrong"
            if classes and one.kind == "answers"
            else "they count as the mean of the others"
            if one.kind == "answers"
            else "they are left out"
        )
        told.append(
            f"{one.description}: {unread} of {len(rows)} rows have no answer that can be read as {one.read!r}; {so}"
        )
    packed = BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    name = f"{Path(one.file).stem}.npz"
    write_file(folder, f"submissions/{name}", packed.getvalue())
    remove_path(folder, f"submissions/{one.file}")
    return one.model_copy(update={**update, "file": name, "grade": grade}), told


def _find_cited_exchanges(
    one: Submission, ids: Sequence[Sequence[str]], session: LlmSession
) -> list[list[LLMExchange]]:
    """The cited exchanges. Raises `SubmissionRefused` where one is not of this cell, or is cited twice."""
    seen, found = set[str](), list[list[LLMExchange]]()
    for number, draws in enumerate(ids):
        if not draws:
            raise SubmissionRefused(f"{one.description}: row {number} cites no answer")
        found.append([])
        for exchange in draws:
            answer = session.find_cited(exchange)
            if answer is None:
                raise SubmissionRefused(
                    f"{one.description}: row {number} cites {exchange[:60]!r}, which is no answer that a "
                    "subject gave to this cell"
                )
            if exchange in seen:
                raise SubmissionRefused(
                    f"{one.description}: row {number} cites {exchange!r}, which was cited before: an answer "
                    f"serves one row"
                )
            seen.add(exchange)
            found[-1].append(answer)
    return found


def _find_grade(answers: Sequence[Sequence[LLMExchange]]) -> EvidenceGrade | None:
    """`unattributed` where many rows cite answers to the same question; else None."""
    asked = Counter(question for draws in answers for question in {draw.id.partition("-")[0] for draw in draws})
    shared = sum(any(asked[draw.id.partition("-")[0]] > 1 for draw in draws) for draws in answers)
    return "unattributed" if shared > _MAX_REPEATED_SHARE * len(answers) else None


def _mean_of_draws(draws: Sequence[float | None]) -> float | None:
    known = [value for value in draws if value is not None]
    return sum(known) / len(known) if known else None


def _predict_rows(
    rows: Sequence[Sequence[float | None]], truth: NDArray[Any], classes: int, one: Submission
) -> tuple[NDArray[Any], int]:
    """One value a row, and how many rows have none: the class of most draws (of as many, that drawn first), or their
    mean. A row without one gets a wrong class, or the mean of all others."""
    if not classes:
        means = [_mean_of_draws(draws) for draws in rows]
        if (rest := _mean_of_draws(means)) is None:
            raise SubmissionRefused(f"{one.description}: no answer could be read as {one.read!r}")
        return np.array([rest if value is None else value for value in means]), sum(value is None for value in means)
    votes = [Counter(value for value in draws if value is not None).most_common(1) for draws in rows]
    return np.array(
        [int(vote[0][0]) if vote else (int(label) + 1) % classes for vote, label in zip(votes, truth, strict=True)]
    ), sum(not vote for vote in votes)


def _compute_agreement(
    one: Submission, cited: CitedAnswers, dev: Sequence[Sequence[float | None]], views: Path, classes: int
) -> float:
    """How far a model's grades agree with labels: the share of equal classes, or the correlation of numbers.

    Raises `SubmissionRefused`: there are too few, or they are no grades.
    """
    with np.load(views / f"{one.dataset}.npz", allow_pickle=False) as view:
        labels: NDArray[Any] = view["dev_y"]
    if len(cited.agreement) < MIN_AGREEMENT_EXAMPLES or not all(0 <= row < len(labels) for row in cited.agreement):
        raise SubmissionRefused(
            f"{one.description}: what a model grades counts beside its agreement with at least "
            f"{MIN_AGREEMENT_EXAMPLES} "
            f"labels of dev alone; it cites {len(cited.agreement)}"
        )
    true = labels[list(cited.agreement)].astype(float)
    given = [_mean_of_draws(draws) for draws in dev]
    if classes:
        return float(np.mean([value == label for value, label in zip(given, true, strict=True)]))
    pairs = np.array([(value, label) for value, label in zip(given, true, strict=True) if value is not None])
    if len(pairs) < MIN_AGREEMENT_EXAMPLES:
        raise SubmissionRefused(
            f"{one.description}: {len(pairs)} of its grades of dev can be read, not {MIN_AGREEMENT_EXAMPLES}"
        )
    spread = pairs.std(axis=0)
    return float(np.corrcoef(pairs.T)[0, 1]) if spread.min() > 0 else 0.0
