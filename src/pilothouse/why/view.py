"""``View``: one object that is asked about, with all that its explanation may look at; ``Finding``: what was found."""

import datetime
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from pilothouse.why.chain import Chain
from pilothouse.why.evidence import Document, Evidence, ObjectChange, Reference
from pilothouse.why.steps import Step

__all__ = ["Finding", "View", "condition", "controller_of", "is_owned_by", "typed"]

T = TypeVar("T")

_MOST_DEPTH = 4
"""An explanation looks at an object, at what that depends on, and so on, so many times."""


class Finding(msgspec.Struct, frozen=True):
    """In which state an object is, and the steps that say why."""

    state: str
    steps: tuple[Step, ...]


class View:
    """One object. ``now`` is None if it is gone. ``find`` says what there is to say of another one."""

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
        """When it is asked."""
        self.find = find
        """What there is to say of an object: what one waits for often has a reason of its own."""
        self._depth = depth

    @property
    def title(self) -> str:
        """``pod/web-1``."""
        return f"{self.evidence.kind_of(self.reference.resource)}/{self.reference.name}"

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the object that is there."""
        return (self.now or {}).get("metadata") or {}

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the object that is there."""
        return (self.now or {}).get("spec") or {}

    @property
    def status(self) -> dict[str, Any]:
        """The status of the object that is there."""
        return (self.now or {}).get("status") or {}

    @property
    def uid(self) -> str:
        """The uid of the object that is there."""
        return str(self.metadata.get("uid") or "")

    def condition(self, type_: str) -> dict[str, Any]:
        """A condition of the object; empty if it has none of that type."""
        return condition(self.now, type_)

    async def changes(self) -> list[ObjectChange]:
        """The changes of the object that are known, oldest first."""
        return await self.evidence.changes(self.reference)

    def of(self, resource: str, name: str, now: Document | None, *, namespace: str | None = None) -> "View":
        """Another object, in the same namespace unless another is given."""
        place = self.reference.namespace if namespace is None else namespace
        return View(
            self.evidence, self.chain, Reference(resource, place, name), now, self.time, self.find, self._depth + 1
        )

    async def read(self, resource: str, name: str, *, namespace: str | None = None) -> "View":
        """Another object as it is now, in the same namespace unless another is given."""
        place = self.reference.namespace if namespace is None else namespace
        now = await self.evidence.get(Reference(resource, place, name))
        return self.of(resource, name, now, namespace=place)

    async def finding(self) -> Finding:
        """What there is to say of this object, for the explanation of another; nothing if that is too far away."""
        return await self.find(self) if self._depth <= _MOST_DEPTH else Finding("", ())

    async def owned(self, resource: str) -> "list[View]":
        """The objects of a resource in the same namespace that this one controls."""
        documents = await self.evidence.objects(resource, self.reference.namespace)
        return [
            self.of(resource, document["metadata"]["name"], document)
            for document in documents
            if is_owned_by(document, self.uid)
        ]

    def step(self, text: str, *, root: str = "", **details: Any) -> Step:
        """A step about this object that is no change. It is a ``root`` unless something led to it."""
        return Step(
            text=f"{self.title} {text}",
            object=self.title,
            namespace=self.reference.namespace,
            root="" if details.get("because") else root,
            **details,
        )


def typed(document: Document, type_: type[T]) -> T:
    """A document as the struct of its kind."""
    return msgspec.convert(document, type_, strict=False)


def is_owned_by(document: Document, uid: str) -> bool:
    """Whether the object with this uid controls another."""
    references = (document.get("metadata") or {}).get("ownerReferences") or ()
    return any(reference.get("controller") and reference.get("uid") == uid for reference in references)


def condition(document: Document | None, type_: str) -> dict[str, Any]:
    """A condition of an object; empty if it has none of that type."""
    for each in ((document or {}).get("status") or {}).get("conditions") or ():
        if each.get("type") == type_:
            return dict(each)
    return {}


def controller_of(document: Document) -> dict[str, Any]:
    """The owner reference of the controller of an object; empty if it has none."""
    for owner in (document.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return {}
