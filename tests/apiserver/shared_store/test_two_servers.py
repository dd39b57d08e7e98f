"""Two API servers on one etcd, in kube-apiserver's layout."""

import asyncio
import itertools
from typing import Any

import grpc
import pytest
from tests.apiserver.api import CONFIG_MAPS, JSON_PATCH, Api
from tests.apiserver.shared_store.servers import config_map, open_store, servers
from tests.etcd import Etcd, shared_etcd

from pilothouse.apiserver.controllers import master_leases
from pilothouse.apiserver.storage_codec import keys
from pilothouse.env import Env
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.compaction import KEY, Compactor
from pilothouse.storage.etcd.store import EtcdStore

pytestmark = [pytest.mark.real, pytest.mark.real_loop(timeout=60)]
SERVICES = "/api/v1/namespaces/default/services"


def raw(etcd: Etcd, key: str) -> Any:
    """What etcd has there."""
    with grpc.insecure_channel(f"127.0.0.1:{etcd.port}") as channel:
        range_request = channel.unary_unary(
            "/etcdserverpb.KV/Range",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=messages.RangeResponse.FromString,
        )
        return range_request(messages.RangeRequest(key=key.encode())).kvs


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def eventually(api: Api, target: str, status: int, seconds: float) -> None:
    """Wait until a read is answered so."""
    async with asyncio.timeout(seconds):
        while (await api.get(target)).status != status:  # noqa: ASYNC110  # nothing tells
            await asyncio.sleep(0.02)


async def test_writes_are_immediately_readable_with_the_same_revision(env: Env) -> None:
    async with servers(env) as (one, two):
        for step in range(20):
            created = await one.post(CONFIG_MAPS, config_map(f"c{step}", a="1"))
            assert created.status == 201, created.text
            read = await two.get(f"{CONFIG_MAPS}/c{step}")
            assert read.body == created.body
            changed = await two.patch(f"{CONFIG_MAPS}/c{step}", {"data": {"a": "2"}})
            assert (await one.get(f"{CONFIG_MAPS}/c{step}")).body == changed.body
        lists = [await item.get(CONFIG_MAPS) for item in (one, two)]
        assert lists[0].body["items"] == lists[1].body["items"]
        deleted = await one.delete(f"{CONFIG_MAPS}/c0")
        assert deleted.status == 200
        assert (await two.get(f"{CONFIG_MAPS}/c0")).status == 404
        assert (await two.delete(f"{CONFIG_MAPS}/c0")).status == 404


async def test_stored_bytes_and_keys_are_kube_apiservers(env: Env) -> None:
    async with servers(env, 1) as (one,):
        await one.post(SERVICES, service("web"))
        store = one.store
        assert isinstance(store, EtcdStore)
        (pair,) = raw(shared_etcd(), f"{store.keys.root}services/specs/default/web")
        assert pair.value.startswith(b"k8s\x00\n\r\n\x02v1\x12\x07Service\x12")
        assert b"resourceVersion" not in pair.value
        stored_meta = (await one.get(f"{SERVICES}/web")).meta
        assert stored_meta["resourceVersion"] == str(pair.mod_revision)


async def test_one_of_two_creates_wins(env: Env) -> None:
    async with servers(env) as both:
        for round_ in range(10):
            answers = await asyncio.gather(*(item.post(CONFIG_MAPS, config_map(f"r{round_}")) for item in both))
            assert sorted(answer.status for answer in answers) == [201, 409]
            (lost,) = [answer for answer in answers if answer.status == 409]
            assert lost.body["reason"] == "AlreadyExists"


async def test_patches_without_resource_version_are_retried(env: Env) -> None:
    async with servers(env) as (one, two):
        await one.post(CONFIG_MAPS, config_map("c"))

        async def write(api: Api, name: str) -> None:
            for step in range(10):
                answer = await api.patch(f"{CONFIG_MAPS}/c", {"data": {f"{name}{step}": "x"}})
                while answer.status == 409:  # after five attempts, as upstream
                    answer = await api.patch(f"{CONFIG_MAPS}/c", {"data": {f"{name}{step}": "x"}})
                assert answer.status == 200, answer.text

        await asyncio.gather(
            *(write(api, f"{name}-") for api, name in ((one, "a"), (one, "b"), (two, "c"), (two, "d")))
        )
        assert len((await one.get(f"{CONFIG_MAPS}/c")).body["data"]) == 40


