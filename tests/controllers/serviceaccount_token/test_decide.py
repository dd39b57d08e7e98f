"""Missing data of token Secrets, and the written data: rows of
``pkg/controller/serviceaccount/tokens_controller_test.go`` of v1.36 that need no cluster."""

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.tables import cases

from pilothouse.api.core import Secret, ServiceAccount
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.identity.serviceaccount_token import DESCRIPTOR, TokenOptions
from pilothouse.controllers.identity.serviceaccount_token.controller import signer_of
from pilothouse.controllers.identity.serviceaccount_token.decide import (
    is_referenced_account,
    list_token_secrets,
    missing_keys,
    with_token,
    without_reference,
)
from pilothouse.machinery.jws import Signer, new_key
from pilothouse.runtime.errors import CannotRun
from pilothouse.semantics.service_accounts import SECRET_TYPE

WHOLE: dict[str, bytes | None] = {"token": b"ABC", "ca.crt": b"CA Data", "namespace": b"default"}
AUTHORITY = b"CA Data"


def without(*keys: str) -> dict[str, bytes | None]:
    """The data of a Secret that lacks nothing but these."""
    return {key: value for key, value in WHOLE.items() if key not in keys}


@cases(
    "data, authority, expected",
    {
        "complete": (WHOLE, AUTHORITY, set()),
        "missing token": (without("token"), AUTHORITY, {"token"}),
        "an empty token": ({**WHOLE, "token": b""}, AUTHORITY, {"token"}),
        "a token that is null": ({**WHOLE, "token": None}, AUTHORITY, {"token"}),
        "missing ca.crt": (without("ca.crt"), AUTHORITY, {"ca.crt"}),
        "different ca.crt": ({**WHOLE, "ca.crt": b"mismatched"}, AUTHORITY, {"ca.crt"}),
        "no root CA: any ca.crt": ({**WHOLE, "ca.crt": b"mismatched"}, b"", set()),
        "no root CA: no ca.crt": (without("ca.crt"), b"", set()),
        "missing namespace": (without("namespace"), AUTHORITY, {"namespace"}),
        "custom namespace is kept": ({**WHOLE, "namespace": b"custom"}, AUTHORITY, set()),
        "no data": ({}, AUTHORITY, {"token", "ca.crt", "namespace"}),
    },
)
def test_missing_secret_data(data: dict[str, bytes | None], authority: bytes, expected: set[str]) -> None:
    assert missing_keys(Secret(data=data), authority) == expected


def document(**data: str) -> dict[str, Any]:
    """A stored Secret, with a field that the types lack."""
    return {
        "metadata": {
            "name": "s",
            "namespace": "default",
            "uid": "1",
            "annotations": {"kubernetes.io/service-account.name": "bot", "mine": "x"},
            "managedFields": [],
        },
        "type": SECRET_TYPE,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
        "newer": {"field": 1.0},
    }


def written(**data: str) -> dict[str, Any]:
    """What becomes of it."""
    raw = json.dumps(document(**data)).encode()
    secret = msgspec.json.decode(raw, type=Secret)
    account = ObjectMeta(name="bot", namespace="default", uid="7")
    decoded: dict[str, Any] = json.loads(with_token(raw, secret, account, AUTHORITY, Signer(new_key())))
    return decoded


def test_existing_and_other_data_is_kept() -> None:
    result = written(token="mine", namespace="custom", extra="y")
    decoded = {key: base64.b64decode(value).decode() for key, value in result["data"].items()}
    assert decoded == {"token": "mine", "namespace": "custom", "extra": "y", "ca.crt": "CA Data"}
    assert result["metadata"]["annotations"] == {
        "kubernetes.io/service-account.name": "bot",
        "kubernetes.io/service-account.uid": "7",
        "mine": "x",
    }
    assert result["newer"] == {"field": 1.0}


def test_new_token_claims() -> None:
    token = base64.b64decode(written()["data"]["token"]).decode()
    body = token.split(".")[1]
    decoded = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert decoded["sub"] == "system:serviceaccount:default:bot"
    assert decoded["kubernetes.io/serviceaccount/secret.name"] == "s"
    assert decoded["kubernetes.io/serviceaccount/service-account.uid"] == "7"
    assert not {"exp", "iat", "nbf", "aud"} & set(decoded)


def account(uid: str) -> ServiceAccount:
    """An account of that uid."""
    return ServiceAccount(metadata=ObjectMeta(name="bot", namespace="default", uid=uid))


@cases(
    "reference, uid, expected",
    {
        "matching uid": (account("1"), "1", True),
        "no uid required": (account("1"), "", True),
        "recreated account": (account("2"), "1", False),
        "deleted account": (None, "1", False),
        "missing account": (None, "", False),
    },
)
def test_referenced_service_account(reference: ServiceAccount | None, uid: str, expected: bool) -> None:
    assert is_referenced_account(reference, uid) is expected


def test_secrets_of_a_deleted_account() -> None:
    def secret(name: str, account: str, uid: str, kind: str = SECRET_TYPE) -> Secret:
        annotations = {"kubernetes.io/service-account.name": account, "kubernetes.io/service-account.uid": uid}
        return Secret(metadata=ObjectMeta(name=name, namespace="default", annotations=annotations), type=kind)

    secrets = [
        secret("a", "bot", "1"),
        secret("b", "bot", ""),
        secret("c", "bot", "2"),
        secret("d", "other", "1"),
        secret("e", "bot", "1", "Opaque"),
    ]
    assert [item.metadata.name for item in list_token_secrets("default", "bot", "1", secrets)] == ["a", "b"]


@cases(
    "listed, expected",
    {
        "one of two references": ([{"name": "s"}, {"name": "t", "x": 1}], [{"name": "t", "x": 1}]),
        "single reference": ([{"name": "s"}], None),
        "duplicate reference": ([{"name": "s"}, {"name": "s"}], None),
    },
)
def test_remove_secret_reference(listed: list[dict[str, Any]], expected: list[dict[str, Any]] | None) -> None:
    result = without_reference(json.dumps({"metadata": {"name": "bot"}, "secrets": listed}).encode(), "s")
    assert result is not None
    assert json.loads(result).get("secrets") == expected


@pytest.mark.parametrize("message", [{}, {"secrets": None}, {"secrets": []}, {"secrets": [{"name": "t"}]}])
def test_account_without_the_reference_is_unchanged(message: dict[str, Any]) -> None:
    assert without_reference(json.dumps(message).encode(), "s") is None


def test_private_key_file(tmp_path: Path) -> None:
    file = tmp_path / "sa.key"
    key = new_key()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    assert signer_of(TokenOptions(private_key_file=str(file))).kid == Signer(key).kid
    secret = "c2VjcmV0IHNlY3JldA=="
    file.write_text(f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n")
    with pytest.raises(CannotRun, match="error reading key for service account token controller") as caught:
        signer_of(TokenOptions(private_key_file=str(file)))
    assert secret not in str(caught.value)
    with pytest.raises(CannotRun, match=r"absent: open .*absent: no such file or directory$"):
        signer_of(TokenOptions(private_key_file=str(tmp_path / "absent")))


@cases(
    "options, expected",
    {
        "no key: controller disabled": (TokenOptions(), False),
        "a file": (TokenOptions(private_key_file="x"), True),
        "a key at hand": (TokenOptions(signer=Signer(new_key())), True),
    },
)
def test_controller_requires_a_private_key(options: TokenOptions, expected: bool) -> None:
    assert getattr(options, DESCRIPTOR.switch) is expected
