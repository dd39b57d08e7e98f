"""The account of a token Secret: ``IsServiceAccountToken``, apiserver library
``authentication/serviceaccount/util_test.go`` (v1.36), and the claims of its token: ``pkg/serviceaccount/legacy.go``.
"""

from tests.tables import cases

from pilothouse.api.core import Secret
from pilothouse.api.meta import ObjectMeta
from pilothouse.semantics.service_accounts import ACCOUNT_NAME, ACCOUNT_UID, SECRET_TYPE, belongs_to, legacy_claims


def secret(name: str | None = "bot", uid: str | None = "1", *, kind: str = SECRET_TYPE, space: str = "ns") -> Secret:
    """A Secret with these annotations."""
    given = {ACCOUNT_NAME: name, ACCOUNT_UID: uid}
    annotations = {key: value for key, value in given.items() if value is not None}
    return Secret(metadata=ObjectMeta(name="s", namespace=space, annotations=annotations), type=kind)


@cases(
    "secret_object, expected",
    {
        "name and uid": (secret(), True),
        "name without uid": (secret(uid=None), True),
        "empty uid": (secret(uid=""), True),
        "an account of that name that was": (secret(uid="2"), False),
        "different name": (secret("other"), False),
        "missing name": (secret(None), False),
        "different type": (secret(kind="Opaque"), False),
        "different namespace": (secret(space="other"), False),
    },
)
def test_is_service_account_token(secret_object: Secret, expected: bool) -> None:
    assert belongs_to(secret_object, "ns", "bot", "1") is expected


def test_legacy_token_claims() -> None:
    claims = legacy_claims(ObjectMeta(name="bot", namespace="ns", uid="1"), "s")
    assert list(claims.items()) == [
        ("iss", "kubernetes/serviceaccount"),
        ("kubernetes.io/serviceaccount/namespace", "ns"),
        ("kubernetes.io/serviceaccount/secret.name", "s"),
        ("kubernetes.io/serviceaccount/service-account.name", "bot"),
        ("kubernetes.io/serviceaccount/service-account.uid", "1"),
        ("sub", "system:serviceaccount:ns:bot"),
    ]
