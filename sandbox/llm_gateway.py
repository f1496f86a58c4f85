"""Lets experiment code query language models over a socket that only one cell's kernel sees; the host answers.

The socket identifies the cell, regardless of what the code sends. It is in a folder that the kernel can
read but not write, and is removed with the cell. Messages, connections and queues are bounded.

Also the predictions that are derived from the answers that a submission cites.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from labwright.record.float_compare import parse_whole_number
from labwright.record.llm_calls import EXCHANGES_LIST, LLMBudgetSpent, LLMQuestionRefused
from labwright.record.schema import replace_unencodable
from labwright.record.schema.data_plan import EvidenceGrade
from labwright.record.schema.decisions import LLMExchange, LLMQuestion
from labwright.record.untrusted_files import open_regular, raise_read_errors_as, remove_path, write_file
from labwright.sandbox.job import SubmissionRefused
from labwright.sandbox.scoring import COLUMN_PREFIX, MAX_COLUMNS, SUBMISSION_INDEX, Submission, read_index, read_labels

MAX_MESSAGE_BYTES = 2**20
"""Size limit of one question in bytes."""
MAX_QUEUED_QUESTIONS = 64
"""Maximum number of unanswered questions per connection; the next one is read once one has been answered."""
MAX_REFUSALS = 1000
"""Maximum number of questions per cell that are not answered; then its connections are closed, since refusing a
question costs the cell nothing."""
MAX_CONNECTIONS = 64
"""Maximum number of connections per cell: each thread that asks questions has one."""


class LlmGateway(Protocol):
    """The language models that experiments may query."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def find(self, cell: str, exchange: str) -> LLMExchange | None:
        """Return the exchange committed under an id for the cell with this key."""
        ...

    async def ask(self, cell: str, question: LLMQuestion, ordinal: int) -> LLMExchange:
        """Return the committed answer to this draw of a question, or query a new one.

        Raises `LLMQuestionRefused`, `LLMBudgetSpent`; `LLMUnavailable` and `RecordError`, which end the run.
        """
        ...

    async def close(self) -> None: ...