async def test_stale_resource_version_is_a_conflict(env: Env) -> None:
    async with servers(env) as (one, two):
        created = (await one.post(CONFIG_MAPS, config_map("c"))).body
        await two.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "1"}})
        answer = await one.put(f"{CONFIG_MAPS}/c", created)
        assert (answer.status, answer.body["reason"]) == (409, "Conflict")


async def _lagging(env: Env, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes become visible at that server late."""
    store = api.store
    assert isinstance(store, EtcdStore)
    receive = store._follower._receive

    async def receive_late(events: list[Any]) -> int:
        await asyncio.sleep(0.2)
        return await receive(events)

    monkeypatch.setattr(store._follower, "_receive", receive_late)


MERGE_PATCH, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


async def test_writes_at_a_lagging_server_are_decided_by_etcd(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if its cache were current."""
    async with servers(env) as (one, two):
        await _lagging(env, two, monkeypatch)
        leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        await one.post("/api/v1/namespaces", {"metadata": {"name": "new"}})
        assert (await two.post("/api/v1/namespaces/new/configmaps", config_map("c"))).status == 201

        first = (await one.post(CONFIG_MAPS, config_map("c", a="1"))).body
        answer = await two.post(CONFIG_MAPS, config_map("c"))
        assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")

        second = (await one.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "2"}})).body
        answer = await two.put(f"{CONFIG_MAPS}/c", first)
        assert (answer.status, answer.body["reason"]) == (409, "Conflict")
        await one.patch(f"{CONFIG_MAPS}/c", {"data": {"b": "3"}})
        third = (await one.get(f"{CONFIG_MAPS}/c")).body
        answer = await two.put(f"{CONFIG_MAPS}/c", {**third, "data": {"a": "3"}})
        assert answer.status == 200, answer.text

        await one.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "4"}})
        operations = [
            {"op": "test", "path": "/data/a", "value": "4"},
            {"op": "replace", "path": "/data/a", "value": "5"},
        ]
        assert (await two.patch(f"{CONFIG_MAPS}/c", operations, JSON_PATCH)).status == 200

        await one.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "6"}})
        unchanged = await two.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "5"}}, MERGE_PATCH)
        assert unchanged.body["data"] == {"a": "5"}
        assert int(unchanged.meta["resourceVersion"]) > int(second["metadata"]["resourceVersion"])
        assert (await one.get(f"{CONFIG_MAPS}/c")).body == unchanged.body

        await one.post(CONFIG_MAPS, config_map("applied", a="1"))
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"b": "2"}}
        answer = await two.patch(f"{CONFIG_MAPS}/applied?fieldManager=test", applied, APPLY)
        assert (answer.status, answer.body["data"]) == (200, {"a": "1", "b": "2"})

        lease = (await one.post(leases, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "one"}})).body
        answer = await two.put(f"{leases}/l", {**lease, "spec": {"holderIdentity": "two"}})
        assert (answer.status, answer.body["spec"]) == (200, {"holderIdentity": "two"})

        await one.delete(f"{CONFIG_MAPS}/c")
        assert (await two.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "7"}})).status == 404


async def test_the_revision_is_read_only_for_rejected_and_unchanged_writes(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with servers(env, 1) as (one,):
        store, reads = one.store, 0
        assert isinstance(store, EtcdStore)
        read = store.client.range

        async def counted(request: Any, **options: Any) -> Any:
            nonlocal reads
            reads += not request.range_end
            return await read(request, **options)

        monkeypatch.setattr(store.client, "range", counted)
        created = await one.post(CONFIG_MAPS, config_map("c", a="1"))
        await one.put(f"{CONFIG_MAPS}/c", {**created.body, "data": {"a": "2"}})
        await one.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "3"}})
        assert reads == 0
        for answer, status in (
            (await one.post(CONFIG_MAPS, config_map("c")), 409),
            (await one.put(f"{CONFIG_MAPS}/c", created.body), 409),
            (await one.patch(f"{CONFIG_MAPS}/other", {"data": {"a": "3"}}), 404),
            (await one.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "3"}}), 200),
        ):
            assert answer.status == status, answer.text
        assert reads == 4


