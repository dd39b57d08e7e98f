"""What upstream's command lines may say and this release has nothing behind: flags and controllers.

A flag from here is accepted with a warning and changes nothing; so is the name of a controller in ``--controllers``.
Whoever brings a controller gives it a descriptor with its flags; what a descriptor has is no longer taken from here.
Facts: kube-controller-manager v1.36 ``cmd/kube-controller-manager/app/options`` and ``pkg/controller/*/config``.
"""

from collections.abc import Iterator

from pilothouse.machinery.flags import BOOL, DURATION, FLOAT, INT, INT32, IP, STRING, STRINGS, Flag, FlagType

_TYPES = {
    "bool": BOOL,
    "duration": DURATION,
    "float": FLOAT,
    "int": INT,
    "int32": INT32,
    "ip": IP,
    "string": STRING,
    "strings": STRINGS,
    # Read as far as a command line needs it: split at commas, repeatable.
    "ints": FlagType("int32Slice", STRINGS.parse, STRINGS.show, repeats=True),
    "pairs": FlagType("mapStringString", STRINGS.parse, STRINGS.show, repeats=True),
}

_FLAGS = {
    "debugging": "profiling bool true, contention-profiling bool false",
    "leader-migration": "enable-leader-migration bool false, leader-migration-config string",
    "generic": """allocate-node-cidrs bool false, allow-untagged-cloud bool false, cidr-allocator-type string
        RangeAllocator, cloud-config string, cloud-provider string, cluster-cidr string, cluster-name string kubernetes,
        configure-cloud-routes bool true, emulated-version strings, min-compatibility-version strings,
        external-cloud-volume-plugin string, feature-gates pairs, node-monitor-period duration 5s,
        node-sync-period duration 0s, route-reconciliation-period duration 10s""",
    "service-lb-controller": "concurrent-service-syncs int32 1",
    "secure serving": """tls-sni-cert-key strings, tls-cipher-suites strings, tls-curve-preferences ints,
        tls-min-version string, http2-max-streams-per-connection int 0, disable-http2-serving bool false,
        permit-address-sharing bool false, permit-port-sharing bool false""",
    "authentication": """requestheader-allowed-names strings, requestheader-client-ca-file string,
        requestheader-extra-headers-prefix strings x-remote-extra-, requestheader-group-headers strings x-remote-group,
        requestheader-uid-headers strings, requestheader-username-headers strings x-remote-user""",
    "persistentvolume-attach-detach-controller": """attach-detach-reconcile-sync-period duration 1m0s,
        disable-attach-detach-reconcile-sync bool false, disable-force-detach-on-timeout bool false""",
    "certificatesigningrequest-signing-controller": """cluster-signing-cert-file string,
        cluster-signing-key-file string,
        cluster-signing-kubelet-serving-cert-file string, cluster-signing-kubelet-serving-key-file string,
        cluster-signing-kubelet-client-cert-file string, cluster-signing-kubelet-client-key-file string,
        cluster-signing-kube-apiserver-client-cert-file string, cluster-signing-kube-apiserver-client-key-file string,
        cluster-signing-legacy-unknown-cert-file string, cluster-signing-legacy-unknown-key-file string,
        cluster-signing-duration duration 8760h0m0s""",
    "deployment-controller": "concurrent-deployment-syncs int32 5",
    "device-taint-eviction-controller": "concurrent-device-taint-eviction-syncs int32 8",
    "resourceclaim-controller": "concurrent-resourceclaim-syncs int32 50",
    "statefulset-controller": "concurrent-statefulset-syncs int32 5",
    "daemonset-controller": "concurrent-daemonset-syncs int32 2",
    "endpoints-controller": "concurrent-endpoint-syncs int32 5, endpoint-updates-batch-period duration 0s",
    "endpointslice-controller": """concurrent-service-endpoint-syncs int32 5, max-endpoints-per-slice int32 100,
        endpointslice-updates-batch-period duration 0s""",
    "endpointslice-mirroring-controller": """mirroring-concurrent-service-endpoint-syncs int32 5,
        mirroring-max-endpoints-per-subset int32 1000, mirroring-endpointslice-updates-batch-period duration 0s""",
    "ephemeral-volume-controller": "concurrent-ephemeralvolume-syncs int32 5",
    "horizontal-pod-autoscaler-controller": """concurrent-horizontal-pod-autoscaler-syncs int32 5,
        horizontal-pod-autoscaler-sync-period duration 15s,
        horizontal-pod-autoscaler-downscale-stabilization duration 5m0s, horizontal-pod-autoscaler-tolerance float 0.1,
        horizontal-pod-autoscaler-cpu-initialization-period duration 5m0s,
        horizontal-pod-autoscaler-initial-readiness-delay duration 30s""",
    "job-controller": "concurrent-job-syncs int32 5",
    "cronjob-controller": "concurrent-cron-job-syncs int32 5",
    "legacy-serviceaccount-token-cleaner-controller": "legacy-service-account-token-clean-up-period duration 8760h0m0s",
    "node-ipam-controller": """service-cluster-ip-range string, node-cidr-mask-size int32 0,
        node-cidr-mask-size-ipv4 int32 0, node-cidr-mask-size-ipv6 int32 0""",
    "node-lifecycle-controller": """node-monitor-grace-period duration 50s, node-startup-grace-period duration 1m0s,
        node-eviction-rate float 0.1, secondary-node-eviction-rate float 0.01, large-cluster-size-threshold int32 50,
        unhealthy-zone-threshold float 0.55""",
    "persistentvolume-binder-controller": """pvclaimbinder-sync-period duration 15s,
        enable-dynamic-provisioning bool true, enable-hostpath-provisioner bool false,
        flex-volume-plugin-dir string /usr/libexec/kubernetes/kubelet-plugins/volume/exec/,
        pv-recycler-pod-template-filepath-nfs string, pv-recycler-minimum-timeout-nfs int32 300,
        pv-recycler-increment-timeout-nfs int32 30, pv-recycler-pod-template-filepath-hostpath string,
        pv-recycler-minimum-timeout-hostpath int32 60, pv-recycler-timeout-increment-hostpath int32 30""",
    "pod-garbage-collector-controller": "terminated-pod-gc-threshold int32 12500",
    "replicationcontroller-controller": "concurrent_rc_syncs int32 5",
    "resourcequota-controller": "concurrent-resource-quota-syncs int32 5, resource-quota-sync-period duration 5m0s",
    "serviceaccount-controller": """service-account-private-key-file string,
        concurrent-serviceaccount-token-syncs int32 5, root-ca-file string""",
    "ttl-after-finished-controller": "concurrent-ttl-after-finished-syncs int32 5",
    "validatingadmissionpolicy-status-controller": """concurrent-validating-admission-policy-status-syncs int32 5""",
    "metrics": """allow-metric-labels pairs, allow-metric-labels-manifest string, disabled-metrics strings,
        show-hidden-metrics-for-version string""",
    "logs": """log-flush-frequency duration 5s, log-json-info-buffer-size string 0, log-json-split-stream bool false,
        log-text-info-buffer-size string 0, log-text-split-stream bool false, logging-format string text,
        vmodule strings""",
}

