"""Options of the server, and of requests in their query or body.

After apimachinery's ``pkg/apis/meta/v1/validation/validation.go`` and ``pkg/apis/meta/internalversion/validation``
(v0.36).
"""

import msgspec

from pilothouse.api.schema import load
from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.admission.names import WITHOUT_CONTROLLERS
from pilothouse.apiserver.admission.pod_security.levels import PodSecurityOptions
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.request_info import NO_QUERY, Query
from pilothouse.machinery.bodies import DecodeError, decode_body
from pilothouse.machinery.json_bounds import exceeded

MAX_BODY = 3 * 1024 * 1024
META_GROUP = "meta.k8s.io"


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one server. Durations are in seconds."""

    event_ttl_seconds: int = 3600
    bookmark_seconds: float = 60.0
    min_watch_seconds: int = 1800
    """The timeout of a watch without timeoutSeconds is random between this and twice this, as
    ``--min-request-timeout``."""
    service_range: str = "10.0.0.0/24"
    secure_port: int = 6443
    admission_plugins: tuple[str, ...] = WITHOUT_CONTROLLERS
    """The enabled admission plugins (``admission.names``). ServiceAccount needs a controller that creates the
    accounts."""
    pod_security: PodSecurityOptions = PodSecurityOptions()
    """Defaults and exemptions of the plugin PodSecurity."""
    gates: tuple[str, ...] = ()
    """Feature gates enabled beyond the defaults of v1.36, as far as they add resources or fields
    (``resources.BEHIND_GATES``)."""
    establish_delay_seconds: float = 0.0
    """How long creates of custom resources wait after their definition is established. Upstream waits two seconds for
    other replicas; a single process does not need to."""


class WriteOptions(msgspec.Struct, frozen=True, gc=False):
    """Options of create, update and patch."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool | None = None


NO_OPTIONS = WriteOptions()


def invalid_options(kind: str, all_errors: ErrorList) -> StatusError:
    """422 about the options."""
    return errors.invalid(META_GROUP, kind, "", all_errors)


def _dry_run(values: list[str] | None, all_errors: ErrorList) -> bool:
    if not values:
        return False
    if any(value != "All" for value in values):
        all_errors.append(field_errors.not_supported("dryRun", values, ("All",)))
    return True


def _validate_field_manager(manager: str) -> ErrorList:
    errors = [field_errors.too_long("fieldManager", 128)] if len(manager.encode()) > 128 else []
    if manager.isprintable():
        return errors
    for position, letter in enumerate(manager):
        if not letter.isprintable():
            text = f"invalid character U+{ord(letter):04X} (at position {len(manager[:position].encode())})"
            errors.append(field_errors.invalid("fieldManager", manager, text))
    return errors


def read_write_options(query: Query, kind: str) -> WriteOptions:
    """Read the options of a write; ``kind`` is their kind in error messages (``CreateOptions``)."""
    if query is NO_QUERY and kind != "ApplyOptions":
        return NO_OPTIONS
    all_errors: ErrorList = []
    force = query.flag("force") if "force" in query else None
    if kind == "ApplyOptions" and not query.first("fieldManager"):
        all_errors.append(field_errors.required("fieldManager", "is required for apply patch"))
    if force is not None and kind == "PatchOptions":
        all_errors.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    manager = query.first("fieldManager")
    if manager:
        all_errors += _validate_field_manager(manager)
    dry_run = _dry_run(query.get("dryRun"), all_errors)
    validation = query.first("fieldValidation")
    if validation not in ("", "Ignore", "Strict", "Warn"):
        all_errors.append(
            field_errors.not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn"), plain=True)
        )
    if all_errors:
        raise invalid_options("PatchOptions" if kind == "ApplyOptions" else kind, all_errors)
    return WriteOptions(dry_run, manager, validation or "Warn", force)


