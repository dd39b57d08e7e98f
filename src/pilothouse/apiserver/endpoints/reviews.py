"""Access reviews, token reviews and token requests. They are not stored.

``register`` adds them to the virtual resources of a core. Follows kubernetes' ``pkg/registry/authorization`` and
``pkg/registry/authentication`` (v1.36) and ``pkg/registry/core/serviceaccount/storage/token.go``.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.authentication.authenticator import Authenticator, authenticated
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authentication.service_account_tokens import ServiceAccountTokens
from pilothouse.apiserver.authorization.authorizer import Attributes, Rule, RuleResolvingAuthorizer
from pilothouse.apiserver.authorization.selector_attributes import (
    build_evaluation_error,
    field_selector_text,
    validate_selector_attribute,
)
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.create import subresource_attributes
from pilothouse.apiserver.endpoints.object_names import ensure_namespace_matches, namespace_mismatch
from pilothouse.apiserver.endpoints.request_objects import read_built_in
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import read_write_options
from pilothouse.apiserver.serializers.results import ObjectResult
from pilothouse.machinery.times import format_time

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
_YEAR = 365 * 24 * 3600
_BOUND_KINDS = {"Pod": ("pod", "pods"), "Secret": ("secret", "secrets"), "Node": ("node", "nodes")}


def register(
    core: Core, authenticator: Authenticator, authorizer: RuleResolvingAuthorizer, tokens: ServiceAccountTokens | None
) -> None:
    """Serve the reviews from ``core``, and token requests if it can issue tokens."""
    reviews = _Reviews(authenticator, authorizer, tokens)
    for resource, handler in (
        ("subjectaccessreviews", reviews.subject_access),
        ("localsubjectaccessreviews", reviews.local_access),
        ("selfsubjectaccessreviews", reviews.self_access),
        ("selfsubjectrulesreviews", reviews.self_rules),
    ):
        core.handlers[(_AUTHORIZATION, resource, "")] = handler
    core.handlers[(_AUTHENTICATION, "selfsubjectreviews", "")] = reviews.self_subject
    core.handlers[(_AUTHENTICATION, "tokenreviews", "")] = reviews.token
    if tokens is not None:
        core.handlers[("", "serviceaccounts", "token")] = reviews.request_token


def find_object(core: Core, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
    """The stored object of a core resource, or None."""
    record = core.store.get(core.table.built_in("", resource).key(namespace, name))
    if record is None:
        return None
    obj: Mapping[str, Any] = _decode(record.value)
    return obj


class _Reviews:
    def __init__(
        self, authenticator: Authenticator, authorizer: RuleResolvingAuthorizer, tokens: ServiceAccountTokens | None
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._tokens = tokens

    async def subject_access(self, core: Core, call: Call) -> ObjectResult:
        review = await core.long_work.run(call.size, _read_owned, core, call, "SubjectAccessReview")
        write = await _admit(core, call, review, {"allowed": False})
        _reject(_validate_spec(review, with_subject=True) + _validate_metadata(review))
        await core.admission.validate(write)
        return self._decide(call, review, _subject(review))

    async def local_access(self, core: Core, call: Call) -> ObjectResult:
        review = await core.long_work.run(call.size, _read_owned, core, call, "LocalSubjectAccessReview")
        namespace = review["metadata"].setdefault("namespace", call.namespace)
        if namespace != call.namespace:
            raise namespace_mismatch()
        write = await _admit(core, call, review, {"allowed": False})
        all_errors = _validate_spec(review, with_subject=True) + _validate_metadata(review, "namespace")
        attributes = review["spec"].get("resourceAttributes")
        if attributes is not None and (attributes.get("namespace") or "") != call.namespace:
            path, text = "spec.resourceAttributes.namespace", "must match metadata.namespace"
            all_errors.append(field_errors.invalid(path, attributes.get("namespace") or "", text))
        non_resource_attributes = review["spec"].get("nonResourceAttributes")
        if non_resource_attributes is not None:
            all_errors.append(_invalid_path(non_resource_attributes, "disallowed on this kind of request"))
        _reject(all_errors)
        await core.admission.validate(write)
        return self._decide(call, review, _subject(review))

    async def self_access(self, core: Core, call: Call) -> ObjectResult:
        review = await core.long_work.run(call.size, _read_owned, core, call, "SelfSubjectAccessReview")
        write = await _admit(core, call, review, {"allowed": False})
        _reject(_validate_spec(review, with_subject=False) + _validate_metadata(review))
        await core.admission.validate(write)
        return self._decide(call, review, call.identity)

    def _decide(self, call: Call, review: dict[str, Any], identity: Identity) -> ObjectResult:
        resource, path = review["spec"].get("resourceAttributes"), review["spec"].get("nonResourceAttributes")
        decision = self._authorizer.authorize(identity, _attributes(resource, path))
        status: dict[str, Any] = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        error = build_evaluation_error(resource or {})
        if error:
            status["evaluationError"] = error
        review["status"] = status
        return _created_result(call, review)

    async def self_rules(self, core: Core, call: Call) -> ObjectResult:
        review = await core.long_work.run(call.size, _read, call, "SelfSubjectRulesReview")
        no_rules = {"resourceRules": None, "nonResourceRules": None, "incomplete": False}
        write = await _admit(core, call, review, no_rules)
        namespace = review["spec"].get("namespace") or ""
        if not namespace:
            raise errors.bad_request("no namespace on request")
        await core.admission.validate(write)
        resolved = self._authorizer.rules(call.identity, namespace)
        status: dict[str, Any] = {
            "resourceRules": [_resource_rule(rule) for rule in resolved.rules if rule.resources],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.non_resource_urls)}
                for rule in resolved.rules
                if rule.non_resource_urls
            ],
            "incomplete": resolved.incomplete,
        }
        if resolved.errors:
            status["evaluationError"] = resolved.error
        # Upstream returns only the status (pkg/registry/authorization/selfsubjectrulesreview/rest.go, v1.36).
        review["spec"] = {}
        review["status"] = status
        return _created_result(call, review)

    async def self_subject(self, core: Core, call: Call) -> ObjectResult:
        review = await core.long_work.run(call.size, _read, call, "SelfSubjectReview")
        del review["spec"]  # it has no spec
        await core.admission.validate(await _admit(core, call, review, {"userInfo": {}}))
        review["metadata"]["creationTimestamp"] = core.time.now()
        review["status"] = {"userInfo": _user_info(call.identity)}
        return _created_result(call, review)

    async def token(self, core: Core, call: Call) -> ObjectResult:
        review = await core.long_work.run(call.size, _read_owned, core, call, "TokenReview")
        write = await _admit(core, call, review, {"user": {}})
        token = review["spec"].get("token") or ""
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        await core.admission.validate(write)
        api_audiences: Sequence[str] = self._tokens.audiences if self._tokens is not None else ()
        requested_audiences: Sequence[str] = review["spec"].get("audiences") or api_audiences
        identity, audiences = self._authenticate_token(token, requested_audiences, api_audiences)
        if identity is None:
            review["status"] = {"user": {}, "error": "invalid bearer token"}
        else:
            review["status"] = {"authenticated": True, "user": _user_info(identity)}
            if audiences:
                review["status"]["audiences"] = audiences
        return _created_result(call, review)

    def _authenticate_token(
        self, token: str, requested_audiences: Sequence[str], api_audiences: Sequence[str]
    ) -> tuple[Identity | None, list[str]]:
        """The user of a token that is valid for any of the requested audiences, and those audiences."""
        if self._tokens is not None:
            identity = self._tokens.identity_for(token, requested_audiences)
            if identity is not None:
                token_audiences = self._tokens.audiences_of(token)
                return authenticated(identity), [
                    audience for audience in requested_audiences if audience in token_audiences
                ]
        # All other tokens are for the API server, and have no audiences.
        common = [audience for audience in requested_audiences if audience in api_audiences]
        if not common and requested_audiences:
            return None, []
        return self._authenticator.token_identity(token), common

    async def request_token(self, core: Core, call: Call) -> ObjectResult:
        assert self._tokens is not None, "token requests are only served by a server that issues tokens"
        request = await core.long_work.run(call.size, _read, call, "TokenRequest")
        ensure_namespace_matches(call, request["metadata"])
        if request["spec"].get("expirationSeconds") is None:
            request["spec"]["expirationSeconds"] = 3600
        core.managed_fields.update_review(call, request, read_write_options(call.request_info.query, "CreateOptions"))
        write = await _admit(core, call, request, {"token": "", "expirationTimestamp": None})
        spec, metadata = request["spec"], request["metadata"]
        seconds: int = spec["expirationSeconds"]
        if metadata.get("name") not in (None, "", call.name):
            detail = "must match the service account name if specified"
            error = field_errors.invalid("metadata.name", metadata["name"], detail)
            raise errors.invalid(_AUTHENTICATION, "TokenRequest", call.name, [error])
        for invalid, detail in (
            (seconds < 600, "may not specify a duration less than 10 minutes"),
            (seconds > 1 << 32, "may not specify a duration larger than 2^32 seconds"),
        ):
            if invalid:
                raise errors.invalid(
                    _AUTHENTICATION,
                    "TokenRequest",
                    "",
                    [field_errors.invalid("spec.expirationSeconds", seconds, detail)],
                )
        account = find_object(core, "serviceaccounts", call.namespace, call.name)
        if account is None:
            raise errors.not_found(call.info, call.name)
        if metadata.get("uid") not in (None, "", account["metadata"]["uid"]):
            raise errors.kind_conflict(
                "TokenRequest",
                call.name,
                f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account "
                f"({account['metadata']['uid']})",
                group=_AUTHENTICATION,
            )
        metadata.update(
            {
                "name": call.name,
                "namespace": call.namespace,
                "uid": account["metadata"]["uid"],
                "creationTimestamp": core.time.now(),
                "managedFields": metadata.pop("managedFields", None),
            }
        )
        await core.admission.validate(write)
        bound = _bound(core, call, spec.get("boundObjectRef"))
        audiences = spec.get("audiences") or list(self._tokens.audiences)
        lifetime, warn_after = seconds, None
        if bound is not None and bound[0] == "pod" and seconds == 3607 and audiences == list(self._tokens.audiences):
            # Clients without token reload: kubelets request 3607 s and get a year, which is counted.
            lifetime, warn_after = _YEAR, 3607
        token, expires_at = self._tokens.issue(
            account,
            audiences=audiences,
            seconds=lifetime,
            bound=bound,
            node=_node_of(core, bound),
            warn_after=warn_after,
        )
        spec["audiences"] = audiences
        expires_at -= lifetime - seconds
        request["status"] = {"token": token, "expirationTimestamp": _time(expires_at)}
        return _created_result(call, request)


def _time(seconds: int) -> str:
    return format_time(datetime.datetime.fromtimestamp(seconds, datetime.UTC))


def _bound(core: Core, call: Call, reference: Any) -> tuple[str, Mapping[str, Any]] | None:
    if reference is None:
        return None
    kind, name = reference.get("kind", ""), reference.get("name", "")
    group, _, version = reference.get("apiVersion", "").rpartition("/")
    if kind not in _BOUND_KINDS or group:
        raise errors.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    claim, resource = _BOUND_KINDS[kind]
    bound_object = find_object(core, resource, "" if kind == "Node" else call.namespace, name)
    if bound_object is None:
        raise errors.not_found(core.table.built_in("", resource), name)
    if kind == "Pod" and (bound_object["spec"].get("serviceAccountName") or "default") != call.name:
        raise errors.bad_request(
            f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
        )
    uid = reference.get("uid", "")
    if uid and uid != bound_object["metadata"]["uid"]:
        raise errors.kind_conflict(
            kind,
            name,
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
    return claim, bound_object


def _node_of(core: Core, bound: tuple[str, Mapping[str, Any]] | None) -> dict[str, str] | None:
    """The node of a bound pod; without a uid if it does not exist (yet)."""
    if bound is None or bound[0] != "pod" or not bound[1]["spec"].get("nodeName"):
        return None
    name = bound[1]["spec"]["nodeName"]
    node = find_object(core, "nodes", "", name)
    return {"name": name} if node is None else {"name": name, "uid": node["metadata"]["uid"]}


def _read(call: Call, kind: str) -> dict[str, Any]:
    """The review in the body, decoded by its schema."""
    sub = call.request_info.sub
    group, version = (sub.group, sub.version) if sub is not None else (call.info.group, call.info.version)
    options = read_write_options(call.request_info.query, "CreateOptions")
    document = read_built_in(call, options, call.info, group, version, kind)
    return {
        "kind": kind,
        "apiVersion": f"{group}/{version}",
        "metadata": document.get("metadata") or {},
        "spec": document.get("spec") or {},
    }


def _read_owned(core: Core, call: Call, kind: str) -> dict[str, Any]:
    """The review in the body, with managedFields: upstream returns the created object, which has them (apiserver
    ``pkg/endpoints/handlers/create.go``, v1.36)."""
    review = _read(call, kind)
    core.managed_fields.update_review(call, review, read_write_options(call.request_info.query, "CreateOptions"))
    return review


async def _admit(core: Core, call: Call, review: Object, status: Object) -> AdmissionAttributes:
    """Call mutating admission for a review, with the ``status`` that Go encodes for an unset one.

    Returns the attributes for validating admission."""
    review["status"] = status
    write = subresource_attributes(call, review)
    await core.admission.admit(write)
    return write


def _reject(all_errors: ErrorList) -> None:
    if all_errors:
        # Upstream leaves out kind and name here: `.authorization.k8s.io "" is invalid`.
        raise errors.invalid(_AUTHORIZATION, "", "", all_errors)


def _validate_spec(review: dict[str, Any], *, with_subject: bool) -> ErrorList:
    """After kubernetes' ``pkg/apis/authorization/validation/validation.go``."""
    spec = review["spec"]
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors: ErrorList = []
    if resource is not None and path is not None:
        errors.append(_invalid_path(path, "cannot be specified in combination with resourceAttributes"))
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(field_errors.invalid("spec.resourceAttributes", None, text))
    if with_subject and not spec.get("user") and not spec.get("groups"):
        text = "at least one of user or group must be specified"
        errors.append(field_errors.invalid("spec.user", "", text))
    if resource is not None:
        errors += validate_selector_attribute(resource, "spec.resourceAttributes")
    return errors


