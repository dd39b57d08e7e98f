"""Every duration, rate and numeric flag at 0 and below: upstream's rejections in its words; other values run without a
busy loop.

Upstream: v1.36 ``cmd/kube-controller-manager/app/options`` (``Validate``), and what the controllers do with the values.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.controllermanager.certificates import USERS
from tests.plane.running import running
from tests.tables import cases

from pilothouse.api.core import NAMESPACES
from pilothouse.controllermanager.flags import flag_set, options_from
from pilothouse.controllermanager.options import Options
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, virtual
from pilothouse.machinery.flag_types import DURATION, FLOAT, INT, INT32
from pilothouse.machinery.flags import FlagError
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

RUNS = ""
GREATER = "{flag} must be greater than 0, but got {value}"
GREATER_GOT = "{flag} must be greater than zero, got {value}"
LARGER = "{flag} must be larger than 0, got {value}"
POSITIVE = "must be positive, got {value}"
NO_PERIOD = "invalid CleanUpPeriod: {value}"
WITHIN = "{flag} must not be less than 1, but got {value}"
PER_SECOND = (
    "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to greater than 0; "
    "see --kube-api-burst and --kube-api-qps"
)
RECONCILE = "duration time must be greater than one second as set via command line option reconcile-sync-loop-period"
NO_SERVER = "--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port"
NO_LEASE = "[leaseDuration must be greater than renewDeadline, leaseDuration must be greater than zero]"
NO_DEADLINE = "[renewDeadline must be greater than retryPeriod*JitterFactor, renewDeadline must be greater than zero]"
NO_FLUSH = 'flushFrequency: Invalid value: "{value}": Must be greater than zero'
NO_BLOCK = (
    "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to "
    "--node-cidr-mask-size configured for CIDR family"
)
RANGES = ("--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16")

EXPECTED: dict[str, tuple[str, str]] = {
    "attach-detach-reconcile-sync-period": (RECONCILE, RECONCILE),
    "authentication-token-webhook-cache-ttl": (RUNS, RUNS),
    "authorization-webhook-cache-authorized-ttl": (RUNS, RUNS),
    "authorization-webhook-cache-unauthorized-ttl": (RUNS, RUNS),
    "cluster-signing-duration": (RUNS, RUNS),
    "concurrent-cron-job-syncs": (GREATER, GREATER),
    "concurrent-daemonset-syncs": (GREATER, GREATER),
    "concurrent-deployment-syncs": (RUNS, RUNS),
    "concurrent-device-taint-eviction-syncs": (GREATER_GOT, GREATER_GOT),
    "concurrent-endpoint-syncs": (RUNS, RUNS),
    "concurrent-ephemeralvolume-syncs": (GREATER, GREATER),
    "concurrent-gc-syncs": (RUNS, RUNS),
    "concurrent-horizontal-pod-autoscaler-syncs": (GREATER, GREATER),
    "concurrent-job-syncs": (GREATER, GREATER),
    "concurrent-namespace-syncs": (RUNS, RUNS),
    "concurrent-replicaset-syncs": (RUNS, RUNS),
    "concurrent-resource-quota-syncs": (RUNS, RUNS),
    "concurrent-resourceclaim-syncs": (LARGER, LARGER),
    "concurrent-service-endpoint-syncs": (WITHIN, WITHIN),
    "concurrent-service-syncs": (RUNS, RUNS),
    "concurrent-serviceaccount-token-syncs": (RUNS, RUNS),
    "concurrent-statefulset-syncs": (GREATER, GREATER),
    "concurrent-ttl-after-finished-syncs": (RUNS, RUNS),
    "concurrent-validating-admission-policy-status-syncs": (POSITIVE, POSITIVE),
    "concurrent_rc_syncs": (RUNS, RUNS),
    "controller-shutdown-timeout": (RUNS, RUNS),
    "controller-start-interval": (RUNS, RUNS),
    "endpoint-updates-batch-period": (RUNS, RUNS),
    "endpointslice-updates-batch-period": (RUNS, RUNS),
    "horizontal-pod-autoscaler-cpu-initialization-period": (RUNS, RUNS),
    "horizontal-pod-autoscaler-downscale-stabilization": (RUNS, RUNS),
    "horizontal-pod-autoscaler-initial-readiness-delay": (RUNS, RUNS),
    "horizontal-pod-autoscaler-sync-period": (RUNS, RUNS),
    "horizontal-pod-autoscaler-tolerance": (RUNS, RUNS),
    "kube-api-burst": (PER_SECOND, PER_SECOND),
    "kube-api-qps": (RUNS, RUNS),
    "large-cluster-size-threshold": (RUNS, RUNS),
    "leader-elect-lease-duration": (NO_LEASE, NO_LEASE),
    "leader-elect-renew-deadline": (NO_DEADLINE, NO_DEADLINE),
    "leader-elect-retry-period": ("retryPeriod must be greater than zero", "retryPeriod must be greater than zero"),
    "legacy-service-account-token-clean-up-period": (NO_PERIOD, NO_PERIOD),
    "log-flush-frequency": (NO_FLUSH, NO_FLUSH),
    "max-endpoints-per-slice": (WITHIN, WITHIN),
    "min-resync-period": (RUNS, RUNS),
    "mirroring-concurrent-service-endpoint-syncs": (WITHIN, WITHIN),
    "mirroring-endpointslice-updates-batch-period": (RUNS, RUNS),
    "mirroring-max-endpoints-per-subset": (WITHIN, WITHIN),
    "namespace-sync-period": (RUNS, RUNS),
    "node-cidr-mask-size": (RUNS, RUNS),
    "node-cidr-mask-size-ipv4": (RUNS, RUNS),
    "node-cidr-mask-size-ipv6": (RUNS, RUNS),
    "node-eviction-rate": (RUNS, RUNS),
    "node-monitor-grace-period": (RUNS, RUNS),
    "node-monitor-period": (RUNS, RUNS),
    "node-startup-grace-period": (RUNS, RUNS),
    "pvclaimbinder-sync-period": (RUNS, RUNS),
    "resource-quota-sync-period": (RUNS, RUNS),
    "route-reconciliation-period": (RUNS, RUNS),
    "secondary-node-eviction-rate": (RUNS, RUNS),
    "secure-port": (RUNS, NO_SERVER),
    "terminated-pod-gc-threshold": (RUNS, RUNS),
    "unhealthy-zone-threshold": (RUNS, RUNS),
}
"""By flag: what is wrong with 0, and with -1 or -1s."""

CONTAINER = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
LABELS = {"app": "web"}
POD = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
SELECTED = {"selector": {"matchLabels": LABELS}, "template": POD}
SECONDS = 120
STEPS = 200_000
"""Far more callbacks than any controller here needs, far fewer than one without pauses executes."""

WORLD: list[tuple[str, dict[str, Any]]] = [
    ("/api/v1/nodes", {"metadata": {"name": "silent"}, "spec": {"providerID": "simulated://silent"}}),
    ("/api/v1/namespaces", {"metadata": {"name": "going"}, "spec": {"finalizers": ["somebody.example/else"]}}),
    ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}),
    ("/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "9"}}}),
    (
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "selector": LABELS, "ports": [{"port": 80}]}},
    ),
    (
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {
            "metadata": {"name": "disk"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    ),
    ("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "web"}, "spec": SELECTED}),
    ("/apis/apps/v1/namespaces/default/replicasets", {"metadata": {"name": "old"}, "spec": SELECTED}),
    (
        "/api/v1/namespaces/default/replicationcontrollers",
        {"metadata": {"name": "older"}, "spec": {"selector": LABELS, "template": POD}},
    ),
    (
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        {
            "metadata": {"name": "web"},
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            },
        },
    ),
    (
        "/api/v1/namespaces/default/pods",
        {"metadata": {"name": "single"}, "spec": {"containers": [CONTAINER], "nodeName": "silent"}},
    ),
]
FILES = {
    "cluster-signing-duration": {
        "cluster-signing-cert-file": USERS.certificate,
        "cluster-signing-key-file": USERS.key,
    },
    "concurrent-serviceaccount-token-syncs": {"service-account-private-key-file": USERS.key},
}
"""Flags for the controllers that are otherwise disabled."""
JSON = {"content-type": "application/json"}


def parse(*words: str) -> Options:
    flags = flag_set("pilothouse manager", DESCRIPTORS)
    return options_from(flags.parse(words), DESCRIPTORS, flags)


NUMERIC = {
    flag.name: flag
    for flag in flag_set("pilothouse manager", DESCRIPTORS)
    if flag.type in (DURATION, FLOAT, INT, INT32) and not flag.ignored and not flag.extra
}
"""Upstream's flags that are a number or a period, and do something; without verbosity, which is a level."""

