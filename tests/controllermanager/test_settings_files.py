"""Settings from files: ``--config`` (pilothouse's) and ``--leader-migration-config``, as controller-manager v0.36."""

from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.controllermanager.config_file import add_config
from pilothouse.controllermanager.flags import flag_set, options_from
from pilothouse.controllermanager.leader_migration import Leader, LeaderMigration
from pilothouse.controllermanager.options import Options
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.machinery.flags import FlagError


def start(*words: str) -> Options:
    flags = flag_set("pilothouse manager", DESCRIPTORS)
    return options_from(add_config(flags.parse(words), flags), DESCRIPTORS, flags)


@cases(
    "text, path, value",
    {
        "a boolean": ("leader-elect: false", "leader_election.enabled", False),
        "underscores read as dashes": ("leader_elect: false", "leader_election.enabled", False),
        "a number": ("kube-api-qps: 50", "qps", 50.0),
        "a number as on the command line": ('kube-api-burst: "0x10"', "burst", 16),
        "a duration": ("min-resync-period: 1h30m", "min_resync_period", 5400.0),
        "a list": ('controllers: ["*", "-ttl"]', "controllers", ("*", "-ttl")),
        "a list as on the command line": ('controllers: "*,-ttl"', "controllers", ("*", "-ttl")),
        "an empty list": ("controllers: []", "controllers", ()),
        "a mapping": ("feature-gates: {ComponentFlagz: false}", "serving.flagz", False),
        "list for a mapping": ("feature-gates: [ComponentFlagz=false]", "serving.flagz", None),
        "quoted string": ('cluster-name: "no"', "flag_values.cluster-name", "no"),
        "pairs with commas": (
            'allow-metric-labels: {"m,l": "a,b", "n,l": c}',
            "flag_values.allow-metric-labels",
            '["m,l=a,b","n,l=c"]',
        ),
        "certificates": ('tls-sni-cert-key: ["a,b", "c,d:e"]', "flag_values.tls-sni-cert-key", "[a,b;c,d:e]"),
    },
)
def test_setting_from_the_config_file(tmp_path: Path, text: str, path: str, value: Any) -> None:
    file = tmp_path / "manager.yaml"
    file.write_text(text, encoding="utf-8")
    if value is None:
        with pytest.raises(FlagError, match="expected a single value, found a list"):
            start(f"--config={file}")
        return
    result: Any = start(f"--config={file}")
    for part in path.split("."):
        result = result[part] if isinstance(result, dict) else getattr(result, part)
    assert result == value


def test_command_line_takes_precedence(tmp_path: Path) -> None:
    file = tmp_path / "manager.yaml"
    file.write_text('controllers: ["*", "-ttl"]\nkube-api-qps: 50\n', encoding="utf-8")
    options = start(f"--config={file}", "--controllers=replicaset")
    assert options.controllers == ("replicaset",)
    assert options.qps == 50.0


def test_settings_of_the_file_count_as_set(tmp_path: Path) -> None:
    """So that ignored settings cause a warning, whether in the file or on the command line."""
    file = tmp_path / "manager.yaml"
    file.write_text("cluster-name: c\n", encoding="utf-8")
    flags = flag_set("x", DESCRIPTORS)
    assert add_config(flags.parse([f"--config={file}"]), flags).given == ("config", "cluster-name")


@cases(
    "text, message",
    {
        "an unknown key": ("leader-elekt: false", 'unknown key "leader-elekt"'),
        "a file in the file": ("config: x", 'unknown key "config"'),
        "invalid number": ("kube-api-qps: fast", '"kube-api-qps": strconv.ParseFloat: parsing "fast"'),
        "YAML's booleans for a name": ("cluster-name: no", '"cluster-name": unexpected boolean'),
        "null": ("kubeconfig:", '"kubeconfig": expected a single value, found nothing'),
        "mapping for a value": ("kubeconfig: {a: b}", '"kubeconfig": expected a single value, found a mapping'),
        "a key twice": ("v: 1\nv: 2", 'line 2: key "v" is there twice'),
        "a setting twice": ("kube-api-qps: 1\nkube_api_qps: 2", "are the same setting"),
        "not a mapping": ("- a", "expected one document with a mapping"),
        "two documents": ("a: 1\n---\nb: 2", "expected one document with a mapping"),
        "invalid YAML": ("a: [", "not valid YAML: line 2, column 1: "),
    },
)
def test_unusable_config_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "manager.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FlagError) as caught:
        start(f"--config={file}")
    assert f"--config {file}: " in str(caught.value)
    assert message in str(caught.value)


