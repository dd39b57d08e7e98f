"""Logs that are long, damaged, rotated or hostile."""

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.env import Env
from pilothouse.why import Reference
from pilothouse.why.logs import AUDIT, DECISIONS, LogFileError, LogIndex, LogSource
from pilothouse.why.logs.lines import InvalidLineError, read_audit, read_decision

WEB = Reference("deployments.apps", "shop", "web")


def event(second: int = 0, **fields: Any) -> dict[str, Any]:
    """An audit event of kube-apiserver."""
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": f"id-{second}",
        "stage": "ResponseComplete",
        "requestURI": "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=kubectl-set",
        "verb": "patch",
        "user": {"username": "jane", "groups": ["system:authenticated"]},
        "userAgent": "kubectl/v1.31.0 (linux/amd64)",
        "objectRef": {"resource": "deployments", "namespace": "shop", "name": "web", "apiGroup": "apps"},
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": f"2026-11-24T10:{second // 60 % 60:02}:{second % 60:02}.123456Z",
        **fields,
    }


def line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


@asynccontextmanager
async def index_of(*paths: Path, kind: str = AUDIT, seconds: float = 30) -> AsyncIterator[LogIndex]:
    index = LogIndex(Env())
    try:
        await index.read([LogSource(kind, str(path)) for path in paths], seconds=seconds)
        yield index
    finally:
        index.close()


@pytest.mark.real_loop
async def test_rotated_files_and_compressed_ones(tmp_path: Path) -> None:
    (tmp_path / "audit-1.log.gz").write_bytes(gzip.compress(line(event(1)) + line(event(2))))
    (tmp_path / "audit-2.log").write_bytes(line(event(3)))
    (tmp_path / "audit.log").write_bytes(line(event(4)) + line(event(5, objectRef={"resource": "pods"})))
    for paths in ([tmp_path / "audit*"], [tmp_path / "audit.log", *sorted(tmp_path.glob("audit-*"))]):
        async with index_of(*paths) as index:
            assert [item.record.audit_id for item in index.of_object(WEB)] == ["id-1", "id-2", "id-3", "id-4"]
            assert index.unseen == {}


@pytest.mark.real_loop
async def test_damaged_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(line(event(1)) + b"garbage\n" + b'{"verb":"patch"}\n' + line(event(2)) + line(event(3))[:200])
    async with index_of(path) as index:
        assert len(index.of_object(WEB)) == 2
        assert list(index.unseen) == [
            f"audit log {path}: 1 damaged line: the last one is incomplete",
            f"audit log {path}: 2 damaged lines: no event of an audit log in JSON",
        ]


@pytest.mark.real_loop
async def test_log_of_the_wrong_kind_is_damaged(tmp_path: Path) -> None:
    """Causes in a decision log are trusted; those in an audit log are claimed by clients."""
    path = tmp_path / "audit.log"
    path.write_bytes(line(event(1)) * 3)
    async with index_of(path, kind=DECISIONS) as index:
        assert index.of_object(WEB) == []
        assert list(index.unseen) == [f"decision log {path}: 3 damaged lines: no line of a decision log"]


