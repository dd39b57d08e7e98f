"""``Page``: the application at ``/ui``.

The static files are public: they are the same for every cluster. Data require a session (``sessions``) and a request of
the page itself (``origins``). Nothing here writes to the cluster.
"""

import asyncio
import contextlib
import datetime
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

import msgspec

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.client import Client
from pilothouse.env import Env, Log
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.times import TimeError, parse_time
from pilothouse.serving import mark_authenticated
from pilothouse.serving.exchange import Receive, Scope, Send
from pilothouse.storage import Compacted, FutureRevision
from pilothouse.ui.answers import PageRequest, Rejected, answer, answer_error, answer_json, answer_lines, read_body
from pilothouse.ui.files import load_files
from pilothouse.ui.live import Live, frame
from pilothouse.ui.objects import Objects, time_of
from pilothouse.ui.origins import check_origin
from pilothouse.ui.programs import Programs, Queues, RecentErrors, SchedulingDecisions
from pilothouse.ui.search import Search
from pilothouse.ui.sessions import SESSION_SECONDS, Session, Sessions

with lazy_imports():
    from pilothouse import why

PATH = "/ui"
KEY_HEADER = "x-pilothouse-key"
"""The header with the second secret of a session, besides the cookie."""
_MAX_CONCURRENT_REQUESTS = 4
"""Concurrent responses; further requests wait."""
_MAX_WAITING = 16
_REQUEST_SECONDS = 30.0
_SESSION_CHECK_SECONDS = 5.0

_log = Log("ui")

IsAdministrator = Callable[[Mapping[str, str], bytes | None], bool]
"""Whether the headers of a request, or the certificate of its connection, belong to an administrator. Raises
``StatusError``."""


class _Login(msgspec.Struct):
    token: str


