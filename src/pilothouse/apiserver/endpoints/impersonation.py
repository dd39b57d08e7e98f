"""Impersonation: the ``Impersonate-*`` headers and their authorization.

Follows apiserver's ``pkg/endpoints/filters/impersonation`` (v1.36). Besides legacy impersonation, with the verb
``impersonate``, there are modes (ConstrainedImpersonation) that also require permission for this request on behalf of
the user; they are tried first, and if all are denied the first denial is reported.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

import msgspec

from pilothouse.apiserver.authentication.identity import ALL_AUTHENTICATED, ANONYMOUS, MASTERS, Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, Authorizer, forbidden
from pilothouse.apiserver.errors import StatusError, bad_request
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors

with lazy_imports():
    from pilothouse.apiserver.registry.generic import meta_validation


SEPARATOR = "\n"
"""The separator of repeated impersonation headers, which values cannot contain."""
PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"
_NODE = "system:node:"
_ACCOUNT = "system:serviceaccount:"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_UNAUTHENTICATED = ANONYMOUS.groups[0]
_MANY = 4


def requested_user(headers: Mapping[str, str]) -> Identity | None:
    """The requested user, as in the headers; None without such headers. Raises 400 if the user name is missing."""
    user, uid = headers.get("impersonate-user", ""), headers.get("impersonate-uid", "")
    groups = tuple(headers["impersonate-group"].split(SEPARATOR)) if "impersonate-group" in headers else ()
    extra = {
        unquote(name.removeprefix(_EXTRA)): tuple(value.split(SEPARATOR))
        for name, value in headers.items()
        if name.startswith(_EXTRA)
    }
    if user:
        return Identity(user, groups, uid, extra)
    if uid or groups or extra:
        raise bad_request(f"requested {_go_syntax(uid, groups, extra)} without impersonating a user name")
    return None


def _go_syntax(uid: str, groups: tuple[str, ...], extra: Mapping[str, tuple[str, ...]]) -> str:
    """The user as Go's ``%#v`` prints it."""
    formatted_extra = "map[string][]string(nil)"
    if extra:
        pairs = ", ".join(f"{quote(key)}:{_go_slice(extra[key])}" for key in sorted(extra))
        formatted_extra = f"map[string][]string{{{pairs}}}"
    return f'&user.DefaultInfo{{Name:"", UID:{quote(uid)}, Groups:{_go_slice(groups)}, Extra:{formatted_extra}}}'


def _go_slice(values: tuple[str, ...]) -> str:
    return f"[]string{{{', '.join(map(quote, values))}}}" if values else "[]string(nil)"


def impersonate(
    caller: Identity, requested: Identity, attributes: Attributes, authorizer: Authorizer
) -> tuple[Identity, str]:
    """The impersonated user, and the mode that permits it. Raises ``StatusError`` 403."""
    first_error: StatusError | None = None
    for mode in _modes(caller, requested):
        try:
            return _Check(mode, caller, authorizer).impersonate(requested, attributes), mode
        except StatusError as error:
            first_error = first_error or error
    assert first_error is not None, "legacy impersonation always applies"
    raise first_error


def _modes(caller: Identity, requested: Identity) -> Iterator[str]:
    """The modes that apply, the narrowest first; "" is legacy impersonation."""
    is_user_only = not (requested.uid or requested.groups or requested.extra)
    node, account = _node_of(requested.user), _account_of(requested.user)
    if node and is_user_only:
        if _account_of(caller.user) and caller.extra.get(_NODE_NAME) == (node,):
            yield "associated-node"
        yield "arbitrary-node"
    if account and is_user_only:
        yield "serviceaccount"
    if not node and not account:
        yield "user-info"
    yield ""


def _node_of(user: str) -> str:
    name = user.removeprefix(_NODE)
    return name if name != user and not dns_subdomain_errors(name) else ""


def _account_of(user: str) -> tuple[str, str] | None:
    namespace, separator, name = user.removeprefix(_ACCOUNT).partition(":")
    if not user.startswith(_ACCOUNT) or not separator or dns_label_errors(namespace) or dns_subdomain_errors(name):
        return None
    return namespace, name


