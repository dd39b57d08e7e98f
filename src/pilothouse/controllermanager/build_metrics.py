"""The metrics about version and feature gates that all components have.

After component-base's ``metrics/prometheus/{version,feature,compatversion}`` (v0.36). Programs that serve ``/metrics``
call ``install``.
"""

from pilothouse.controllermanager.feature_gates import COMPONENT, FeatureGates, Stage, known_gates
from pilothouse.machinery.metrics import Registry
from pilothouse.machinery.version import version_document

_LABELS = {
    "major": "major",
    "minor": "minor",
    "git_version": "gitVersion",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "build_date": "buildDate",
    "go_version": "goVersion",
    "compiler": "compiler",
    "platform": "platform",
}


def install(registry: Registry, gates: FeatureGates) -> None:
    """Register the metrics of version and feature gates."""
    version = version_document()
    registry.gauge(
        "kubernetes_build_info",
        "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, "
        "build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
        tuple(_LABELS),
    ).labels(*(version[field] for field in _LABELS.values())).set(1)
    registry.gauge(
        "version_info",
        "[ALPHA] Provides the compatibility version info of the component. The component label is the name of the "
        "component, usually kube, but is relevant for aggregated-apiservers.",
        ("component", "binary", "emulation", "min_compat"),
    ).labels(
        COMPONENT,
        f"{version['major']}.{version['minor']}",
        f"{version['emulationMajor']}.{version['emulationMinor']}",
        f"{version['minCompatibilityMajor']}.{version['minCompatibilityMinor']}",
    ).set(1)
    enabled = registry.gauge(
        "kubernetes_feature_enabled",
        "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
    )
    for name, gate in known_gates().items():
        stage = "" if gate.stage is Stage.GA else gate.stage.value
        enabled.labels(name, stage).set(1 if gates.enabled(name) else 0)
