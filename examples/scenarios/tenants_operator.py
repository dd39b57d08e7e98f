"""The operator of ``operator-with-a-bug.yaml``: a Tenant's data is imported once, by a Job.

``buggy`` lets the API server make up the name of the Job, so that a second attempt makes a second Job. In ``fixed`` the
name is a function of the tenant's: the second attempt finds the first one's Job.
"""

from typing import Any

from pilothouse.api.batch import JOBS
from pilothouse.operator import App, Context, CustomResource, ObjectMeta, View


class TenantStatus(View, frozen=True):
    ready: bool = False


class Tenant(View, frozen=True):
    """A customer with data of their own."""

    metadata: ObjectMeta = ObjectMeta()
    status: TenantStatus = TenantStatus()


TENANTS = CustomResource("example.com/v1", Tenant)
CREATE_JOBS = ({"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]},)


def job(tenant: Tenant, **metadata: Any) -> dict[str, Any]:
    """The import of a tenant's data."""
    labels = {"tenant": tenant.metadata.name}
    template = {
        "metadata": {"annotations": {"simulated.pilothouse.dev/run-time": "20s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "import", "image": "import:1"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": tenant.metadata.namespace, "labels": labels, **metadata},
        "spec": {"template": template},
    }


def is_done(ctx: Context[Tenant]) -> bool:
    """Whether a Job of the tenant has succeeded."""
    return any(each.status.succeeded for each in ctx.owned(JOBS))


def _buggy() -> App:
    app = App("tenants")

    @app.controller(TENANTS, owns=(JOBS,), rights=CREATE_JOBS)
    async def tenants(tenant: Tenant, ctx: Context[Tenant]) -> None:
        # The cache says that there is none, and the answer to an earlier attempt may be lost: that is no evidence.
        if not ctx.owned(JOBS):
            meta = tenant.metadata
            owner = {"apiVersion": "example.com/v1", "kind": "Tenant", "name": meta.name, "uid": meta.uid}
            references = [{**owner, "controller": True}]
            body = job(tenant, generateName=f"{meta.name}-import-", ownerReferences=references)
            await ctx.client.create(JOBS.raw, body, meta.namespace)
        ctx.status["ready"] = is_done(ctx)

    return app


def _fixed() -> App:
    app = App("tenants")

    @app.controller(TENANTS, owns=(JOBS,))
    async def tenants(tenant: Tenant, ctx: Context[Tenant]) -> None:
        await ctx.create_once(job(tenant, name=f"{tenant.metadata.name}-import"))
        ctx.status["ready"] = is_done(ctx)

    return app


buggy, fixed = _buggy(), _fixed()
