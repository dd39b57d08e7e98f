"""``--audit-policy-file`` and ``--audit-log-*``: kube-apiserver's flags of the audit log.

Names, defaults and help texts are those of apiserver's ``pkg/server/options/audit.go`` (v0.36). Those of its webhook,
``--audit-webhook-*``, do not exist here.
"""

import sys
from typing import TYPE_CHECKING

from pilothouse.cli.program import UserError
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, DURATION, FLOAT, INT, STRING, Flag, FlagSet, Parsed

if TYPE_CHECKING:
    from pilothouse.apiserver.audit.options import AuditLogOptions

with lazy_imports():
    from pilothouse.apiserver.audit import options
    from pilothouse.env import log_files, log_writer

_MODES = ("batch", "blocking", "blocking-strict")
_FORMATS = ("legacy", "json")


def add_audit_flags(flags: FlagSet) -> None:
    """Add the flags of the audit log."""
    batch_only = "Only used in batch mode."
    flags.add(
        "auditing",
        Flag("audit-policy-file", STRING, "", "Path to the file that defines the audit policy configuration."),
        Flag(
            "audit-log-path",
            STRING,
            "",
            "If set, all requests coming to the apiserver will be logged to this file. '-' means standard out.",
        ),
        Flag(
            "audit-log-maxage",
            INT,
            366,
            "The maximum number of days to retain old audit log files based on the timestamp encoded in their "
            "filename. Setting a value of 0 means old audit log files are not removed based on age.",
        ),
        Flag(
            "audit-log-maxbackup",
            INT,
            100,
            "The maximum number of old audit log files to retain. Setting a value of 0 will mean there's no "
            "restriction on the number of files.",
        ),
        Flag(
            "audit-log-maxsize",
            INT,
            100,
            "The maximum size in megabytes of the audit log file before it gets rotated. Setting to 0 disables "
            "rotation (not recommended).",
        ),
        Flag("audit-log-compress", BOOL, False, "If set, the rotated log files will be compressed using gzip."),
        Flag(
            "audit-log-format",
            STRING,
            "json",
            'Format of saved audits. "legacy" indicates 1-line text format for each event. "json" indicates structured '
            "json format. Known formats are legacy,json.",
            choices=_FORMATS,
        ),
        Flag(
            "audit-log-version",
            STRING,
            "audit.k8s.io/v1",
            "API group and version used for serializing audit events written to log.",
        ),
        Flag(
            "audit-log-mode",
            STRING,
            "blocking",
            "Strategy for sending audit events. Blocking indicates sending events should block server responses. Batch "
            "causes the backend to buffer and write events asynchronously. Known modes are "
            "batch,blocking,blocking-strict.",
            choices=_MODES,
        ),
        Flag(
            "audit-log-batch-buffer-size",
            INT,
            10000,
            f"The size of the buffer to store events before batching and writing. {batch_only}",
        ),
        Flag("audit-log-batch-max-size", INT, 1, f"The maximum size of a batch. {batch_only}"),
        Flag(
            "audit-log-batch-max-wait",
            DURATION,
            0.0,
            f"The amount of time to wait before force writing the batch that hadn't reached the max size. {batch_only}",
        ),
        Flag("audit-log-batch-throttle-enable", BOOL, False, f"Whether batching throttling is enabled. {batch_only}"),
        Flag("audit-log-batch-throttle-qps", FLOAT, 0.0, f"Maximum average number of batches per second. {batch_only}"),
        Flag(
            "audit-log-batch-throttle-burst",
            INT,
            0,
            f"Maximum number of requests sent at the same moment if ThrottleQPS was not utilized before. {batch_only}",
        ),
        Flag("audit-log-truncate-enabled", BOOL, False, "Whether event and batch truncating is enabled."),
        Flag(
            "audit-log-truncate-max-batch-size",
            INT,
            10 * 1024 * 1024,
            "Maximum size of the batch sent to the underlying backend. Actual serialized size can be several hundreds "
            "of bytes greater. If a batch exceeds this limit, it is split into several batches of smaller size.",
            note="events are written one by one, so no batch is ever split",
        ),
        Flag(
            "audit-log-truncate-max-event-size",
            INT,
            100 * 1024,
            "Maximum size of the audit event sent to the underlying backend. If the size of an event is greater than "
            "this number, first request and response are removed, and if this doesn't reduce the size enough, event is "
            "discarded.",
        ),
    )


def audit_options(parsed: Parsed) -> "AuditLogOptions | None":
    """The audit backend for the flags; None if nothing is recorded. Raises ``UserError``."""
    if not parsed["audit-policy-file"] and not parsed["audit-log-path"]:
        return None
    backend = options.AuditLogOptions(
        policy_file=parsed["audit-policy-file"],
        path=parsed["audit-log-path"],
        format=parsed["audit-log-format"],
        version=parsed["audit-log-version"],
        mode=parsed["audit-log-mode"],
        rotation=log_files.Rotation(
            max_megabytes=parsed["audit-log-maxsize"],
            max_age_days=parsed["audit-log-maxage"],
            max_backups=parsed["audit-log-maxbackup"],
            compress=parsed["audit-log-compress"],
        ),
        batch=log_writer.BatchConfig(
            buffer_size=parsed["audit-log-batch-buffer-size"],
            max_batch_size=parsed["audit-log-batch-max-size"],
            max_batch_wait=parsed["audit-log-batch-max-wait"],
            throttle_qps=parsed["audit-log-batch-throttle-qps"],
            throttle_burst=parsed["audit-log-batch-throttle-burst"],
        ),
        throttle=parsed["audit-log-batch-throttle-enable"],
        truncate=parsed["audit-log-truncate-enabled"],
        truncate_max_batch_size=parsed["audit-log-truncate-max-batch-size"],
        truncate_max_event_size=parsed["audit-log-truncate-max-event-size"],
    )
    errors = backend.errors()
    if errors:
        raise UserError("\n".join(errors), code=2)
    if not backend.policy_file:
        print("warning: no events will be recorded in --audit-log-path without --audit-policy-file", file=sys.stderr)
    return backend
