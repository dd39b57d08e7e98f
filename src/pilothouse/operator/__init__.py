"""Operators: controllers of custom resources, declared instead of assembled.

An ``App`` has controllers. Each is a function (or a ``Reconciler``) of one object and a ``Context``, which applies the
desired objects, reads from caches, records events and collects the status::

    app = App("website-operator")

    @app.controller(WEBSITES, owns=(DEPLOYMENTS,))
    async def website(site: Website, ctx: Context[Website]) -> None:
        await ctx.apply({"apiVersion": "apps/v1", "kind": "Deployment", ...})
        ctx.condition("Ready", True, reason="Applied")

``CustomResource`` creates a ``Kind`` and a CustomResourceDefinition from a class. Everything is based on
``pilothouse.runtime`` and ``pilothouse.client``, which can be used directly.
"""

from pilothouse.api.meta import Condition, LabelSelector, ObjectMeta, StatusCause, View
from pilothouse.operator.admission import AdmissionRequest, Denied, UserInfo
from pilothouse.operator.app import App, Settings
from pilothouse.operator.client_config import ClientConfig
from pilothouse.operator.context import Context
from pilothouse.operator.custom_resource import Column, CustomResource, Rule, Version, validations
from pilothouse.operator.declaration import (
    Index,
    Owned,
    Reference,
    annotation_changed,
    any_of,
    generation_changed,
    label_changed,
)
from pilothouse.operator.health import Health
from pilothouse.operator.reconciler import Reconciler
from pilothouse.operator.webhook_server import WebhookSettings
from pilothouse.runtime.controller import Requeue
from pilothouse.runtime.errors import RetryLater, TerminalError

__all__ = [
    "AdmissionRequest",
    "App",
    "ClientConfig",
    "Column",
    "Condition",
    "Context",
    "CustomResource",
    "Denied",
    "Health",
    "Index",
    "LabelSelector",
    "ObjectMeta",
    "Owned",
    "Reconciler",
    "Reference",
    "Requeue",
    "RetryLater",
    "Rule",
    "Settings",
    "StatusCause",
    "TerminalError",
    "UserInfo",
    "Version",
    "View",
    "WebhookSettings",
    "annotation_changed",
    "any_of",
    "generation_changed",
    "label_changed",
    "validations",
]
