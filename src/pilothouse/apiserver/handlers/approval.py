"""certificatesigningrequests/approval: who may approve writes two conditions and nothing else."""

from typing import cast

from pilothouse.apiserver import errors
from pilothouse.apiserver.core import Call, Core
from pilothouse.apiserver.handlers.incoming import read_object
from pilothouse.apiserver.handlers.patching import patch_function, read_patch_options
from pilothouse.apiserver.handlers.updating import Wanted, change
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import WriteOptions, read_write_options
from pilothouse.apiserver.places import check_identity
from pilothouse.apiserver.results import ObjectResult
from pilothouse.apiserver.strategies.certificates import CertificateRequestStrategy


async def update_approval(core: Core, call: Call) -> ObjectResult:
    """PUT of certificatesigningrequests/NAME/approval."""
    options = read_write_options(call.asked.query, "UpdateOptions")
    meta: Object = read_object(call, options).setdefault("metadata", {})
    check_identity(call, meta)
    revision = meta.get("resourceVersion") or ""
    return await _write(core, call, lambda _old: read_object(call, options), options, revision)


async def patch_approval(core: Core, call: Call) -> ObjectResult:
    """PATCH of certificatesigningrequests/NAME/approval."""
    options = read_patch_options(call)
    return await _write(core, call, patch_function(call, call.info, options), options, None)


async def _write(core: Core, call: Call, wanted: Wanted, options: WriteOptions, revision: str | None) -> ObjectResult:
    strategy = cast(CertificateRequestStrategy, call.strategy)

    def prepare(obj: Object, old: Object) -> None:
        strategy.prepare_approval(obj, old, core.time.now())
        problems = strategy.validate_approval(obj, old)
        if problems:
            raise errors.invalid(call.info.group, call.info.kind, call.name, problems)

    return await change(core, call, wanted, options, revision=revision, prepare=prepare)