ROWS = [
    pytest.param(flag, value, outcome, id=f"{flag}={value}")
    for flag, outcomes in EXPECTED.items()
    for value, outcome in zip(("0s", "-1s") if NUMERIC[flag].type is DURATION else ("0", "-1"), outcomes, strict=True)
]


def test_table_has_every_numeric_and_duration_flag() -> None:
    assert sorted(EXPECTED) == sorted(NUMERIC)


@pytest.mark.parametrize(("flag", "value", "outcome"), ROWS)
def test_rejected_values_and_errors_are_upstreams(flag: str, value: str, outcome: str) -> None:
    if outcome == RUNS:
        parse(f"--{flag}={value}")
        return
    with pytest.raises(FlagError) as refused:
        parse(f"--{flag}={value}")
    assert str(refused.value) == outcome.format(flag=flag, value=value)


@cases(
    "words, text",
    {
        "one second": (["--attach-detach-reconcile-sync-period=1s"], ""),
        "below one second": (["--attach-detach-reconcile-sync-period=999ms"], RECONCILE),
        "whether it is used or not": (
            ["--attach-detach-reconcile-sync-period=0s", "--disable-attach-detach-reconcile-sync"],
            RECONCILE,
        ),
        "blocks of the usual size": ([*RANGES, "--node-cidr-mask-size=0"], ""),
        "negative mask size": ([*RANGES, "--node-cidr-mask-size=-1"], NO_BLOCK),
        "negative mask size for IPv4": ([*RANGES, "--node-cidr-mask-size-ipv4=-1"], NO_BLOCK),
        "qps and burst 0: client-go's defaults": (["--kube-api-qps=0", "--kube-api-burst=0"], ""),
        "negative qps: no rate limit": (["--kube-api-qps=-1", "--kube-api-burst=0"], ""),
        "default qps, negative burst": (["--kube-api-qps=0", "--kube-api-burst=-1"], PER_SECOND),
    },
)
def test_dependent_values(words: list[str], text: str) -> None:
    if not text:
        parse(*words)
        return
    with pytest.raises(FlagError) as refused:
        parse(*words)
    assert str(refused.value) == text


