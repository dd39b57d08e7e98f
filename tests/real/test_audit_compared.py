"""The same session on kube-apiserver (v1.20) and on our server: both record the same audit events.

What differs by release is listed in ``DIFFERENCES``, each with its reason. Ids, times and managed fields are not
compared; nor are the messages of failures and their details, which v1.20 does not record.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.programs import pilothouse, until
from tests.real.audit_session import LEVELS, POLICY, TOKENS, AuditedRequest, run
from tests.real_cluster import running

pytestmark = pytest.mark.real(cluster="own")

Event = dict[str, Any]
Events = dict[str, list[Event]]


class Session(NamedTuple):
    """Requests, responses, and the audit events by Audit-ID."""

    answers: dict[str, tuple[AuditedRequest, int]]
    events: Events


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Session]:
    """The sessions with kube-apiserver and with pilothouse."""
    directory = tmp_path_factory.mktemp("audit")
    policy, tokens = directory / "policy.yaml", directory / "tokens.csv"
    policy.write_text(POLICY)
    tokens.write_text(TOKENS)
    flags = [f"--audit-policy-file={policy}", f"--token-auth-file={tokens}"]
    log = directory / "upstream.log"
    with running([*flags, f"--audit-log-path={log}"]) as cluster:
        answers = run(cluster.port, cluster.ca_file)
        _wait_for_the_last(log)
        upstream = Session(answers, _events(log))
    log = directory / "pilothouse.log"
    ready = "API server ready at https://127.0.0.1:[0-9]+"
    own = ["apiserver", "--port=0", f"--kubeconfig={directory / 'kubeconfig'}", "--authorization-mode=RBAC"]
    with pilothouse(directory, *own, *flags, f"--audit-log-path={log}") as program:
        answers = run(int(program.until(ready).rpartition(":")[2]), None)
        _wait_for_the_last(log)
        actual = Session(answers, _events(log))
    return upstream, actual


def _wait_for_the_last(log: Path) -> None:
    until(lambda: '"others-10"' in log.read_text(), "the last request is recorded")


def _events(log: Path) -> Events:
    result: Events = defaultdict(list)
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["auditID"].partition("-")[0] in (*LEVELS, "others"):
            result[event["auditID"]].append(event)
    return result


class Difference(NamedTuple):
    """Where the releases differ: in these fields of these requests' events, or in all of them."""

    why: str
    applies: Callable[[AuditedRequest, int], bool]
    fields: frozenset[str] = frozenset()


def _has(path: str, method: str = "") -> Callable[[AuditedRequest, int], bool]:
    return lambda one, _code: path in one.path and method in ("", one.method)


DIFFERENCES = (
    Difference(
        "v1.20 encodes request objects in the version of the path, and has none for kinds of other groups",
        lambda one, _code: (
            one.path.endswith(("/scale", "/eviction", "/token")) or (one.method == "DELETE" and "/apps/" in one.path)
        ),
        frozenset({"requestObject"}),
    ),
    Difference(
        "delete options without a version of the group of the path are of meta.k8s.io, internal, since v1.36",
        lambda one, _code: one.method == "DELETE" and bool(one.body),
        frozenset({"requestObject"}),
    ),
    Difference(
        "tokens are issued for other audiences here; v1.36 names the account and the credential as well",
        _has("/robot/token"),
        frozenset({"audiences", "metadata", "authentication.kubernetes.io/issued-credential-id"}),
    ),
    Difference(
        "PodSecurity exists since v1.22",
        lambda one, _code: one.method == "POST" and one.path.endswith("/pods"),
        frozenset({"pod-security.kubernetes.io/enforce-policy"}),
    ),
    Difference(
        "namespaces have a label with their name since v1.21", _has("/api/v1/namespaces"), frozenset({"labels"})
    ),
    Difference(
        "v1.20 does not notice that a watch without events has begun",
        _has("watch=1&timeoutSeconds"),
        frozenset({"responseStatus"}),
    ),
    Difference(
        "impersonation is constrained since v1.35, and the event names the mode",
        lambda one, _code: "Impersonate-User" in one.headers,
        frozenset({"authenticationMetadata"}),
    ),
    Difference(
        "the request's timeout is read before authentication since v1.21, and a bad one rejected there",
        _has("timeout=never"),
    ),
    Difference(
        "impersonation without a user is a bad request since v1.36, and was an internal error",
        lambda one, _code: "Impersonate-Group" in one.headers and "Impersonate-User" not in one.headers,
    ),
)
_IDS_AND_TIMES = frozenset(
    {
        *("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields", "generation"),
        *("token", "expirationTimestamp", "requestReceivedTimestamp", "stageTimestamp"),
    }
)
_NOT_IN_V1_20 = frozenset({"message", "details"})


