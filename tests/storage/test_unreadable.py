"""Undecodable values in the store."""

from typing import NamedTuple

import pytest

from pilothouse.storage.etcd.values import Values
from pilothouse.storage.unreadable import printable_key, why_unreadable


class Pair(NamedTuple):
    key: bytes
    value: bytes
    mod_revision: int = 7


class NoCodec:
    """Of values that are no objects."""

    def encode(self, key: str, value: bytes) -> bytes:
        raise NotImplementedError

    def decode(self, key: str, data: bytes, revision: int) -> bytes:
        raise ValueError("it is no object")

    def with_revision(self, value: bytes, old: int, new: int) -> bytes:
        raise NotImplementedError


@pytest.mark.parametrize("value", [b"damaged", b"k8s:enc:aescbc:v1:key1:data"])
def test_log_lines_truncate_foreign_keys(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    key = "/registry/configmaps/default/" + "x" * 300_000
    result = Values(NoCodec()).decode_blocking(key, Pair(key.encode() + b"\xff", value))
    (line,) = caplog.messages
    assert f'key="{key[:200]}... (300030 characters)"' in line
    assert len(line) < 500
    assert why_unreadable(result) is not None


def test_own_keys_are_logged_completely() -> None:
    key = f"/registry/configmaps/{'n' * 63}/{'x' * 100}"
    assert printable_key(key) == key
