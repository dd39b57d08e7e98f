"""``RepeatedBodies``: decoded bodies that clients send again and again, as a ReplicaSet does to create its pods."""

from collections import OrderedDict
from typing import Any

import msgspec

from pilothouse.api.schema import Definition
from pilothouse.apiserver.objects import Object

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
MAX_BYTES = 16 * 1024
"""The size of the largest body that is kept."""
_MAX_BODIES = 128
_MAX_HASHES = 1024


class RepeatedBodies:
    """The last bodies that arrived twice, with their documents. Most bodies arrive once, so only a hash is kept of the
    first."""

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._documents: OrderedDict[bytes, tuple[Definition, bytes]] = OrderedDict()
        """Each operation is atomic: the worker uses it, too."""

    def get(self, body: bytes, definition: Definition) -> Object | None:
        """A new copy of the document of this body, which may be changed; None if it is not known."""
        known = self._documents.get(body)
        if known is None or known[0] is not definition:
            return None
        return _decode(known[1])

    def put(self, body: bytes, definition: Definition, document: Object) -> None:
        """Remember the document of a body, which was valid and caused no warnings."""
        if len(body) > MAX_BYTES:
            return
        digest = hash(body)
        if digest not in self._hashes:
            if len(self._hashes) >= _MAX_HASHES:
                self._hashes.clear()
            self._hashes.add(digest)
            return
        if len(self._documents) >= _MAX_BODIES:
            self._documents.popitem(last=False)
        self._documents[body] = definition, _encode(document)
