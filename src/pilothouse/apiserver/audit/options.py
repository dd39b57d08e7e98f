"""The options of the audit log: ``--audit-policy-file`` and ``--audit-log-*``.

After apiserver's ``pkg/server/options/audit.go`` (v0.36).
"""

import msgspec

from pilothouse.env.log_files import Rotation
from pilothouse.env.log_writer import BatchConfig

BATCH, BLOCKING, BLOCKING_STRICT = "batch", "blocking", "blocking-strict"
MODES = (BATCH, BLOCKING, BLOCKING_STRICT)
LEGACY, JSON = "legacy", "json"
FORMATS = (LEGACY, JSON)
VERSIONS = ("audit.k8s.io/v1",)


class AuditLogError(ValueError):
    """The audit can't start: its policy is invalid, or its log can't be opened."""


class AuditLogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The log options of upstream's AuditOptions. Sizes are in bytes."""

    policy_file: str = ""
    path: str = ""
    format: str = JSON
    version: str = VERSIONS[0]
    mode: str = BLOCKING
    rotation: Rotation = Rotation()
    batch: BatchConfig = BatchConfig()
    throttle: bool = False
    truncate: bool = False
    truncate_max_batch_size: int = 10 * 1024 * 1024
    truncate_max_event_size: int = 100 * 1024

    def errors(self) -> list[str]:
        """The validation errors. Without a log path the other options are not validated, as upstream."""
        if not self.path:
            return []
        errors = [*self._batch_errors()[:1], *self._truncate_errors()[:1]]
        if self.version not in VERSIONS:
            errors.append(f'invalid group version, allowed versions are ["{VERSIONS[0]}"]')
        if self.format not in FORMATS:
            errors.append(f'invalid audit log format {self.format}, allowed formats are "{",".join(FORMATS)}"')
        for flag, value in (
            ("maxage", self.rotation.max_age_days),
            ("maxbackup", self.rotation.max_backups),
            ("maxsize", self.rotation.max_megabytes),
        ):
            if value < 0:
                errors.append(f"--audit-log-{flag} {value} can't be a negative number")
        return errors

    def _batch_errors(self) -> list[str]:
        if self.mode not in MODES:
            return [f'invalid audit log mode {self.mode}, allowed modes are "{",".join(MODES)}"']
        if self.mode != BATCH:
            return []
        batch = self.batch
        values: list[tuple[str, float]] = [
            ("buffer size", batch.buffer_size),
            ("max batch size", batch.max_batch_size),
        ]
        if self.throttle:
            values += [("throttle QPS", batch.throttle_qps), ("throttle burst", batch.throttle_burst)]
        return [
            f"invalid audit batch log {name} {value:g}, must be a positive number"
            for name, value in values
            if value <= 0
        ]

    def _truncate_errors(self) -> list[str]:
        event, batch = self.truncate_max_event_size, self.truncate_max_batch_size
        if event <= 0:
            return [f"invalid audit truncate log max event size {event}, must be a positive number"]
        if batch < event:
            return [f"invalid audit truncate log max batch size {batch}, must be greater than max event size ({event})"]
        return []
