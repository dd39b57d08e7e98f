"""Why an object is as it is, for the page: what ``pilothouse why`` says, without the values of Secrets."""

import hashlib
import secrets
from typing import Any

from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.client import Client
from pilothouse.why import Explanation, Reference, ServerEvidence, explain
from pilothouse.why.evidence import Document, ObjectChange

_SECRETS = "secrets"
_SALT = secrets.token_bytes(16)


class EvidenceWithoutSecrets(ServerEvidence):
    """Secrets with marks in place of their values: the same mark for the same value, so that a change can be seen."""

    async def before(self, change: ObjectChange) -> Document | None:
        return _marked(change.reference, await super().before(change))

    async def after(self, change: ObjectChange) -> Document | None:
        return _marked(change.reference, await super().after(change))

    async def get(self, reference: Reference) -> Document | None:
        return _marked(reference, await super().get(reference))

    async def objects(self, resource: str, namespace: str) -> list[Document]:
        found = await super().objects(resource, namespace)
        reference = Reference(resource, namespace, "")
        return [marked for each in found if (marked := _marked(reference, each)) is not None]


async def explanation(client: Client, info: ResourceInfo, namespace: str, name: str) -> Explanation:
    """Why an object is as it is now, or is gone."""
    evidence = EvidenceWithoutSecrets(client, await client.discover())
    return await explain(evidence, Reference(info.group_resource, namespace, name))


def _marked(reference: Reference, document: Document | None) -> Document | None:
    if document is None or reference.resource != _SECRETS:
        return document
    metadata = dict(document.get("metadata") or {})
    metadata["annotations"] = _marks(metadata.get("annotations"))
    return {**document, "metadata": metadata, "data": _marks(document.get("data"))}


def _marks(values: Any) -> dict[str, str]:
    return {name: _mark(str(value)) for name, value in (values or {}).items()}


def _mark(value: str) -> str:
    """Nobody can compute it who does not have the salt of this process."""
    return f"(hidden, {hashlib.blake2b(value.encode(), key=_SALT, digest_size=2).hexdigest()})"