@pytest.mark.real_loop
async def test_reading_time_is_bounded(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.log").write_bytes(line(event(number)) * 10)
    async with index_of(tmp_path / "*.log", seconds=0) as index:
        unread = list(index.unseen)
        assert len(unread) == 3
        assert unread[-1].endswith(": not read, 0 seconds were over before")


@pytest.mark.real_loop
async def test_file_changed_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(line(event(1)) + line(event(2)))
    async with index_of(path) as index:
        path.write_bytes(b"")
        assert index.of_object(WEB) == []
        assert list(index.unseen) == ["lines of logs that were changed while they were read"]


@pytest.mark.real_loop
async def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(LogFileError, match="no file matches"):
        async with index_of(tmp_path / "*.log"):
            pass


@cases(
    "change",
    {
        "a name without end": {"objectRef": {"resource": "pods", "name": "x" * 100_000}},
        "a time in no year": {"requestReceivedTimestamp": "99999-01-01T00:00:00Z"},
        "a time without zone": {"requestReceivedTimestamp": "2026-11-24T10:00:00"},
        "a name that is a number": {"objectRef": {"resource": "pods", "name": 7}},
        "annotations that are a list": {"annotations": []},
        "lone surrogate": {"user": {"username": "\ud800"}},
    },
)
def test_hostile_events_are_invalid(change: dict[str, Any]) -> None:
    text = line(event(1, **change)).replace(b"\\ud800", b"\xed\xa0\x80")
    with pytest.raises(InvalidLineError):
        read_audit(text)


@cases(
    "text",
    {
        "deeply nested": b'{"verb":"patch","responseObject":' + b"[" * 100_000 + b"\n",
        "long number": b'{"verb":"patch","code":' + b"9" * 100_000 + b"}\n",
        "zeros": b"\0" * 1000 + b"\n",
    },
)
def test_hostile_lines_are_invalid(text: bytes) -> None:
    for read in (read_audit, read_decision):
        with pytest.raises(InvalidLineError):
            read(text)


@cases(
    "change",
    {
        "a read": {"verb": "get"},
        "a rejected write": {"responseStatus": {"code": 403}},
        "a dry run": {"requestURI": "/apis/apps/v1/namespaces/shop/deployments/web?dryRun=All"},
        "different stage": {"stage": "RequestReceived"},
        "a Lease": {"objectRef": {"resource": "leases", "name": "x", "apiGroup": "coordination.k8s.io"}},
    },
)
def test_requests_without_changes_are_skipped(change: dict[str, Any]) -> None:
    assert read_audit(line(event(1, **change))) is None


def test_causes_in_an_audit_log_are_bounded() -> None:
    cause = json.dumps({"component": "replicaset-controller", "decision": "x" * 10_000})
    record = read_audit(line(event(1, annotations={"pilothouse.io/cause": cause})))
    assert record is not None
    assert record.cause is None


def decision(time: str, resource: str, name: str, version: int, uid: str, **fields: Any) -> dict[str, Any]:
    """A line of a decision log."""
    return {
        "time": f"2026-11-24T10:{time}.000000Z",
        "verb": "create",
        "resource": resource,
        "namespace": "kube-system",
        "name": name,
        "uid": uid,
        "resourceVersion": str(version),
        "code": 201,
        **fields,
    }


def cluster_lines(minute: int, generation: str, last: int) -> bytes:
    """The decision log of a cluster that ends at the resourceVersion ``last``."""
    web = {"group": "apps", "namespace": "shop"}
    return (
        line(decision(f"{minute:02}:01", "serviceaccounts", "default", 237, f"sa-{generation}"))
        + line(decision(f"{minute:02}:01", "configmaps", "kube-root-ca.crt", 238, f"ca-{generation}"))
        + line(decision(f"{minute:02}:02", "deployments", "web", last, f"web-{generation}", verb="update", **web))
    )


@pytest.mark.real_loop
@cases(
    "first, second",
    {
        "the first one with more writes": (500, 280),
        "the second one with more writes": (280, 500),
    },
)
async def test_of_several_clusters_the_newest(tmp_path: Path, first: int, second: int) -> None:
    log = tmp_path / "decisions.log"
    log.write_bytes(cluster_lines(1, "a", first) + cluster_lines(2, "b", second))
    async with index_of(log, kind=DECISIONS) as index:
        assert [located.record.uid for located in index.of_object(WEB)] == ["web-b"]
        assert index.newest_version == second
        assert list(index.unseen) == [
            "writes before 2026-11-24T10:02:01Z: the logs have those of 2 clusters, and the last began then"
        ]


@pytest.mark.real_loop
async def test_an_object_of_the_beginning_that_was_deleted_and_created_again(tmp_path: Path) -> None:
    log = tmp_path / "decisions.log"
    again = line(decision("03:00", "configmaps", "kube-root-ca.crt", 600, "ca-2"))
    log.write_bytes(cluster_lines(1, "a", 500) + again)
    async with index_of(log, kind=DECISIONS) as index:
        assert [located.record.uid for located in index.of_object(WEB)] == ["web-a"]
        assert not index.unseen


@pytest.mark.real_loop
async def test_an_object_of_the_beginning_that_was_created_again_in_the_newest_cluster(tmp_path: Path) -> None:
    log = tmp_path / "decisions.log"
    again = line(decision("03:00", "configmaps", "kube-root-ca.crt", 300, "ca-2"))
    log.write_bytes(cluster_lines(1, "a", 500) + cluster_lines(2, "b", 280) + again)
    async with index_of(log, kind=DECISIONS) as index:
        assert [located.record.uid for located in index.of_object(WEB)] == ["web-b"]