async def test_compare_and_swap_increments_are_not_lost(env: Env) -> None:
    async with servers(env, 3) as all_:
        await all_[0].post(CONFIG_MAPS, config_map("n", count="0"))

        async def increment(api: Api) -> None:
            for _ in range(8):
                while True:
                    known = (await api.get(f"{CONFIG_MAPS}/n")).body
                    count = known["data"]["count"]
                    patch = [
                        {
                            "op": "test",
                            "path": "/metadata/resourceVersion",
                            "value": known["metadata"]["resourceVersion"],
                        },
                        {"op": "replace", "path": "/data/count", "value": str(int(count) + 1)},
                    ]
                    answer = await api.patch(f"{CONFIG_MAPS}/n", patch, JSON_PATCH)
                    if answer.status == 200:
                        break
                    assert answer.status in (409, 422), answer.text

        await asyncio.gather(*(increment(api) for api in all_))
        assert (await all_[0].get(f"{CONFIG_MAPS}/n")).body["data"]["count"] == "24"


async def test_addresses_and_ports_are_unique(env: Env) -> None:
    async with servers(env, 3) as all_:

        async def create(api: Api, name: str) -> Any:
            answer = await api.post(SERVICES, service(name, type="NodePort"))
            assert answer.status == 201, answer.text
            return answer.body

        created = await asyncio.gather(
            *(create(api, f"s-{number}-{step}") for number, api in enumerate(all_) for step in range(12))
        )
        ports = [response["spec"]["ports"][0]["nodePort"] for response in created]
        addresses = [response["spec"]["clusterIP"] for response in created]
        assert len(set(ports)) == len(ports) == 36
        assert len(set(addresses)) == 36
        rejected = await all_[1].post(SERVICES, service("again", clusterIP=addresses[0]))
        assert rejected.status == 422, rejected.text
        wanted = {"type": "NodePort", "ports": [{"port": 80, "nodePort": ports[0]}]}
        assert (await all_[2].post(SERVICES, service("again", **wanted))).status == 422
        names = {
            response["metadata"]["name"]
            for response in (await all_[0].get("/apis/networking.k8s.io/v1/ipaddresses")).body["items"]
        }
        assert names == {"10.0.0.1", *addresses}
        for item in created:
            await all_[1].delete(f"{SERVICES}/{item['metadata']['name']}")
        assert (await all_[2].post(SERVICES, service("again", **wanted))).status == 201


async def test_requested_port_is_allocated_once(env: Env) -> None:
    async with servers(env) as both:
        for port in range(30100, 30110):
            wanted = {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}
            answers = await asyncio.gather(
                *(server.post(SERVICES, service(f"s{number}-{port}", **wanted)) for number, server in enumerate(both))
            )
            assert sorted(answer.status for answer in answers) == [201, 422], [answer.text for answer in answers]


async def test_quota_is_shared(env: Env) -> None:
    async with servers(env) as both:
        path = "/api/v1/namespaces/default/resourcequotas"
        created = await both[0].post(path, {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "6"}}})
        status = {**created.body, "status": {"hard": {"configmaps": "6"}, "used": {"configmaps": "0"}}}
        assert (await both[1].put(f"{path}/q/status", status)).status == 200
        answers = await asyncio.gather(
            *(
                server.post(CONFIG_MAPS, config_map(f"c{number}-{step}"))
                for number, server in enumerate(both)
                for step in range(8)
            )
        )
        statuses = sorted(answer.status for answer in answers)
        assert statuses == [201] * 6 + [403] * 10, [answer.text for answer in answers]
        assert len((await both[0].get(CONFIG_MAPS)).body["items"]) == 6


