"""Takes away tokens that nobody uses: Secrets that releases before v1.24 made for every service account.

Promises: such a Secret is one that its account lists. If its token was not used for the clean-up period, and no pod
names it, it is labelled ``kubernetes.io/legacy-token-invalid-since`` with the date, from when on the API server does
not accept the token; if nobody takes the label off for another such period it is deleted. Nothing is touched before the
API server has taken down for a period who uses what. Secrets that people made are never touched.

Not promised: the hour. It looks when it starts to work, and every 24 hours after that.

Files: ``decide`` what becomes of a Secret, ``controller`` the wiring. docs/controllers/
legacy_serviceaccount_token_cleaner.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import SECRETS, SERVICE_ACCOUNTS
from pilothouse.machinery.flags import DURATION, Flag
from pilothouse.runtime.descriptor import Descriptor, FlagSpec, Watch
from pilothouse.semantics.service_accounts import SECRET_TYPE

SELECTOR = f"type={SECRET_TYPE}"
YEAR = 8760 * 3600.0


class LegacyTokenCleanerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How long a token may be unused, and then invalid, in seconds."""

    period: float = YEAR

    def problems(self) -> list[str]:
        """A period must be one."""
        if self.period > 0:
            return []
        from pilothouse.machinery.durations import format_duration

        return [f"invalid CleanUpPeriod: {format_duration(self.period)}"]


DESCRIPTOR = Descriptor(
    name="legacy-serviceaccount-token-cleaner-controller",
    aliases=("legacy-service-account-token-cleaner",),
    client_name="legacy-service-account-token-cleaner",
    options=LegacyTokenCleanerOptions,
    flags=(
        FlagSpec(
            field="period",
            flag=Flag(
                "legacy-service-account-token-clean-up-period",
                DURATION,
                YEAR,
                "The period of time since the last usage of an legacy service account token before it can be deleted.",
            ),
        ),
    ),
    watches=(Watch(kind=SERVICE_ACCOUNTS), Watch(kind=SECRETS, field_selector=SELECTOR)),
    factory="pilothouse.controllers.identity.legacy_serviceaccount_token_cleaner.controller:build",
)