def _scrubbed(value: Any, without: frozenset[str]) -> Any:
    """Without varying values, and without empty ones, of which v1.20 writes more."""
    if isinstance(value, dict):
        remaining = {key: _scrubbed(one, without) for key, one in value.items() if key not in _IDS_AND_TIMES | without}
        return {key: one for key, one in sorted(remaining.items()) if one not in (None, {}, [], "")}
    if isinstance(value, list):
        return [_scrubbed(item, without) for item in value]
    return value


def _compared(event: Event, one: AuditedRequest, code: int) -> Event:
    fields = frozenset[str]().union(*(known.fields for known in DIFFERENCES if known.applies(one, code)))
    remaining: Event = {}
    for key, value in event.items():
        if key in _IDS_AND_TIMES:
            continue
        is_status = key == "responseStatus" or (isinstance(value, dict) and value.get("kind") == "Status")
        remaining[key] = _scrubbed(value, fields | (_NOT_IN_V1_20 if is_status else frozenset()))
    reason = event.get("annotations", {}).get("authorization.k8s.io/reason", "")
    if reason.startswith("RBAC: allowed by"):
        # Which of several bindings is found first is a matter of chance there.
        remaining["annotations"]["authorization.k8s.io/reason"] = "RBAC"
    return {key: value for key, value in remaining.items() if key not in fields and value not in (None, {}, [])}


def _same_requests(sessions: tuple[Session, Session]) -> Iterator[tuple[str, AuditedRequest, int]]:
    upstream, actual = sessions
    for audit_id, (one, code) in actual.answers.items():
        if any(not known.fields and known.applies(one, code) for known in DIFFERENCES):
            continue
        assert upstream.answers[audit_id][1] == code, (audit_id, one)
        yield audit_id, one, code


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LEVELS, "others"])
def test_audit_events_are_kube_apiservers(sessions: tuple[Session, Session], name: str) -> None:
    upstream, actual = sessions
    compared = 0
    for audit_id, one, code in _same_requests(sessions):
        if not audit_id.startswith(f"{name}-"):
            continue
        expected = [_compared(event, one, code) for event in upstream.events.get(audit_id, [])]
        result = [_compared(event, one, code) for event in actual.events.get(audit_id, [])]
        assert result == expected, f"{audit_id}: {one}"
        compared += len(result)
    assert compared == 0 if name == "none" else compared > 10


@pytest.mark.slow
def test_session_covers_every_kind_of_request(sessions: tuple[Session, Session]) -> None:
    upstream, actual = sessions
    assert len(actual.answers) > 200
    assert sum(1 for _ in _same_requests(sessions)) > 200
    codes = {code for _one, code in actual.answers.values()}
    assert {200, 201, 400, 401, 403, 404, 405, 406, 409, 415, 422} <= codes
    stages = {event["stage"] for events in upstream.events.values() for event in events}
    assert stages == {"RequestReceived", "ResponseStarted", "ResponseComplete"}
    levels = {event["level"] for events in actual.events.values() for event in events}
    assert levels == {"Metadata", "Request", "RequestResponse"}


@pytest.mark.slow
def test_every_listed_difference_occurs(sessions: tuple[Session, Session]) -> None:
    upstream, actual = sessions
    for known in DIFFERENCES:
        audit_ids = [audit_id for audit_id, (one, code) in actual.answers.items() if known.applies(one, code)]
        pairs = [(_plain(upstream, audit_id), _plain(actual, audit_id)) for audit_id in audit_ids]
        assert any(a != b for a, b in pairs), known.why


def _plain(session: Session, audit_id: str) -> list[Any]:
    return [_scrubbed(event, _NOT_IN_V1_20) for event in session.events.get(audit_id, [])]
