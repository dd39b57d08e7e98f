"""The user of a request: name, groups, UID and extra, as set by authentication."""

from collections.abc import Mapping

import msgspec

ALL_AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"


class Identity(msgspec.Struct, frozen=True):
    """A user (``user.Info``)."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))
