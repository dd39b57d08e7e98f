"""The client library: verbs, errors, patches, watches, two transports, credentials.

Programs use a ``Client``. It sends through a ``wire.Transport``: ``RemoteTransport`` (HTTP, created by ``connect``),
the local one of the embedded server, or an ``Interceptor`` around either.
"""

from pilothouse.client.client import Client, default_user_agent
from pilothouse.client.decode import Entry, Page
from pilothouse.client.memo import DecodeMemo
from pilothouse.client.metrics import ClientMetrics
from pilothouse.client.patches import Patch, apply_patch, json_patch, merge_patch, strategic_merge_patch
from pilothouse.client.rate_limit import RateLimiter
from pilothouse.client.requests import Body, NewObject
from pilothouse.client.watch import Watch, WatchEvent

__all__ = [
    "Body",
    "Client",
    "ClientMetrics",
    "DecodeMemo",
    "Entry",
    "NewObject",
    "Page",
    "Patch",
    "RateLimiter",
    "Watch",
    "WatchEvent",
    "apply_patch",
    "default_user_agent",
    "json_patch",
    "merge_patch",
    "strategic_merge_patch",
]