@cases(
    "words, limits",
    {
        "qps 0: client-go's default": (["--kube-api-qps=0"], (5.0, 30)),
        "qps and burst 0: client-go's defaults": (["--kube-api-qps=0", "--kube-api-burst=0"], (5.0, 10)),
        "negative qps: no rate limit": (["--kube-api-qps=-1"], (-1.0, 30)),
    },
)
def test_invalid_qps(words: list[str], limits: tuple[float, int]) -> None:
    options = parse(*words)
    assert (options.qps, options.burst) == limits


@pytest.mark.parametrize(("flag", "value", "outcome"), [row for row in ROWS if row.values[2] == RUNS])
async def test_accepted_values_run_without_busy_loops(
    env: Env,
    flag: str,
    value: str,
    outcome: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    assert outcome == RUNS
    words = ["--leader-elect=false", "--cloud-loops=simulated", *(RANGES if flag.startswith("route") else ())]
    for kind, file in FILES.get(flag, {}).items():
        (tmp_path / kind).write_bytes(file)
        words.append(f"--{kind}={tmp_path / kind}")
    parsed = parse(f"--{flag}={value}", *words)
    readers = [d for d in DESCRIPTORS if any(spec.flag.name == flag for spec in d.flags)]
    options = msgspec.structs.replace(
        parsed, controllers=tuple(d.name for d in readers) or ("namespace-controller", "replicaset-controller")
    )
    steps = 0
    call_soon = virtual.VirtualLoop.call_soon

    def counted(loop: virtual.VirtualLoop, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        nonlocal steps
        steps += 1
        if steps == STEPS + 1:
            next(iter(loop.tasks)).cancel("something never pauses")
        return call_soon(loop, callback, *args, context=context)

    monkeypatch.setattr(virtual.VirtualLoop, "call_soon", counted)
    caplog.set_level(logging.ERROR, logger="pilothouse")
    plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=0, scheduler=False, manager=options))
    async with running(plane):
        client = plane.client()
        for path, document in WORLD:
            await client.request("POST", path, body=msgspec.json.encode(document), headers=JSON)
        await client.delete(NAMESPACES, "going")
        await asyncio.sleep(SECONDS)
        assert plane.manager is not None
        assert plane.manager.controllers or flag.startswith("node-cidr"), "negative blocks have no ranges"
        assert plane.manager.health.report("healthz", verbose=True).healthy
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
