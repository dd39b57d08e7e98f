"""The flags of kube-controller-manager v1.36 that are not in a descriptor: groups, types, defaults, help.

Facts: ``cmd/kube-controller-manager/app/options`` and the option packages of component-base, apiserver and
controller-manager. The flags of a controller that is implemented are in its descriptor, and not taken from here.
``flags`` builds the flag set of both.

A row is ``name type default | help | note``. A note describes a difference from upstream; with ``no effect`` the flag
is accepted with a warning.
"""

from collections.abc import Iterator

from pilothouse.machinery.flag_types import (
    BOOL,
    DURATION,
    FLOAT,
    INT,
    INT32,
    INT32S,
    IP,
    LEVEL,
    MULTIMAP,
    NAMED_CERTIFICATES,
    PAIRS,
    QUANTITY,
    STRING,
    STRINGS,
    VERSION,
    VMODULE,
)
from pilothouse.machinery.flags import Flag

NO_EFFECT = "no effect"
GROUPS = (
    "debugging",
    "leader-migration",
    "generic",
    "service-lb-controller",
    "secure serving",
    "authentication",
    "authorization",
    "persistentvolume-attach-detach-controller",
    "certificatesigningrequest-signing-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "resourceclaim-controller",
    "statefulset-controller",
    "daemonset-controller",
    "deprecated",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "cronjob-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "namespace-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "ttl-after-finished-controller",
    "validatingadmissionpolicy-status-controller",
    "metrics",
    "logs",
    "misc",
    "global",
)
"""The order of groups in ``--help``, as upstream. Empty ones are omitted."""

TLS_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
CIPHER_SUITES = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)
INSECURE_CIPHER_SUITES = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
)
"""Names of Go's ``crypto/tls``, as ``component-base/cli/flag`` sorts them into good and bad."""

_TYPES = {
    "bool": BOOL,
    "duration": DURATION,
    "float": FLOAT,
    "int": INT,
    "int32": INT32,
    "int32s": INT32S,
    "ip": IP,
    "level": LEVEL,
    "multimap": MULTIMAP,
    "certificates": NAMED_CERTIFICATES,
    "pairs": PAIRS,
    "quantity": QUANTITY,
    "string": STRING,
    "strings": STRINGS,
    "version": VERSION,
    "vmodule": VMODULE,
}
_LETTERS = {"v": "v", "help": "h"}
_CHOICES = {
    "cloud-provider": ("external",),
    "leader-elect-resource-lock": ("leases",),
    "logging-format": ("text", "json"),
    "tls-cipher-suites": CIPHER_SUITES,
    "tls-min-version": TLS_VERSIONS,
    "version": ("true", "raw"),
}
_DEPRECATED = {
    "allow-untagged-cloud": "This flag is deprecated and will be removed in a future release. A cluster-id will be "
    "required on cloud instances.",
    "node-sync-period": "This flag is currently no-op and will be deleted.",
}

