"""Omitted managedFields in audit events, for any object that a client sends."""

import datetime

import pytest

from pilothouse.apiserver.audit.checker import RequestAuditConfig
from pilothouse.apiserver.audit.context import AuditContext
from pilothouse.apiserver.audit.managed_fields import without_managed_fields


@pytest.mark.parametrize("field", ["items", "rows"])
async def test_custom_resource_with_an_items_field(field: str) -> None:
    value = b'{"metadata":{"name":"a","managedFields":[]},"%s":5}' % field.encode()
    assert without_managed_fields(value) == b'{"metadata":{"name":"a"},"%s":5}' % field.encode()


async def test_patch_is_recorded_as_sent() -> None:
    context = AuditContext("1", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
    context.config = RequestAuditConfig("Request", omit_managed_fields=True)
    patch = b'[{"op":"add","path":"/data","value":{"managedFields":"1"}}]'
    context.log_request_patch(patch, is_yaml=False)
    assert context.request_object == patch
