"""ComponentStatuses. The list is always empty."""

from pilothouse.apiserver.registry.generic.printers import NAME, Doc, Now, Printer, Row, columns
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy


class ComponentStatusStrategy(Strategy):
    """The strategy of ComponentStatuses; no components are probed."""

    deprecation_warnings = ("v1 ComponentStatus is deprecated in v1.19+",)


def print_component_status(value: Doc, _now: Now) -> Row:
    status, message, error = "Unknown", "", ""
    for condition in value.get("conditions") or ():
        if condition.get("type") == "Healthy":
            status = "Healthy" if condition.get("status") == "True" else "Unhealthy"
            message, error = condition.get("message", ""), condition.get("error", "")
            break
    return [status, message, error]


REGISTRATION = Registration(
    ComponentStatusStrategy(),
    printer=lambda: Printer((NAME, *columns("Status", "Message", "Error")), print_component_status),
)
