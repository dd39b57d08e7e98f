"""MutatingWebhookConfigurations."""

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.admissionregistration.validatingwebhookconfigurations import (
    ValidatingWebhookConfigurationStrategy,
)
from pilothouse.apiserver.registry.generic.object_fields import set_default_fields
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Printer, columns, count_of
from pilothouse.apiserver.registry.generic.registration import Registration


class MutatingWebhookConfigurationStrategy(ValidatingWebhookConfigurationStrategy):
    def set_defaults(self, obj: Object) -> None:
        super().set_defaults(obj)
        for webhook in obj.get("webhooks") or ():
            set_default_fields(webhook, {"reinvocationPolicy": "Never"})


REGISTRATION = Registration(
    MutatingWebhookConfigurationStrategy(),
    printer=lambda: Printer((NAME, *columns("Webhooks", type_="integer"), AGE), count_of("webhooks")),
)