class Page:
    """The page of one server. ``run`` while it is served; ``stop`` ends its streams. ``client`` is used for
    explanations, as ``user``. ``names`` are host names of this machine besides localhost. ``is_administrator`` decides
    who may request a new login link."""

    def __init__(
        self,
        env: Env,
        core: Core,
        *,
        user: str,
        client: Client,
        is_administrator: IsAdministrator,
        names: Iterable[str] = (),
        manager: Queues | None = None,
        decisions: SchedulingDecisions | None = None,
    ) -> None:
        self._env = env
        self._store = core.store
        self._user = user
        self._client = client
        self._is_administrator = is_administrator
        self._names = {"localhost", *(name.lower() for name in names)}
        self.sessions = Sessions(env.monotonic)
        self.live = Live(env, core.store)
        self._errors = RecentErrors()
        self._programs = Programs(env, self.live, self._errors, manager=manager, decisions=decisions)
        self.live.first_frames = self._first_frames
        self._objects = Objects(env, core)
        self._search = Search(env, core, self._objects)
        self._files = load_files()
        self._request_slots = asyncio.Semaphore(_MAX_CONCURRENT_REQUESTS)
        self._waiting = 0
        self._data: Mapping[str, Callable[[PageRequest, Send], Awaitable[None]]] = {
            "api/kinds": self._kinds,
            "api/object": self._object,
            "api/history": self._history,
            "api/search": self._search_results,
            "api/session": self._session,
            "api/state": self._state,
            "api/why": self._why,
        }

    def link(self, url: str) -> str:
        """A link for one login, valid for some minutes. The token is in the fragment, which browsers do not send to
        servers, so it is in no log of a server."""
        return f"{url}{PATH}/#token={self.sessions.new_token()}"

    async def run(self) -> None:
        """Sample controllers and collect errors until cancelled."""
        logger = logging.getLogger("pilothouse")
        logger.addHandler(self._errors)
        try:
            await self._programs.run()
        finally:
            logger.removeHandler(self._errors)

    async def stop(self) -> None:
        """End all streams."""
        await self.live.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request whose path begins with ``/ui``."""
        try:
            await self._answer(scope, receive, send)
        except Rejected as rejected:
            await answer_error(send, rejected.status, rejected.message)
        except StatusError as error:
            await answer_error(send, error.code, error.message)
        except Compacted as compacted:
            message = f"the history begins at resourceVersion {compacted.oldest}"
            await answer_json(send, {"error": message, "begins": str(compacted.oldest)}, 410)
        except FutureRevision as future:
            await answer_error(send, 400, f"the newest resourceVersion is {future.current}")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(PATH)
        request = PageRequest.of(scope, path.removeprefix("/"))
        is_data = request.path.startswith("api/")
        reason = check_origin(request.headers, self._names, scheme=request.scheme, opens_page=not is_data)
        if reason:
            raise Rejected(403, reason)
        if not is_data:
            await self._file(request, send, path)
        elif request.path in ("api/login", "api/link", "api/logout"):
            if request.method != "POST":
                raise Rejected(405, "use POST")
            await self._authenticate(request, scope, receive, send)
        else:
            if request.method != "GET":
                raise Rejected(405, "this page only reads: use GET")
            session = self._session_of(request)
            mark_authenticated(scope)
            if request.path == "api/stream":
                await self._stream(session, receive, send)
            elif request.path in self._data:
                async with self._request_slot():
                    await self._data[request.path](request, send)
            else:
                raise Rejected(404, "not found")

    # Files

    async def _file(self, request: PageRequest, send: Send, path: str) -> None:
        if request.method not in ("GET", "HEAD"):
            raise Rejected(405, "use GET")
        if not path:
            await answer(send, 308, location=f"{PATH}/")
            return
        file = self._files.get(request.path)
        if file is None:
            raise Rejected(404, "not found")
        if request.headers.get("if-none-match") == file.etag:
            await answer(send, 304, etag=file.etag, cache_control="no-cache")
            return
        await answer(send, 200, file.content, content_type=file.content_type, etag=file.etag, cache_control="no-cache")

    # Sessions

    async def _authenticate(self, request: PageRequest, scope: Scope, receive: Receive, send: Send) -> None:
        if request.path == "api/link":
            extension = (scope.get("extensions") or {}).get("tls") or {}
            peer = None if extension.get("refusal") else extension.get("peer")
            if not self._is_administrator(request.headers, None if peer is None else peer.certificate):
                raise Rejected(403, "only members of system:masters may read the page")
            await answer_json(send, {"path": self.link("")}, 201)
        elif request.path == "api/logout":
            self.sessions.log_out(self._session_of(request))
            await answer_json(send, {}, set_cookie=_cookie(request, "", 0))
        else:
            # Browsers send the origin with each POST, so this request is from the page or not from a browser.
            try:
                token = msgspec.json.decode(await read_body(receive), type=_Login).token
            except msgspec.DecodeError as error:
                raise Rejected(400, "a login is JSON with a token") from error
            session = self.sessions.log_in(token)
            if session is None:
                raise Rejected(401, "this link has been used already, or is too old; `pilothouse ui` prints a new one")
            _log.info("Somebody has opened the page", user=self._user)
            cookie = _cookie(request, session.cookie, int(SESSION_SECONDS))
            await answer_json(send, {"key": session.key, "user": self._user}, set_cookie=cookie)

    def _session_of(self, request: PageRequest) -> Session:
        session = self.sessions.find(request.cookie(_cookie_name(request)), request.headers.get(KEY_HEADER, ""))
        if session is None:
            raise Rejected(401, "there is no session; `pilothouse ui` prints a link")
        return session

    # Data

    @contextlib.asynccontextmanager
    async def _request_slot(self) -> AsyncIterator[None]:
        """Limit the number of concurrent responses and their duration."""
        if self._waiting >= _MAX_WAITING:
            raise Rejected(429, "too many requests at a time; try again")
        self._waiting += 1
        try:
            async with asyncio.timeout(_REQUEST_SECONDS), self._request_slots:
                yield
        except TimeoutError:
            raise ConnectionAbortedError("the answer took too long, or was not read in time") from None
        finally:
            self._waiting -= 1

    async def _stream(self, session: Session, receive: Receive, send: Send) -> None:
        reader = self.live.open()
        if reader is None:
            raise Rejected(429, "too many pages are open; close one")
        watching = asyncio.get_running_loop().create_task(self._end(session, receive, reader.close))
        try:
            await answer_lines(send, reader.frames())
        finally:
            self.live.close(reader)
            watching.cancel()

    async def _end(self, session: Session, receive: Receive, close: Callable[[], None]) -> None:
        """End a stream when its client disconnects or its session ends."""
        disconnected = asyncio.get_running_loop().create_task(_disconnected(receive))
        try:
            while not disconnected.done() and self.sessions.is_valid(session):
                await asyncio.wait([disconnected], timeout=_SESSION_CHECK_SECONDS)
        finally:
            disconnected.cancel()
            close()

    async def _session(self, _request: PageRequest, send: Send) -> None:
        await answer_json(send, {"user": self._user})

    async def _kinds(self, _request: PageRequest, send: Send) -> None:
        await answer_json(send, {"kinds": self._search.kinds()})

    async def _search_results(self, request: PageRequest, send: Send) -> None:
        await answer_json(send, await self._search.find(request.query.get("q", "")))

    async def _state(self, request: PageRequest, send: Send) -> None:
        """The whole state at an earlier time."""
        revision, at = self._revision(request)
        await answer_lines(send, self._past(revision, at))

    async def _past(self, revision: int, at: float) -> AsyncIterator[bytes]:
        async for frame_ in self.live.past(revision):
            yield frame_
        for frame_ in self._programs.past(at):
            yield frame_
        yield frame({"revision": str(revision), "time": at, "complete": True})

    async def _object(self, request: PageRequest, send: Send) -> None:
        info, namespace, name, revision = self._object_of(request)
        object_ = self._objects.find(info, namespace, name, revision)
        document = await self._objects.document(object_)
        uid = ((document.get("object") or {}).get("metadata") or {}).get("uid", "")
        document["events"] = await self._objects.events(uid, info.kind, namespace, name, revision)
        document["kind"] = info.kind
        await answer_json(send, document)

    async def _history(self, request: PageRequest, send: Send) -> None:
        info, namespace, name, revision = self._object_of(request)
        object_ = self._objects.find(info, namespace, name, revision)
        await answer_json(send, await self._objects.versions(object_))

    async def _why(self, request: PageRequest, send: Send) -> None:
        info, namespace, name, revision = self._object_of(request)
        time = self._revision(request)[1]
        at = datetime.datetime.fromtimestamp(time, datetime.UTC) if revision else None
        evidence = why.ServerEvidence(self._client, await self._client.discover(), at=revision)
        explanation = await why.explain(evidence, why.Reference(info.group_resource, namespace, name), time=at)
        await answer_json(send, explanation)

    def _object_of(self, request: PageRequest) -> tuple[ResourceInfo, str, str, int]:
        query = request.query
        info = self._objects.info(query.get("group", ""), query.get("resource", ""))
        if info is None:
            raise Rejected(
                404, f"there is no resource {query.get('resource', '')!r} in group {query.get('group', '')!r}"
            )
        name, namespace = query.get("name", ""), query.get("namespace", "") if info.namespaced else ""
        if not name or "/" in name or "/" in namespace or (info.namespaced and not namespace):
            raise Rejected(400, "an object has a name, and a namespace if its kind is namespaced")
        return info, namespace, name, self._revision(request)[0]

    def _revision(self, request: PageRequest) -> tuple[int, float]:
        """The revision for the parameter ``at``, and its time; 0 for now."""
        text = request.query.get("at", "")
        now = self._env.now()
        if not text:
            return 0, now.timestamp()
        if text.isascii() and text.isdigit():
            revision = int(text[:20])
            return revision, self._time_of(revision)
        try:
            at = parse_time(text)
        except TimeError as error:
            raise Rejected(400, f"at must be a resourceVersion or a time: {error}") from error
        if at > now:
            raise Rejected(400, f"{text} is in the future")
        return self._store.revision_at((now - at).total_seconds()), at.timestamp()

    def _time_of(self, revision: int) -> float:
        return time_of(revision, self._store.history_marks(), self._env.now().timestamp())

    def _first_frames(self) -> Iterable[bytes]:
        """The time line as far as the history goes back, and the samples of programs."""
        now = self._env.now().timestamp()
        marks = [(round(now - seconds_ago, 3), revision) for seconds_ago, revision in self._store.history_marks()]
        yield frame({"marks": marks, "retention": self._store.retention.seconds})
        yield from self._programs.first_frames()


def _cookie_name(request: PageRequest) -> str:
    """The cookie's name. Cookies ignore ports, so each server of this machine uses another name. With ``__Host-`` only
    the host itself can set it, over TLS."""
    port = request.headers.get("host", "").rpartition(":")[2]
    name = f"pilothouse-ui-{port}" if port.isdigit() else "pilothouse-ui"
    return f"__Host-{name}" if request.scheme == "https" else name


def _cookie(request: PageRequest, value: str, seconds: int) -> str:
    secure = "; Secure" if request.scheme == "https" else ""
    return f"{_cookie_name(request)}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}"


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
