"""The fields of a protobuf message, without its schema: as much of the format as trackers' files need."""

from __future__ import annotations

from collections.abc import Iterator

FieldValue = int | bytes
"""Of a field: a number, or bytes."""


def iterate_fields(message: bytes) -> Iterator[tuple[int, FieldValue]]:
    """Number and value of each field. Raises ValueError for what is no protobuf message."""
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
            raise ValueError("a field goes on beyond its message")
        yield key >> 3, message[at : at + size]
        at += size


def _parse_varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where the next field begins."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        value |= (message[at] & 0x7F) << shift
        at += 1
        if not message[at - 1] & 0x80:
            return value, at
    raise ValueError("a number goes on beyond its message")
