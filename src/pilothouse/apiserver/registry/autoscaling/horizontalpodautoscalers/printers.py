"""The printer of HorizontalPodAutoscalers. After kubernetes' ``pkg/printers/internalversion/printers.go``
(v1.36).
"""

from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    nested_field,
)


def print_horizontal_pod_autoscaler(value: Doc, now: Now) -> Row:
    spec, status = nested_field(value, "spec") or {}, nested_field(value, "status") or {}
    target = spec.get("scaleTargetRef") or {}
    minimum = spec.get("minReplicas")
    return [
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _autoscaler_targets(spec, status),
        UNSET if minimum is None else str(minimum),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas") or 0,
    ]


def _autoscaler_targets(spec: Doc, status: Doc) -> str:
    if "targetCPUUtilizationPercentage" in spec:  # autoscaling/v1
        current = status.get("currentCPUUtilizationPercentage")
        utilization = "<unknown>" if current is None else f"{current}%"
        return f"cpu: {utilization}/{spec['targetCPUUtilizationPercentage']}%"
    metrics = spec.get("metrics") or ()
    if not metrics:
        return NONE
    current_metrics = status.get("currentMetrics") or ()
    targets = [_metric(m, current_metrics[i] if i < len(current_metrics) else {}) for i, m in enumerate(metrics)]
    text = ", ".join(targets[:2])
    return f"{text} + {len(targets) - 2} more..." if len(targets) > 2 else text


def _metric(metric: Doc, current: Doc) -> str:
    kind = metric.get("type", "")
    field = kind[:1].lower() + kind[1:]
    spec = metric.get(field) or {}
    target = spec.get("target") or {}
    current_values = nested_field(current, field, "current") or {}
    prefix = f"{spec.get('name')}: " if field in ("resource", "containerResource") else ""
    if target.get("averageUtilization") is not None:
        utilization = current_values.get("averageUtilization")
        return f"{prefix}{'<unknown>' if utilization is None else f'{utilization}%'}/{target['averageUtilization']}%"
    if target.get("averageValue") is not None:
        average = " (avg)" if field in ("object", "external") else ""
        return f"{prefix}{current_values.get('averageValue') or '<unknown>'}/{target['averageValue']}{average}"
    if target.get("value") is not None:
        return f"{prefix}{current_values.get('value') or '<unknown>'}/{target['value']}"
    return f"{prefix}<unknown>/<auto>"


PRINTER = Printer(
    (NAME, *columns("Reference", "Targets", "MinPods", "MaxPods", "Replicas"), AGE),
    print_horizontal_pod_autoscaler,
)
