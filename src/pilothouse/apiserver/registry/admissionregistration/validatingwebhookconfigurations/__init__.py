"""ValidatingWebhookConfigurations."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList, duplicate
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Printer, columns, count_of
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.admissionregistration import rules, webhook_validation


class ValidatingWebhookConfigurationStrategy(Strategy):
    allow_unconditional_update = False
    generation_fields = ("webhooks",)
    kube_finalizers = False
    update_steps = ("object meta", "object")

    def set_defaults(self, obj: Object) -> None:
        for webhook in obj.get("webhooks") or ():
            service = ensure_object(webhook, "clientConfig").get("service")
            if service is not None:
                set_default_fields(service, {"port": 443})
            rules.set_defaults_rules(webhook.get("rules"))
            for field, value in (("failurePolicy", "Fail"), ("matchPolicy", "Equivalent"), ("timeoutSeconds", 10)):
                if webhook.get(field) is None:
                    webhook[field] = value
            ensure_object(webhook, "namespaceSelector")
            ensure_object(webhook, "objectSelector")

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return rules.warnings_for_static_suffix(obj["metadata"]["name"])

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        errors: ErrorList = []
        names: set[str] = set()
        for position, webhook in enumerate(obj.get("webhooks") or ()):
            path, name = f"webhooks[{position}]", webhook.get("name") or ""
            errors += webhook_validation.validate_webhook(webhook, name, path)
            errors += webhook_validation.validate_admission_review_versions(
                webhook.get("admissionReviewVersions") or [], path
            )
            if name and name in names:
                errors.append(duplicate(f"{path}.name", name))
            names.add(name)
        return errors


REGISTRATION = Registration(
    ValidatingWebhookConfigurationStrategy(),
    printer=lambda: Printer((NAME, *columns("Webhooks", type_="integer"), AGE), count_of("webhooks")),
)
