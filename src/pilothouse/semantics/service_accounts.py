"""ServiceAccounts and their token Secrets: names, labels, claims. Pure.

These are legacy tokens: they refer to their Secret, do not expire, and are valid as long as the Secret contains them.
After kubernetes' ``pkg/serviceaccount/legacy.go`` and the apiserver library's ``authentication/serviceaccount``
(v1.36). Used by the API server, which accepts the tokens, and by the controllers of the Secrets.
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
"""The ConfigMap in kube-system with the date since which the API server tracks ``LAST_USED``."""
LEGACY_ISSUER = "kubernetes/serviceaccount"
LEGACY_CLAIMS = "kubernetes.io/serviceaccount"
"""The prefix of the claims' names, which is not the issuer."""


def user_name(namespace: str, name: str) -> str:
    """As whom an account is known."""
    return f"system:serviceaccount:{namespace}:{name}"


def legacy_claims(account: ObjectMeta, secret: str) -> dict[str, str]:
    """The claims of the token in a Secret with that name, in the order in which they are encoded."""
    return {
        "iss": LEGACY_ISSUER,
        f"{LEGACY_CLAIMS}/namespace": account.namespace,
        f"{LEGACY_CLAIMS}/secret.name": secret,
        f"{LEGACY_CLAIMS}/service-account.name": account.name,
        f"{LEGACY_CLAIMS}/service-account.uid": account.uid,
        "sub": user_name(account.namespace, account.name),
    }


def belongs_to(secret: Secret, namespace: str, name: str, uid: str) -> bool:
    """Whether a token Secret belongs to that account: by name, and by uid if it has one."""
    meta = secret.metadata
    return (
        meta.namespace == namespace
        and secret.type == SECRET_TYPE
        and meta.annotations.get(ACCOUNT_NAME) == name
        and meta.annotations.get(ACCOUNT_UID, "") in ("", uid)
    )
