"""``--audit-policy-file`` and ``--audit-log-*``, from the command line to the log."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.wire import Request
from pilothouse.apiserver.audit.options import AuditLogOptions
from pilothouse.cli import apiserver, kube_apiserver, up
from pilothouse.cli.audit_flags import audit_options
from pilothouse.cli.program import UserError
from pilothouse.env import Env
from pilothouse.env.log_files import Rotation
from pilothouse.env.log_writer import BatchConfig

POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
GROUP = "auditing"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_the_flags_are_those_of_upstream_in_every_command() -> None:
    names = [
        *("audit-policy-file", "audit-log-path", "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize"),
        *("audit-log-compress", "audit-log-format", "audit-log-version", "audit-log-mode"),
        *("audit-log-batch-buffer-size", "audit-log-batch-max-size", "audit-log-batch-max-wait"),
        *("audit-log-batch-throttle-enable", "audit-log-batch-throttle-qps", "audit-log-batch-throttle-burst"),
        *("audit-log-truncate-enabled", "audit-log-truncate-max-batch-size", "audit-log-truncate-max-event-size"),
    ]
    for module in (apiserver, kube_apiserver, up):
        assert [flag.name for flag in module.flag_set("x").groups[GROUP]] == names


def test_defaults_are_upstreams() -> None:
    parsed = apiserver.flag_set("x").parse(["--audit-policy-file=p", "--audit-log-path=l"])
    assert audit_options(parsed) == AuditLogOptions(policy_file="p", path="l")
    assert audit_options(apiserver.flag_set("x").parse([])) is None


def test_every_flag_has_its_effect() -> None:
    words = (
        "--audit-policy-file=p --audit-log-path=l --audit-log-maxage=1 --audit-log-maxbackup=2 --audit-log-maxsize=3 "
        "--audit-log-compress --audit-log-format=legacy --audit-log-mode=batch --audit-log-batch-buffer-size=4 "
        "--audit-log-batch-max-size=5 --audit-log-batch-max-wait=6s --audit-log-batch-throttle-enable "
        "--audit-log-batch-throttle-qps=7.5 --audit-log-batch-throttle-burst=8 --audit-log-truncate-enabled "
        "--audit-log-truncate-max-batch-size=10 --audit-log-truncate-max-event-size=9"
    )
    assert audit_options(apiserver.flag_set("x").parse(words.split())) == AuditLogOptions(
        policy_file="p",
        path="l",
        format="legacy",
        mode="batch",
        rotation=Rotation(max_megabytes=3, max_age_days=1, max_backups=2, compress=True),
        batch=BatchConfig(buffer_size=4, max_batch_size=5, max_batch_wait=6.0, throttle_qps=7.5, throttle_burst=8),
        throttle=True,
        truncate=True,
        truncate_max_event_size=9,
        truncate_max_batch_size=10,
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["--audit-log-path=l", "--audit-log-mode=x", "--audit-log-format=y"],
            'invalid audit log mode x, allowed modes are "batch,blocking,blocking-strict"\n'
            'invalid audit log format y, allowed formats are "legacy,json"',
        ),
        (
            ["--audit-policy-file=/none", "--audit-log-path=l"],
            'loading audit policy file: failed to read file path "/none": open /none: no such file or directory',
        ),
        (
            ["--audit-policy-file={policy}", "--audit-log-path={policy.parent}"],
            "--audit-log-path {policy.parent}: Is a directory",
        ),
    ],
)
async def test_invalid_flags_are_reported_at_the_start(words: list[str], error: str, policy: Path, env: Env) -> None:
    arguments = [word.format(policy=policy) for word in words]
    with pytest.raises(UserError) as caught:
        apiserver.open_server(env, apiserver.flag_set("x").parse(["--port=0", *arguments]))
    assert str(caught.value) == error.format(policy=policy)


def test_log_without_a_policy_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    audit_options(apiserver.flag_set("x").parse(["--audit-log-path=l"]))
    assert "no events will be recorded in --audit-log-path without --audit-policy-file" in capsys.readouterr().err


@pytest.mark.real_loop
async def test_a_served_api_server_records_and_counts(policy: Path, tmp_path: Path, env: Env) -> None:
    log = tmp_path / "logs" / "audit.log"
    words = ["--port=0", f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--authorization-mode=RBAC"]
    served = apiserver.open_server(env, apiserver.flag_set("x").parse(words))
    await served.start()
    transport = served.server.transport("me", ("system:masters",))
    answers = await asyncio.gather(*(transport.request(Request("GET", "/api/v1/namespaces")) for _ in range(50)))
    assert {answer.status for answer in answers} == {200}
    metrics = (await transport.request(Request("GET", "/metrics"))).body.decode()
    watch = await transport.open(Request("GET", "/api/v1/namespaces?watch=1"))
    await served.stop()
    await watch.close()
    events: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    own_events = [event for event in events if event["user"]["username"] == "me"]
    assert [event["verb"] for event in own_events if event["verb"] == "list"] == ["list"] * 50
    assert [event["stage"] for event in own_events if event["verb"] == "watch"] == ["ResponseStarted"]
    counted = next(line for line in metrics.splitlines() if line.startswith("apiserver_audit_event_total "))
    # All that was recorded before its own.
    assert int(counted.split()[1]) == next(at for at, event in enumerate(events) if event["requestURI"] == "/metrics")
