"""The history of changes in pilothouse's API server: who made each, and why (``/debug/history/changes``)."""

import msgspec

from pilothouse.client.client import Client
from pilothouse.client.requests import with_query
from pilothouse.machinery.causes import Origin

PATH = "/debug/history/changes"
_PAGE = 250


class RecordedChange(msgspec.Struct, frozen=True, rename="camel"):
    """One change. ``time`` and ``origin`` are missing if no request caused it."""

    resource_version: str
    type: str
    name: str
    namespace: str = ""
    uid: str = ""
    time: str = ""
    origin: Origin | None = None


class _Page(msgspec.Struct):
    changes: list[RecordedChange]
    more: bool = False


_decode = msgspec.json.Decoder(_Page).decode


async def recorded_changes(
    client: Client,
    group: str,
    resource: str,
    namespace: str = "",
    name: str = "",
    *,
    most: int = 5000,
    since: int = 0,
    before: int = 0,
) -> list[RecordedChange]:
    """The newest changes of a resource, of a namespace or of one object, oldest first; with ``since`` and ``before``
    those between these resourceVersions.

    Raises ``ApiError``: ``NotFound`` from an API server that is not pilothouse's.
    """
    pages: list[list[RecordedChange]] = []
    read, until = 0, str(before or "")
    while read < most:
        limit = min(_PAGE, most - read)
        query = with_query(
            PATH,
            group=group,
            resource=resource,
            namespace=namespace,
            name=name,
            since=str(since or ""),
            before=until,
            limit=limit,
        )
        page = _decode((await client.request("GET", query)).body)
        pages.append(page.changes)
        read += len(page.changes)
        if not page.more:
            break
        until = page.changes[0].resource_version
    return [change for page_changes in reversed(pages) for change in page_changes]
