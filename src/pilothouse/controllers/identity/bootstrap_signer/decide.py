"""Which signatures belong beside the text. Pure. Upstream: v1.36 ``pkg/controller/bootstrap/bootstrapsigner.go`` and
``util.go``."""

import datetime
from collections.abc import Iterable, Mapping

from pilothouse.api.core import Secret
from pilothouse.machinery.jws import detached_hs256
from pilothouse.semantics.bootstrap_tokens import signing_secret

TEXT = "kubeconfig"
PREFIX = "jws-kubeconfig-"


def signed(data: Mapping[str, str], secrets: Iterable[Secret], now: datetime.datetime) -> dict[str, str] | None:
    """The ConfigMap's data as it should be: one signature of the text for each token that may sign, and everything that
    is no signature. None if there is no text to be signed."""
    text = data.get(TEXT)
    if text is None:
        return None
    wanted = {key: value for key, value in data.items() if not key.startswith(PREFIX)}
    for secret in secrets:
        token = signing_secret(secret.metadata.name, secret.data, now)
        if token is not None:
            wanted[f"{PREFIX}{token[0]}"] = detached_hs256(text, *token)
    return wanted
