"""Why an object is not as desired: the newest warning events about it, or about the objects it owns, and the exit codes
of a Job's failed pods, about which there are no warnings.

That the pods of a Deployment fit nowhere is recorded in an event about a pod of one of its ReplicaSets. Events are read
on request, and ``current_events`` chooses those that describe the object as it is.
"""

import re
from collections.abc import Iterable

import msgspec

from pilothouse.api.core import EVENTS, Event, ObjectReference
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import ApiError
from pilothouse.machinery.owners import controller_of
from pilothouse.plane.current_events import CurrentEvents, last_seen

MAX_WARNINGS = 3
_BARE = re.compile(r"Error: \w+")
_GENERATED = "-[bcdfghjklmnpqrstvwxz2456789]{5}"
"""The suffix that the API server appends to generateName (``k8s.io/apimachinery/pkg/util/rand``)."""


class _Terminated(View, frozen=True):
    exit_code: int = 0
    reason: str = ""


class _State(View, frozen=True):
    terminated: _Terminated | None = None


class _ContainerStatus(View, frozen=True):
    name: str = ""
    state: _State = _State()


class _PodStatus(View, frozen=True):
    init_container_statuses: tuple[_ContainerStatus, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _Pod(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _PodStatus = _PodStatus()


_PODS = Kind("", "v1", "pods", "Pod", True, _Pod)


class Warned(msgspec.Struct, frozen=True):
    """A line about events, and what it says apart from the names of the objects, which vary between them."""

    line: str
    statement: tuple[str, str, str]


class Explainer:
    """Reads events, and the objects that they are about, with a client: once, until ``reread``."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._mapper = RestMapper(client)
        self._namespaces: dict[str, CurrentEvents] = {}

    def reread(self) -> None:
        """Forget what was read: the next explanation reads it again."""
        self._namespaces.clear()

    async def warnings(self, kind: str, name: str, namespace: str, uid: str = "") -> list[str]:
        """The newest warnings about an object and its dependents, as lines for people; each names its object. Without
        ``uid``, for an object that does not exist, also those that mention its name.

        That they cannot be read is a line as well.
        """
        return [warned.line for warned in await self.warned(kind, name, namespace, uid)]

    async def warned(self, kind: str, name: str, namespace: str, uid: str = "") -> list[Warned]:
        """The lines of ``warnings``, each with its statement. Messages that are only a reason are after those with
        details."""
        try:
            if namespace not in self._namespaces:
                self._namespaces[namespace] = CurrentEvents(self._client, self._mapper, namespace)
            events = await self._namespaces[namespace].about(ObjectReference(kind=kind, name=name, uid=uid))
        except (ApiError, OSError, LookupError) as error:
            line = f"why is not known: its events could not be read: {error}"
            return [Warned(line, ("", "", line))]
        events.sort(key=_is_bare)
        return _described(events) + (await self._failures(namespace, uid) if kind == "Job" else [])

    async def _failures(self, namespace: str, uid: str) -> list[Warned]:
        """How the containers of a Job's failed pods ended."""
        try:
            pods = (await self._client.list(_PODS, namespace, field_selector="status.phase=Failed")).items
        except (ApiError, OSError) as error:
            line = f"its failed pods could not be read: {error}"
            return [Warned(line, ("", "", line))]
        names: dict[str, list[str]] = {}
        for pod in pods:
            owner = controller_of(pod.metadata)
            if owner is not None and owner.uid == uid:
                for text in _failed_containers(pod):
                    names.setdefault(text, []).append(pod.metadata.name)
        return [
            Warned(f"Pod {_first_of(pod_names)}: {text}", ("Pod", "", text))
            for text, pod_names in list(names.items())[:MAX_WARNINGS]
        ]

    async def normal_events(self, kind: str, name: str, namespace: str) -> list[str]:
        """The newest events about an object itself that are not warnings, as lines. None if they cannot be read; then
        ``warnings`` reports it."""
        try:
            events = (await self._client.list(EVENTS, namespace)).items
        except (ApiError, OSError):
            return []
        about = [event for event in events if (event.involved_object.kind, event.involved_object.name) == (kind, name)]
        normal = sorted((event for event in about if event.type != "Warning"), key=last_seen, reverse=True)
        return [described.line for described in _described(normal)]


def _is_bare(event: Event) -> bool:
    """Whether the message is only a container's reason for waiting (``Error: ImagePullBackOff``). The kubelet records
    the details, such as the image, in another event."""
    return _BARE.fullmatch(event.message) is not None


def _described(events: Iterable[Event]) -> list[Warned]:
    """One for each statement, whatever the number of objects that it is about, with the first of its messages."""
    about: dict[tuple[str, str, str], tuple[str, dict[str, None]]] = {}
    for event in events:
        involved = event.involved_object
        statement = (involved.kind, event.reason, _without_names(event.message, involved))
        about.setdefault(statement, (event.message, {}))[1][involved.name] = None
    described = []
    for statement, (message, names) in list(about.items())[:MAX_WARNINGS]:
        kind, reason, _ = statement
        described.append(Warned(f"{kind} {_first_of(names)}: {reason}: {message}", statement))
    return described


def _failed_containers(pod: _Pod) -> list[str]:
    texts = []
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = container.state.terminated
        if ended is not None and ended.exit_code:
            reason = f" ({ended.reason})" if ended.reason else ""
            texts.append(f"container {container.name} ended with exit code {ended.exit_code}{reason}")
    return texts


def _first_of(names: Iterable[str]) -> str:
    first, *others = names
    return f"{first} and {len(others)} more" if others else first


def _without_names(message: str, about: ObjectReference) -> str:
    """The message without the name and uid of its object, and without names generated from that name, which differ
    between the attempts of a ReplicaSet to create a pod."""
    if about.uid:
        message = message.replace(about.uid, "")
    return re.sub(rf"(?<![\w.-]){re.escape(about.name)}({_GENERATED})?(?![a-z0-9-])", "", message)