_CONTROLLERS = """
replicationcontroller-controller=replicationcontroller deployment-controller=deployment
statefulset-controller=statefulset daemonset-controller=daemonset job-controller=job cronjob-controller=cronjob
ttl-after-finished-controller=ttl-after-finished horizontal-pod-autoscaler-controller=horizontalpodautoscaling
disruption-controller=disruption podgroup-protection-controller endpoints-controller=endpoint
endpointslice-controller=endpointslice endpointslice-mirroring-controller=endpointslicemirroring
service-cidr-controller service-lb-controller=service node-route-controller=route node-ipam-controller=nodeipam
node-lifecycle-controller=nodelifecycle taint-eviction-controller cloud-node-lifecycle-controller=cloud-node-lifecycle
ttl-controller=ttl pod-garbage-collector-controller=podgc persistentvolume-binder-controller=persistentvolume-binder
persistentvolume-attach-detach-controller=attachdetach persistentvolume-expander-controller=persistentvolume-expander
persistentvolumeclaim-protection-controller=pvc-protection persistentvolume-protection-controller=pv-protection
volumeattributesclass-protection-controller ephemeral-volume-controller=ephemeral-volume selinux-warning-controller
resourcequota-controller=resourcequota clusterrole-aggregation-controller=clusterrole-aggregation
validatingadmissionpolicy-status-controller storageversion-garbage-collector-controller=storage-version-gc
storage-version-migrator-controller=svm serviceaccount-token-controller=serviceaccount-token
serviceaccount-controller=serviceaccount
legacy-serviceaccount-token-cleaner-controller=legacy-service-account-token-cleaner
root-ca-certificate-publisher-controller=root-ca-cert-publisher
kube-apiserver-serving-clustertrustbundle-publisher-controller certificatesigningrequest-signing-controller=csrsigning
certificatesigningrequest-approving-controller=csrapproving certificatesigningrequest-cleaner-controller=csrcleaner
podcertificaterequest-cleaner-controller bootstrap-signer-controller=bootstrapsigner
token-cleaner-controller=tokencleaner resourceclaim-controller=resource-claim-controller
device-taint-eviction-controller resourcepoolstatusrequest-controller
"""

ABSENT_CONTROLLERS = frozenset(name for word in _CONTROLLERS.split() for name in word.split("="))
"""Names and aliases of upstream's controllers that had no counterpart here when this was written."""


def upstream_flags() -> Iterator[tuple[str, Flag]]:
    """(group, flag) for each flag of upstream that nothing here reads, with upstream's type and default."""
    for group, rows in _FLAGS.items():
        for row in rows.split(","):
            name, kind, *default = row.split()
            flag_type = _TYPES[kind]
            yield (
                group,
                Flag(name, flag_type, flag_type.parse(default[0] if default else ""), _help(group), ignored=True),
            )


def _help(group: str) -> str:
    return f"Of the {group}, which this release does not have" if group.endswith("-controller") else ""