@dataclass
class LlmSession:
    """Queries of one execution of a cell."""

    subjects: LlmGateway
    key: str
    """Key of the cell, or of a plain script."""
    names: Collection[str]
    """Models that may be queried."""
    answer_counts: Counter[str] = field(default_factory=Counter[str])
    """Model -> number of answered questions."""
    budget_message: str = ""
    """The reason why a question was refused for lack of budget."""
    fatal_error: Exception | None = None
    """Error that ends the run."""
    draw_counts: Counter[str] = field(default_factory=Counter[str])
    """Question -> number of times it was asked."""
    _connections: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _refusals: int = 0

    def find_cited(self, exchange: str) -> LLMExchange | None:
        """Return an exchange of this execution by id; None if it belongs to another execution."""
        digest, _, ordinal = exchange.rpartition("-")
        if (number := parse_whole_number(ordinal)) is None or number >= self.draw_counts.get(digest, 0):
            return None
        return self.subjects.find(self.key, exchange)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer all questions that arrive on one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        room, under_way = asyncio.Semaphore(MAX_QUEUED_QUESTIONS), set[asyncio.Task[None]]()
        try:
            if len(self._connections) > MAX_CONNECTIONS:
                await self._refuse(writer, -1, f"a cell may query from at most {MAX_CONNECTIONS} threads: use ask_many")
            while len(self._connections) <= MAX_CONNECTIONS and self._refusals < MAX_REFUSALS:
                await room.acquire()
                try:
                    line = await reader.readline()
                except ValueError:
                    await self._refuse(writer, -1, f"a question may have at most {MAX_MESSAGE_BYTES} bytes")
                    break
                if not line.endswith(b"\n"):
                    break
                answering = asyncio.create_task(self._handle_question(line, writer))
                under_way.add(answering)
                answering.add_done_callback(lambda done: (under_way.discard(done), room.release()))
        except asyncio.CancelledError:  # the cell has ended; asyncio's server would log this as an error
            pass
        finally:
            for one in list(under_way):
                one.cancel()
            self._connections.discard(task)
            writer.close()

    async def close(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _handle_question(self, line: bytes, writer: asyncio.StreamWriter) -> Any:
        """Assign the question's ordinal now, in order of arrival; the answer follows later."""
        number = -1
        try:
            fields: dict[str, Any] = replace_unencodable(json.loads(line))
            number = int(fields.pop("n"))
            question = LLMQuestion.model_validate(fields)
            if question.subject not in self.names:
                available = ", ".join(self.names) or "none"
                raise LLMQuestionRefused(f"unknown subject {question.subject!r} in this study; available: {available}")
            digest = question.digest
        except ValidationError as error:
            first = error.errors()[0]
            return self._refuse(writer, number, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        except LLMQuestionRefused as error:
            return self._refuse(writer, number, str(error))
        except Exception as error:  # noqa: BLE001  code may send anything
            return self._refuse(writer, number, f"not a valid question ({type(error).__name__})")
        ordinal = self.draw_counts[digest]
        self.draw_counts[digest] += 1
        return self._ask(number, question, ordinal, writer)

    async def _ask(self, number: int, question: LLMQuestion, ordinal: int, writer: asyncio.StreamWriter) -> None:
        try:
            exchange = await self.subjects.ask(self.key, question, ordinal)
            self.answer_counts[question.subject] += 1
            await _send_answer(writer, {"n": number, **exchange.model_dump(mode="json")})
        except (LLMBudgetSpent, LLMQuestionRefused) as error:
            if isinstance(error, LLMBudgetSpent):
                self.budget_message = str(error)
            await self._refuse(writer, number, str(error))
        except Exception as error:  # noqa: BLE001  reported to the runner of the cell, which then ends the run
            self.fatal_error = error
            await self._refuse(writer, number, "the run is ending; its answers are kept")

    async def _refuse(self, writer: asyncio.StreamWriter, number: int, message: str) -> None:
        self._refusals += 1
        await _send_answer(writer, {"n": number, "error": message})


async def _send_answer(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    with suppress(ConnectionError):
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()


@asynccontextmanager
async def serve_session(session: LlmSession, socket: Path) -> AsyncGenerator[LlmSession]:
    """Serve the session on a socket at this path while inside."""
    socket.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(session.serve, path=str(socket), limit=MAX_MESSAGE_BYTES)
    try:
        yield session
    finally:
        server.close()
        await session.close()
        socket.unlink(missing_ok=True)


# Derive predictions from the language model answers that a submission cites. Guarantees: an answer counts only if it
# was committed for this cell. Other submissions of code that queried models are `unattributed`, since their origin is
# unknown. Each answer can be used for only one row. If answers to one question are used for several rows (which
# honest code does only for equal rows), the resulting values are `unattributed` too. Limits: a question need not
# contain its row, and code can make a model repeat the code's own guess. Parse a class or a number from a language
# model's answer, with fixed rules and no model. An answer is accepted only if it is unambiguous: the whole answer or
# one of its sentences is the option, or a short sentence ends with it ("The answer is C.", "Sentiment: positive"). A
# class that is only mentioned ("not A", "A or B") is ignored, and so are several different numbers. Limits: hedged
# statements such as "I doubt it is A" may be misread.

_MAX_REPEATED_SHARE = 0.05
"""Maximum share of rows whose question may also belong to another row, since datasets contain equal rows."""
_MAX_CITATION_BYTES = 32 * 2**20
"""Size limit of a file of ids, each of which becomes a Python object."""


class CitedAnswers(BaseModel):
    """Written by `lab.submit`: ids of the answers for each row, one per draw."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ids: list[list[str]]
    columns: dict[str, list[int]] = Field(default_factory=dict[str, list[int]], max_length=MAX_COLUMNS)


def write_exchange_ids(folder: Path, session: LlmSession) -> str:
    """Write the ids of a cell's answers with their sha256; return the sha256 of that file."""
    ids = [f"{digest}-{ordinal}" for digest, count in sorted(session.draw_counts.items()) for ordinal in range(count)]
    found = [(exchange, session.subjects.find(session.key, exchange)) for exchange in ids]
    lines = [f'{{"id": "{exchange}", "sha256": "{one.sha256}"}}\n' for exchange, one in found if one is not None]
    content = "".join(lines).encode()
    write_file(folder, EXCHANGES_LIST, content)
    return hashlib.sha256(content).hexdigest()


def attribute_answers(folder: Path, labels: Path, session: LlmSession) -> list[str]:
    """Turn cited answers into predictions, mark submissions that cite none, and return notes for the log.

    Raises `SubmissionRefused`.
    """
    notes: list[str] = []
    listed = read_index(folder, SUBMISSION_INDEX)
    made: list[Submission] = []
    for submission in listed:
        if submission.kind == "answers":
            submission, words = _attribute_submission(folder, submission, labels, session)
            notes += words
        elif session.answer_counts:
            submission = submission.model_copy(update={"grade": "unattributed"})
        made.append(submission)
    if made != listed:
        write_file(folder, SUBMISSION_INDEX, "".join(submission.model_dump_json() + "\n" for submission in made))
    return notes


def _attribute_submission(
    folder: Path, submission: Submission, labels: Path, session: LlmSession
) -> tuple[Submission, list[str]]:
    with (
        raise_read_errors_as(f"{submission.description} is not what lab.submit writes", SubmissionRefused),
        open_regular(folder, f"submissions/{submission.file}", _MAX_CITATION_BYTES) as file,
    ):
        cited = CitedAnswers.model_validate_json(file.read())
    truth, facts, _ = read_labels(labels, submission.dataset, submission.split)
    if len(cited.ids) != len(truth):
        raise SubmissionRefused(f"{submission.description}: cites answers for {len(cited.ids)} rows, not {len(truth)}")
    read = build_answer_parser(submission.read, facts.classes, facts.class_names)
    answers = _find_cited_exchanges(submission, cited.ids, session)
    digests = [{draw.id.partition("-")[0] for draw in draws} for draws in answers]
    asked = Counter(question for one in digests for question in one)
    repeated = sum(any(asked[question] > 1 for question in one) for one in digests)
    grade: EvidenceGrade | None = "unattributed" if repeated > _MAX_REPEATED_SHARE * len(answers) else None
    rows = [[read(draw.text + TRUNCATION_MARK * (draw.finish == "length")) for draw in draws] for draws in answers]
    notes = ["many rows cite answers to the same question, so its values are graded unattributed"] if grade else []
    values, unread = _predict_rows(rows, truth, facts.classes, submission)
    if unread:
        effect = "wrong" if facts.classes else "the mean of the others"
        what = f"no answer that can be parsed as {submission.read!r}"
        notes.append(f"{unread} of {len(rows)} rows have {what}; they count as {effect}")
    arrays = {COLUMN_PREFIX + name: np.array(column) for name, column in cited.columns.items()}
    packed = BytesIO()
    np.savez(packed, allow_pickle=False, predictions=values, **arrays)
    name = f"{Path(submission.file).stem}.npz"
    write_file(folder, f"submissions/{name}", packed.getvalue())
    remove_path(folder, f"submissions/{submission.file}")
    made = submission.model_copy(update={"kind": "predictions", "unread": unread, "file": name, "grade": grade})
    return made, [f"{submission.description}: {note}" for note in notes]


def _find_cited_exchanges(
    submission: Submission, ids: Sequence[Sequence[str]], session: LlmSession
) -> list[list[LLMExchange]]:
    """Return the cited exchanges. Raises `SubmissionRefused` for an answer that belongs to another cell or is cited
    twice.
    """
    seen, found = set[str](), list[list[LLMExchange]]()
    for number, draws in enumerate(ids):
        where = f"{submission.description}: row {number} cites"
        if not draws:
            raise SubmissionRefused(f"{where} no answer")
        found.append([])
        for exchange in draws:
            if (answer := session.find_cited(exchange)) is None:
                why = "which is not an answer that a model gave to this cell"
                raise SubmissionRefused(f"{where} {exchange[:60]!r}, {why}")
            if exchange in seen:
                raise SubmissionRefused(f"{where} {exchange!r} again: each answer can serve only one row")
            seen.add(exchange)
            found[-1].append(answer)
    return found


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
    wrong = [(int(label) + 1) % classes for label in truth]
    chosen = [int(vote[0][0]) if vote else other for vote, other in zip(votes, wrong, strict=True)]
    return np.array(chosen), votes.count([])


# --- answers of language models ---------------------------------------------------------------------------------------


TRUNCATION_MARK = "\u2026"
"""Appended to an answer that was cut off at the length limit: a number directly before it may be incomplete."""
_NUMBER = (
    r"(?<![\w.,])[-+]?(?:\d{1,3}(?:,\d{3})+(?!,?\d)(?:\.\d+)?|\d*\.?\d+)(?:[eE][-+]?\d+)?"
    rf"(?![\d{TRUNCATION_MARK}]|[.,]\d)"
)
_LETTER = r"(?<![\w'])[A-Z](?![\w'])"
_MARKUP_CHARS = "*_`\"'()[]{}<>$# \t\r\n"
_MARKUP = f"[{re.escape(_MARKUP_CHARS)}]*"
_LEAD = r"(?:(?:[A-Za-z]+,? ){1,4}is(?: an?| the)?:?|[A-Za-z]+(?: [A-Za-z]+){0,2} ?:)"
"""Text before an option in a sentence that states the answer."""
_MAX_SENTENCE_CHARS = 1000
"""A longer sentence states no option: the patterns take quadratic time."""
_SENTENCE_PATTERN = re.compile(r"[^\n]+?(?:[.!?](?=\s|$)|(?=\n)|$)")
AnswerParser = Callable[[str], float | None]


def build_answer_parser(read: str, classes: int, names: Sequence[str]) -> AnswerParser:
    """Return a parser that maps an answer to a class index or a number, or to None if the answer is missing or
    ambiguous.

    Raises `SubmissionRefused` if `read` does not fit the task.
    """
    how, _, field = read.partition(":")
    if how == "json" and field:
        inner = build_answer_parser("label" if classes else "number", classes, names)
        return lambda text: _parse_json_field(text, field, inner)
    if how == "number":
        return lambda text: _number_to_class(_parse_number(text), classes, names) if classes else _parse_number(text)
    if how == "letter" and classes:
        return lambda text: _parse_letter(text, classes)
    if how == "label" and classes:
        return lambda text: _parse_label(text, classes, names)
    raise SubmissionRefused(f"read={read!r} cannot be used with {'classes' if classes else 'numbers'}")


def _parse_json_field(text: str, field: str, inner: AnswerParser) -> float | None:
    def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a field occurs twice")
        return dict(pairs)

    with suppress(ValueError, RecursionError):
        fields: Any = json.loads(text[text.index("{") : text.rindex("}") + 1], object_pairs_hook=reject_duplicates)
        if isinstance(fields, dict) and isinstance(fields.get(field), str | int | float):  # pyrefly: ignore
            return inner(str(fields[field]))  # pyrefly: ignore
    return None


def _find_stated_option(text: str, option: str, rest: str = "") -> str | None:
    """Return the option (a pattern) that a text states as its answer: a sentence is the option, perhaps after a short
    lead and before a `rest`. None if there is none, or if another option may be stated as well; questions do not count.
    """
    plain = text.replace("\\boxed", "")
    statement = re.compile(
        rf"{_MARKUP}(?:{_LEAD}{_MARKUP})?({option})(?:{_MARKUP}[.!{TRUNCATION_MARK}]*{_MARKUP}|{rest or '(?!)'})"
    )
    rival = re.compile(rf"(?:\bis(?: an?| the)?|:){_MARKUP}({option})|({option})[.):](?=\s|$)")
    sentences = (match[0] for match in _SENTENCE_PATTERN.finditer(plain) if len(match[0]) <= _MAX_SENTENCE_CHARS)
    stated = {match[1] for one in sentences if not one.rstrip().endswith("?") and (match := statement.fullmatch(one))}
    if stated:
        stated |= {match[1] or match[2] for match in rival.finditer(plain)}
    return stated.pop() if len(stated) == 1 else None


def _parse_number(text: str) -> float | None:
    """Return the number stated as the answer, otherwise the only number in the text."""
    plain = text.replace("\u2212", "-")
    if (found := _find_stated_option(plain, _NUMBER)) is None:
        every = {match[0] for match in re.finditer(_NUMBER, plain)}
        found = every.pop() if len(every) == 1 else "nan"
    number = float(found.replace(",", ""))
    return number if abs(number) < 1e100 else None


def _number_to_class(value: float | None, classes: int, names: Sequence[str]) -> float | None:
    """Map a number to a class, by name if all class names are numbers, otherwise by index."""
    if value is None:
        return None
    if names and all(re.fullmatch(_NUMBER, name) for name in names):
        of_value = [float(index) for index, name in enumerate(names) if float(name.replace(",", "")) == value]
        return of_value[0] if len(of_value) == 1 else None
    return value if value == int(value) and 0 <= value < classes else None


def _parse_letter(text: str, classes: int) -> float | None:
    alone = text.replace("\\boxed", "").strip(_MARKUP_CHARS + ".:" + TRUNCATION_MARK).upper()
    letter = alone if len(alone) == 1 else _find_stated_option(text, _LETTER, r"[)*_]*(?:[.):]\s|, | because ).*")
    index = ord(letter or "\0") - ord("A")
    return float(index) if 0 <= index < classes else None


def _parse_label(text: str, classes: int, names: Sequence[str]) -> float | None:
    """Return the class that an answer states. Numbers are accepted if classes have no names or the answer is only a
    number.
    """
    if text.strip() in names:
        return float(names.index(text.strip()))
    plain = text.strip(_MARKUP_CHARS + ".!" + TRUNCATION_MARK)
    if not names or re.fullmatch(_NUMBER, plain):
        return _number_to_class(_parse_number(plain), classes, names)
    folded = [name.casefold() for name in names]
    longest = "|".join(re.escape(name) for name in sorted(folded, key=len, reverse=True))
    found = _find_stated_option(text.casefold(), rf"(?<![\w-])(?:{longest})(?![\w-])", ", .*")
    return float(folded.index(found)) if found is not None and folded.count(found) == 1 else None
