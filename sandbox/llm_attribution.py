"""Derive predictions from the language model answers that a submission cites.

Guarantees: an answer counts only if it was committed for this cell. Other submissions of code that queried models are
`unattributed`, since their origin is unknown. Each answer can be used for only one row. If answers to one question are
used for several rows (which honest code does only for equal rows), the resulting values are `unattributed` too.

Limits: a question need not contain its row, and code can make a model repeat the code's own guess.
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
from pydantic import BaseModel, ConfigDict, Field

from labwright.record.llm_calls import EXCHANGES_LIST
from labwright.record.schema.data_plan import EvidenceGrade
from labwright.record.schema.llm_exchanges import LLMExchange
from labwright.record.untrusted_files import open_regular, raise_read_errors_as, remove_path, write_file
from labwright.sandbox.answer_parser import TRUNCATION_MARK, build_answer_parser
from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.llm_gateway import LlmSession
from labwright.sandbox.scoring import (
    COLUMN_PREFIX,
    MAX_COLUMNS,
    SUBMISSION_INDEX,
    Submission,
    read_columns,
    read_index,
    read_truth_labels,
)

MIN_AGREEMENT_EXAMPLES = 100
"""Minimum number of labelled examples for comparing a grading model with labels."""
_MAX_REPEATED_SHARE = 0.05
"""Maximum share of rows whose question may also belong to another row, since datasets contain equal rows."""
_MAX_CITATION_BYTES = 32 * 2**20
"""Size limit of a file of ids, each of which becomes a Python object."""


class CitedAnswers(BaseModel):
    """Written by `lab.submit`: ids of the answers for each row, one per draw."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ids: list[list[str]]
    agreement: dict[int, list[str]] = Field(default_factory=dict[int, list[str]])
    columns: dict[str, list[int]] = Field(default_factory=dict[str, list[int]], max_length=MAX_COLUMNS)


def write_exchange_ids(folder: Path, session: LlmSession) -> str:
    """Write the ids of a cell's answers with their sha256; return the sha256 of that file."""
    digest = hashlib.sha256()
    lines: list[str] = []
    for exchange in session.list_ids():
        if (answer := session.subjects.find(session.key, exchange)) is not None:
            lines.append(f'{{"id": "{exchange}", "sha256": "{answer.sha256}"}}\n')
            digest.update(lines[-1].encode())
    write_file(folder, EXCHANGES_LIST, "".join(lines))
    return digest.hexdigest()


def attribute_answers(folder: Path, labels: Path, views: Path, session: LlmSession) -> list[str]:
    """Turn cited answers into predictions, mark submissions that cite none, and return notes for the log.

    Raises `SubmissionRefused`.
    """
    notes: list[str] = []
    listed = read_index(folder, SUBMISSION_INDEX)
    made: list[Submission] = []
    for submission in listed:
        if submission.kind in ("answers", "judged"):
            submission, words = _attribute_submission(folder, submission, labels, views, session)
            notes += words
        elif session.answer_counts:
            submission = submission.model_copy(update={"grade": "unattributed"})
        made.append(submission)
    if made != listed:
        write_file(folder, SUBMISSION_INDEX, "".join(submission.model_dump_json() + "\n" for submission in made))
    return notes


def _attribute_submission(
    folder: Path, submission: Submission, labels: Path, views: Path, session: LlmSession
) -> tuple[Submission, list[str]]:
    with (
        raise_read_errors_as(f"{submission.description} is not what lab.submit writes", SubmissionRefused),
        open_regular(folder, f"submissions/{submission.file}", _MAX_CITATION_BYTES) as file,
    ):
        cited = CitedAnswers.model_validate_json(file.read())
    truth, classes = read_truth_labels(labels, submission)
    if len(cited.ids) != len(truth):
        raise SubmissionRefused(f"{submission.description}: cites answers for {len(cited.ids)} rows, not {len(truth)}")
    read = build_answer_parser(submission.read, classes, read_columns(labels, submission.dataset, submission.split)[0])
    answers = _find_cited_exchanges(submission, [*cited.ids, *cited.agreement.values()], session)
    grade = _find_grade(answers)
    rows = [[read(draw.text + TRUNCATION_MARK * (draw.finish == "length")) for draw in draws] for draws in answers]
    notes: list[str] = []
    if grade is not None:
        notes.append(
            f"{submission.description}: many rows cite answers to the same question, so its values are graded {grade}"
        )
    if submission.kind == "answers":
        values, unread = _predict_rows(rows, truth, classes, submission)
        arrays: dict[str, Any] = {"predictions": values} | {
            COLUMN_PREFIX + name: np.array(column) for name, column in cited.columns.items()
        }
        update: dict[str, Any] = {"kind": "predictions", "unread": unread}
    else:
        grades, dev = rows[: len(truth)], rows[len(truth) :]
        unread = sum(_mean_of_draws(draws) is None for draws in rows)
        arrays = {
            "judged": np.array(
                [value for draws in grades if (value := _mean_of_draws(draws)) is not None], dtype=float
            ),
            "agreement": np.array([_compute_agreement(submission, cited, dev, views, classes)]),
        }
        if not len(arrays["judged"]):
            raise SubmissionRefused(f"{submission.description}: no answer could be parsed as {submission.read!r}")
        update, grade = {"unread": unread}, grade or "judged"
    if unread:
        so = (
            "they count as wrong"
            if classes and submission.kind == "answers"
            else "they count as the mean of the others"
            if submission.kind == "answers"
            else "they are left out"
        )
        notes.append(
            f"{submission.description}: {unread} of {len(rows)} rows have no answer that can be parsed as "
            f"{submission.read!r}; {so}"
        )
    packed = BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    name = f"{Path(submission.file).stem}.npz"
    write_file(folder, f"submissions/{name}", packed.getvalue())
    remove_path(folder, f"submissions/{submission.file}")
    return submission.model_copy(update={**update, "file": name, "grade": grade}), notes


