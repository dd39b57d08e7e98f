"""Extracts the lines for these tests from complete traces: ``python extract.py FOLDER_WITH_TRACES``.

Kept as they are: the requests of ``USERS``, and of 14-startup those that tell how a manager starts. Left out:
controllers that do not exist here.
"""

import json
import sys
from pathlib import Path

USERS = {
    "01-replicaset-scale": {"replicaset-controller", "generic-garbage-collector"},
    "02-replicaset-adoption": {"replicaset-controller", "generic-garbage-collector"},
    "03-replicaset-quota": {"replicaset-controller", "generic-garbage-collector", "resourcequota-controller"},
    "04a-daemonset-nodes": {"daemon-set-controller", "generic-garbage-collector", "node-controller"},
    "04b-daemonset-maxunavailable": {"daemon-set-controller", "generic-garbage-collector"},
    "04c-daemonset-maxsurge": {"daemon-set-controller", "generic-garbage-collector"},
    "05a-deployment-rolling": {"deployment-controller"},
    "05b-deployment-scale-during-rollout": {"deployment-controller"},
    "05c-deployment-pause-resume": {"deployment-controller"},
    "05d-deployment-recreate": {"deployment-controller"},
    "05e-deployment-delete-foreground": {"replicaset-controller", "generic-garbage-collector"},
    "09-service-endpoints": {
        "endpoint-controller",
        "endpointslice-controller",
        "endpointslicemirroring-controller",
        "generic-garbage-collector",
    },
    "06a-job-success": {"job-controller"},
    "06b-job-backofflimit": {"job-controller"},
    "06c-job-indexed": {"job-controller"},
    "06d-job-ttl": {"job-controller", "ttl-after-finished-controller", "generic-garbage-collector"},
    "06e-job-suspend-resume": {"job-controller"},
    "06f-job-delete-running": {"job-controller", "generic-garbage-collector"},
    "07a-statefulset-ordered": {"statefulset-controller"},
    "07b-statefulset-volumeclaims": {
        "statefulset-controller",
        "expand-controller",
        "persistent-volume-binder",
        "pv-protection-controller",
        "pvc-protection-controller",
    },
    "10a-disruption": {"disruption-controller"},
    "10b-hpa-no-metrics": {"horizontal-pod-autoscaler"},
    "08a-cronjob-minute": {"cronjob-controller"},
    "08b-cronjob-forbid": {"cronjob-controller"},
    "11-namespace-deletion": {"namespace-controller"},
    "12-garbage-collector": {"generic-garbage-collector"},
    "13-node-silent": {"node-controller", "pod-garbage-collector", "replicaset-controller", "ttl-controller"},
    "13b-node-deleted": {"node-controller", "pod-garbage-collector", "replicaset-controller", "ttl-controller"},
    "14-startup": {
        "clusterrole-aggregation-controller",
        "kube-controller-manager",
        "generic-garbage-collector",
        "namespace-controller",
        "resourcequota-controller",
        "service-cidrs-controller",
    },
    "15a-csr": {"certificate-controller"},
    "15b-namespace-defaults": {"root-ca-cert-publisher", "service-account-controller"},
    "15c-clusterrole-aggregation": {"clusterrole-aggregation-controller"},
    "16-leader-election": {"kube-controller-manager"},
}
"""Users whose requests are kept, by scenario."""

ACCOUNTS = {
    "attachdetach-controller",
    "certificate-controller",
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemon-set-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "endpoint-controller",
    "endpointslice-controller",
    "endpointslicemirroring-controller",
    "ephemeral-volume-controller",
    "expand-controller",
    "generic-garbage-collector",
    "horizontal-pod-autoscaler",
    "job-controller",
    "legacy-service-account-token-cleaner",
    "namespace-controller",
    "node-controller",
    "persistent-volume-binder",
    "pod-garbage-collector",
    "pv-protection-controller",
    "pvc-protection-controller",
    "replicaset-controller",
    "replication-controller",
    "resource-claim-controller",
    "resourcequota-controller",
    "root-ca-cert-publisher",
    "service-account-controller",
    "service-cidrs-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
    "volumeattributesclass-protection-controller",
    "validatingadmissionpolicy-status-controller",
}
"""Controllers whose accounts and tokens are in 14-accounts."""

NOT_HERE = {"serviceaccounts", "serviceaccounts/token", "namespaces", "configmaps"}
"""The manager's requests for tokens and delegated authentication in 14-startup."""


def wanted(scenario: str, entry: dict[str, object]) -> bool:
    """Whether the line is kept."""
    if entry["user"] not in USERS[scenario]:
        return False
    return scenario != "14-startup" or entry["verb"] == "watch" or entry["resource"] not in NOT_HERE


def accounts(lines: list[str]) -> list[str]:
    """The manager's requests at startup for the identities of these controllers."""
    kept: list[str] = []
    missing = False
    for line in lines:
        entry = json.loads(line)
        if entry["user"] != "kube-controller-manager" or entry["verb"] == "watch":
            continue
        its_own = entry["resource"].startswith("serviceaccounts") and entry["name"] in ACCOUNTS
        if its_own or (missing and entry["resource"] == "namespaces"):
            kept.append(line)
            missing = entry["code"] == 404
    return kept


def main(folder: Path) -> None:
    """Rewrite every file."""
    for scenario in USERS:
        name = f"{scenario}.jsonl"
        lines = (folder / name).read_text().splitlines(keepends=True)
        kept = [line for line in lines if wanted(scenario, json.loads(line))]
        (Path(__file__).parent / name).write_text("".join(kept))
        if scenario == "14-startup":
            (Path(__file__).parent / "14-accounts.jsonl").write_text("".join(accounts(lines)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