class _Check:
    """The authorization of one mode."""

    def __init__(self, mode: str, caller: Identity, authorizer: Authorizer) -> None:
        self._mode = mode
        self._caller = caller
        self._authorizer = authorizer
        self._verb = f"impersonate:{mode}" if mode else "impersonate"
        self._group = _GROUP if mode else ""

    def impersonate(self, requested: Identity, attributes: Attributes) -> Identity:
        if self._mode:
            self._authorize(msgspec.structs.replace(attributes, verb=f"impersonate-on:{self._mode}:{attributes.verb}"))
        groups = self._user(requested)
        if requested.uid:
            self._authorize(self._attributes("uids", requested.uid, group=_GROUP))
        self._groups(requested.groups)
        self._extra(requested.extra)
        if requested.user == ANONYMOUS.user:
            added = _UNAUTHENTICATED
        else:
            added = "" if _UNAUTHENTICATED in groups else ALL_AUTHENTICATED
        if added and added not in groups:
            groups = (*groups, added)
        return Identity(requested.user, groups, requested.uid, requested.extra)

    def _attributes(self, resource: str, name: str, *, group: str | None = None, subresource: str = "") -> Attributes:
        # Groups and users have the empty group in legacy mode; extras and uids have always had a group.
        api_group = self._group if group is None else group
        return Attributes(self._verb, api_group, "v1", resource, subresource, "", name)

    def _authorize(self, attributes: Attributes) -> None:
        decision = self._authorizer.authorize(self._caller, attributes)
        if not decision.allowed:
            raise forbidden(self._caller, attributes, decision.reason)

    def _user(self, requested: Identity) -> tuple[str, ...]:
        """Authorize the name; returns the user with implied or requested groups."""
        attributes, groups = self._attributes("users", requested.user), requested.groups
        node, account = _node_of(requested.user), _account_of(requested.user)
        if self._mode and node:
            name = "*" if self._mode == "associated-node" else node
            attributes, groups = self._attributes("nodes", name), ("system:nodes",)
        if account is not None:
            namespace, name = account
            attributes = msgspec.structs.replace(attributes, resource="serviceaccounts", namespace=namespace, name=name)
            groups = groups or ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        self._authorize(attributes)
        return groups

    def _groups(self, groups: tuple[str, ...]) -> None:
        if self._mode:
            if "" in groups:
                self._reject(self._attributes("groups", ""), "impersonating the empty string group is not allowed")
            if MASTERS in groups:
                text = "impersonating the system:masters group is not allowed"
                self._reject(self._attributes("groups", MASTERS), text)
            if len(groups) >= _MANY and self._is_authorized(self._attributes("groups", "*")):
                return
        for group in groups:
            self._authorize(self._attributes("groups", group))

    def _extra(self, extra: Mapping[str, tuple[str, ...]]) -> None:
        if self._mode and extra:
            key_error = _extra_error(extra)
            if key_error:
                self._reject(self._attributes("userextras", "", group=_GROUP), key_error)
            has_many_values = len(extra) >= _MANY or sum(map(len, extra.values())) >= _MANY
            if has_many_values and self._is_authorized(
                self._attributes("userextras", "*", group=_GROUP, subresource="*")
            ):
                return
        for key in sorted(extra):
            for value in extra[key]:
                self._authorize(self._attributes("userextras", value, group=_GROUP, subresource=key))

    def _is_authorized(self, attributes: Attributes) -> bool:
        return self._authorizer.authorize(self._caller, attributes).allowed

    def _reject(self, attributes: Attributes, reason: str) -> None:
        raise forbidden(self._caller, attributes, reason)


def _extra_error(extra: Mapping[str, tuple[str, ...]]) -> str:
    for key in sorted(extra):
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        key_error = _key_error(key)
        if key_error:
            return f"impersonating an invalid key in extra is not allowed: {key_error}"
        if key != key.lower():
            return f"impersonating a non-lowercase key in extra is not allowed: {quote(key)}"
        if "" in extra[key]:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _key_error(key: str) -> str:
    all_errors = meta_validation.validate_domain_prefixed_path(key, "extra.key")
    return str(all_errors[0]) if all_errors else ""
