"""certificatesigningrequests/approval: changes the conditions Approved and Denied, and nothing else."""

from typing import cast

from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.object_names import check_name
from pilothouse.apiserver.endpoints.patch import patch_function, read_patch_options
from pilothouse.apiserver.endpoints.request_objects import read_object
from pilothouse.apiserver.endpoints.update import Part, Wanted, change
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import WriteOptions, read_write_options
from pilothouse.apiserver.registry.certificates.certificatesigningrequests.strategy import (
    CertificateSigningRequestStrategy,
)
from pilothouse.apiserver.serializers.results import ObjectResult


async def update_approval(core: Core, call: Call) -> ObjectResult:
    """PUT of certificatesigningrequests/NAME/approval."""
    options = read_write_options(call.asked.query, "UpdateOptions")
    sent = await core.long_work.run(call.size, read_object, call, options)
    meta: Object = sent.setdefault("metadata", {})
    check_name(call, meta)
    revision = meta.get("resourceVersion") or ""
    return await _write(core, call, lambda _old: read_object(call, options), options, revision)


async def patch_approval(core: Core, call: Call) -> ObjectResult:
    """PATCH of certificatesigningrequests/NAME/approval."""
    options = read_patch_options(call)
    wanted = await core.long_work.run(call.size, patch_function, call, call.info, options)
    return await _write(core, call, wanted, options, None)


async def _write(core: Core, call: Call, wanted: Wanted, options: WriteOptions, revision: str | None) -> ObjectResult:
    strategy = cast(CertificateSigningRequestStrategy, call.strategy)

    def prepare(obj: Object, old: Object) -> None:
        strategy.prepare_approval(obj, old, core.time.now())

    part = Part(prepare, strategy.validate_approval, strategy.status_steps)
    return await change(core, call, wanted, options, revision=revision, part=part)
