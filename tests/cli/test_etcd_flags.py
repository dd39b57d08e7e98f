"""The ``--etcd-…`` flags: options and errors."""

import sys
from pathlib import Path

import pytest

from pilothouse.apiserver.storage_codec import location_of
from pilothouse.cli import apiserver, up
from pilothouse.cli.etcd_flags import NEEDS_GRPC, etcd_options
from pilothouse.cli.program import UserError
from pilothouse.env import Env
from pilothouse.storage.etcd.options import EtcdOptions, locations_of

SERVER = "--etcd-servers=https://10.0.0.1:2379,https://10.0.0.2:2379"


def test_the_flags_are_upstreams_in_both_commands() -> None:
    names = ["etcd-servers", "etcd-servers-overrides", "etcd-prefix", "etcd-cafile", "etcd-certfile", "etcd-keyfile"]
    for module in (apiserver, up):
        result = [flag.name for flag in module.flag_set("x").groups["etcd"]]
        checks = ["etcd-db-metric-poll-interval", "etcd-healthcheck-timeout", "etcd-readycheck-timeout"]
        checks.append("lease-reuse-duration-seconds")
        encryption = ["encryption-provider-config", "encryption-provider-config-automatic-reload"]
        assert result == [*names, "etcd-compaction-interval", *checks, *encryption, "event-ttl"]


def test_flags_are_converted_to_options() -> None:
    words = [SERVER, "--etcd-prefix=/k", "--etcd-cafile=a", "--etcd-certfile=b", "--etcd-keyfile=c", "--event-ttl=10m"]
    words += ["--encryption-provider-config=e", "--encryption-provider-config-automatic-reload"]
    words += ["--etcd-db-metric-poll-interval=0", "--etcd-healthcheck-timeout=3s", "--etcd-readycheck-timeout=0"]
    words += ["--lease-reuse-duration-seconds=5"]
    options = etcd_options(apiserver.flag_set("x").parse([*words, "--etcd-compaction-interval=0"]))
    assert options == EtcdOptions(
        servers=("https://10.0.0.1:2379", "https://10.0.0.2:2379"),
        prefix="/k",
        ca_file="a",
        cert_file="b",
        key_file="c",
        compaction_interval=0,
        encryption_provider_config="e",
        encryption_automatic_reload=True,
        event_ttl=600,
        db_metric_poll_interval=0,
        healthcheck_timeout=3,
        readycheck_timeout=2,
        lease_reuse_seconds=5,
    )
    assert etcd_options(apiserver.flag_set("x").parse([])) is None


OVERRIDES = (
    "apps/deployments#http://h:1;http://h:2,apps/replicasets#http://h:2;http://h:1,batch/*#http://h:3,/pods#http://h:3,"
    "batch/jobs#http://h:4,/events#https://10.0.0.2:2379;https://10.0.0.1:2379"
)


def test_overrides() -> None:
    options = etcd_options(apiserver.flag_set("x").parse([SERVER, f"--etcd-servers-overrides={OVERRIDES}"]))
    assert options is not None
    assert locations_of(options) == (options.servers, ("http://h:1", "http://h:2"), ("http://h:3",), ("http://h:4",))
    result = location_of(options)
    locations = {
        "apps/deployments/": 1, "apps/replicasets/": 1, "apps/statefulsets/": 0, "batch/cronjobs/": 2, "/pods/": 2,
        "batch/jobs/": 3, "/events/": 0, "/services/": 0, "batch/of-a-definition/": 0, "": 0,
    }  # fmt: skip
    assert {prefix: result(prefix) for prefix in locations} == locations


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--etcd-prefix=/k"], "--etcd-prefix needs --etcd-servers", id="without --etcd-servers"),
        pytest.param(["--etcd-servers=10.0.0.1:x"], "--etcd-servers: '10.0.0.1:x'", id="invalid address"),
        pytest.param(
            ["--etcd-servers-overrides=/events#http://h:1"],
            "--etcd-servers-overrides needs --etcd-servers",
            id="overrides without --etcd-servers",
        ),
        *(
            pytest.param(
                [SERVER, f"--etcd-servers-overrides={text}"],
                "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, "
                "semicolon separated",
                id=f"invalid override: {text}",
            )
            # The rows of TestParseEtcdServersOverrides, and more.
            for text in ("/events/http://h:1", "events#http://h:1", "a/b/c#http://h:1", "/a#x#y", "/a#", "/a#h:1;", ",")
        ),
        pytest.param(
            [SERVER, "--etcd-servers-overrides=/events#h:x"],
            "--etcd-servers: 'h:x'",
            id="invalid address in an override",
        ),
        pytest.param(
            [SERVER, "--etcd-servers-overrides=/events#http://h:1", "--replica-lag=1s"],
            "--replica-lag can't be used with --etcd-servers-overrides",
            id="--replica-lag",
        ),
        pytest.param([SERVER, "--etcd-certfile=a"], "are given together", id="certificate without key"),
        pytest.param(
            ["--encryption-provider-config=x"],
            "--encryption-provider-config needs --etcd-servers",
            id="encryption without etcd",
        ),
        pytest.param(
            [SERVER, "--encryption-provider-config-automatic-reload"],
            "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config",
            id="reload without an encryption configuration",
        ),
    ],
)
def test_invalid_flags(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        etcd_options(apiserver.flag_set("x").parse(words))


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("pilothouse.storage.etcd.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(UserError) as raised:
        apiserver.open_server(Env(), apiserver.flag_set("x").parse([SERVER, "--port=0"]))
    assert str(raised.value) == NEEDS_GRPC


def test_unreachable_etcd_is_named() -> None:
    expected = r"etcd can't be read at http://127\.0\.0\.1:1: rpc error: code = Unavailable"
    with pytest.raises(UserError, match=expected):
        apiserver.open_server(Env(), apiserver.flag_set("x").parse(["--etcd-servers=http://127.0.0.1:1", "--port=0"]))


def test_invalid_configuration_ends_the_start(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    words = [SERVER, "--port=0", f"--encryption-provider-config={path}"]
    with pytest.raises(UserError, match=r"--encryption-provider-config: error while parsing file: .*: no such file"):
        apiserver.open_server(Env(), apiserver.flag_set("x").parse(words))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "pilothouse has stopped. The cluster was in memory, and is gone."),
        (
            ["--data-dir", "keys"],
            "pilothouse has stopped. The cluster is kept: `pilothouse up --data-dir keys` starts it again.",
        ),
        (
            ["--etcd-servers", "http://127.0.0.1:2379"],
            "pilothouse has stopped. The cluster is kept in etcd: `pilothouse up --etcd-servers=http://127.0.0.1:2379` "
            "starts it again.",
        ),
        (
            ["--data-dir=a b", "--etcd-servers=http://a:1,http://b:1", "--etcd-prefix=/x", "--nodes=1"],
            "pilothouse has stopped. The cluster is kept in etcd: `pilothouse up "
            "--etcd-servers=http://a:1,http://b:1 --etcd-prefix=/x '--data-dir=a b'` starts it again.",
        ),
    ],
)
def test_the_end_of_up_says_where_the_cluster_is(words: list[str], expected: str) -> None:
    assert up._cleanup_message(up.flag_set("pilothouse up").parse(words)) == expected
