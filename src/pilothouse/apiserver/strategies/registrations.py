"""Webhooks for admission.

After kubernetes' ``pkg/apis/admissionregistration/{v1/defaults.go,validation}`` (v1.36).
"""

from urllib.parse import urlsplit

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.admission_rules import MATCH, default_rules, rule_problems
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.expressions import conditions_problems
from pilothouse.apiserver.strategies.filling import child, fill
from pilothouse.apiserver.strategies.policies import FAILURE, REINVOCATION
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors

_SIDE_EFFECTS = ("None", "NoneOnDryRun")


class WebhooksStrategy(Strategy):
    """ValidatingWebhookConfigurations."""

    def default(self, obj: Object) -> None:
        for webhook in obj.get("webhooks") or ():
            service = child(webhook, "clientConfig").get("service")
            if service is not None:
                fill(service, {"port": 443})
            default_rules(webhook.get("rules"))
            for field, value in (("failurePolicy", "Fail"), ("matchPolicy", "Equivalent"), ("timeoutSeconds", 10)):
                if webhook.get(field) is None:
                    webhook[field] = value
            child(webhook, "namespaceSelector")
            child(webhook, "objectSelector")

    def validate(self, obj: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        names: list[str] = []
        for position, webhook in enumerate(obj.get("webhooks") or ()):
            path, name = f"webhooks[{position}]", webhook.get("name") or ""
            problems += _webhook_problems(webhook, name, path)
            problems += _version_problems(webhook.get("admissionReviewVersions") or [], path)
            if name and name in names:
                problems.append(errors.duplicate(f"{path}.name", name))
            names.append(name)
        return problems


def _webhook_problems(webhook: Object, name: str, path: str) -> list[FieldError]:
    problems = _full_name_problems(name, f"{path}.name")
    for position, rule in enumerate(webhook.get("rules") or ()):
        problems += rule_problems(rule, f"{path}.rules[{position}]")
    for field, supported in (("failurePolicy", FAILURE), ("matchPolicy", MATCH)):
        if webhook.get(field) not in supported:
            problems.append(errors.not_supported(f"{path}.{field}", webhook.get(field), supported))
    effects = webhook.get("sideEffects")
    if effects is None:
        listed = ", ".join(_SIDE_EFFECTS)
        problems.append(errors.required(f"{path}.sideEffects", f"must specify one of {listed}"))
    elif effects not in _SIDE_EFFECTS:
        problems.append(errors.not_supported(f"{path}.sideEffects", effects, _SIDE_EFFECTS))
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        problems.append(errors.invalid_value(f"{path}.timeoutSeconds", seconds, text))
    for field in ("namespaceSelector", "objectSelector"):
        problems += selector_problems(webhook.get(field) or {}, f"{path}.{field}")
    again = webhook.get("reinvocationPolicy")
    if again is not None and again not in REINVOCATION:
        problems.append(errors.not_supported(f"{path}.reinvocationPolicy", again, REINVOCATION))
    config = webhook.get("clientConfig") or {}
    if (config.get("url") is None) == (config.get("service") is None):
        problems.append(errors.required(f"{path}.clientConfig", "exactly one of url or service is required"))
    elif config.get("service") is not None:
        problems += service_problems(config["service"], f"{path}.clientConfig.service")
    else:
        problems += url_problems(config["url"], f"{path}.clientConfig.url")
    return problems + conditions_problems(webhook.get("matchConditions") or (), f"{path}.matchConditions")


def _full_name_problems(name: str, path: str) -> list[FieldError]:
    """``IsFullyQualifiedName``."""
    if not name:
        return [errors.required(path)]
    told = dns_subdomain_errors(name)
    if told:
        return [errors.invalid_value(path, name, ",".join(told))]
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        return [errors.invalid_value(path, name, text)]
    return []


def _version_problems(versions: list[str], webhook: str) -> list[FieldError]:
    """Versions of reviews: at least one that the server knows."""
    path = f"{webhook}.admissionReviewVersions"
    if not versions:
        return [errors.required(path, "must specify one of v1, v1beta1")]
    problems: list[FieldError] = []
    for position, version in enumerate(versions):
        where = f"{path}[{position}]"
        told = ["duplicate version"] if version in versions[:position] else dns_1035_label_errors(version)
        problems += [errors.invalid_value(where, version, text) for text in told]
    if not set(versions) & {"v1", "v1beta1"}:
        problems.append(errors.invalid_value(path, versions, "must include at least one of v1, v1beta1"))
    return problems


def service_problems(service: Object, path: str) -> list[FieldError]:
    """After apiserver's ``pkg/util/webhook/validation.go`` (v0.36), whose caller gives it name and namespace the other
    way round: each is told of as the other."""
    problems = [
        errors.required(f"{path}.{told}")
        for told, field in (("name", "namespace"), ("namespace", "name"))
        if not service.get(field)
    ]
    port, target = service.get("port"), service.get("path") or ""
    if port is not None and not 1 <= port <= 65535:
        told = "port is not valid: must be between 1 and 65535, inclusive"
        problems.append(errors.invalid_value(f"{path}.port", port, told))
    if target in ("", "/"):
        return problems
    if target == "//":
        return [*problems, errors.invalid_value(f"{path}.path", target, "segment[0] may not be empty")]
    if not target.startswith("/"):
        problems.append(errors.invalid_value(f"{path}.path", target, "must start with a '/'"))
    # Upstream cuts off one byte, of whatever it is a part.
    rest = target.encode()[1:].decode(errors="replace")
    for position, step in enumerate(rest.removesuffix("/").split("/")):
        told_of = dns_subdomain_errors(step) if step else ()
        texts = (
            [f"segment[{position}]: {text}" for text in told_of] if step else [f"segment[{position}] may not be empty"]
        )
        problems += [errors.invalid_value(f"{path}.path", target, text) for text in texts]
    return problems


def url_problems(url: str, path: str) -> list[FieldError]:
    """What is wrong with the address of a webhook; the same file."""
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [errors.required(path, f"url must be a valid URL: {error}{form}")]
    problems: list[FieldError] = []
    if parts.scheme != "https":
        told = f"'https' is the only allowed URL scheme{form}"
        problems.append(errors.invalid_value(path, parts.scheme, told))
    user, _at, host = parts.netloc.rpartition("@")
    for wrong, value, text in (
        (not host, host, f"host must be specified{form}"),
        ("@" in parts.netloc, user, "user information is not permitted in the URL"),
        (bool(parts.fragment), parts.fragment, "fragments are not permitted in the URL"),
        (bool(parts.query), parts.query, "query parameters are not permitted in the URL"),
    ):
        if wrong:
            problems.append(errors.invalid_value(path, value, text))
    return problems


class MutatingWebhooksStrategy(WebhooksStrategy):
    """MutatingWebhookConfigurations."""

    def default(self, obj: Object) -> None:
        super().default(obj)
        for webhook in obj.get("webhooks") or ():
            fill(webhook, {"reinvocationPolicy": "Never"})