def _find_cited_exchanges(
    submission: Submission, ids: Sequence[Sequence[str]], session: LlmSession
) -> list[list[LLMExchange]]:
    """Return the cited exchanges. Raises `SubmissionRefused` for an answer that belongs to another cell or is cited
    twice.
    """
    seen, found = set[str](), list[list[LLMExchange]]()
    for number, draws in enumerate(ids):
        if not draws:
            raise SubmissionRefused(f"{submission.description}: row {number} cites no answer")
        found.append([])
        for exchange in draws:
            answer = session.find_cited(exchange)
            if answer is None:
                raise SubmissionRefused(
                    f"{submission.description}: row {number} cites {exchange[:60]!r}, which is not an answer that a "
                    "studied model gave to this cell"
                )
            if exchange in seen:
                raise SubmissionRefused(
                    f"{submission.description}: row {number} cites {exchange!r}, which was cited before: each answer "
                    f"can serve only one row"
                )
            seen.add(exchange)
            found[-1].append(answer)
    return found


def _find_grade(answers: Sequence[Sequence[LLMExchange]]) -> EvidenceGrade | None:
    """Return `unattributed` if many rows cite answers to the same question, otherwise None."""
    asked = Counter(question for draws in answers for question in {draw.id.partition("-")[0] for draw in draws})
    shared = sum(any(asked[draw.id.partition("-")[0]] > 1 for draw in draws) for draws in answers)
    return "unattributed" if shared > _MAX_REPEATED_SHARE * len(answers) else None


def _mean_of_draws(draws: Sequence[float | None]) -> float | None:
    known = [value for value in draws if value is not None]
    return sum(known) / len(known) if known else None


def _predict_rows(
    rows: Sequence[Sequence[float | None]], truth: NDArray[Any], classes: int, submission: Submission
) -> tuple[NDArray[Any], int]:
    """Return one value per row and the number of rows without an answer.

    A value is the most frequent class (on a tie, the first drawn) or the mean. A row without an answer gets a wrong
    class, or the mean of all others.
    """
    if not classes:
        means = [_mean_of_draws(draws) for draws in rows]
        if (rest := _mean_of_draws(means)) is None:
            raise SubmissionRefused(f"{submission.description}: no answer could be parsed as {submission.read!r}")
        return np.array([rest if value is None else value for value in means]), sum(value is None for value in means)
    votes = [Counter(value for value in draws if value is not None).most_common(1) for draws in rows]
    return np.array(
        [int(vote[0][0]) if vote else (int(label) + 1) % classes for vote, label in zip(votes, truth, strict=True)]
    ), sum(not vote for vote in votes)


def _compute_agreement(
    submission: Submission, cited: CitedAnswers, dev: Sequence[Sequence[float | None]], views: Path, classes: int
) -> float:
    """Return the agreement of a model's grades with labels: the share of equal classes, or the correlation of numbers.

    Raises `SubmissionRefused` if there are too few grades or they cannot be parsed.
    """
    with np.load(views / f"{submission.dataset}.npz", allow_pickle=False) as view:
        labels: NDArray[Any] = view["dev_y"]
    if len(cited.agreement) < MIN_AGREEMENT_EXAMPLES or not all(0 <= row < len(labels) for row in cited.agreement):
        raise SubmissionRefused(
            f"{submission.description}: grades need their agreement with at least "
            f"{MIN_AGREEMENT_EXAMPLES} "
            f"dev labels; this submission cites {len(cited.agreement)}"
        )
    true = labels[list(cited.agreement)].astype(float)
    given = [_mean_of_draws(draws) for draws in dev]
    if classes:
        return float(np.mean([value == label for value, label in zip(given, true, strict=True)]))
    pairs = np.array([(value, label) for value, label in zip(given, true, strict=True) if value is not None])
    if len(pairs) < MIN_AGREEMENT_EXAMPLES:
        raise SubmissionRefused(
            f"{submission.description}: {len(pairs)} of its grades on dev can be parsed, at least "
            f"{MIN_AGREEMENT_EXAMPLES} are needed"
        )
    spread = pairs.std(axis=0)
    return float(np.corrcoef(pairs.T)[0, 1]) if spread.min() > 0 else 0.0
