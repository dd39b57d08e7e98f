"""What others register here: webhooks, admission policies, aggregated servers.

After kubernetes' ``pkg/apis/admissionregistration/{v1/defaults.go,validation}`` and kube-aggregator's
``pkg/apis/apiregistration`` (v1.36).
"""

from urllib.parse import urlsplit

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.expressions import conditions_problems, policy_problems
from pilothouse.apiserver.strategies.filling import child, fill
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors

_FAILURE = ("Fail", "Ignore")
_MATCH = ("Equivalent", "Exact")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REINVOCATION = ("IfNeeded", "Never")
_SCOPES = ("*", "Cluster", "Namespaced")
_ACTIONS = ("Audit", "Deny", "Warn")


def _default_rules(rules: list[Object] | None) -> None:
    for rule in rules or ():
        fill(rule, {"scope": "*"})


def _rule_problems(rule: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    for field in ("apiGroups", "apiVersions", "resources"):
        values = rule.get(field) or []
        if not values:
            problems.append(errors.required(f"{path}.{field}"))
        elif len(values) > 1 and "*" in values and field != "resources":
            text = "if '*' is present, must not specify other " + (
                "API groups" if field == "apiGroups" else "API versions"
            )
            problems.append(errors.invalid_value(f"{path}.{field}", values, text))
        if field == "apiVersions":
            # A group may be "", a version may not.
            problems += [errors.required(f"{path}.{field}[{at}]") for at, value in enumerate(values) if not value]
    if rule.get("scope") not in _SCOPES:
        problems.append(errors.not_supported(f"{path}.scope", rule.get("scope"), _SCOPES))
    operations = rule.get("operations") or []
    if not operations:
        problems.append(errors.required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        problems.append(errors.invalid_value(f"{path}.operations", operations, text))
    problems += [
        errors.not_supported(f"{path}.operations[{position}]", operation, _OPERATIONS)
        for position, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    return problems


class WebhooksStrategy(Strategy):
    """ValidatingWebhookConfigurations."""

    def default(self, obj: Object) -> None:
        for webhook in obj.get("webhooks") or ():
            service = child(webhook, "clientConfig").get("service")
            if service is not None:
                fill(service, {"port": 443})
            _default_rules(webhook.get("rules"))
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
            if name in names:
                problems.append(errors.duplicate(f"{path}.name", name))
            names.append(name)
            problems += self._webhook_problems(webhook, name, path)
        return problems

    @staticmethod
    def _webhook_problems(webhook: Object, name: str, path: str) -> list[FieldError]:
        problems: list[FieldError] = []
        if not name:
            problems.append(errors.required(f"{path}.name"))
        else:
            problems += [errors.invalid_value(f"{path}.name", name, text) for text in dns_subdomain_errors(name)]
            if not problems and name.count(".") < 2:
                text = "should be a domain with at least three segments separated by dots"
                problems.append(errors.invalid_value(f"{path}.name", name, text))
        for field in ("namespaceSelector", "objectSelector"):
            problems += selector_problems(webhook.get(field) or {}, f"{path}.{field}")
        for position, rule in enumerate(webhook.get("rules") or ()):
            problems += _rule_problems(rule, f"{path}.rules[{position}]")
        for field, supported in (("failurePolicy", _FAILURE), ("matchPolicy", _MATCH)):
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
        again = webhook.get("reinvocationPolicy")
        if again is not None and again not in _REINVOCATION:
            problems.append(errors.not_supported(f"{path}.reinvocationPolicy", again, _REINVOCATION))
        versions = webhook.get("admissionReviewVersions") or []
        if not versions:
            text = "must specify one of v1, v1beta1"
            problems.append(errors.required(f"{path}.admissionReviewVersions", text))
        for position, version in enumerate(versions):
            where = f"{path}.admissionReviewVersions[{position}]"
            told = ["duplicate version"] if version in versions[:position] else dns_1035_label_errors(version)
            problems += [errors.invalid_value(where, version, text) for text in told]
        if versions and not set(versions) & {"v1", "v1beta1"}:
            text = "must include at least one of v1, v1beta1"
            problems.append(errors.invalid_value(f"{path}.admissionReviewVersions", versions, text))
        problems += conditions_problems(webhook.get("matchConditions") or (), f"{path}.matchConditions")
        config = webhook.get("clientConfig") or {}
        if (config.get("url") is None) == (config.get("service") is None):
            problems.append(errors.required(f"{path}.clientConfig", "exactly one of url or service is required"))
        elif config.get("service") is not None:
            problems += service_problems(config["service"], f"{path}.clientConfig.service")
        else:
            problems += url_problems(config["url"], f"{path}.clientConfig.url")
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


class PolicyStrategy(Strategy):
    """Validating and MutatingAdmissionPolicies."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        fill(spec, {"failurePolicy": "Fail"})
        constraints = spec.get("matchConstraints")
        if constraints is not None:
            _default_constraints(constraints)

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems: list[FieldError] = []
        if spec["failurePolicy"] not in _FAILURE:
            problems.append(errors.not_supported("spec.failurePolicy", spec["failurePolicy"], _FAILURE))
        constraints = spec.get("matchConstraints")
        if constraints is None:
            problems.append(errors.required("spec.matchConstraints"))
        else:
            rules = constraints.get("resourceRules") or []
            if not rules:
                problems.append(errors.required("spec.matchConstraints.resourceRules"))
            for position, rule in enumerate(rules):
                problems += _rule_problems(rule, f"spec.matchConstraints.resourceRules[{position}]")
        if "mutations" not in spec and not spec.get("validations") and not spec.get("auditAnnotations"):
            text = "validations or auditAnnotations must contain at least one item"
            problems.append(errors.required("spec.validations", text))
        return problems + policy_problems(spec)


def _default_constraints(constraints: Object) -> None:
    child(constraints, "namespaceSelector")
    child(constraints, "objectSelector")
    fill(constraints, {"matchPolicy": "Equivalent"})
    _default_rules(constraints.get("resourceRules"))
    _default_rules(constraints.get("excludeResourceRules"))


class PolicyBindingStrategy(Strategy):
    """Bindings of both kinds of policy."""

    def default(self, obj: Object) -> None:
        matched = child(obj, "spec").get("matchResources")
        if matched is not None:
            _default_constraints(matched)

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems: list[FieldError] = []
        if not spec.get("policyName"):
            problems.append(errors.required("spec.policyName"))
        actions = spec.get("validationActions")
        if obj.get("kind") == "ValidatingAdmissionPolicyBinding" and not actions:
            problems.append(errors.required("spec.validationActions", "at least one validation action is required"))
        seen: list[str] = []
        for position, action in enumerate(actions or ()):
            where = f"spec.validationActions[{position}]"
            if action not in _ACTIONS:
                problems.append(errors.not_supported(where, action, _ACTIONS))
            elif action in seen:
                problems.append(errors.duplicate(where, action))
            seen.append(action)
        if "Deny" in seen and "Warn" in seen:
            text = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"  # noqa: E501
            problems.append(errors.invalid_value("spec.validationActions", actions, text))
        return problems


class ApiServiceStrategy(Strategy):
    """Group versions, and which server has them."""

    def default(self, obj: Object) -> None:
        service = child(obj, "spec").get("service")
        if service is not None:
            fill(service, {"port": 443})

    def validate(self, obj: Object) -> list[FieldError]:
        spec, name = obj["spec"], obj["metadata"].get("name") or ""
        problems: list[FieldError] = []
        wanted = f"{spec.get('version') or ''}.{spec.get('group') or ''}"
        if name != wanted:
            problems.append(
                errors.invalid_value("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')
            )
        for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
            value = spec.get(field) or 0
            if not 0 < value <= limit:
                text = f"must be positive and less than {limit}"
                problems.append(errors.invalid_value(f"spec.{field}", value, text))
        if not spec.get("version"):
            problems.append(errors.required("spec.version"))
        service = spec.get("service")
        if service is None:
            if spec.get("caBundle"):
                problems.append(
                    errors.invalid_value("spec.caBundle", "...", "local APIServices may not have a caBundle")
                )
            if spec.get("insecureSkipTLSVerify"):
                problems.append(
                    errors.invalid_value(
                        "spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify"
                    )
                )
            return problems
        problems += [
            errors.required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)
        ]
        if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
            text = "may not be true if caBundle is present"
            problems.append(errors.invalid_value("spec.insecureSkipTLSVerify", True, text))
        return problems