def _invalid_path(path: Any, text: str) -> field_errors.FieldError:
    value = field_errors.internal_value("*authorization.NonResourceAttributes", path)
    return field_errors.invalid("spec.nonResourceAttributes", value, text)


def _validate_metadata(review: dict[str, Any], except_for: str = "") -> ErrorList:
    meta = review["metadata"]
    if not meta.keys() - {"managedFields", except_for}:
        return []
    # managedFields are encoded by now.
    value = field_errors.internal_value("meta.ObjectMeta", _decode(msgspec.json.encode(meta)))
    return [
        field_errors.invalid(
            "metadata", value, f"must be empty except for {except_for}" if except_for else "must be empty"
        )
    ]


def _subject(review: dict[str, Any]) -> Identity:
    spec = review["spec"]
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return Identity(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)


def _attributes(resource: Any, path: Any) -> Attributes:
    if resource is None:
        return Attributes((path.get("verb") or "").lower(), path=path.get("path") or "")
    return Attributes(
        resource.get("verb") or "",
        resource.get("group") or "",
        resource.get("version") or "",
        resource.get("resource") or "",
        resource.get("subresource") or "",
        resource.get("namespace") or "",
        resource.get("name") or "",
        field_selector=field_selector_text(resource),
    )


def _resource_rule(rule: Rule) -> dict[str, Any]:
    document: dict[str, Any] = {
        "verbs": list(rule.verbs),
        "apiGroups": list(rule.api_groups),
        "resources": list(rule.resources),
    }
    if rule.resource_names:
        document["resourceNames"] = list(rule.resource_names)
    return document


def _user_info(identity: Identity) -> dict[str, Any]:
    document: dict[str, Any] = {"username": identity.user}
    if identity.uid:
        document["uid"] = identity.uid
    if identity.groups:
        document["groups"] = list(identity.groups)
    if identity.extra:
        document["extra"] = {key: list(values) for key, values in sorted(identity.extra.items())}
    return document


def _created_result(call: Call, document: dict[str, Any]) -> ObjectResult:
    return ObjectResult(201, call.info, _encode(document), tuple(call.warnings))