async def test_definition_is_served_by_the_other_server_within_a_second(env: Env) -> None:
    definition = {
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    async with servers(env) as (one, two):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (
            await one.post(
                path, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **definition}
            )
        ).status == 201
        foos = "/apis/example.com/v1/namespaces/default/foos"
        await eventually(two, foos, 200, 1)
        body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"x": [1, "<b>"]}}
        created = await two.post(foos, body)
        assert created.status == 201, created.text
        assert (await one.get(f"{foos}/a")).body == created.body
        assert (await one.delete(f"{path}/foos.example.com")).status == 200
        await eventually(two, foos, 404, 3)


async def test_watch_continues_at_the_other_server(env: Env) -> None:
    """No event is lost or doubled by a client that changes the server with each batch."""
    async with servers(env) as both:
        start = (await both[0].get(CONFIG_MAPS)).meta["resourceVersion"]

        async def write() -> None:
            for step in range(60):
                await both[step % 2].post(CONFIG_MAPS, config_map(f"w{step:02}"))

        writing = asyncio.create_task(write())
        observed: list[str] = []
        revision = start
        for api in itertools.cycle(both):
            if len(observed) >= 60:
                break
            events = await api.watch(f"{CONFIG_MAPS}?resourceVersion={revision}&timeoutSeconds=20")
            for _ in range(min(7, 60 - len(observed))):
                type_, obj = await events.next()
                assert type_ == "ADDED", obj
                observed.append(obj["metadata"]["name"])
                revision = obj["metadata"]["resourceVersion"]
            await events.stream.close()
        await writing
        assert observed == [f"w{step:02}" for step in range(60)]


