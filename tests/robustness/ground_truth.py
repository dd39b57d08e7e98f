"""Everything that etcd has stored of the objects, followed through etcd's own gateway and not through the code under
test: what an API server has acknowledged and shown is compared with it."""

import base64
import http.client
import json
import threading
import time
from typing import Any

from tests.robustness.cluster import ETCD, Cluster
from tests.robustness.traffic import LABEL, NAMESPACE
from tests.robustness.watch_guarantees import Stored

from pilothouse.apiserver.storage_codec import ObjectCodec

PREFIX = f"/registry/configmaps/{NAMESPACE}/"
JUNK = "junk/"
_KEY = f"configmaps/{NAMESPACE}/"
_FAILURES = (OSError, http.client.HTTPException, ValueError)


def encoded(text: str) -> str:
    """Bytes encoded for the JSON gateway."""
    return base64.b64encode(text.encode()).decode()


class GroundTruth:
    """Watches etcd from revision 1. ``revision`` is the last one received."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._codec = ObjectCodec()
        self.history: list[Stored] = []
        self.revision = 0
        self.members = 0
        """The number of streams opened."""
        self.error = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ground truth", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def finish(self, revision: int, seconds: float) -> None:
        """Wait for a revision, and stop."""
        deadline = time.monotonic() + seconds
        while self.revision < revision:
            assert not self.error, self.error
            assert time.monotonic() < deadline, f"etcd has shown {self.revision}, and not {revision}"
            time.sleep(0.1)
        self._over.set()
        self._thread.join(30)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                port = self._cluster.layout.port(ETCD[self.members % len(ETCD)], "client")
                self.members += 1
                try:
                    self._follow(port)
                except _FAILURES:
                    self._over.wait(0.2)
        except Exception as error:
            self.error = repr(error)
            raise

    def _follow(self, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        response: http.client.HTTPResponse | None = None
        everything = {"key": "AA==", "range_end": "AA==", "start_revision": str(self.revision + 1)}
        try:
            connection.request("POST", "/v3/watch", json.dumps({"create_request": {**everything, "fragment": True}}))
            response = connection.getresponse()
            fragments: list[Any] = []
            while (line := response.readline()) and not self._over.is_set():
                result = json.loads(line)["result"]
                assert not result.get("compact_revision"), f"etcd was compacted beyond {self.revision}"
                if result.get("canceled"):
                    return
                fragments += result.get("events", ())
                if not result.get("fragment"):
                    self._receive(fragments)
                    fragments = []
        finally:
            if response is not None:
                response.close()
            connection.close()

    def _receive(self, events: list[Any]) -> None:
        """Receive complete revisions."""
        newest = self.revision
        for event in events:
            pair = event["kv"]
            revision = int(pair["mod_revision"])
            if revision <= self.revision:
                continue
            newest = max(newest, revision)
            key = base64.b64decode(pair["key"]).decode(errors="replace")
            if key.startswith(PREFIX):
                deleted = event.get("type") == "DELETE"
                value, label = ("", "") if deleted else self._read(key, base64.b64decode(pair["value"]), revision)
                self.history.append(Stored(revision, key.removeprefix(PREFIX), value, label, deleted))
        self.revision = newest

    def _read(self, key: str, value: bytes, revision: int) -> tuple[str, str]:
        obj = json.loads(self._codec.decode(_KEY + key.removeprefix(PREFIX), value, revision))
        return (obj.get("data") or {}).get("value", ""), (obj["metadata"].get("labels") or {}).get(LABEL, "")
