"""Exchanges with studied models in a file of lines: batches, killed calls, and reading while they are written."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from labwright.record.llm_calls import EXCHANGES_FILE, LLMCallStore, read_exchanges
from labwright.record.schema.decisions import ChatMessage, Cost, LLMExchange, LLMQuestion

MOST = Cost(usd=1.0, tokens=100)


def question(n: int) -> LLMQuestion:
    return LLMQuestion(subject="small", messages=(ChatMessage(role="user", content=f"{n} \udce9"),))


async def ask(store: LLMCallStore, cell: str, n: int) -> None:
    number = await store.reserve(cell, f"{n:032x}-0", question(n), MOST)
    answer = LLMExchange(id=f"{n:032x}-0", subject="small", text=f"{cell} {n}", model="small-1")
    await store.settle(number, MOST, answer, tokens=(3, 4), usd=0.25, seconds=0.1)


def test_calls_of_one_batch_keep_their_own_answers(tmp_path: Path) -> None:
    async def write() -> None:
        store = LLMCallStore(tmp_path / EXCHANGES_FILE, clock=lambda: 0.0)
        await asyncio.gather(*(ask(store, cell, n) for cell in ("a", "b") for n in range(20)))
        await store.reserve("a", f"{99:032x}-0", question(99), MOST)  # killed before its answer
        assert store.spent == store.index.spent == Cost(usd=11.0, tokens=380)
        await store.close()

    asyncio.run(write())
    index = read_exchanges(tmp_path)
    for cell in ("a", "b"):
        for n in range(20):
            found = index.find_exchange(cell, f"{n:032x}-0")
            assert found is not None and found.text == f"{cell} {n}"
            assert index.read_question(cell, f"{n:032x}-0").messages[0].content == f"{n} ?"
    assert index.find_exchange("a", f"{99:032x}-0") is None and index.spent == Cost(usd=11.0, tokens=380)
    (usage,) = index.usage
    assert (usage.calls, usage.lost, usage.input_tokens, usage.usd, usage.models) == (40, 1, 120, 10.0, ("small-1",))
    assert usage.first == usage.last == "1970-01-01T00:00:00+00:00"
    assert len((tmp_path / EXCHANGES_FILE).read_bytes().splitlines()) < 40, "calls were committed together"


def test_a_reader_reads_on_and_notices_another_file(tmp_path: Path) -> None:
    path = tmp_path / EXCHANGES_FILE

    async def write(*numbers: int) -> None:
        store = LLMCallStore(path)
        for n in numbers:
            await ask(store, "a", n)
        await store.close()

    asyncio.run(write(1, 2))
    first = read_exchanges(tmp_path)
    assert first.usage[0].calls == 2
    asyncio.run(write(3))
    assert read_exchanges(tmp_path) is first and first.usage[0].calls == 3 and first.find_exchange("a", f"{3:032x}-0")
    shutil.copyfile(path, tmp_path / "copy")
    path.unlink()
    assert read_exchanges(tmp_path).usage == ()
    asyncio.run(write(7))
    assert [one.calls for one in read_exchanges(tmp_path).usage] == [1]
