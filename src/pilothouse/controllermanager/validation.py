"""Validation of the options, with upstream's messages.

Facts: kube-controller-manager v1.36 ``cmd/kube-controller-manager/app/options`` (``Validate`` of each group),
``apiserver/pkg/server/options``, ``component-base`` (flags, logs, metrics, compatibility). Upstream finds some
of these errors only when it uses the setting; here all options are validated before the program starts, by ``flags``.
"""

from collections.abc import Iterator, Sequence

from pilothouse.controllermanager.curves import validate_curves
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.controllermanager.selection import unknown_names
from pilothouse.controllermanager.upstream_flags import CIPHER_SUITES, INSECURE_CIPHER_SUITES, TLS_VERSIONS
from pilothouse.machinery.durations import format_duration
from pilothouse.machinery.flag_types import parse_size, quoted
from pilothouse.machinery.flags import Parsed
from pilothouse.runtime.descriptor import Descriptor

MINOR = 36
"""This release follows v1.36."""
_OLDEST_MINOR = MINOR - 3
_AT_LEAST_ONE_WORKER = {
    **dict.fromkeys(
        (
            "concurrent-cron-job-syncs",
            "concurrent-daemonset-syncs",
            "concurrent-ephemeralvolume-syncs",
            "concurrent-horizontal-pod-autoscaler-syncs",
            "concurrent-job-syncs",
            "concurrent-statefulset-syncs",
        ),
        "{name} must be greater than 0, but got {value}",
    ),
    "concurrent-device-taint-eviction-syncs": "{name} must be greater than zero, got {value}",
    "concurrent-resourceclaim-syncs": "{name} must be larger than 0, got {value}",
    "concurrent-validating-admission-policy-status-syncs": "must be positive, got {value}",
}
"""With 0 the other controllers that have such a flag have no workers, so they do nothing."""
_RANGES = {
    "concurrent-service-endpoint-syncs": (1, 50),
    "max-endpoints-per-slice": (1, 1000),
    "mirroring-concurrent-service-endpoint-syncs": (1, 50),
    "mirroring-max-endpoints-per-subset": (1, 1000),
}


def validate_options(parsed: Parsed, options: Options, descriptors: Sequence[Descriptor]) -> Iterator[str]:
    """All errors, in the order of upstream's groups."""
    yield from _validate_versions(parsed)
    yield from _validate_generic(parsed, options)
    for name in unknown_names(options.controllers, descriptors):
        yield f"{quoted(name)} is not in the list of known controllers"
    yield from _validate_serving(parsed)
    yield from _validate_controllers(parsed)
    yield from _validate_logging(parsed, options)


def _validate_generic(parsed: Parsed, options: Options) -> Iterator[str]:
    if options.leader_election.enabled:
        if parsed["leader-elect-resource-lock"] != "leases":
            yield 'resourceLock value must be "leases"'
        yield from _validate_leader_election(options.leader_election)
    elif options.leader_migration is not None:
        yield "--enable-leader-migration needs --leader-elect"
    if parsed["cloud-provider"] not in {"", "external"}:
        yield f"unsupported cloud provider: {parsed['cloud-provider']}; --cloud-provider may be empty or external"
    if options.qps > 0 and options.burst <= 0:
        yield (
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to greater than 0; "
            "see --kube-api-burst and --kube-api-qps"
        )


def _validate_leader_election(election: LeaderElection) -> Iterator[str]:
    """client-go ``leaderelection.NewLeaderElector`` (v0.36), which panics."""
    if election.lease_duration <= election.renew_deadline:
        yield "leaseDuration must be greater than renewDeadline"
    if election.renew_deadline <= 1.2 * election.retry_period:
        yield "renewDeadline must be greater than retryPeriod*JitterFactor"
    for name, value in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if value <= 0:
            yield f"{name} must be greater than zero"
    for name, text in (("resourceName", election.resource_name), ("resourceNamespace", election.resource_namespace)):
        if not text:
            yield f"{name} is required"


def _validate_versions(parsed: Parsed) -> Iterator[str]:
    error, emulated = _minor(parsed["emulated-version"])
    if error:
        yield error
    elif not _OLDEST_MINOR <= emulated <= MINOR:
        yield f"emulation version 1.{emulated} is not between [1.{_OLDEST_MINOR}, 1.{MINOR}.2]"
    error, oldest = _minor(parsed["min-compatibility-version"], default=MINOR - 1)
    if error:
        yield error
    elif not _OLDEST_MINOR <= oldest <= max(emulated, MINOR - 1):
        yield f"minCompatibilityVersion version 1.{oldest} is not between [1.{_OLDEST_MINOR}, 1.{emulated}]"