class Preconditions(msgspec.Struct, frozen=True, rename={"resource_version": "resourceVersion"}):
    """Conditions for the deletion of an object."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """Options of delete and deletecollection."""

    kind: str = ""
    api_version: str = ""
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: list[str] | None = None

    @property
    def is_dry_run(self) -> bool:
        """Whether this is a dry run."""
        return bool(self.dry_run)


_decode_delete_options = msgspec.json.Decoder(DeleteOptions).decode
_DELETE_GROUPS = ("", "v1", "meta.k8s.io/v1")


def read_delete_options(query: Query, body: bytes) -> DeleteOptions:
    """Read the options of a DELETE: from its body (JSON) if it has one, else from its query."""
    if body:
        if bound := exceeded(body):
            raise errors.bad_request(f"couldn't get version/kind; json parse error: {bound}")
        try:
            options = _decode_delete_options(body)
        except UnicodeDecodeError:
            # Go decodes invalid UTF-8 as U+FFFD.
            return read_delete_options(query, body.decode(errors="replace").encode())
        except msgspec.ValidationError:
            raise errors.bad_request(_wrong_type(body)) from None
        except msgspec.DecodeError as error:
            raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
        if options.kind not in ("", "DeleteOptions"):
            raise errors.bad_request(
                f'no kind "{options.kind}" is registered for version "{options.api_version}" in scheme '
                '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
            )
    elif query:
        options = DeleteOptions(
            grace_period_seconds=query.number("gracePeriodSeconds"),
            orphan_dependents=query.flag("orphanDependents") if "orphanDependents" in query else None,
            propagation_policy=query.first("propagationPolicy") if "propagationPolicy" in query else None,
            dry_run=query.get("dryRun"),
        )
    else:
        return DeleteOptions()
    all_errors: ErrorList = []
    policy = options.propagation_policy
    if policy is not None and options.orphan_dependents is not None:
        all_errors.append(
            field_errors.invalid(
                "propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"
            )
        )
    if policy is not None and policy not in ("Foreground", "Background", "Orphan"):
        all_errors.append(
            field_errors.not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil"))
        )
    _dry_run(options.dry_run, all_errors)
    if all_errors:
        raise invalid_options("DeleteOptions", all_errors)
    return options


def _wrong_type(body: bytes) -> str:
    definition = load().for_kind("", "v1", "DeleteOptions")
    assert definition is not None, "DeleteOptions are built in"
    try:
        decode_body(body, definition)
    except DecodeError as error:
        return error.message
    return "json: cannot unmarshal DeleteOptions"


class ListOptions(msgspec.Struct, frozen=True, gc=False):
    """Options of list and watch, without the selectors."""

    limit: int = 0
    continue_: str = ""
    resource_version: str = ""
    match: str = ""
    bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_seconds: int | None = None


NO_LIST_OPTIONS = ListOptions()


def check_numbers(query: Query) -> None:
    """Reject invalid numbers of a list. They are checked before the selectors, everything else after those."""
    query.number("limit")
    query.number("timeoutSeconds")


def read_list_options(query: Query, *, watch: bool) -> ListOptions:
    """Read and validate the options of a list or watch."""
    if query is NO_QUERY:
        return NO_LIST_OPTIONS
    options = ListOptions(
        limit=max(query.number("limit") or 0, 0),
        continue_=query.first("continue"),
        resource_version=query.first("resourceVersion"),
        match=query.first("resourceVersionMatch"),
        bookmarks=query.flag("allowWatchBookmarks"),
        send_initial_events=query.flag("sendInitialEvents") if "sendInitialEvents" in query else None,
        timeout_seconds=query.number("timeoutSeconds"),
    )
    all_errors = _validate_watch_options(options) if watch else _validate_list_options(options)
    if all_errors:
        raise invalid_options("ListOptions", all_errors)
    return options


_MATCH = "resourceVersionMatch"


def _validate_list_options(options: ListOptions) -> ErrorList:
    errors: ErrorList = []
    match = options.match
    if match:
        if not options.resource_version:
            errors.append(
                field_errors.forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if options.continue_:
            errors.append(field_errors.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            errors.append(field_errors.not_supported(_MATCH, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and options.resource_version == "0":
            errors.append(
                field_errors.forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
            )
    if options.send_initial_events is not None:
        errors.append(field_errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _validate_watch_options(options: ListOptions) -> ErrorList:
    errors: ErrorList = []
    match = options.match
    if options.send_initial_events is not None:
        if match != "NotOlderThan":
            errors.append(
                field_errors.forbidden(
                    _MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                )
            )
    elif match:
        errors.append(
            field_errors.forbidden(
                _MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
        )
    if match and match != "NotOlderThan":
        errors.append(field_errors.not_supported(_MATCH, match, ("NotOlderThan",)))
    # Watches from the newest or from any version have a default match (``SetListOptionsDefaults``).
    if options.continue_ and (match or options.resource_version in ("", "0")):
        errors.append(field_errors.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    return errors
