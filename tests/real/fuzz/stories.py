"""A story: some requests about objects of one kind, chosen one after the other from a seed.

What comes next depends on what the real server has said so far, so that most requests are about objects that are there.
"""

import copy
import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.real.fuzz import edits
from tests.real.fuzz.bases import base, has_base, names
from tests.real.fuzz.edits import Edit
from tests.real.fuzz.servers import Known, Request
from tests.real.fuzz.shared_schema import SharedSchema
from tests.real.fuzz.values import Values

from pilothouse.api.schema import Definition
from pilothouse.apiserver.resources import ResourceInfo

Json = Any
LENGTH = 12
SPOILED = 0.12
WEIGHTS = {
    "pods": 5,
    "deployments.apps": 4,
    "services": 4,
    "nodes": 2,
    "statefulsets.apps": 3,
    "daemonsets.apps": 2,
    "replicasets.apps": 2,
    "jobs.batch": 3,
    "persistentvolumeclaims": 2,
    "persistentvolumes": 2,
}
"""How often a kind is chosen; 1 for the others."""
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
BAD_JSON_PATCHES: tuple[Json, ...] = ({}, [{"op": "bad", "path": "/x"}], [{"op": "add"}], "x", [1])
BAD_PATCHES: tuple[Json, ...] = ([], "x", 1, [{}])
REVIEWS = {
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
    "tokenreviews.authentication.k8s.io",
}


def choices(shared: SharedSchema) -> list[ResourceInfo]:
    """Resources to tell of, in turn: each once, and then some of them again."""
    once = [info for info in shared.resources if has_base(info.group_resource) or info.group_resource in REVIEWS]
    again = [info for info in once for _ in range(WEIGHTS.get(info.group_resource, 1) - 1)]
    Random(0).shuffle(once)
    Random(0).shuffle(again)
    return once + again


