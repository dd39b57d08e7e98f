"""Invalidates and deletes unused token Secrets that Kubernetes before v1.24 created automatically for every
service account.

Behaviour: an auto-generated token is a Secret in the list of its ServiceAccount. If its token was not used for the
clean-up period, and no pod refers to it, it gets the label ``kubernetes.io/legacy-token-invalid-since`` with the date,
and the API server does not accept the token any more; if the label is not removed within another period, the Secret is
deleted. Nothing is changed before the API server has tracked the usage of tokens for a whole period. Secrets that users
created are never changed.

Not guaranteed: the hour. It runs when the controller starts, and every 24 hours after that.

docs/controllers/legacy_serviceaccount_token_cleaner.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import PODS, SECRETS, SERVICE_ACCOUNTS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import DURATION
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch
from pilothouse.semantics.pod_secrets import SecretsOfPod
from pilothouse.semantics.service_accounts import SECRET_TYPE

with lazy_imports():
    from pilothouse.machinery import durations

SELECTOR = f"type={SECRET_TYPE}"
YEAR = 8760 * 3600.0


class LegacyTokenCleanerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds for which a token may be unused, and then invalid."""

    period: float = YEAR

    def validate(self) -> list[str]:
        if self.period > 0:
            return []
        return [f"invalid CleanUpPeriod: {durations.format_duration(self.period)}"]


PODS_WITH_SECRETS = PODS.read_as(SecretsOfPod)

DESCRIPTOR = Descriptor(
    name="legacy-serviceaccount-token-cleaner-controller",
    aliases=("legacy-service-account-token-cleaner",),
    client_name="legacy-service-account-token-cleaner",
    options=LegacyTokenCleanerOptions,
    flags=(
        flag_spec(
            "period",
            "legacy-service-account-token-clean-up-period",
            DURATION,
            YEAR,
            "The period of time since the last usage of an legacy service account token before it can be deleted.",
        ),
    ),
    watches=(
        Watch(kind=SERVICE_ACCOUNTS),
        Watch(kind=SECRETS, field_selector=SELECTOR),
        # Started for a namespace when its first Secret is found, and only for that namespace.
        Watch(kind=PODS_WITH_SECRETS, awaited=False),
    ),
    package=__name__,
)
