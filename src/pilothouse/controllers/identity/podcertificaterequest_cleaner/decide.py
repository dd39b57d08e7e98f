"""Whose time is over. Pure. Upstream: v1.36 ``pkg/controller/certificates/cleaner/pcrcleaner.go``."""

import datetime

from pilothouse.api.meta import ObjectMeta

KEPT_FOR = datetime.timedelta(minutes=15)


def is_over(meta: ObjectMeta, now: datetime.datetime) -> bool:
    """Whether the request has been there for so long that the kubelet has given it up, too."""
    return meta.creation_timestamp is not None and now - meta.creation_timestamp >= KEPT_FOR
