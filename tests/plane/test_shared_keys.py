"""Servers that share a directory of keys and start at the same time have the same keys."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pilothouse.env import Env
from pilothouse.plane import served
from pilothouse.serving import certificates


def test_the_first_process_creates_the_keys_and_the_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_authority = certificates.create_authority

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.02)
        return create_authority(*arguments)

    monkeypatch.setattr(certificates, "create_authority", slowly)

    def token(number: int) -> bytes:
        time.sleep(0.02)
        return str(number).encode()

    def keys(number: int) -> tuple[bytes, bytes]:
        authority = served._authority(tmp_path, Env())
        assert authority is not None
        return authority.certificate, served._load_or_create(tmp_path, "admin.token", lambda: token(number))

    with ThreadPoolExecutor(4) as pool:
        result = set(pool.map(keys, range(4)))
    assert len(result) == 1
    assert (tmp_path / "ca.crt").read_bytes() == next(iter(result))[0]
