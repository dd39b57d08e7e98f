"""Sequences of applies, updates and patches: responses and managed fields.

``golden/applies.json`` has the answers. They were compared with those of a kube-apiserver v1.20.2; what has changed
since (owners of subresources, defaults of keys, custom resources by their schemas, texts) follows v1.36: server-side
apply of apimachinery (``pkg/util/managedfields``) and structured-merge-diff v6. What an apply has emptied goes, as in
v1.36.3 (docs/design/managed_fields.md).
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.apiserver.api import Answer, Api
from tests.apiserver.endpoints.apply_scenarios import CRD, STEPS, Step
from tests.golden import Golden

from pilothouse.env import Env

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ALLOCATED = ("clusterIP", "clusterIPs")


async def answers(api: Api, steps: Sequence[Step]) -> list[Any]:
    running = asyncio.ensure_future(api.server.run())
    await api.create(DEFINITIONS, CRD)
    result = [essence(await api.request(*step)) for step in steps]
    running.cancel()
    return result


def essence(answer: Answer) -> Any:
    """Code, reason, message and causes; or the managed fields and the fields."""
    body = answer.body
    if answer.status >= 300:
        causes = (body.get("details") or {}).get("causes")
        return answer.status, body.get("reason", ""), body["message"], causes
    meta = body["metadata"]
    owners = {}
    for entry in meta.get("managedFields") or ():
        names = (entry["manager"], entry["operation"], entry.get("subresource", ""), entry["apiVersion"])
        owners[" ".join(filter(None, names))] = entry["fieldsV1"]
    fields = {name: body[name] for name in ("spec", "data", "status") if name in body}
    if "spec" in fields:
        fields["spec"] = {name: value for name, value in fields["spec"].items() if name not in ALLOCATED}
    kept = {name: meta[name] for name in ("labels", "annotations", "finalizers") if name in meta}
    return answer.status, dict(sorted(owners.items())), fields, kept


async def test_field_ownership_after_each_write(env: Env, golden: Golden) -> None:
    golden.check("applies", {about: await answers(Api(env), steps) for about, steps in STEPS.items()})
