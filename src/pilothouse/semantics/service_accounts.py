"""Service accounts and the Secrets that hold tokens of theirs: names, labels, claims. Pure.

Such tokens are the older kind: they name their Secret, have no end, and are good for as long as they stand in it. After
kubernetes' ``pkg/serviceaccount/legacy.go`` and the apiserver library's ``authentication/serviceaccount`` (v1.36). The
API server, which takes the tokens, and the controllers that fill and clean up the Secrets read this.
"""

from pilothouse.api.core import Secret
from pilothouse.api.meta import ObjectMeta

SECRET_TYPE = "kubernetes.io/service-account-token"  # noqa: S105  # the name of a type
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"
TOKEN_KEY, NAMESPACE_KEY, AUTHORITY_KEY = "token", "namespace", "ca.crt"  # names of fields
LAST_USED = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
"""The ConfigMap in kube-system that says since when the API server writes ``LAST_USED``."""
LEGACY_ISSUER = "kubernetes/serviceaccount"
LEGACY_CLAIMS = "kubernetes.io/serviceaccount"
"""What the names of the claims begin with, which is not the issuer."""


def user_name(namespace: str, name: str) -> str:
    """As whom an account is known."""
    return f"system:serviceaccount:{namespace}:{name}"


def legacy_claims(account: ObjectMeta, secret: str) -> dict[str, str]:
    """What the token in a Secret of that name says, in the order in which it is written."""
    return {
        "iss": LEGACY_ISSUER,
        f"{LEGACY_CLAIMS}/namespace": account.namespace,
        f"{LEGACY_CLAIMS}/secret.name": secret,
        f"{LEGACY_CLAIMS}/service-account.name": account.name,
        f"{LEGACY_CLAIMS}/service-account.uid": account.uid,
        "sub": user_name(account.namespace, account.name),
    }


def belongs_to(secret: Secret, namespace: str, name: str, uid: str) -> bool:
    """Whether a token Secret is that account's: by name, and by uid if it says one."""
    meta = secret.metadata
    return (
        meta.namespace == namespace
        and secret.type == SECRET_TYPE
        and meta.annotations.get(ACCOUNT_NAME) == name
        and meta.annotations.get(ACCOUNT_UID, "") in ("", uid)
    )