async def test_kubernetes_endpoints_list_all_live_servers(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_MASTER_LEASE_SECONDS", 2.0)  # etcd's shortest
    monkeypatch.setattr(master_leases, "_RENEW_SECONDS", 0.5)

    async def addresses(api: Api) -> list[str]:
        endpoints = (await api.get("/api/v1/namespaces/default/endpoints/kubernetes")).body
        slice_ = (await api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")).body
        if "subsets" not in endpoints or "endpoints" not in slice_:
            return []
        result = [address["ip"] for address in endpoints["subsets"][0]["addresses"]]
        return result if result == [endpoint["addresses"][0] for endpoint in slice_["endpoints"]] else []

    async def until(api: Api, expected: list[str]) -> None:
        async with asyncio.timeout(10):
            while await addresses(api) != expected:  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(0.05)

    async with servers(env) as (one, two):
        work = [
            asyncio.create_task(master_leases.LeaseReconciler(api.server.core, host, 6443).run())
            for api, host in ((one, "10.1.0.1"), (two, "10.1.0.2"))
        ]
        await until(one, ["10.1.0.1", "10.1.0.2"])
        await until(two, ["10.1.0.1", "10.1.0.2"])
        store = one.store
        assert isinstance(store, EtcdStore)
        (pair,) = raw(shared_etcd(), f"{store.keys.root}masterleases/10.1.0.1")
        assert pair.lease and pair.value.startswith(b"k8s\x00\n\x0f\n\x02v1\x12\tEndpoints")
        work[0].cancel()
        await until(two, ["10.1.0.2"])
        work[1].cancel()


async def test_continue_token_is_valid_at_a_newly_started_server(env: Env) -> None:
    async with servers(env, 1) as (one,):
        for step in range(7):
            await one.post(
                CONFIG_MAPS, {**config_map(f"p{step}"), "metadata": {"name": f"p{step}", "labels": {"l": "1"}}}
            )
        first = await one.get(f"{CONFIG_MAPS}?limit=3")
        selected = await one.get(f"{CONFIG_MAPS}?limit=3&labelSelector=l%3D1")
        await one.delete(f"{CONFIG_MAPS}/p5")
        await one.post(CONFIG_MAPS, config_map("p9"))
        store = one.store
        assert isinstance(store, EtcdStore)
        late = Api(env, store=open_store(env, shared_etcd(), store.keys.root))
        try:
            for begun, query in ((first, "limit=3"), (selected, "limit=3&labelSelector=l%3D1")):
                names, answer = [item["metadata"]["name"] for item in begun.body["items"]], begun
                while token := answer.meta.get("continue"):
                    answer = await late.get(f"{CONFIG_MAPS}?{query}&continue={token}")
                    assert answer.status == 200, answer.text
                    assert answer.meta["resourceVersion"] == begun.meta["resourceVersion"]
                    if query == "limit=3":
                        left = 7 - len(names) - len(answer.body["items"])
                        assert answer.meta.get("remainingItemCount", 0) == left
                    names += [item["metadata"]["name"] for item in answer.body["items"]]
                assert names == [f"p{step}" for step in range(7)]
            exact = f"{CONFIG_MAPS}?resourceVersion={first.meta['resourceVersion']}&resourceVersionMatch=Exact"
            assert len((await late.get(exact)).body["items"]) == 7
            await store.client.compact(store.revision)
            assert (await late.get(exact)).status == 410
        finally:
            await late.server.close()


async def test_events_expire_with_their_etcd_lease(env: Env) -> None:
    async with servers(env, event_ttl=1) as (one, two):
        body = {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "R",
            "type": "Normal",
        }
        events = "/api/v1/namespaces/default/events"
        assert (await one.post(events, body)).status == 201
        store = one.store
        assert isinstance(store, EtcdStore)
        (pair,) = raw(shared_etcd(), f"{store.keys.root}events/default/e")
        assert pair.lease
        await eventually(two, f"{events}/e", 404, 10)


async def test_undecodable_value_is_an_error(env: Env) -> None:
    async with servers(env, 1) as (one,):
        store = one.store
        assert isinstance(store, EtcdStore)
        await one.post(CONFIG_MAPS, config_map("good"))
        key = f"{store.keys.root}configmaps/default/bad".encode()
        await store.client.txn(
            messages.TxnRequest(success=[messages.put(key, b"k8s:enc:aescbc:v1:k:x")]), operation="t"
        )
        why = "identity transformer tried to read encrypted data"
        assert (await one.get(f"{CONFIG_MAPS}/bad")).message == f"Internal error occurred: {why}"
        listed = await one.get(CONFIG_MAPS)
        assert (listed.status, listed.message) == (
            500,
            f'Internal error occurred: unable to transform key "{key.decode()}": {why}',
        )
        assert (await one.post(CONFIG_MAPS, config_map("bad"))).status == 409
        assert (await one.get(f"{CONFIG_MAPS}/good")).status == 200
        await store.client.txn(messages.TxnRequest(success=[messages.put(key, b"k8s\0\xff")]), operation="t")
        assert "corrupt object" in (await one.get(f"{CONFIG_MAPS}/bad")).message
        await one.post(CONFIG_MAPS, config_map("a"))  # which is listed first
        listed = await one.get(CONFIG_MAPS)
        assert (listed.status, "corrupt object" in listed.message) == (500, True)


async def test_non_utf8_keys_are_ignored(env: Env) -> None:
    async with servers(env, 1) as (one,):
        store = one.store
        assert isinstance(store, EtcdStore)
        key = store.keys.root.encode() + b"configmaps/default/\xff"
        await store.client.txn(messages.TxnRequest(success=[messages.put(key, b"x")]), operation="t")
        assert (await one.post(CONFIG_MAPS, config_map("a"))).status == 201
        assert len((await one.get(CONFIG_MAPS)).body["items"]) == 1


async def test_compaction_by_one_server_ends_no_watch(env: Env) -> None:
    async with servers(env) as (one, two):
        stores = [item.store for item in (one, two)]
        assert isinstance(stores[0], EtcdStore) and isinstance(stores[1], EtcdStore)
        first, second = (Compactor(store.client, 300) for store in stores if isinstance(store, EtcdStore))
        for compactor in (first, second, first):  # an earlier compactor may have left the key
            await compactor.compact()
        await one.post(CONFIG_MAPS, config_map("a"))
        await first.compact()
        assert first.compacted
        assert raw(shared_etcd(), KEY.decode())[0].value == str(first.compacted).encode()
        before = second.compacted
        await second.compact()
        assert second.compacted == first.compacted > before
        assert (await two.get(f"{CONFIG_MAPS}/a")).status == 200
