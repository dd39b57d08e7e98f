"""Discovery of built-in resources equals that of kube-apiserver v1.36.2."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.endpoints.discovery import AGGREGATED, Discovery, aggregated, version_rank
from pilothouse.apiserver.errors import PlainNotFound, StatusError
from pilothouse.apiserver.resources import ResourceInfo, ResourceTable, Subresource
from pilothouse.apiserver.serializers.negotiation import UNKNOWN_MEDIA_TYPES, UNSUPPORTED_MEDIA_TYPES

SERVED = json.loads((Path(__file__).parent / "served_discovery.json").read_text())
ACCEPT = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


def get(discovery: Discovery, path: str, **headers: str) -> Response:
    response = discovery.handle(Request("GET", path, headers), path)
    assert response is not None
    return response


def document(response: Response) -> Any:
    return msgspec.json.decode(response.body)


@pytest.fixture
def discovery() -> Discovery:
    return Discovery(ResourceTable(), "127.0.0.1:6443")


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated_discovery_is_upstreams(path: str) -> None:
    assert aggregated(ResourceTable(), core=path == "/api") == SERVED[path]


def test_matching_etag_returns_304(discovery: Discovery) -> None:
    first = get(discovery, "/apis", accept=ACCEPT)
    assert first.headers["content-type"] == AGGREGATED
    again = get(discovery, "/apis", accept=ACCEPT, **{"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def test_aggregated_discovery_is_chosen_wherever_it_is_accepted(discovery: Discovery) -> None:
    assert get(discovery, "/apis", accept=f"application/json,{AGGREGATED}").headers["content-type"] == AGGREGATED


def test_legacy_documents_as_yaml(discovery: Discovery) -> None:
    response = get(discovery, "/apis/apps", accept="application/yaml")
    assert response.headers["content-type"] == "application/yaml"
    assert response.body.decode() == (
        "apiVersion: v1\nkind: APIGroup\nname: apps\npreferredVersion:\n  groupVersion: apps/v1\n  version: v1\n"
        "versions:\n- groupVersion: apps/v1\n  version: v1\n"
    )


@pytest.mark.parametrize(
    ("path", "accept", "message"),
    [
        ("/apis", "text/html", UNSUPPORTED_MEDIA_TYPES),
        ("/apis/apps", "text/html", UNKNOWN_MEDIA_TYPES),
        ("/api/v1", "application/*", UNKNOWN_MEDIA_TYPES),
    ],
)
def test_unacceptable_formats(discovery: Discovery, path: str, accept: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        get(discovery, path, accept=accept)
    assert (caught.value.code, caught.value.message) == (406, message)


def test_v2beta1_clients_get_unaggregated_json(discovery: Discovery) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    assert document(get(discovery, "/apis", accept=accept))["kind"] == "APIGroupList"


def test_unaggregated_discovery_is_equivalent(discovery: Discovery) -> None:
    assert document(get(discovery, "/api/"))["versions"] == ["v1"]
    listed = document(get(discovery, "/apis"))["groups"]
    assert [group["name"] for group in listed] == [item["metadata"]["name"] for item in SERVED["/apis"]["items"]]
    apps = document(get(discovery, "/apis/apps/v1/"))
    entries = {entry["name"]: entry for entry in apps["resources"]}
    assert entries["deployments"]["storageVersionHash"] == "8aSe+NMegvE="
    assert entries["deployments/scale"] == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }
    autoscaling = document(get(discovery, "/apis/autoscaling"))
    assert autoscaling["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}
    old = document(get(discovery, "/apis/autoscaling/v1"))["resources"][0]
    assert old["storageVersionHash"] == "qwQve8ut294=", "both versions are stored as v2"


def test_unserved_paths_are_not_found(discovery: Discovery) -> None:
    with pytest.raises(PlainNotFound):
        get(discovery, "/apis/nowhere.example.com")
    for path in ("/api/v2", "/apis/apps/v2"):
        with pytest.raises(StatusError, match="could not find the requested resource"):
            get(discovery, path)
    with pytest.raises(StatusError, match="does not allow this method"):
        discovery.handle(Request("POST", "/apis/apps/v1"), "/apis/apps/v1")
    assert discovery.handle(Request("GET", "/api/v1/pods"), "/api/v1/pods") is None


def test_custom_resources_are_added_and_removed() -> None:
    table = ResourceTable()
    discovery = Discovery(table, "")
    before = get(discovery, "/apis", accept=ACCEPT).headers["etag"]
    status = Subresource("Ship")
    ships = tuple(
        ResourceInfo(
            "sea.example.com",
            version,
            "ships",
            "Ship",
            namespaced=True,
            subresources={"status": status},
            custom=SimpleNamespace(terminating=False),
        )
        for version in ("v1beta1", "v1", "v2alpha1")
    )
    table.set_custom("ships.sea.example.com", ships)
    item = document(get(discovery, "/apis", accept=ACCEPT))["items"][-1]
    assert item["metadata"] == {"name": "sea.example.com"}
    assert [version["version"] for version in item["versions"]] == ["v1", "v1beta1", "v2alpha1"]
    resource = item["versions"][0]["resources"][0]
    assert resource["responseKind"] == {"group": "sea.example.com", "version": "v1", "kind": "Ship"}
    assert resource["subresources"][0]["responseKind"]["group"] == "sea.example.com"
    table.set_custom("ships.sea.example.com", ())
    assert get(discovery, "/apis", accept=ACCEPT).headers["etag"] == before


def test_versions_sort_by_maturity_then_number() -> None:
    versions = ["foo1", "v1alpha2", "v2beta1", "v10", "v1", "v2", "v1beta2", "v12alpha1"]
    assert sorted(versions, key=version_rank) == [
        "v10",
        "v2",
        "v1",
        "v2beta1",
        "v1beta2",
        "v12alpha1",
        "v1alpha2",
        "foo1",
    ]


_HASHES = {
    line.split()[0]: line.split()[1]
    for line in (Path(__file__).parent / "storage_version_hashes.txt").read_text().splitlines()
}


def _legacy(item: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    """The same as legacy discovery: names of subresources are paths, and groups and versions are included only where
    they differ from the list's."""
    group = item["metadata"].get("name", "")
    group_version = f"{group}/{version['version']}" if group else version["version"]
    listed: list[dict[str, Any]] = []
    for resource in version["resources"]:
        namespaced = resource["scope"] == "Namespaced"
        entry = {
            "name": resource["resource"],
            "singularName": resource["singularResource"],
            "namespaced": namespaced,
            "kind": resource["responseKind"]["kind"],
            "verbs": resource["verbs"],
        }
        for field in ("shortNames", "categories"):
            if field in resource:
                entry[field] = resource[field]
        known = _HASHES.get(f"{resource['resource']}.{group_version}")
        if known is not None:
            entry["storageVersionHash"] = known
        listed.append(entry)
        for sub in resource.get("subresources", ()):
            kind = sub["responseKind"]
            row: dict[str, Any] = {
                "name": f"{resource['resource']}/{sub['subresource']}",
                "singularName": "",
                "namespaced": namespaced,
                "kind": kind["kind"],
                "verbs": sub["verbs"],
            }
            if kind["version"]:
                row |= {"group": kind["group"], "version": kind["version"]}
            listed.append(row)
    result = {"kind": "APIResourceList", "groupVersion": group_version, "resources": listed}
    return result if not group else {**result, "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("item", "version"),
    [
        pytest.param(item, version, id=f"{item['metadata'].get('name', 'core')}/{version['version']}")
        for path in ("/api", "/apis")
        for item in SERVED[path]["items"]
        for version in item["versions"]
    ],
)
def test_unaggregated_discovery_of_every_group_version(item: dict[str, Any], version: dict[str, Any]) -> None:
    discovery = Discovery(ResourceTable(), "127.0.0.1:6443")
    expected = _legacy(item, version)
    path = "/api/" if "/" not in expected["groupVersion"] else "/apis/"
    result = document(get(discovery, path + expected["groupVersion"]))
    by_name = {entry["name"]: entry for entry in result["resources"]}
    assert by_name == {entry["name"]: entry for entry in expected["resources"]}
    assert [*by_name] == sorted(by_name), "upstream lists them by name"
    assert result["groupVersion"] == expected["groupVersion"]


def test_unaggregated_discovery_of_every_group(discovery: Discovery) -> None:
    for item in SERVED["/apis"]["items"]:
        name = item["metadata"]["name"]
        versions = [{"groupVersion": f"{name}/{v['version']}", "version": v["version"]} for v in item["versions"]]
        group = {"name": name, "versions": versions, "preferredVersion": versions[0]}
        assert document(get(discovery, f"/apis/{name}")) == {"kind": "APIGroup", "apiVersion": "v1", **group}
        assert group in document(get(discovery, "/apis"))["groups"]
