"""Rate limiter and writes that the approver and the signer of certificate requests share.

Mirrors v1.36 ``pkg/controller/certificates/certificate_controller.go``.
"""

from collections.abc import Hashable, Mapping

import msgspec

from pilothouse.env import Env
from pilothouse.machinery.splice import Json, replace_fields, take_field
from pilothouse.runtime.rate_limiters import BucketLimiter, ExponentialFailureLimiter, MaxOfLimiter, RateLimiter

QUEUE = "certificate"
WORKERS = 5

_items = msgspec.json.Decoder(list[msgspec.Raw])


def queue_limiter(env: Env) -> RateLimiter[Hashable]:
    """200 ms doubling up to 1000 s per request, and ten per second after the first hundred."""
    return MaxOfLimiter[Hashable](ExponentialFailureLimiter(0.2, 1000.0), BucketLimiter(env, 10.0, 100))


def with_condition(raw: bytes, condition: bytes) -> bytes:
    """The request with one more condition; the rest of its status is not changed."""
    existing = take_field(raw, "status.conditions")
    conditions = [*(_items.decode(existing) if existing is not None else ()), msgspec.Raw(condition)]
    return with_status(raw, {"conditions": msgspec.json.encode(conditions)})


def with_status(raw: bytes, changes: Mapping[str, Json]) -> bytes:
    return replace_fields(raw, {f"status.{name}": value for name, value in changes.items()})
