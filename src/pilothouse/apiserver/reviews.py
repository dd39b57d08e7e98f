"""The review APIs and token requests: questions about users, rights and tokens. Nothing of them is stored.

``register`` adds them to a core's virtual resources. Follows kubernetes' ``pkg/registry/authorization`` and
``pkg/registry/authentication`` (v1.36) and ``pkg/registry/core/serviceaccount/storage/token.go``.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.authentication import Authenticator
from pilothouse.apiserver.authorization import Attributes, Authorizer, Decision, Rule
from pilothouse.apiserver.bodies import read_document
from pilothouse.apiserver.core import Call, Core
from pilothouse.apiserver.identity import Identity
from pilothouse.apiserver.results import ObjectResult
from pilothouse.apiserver.service_account_tokens import ServiceAccountTokens

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
_YEAR = 365 * 24 * 3600
_BOUND_KINDS = {"Pod": ("pod", "pods"), "Secret": ("secret", "secrets"), "Node": ("node", "nodes")}


def register(
    core: Core, authenticator: Authenticator, authorizer: Authorizer, tokens: ServiceAccountTokens | None
) -> None:
    """Serve the reviews from ``core``; token requests only if there is somebody to issue tokens."""
    reviews = _Reviews(authenticator, authorizer, tokens)
    for resource, handler in (
        ("subjectaccessreviews", reviews.subject_access),
        ("localsubjectaccessreviews", reviews.local_access),
        ("selfsubjectaccessreviews", reviews.self_access),
        ("selfsubjectrulesreviews", reviews.self_rules),
    ):
        core.virtual[(_AUTHORIZATION, resource, "")] = handler
    core.virtual[(_AUTHENTICATION, "selfsubjectreviews", "")] = reviews.self_subject
    core.virtual[(_AUTHENTICATION, "tokenreviews", "")] = reviews.token
    if tokens is not None:
        core.virtual[("", "serviceaccounts", "token")] = reviews.request_token


def find_object(core: Core, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
    """The stored object of a core resource, or None."""
    info = core.table.find("", "v1", resource)
    assert info is not None, f"{resource} is a core resource"
    record = core.store.get(info.key(namespace, name))
    if record is None:
        return None
    found: Mapping[str, Any] = _decode(record.value)
    return found


class _Reviews:
    def __init__(
        self, authenticator: Authenticator, authorizer: Authorizer, tokens: ServiceAccountTokens | None
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._tokens = tokens

    async def subject_access(self, _core: Core, call: Call) -> ObjectResult:
        review = _read(call, "SubjectAccessReview")
        return self._decide(call, review, _subject(review))

    async def local_access(self, _core: Core, call: Call) -> ObjectResult:
        review = _read(call, "LocalSubjectAccessReview")
        asked = (review["spec"].get("resourceAttributes") or {}).get("namespace", "")
        if asked != call.namespace:
            raise _invalid(
                review,
                errors.invalid_value(
                    "spec.resourceAttributes.namespace", asked, f"must match metadata.namespace: {call.namespace}"
                ),
            )
        return self._decide(call, review, _subject(review))

    async def self_access(self, _core: Core, call: Call) -> ObjectResult:
        return self._decide(call, _read(call, "SelfSubjectAccessReview"), call.identity)

    def _decide(self, call: Call, review: dict[str, Any], identity: Identity) -> ObjectResult:
        spec = review["spec"]
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if (resource is None) == (path is None):
            raise _invalid(
                review,
                errors.invalid_value(
                    "spec.resourceAttributes",
                    resource,
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified"
                    if resource is None
                    else "cannot be specified in combination with nonResourceAttributes",
                ),
            )
        decision = self._authorizer.decide(identity, _attributes(resource, path))
        review["status"] = _shown_decision(decision)
        return _answer(call, review)

    async def self_rules(self, _core: Core, call: Call) -> ObjectResult:
        review = _read(call, "SelfSubjectRulesReview")
        namespace = review["spec"].get("namespace", "")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        rules, problem = self._authorizer.rules(call.identity, namespace)
        status: dict[str, Any] = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.non_resource_urls)}
                for rule in rules
                if rule.non_resource_urls
            ],
            "incomplete": bool(problem),
        }
        if problem:
            status["evaluationError"] = problem
        review["status"] = status
        return _answer(call, review)

    async def self_subject(self, core: Core, call: Call) -> ObjectResult:
        review = _read(call, "SelfSubjectReview")
        del review["spec"]  # it has none
        review["metadata"]["creationTimestamp"] = core.time.now()
        review["status"] = {"userInfo": _user_info(call.identity)}
        return _answer(call, review)

    async def token(self, _core: Core, call: Call) -> ObjectResult:
        review = _read(call, "TokenReview")
        token = review["spec"].get("token", "")
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        asked: Sequence[str] = review["spec"].get("audiences") or ()
        identity = None
        audiences = list(asked) or (list(self._tokens.audiences) if self._tokens is not None else [])
        if asked and self._tokens is not None:
            identity = self._tokens.identity_for(token, asked)
        if identity is None:
            identity = self._authenticator.token_identity(token)
            if asked and self._tokens is not None and not set(asked) & set(self._tokens.audiences):
                identity = None
        if identity is None:
            review["status"] = {"user": {}, "error": "invalid bearer token"}
        else:
            review["status"] = {"authenticated": True, "user": _user_info(identity)}
            if audiences:
                review["status"]["audiences"] = audiences
        return _answer(call, review)

    async def request_token(self, core: Core, call: Call) -> ObjectResult:
        assert self._tokens is not None, "token requests are only served by a server that issues tokens"
        request = _read(call, "TokenRequest")
        spec, metadata = request["spec"], request["metadata"]
        seconds = spec.get("expirationSeconds")
        seconds = 3600 if seconds is None else seconds
        for refused, words in (
            (seconds < 600, "may not specify a duration less than 10 minutes"),
            (seconds > 1 << 32, "may not specify a duration larger than 2^32 seconds"),
        ):
            if refused:
                raise errors.invalid(
                    _AUTHENTICATION,
                    "TokenRequest",
                    "",
                    [errors.invalid_value("spec.expirationSeconds", seconds, words)],
                )
        account = find_object(core, "serviceaccounts", call.namespace, call.name)
        if account is None:
            raise errors.not_found(call.info, call.name)
        if metadata.get("uid") not in (None, "", account["metadata"]["uid"]):
            raise errors.conflict(
                call.info,
                call.name,
                f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account "
                f"({account['metadata']['uid']})",
            )
        bound = _bound(core, call, spec.get("boundObjectRef"))
        audiences = spec.get("audiences") or list(self._tokens.audiences)
        lifetime, warn_after = seconds, None
        if bound is not None and bound[0] == "pod" and seconds == 3607 and audiences == list(self._tokens.audiences):
            # What kubelets ask for: clients that do not yet reload their token get a year, and are counted.
            lifetime, warn_after = _YEAR, 3607
        token, ends = self._tokens.issue(
            account, audiences=audiences, seconds=lifetime, bound=bound, warn_after=warn_after
        )
        metadata.update(
            {
                "name": call.name,
                "namespace": call.namespace,
                "uid": account["metadata"]["uid"],
                "creationTimestamp": core.time.now(),
            }
        )
        spec["audiences"] = audiences
        spec["expirationSeconds"] = seconds
        spec.setdefault("boundObjectRef", None)
        ends -= lifetime - seconds
        request["status"] = {"token": token, "expirationTimestamp": _time(ends)}
        return _answer(call, request)


def _time(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bound(core: Core, call: Call, reference: Any) -> tuple[str, Mapping[str, Any]] | None:
    if not reference:
        return None
    kind, name = reference.get("kind", ""), reference.get("name", "")
    if kind not in _BOUND_KINDS or reference.get("apiVersion", "") not in ("", "v1"):
        raise errors.bad_request(f"cannot bind token to object of type {reference.get('apiVersion', '')}, Kind={kind}")
    claim, resource = _BOUND_KINDS[kind]
    found = find_object(core, resource, "" if kind == "Node" else call.namespace, name)
    if found is None:
        info = core.table.find("", "v1", resource)
        assert info is not None, "bound objects are of core kinds"
        raise errors.not_found(info, name)
    if kind == "Pod" and (found["spec"].get("serviceAccountName") or "default") != call.name:
        raise errors.bad_request(
            f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
        )
    uid = reference.get("uid", "")
    if uid and uid != found["metadata"]["uid"]:
        raise errors.conflict(
            call.info,
            call.name,
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
    return claim, found


def _read(call: Call, kind: str) -> dict[str, Any]:
    if call.request.method != "POST":
        raise errors.method_not_allowed()
    review: dict[str, Any] = read_document(call.request.body, call.content_type, kind)
    if review.get("kind", kind) != kind:
        raise errors.bad_request(f"expected a {kind}, got a {review.get('kind')}")
    sub = call.asked.sub
    version = f"{sub.group}/{sub.version}" if sub is not None else call.info.api_version
    return {
        "kind": kind,
        "apiVersion": version,
        "metadata": review.get("metadata") or {},
        "spec": review.get("spec") or {},
    }


def _invalid(review: dict[str, Any], problem: errors.FieldError) -> errors.StatusError:
    # Upstream leaves the kind out here: `.authorization.k8s.io "" is invalid`.
    return errors.invalid(_AUTHORIZATION, "", review["metadata"].get("name", ""), [problem])


def _subject(review: dict[str, Any]) -> Identity:
    spec = review["spec"]
    user, groups = spec.get("user", ""), tuple(spec.get("groups") or spec.get("group") or ())
    if not user and not groups:
        raise _invalid(
            review, errors.invalid_value("spec.user", user, "at least one of user or group must be specified")
        )
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return Identity(user, groups, spec.get("uid", ""), extra)


def _attributes(resource: Any, path: Any) -> Attributes:
    if resource is None:
        return Attributes(path.get("verb", "").lower(), path=path.get("path", ""))
    return Attributes(
        resource.get("verb", ""),
        resource.get("group", ""),
        resource.get("version", ""),
        resource.get("resource", ""),
        resource.get("subresource", ""),
        resource.get("namespace", ""),
        resource.get("name", ""),
    )


def _shown_decision(decision: Decision) -> dict[str, Any]:
    status: dict[str, Any] = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    if decision.error:
        status["evaluationError"] = decision.error
    return status


def _resource_rule(rule: Rule) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "verbs": list(rule.verbs),
        "apiGroups": list(rule.api_groups),
        "resources": list(rule.resources),
    }
    if rule.resource_names:
        shown["resourceNames"] = list(rule.resource_names)
    return shown


def _user_info(identity: Identity) -> dict[str, Any]:
    shown: dict[str, Any] = {"username": identity.user}
    if identity.uid:
        shown["uid"] = identity.uid
    if identity.groups:
        shown["groups"] = list(identity.groups)
    if identity.extra:
        shown["extra"] = {key: list(values) for key, values in sorted(identity.extra.items())}
    return shown


def _answer(call: Call, document: dict[str, Any]) -> ObjectResult:
    return ObjectResult(201, call.info, _encode(document), tuple(call.warnings))