class Story:
    """The requests of one seed. ``known`` is what the real server has said."""

    def __init__(self, seed: int, shared: SharedSchema, known: Known) -> None:
        self.random = random = Random(seed)
        self.shared = shared
        self.known = known
        turn = choices(shared)
        self.info = turn[seed % len(turn)]
        self.values = Values(random, shared)
        self.namespace = f"fuzz-{seed}" if self.info.namespaced else ""
        definition = shared.kind(self.info.api_version, self.info.kind)
        assert definition is not None
        self.definition: Definition = definition
        self.names = names(self.info.group_resource, seed)
        self.label = f"s{seed}"
        root = f"/apis/{self.info.group}/{self.info.version}" if self.info.group else f"/api/{self.info.version}"
        self.collection = f"{root}/{f'namespaces/{self.namespace}/' if self.namespace else ''}{self.info.resource}"
        self.everywhere = f"{root}/{self.info.resource}"
        self.parts = shared.subresources(self.info)

    def requests(self) -> Iterator[Request]:
        """What to ask. Answers must be learned between two of them."""
        if self.namespace:
            yield self._request("POST", "/api/v1/namespaces", body={"metadata": {"name": self.namespace}})
        if self.info.group_resource in REVIEWS:
            for _ in range(LENGTH):
                yield self._review()
            return
        yield self._create(self.names[0])
        for _ in range(LENGTH):
            yield self._next()

    def _next(self) -> Request:
        random = self.random
        there = [name for name in self.names if name in self.known.objects]
        if not there or (len(there) == 1 and random.random() < 0.15):
            free = [name for name in self.names if name not in there]
            return self._create(random.choice(free or self.names))
        name = random.choice(there)
        ways = [
            (6, self._patch),
            (4, self._put),
            (1.5, self._get),
            (2, self._list),
            (1, self._delete),
            (0.3, self._delete_collection),
            (0.5, self._create),
            (0.4, self._odd),
        ]
        if "deletecollection" not in self.info.verbs or not self.namespace:
            ways = [way for way in ways if way[1] != self._delete_collection]
        if "status" in self.parts:
            ways.append((2.5, self._status))
        if "scale" in self.parts:
            ways.append((1.5, self._scale))
        if {"binding", "finalize", "approval", "token"} & set(self.parts):
            ways.append((1, self._other_part))
        chosen = random.choices([way for _, way in ways], [weight for weight, _ in ways])[0]
        return chosen(name)

    # Single requests

    def _request(self, method: str, path: str, **more: Any) -> Request:
        return Request(method=method, path=path, **more)

    def _path(self, name: str, part: str = "") -> str:
        return f"{self.collection}/{name}{'/' + part if part else ''}"

    def _whole(self, name: str) -> Json:
        """An object to create: the base with a few fields more."""
        doc = copy.deepcopy(base(self.info.group_resource, self.namespace, name))
        doc = {"apiVersion": self.info.api_version, "kind": self.info.kind, "metadata": {"name": name}, **doc}
        doc["metadata"]["labels"] = {"story": self.label}
        top = [field for field in self.shared.fields(self.definition) if field != "status" or self.info.kind == "Node"]
        spoiled = 0.8 if self.random.random() < SPOILED else 0.0
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            edits.put(doc, self._edit(doc, top, spoiled))
        return doc

    def _edit(self, doc: Json, top: list[str], spoiled: float = SPOILED) -> Edit:
        return edits.choose(self.values, self.definition, doc, top, spoiled)

    def _main_fields(self) -> list[str]:
        return [name for name in self.shared.fields(self.definition) if name != "status"]

    def _options(self, *, dry_run: float = 0.08, force: bool = False) -> list[tuple[str, str]]:
        random = self.random
        query = []
        if random.random() < dry_run:
            query.append(("dryRun", random.choice(("All", "All", "All", "All", "All", "All", "None", ""))))
        if random.random() < 0.3:
            query.append(("fieldManager", random.choice(("m", "other", "third"))))
        elif random.random() < 0.01:
            query.append(("fieldManager", random.choice(("m" * 128, "m" * 129, "\u0001"))))
        if force and random.random() < 0.5:
            query.append(("force", random.choice(("true", "false"))))
        return query

    def _accept(self) -> str:
        return PARTIAL if self.random.random() < 0.05 else "application/json"

    def _create(self, name: str) -> Request:
        random = self.random
        doc = self._whole(name)
        meta = doc.get("metadata")
        if random.random() < 0.1 and isinstance(meta, dict):
            way = random.randrange(7)
            if way == 0:
                meta.pop("name", None)
                meta["generateName"] = "made-"
            elif way == 1:
                meta["namespace"] = "another" if random.random() < 0.5 else self.namespace
            elif way == 2:
                meta["name"] = random.choice(("Bad_Name", "a" * 254, "", "a/b", "x.y", "..", "a%b"))
            elif way == 3:
                doc["kind"] = random.choice(("Other", ""))
            elif way == 4:
                doc["apiVersion"] = random.choice(("v9", "example.com/v1", ""))
            elif way == 5:
                meta["resourceVersion"] = "7"
            else:
                meta["generateName"] = random.choice(("Bad_", "ok-"))
        return self._request("POST", self.collection, body=doc, query=self._options(), name=name, accept=self._accept())

    def _put(self, name: str) -> Request:
        random = self.random
        if random.random() < 0.1:
            doc = self._whole(name)
            meta = doc.get("metadata")
            if random.random() < 0.5 and isinstance(meta, dict):
                meta["resourceVersion"] = _rv(name)
            return self._request("PUT", self._path(name), body=doc, name=name, query=self._options())
        edit = self._edit(self.known.objects[name], self._main_fields())
        version = random.choice(("", "", "", "", "", "gone", "old", "wrong"))
        uid = random.random() < 0.03
        other = random.random() < 0.02

        def own(doc: Json) -> Json:
            meta = doc.setdefault("metadata", {})
            edits.put(doc, edit)
            meta = doc.get("metadata")
            if isinstance(meta, dict):
                if version == "gone":
                    meta.pop("resourceVersion", None)
                elif version:
                    meta["resourceVersion"] = _old(name) if version == "old" else "abc"
                if uid:
                    meta["uid"] = "another"
                if other:
                    meta["name"] = "another"
            return doc

        path = self._path(name)
        return self._request("PUT", path, own=own, name=name, query=self._options(), accept=self._accept())

    def _patch(self, name: str, part: str = "") -> Request:
        random = self.random
        doc = self.known.objects[name]
        top = self._main_fields() if part != "status" else ["status", "status", "metadata"]
        edit = self._edit(doc, top)
        way = random.choice(("merge", "strategic", "json", "apply", "strategic"))
        path = self._path(name, part)
        query = self._options(force=way == "apply")
        if way == "json":
            body: Json = edits.json_patch(doc, edit)
            if random.random() < 0.15:
                body = self._other_operation(doc, edit, body)
            if random.random() < 0.03:
                body = random.choice(BAD_JSON_PATCHES)
            content_type = "application/json-patch+json"
        elif way == "apply":
            body = edits.applied(doc, edit)
            body = body if isinstance(body, dict) else {}
            body = {"apiVersion": self.info.api_version, "kind": self.info.kind, **body}
            meta = body.setdefault("metadata", {})
            if isinstance(meta, dict):
                meta["name"] = name
                owners = meta.get("ownerReferences")
                if isinstance(owners, list):
                    # One without the key of its list is no typed object to newer servers, and no owner to older ones.
                    meta["ownerReferences"] = [each for each in owners if isinstance(each, dict) and each.get("uid")]
            if not any(key == "fieldManager" for key, _ in query) and random.random() < 0.97:
                query = [*query, ("fieldManager", random.choice(("m", "n")))]
            content_type = "application/apply-patch+yaml"
        else:
            make = edits.merge_patch if way == "merge" else edits.strategic_patch
            body = make(doc, edit)
            if random.random() < 0.3:
                body = _merged(body, make(doc, self._edit(doc, top)))
            if way == "strategic" and random.random() < 0.15:
                self._directive(body, doc)
            if random.random() < 0.05 and isinstance(body, dict):
                meta = body.setdefault("metadata", {})
                if isinstance(meta, dict):
                    meta["resourceVersion"] = random.choice((_rv(name), _old(name)))
            if random.random() < 0.02:
                body = random.choice(BAD_PATCHES)
            content_type = f"application/{'merge' if way == 'merge' else 'strategic-merge'}-patch+json"
        accept = self._accept()
        if way == "apply":
            # What it made of the object must be seen: from then on the two servers may hold different ones.
            accept = "application/json"
        return self._request("PATCH", path, body=body, name=name, query=query, content_type=content_type, accept=accept)

    def _other_operation(self, doc: Json, edit: Edit, body: list[Json]) -> list[Json]:
        random = self.random
        paths = [pointer for pointer, _ in _pointers(doc) if pointer.startswith(("/spec", "/data", "/metadata/l"))]
        source = random.choice(paths or ["/metadata/labels"])
        value = dict(_pointers(doc)).get(source)
        paths = [pointer for pointer in paths if not isinstance(dict(_pointers(doc)).get(pointer), dict | list)]
        leaf = random.choice(paths or ["/metadata/name"])
        return random.choice(
            (
                [{"op": "test", "path": leaf, "value": dict(_pointers(doc)).get(leaf)}, *body],
                [{"op": "test", "path": source, "value": "something else"}, *body],
                [{"op": "copy", "from": source, "path": "/metadata/annotations"}, *body],
                [{"op": "move", "from": source, "path": source}],
                [{"op": "remove", "path": source}, {"op": "add", "path": source, "value": value}],
                [{"op": "remove", "path": "/spec/none-such"}],
                [{"op": "add", "path": "/metadata/labels/x~1y", "value": "z"}, *body],
            )
        )

    def _directive(self, body: Json, doc: Json) -> None:
        """Make a part of a strategic merge patch one of its special forms."""
        random = self.random
        inner = [(holder, key) for holder, key in _holders(body) if isinstance(holder[key], dict | list)]
        if not inner:
            return
        holder, key = random.choice(inner)
        value = holder[key]
        if isinstance(value, dict):
            value["$patch"] = random.choice(("replace", "delete", "merge", "bad"))
        elif value and isinstance(value[0], dict):
            way = random.randrange(3)
            if way == 0:
                value[0]["$patch"] = "delete"
            elif way == 1:
                value.append({"$patch": "replace"})
            else:
                holder[f"$setElementOrder/{key}"] = [
                    {name: value for name, value in item.items() if name in ("name", "containerPort", "key", "ip")}
                    for item in value
                    if isinstance(item, dict)
                ]
        elif value:
            # Without the list itself: which of the two counts first is left to the order of a map in Go.
            del holder[key]
            holder[f"$deleteFromPrimitiveList/{key}"] = value[:1]

    def _status(self, name: str) -> Request:
        random = self.random
        path = self._path(name, "status")
        way = random.random()
        if way < 0.1:
            return self._request("GET", path, name=name)
        if way < 0.55:
            return self._patch(name, "status")
        edit = self._edit(self.known.objects[name], ["status"])
        also = self._edit(self.known.objects[name], self._main_fields()) if random.random() < 0.2 else None
        version = random.random() < 0.1

        def own(doc: Json) -> Json:
            edits.put(doc, edit)
            if also is not None:
                edits.put(doc, also)
            if version and isinstance(doc.get("metadata"), dict):
                doc["metadata"]["resourceVersion"] = _old(name)
            return doc

        return self._request("PUT", path, own=own, name=name, query=self._options())

    def _scale(self, name: str) -> Request:
        random = self.random
        path = self._path(name, "scale")
        way = random.randrange(4)
        wrong = random.random() < 0.2
        replicas: Json = random.choice((-1, "x", 2**31, 1.5, {})) if wrong else random.randint(0, 4)
        if way == 0:
            return self._request("GET", path, name=name)
        if way == 1:
            body: Json = {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"replicas": replicas},
            }
            if random.random() < 0.4:
                body["metadata"]["resourceVersion"] = random.choice((_rv(name), _old(name)))
            return self._request("PUT", path, body=body, name=name, query=self._options())
        if way == 2:
            body = [{"op": "replace", "path": "/spec/replicas", "value": replicas}]
            return self._request(
                "PATCH", path, body=body, name=name, content_type="application/json-patch+json", query=self._options()
            )
        kind = random.choice(("application/merge-patch+json", "application/strategic-merge-patch+json"))
        body = {"spec": {"replicas": replicas}}
        return self._request("PATCH", path, body=body, name=name, content_type=kind, query=self._options())

    def _get(self, name: str) -> Request:
        random = self.random
        query = []
        # Which of two pieces of nonsense is told is nobody's promise, and has changed.
        if random.random() < 0.3 and ("continue", "nonsense") not in query:
            query.append(("resourceVersion", random.choice(("0", _rv(name), _old(name), "abc"))))
        if random.random() < 0.1:
            name = "none-such"
        return self._request("GET", self._path(name), query=query, name=name, accept=self._accept())

    def _list(self, name: str) -> Request:
        random = self.random
        query = []
        path = self.collection
        if not self.namespace:
            query.append(("labelSelector", f"story={self.label}"))
        elif random.random() < 0.2:
            path = self.everywhere
            query.append(("labelSelector", f"story={self.label}"))
        elif random.random() < 0.4:
            selector = random.choice(
                (
                    f"story={self.label}",
                    f"story!={self.label}",
                    "story",
                    "!story",
                    f"story in ({self.label},x)",
                    "story notin (x, y)",
                    "a in (",
                    "=x",
                    "app=x,story",
                    "story==a b",
                    "Bad Key!=x",
                )
            )
            query.append(("labelSelector", selector))
        if random.random() < 0.25:
            fields = (f"metadata.name={name}", f"metadata.name!={name}", "status.phase=Pending", "spec.nodeName=")
            more = (f"metadata.namespace={self.namespace}", "none.such=x", "type=Opaque", "metadata.name", "a=b=c")
            query.append(("fieldSelector", random.choice((*fields, *more))))
        if random.random() < 0.4:
            query.append(("limit", random.choice(("1", "1", "2", "500", "-1", "x", "0"))))
        if random.random() < 0.2 and self.known.token:
            query.append(("continue", random.choice(("{continue}", "{continue}", "nonsense"))))
        # Which of two pieces of nonsense is told is nobody's promise, and has changed.
        if random.random() < 0.3 and ("continue", "nonsense") not in query:
            query.append(("resourceVersion", random.choice(("0", "{list}", _rv(name), "abc", "-1"))))
        if random.random() < 0.15:
            query.append(("resourceVersionMatch", random.choice(("Exact", "NotOlderThan", "Bad"))))
        accept = PARTIAL.replace("Metadata;", "MetadataList;") if random.random() < 0.1 else "application/json"
        return self._request("GET", path, query=query, accept=accept)

    def _delete_options(self, name: str) -> Json:
        random = self.random
        options: Json = {}
        if random.random() < 0.6:
            options["propagationPolicy"] = random.choice(("Background", "Foreground", "Orphan", "Orphan", "Bad", ""))
        elif random.random() < 0.2:
            options["orphanDependents"] = random.choice((True, False))
        if random.random() < 0.1:
            options["orphanDependents"] = True
        if random.random() < 0.3:
            options["gracePeriodSeconds"] = random.choice((0, 1, 30, -1))
        if random.random() < 0.25:
            wrong = random.random() < 0.5
            key = random.choice(("uid", "resourceVersion"))
            right = f"{{uid:{name}}}" if key == "uid" else _rv(name)
            options["preconditions"] = {key: "1234" if wrong else right}
        if random.random() < 0.15:
            options["dryRun"] = random.choice((["All"], ["None"], ["All", "All"]))
        if random.random() < 0.5:
            options["kind"], options["apiVersion"] = "DeleteOptions", random.choice(("v1", "meta.k8s.io/v1"))
        if random.random() < 0.03:
            options["gracePeriodSeconds"] = "x"
        return options

    def _delete(self, name: str) -> Request:
        random = self.random
        if random.random() < 0.3:
            query = [
                (key, str(value)) for key, value in self._delete_options(name).items() if isinstance(value, str | int)
            ]
            query = [(key, value.lower() if value in ("True", "False") else value) for key, value in query]
            return self._request("DELETE", self._path(name), name=name, query=query)
        body = self._delete_options(name) if random.random() < 0.8 else None
        if random.random() < 0.05:
            name = "none-such"
        return self._request("DELETE", self._path(name), body=body, name=name)

    def _delete_collection(self, name: str) -> Request:
        random = self.random
        query = []
        if random.random() < 0.5:
            query.append(("labelSelector", random.choice((f"story={self.label}", "story=x", "!story", "a in ("))))
        if random.random() < 0.3:
            query.append(("fieldSelector", f"metadata.name={name}"))
        options = self._delete_options(name)
        options.pop("preconditions", None)
        return self._request("DELETE", self.collection, query=query, body=options or None)

    def _other_part(self, name: str) -> Request:
        random = self.random
        part = random.choice([part for part in ("binding", "finalize", "approval", "token") if part in self.parts])
        path = self._path(name, part)
        if part == "binding":
            target = random.choice(
                ({"kind": "Node", "name": "n"}, {"name": "n"}, {"name": ""}, {"kind": "X", "name": "n"})
            )
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            return self._request("POST", path, body=body, query=self._options())
        if part == "token":
            spec = random.choice(({"expirationSeconds": 700}, {"expirationSeconds": 10}, {}))
            body = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"audiences": ["a"], **spec},
            }
            return self._request("POST", path, body=body)
        top = ["spec"] if part == "finalize" else ["status"]
        edit = self._edit(self.known.objects[name], top)
        approve = random.choice(("Approved", "Denied", "Other")) if part == "approval" else ""

        def own(doc: Json) -> Json:
            if approve:
                condition = {"type": approve, "status": "True", "reason": "R", "message": "m"}
                doc.setdefault("status", {})["conditions"] = [condition]
                return doc
            return edits.put(doc, edit)

        return self._request("PUT", path, own=own, name=name, query=self._options())

    def _odd(self, name: str) -> Request:
        """Addresses, methods and media types that are not for this."""
        random = self.random
        way = random.randrange(7)
        if way == 0:
            return self._request("POST", self._path(name), body={})
        if way == 1:
            return self._request("PUT", self.collection, body={})
        if way == 2:
            return self._request("GET", self._path(name, "none-such"))
        if way == 3:
            return self._request("PATCH", self._path(name), body={}, content_type="application/json")
        if way == 4:
            return self._request("POST", self.collection, body="x", name=name)
        if way == 5:
            return self._request("PATCH", self._path("none-such"), body={}, content_type="application/merge-patch+json")
        return self._request("GET", self._path(name), accept="text/html")

    def _review(self) -> Request:
        spec = self.definition.fields["spec"].type.definition
        body = {"apiVersion": self.info.api_version, "kind": self.info.kind, "spec": self.values.object(spec)}
        if "Local" in self.info.kind and self.random.random() < 0.8:
            attributes = body["spec"].get("resourceAttributes")
            if isinstance(attributes, dict):
                attributes["namespace"] = self.namespace
        return self._request("POST", self.collection, body=body)


def _rv(name: str) -> str:
    return f"{{rv:{name}}}"


def _old(name: str) -> str:
    return f"{{old:{name}}}"


def _merged(one: Json, other: Json) -> Json:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one
    return {
        key: _merged(one[key], other[key]) if key in one and key in other else {**other, **one}[key]
        for key in {**one, **other}
    }


def _pointers(doc: Json, pointer: str = "") -> Iterator[tuple[str, Json]]:
    if pointer:
        yield pointer, doc
    items: Iterator[tuple[Any, Any]]
    if isinstance(doc, dict):
        items = iter(doc.items())
    elif isinstance(doc, list):
        items = iter(enumerate(doc))
    else:
        return
    for key, value in itertools.islice(items, 50):
        yield from _pointers(value, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")


def _holders(body: Json) -> Iterator[tuple[dict[str, Json], str]]:
    if isinstance(body, dict):
        for key, value in list(body.items()):
            yield body, key
            yield from _holders(value)
    elif isinstance(body, list):
        for item in body:
            yield from _holders(item)
