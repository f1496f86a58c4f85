"""Records of finished studies in a folder: written, read, chosen for a study, and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.record.claims.open_questions import (
    MAX_RECALLED,
    MAX_RECORD_BYTES,
    forget_studies,
    hash_idea,
    keep_study,
    read_memory,
    select_studies,
)
from labwright.record.errors import UsageError
from labwright.record.schema.earlier_study import EarlierStudy
from tests.models.ideation_examples import EARLIER_STUDY, TEXT


def make_study(number: int, **changes: object) -> EarlierStudy:
    known = {"id": f"{number:012x}", "run": f"run{number}", "finished_at": float(number)}
    return EARLIER_STUDY.model_copy(update={**known, **changes})


def test_records_are_read_as_they_were_written_newest_first(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    assert read_memory(folder) == ((), ())
    first, second = make_study(1), make_study(2)
    for one in (first, second, first):  # a study that ends twice has one record
        keep_study(folder, one)
    assert read_memory(folder).studies == (second, first)


def test_what_is_no_record_is_named_and_not_followed(tmp_path: Path) -> None:
    kept = keep_study(tmp_path, make_study(1))
    (tmp_path / "copy.json").write_bytes(kept.read_bytes())
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "huge.json").write_text(" " * (MAX_RECORD_BYTES + 1))
    (tmp_path / "link.json").symlink_to(kept)
    found = read_memory(tmp_path)
    assert [one.id for one in found.studies] == [make_study(1).id]
    assert {line.split(" ")[0] for line in found.problems} == {"copy.json", "bad.json", "huge.json", "link.json"}


def test_records_are_deleted_by_id_by_run_or_all(tmp_path: Path) -> None:
    studies = [make_study(number) for number in range(4)]
    for one in studies:
        keep_study(tmp_path, one)
    assert forget_studies(tmp_path, studies[0].id) == (studies[0],)
    assert forget_studies(tmp_path, "run1") == (studies[1],)
    with pytest.raises(UsageError, match="has no record 'run1'"):
        forget_studies(tmp_path, "run1")
    assert len(forget_studies(tmp_path)) == 2 and not list(tmp_path.iterdir())


def test_the_closest_records_come_first_each_with_the_reason() -> None:
    same = make_study(1, idea_sha256=hash_idea(TEXT.idea), title="Of the same text", short_hypothesis="", datasets=())
    data = make_study(2, title="Unlike", short_hypothesis="", datasets=("digits",))
    words = make_study(3, title="Margin schedules", short_hypothesis="", datasets=())
    other = [make_study(number, title="Unlike", short_hypothesis="", datasets=()) for number in range(4, 12)]
    found = select_studies(
        (*other, words, data, same), TEXT.title, idea_sha256=hash_idea(TEXT.idea), datasets=("digits",)
    )
    assert [one.study for one in found[:3]] == [same, data, words] and len(found) == MAX_RECALLED
    assert [one.why for one in found[:4]] == [
        "the same idea",
        "the same data: digits",
        "common words: margin",
        "one of the latest",
    ]
    assert found[3].study.id == make_study(11).id, "of equals the newest"
