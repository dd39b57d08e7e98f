"""``ConverterFactory``: creates the converters of definitions (upstream's ``CRConverterFactory``, v0.36)."""

from collections.abc import Iterable

from pilothouse.apiserver.admission.dynamic.webhook_calls import Send, send
from pilothouse.apiserver.apiextensions.conversion.cache import ConversionCache
from pilothouse.apiserver.apiextensions.conversion.converter import Converter
from pilothouse.apiserver.apiextensions.conversion.webhook_converter import ConversionMetrics, WebhookConverter
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.resources import ResourceInfo


class ConverterFactory:
    """Creates converters, which share metrics and cache."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._cache = ConversionCache()
        self.metrics = ConversionMetrics()
        self.send: Send = lambda target, body: (core.send_webhook or send)(target, body)

    def converter(self, definition: Object) -> Converter:
        """The converter of a definition with the strategy ``Webhook``."""
        webhook: Object = definition["spec"]["conversion"].get("webhook") or {}
        name: str = definition["metadata"]["name"]
        called = WebhookConverter(self._core, name, webhook, self.metrics, lambda target, body: self.send(target, body))
        return Converter(self._core, called, self._cache)

    def forget(self, infos: Iterable[ResourceInfo]) -> None:
        """Remove conversions to these versions from the cache, after a change of their definition."""
        self._cache.forget(set(infos))
