"""Validation of a policy.

After apiserver's ``pkg/apis/audit/validation/validation.go`` (v0.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver.audit.policy import LEVELS, STAGES, GroupResources, Policy, PolicyRule
from pilothouse.apiserver.field_errors import ErrorList, invalid, not_supported, required
from pilothouse.machinery.names import dns_subdomain_errors


def validate_policy(policy: Policy) -> ErrorList:
    """The errors in a policy."""
    all_errors = _validate_omit_stages(policy.omit_stages, "omitStages")
    for index, rule in enumerate(policy.rules):
        all_errors += _validate_policy_rule(rule, f"rules[{index}]")
    return all_errors


def _validate_policy_rule(rule: PolicyRule, path: str) -> ErrorList:
    all_errors = _validate_level(rule.level, f"{path}.level")
    all_errors += _validate_non_resource_urls(rule.non_resource_urls, f"{path}.nonResourceURLs")
    all_errors += _validate_resources(rule.resources, f"{path}.resources")
    all_errors += _validate_omit_stages(rule.omit_stages, f"{path}.omitStages")
    if rule.non_resource_urls and (rule.resources or rule.namespaces):
        text = "rules cannot apply to both regular resources and non-resource URLs"
        all_errors.append(invalid(f"{path}.nonResourceURLs", list(rule.non_resource_urls), text))
    return all_errors


def _validate_level(level: str, path: str) -> ErrorList:
    if not level:
        return [required(path)]
    return [] if level in LEVELS else [not_supported(path, level, LEVELS)]


def _validate_non_resource_urls(urls: Sequence[str], path: str) -> ErrorList:
    all_errors: ErrorList = []
    for index, url in enumerate(urls):
        if url == "*":
            continue
        if not url.startswith("/"):
            text = "non-resource URL rules must begin with a '/' character"
            all_errors.append(invalid(f"{path}[{index}]", url, text))
        if "*" in url[:-1]:
            text = "non-resource URL wildcards '*' must be the final character of the rule"
            all_errors.append(invalid(f"{path}[{index}]", url, text))
    return all_errors


def _validate_resources(resources: Sequence[GroupResources], path: str) -> ErrorList:
    all_errors: ErrorList = []
    for group_resources in resources:
        if group_resources.group not in ("", "*"):
            messages = dns_subdomain_errors(group_resources.group)
            if messages:
                all_errors.append(invalid(f"{path}.group", group_resources.group, ",".join(messages)))
        if group_resources.resource_names and not group_resources.resources:
            text = "using resourceNames requires at least one resource"
            all_errors.append(invalid(f"{path}.resourceNames", list(group_resources.resource_names), text))
    return all_errors


def _validate_omit_stages(stages: Sequence[str], path: str) -> ErrorList:
    return [
        invalid(f"{path}[{index}]", stage, f"allowed stages are {','.join(STAGES)}")
        for index, stage in enumerate(stages)
        if stage not in STAGES
    ]
