"""``NoServer``: the reads of an API server for explanations from logs alone, when the cluster is gone: nothing."""

from collections.abc import Sequence

from pilothouse.api.core import Event
from pilothouse.machinery.api_resources import Discovery
from pilothouse.why.evidence import Document, ObjectChange, Reference


class NoServer:
    """As ``ServerEvidence`` of a server of which only the resources are known."""

    def __init__(self, discovery: Discovery) -> None:
        self.unseen: dict[str, None] = {"the state of objects, and events: no cluster was asked": None}
        self.namespaced: list[str] = []
        self._kinds = {resource.group_resource: resource.kind.lower() for resource in discovery.preferred_resources()}
        self._by_kind = {(resource.group, resource.kind): resource.group_resource for resource in discovery.resources()}

    def resource_of(self, api_version: str, kind: str) -> str:
        """The group resource of a kind; empty if it is not built in."""
        return self._by_kind.get((api_version.rpartition("/")[0], kind), "")

    def kind_of(self, resource: str) -> str:
        """The kind of a group resource, in lower case."""
        return self._kinds.get(resource) or resource.partition(".")[0].removesuffix("s")

    @property
    def is_complete(self) -> bool:
        """Always false."""
        return False

    @property
    def has_writes_of_users(self) -> bool:
        """Always false."""
        return False

    @property
    def has_objects(self) -> bool:
        """Always false."""
        return False

    async def changes(self, reference: Reference) -> list[ObjectChange]:
        """None."""
        return []

    async def get(self, reference: Reference) -> Document | None:
        """None: see ``has_objects``."""
        return None

    async def objects(self, resource: str, namespace: str, *, revision: int = 0) -> list[Document]:
        """None."""
        return []

    def is_unreadable(self, reference: Reference) -> bool:
        """Always false: see ``has_objects``."""
        return False

    async def object_at(self, reference: Reference, revision: int) -> Document | None:
        """None."""
        return None

    async def events(self, reference: Reference, uid: str = "") -> list[Event]:
        """None."""
        return []

    async def events_of_namespace(self, namespace: str) -> Sequence[Event]:
        """None."""
        return ()
