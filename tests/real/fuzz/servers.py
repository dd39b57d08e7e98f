"""Two servers, asked the same. What a request says of revisions, uids and tokens is each server's own.

In a request ``{rv:NAME}``, ``{old:NAME}``, ``{uid:NAME}`` stand for the revision, the first revision and the uid of an
object, ``{list}`` and ``{continue}`` for the revision and the token of the latest list.
"""

import contextlib
import copy
import http.client
import json
import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

Json = Any
_PLACEHOLDER = re.compile(r"\{(rv|old|uid):([^}]*)\}|\{(list|continue)\}")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request, the same for both servers.

    ``own`` makes the body from the server's own copy of the object ``name``; otherwise it is ``body``.
    """

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    body: Json = None
    own: Callable[[Json], Json] | None = None
    name: str = ""
    content_type: str = "application/json"
    accept: str = "application/json"

    @property
    def kind_of_patch(self) -> str:
        """``merge``, ``strategic``, ``json``, ``apply`` or "" for what is no patch."""
        if self.method != "PATCH":
            return ""
        return self.content_type.removeprefix("application/").split("-")[0]


@dataclass
class Answer:
    """What a server said."""

    code: int
    body: Json
    asked: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the request was granted."""
        return 200 <= self.code < 300


@dataclass
class Known:
    """What one server has said so far in one story."""

    objects: dict[str, Json] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)
    list_revision: str = "1"
    token: str = ""

    def fill(self, text: str) -> str:
        """The text with this server's values."""

        def value(found: re.Match[str]) -> str:
            what, name, other = found.groups()
            if other:
                return self.list_revision if other == "list" else self.token
            if what == "old":
                return self.first.get(name, "1")
            meta = self.objects.get(name, {}).get("metadata", {})
            return str(meta.get("resourceVersion" if what == "rv" else "uid", "none"))

        return _PLACEHOLDER.sub(value, text)

    def learn(self, name: str, answer: Answer) -> None:
        """Remember what an accepted answer says about an object, or about a list."""
        body = answer.body
        if not answer.accepted or not isinstance(body, dict):
            return
        meta = body.get("metadata")
        if not isinstance(meta, dict):
            return
        if "items" in body:
            self.list_revision = meta.get("resourceVersion", self.list_revision)
            self.token = meta.get("continue", "")
        elif body.get("kind") == "PartialObjectMetadata" and name in self.objects:
            self.objects[name] = {**self.objects[name], "metadata": meta}
        elif meta.get("name") == name and body.get("kind") not in ("Status", "Scale", "PartialObjectMetadata"):
            self.objects[name] = body
            self.first.setdefault(name, meta.get("resourceVersion", "1"))


class Asked:
    """A connection to one server."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, token: str) -> None:
        self._place = host, port, context
        self._connection = self._open()
        self._token = token

    def _open(self) -> http.client.HTTPSConnection:
        host, port, context = self._place
        return http.client.HTTPSConnection(host, port, timeout=30, context=context)

    def ask(self, request: Request, known: Known) -> Answer:
        """Send it, filled in with what this server has said before."""
        target = quote(known.fill(request.path))
        if request.query:
            target += "?" + urlencode([(key, known.fill(value)) for key, value in request.query])
        body = request.body
        if request.own is not None:
            body = request.own(copy.deepcopy(known.objects.get(request.name, {})))
        # Without spaces, as clients write it: fieldsV1 in the metadata of a template is the text that came.
        text = None if body is None else known.fill(json.dumps(body, separators=(",", ":")))
        headers = {"Authorization": f"Bearer {self._token}", "Accept": request.accept, "User-Agent": "fuzz/1"}
        if text is not None:
            headers["Content-Type"] = request.content_type
        asked = f"{request.method} {target} {request.content_type if text else ''} {text or ''}"
        for attempt in (0, 1):
            try:
                self._connection.request(request.method, target, None if text is None else text.encode(), headers)
                answer = self._connection.getresponse()
                content = answer.read()
                break
            except (http.client.RemoteDisconnected, ConnectionError):
                # A server may end a connection that was idle.
                self.close()
                self._connection = self._open()
                if attempt:
                    # A Go server does this where a handler panics.
                    return Answer(0, "(the server hung up)", asked)
        try:
            decoded = json.loads(content)
        except ValueError:
            decoded = content.decode(errors="replace")
        return Answer(answer.status, decoded, asked)

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._connection.close()