def _minor(words: Sequence[str], default: int = MINOR) -> tuple[str, int]:
    """The errors in ``kube=1.35``, or the minor version in it."""
    if len(words) > 1:
        return f"duplicate version flag, {' and '.join(words)}", default
    for word in words:
        component, sign, text = (part.strip() for part in word.rpartition("="))
        if sign and component != "kube":
            return f"component not registered: {component}", default
        numbers = text.removeprefix("v").split(".")
        if not all(number.isascii() and number.isdigit() for number in numbers) or not 2 <= len(numbers) <= 3:
            return f"could not parse {quoted(text)} as version", default
        if len(numbers) == 3 and int(numbers[2]):
            return f"patch version not allowed, got: kube={text}", default
        return "", int(numbers[1]) if numbers[0] == "1" else -1
    return "", default


def _validate_serving(parsed: Parsed) -> Iterator[str]:
    port = parsed["secure-port"]
    if not 0 <= port <= 65535:
        yield f"--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
    if parsed["tls-cert-file"] and not parsed["tls-private-key-file"]:
        yield "--tls-private-key-file is missing: --tls-cert-file and --tls-private-key-file belong together"
    if parsed["tls-private-key-file"] and not parsed["tls-cert-file"]:
        yield "--tls-cert-file is missing: --tls-cert-file and --tls-private-key-file belong together"
    if parsed["tls-min-version"] not in {"", *TLS_VERSIONS}:
        yield f"--tls-min-version: unknown tls version {quoted(parsed['tls-min-version'])}"
    for suite in parsed["tls-cipher-suites"]:
        if suite not in CIPHER_SUITES and suite not in INSECURE_CIPHER_SUITES:
            yield f"--tls-cipher-suites: Cipher suite {suite} not supported or doesn't exist"
    for error in validate_curves(parsed["tls-curve-preferences"]):
        yield f"--tls-curve-preferences: {error}"
    for name in ("username-headers", "group-headers", "uid-headers", "extra-headers-prefix", "allowed-names"):
        if any(not value.strip() for value in parsed[f"requestheader-{name}"]):
            yield f'empty value in "requestheader-{name}"'
    for path in parsed["authorization-always-allow-paths"]:
        if "*" in path.removeprefix("/")[:-1]:
            yield f"--authorization-always-allow-paths: only trailing * allowed in {quoted(path.removeprefix('/'))}"


def _validate_controllers(parsed: Parsed) -> Iterator[str]:
    for name in sorted(parsed.values):
        value = parsed[name]
        if name in _RANGES:
            minimum, maximum = _RANGES[name]
            if value < minimum:
                yield f"{name} must not be less than {minimum}, but got {value}"
            elif value > maximum:
                yield f"{name} must not be more than {maximum}, but got {value}"
        elif name in _AT_LEAST_ONE_WORKER and value <= 0:
            yield _AT_LEAST_ONE_WORKER[name].format(name=name, value=value)
    if parsed["attach-detach-reconcile-sync-period"] < 1:
        yield "duration time must be greater than one second as set via command line option reconcile-sync-loop-period"


def _validate_logging(parsed: Parsed, options: Options) -> Iterator[str]:
    if options.logging_format not in {"text", "json"}:
        yield f"format: Invalid value: {quoted(options.logging_format)}: Unsupported log format"
    elif options.logging_format == "json" and not options.gates.enabled("LoggingBetaOptions"):
        yield "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"
    if options.logging_format not in {"", "text"} and options.vmodule:
        yield f'vmodule: Forbidden: Only supported for text log format; --logging-format is "{options.logging_format}"'
    if options.log_streams.flush_seconds <= 0:
        frequency = format_duration(options.log_streams.flush_seconds)
        yield f"flushFrequency: Invalid value: {quoted(frequency)}: Must be greater than zero"
    if not options.gates.enabled("LoggingAlphaOptions"):
        for kind in ("json", "text"):
            for flag, field in (("split-stream", "splitStream"), ("info-buffer-size", "infoBufferSize")):
                value = parsed[f"log-{kind}-{flag}"]
                if value is True or (value is not False and parse_size(value)):
                    yield f"options.{kind}.{field}: Forbidden: Feature LoggingAlphaOptions is disabled"
    if not options.gates.enabled("RemoteRequestHeaderUID") and options.serving.request_header.uid_headers:
        yield "--requestheader-uid-headers needs feature gate RemoteRequestHeaderUID"
    desired = parsed["show-hidden-metrics-for-version"]
    if desired not in {"", f"1.{MINOR - 1}"}:
        yield (
            f"--show-hidden-metrics-for-version must be omitted or have the value '1.{MINOR - 1}'. Only the previous "
            "minor version is allowed"
        )
