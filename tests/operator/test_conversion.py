"""Several versions of a custom resource: definitions, functions for conversion, ConversionReviews."""

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest

from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client.errors import ApiError, Invalid
from pilothouse.env import Env
from pilothouse.operator import AdmissionRequest, App, ClientConfig, Column, Context, CustomResource, Version
from pilothouse.operator.conversion import BadReview, ConversionFailed, Conversions
from pilothouse.testing import Cluster, async_plane

OLD_FIELD = "example.com/color"


class PageSpecV1(View, frozen=True):
    host: str
    color: str = ""


class PageV1(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PageSpecV1 = PageSpecV1(host="")


class PageSpec(View, frozen=True):
    hosts: tuple[str, ...]


class Page(View, frozen=True):
    spec: PageSpec
    metadata: ObjectMeta = ObjectMeta()


class PageV3(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    address: str = ""


def to_hub(old: PageV1) -> Page:
    if old.spec.host == "broken":
        raise ValueError("no such host")
    return Page(spec=PageSpec(hosts=(old.spec.host,)), metadata=ObjectMeta(annotations={OLD_FIELD: old.spec.color}))


def from_hub(page: Page) -> PageV1:
    return PageV1(spec=PageSpecV1(host=page.spec.hosts[0], color=page.metadata.annotations.get(OLD_FIELD, "")))


V1 = Version("v1", PageV1, to_hub, from_hub, deprecated="use v2", columns=(Column("Host", ".spec.host"),))
V3 = Version(
    "v3",
    PageV3,
    lambda new: Page(spec=PageSpec(hosts=(new.address,))),
    lambda page: PageV3(address=page.spec.hosts[0]),
    served=False,
)
PAGES: CustomResource[Page] = CustomResource("example.com/v2", Page, versions=(V1, V3), stored="v1")
AT = ClientConfig(url="https://127.0.0.1:9443", ca_bundle=b"PEM")


def page(version: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": "home", "namespace": "default", "uid": "u", "managedFields": [{"manager": "kubectl"}]}
    return {"apiVersion": f"example.com/{version}", "kind": "Page", "metadata": metadata, **fields}


def converted(obj: dict[str, Any], version: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        Conversions([PAGES]).convert(json.dumps(obj).encode(), f"example.com/{version}")
    )
    return document


def test_the_definition_has_all_versions_and_a_webhook() -> None:
    spec = PAGES.definition(AT)["spec"]
    assert [(version["name"], version["served"], version["storage"]) for version in spec["versions"]] == [
        ("v2", True, False), ("v1", True, True), ("v3", False, False),
    ]  # fmt: skip
    assert [(version.get("deprecated"), version.get("deprecationWarning")) for version in spec["versions"]] == [
        (None, None), (True, "use v2"), (None, None),
    ]  # fmt: skip
    assert spec["versions"][1]["additionalPrinterColumns"] == [
        {"name": "Host", "type": "string", "jsonPath": ".spec.host"}
    ]
    assert spec["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": "https://127.0.0.1:9443/convert", "caBundle": "UEVN"},
            "conversionReviewVersions": ["v1"],
        },
    }


def test_conversions_without_an_address_have_no_definition() -> None:
    with pytest.raises(ValueError, match=r"pages.example.com has functions for conversion"):
        PAGES.definition()


class Same(View, frozen=True):
    """The same schema with another description and default."""

    metadata: ObjectMeta = ObjectMeta()
    color: str = "red"
    inner: PageSpecV1 = PageSpecV1(host="")


class Hub(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    color: str = ""
    inner: PageSpecV1 = PageSpecV1(host="")


def test_versions_with_equal_schemas_need_no_webhook() -> None:
    spec = CustomResource("example.com/v2", Hub, versions=(Version("v1", Same),)).definition()["spec"]
    assert spec["conversion"] == {"strategy": "None"}


class Stricter(View, frozen=True):
    color: str
    metadata: ObjectMeta = ObjectMeta()
    inner: PageSpecV1 = PageSpecV1(host="")


class Deeper(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    color: str = ""
    inner: PageSpec = PageSpec(hosts=())


@pytest.mark.parametrize(
    ("versions", "stored", "message"),
    [
        ((Version("v1", Stricter),), "", r"versions v1 and v2 of hubs.example.com differ in the object \(required\)"),
        ((Version("v1", Deeper),), "", r"differ in inner \(required\): give v1 convert_to= and convert_from="),
        ((Version("v1", PageV3),), "", "differ in address"),
        ((Version("v1", Same, convert_to=lambda old: Hub()),), "", "v1 of hubs.example.com needs both convert_to="),
        ((Version("v2", Same),), "", "hubs.example.com has two versions v2"),
        ((Version("v1", Same),), "v3", "is stored='v3', and has the versions v2, v1"),
    ],
)
def test_versions_that_cannot_be_converted_are_rejected(
    versions: tuple[Version[Hub, Any], ...], stored: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        CustomResource("example.com/v2", Hub, versions=versions, stored=stored)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "either at a url or through"),
        ({"url": "https://a", "service_name": "b", "service_namespace": "c"}, "either at a url or through"),
        ({"service_name": "b"}, "either at a url or through"),
        ({"url": "http://a"}, "begins with https://"),
    ],
)
def test_a_client_config_is_a_url_or_a_service(config: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClientConfig(**config)  # type: ignore[arg-type]


def test_an_object_goes_to_the_hub_and_back_with_its_metadata() -> None:
    old = page("v1", spec={"host": "a.example.com", "color": "red"})
    hub = converted(old, "v2")
    assert hub.pop("metadata") == {**old["metadata"], "annotations": {OLD_FIELD: "red"}}
    assert hub == {"apiVersion": "example.com/v2", "kind": "Page", "spec": {"hosts": ["a.example.com"]}}
    back = converted({**hub, "metadata": {**old["metadata"], "annotations": {OLD_FIELD: "red"}}}, "v1")
    assert back["spec"] == old["spec"]
    assert back["apiVersion"] == old["apiVersion"]


def test_from_one_version_to_another_through_the_hub() -> None:
    result = converted(page("v1", spec={"host": "a", "color": "red"}), "v3")
    assert result == page("v3", address="a") | {
        "metadata": {**page("v1")["metadata"], "annotations": {OLD_FIELD: "red"}}
    }
    assert converted(page("v3", address="b"), "v1")["spec"] == {"host": "b", "color": ""}


def test_nulls_are_absent_fields() -> None:
    old = page("v1", spec={"host": "a", "color": None})
    old["metadata"]["labels"] = None
    assert converted(old, "v2")["spec"] == {"hosts": ["a"]}


def test_versions_that_agree_keep_every_field() -> None:
    """Also of a resource that has functions for another version."""
    other = Version("v0", PageV3, lambda _old: Hub(), lambda _hub: PageV3())
    resource = CustomResource("example.com/v2", Hub, versions=(Version("v1", Same), other))
    obj = {**page("v1", color="", inner={"host": "a"}), "kind": "Hub"}
    document = json.loads(Conversions([resource]).convert(json.dumps(obj).encode(), "example.com/v2"))
    assert document == {**obj, "apiVersion": "example.com/v2"}


@pytest.mark.parametrize(
    ("obj", "desired", "message"),
    [
        (page("v1", spec={"host": "broken"}), "example.com/v2", "Page default/home from example.com/v1 to example.com/"
         "v2: ValueError: no such host"),
        (page("v1", spec={"host": 1}), "example.com/v2", "to example.com/v2: Page cannot be read: spec.host: expected "
         "a string, got an integer"),
        (page("v1", spec=7), "example.com/v2", "Page cannot be read: spec: expected an object, got an integer"),
        (page("v2", spec={}), "example.com/v1", "IndexError: .* The object is incomplete or invalid"),
        (page("v1"), "example.com/v9", "has no version v9"),
        (page("v1"), "example.org/v1", "this operator does not convert it"),
        ({**page("v1"), "kind": "Book"}, "example.com/v2", "Book default/home .* does not convert it"),
        ([1], "example.com/v2", "an object"),
    ],
)  # fmt: skip
def test_failed_conversions_name_the_object(obj: Any, desired: str, message: str) -> None:
    with pytest.raises(ConversionFailed, match=message):
        Conversions([PAGES]).convert(json.dumps(obj).encode(), desired)


def test_a_function_must_return_its_version() -> None:
    wrong: Any = Version("v1", PageV1, lambda _old: PageV3(), from_hub)
    resource: CustomResource[Page] = CustomResource("example.com/v2", Page, versions=(wrong,))
    with pytest.raises(ConversionFailed, match="it must return a Page, got PageV3"):
        Conversions([resource]).convert(json.dumps(page("v1", spec={"host": "a"})).encode(), "example.com/v2")


def review(*objects: Any, **changed: Any) -> bytes:
    request = {"uid": "7", "desiredAPIVersion": "example.com/v2", "objects": list(objects)}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    return json.dumps({**body, **changed}).encode()


async def test_a_review_is_answered_in_order(env: Env) -> None:
    objects = [page("v1", spec={"host": f"host-{number}"}) for number in range(120)]
    objects[7] = page("v2", spec={"hosts": ["host-7"]})
    answer = json.loads(await Conversions([PAGES]).review(review(*objects)))
    assert (answer["apiVersion"], answer["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    assert answer["response"]["uid"] == "7"
    assert answer["response"]["result"] == {"status": "Success"}
    hosts = [converted_obj["spec"]["hosts"] for converted_obj in answer["response"]["convertedObjects"]]
    assert hosts == [[f"host-{number}"] for number in range(120)]


async def test_one_failure_fails_the_review(env: Env) -> None:
    body = review(page("v1", spec={"host": "a"}), page("v1", spec={"host": "broken"}))
    response = json.loads(await Conversions([PAGES]).review(body))["response"]
    assert response["convertedObjects"] == []
    assert response["result"]["status"] == "Failed"
    assert "ValueError: no such host" in response["result"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "is no ConversionReview"),
        (b"[" * 100_000, "is no ConversionReview"),
        (review(kind="AdmissionReview"), "expected a ConversionReview"),
        (review(apiVersion="apiextensions.k8s.io/v1beta1"), "expected a ConversionReview"),
        (review(request={}), "missing required field"),
        (review({"apiVersion": "example.com/v1"}), "missing required field `kind`"),
        (review(*[0] * 100_000), "Expected `object`, got `int`"),
    ],
)
async def test_invalid_reviews_are_rejected(env: Env, body: bytes, message: str) -> None:
    with pytest.raises(BadReview, match=message):
        await Conversions([PAGES]).review(body)


async def test_the_definition_is_accepted_and_established(env: Env) -> None:
    app = App("pages")
    app.controller(PAGES)
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await app.install(cluster.client)
        obj = await cluster.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "pages.example.com")
        config = obj["spec"]["conversion"]["webhook"]["clientConfig"]
        assert config["service"] == {"name": "pages-webhooks", "namespace": "default", "path": "/convert", "port": 443}
        assert obj["status"]["storedVersions"] == ["v1"]


class GradedSpec(View, frozen=True):
    grades: tuple[Literal["A", "B"], ...] = ()


class Graded(View, frozen=True):
    spec: GradedSpec
    metadata: ObjectMeta = ObjectMeta()


class GradedSpecV1(View, frozen=True):
    grades: str = ""


class GradedV1(View, frozen=True):
    spec: GradedSpecV1
    metadata: ObjectMeta = ObjectMeta()


def split_grades(old: GradedV1) -> Graded:
    return Graded(spec=GradedSpec(grades=tuple(old.spec.grades.split(","))))  # type: ignore[arg-type]


def joined_grades(new: Graded) -> GradedV1:
    return GradedV1(spec=GradedSpecV1(grades=",".join(new.spec.grades)))


GRADED_V1 = Version("v1", GradedV1, split_grades, joined_grades)
GRADED: CustomResource[Graded] = CustomResource(
    "example.com/v2", Graded, plural="graded", kind="Graded", versions=(GRADED_V1,)
)


def graded(version: str, grades: Any, name: str = "home") -> dict[str, Any]:
    kind = {"apiVersion": f"example.com/{version}", "kind": "Graded"}
    return {**kind, "metadata": {"name": name}, "spec": {"grades": grades}}


def test_stored_objects_must_fit_the_class_of_the_hub() -> None:
    sent = json.dumps(graded("v1", "A,NONSENSE")).encode()
    with pytest.raises(ConversionFailed, match=r"does not fit Graded: Invalid enum value 'NONSENSE' - at `\$\.spec"):
        Conversions([GRADED]).convert(sent, "example.com/v2")
    # An object stored in v1 is only read in v2: one invalid object must not fail a list in v2.
    resource = CustomResource("example.com/v2", Graded, kind="Graded", versions=(GRADED_V1,), stored="v1")
    read = Conversions([resource]).convert(sent, "example.com/v2")
    assert json.loads(bytes(read))["spec"] == {"grades": ["A", "NONSENSE"]}


def test_an_object_whose_conversion_does_not_fit_is_not_stored(pilothouse: Cluster) -> None:
    app = App("graded")
    app.controller(GRADED)(_nothing)
    with pilothouse.running(app):
        pilothouse.create(graded("v1", "A,B", "good"))
        with pytest.raises(ApiError, match="what convert_to= returned does not fit Graded"):
            pilothouse.create(graded("v1", "A,NONSENSE", "bad"))
        with pytest.raises(ApiError, match="what convert_to= returned does not fit Graded"):
            pilothouse.patch("example.com/v1", "Graded", "good", {"spec": {"grades": "C"}})
        for version in ("v1", "v2"):
            names = [obj["metadata"]["name"] for obj in pilothouse.list(f"example.com/{version}", "Graded")]
            assert names == ["good"]
        pilothouse.delete("example.com/v1", "Graded", "good")
        pilothouse.create(graded("v1", "A", "other"))
        pilothouse.delete("example.com/v2", "Graded", "other")


class GradedOnce(View, frozen=True):
    """As an older operator had it: any grades."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, tuple[str, ...]] = {}


def test_a_stored_object_that_no_longer_fits_is_explained_and_deleted(pilothouse: Cluster) -> None:
    before, now = App("before"), App("now")
    before.controller(CustomResource("example.com/v2", GradedOnce, plural="graded", kind="Graded"))(_nothing)
    now.controller(GRADED)(_nothing)
    with pilothouse.running(before):
        pilothouse.create(graded("v2", ["NONSENSE"]))
    with pilothouse.running(now):
        with pytest.raises(
            AssertionError, match=r"does not fit Graded, so controllers do not see it: Invalid enum value"
        ):
            pilothouse.wait_for("example.com/v2", "Graded", "home", lambda found: found is None, seconds=0.2)
        pilothouse.delete("example.com/v2", "Graded", "home")
        assert pilothouse.list("example.com/v1", "Graded") == []


class LimitsSpecV1(View, frozen=True):
    image: str
    hours: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1


class LimitsV1(View, frozen=True):
    spec: LimitsSpecV1
    metadata: ObjectMeta = ObjectMeta()


class LimitsSpec(View, frozen=True):
    image: str
    seconds: Annotated[int, msgspec.Meta(ge=3600, le=10800)] = 3600


class Limits(View, frozen=True):
    spec: LimitsSpec
    metadata: ObjectMeta = ObjectMeta()


LIMITS = CustomResource(
    "example.com/v2",
    Limits,
    plural="limits",
    versions=(
        Version(
            "v1",
            LimitsV1,
            lambda old: Limits(spec=LimitsSpec(image=old.spec.image, seconds=old.spec.hours * 3600)),
            lambda new: LimitsV1(spec=LimitsSpecV1(image=new.spec.image, hours=new.spec.seconds // 3600)),
        ),
    ),
)


def limits(version: str, name: str = "home", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "Limits", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("source", "version", "expected"),
    [
        ({"image": "a", "hours": 5}, "v2", {"spec": {"image": "a", "seconds": 18000}}),
        ({"image": "a", "seconds": 18000}, "v1", {"spec": {"image": "a", "hours": 5}}),
        ({"hours": 2}, "v2", {"spec": {"seconds": 7200}}),
        ({"image": "", "hours": 4}, "v2", {"spec": {"image": "", "seconds": 14400}}),
        ({}, "v2", {"spec": {}}),
        (None, "v2", {}),
    ],
)
def test_incomplete_and_invalid_objects_are_converted(source: Any, version: str, expected: Any) -> None:
    """Missing required fields are not replaced by zero values."""
    sent = limits("v1" if version == "v2" else "v2")
    sent |= {"spec": source} if source is not None else {}
    if source is None:
        del sent["spec"]
    document = json.loads(bytes(Conversions([LIMITS]).convert(json.dumps(sent).encode(), f"example.com/{version}")))
    names = {"apiVersion": f"example.com/{version}", "kind": "Limits", "metadata": {"name": "home"}}
    assert document == names | expected


def test_a_manifest_is_migrated_with_server_side_apply(pilothouse: Cluster) -> None:
    """The API server has what other managers own converted, which lacks what the applier owns."""
    app = App("limits")
    app.controller(LIMITS)(_nothing)
    with pilothouse.running(app):
        pilothouse.apply(limits("v1", image="a", hours=2))
        (moved,) = pilothouse.apply(limits("v2", image="a", seconds=3 * 3600))
        assert moved["spec"] == {"image": "a", "seconds": 3 * 3600}
        labelled = limits("v1", image="b", hours=2)
        labelled["metadata"]["labels"] = {"team": "a"}
        (back,) = pilothouse.apply(labelled)
        assert (back["spec"], back["metadata"]["labels"]) == ({"image": "b", "hours": 2}, {"team": "a"})
        (plain,) = pilothouse.apply(limits("v2", image="b", seconds=7200))
        assert "labels" not in plain["metadata"]
        with pytest.raises(Invalid, match=r"spec.image: Required value"):
            pilothouse.apply(limits("v1", hours=2))


def test_the_schema_rejects_invalid_objects_before_a_conversion_or_mutation(pilothouse: Cluster) -> None:
    app = App("limits")
    app.controller(LIMITS)(_nothing)

    @app.mutating(LIMITS)
    async def mutate(obj: Limits, _request: AdmissionRequest[Limits]) -> Limits:
        labels = {"seconds": str(obj.spec.seconds)}
        return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, labels=labels))

    with pilothouse.running(app):
        assert pilothouse.create(limits("v1", image="a"))["metadata"]["labels"] == {"seconds": "3600"}
        with pytest.raises(Invalid, match=r"spec.seconds in body should be less than or equal to 10800"):
            pilothouse.create(limits("v2", "other", image="a", seconds=18000))
        with pytest.raises(Invalid, match=r"spec.hours in body should be less than or equal to 3"):
            pilothouse.create(limits("v1", "other", image="a", hours=5))
        for version in ("v1", "v2"):
            with pytest.raises(Invalid, match=r"spec.image: Required value"):
                pilothouse.create(limits(version, "other"))
        with pytest.raises(
            ApiError, match=r"Limits other cannot be read: spec.image: expected a string, got an integer"
        ):
            pilothouse.create(limits("v2", "other", image=7))


async def _nothing(obj: Any, ctx: Context[Any]) -> None:
    """Only the conversion matters."""


class DoorSpecV1(View, frozen=True):
    width: Annotated[int, msgspec.Meta(ge=1)] = 1
    locked: bool = True


class DoorV1(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DoorSpecV1 = DoorSpecV1()


class Pane(View, frozen=True):
    color: str = "clear"


class DoorSpec(View, frozen=True):
    size: str = "1m"
    locked: bool = True
    panes: tuple[Pane, ...] = ()
    tags: dict[str, str] = {}


class Door(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DoorSpec = DoorSpec()


PANES = "example.com/panes"


def door_to_hub(old: DoorV1) -> Door:
    panes = tuple(Pane(color=each) for each in old.metadata.annotations.get(PANES, "").split(",") if each)
    return Door(spec=DoorSpec(size=f"{old.spec.width}m", locked=old.spec.locked, panes=panes))


def door_from_hub(door: Door) -> DoorV1:
    kept = ObjectMeta(annotations={PANES: ",".join(each.color for each in door.spec.panes)})
    return DoorV1(spec=DoorSpecV1(width=int(door.spec.size.removesuffix("m")), locked=door.spec.locked), metadata=kept)


DOORS: CustomResource[Door] = CustomResource(
    "example.com/v2", Door, versions=(Version("v1", DoorV1, door_to_hub, door_from_hub),)
)


async def test_clients_see_the_defaults_in_each_version(env: Env) -> None:
    """The API server adds none to what a conversion returns: a client that is written in Go would read ``false``."""
    app = App("doors")

    @app.controller(DOORS)
    async def sync(_door: Door, _ctx: Context[Door]) -> None: ...

    async with async_plane(env=env, nodes=0, controllers=()) as cluster, cluster.running(app):
        door = {"apiVersion": "example.com/v2", "kind": "Door", "metadata": {"name": "a"}, "spec": {}}
        await cluster.create(door)
        await cluster.create({**door, "metadata": {"name": "b"}, "spec": {"panes": [{}]}})
        old = await cluster.get("example.com/v1", "Door", "a")
        listed = await cluster.list("example.com/v1", "Door")
        assert old["spec"] == {"width": 1, "locked": True}
        assert [each["spec"] for each in listed] == [old["spec"]] * 2
        changed = await cluster.patch("example.com/v1", "Door", "b", {"spec": {"width": 2}})
        assert changed["spec"] == {"width": 2, "locked": True}
        new = await cluster.get("example.com/v2", "Door", "b")
        assert new["spec"] == {"size": "2m", "locked": True, "panes": [{"color": "clear"}], "tags": {}}


@pytest.mark.parametrize(
    ("old", "spec"),
    [
        ({"width": 1, "locked": True}, {"size": "1m", "locked": True, "panes": [], "tags": {}}),
        ({"width": 1}, {"size": "1m"}),
        ({"locked": False}, {"size": "1m", "locked": False}),
        ({"width": 2}, {"size": "2m"}),
    ],
    ids=["complete", "only the width", "only the lock", "another width"],
)
def test_fields_of_one_manager_get_no_defaults(old: dict[str, Any], spec: dict[str, Any]) -> None:
    """Server-side apply converts objects that consist of the fields of one manager, and takes what it gets as its."""
    obj = {"apiVersion": "example.com/v1", "kind": "Door", "metadata": {"name": "a"}, "spec": old}
    made = json.loads(Conversions([DOORS]).convert(json.dumps(obj).encode(), "example.com/v2"))
    assert made.get("spec", {}) == spec
