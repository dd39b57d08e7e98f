"""Who sends a request. Authentication makes it, authorization and admission read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ALL_AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as Kubernetes knows one."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def is_in(self, group: str) -> bool:
        """Whether the user belongs to the group."""
        return group in self.groups


ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))