_FLAGS = """
[debugging]
contention-profiling bool | Enable block profiling, if profiling is enabled | no effect, one thread runs the \
controllers
profiling bool true | Enable profiling via web interface host:port/debug/pprof/

[leader-migration]
enable-leader-migration bool | Whether to enable controller leader migration.
leader-migration-config string | Path to the config file for controller leader migration, or empty to use the value \
that reflects default configuration of the controller manager. The config file should be of type \
LeaderMigrationConfiguration, group controllermanager.config.k8s.io, version v1.

[generic]
allow-untagged-cloud bool | Allow the cluster to run without the cluster-id on cloud instances. | no effect
cloud-config string | The path to the cloud provider configuration file. Empty string for no configuration file. | no \
effect, as upstream
cloud-provider string | The provider for cloud services. Empty string for no provider. | as upstream, only external \
and the empty string are valid, and both mean the same
controller-shutdown-timeout duration 10s | Time to wait for the controllers to shut down before terminating; 0 waits \
forever
controller-start-interval duration | Interval between starting controller managers.
emulated-version strings | The versions different components emulate their capabilities (APIs, features, ...) of. \
Version format could only be major.minor, for example kube=1.35; from 1.33 to 1.36. If the component is not specified,\
 defaults to "kube" | gates get the defaults of v1.36 whatever the version
external-cloud-volume-plugin string | The plugin to use when cloud provider is set to external. | no effect
feature-gates multimap | Comma-separated list of component:key=value pairs that describe feature gates. If the \
component is not specified, defaults to "kube". This flag can be repeatedly invoked.
kube-api-burst int32 30 | Burst to use while talking with kubernetes apiserver.
kube-api-content-type string application/vnd.kubernetes.protobuf | Content type of requests sent to apiserver. | no \
effect, requests are JSON
kube-api-qps float 20 | QPS to use while talking with kubernetes apiserver.
leader-elect bool true | Start a leader election client and gain leadership before executing the main loop. Enable \
this when running replicated components for high availability.
leader-elect-lease-duration duration 15s | The duration that non-leader candidates will wait after observing a \
leadership renewal until attempting to acquire leadership of a led but unrenewed leader slot.
leader-elect-renew-deadline duration 10s | The interval between attempts by the acting master to renew a leadership \
slot before it stops leading. This must be less than the lease duration.
leader-elect-resource-lock string leases | The type of resource object that is used for locking during leader \
election. Supported options are 'leases'.
leader-elect-resource-name string kube-controller-manager | The name of resource object that is used for locking \
during leader election.
leader-elect-resource-namespace string kube-system | The namespace of resource object that is used for locking during \
leader election.
leader-elect-retry-period duration 2s | The duration the clients should wait between attempting acquisition and \
renewal of a leadership.
min-compatibility-version strings | The min version of control plane components the server should be compatible with; \
at most the emulated version. | checked, nothing depends on it
min-resync-period duration 12h | The resync period in reflectors will be random between MinResyncPeriod and \
2*MinResyncPeriod.
node-sync-period duration | The period for syncing nodes from cloudprovider. | no effect, as upstream
use-service-account-credentials bool | If true, use individual service account credentials for each controller.

[secure serving]
bind-address ip 0.0.0.0 | The IP address on which to listen for the --secure-port port. If blank or an unspecified \
address (0.0.0.0 or ::), all interfaces and IP address families will be used.
cert-dir string | The directory where the TLS certs are located. If --tls-cert-file and --tls-private-key-file are \
provided, this flag will be ignored.
disable-http2-serving bool | If true, HTTP2 serving will be disabled. | only HTTP/1.1 is served
http2-max-streams-per-connection int | The limit that the server gives to clients for the maximum number of streams in\
 an HTTP/2 connection. | no effect, HTTP/1.1 is served
permit-address-sharing bool | If true, SO_REUSEADDR will be used when binding the port. | always used
permit-port-sharing bool | If true, SO_REUSEPORT will be used when binding the port, which allows more than one \
instance to bind on the same address and port.
secure-port int 10257 | The port on which to serve HTTPS with authentication and authorization. If 0, don't serve \
HTTPS at all.
tls-cert-file string | File containing the default x509 Certificate for HTTPS. (CA cert, if any, concatenated after \
server cert). Without it a self-signed certificate is generated.
tls-cipher-suites strings | Comma-separated list of cipher suites for the server. If omitted, the default cipher \
suites will be used.
tls-curve-preferences int32s | Comma-separated list of numeric Go crypto/tls CurveID values, as the allowed key \
exchange mechanisms for the server. The order of the list is ignored. If omitted, the default curves will be used. | \
values that OpenSSL does not support are ignored
tls-min-version string | Minimum TLS version supported. Possible values: VersionTLS10, VersionTLS11, VersionTLS12, \
VersionTLS13 | never below VersionTLS12
tls-private-key-file string | File containing the default x509 private key matching --tls-cert-file.
tls-sni-cert-key certificates | A pair of x509 certificate and private key file paths, optionally suffixed with a list\
 of domain patterns. For multiple key/certificate pairs, use the --tls-sni-cert-key multiple times. Examples: \
"example.crt,example.key" or "foo.crt,foo.key:*.foo.com,foo.com".

[authentication]
authentication-kubeconfig string | kubeconfig file pointing at the 'core' kubernetes server with enough rights to \
create tokenreviews.authentication.k8s.io. This is optional. If empty, all token requests are considered to be \
anonymous and no client CA is looked up in the cluster.
authentication-skip-lookup bool | If false, the authentication-kubeconfig will be used to lookup missing \
authentication configuration from the cluster.
authentication-token-webhook-cache-ttl duration 10s | The duration to cache responses from the webhook token \
authenticator.
authentication-tolerate-lookup-failure bool | If true, failures to look up missing authentication configuration from \
the cluster are not considered fatal.
client-ca-file string | If set, any request presenting a client certificate signed by one of the authorities in the \
client-ca-file is authenticated with an identity corresponding to the CommonName of the client certificate.
requestheader-allowed-names strings | List of client certificate common names to allow to provide usernames in headers\
 specified by --requestheader-username-headers. If empty, any client certificate validated by the authorities in \
--requestheader-client-ca-file is allowed.
requestheader-client-ca-file string | Root certificate bundle to use to verify client certificates on incoming \
requests before trusting usernames in headers specified by --requestheader-username-headers.
requestheader-extra-headers-prefix strings x-remote-extra- | List of request header prefixes to inspect.
requestheader-group-headers strings x-remote-group | List of request headers to inspect for groups.
requestheader-uid-headers strings | List of request headers to inspect for UIDs. Requires the RemoteRequestHeaderUID \
feature to be enabled.
requestheader-username-headers strings x-remote-user | List of request headers to inspect for usernames.

[authorization]
authorization-always-allow-paths strings /healthz,/readyz,/livez | A list of HTTP paths to skip during authorization, \
i.e. these are authorized without contacting the 'core' kubernetes server.
authorization-kubeconfig string | kubeconfig file pointing at the 'core' kubernetes server with enough rights to \
create subjectaccessreviews.authorization.k8s.io. This is optional. If empty, all requests not skipped by \
authorization are forbidden.
authorization-webhook-cache-authorized-ttl duration 10s | The duration to cache 'authorized' responses from the \
webhook authorizer.
authorization-webhook-cache-unauthorized-ttl duration 10s | The duration to cache 'unauthorized' responses from the \
webhook authorizer.

[persistentvolume-binder-controller]
flex-volume-plugin-dir string /usr/libexec/kubernetes/kubelet-plugins/volume/exec/ | Full path of the directory in \
which the flex volume plugin should search for additional third party volume plugins.
pv-recycler-increment-timeout-nfs int32 30 | the increment of time added per Gi to ActiveDeadlineSeconds for an NFS \
scrubber pod
pv-recycler-minimum-timeout-hostpath int32 60 | The minimum ActiveDeadlineSeconds to use for a HostPath Recycler pod.
pv-recycler-minimum-timeout-nfs int32 300 | The minimum ActiveDeadlineSeconds to use for an NFS Recycler pod
pv-recycler-pod-template-filepath-hostpath string | The file path to a pod definition used as a template for HostPath \
persistent volume recycling.
pv-recycler-pod-template-filepath-nfs string | The file path to a pod definition used as a template for NFS persistent\
 volume recycling
pv-recycler-timeout-increment-hostpath int32 30 | the increment of time added per Gi to ActiveDeadlineSeconds for a \
HostPath scrubber pod.

[metrics]
allow-metric-labels pairs | The map from metric-label to value allow-list of this label. The key's format is \
<MetricName>,<LabelName>. The value's format is <allowed_value>,<allowed_value>... Other values become "unexpected".
allow-metric-labels-manifest string | The path to the manifest file that contains the allow-list mapping. The format \
of the file is the same as the flag --allow-metric-labels. Note that the flag --allow-metric-labels will override the \
manifest file. | an unusable file is an error
disabled-metrics strings | This flag provides an escape hatch for misbehaving metrics. You must provide the fully \
qualified metric name in order to disable it.
show-hidden-metrics-for-version string | The previous version for which you want to show hidden metrics. Only the \
previous minor version is meaningful, other values will not be allowed. The format is <major>.<minor>, e.g.: '1.16'. |\
 no effect, no metric is hidden

[logs]
log-flush-frequency duration 5s | Maximum number of seconds between log flushes | only buffered info messages wait
log-json-info-buffer-size quantity 0 | [Alpha] In JSON format with split output streams, the info messages can be \
buffered for a while to increase performance. Enable the LoggingAlphaOptions feature gate to use this.
log-json-split-stream bool | [Alpha] In JSON format, write error messages to stderr and info messages to stdout. \
Enable the LoggingAlphaOptions feature gate to use this.
log-text-info-buffer-size quantity 0 | [Alpha] In text format with split output streams, the info messages can be \
buffered for a while to increase performance. Enable the LoggingAlphaOptions feature gate to use this.
log-text-split-stream bool | [Alpha] In text format, write error messages to stderr and info messages to stdout. \
Enable the LoggingAlphaOptions feature gate to use this.
logging-format string text | Sets the log format. Permitted formats: "json", "text".
v level 0 | number for the log level verbosity
vmodule vmodule | comma-separated list of pattern=N settings for file-filtered logging (only works for text log \
format) | patterns fit the names of loggers, such as replicaset*

[misc]
kubeconfig string | Path to kubeconfig file with authorization and master location information (the master location \
can be overridden by the master flag). | without it and --master: the current context of the files in KUBECONFIG, in a \
pod its service account, else the current context of ~/.kube/config (upstream only has the pod's). The log names the \
server that is used
master string | The address of the Kubernetes API server (overrides any value in kubeconfig).

[global]
help bool | help for {program}
version version false | --version, --version=raw prints version information and quits; --version=vX.Y.Z... sets the \
reported version
"""


