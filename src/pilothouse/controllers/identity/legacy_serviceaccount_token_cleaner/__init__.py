"""Invalidates and deletes unused token Secrets that Kubernetes before v1.24 created automatically for every
service account.

Behaviour: such a Secret is one that its account lists. If its token was not used for the clean-up period, and no pod
names it, it is labelled ``kubernetes.io/legacy-token-invalid-since`` with the date, from when on the API server does
not accept the token; if the label is not removed for another such period, it is deleted. Nothing is touched before the
API server has taken down for a period who uses what. Secrets that people made are never touched.

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
    """For how many seconds a token may be unused, and then invalid."""

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
        # Started for a namespace when its first Secret is found, and for that namespace alone.
        Watch(kind=PODS_WITH_SECRETS, awaited=False),
    ),
    package=__name__,
)
