"""Parse protobuf messages without a schema, to the extent that files of experiment trackers need it."""

from __future__ import annotations

from collections.abc import Iterator

FieldValue = int | bytes
"""The value of a field: a number or bytes."""


def iterate_fields(message: bytes) -> Iterator[tuple[int, FieldValue]]:
    """Yield the number and value of each field. Raises `ValueError` for an invalid message."""
    at = 0
    while at < len(message):
        key, at = _parse_varint(message, at)
        if key & 7 == 0:
            value, at = _parse_varint(message, at)
            yield key >> 3, value
            continue
        if key & 7 == 2:
            size, at = _parse_varint(message, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7, len(message))
        if at + size > len(message):
            raise ValueError("a field exceeds the end of its message")
        yield key >> 3, message[at : at + size]
        at += size


def _parse_varint(message: bytes, at: int) -> tuple[int, int]:
    """Parse a varint and return it with the offset after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        value |= (message[at] & 0x7F) << shift
        at += 1
        if not message[at - 1] & 0x80:
            return value, at
    raise ValueError("a number exceeds the end of its message")