def test_missing_config_file() -> None:
    with pytest.raises(FlagError, match=r"--config /nope\.yaml: No such file or directory"):
        start("--config=/nope.yaml")


MIGRATION = """
kind: LeaderMigrationConfiguration
apiVersion: controllermanager.config.k8s.io/{version}
leaderName: kcm-to-ccm
{more}
controllerLeaders:
  - name: node-ipam-controller
    component: cloud-controller-manager
  - name: ttl-controller
    component: "*"
"""


@pytest.mark.parametrize(
    ("version", "more"), [("v1", ""), ("v1beta1", "resourceLock: leases"), ("v1alpha1", "resourceLock: endpoints")]
)
def test_leader_migration_api_versions(tmp_path: Path, version: str, more: str) -> None:
    file = tmp_path / "migration.yaml"
    file.write_text(MIGRATION.format(version=version, more=more), encoding="utf-8")
    migration = start("--enable-leader-migration", f"--leader-migration-config={file}").leader_migration
    assert migration == LeaderMigration(
        leader_name="kcm-to-ccm",
        leaders=(Leader("node-ipam-controller", "cloud-controller-manager"), Leader("ttl-controller", "*")),
    )
    assert migration.runs_here("ttl-controller")
    assert not migration.runs_here("node-ipam-controller")
    assert migration.component_of("replicaset-controller") is None


def test_default_leader_migration() -> None:
    migration = start("--enable-leader-migration").leader_migration
    assert migration == LeaderMigration()
    assert migration.component_of("cloud-node-lifecycle-controller") == "*"


def test_disabled_leader_migration_is_not_read() -> None:
    assert start("--leader-migration-config=/nope").leader_migration is None


@cases(
    "text, message",
    {
        "resourceLock in v1": (
            MIGRATION.format(version="v1", more="resourceLock: leases"),
            "strict decoding error: Object contains unknown field `resourceLock`",
        ),
        "a lock of old": (
            MIGRATION.format(version="v1beta1", more="resourceLock: configmaps"),
            "resourceLock: Invalid value: \"configmaps\": resource Lock must be one of 'leases' or 'endpoints'",
        ),
        "missing leaderName": (
            MIGRATION.format(version="v1", more="").replace("kcm-to-ccm", '""'),
            "leaderName: Required value: leaderName must be set",
        ),
        "missing controller name": (
            MIGRATION.format(version="v1", more="").replace("name: ttl-controller", 'name: ""'),
            "controllerLeaders[1].name: Required value: name must be set for ControllerLeaderConfiguration",
        ),
        "unsupported version": (MIGRATION.format(version="v2", more=""), "unexpected config type"),
        "missing kind": ("leaderName: x", "unexpected config type: None, Kind=None"),
        "not a mapping": ("- a", "unable to read leader migration configuration from"),
    },
)
def test_invalid_leader_migration(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "migration.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FlagError) as caught:
        start("--enable-leader-migration", f"--leader-migration-config={file}")
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


def test_allow_metric_labels(tmp_path: Path) -> None:
    """Flag and manifest add up; where both name a label, the flag counts."""
    manifest = tmp_path / "labels.yaml"
    manifest.write_text('"m,code": "200,404"\n"m,verb": get\n', encoding="utf-8")
    result = start(
        f"--allow-metric-labels-manifest={manifest}", "--allow-metric-labels=m,code=200", "--disabled-metrics=a,b"
    ).metrics
    assert result.allowed == {"m": {"code": frozenset({"200"}), "verb": frozenset({"get"})}}
    assert result.disabled == ("a", "b")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--allow-metric-labels=m=1", '"m" must have the format metricName,labelName'),
        ("--allow-metric-labels=a,b,c=1", '"a,b,c" must have the format metricName,labelName'),
        ("--allow-metric-labels-manifest=/nope", "--allow-metric-labels-manifest /nope: "),
    ],
)
def test_invalid_allow_metric_labels(word: str, message: str) -> None:
    with pytest.raises(FlagError) as caught:
        start(word)
    assert message in str(caught.value)
