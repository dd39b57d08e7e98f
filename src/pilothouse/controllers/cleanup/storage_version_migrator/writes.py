"""The one kind of write that all three loops make: the status of a migration, on what the cache shows."""

from pilothouse.api.storagemigration import STORAGE_VERSION_MIGRATIONS
from pilothouse.client import Client
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.runtime import RetryLater


async def write_status(client: Client, name: str, body: bytes) -> None:
    """Raises ``RetryLater`` if the cache was behind: it will show what has become of the migration."""
    try:
        await client.update(STORAGE_VERSION_MIGRATIONS.raw, name, body, subresource="status")
    except (Conflict, NotFound) as error:
        raise RetryLater(str(error)) from error