def upstream_flags(program: str) -> Iterator[tuple[str, Flag]]:
    """(group, flag) for each row, with upstream's type and default."""
    group = ""
    for row in _FLAGS.replace("\\\n", "").replace("{program}", program).splitlines():
        if row.startswith("["):
            group = row.strip("[]")
        elif row:
            head, text, *notes = (part.strip() for part in row.split(" | "))
            name, kind, *default = head.split()
            flag_type = _TYPES[kind]
            note = notes[0] if notes else ""
            yield (
                group,
                Flag(
                    name,
                    flag_type,
                    _default(kind, *default),
                    text,
                    shorthand=_LETTERS.get(name, ""),
                    ignored=note.startswith(NO_EFFECT),
                    deprecated=_DEPRECATED.get(name, ""),
                    note=note,
                    choices=_CHOICES.get(name, ()),
                ),
            )


def _default(kind: str, text: str = "") -> object:
    # Parsing an address or a quantity imports modules that would slow down the start.
    return _EMPTY[kind] if not text else text if kind in {"ip", "quantity"} else _TYPES[kind].parse(text)


_EMPTY: dict[str, object] = {
    "bool": False,
    "duration": 0.0,
    "float": 0.0,
    "int": 0,
    "int32": 0,
    "int32s": (),
    "certificates": (),
    "multimap": {},
    "pairs": {},
    "string": "",
    "strings": (),
    "vmodule": (),
}
