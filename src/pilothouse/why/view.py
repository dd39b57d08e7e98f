"""``View``: one object and access to everything its explanation reads; ``Finding``: the result of a check."""

import datetime
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from pilothouse.why.chain import Chain
from pilothouse.why.evidence import Document, Evidence, ObjectChange, Reference, conditions_of, mapping_of
from pilothouse.why.steps import Step

__all__ = ["Finding", "View", "condition", "controller_of", "is_finished", "is_owned_by", "typed"]

T = TypeVar("T")

_MAX_DEPTH = 4
"""How many dependencies an explanation follows from object to object."""


class Finding(msgspec.Struct, frozen=True):
    """The state of an object, and the steps that explain it."""

    state: str
    steps: tuple[Step, ...]


class View:
    """One object. ``now`` is None if it does not exist. ``find`` explains another object."""

    def __init__(
        self,
        evidence: Evidence,
        chain: Chain,
        reference: Reference,
        now: Document | None,
        time: datetime.datetime,
        find: "Callable[[View], Awaitable[Finding]]",
        depth: int = 0,
    ) -> None:
        self.evidence = evidence
        self.chain = chain
        self.reference = reference
        self.now = now
        self.time = time
        """The time of the explanation."""
        self.find = find
        """Explains an object that this one depends on."""
        self._depth = depth

    @property
    def title(self) -> str:
        """``pod/web-1``."""
        return f"{self.evidence.kind_of(self.reference.resource)}/{self.reference.name}"

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the existing object; empty if there is none."""
        return (self.now or {}).get("metadata") or {}

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the existing object; empty if there is none."""
        return mapping_of(self.now, "spec")

    @property
    def status(self) -> dict[str, Any]:
        """The status of the existing object; empty if there is none."""
        return mapping_of(self.now, "status")

    @property
    def uid(self) -> str:
        """The uid of the existing object; empty if there is none."""
        return str(self.metadata.get("uid") or "")

    @property
    def is_unreadable(self) -> bool:
        """Whether it is not known if the object exists, since it could not be read."""
        return self.now is None and self.evidence.is_unreadable(self.reference)

    def is_unlisted(self, resource: str) -> bool:
        """Whether listing a resource in the object's namespace failed: some may exist."""
        return self.evidence.is_unreadable(Reference(resource, self.reference.namespace, ""))

    @property
    def conditions(self) -> list[dict[str, Any]]:
        """The conditions of the existing object."""
        return conditions_of(self.now)

    def condition(self, type_: str) -> dict[str, Any]:
        """A condition of the object; empty if it has none of that type."""
        return condition(self.now, type_)

    async def changes(self) -> list[ObjectChange]:
        """The recorded changes of the object and of earlier ones of its name, oldest first."""
        return await self.evidence.changes(self.reference)

    async def own_changes(self) -> list[ObjectChange]:
        """Those of the object alone. Changes whose object is not recorded are included."""
        return [change for change in await self.changes() if not self.uid or change.uid in ("", self.uid)]

    def of(self, resource: str, name: str, now: Document | None, *, namespace: str | None = None) -> "View":
        """The view of another object, by default in the same namespace."""
        target_namespace = self.reference.namespace if namespace is None else namespace
        return View(
            self.evidence,
            self.chain,
            Reference(resource, target_namespace, name),
            now,
            self.time,
            self.find,
            self._depth + 1,
        )

    async def read(self, resource: str, name: str, *, namespace: str | None = None) -> "View":
        """Read another object, by default from the same namespace."""
        target_namespace = self.reference.namespace if namespace is None else namespace
        now = await self.evidence.get(Reference(resource, target_namespace, name))
        return self.of(resource, name, now, namespace=target_namespace)

    async def finding(self) -> Finding:
        """The finding of this object, for the explanation of another; empty beyond ``_MAX_DEPTH``."""
        return await self.find(self) if self._depth <= _MAX_DEPTH else Finding("", ())

    async def owned(self, resource: str) -> "list[View]":
        """The objects of a resource in the same namespace that this one controls."""
        documents = await self.evidence.objects(resource, self.reference.namespace)
        return [
            self.of(resource, document["metadata"]["name"], document)
            for document in documents
            if is_owned_by(document, self.uid)
        ]

    def step(self, text: str, *, root: str = "", **details: Any) -> Step:
        """A step for a state of this object. ``root`` is dropped if ``because`` is given."""
        return Step(
            text=f"{self.title} {text}",
            object=self.title,
            namespace=self.reference.namespace,
            root="" if details.get("because") else root,
            **details,
        )


def typed(document: Document, type_: type[T]) -> T:
    """A document decoded as the struct of its kind."""
    return msgspec.convert(document, type_, strict=False)


def is_owned_by(document: Document, uid: str) -> bool:
    """Whether the object with this uid controls another."""
    references = (document.get("metadata") or {}).get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("uid") == uid for owner in references)


def condition(document: Document | None, type_: str) -> dict[str, Any]:
    """A condition of an object; empty if it has none of that type."""
    return next((dict(entry) for entry in conditions_of(document) if entry.get("type") == type_), {})


def is_finished(pod: Document) -> bool:
    """Whether a pod has succeeded or failed: it uses nothing any more."""
    return mapping_of(pod, "status").get("phase") in ("Succeeded", "Failed")


def controller_of(document: Document) -> dict[str, Any]:
    """The owner reference of the controller of an object; empty if it has none."""
    for owner in (document.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return {}
