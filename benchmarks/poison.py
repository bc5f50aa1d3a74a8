"""Requests that could stop the embedded API server, for `benchmarks.loop_hold`: large, many-parted, or with programs.

Each is as large as the server takes (3 MiB) or as many-parted as fits, so that work which grows with the square of an
object shows. Bodies are made when the request's turn comes: all of them together would fill the memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from bosket.api.crd import crd_manifest
from bosket.api.kai import POD_GROUP

Doc = dict[str, Any]
JSON, MERGE = "application/json", "application/merge-patch+json"
STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"
APPLY, YAML = "application/apply-patch+yaml", "application/yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PODS, CONFIG_MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
#: The body limit of the listener, less some room for what is around.
BODY_BYTES = 3_000_000


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    accept: str = ""
    query: tuple[tuple[str, str], ...] = ()

    def encoded(self) -> bytes:
        return (
            self.body if isinstance(self.body, bytes) else b"" if self.body is None else json.dumps(self.body).encode()
        )


@dataclass(frozen=True)
class Poison:
    """A request to measure, and those that must come before it."""

    name: str
    asked: Callable[[], Asked]
    before: Callable[[], Iterator[Asked]] = lambda: iter(())
    #: what the server has before the first request: pods, and definitions of custom kinds
    pods: int = 0
    watchers: int = 0


def poisons() -> Iterator[Poison]:
    """All requests that are measured."""
    yield from _groups()
    yield from _config_maps()
    yield from _pods()
    yield from _custom()
    yield from _definitions()
    yield from _lists()
    yield from _documents()


def _apply(path: str, body: Any, manager: str = "hold", **query: str) -> Asked:
    return Asked("PATCH", path, body, APPLY, query=(("fieldManager", manager), ("force", "true"), *query.items()))


# a PodGroup with as many sub-groups as fit


def pod_group(count: int, *, minimum: int = 1) -> Doc:
    sub_groups = [{"name": f"sub-group-{index:06d}", "minMember": minimum} for index in range(count)]
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 1, "queue": "q", "subGroups": sub_groups},
    }


def _groups(count: int = 20_000) -> Iterator[Poison]:
    path = f"{GROUPS}/g"

    def before() -> Iterator[Asked]:
        yield Asked("POST", DEFINITIONS, crd_manifest(POD_GROUP))

    def created() -> Iterator[Asked]:
        yield from before()
        yield Asked("POST", GROUPS, pod_group(count), query=(("fieldManager", "other"),))

    def applied() -> Iterator[Asked]:
        yield from before()
        yield _apply(path, pod_group(count), "first")

    def all_wrong() -> Asked:
        return Asked("POST", GROUPS, pod_group(count, minimum=-1))

    def doubled() -> Asked:
        body = pod_group(count)
        body["spec"]["subGroups"] = [body["spec"]["subGroups"][0]] * count
        return Asked("POST", GROUPS, body)

    def operations() -> list[Doc]:
        return [{"op": "replace", "path": f"/spec/subGroups/{each}/minMember", "value": 2} for each in range(10_000)]

    def insertions() -> list[Doc]:
        element = {"name": "x", "minMember": 1}
        return [
            {"op": "add", "path": "/spec/subGroups/0", "value": {**element, "name": f"x{each}"}}
            for each in range(10_000)
        ]

    def unknown() -> Asked:
        body = pod_group(count)
        for each in body["spec"]["subGroups"]:
            each["unknown"] = 1
        return Asked("POST", GROUPS, body)

    sized = f"PodGroup, {count:,} sub-groups: "
    yield Poison(sized + "create", lambda: Asked("POST", GROUPS, pod_group(count)), before)
    yield Poison(
        sized + "create with a manager",
        lambda: Asked("POST", GROUPS, pod_group(count), query=(("fieldManager", "m"),)),
        before,
    )
    yield Poison(sized + "each is wrong", all_wrong, before)
    yield Poison(sized + "all the same", doubled, before)
    yield Poison(sized + "unknown fields", unknown, before)
    yield Poison(
        sized + "merge patch",
        lambda: Asked("PATCH", path, {"spec": pod_group(count, minimum=2)["spec"]}, MERGE),
        created,
    )
    yield Poison(
        sized + "merge patch, each wrong",
        lambda: Asked("PATCH", path, {"spec": pod_group(count, minimum=-1)["spec"]}, MERGE),
        created,
    )
    yield Poison(
        sized + "JSON patch, 10,000 replacements", lambda: Asked("PATCH", path, operations(), JSON_PATCH), created
    )
    yield Poison(
        sized + "JSON patch, 10,000 insertions", lambda: Asked("PATCH", path, insertions(), JSON_PATCH), created
    )
    yield Poison(sized + "apply (new)", lambda: _apply(path, pod_group(count)), before)
    yield Poison(sized + "apply over another's", lambda: _apply(path, pod_group(count, minimum=2)), applied)
    yield Poison(sized + "apply by the same", lambda: _apply(path, pod_group(count, minimum=2), "first"), applied)
    yield Poison(sized + "apply one instead", lambda: _apply(path, pod_group(1), "first"), applied)
    yield Poison(sized + "apply as YAML", lambda: _apply(path, _as_yaml(pod_group(count))), before)


def _as_yaml(doc: Doc) -> bytes:
    import yaml

    return yaml.dump(doc, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)).encode()


# ConfigMaps: one large value, and many small ones


def _config_map(data: dict[str, str]) -> Doc:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def _config_maps() -> Iterator[Poison]:
    many = {f"k{index}": "v" for index in range(180_000)}
    other = dict.fromkeys(many, "w")
    path = f"{CONFIG_MAPS}/c"
    managed = (("fieldManager", "other"),)

    def created() -> Iterator[Asked]:
        yield Asked("POST", CONFIG_MAPS, _config_map(many), query=managed)

    yield Poison(
        "ConfigMap, one value of 3 MB: create", lambda: Asked("POST", CONFIG_MAPS, _config_map({"k": "x" * BODY_BYTES}))
    )
    yield Poison(
        "ConfigMap, 180,000 keys: create", lambda: Asked("POST", CONFIG_MAPS, _config_map(many), query=managed)
    )
    yield Poison(
        "ConfigMap, 180,000 keys: strict",
        lambda: Asked("POST", CONFIG_MAPS, _config_map(many), query=(("fieldValidation", "Strict"),)),
    )
    yield Poison("ConfigMap, 180,000 keys: apply", lambda: _apply(path, _config_map(other)), created)
    yield Poison("ConfigMap, 180,000 keys: merge patch", lambda: Asked("PATCH", path, {"data": other}, MERGE), created)
    yield Poison(
        "ConfigMap, 180,000 keys: strategic patch", lambda: Asked("PATCH", path, {"data": other}, STRATEGIC), created
    )
    yield Poison(
        "ConfigMap, 180,000 keys twice: strict",
        lambda: Asked("POST", CONFIG_MAPS, _twice(), query=(("fieldValidation", "Strict"),)),
    )
    yield Poison(
        "ConfigMap, 3 MB of brackets",
        lambda: Asked("POST", CONFIG_MAPS, b'{"metadata":{"name":"c"},"x":[' + b"[]," * 990_000 + b"[]]}"),
    )
    yield Poison(
        "ConfigMap, 3 MB of brackets in YAML",
        lambda: Asked("POST", CONFIG_MAPS, b'{"metadata":{"name":"c"},"x":[' + b"[]," * 990_000 + b"[]]}", YAML),
    )


def _twice() -> bytes:
    pairs = ",".join(f'"k{index}":"v"' for index in range(90_000))
    return b'{"metadata":{"name":"c"},"data":{%s,%s}}' % (pairs.encode(), pairs.encode())


# pods with thousands of parts


def pod(name: str = "p", metadata: Doc | None = None, container: Doc | None = None, **spec: Any) -> Doc:
    containers = spec.pop("containers", None) or [{"name": "main", "image": "work:1", **(container or {})}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": containers, **spec},
    }


def _pods() -> Iterator[Poison]:
    n = range(20_000)
    gates = [{"name": f"example.com/g{each}"} for each in n]
    parts: dict[str, Callable[[], Doc]] = {
        "containers": lambda: pod(containers=[{"name": f"c{each}", "image": "work:1"} for each in n]),
        "variables": lambda: pod(container={"env": [{"name": f"E{each}", "value": "v"} for each in range(60_000)]}),
        "ports": lambda: pod(
            container={"ports": [{"containerPort": 1 + each, "name": f"p{each}"} for each in range(60_000)]}
        ),
        "tolerations": lambda: pod(tolerations=[{"key": f"k{each}", "operator": "Exists"} for each in range(50_000)]),
        "volumes": lambda: pod(
            volumes=[{"name": f"v{each}", "emptyDir": {}} for each in n],
            container={"volumeMounts": [{"name": f"v{each}", "mountPath": f"/m{each}"} for each in n]},
        ),
        "owners": lambda: pod(
            metadata={
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": f"u{each}"} for each in n]
            }
        ),
        "labels": lambda: pod(metadata={"labels": {f"label{each}": "v" for each in range(100_000)}}),
        "finalizers": lambda: pod(metadata={"finalizers": [f"example.com/f{each}" for each in range(90_000)]}),
        "gates": lambda: pod(schedulingGates=gates),
        "managed fields": lambda: pod(
            metadata={
                "managedFields": [
                    {
                        "manager": f"m{each}",
                        "operation": "Update",
                        "apiVersion": "v1",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}},
                    }
                    for each in range(18_000)
                ]
            }
        ),
        "selector": lambda: pod(nodeSelector={f"example.com/l{each}": "v" for each in range(80_000)}),
        "wrong names": lambda: pod(containers=[{"name": "X" * 20, "image": ""} for _ in n]),
    }
    path = f"{PODS}/p"

    def created(part: str, manager: str) -> Asked:
        return Asked("POST", PODS, parts[part](), query=(("fieldManager", manager),))

    def changed(part: str) -> Doc:
        return {key: value for key, value in parts[part]().items() if key in ("metadata", "spec")}

    def patched(part: str, content_type: str) -> Asked:
        return Asked("PATCH", path, changed(part), content_type)

    def applied(part: str) -> Asked:
        return _apply(path, {**pod(), **changed(part)})

    def small() -> Iterator[Asked]:
        yield created("gates", "other")

    for name in parts:
        yield Poison(f"pod, {name}: create", partial(created, name, "m"))
    for name in ("containers", "tolerations", "gates", "managed fields", "finalizers"):
        yield Poison(f"pod, {name}: merge patch", partial(patched, name, MERGE), small)
        yield Poison(f"pod, {name}: strategic patch", partial(patched, name, STRATEGIC), small)
        yield Poison(f"pod, {name}: apply", partial(applied, name), small)

    def full(part: str) -> Callable[[], Iterator[Asked]]:
        def before() -> Iterator[Asked]:
            yield created(part, "other")

        return before

    def removals(field: str, key: str, values: list[str]) -> Doc:
        return {"spec": {field: [{"$patch": "delete", key: value} for value in values]}}

    yield Poison(
        "pod, gates: strategic patch, each removed",
        lambda: Asked(
            "PATCH", path, removals("schedulingGates", "name", [f"example.com/g{each}" for each in n]), STRATEGIC
        ),
        full("gates"),
    )
    yield Poison(
        "pod, finalizers: strategic patch, each removed",
        lambda: Asked(
            "PATCH",
            path,
            {"metadata": {"$deleteFromPrimitiveList/finalizers": [f"example.com/f{each}" for each in range(45_000)]}},
            STRATEGIC,
        ),
        full("finalizers"),
    )
    yield Poison(
        "pod, finalizers: strategic patch, turned around",
        lambda: Asked(
            "PATCH",
            path,
            {"metadata": {"$setElementOrder/finalizers": [f"example.com/f{each}" for each in reversed(range(90_000))]}},
            STRATEGIC,
        ),
        full("finalizers"),
    )
    yield Poison(
        "pod, tolerations: merge patch, turned around",
        lambda: Asked(
            "PATCH",
            path,
            {"spec": {"tolerations": [{"key": f"k{each}", "operator": "Exists"} for each in reversed(range(50_000))]}},
            MERGE,
        ),
        full("tolerations"),
    )
    yield Poison("pod, owners: delete", lambda: Asked("DELETE", path), full("owners"))


# custom kinds: lists with keys, sets, patterns, rules


def definition(spec: Doc, plural: str = "widgets", kind: str = "Widget", **version: Any) -> Doc:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                    **version,
                }
            ],
        },
    }


def widget(**spec: Any) -> Doc:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def _text_widget(filling: str, count: int) -> Doc:
    return widget(text=filling * count + "!")


def _number_widget(count: int) -> Doc:
    return widget(items=list(range(count)))


def _keyed(*, rule: str = "", **more: Any) -> Doc:
    item: Doc = {
        "type": "object",
        "required": ["a", "b"],
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "integer", **more}},
    }
    if rule:
        item["x-kubernetes-validations"] = [{"rule": rule}]
    return {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a", "b"],
                "items": item,
            }
        },
    }


def _elements(count: int, c: int = 1) -> list[Doc]:
    return [{"a": f"name-{each}", "b": each, "c": c} for each in range(count)]


def _custom() -> Iterator[Poison]:
    path = f"{WIDGETS}/w"

    def schema(spec: Doc, *objects: Doc) -> Callable[[], Iterator[Asked]]:
        def before() -> Iterator[Asked]:
            yield Asked("POST", DEFINITIONS, definition(spec))
            for each in objects:
                yield Asked("POST", WIDGETS, each, query=(("fieldManager", "other"),))

        return before

    def case(name: str, spec: Doc, body: Callable[[], Doc]) -> Poison:
        return Poison(f"custom, {name}", lambda: Asked("POST", WIDGETS, body()), schema(spec))

    def patched(name: str, spec: Doc, first: Doc, patch: Callable[[], Doc]) -> Poison:
        return Poison(f"custom, {name}", lambda: Asked("PATCH", path, {"spec": patch()}, MERGE), schema(spec, first))

    many = 50_000
    yield case("two keys", _keyed(), lambda: widget(items=_elements(many)))
    yield patched(
        "two keys, all changed", _keyed(), widget(items=_elements(many)), lambda: {"items": _elements(many, 2)}
    )
    yield patched(
        "two keys, each wrong", _keyed(maximum=5), widget(items=_elements(many)), lambda: {"items": _elements(many, 9)}
    )
    yield patched(
        "two keys, a rule on each",
        _keyed(rule="self.c >= oldSelf.c"),
        widget(items=_elements(many)),
        lambda: {"items": _elements(many, 2)},
    )
    texts = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    yield case(
        "a set",
        {"type": "object", "properties": {"items": texts}},
        lambda: widget(items=[f"t{each}" for each in range(200_000)]),
    )
    yield patched(
        "a set, turned around",
        {"type": "object", "properties": {"items": texts}},
        widget(items=[f"t{each}" for each in range(200_000)]),
        lambda: {"items": [f"t{each}" for each in reversed(range(200_000))]},
    )
    bracket: Doc = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    yield case("3 MB of brackets", bracket, lambda: widget(x=[[]] * 900_000))
    yield case(
        "3 MB of small numbers",
        {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "integer", "default": 3}}}},
        lambda: widget(items=[1] * 900_000),
    )
    yield case(
        "3 MB of objects with defaults",
        {
            "type": "object",
            "properties": {
                "items": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"a": {"type": "integer", "default": 1}, "b": {"type": "string", "default": "x"}},
                    },
                }
            },
        },
        lambda: widget(items=[{}] * 500_000),
    )
    enumerated = {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"type": "string", "enum": [f"choice-{each}" for each in range(20_000)]},
            }
        },
    }
    yield case("an enumeration of 20,000, each last", enumerated, lambda: widget(items=["choice-19999"] * 100_000))
    yield case("an enumeration of 20,000, each wrong", enumerated, lambda: widget(items=["other"] * 1_000))
    wrong = {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "integer"}}}}
    yield case("700,000 wrong types", wrong, lambda: widget(items=["x"] * 600_000))
    for name, pattern in (
        ("(a+)+$", "^(a+)+$"),
        ("(a|aa)+$", "^(a|aa)+$"),
        ("(.*)*x{,}", "^(.*)*xy$"),
        ("[[:alpha:]]", "^([[:alpha:]]+)+$"),
        ("counted", "^(a{1,500}){1,10}$"),
    ):
        text = {
            "type": "object",
            "properties": {"items": {"type": "array", "items": {"type": "string", "pattern": pattern}}},
        }
        yield case(f"pattern {name}", text, lambda: widget(items=["a" * 1_000_000 + "!"]))
        yield case(f"pattern {name}, many", text, lambda: widget(items=["a" * 30 + "!"] * 70_000))
    for form in ("email", "duration", "hostname", "creditcard", "byte"):
        text = {"type": "object", "properties": {"text": {"type": "string", "format": form}}}
        for filling in ("1", "1s"):
            yield case(
                f"format {form}, {filling!r}",
                text,
                partial(_text_widget, filling, BODY_BYTES // 2 // len(filling)),
            )
    for rule in (
        "self.items.all(a, self.items.exists_one(b, a == b))",
        "self.items.all(a, a in self.items)",
        "self.items.filter(a, a % 2 == 0).size() >= 0",
        "self.items.map(a, a + 1).map(a, a + 1).map(a, a + 1).size() > 0",
        "self.items.all(a, self.items.size() > 0)",
        "self.items.all(a, self.items == self.items)",
        "self.items.all(a, (self.items + self.items).size() > 0)",
        "self.items.isSorted()",
        "self.items.sum() > 0",
        "self.items.indexOf(7) < 0",
    ):
        for count in (900, 400_000):
            counted = {
                "type": "object",
                "properties": {"items": {"type": "array", "items": {"type": "integer"}}},
                "x-kubernetes-validations": [{"rule": rule}],
            }
            yield case(f"rule {rule}, {count:,}", counted, partial(_number_widget, count))
    for rule in (
        "self.text.matches('^(a+)+$')",
        "self.text.find('(a+)+$') != 'x'",
        "self.text.findAll('(a+)+$').size() >= 0",
        "self.text.split('').size() > 0",
        "self.text.split('').all(a, self.text.contains(a))",
        "self.text.replace('a', 'bbbbbbbb').size() > 0",
        "self.text.lowerAscii().upperAscii().size() > 0",
    ):
        for count in (31, 2_900_000):
            worded = {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": rule}],
            }
            yield case(f"rule {rule}, {count:,}", worded, partial(_text_widget, "a", count))
    rules = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": f"self.items.all(a, a != -{each})"} for each in range(1, 200)],
    }
    yield case("200 rules, 5,000 numbers", rules, lambda: widget(items=list(range(5_000))))
    each_rule = {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= 0"}]},
            }
        },
    }
    yield case("a rule on each of 50,000 numbers", each_rule, lambda: widget(items=[1] * 50_000))
    nested: Doc = {"type": "string", "x-kubernetes-validations": [{"rule": "self.size() > 0"}]}
    value: Any = "x" * 1_000_000
    for _ in range(40):
        nested = {"type": "object", "properties": {"a": nested}, "x-kubernetes-validations": [{"rule": "has(self.a)"}]}
        value = {"a": value}
    yield case("rules at 40 depths around 1 MB", nested, lambda: widget(**value))


# definitions themselves


def _definitions() -> Iterator[Poison]:
    def asked(name: str, spec: Callable[[], Doc], **version: Any) -> Poison:
        return Poison(f"definition, {name}", lambda: Asked("POST", DEFINITIONS, definition(spec(), **version)))

    def fields(count: int, **more: Any) -> Doc:
        return {"type": "object", "properties": {f"field{each}": {"type": "string", **more} for each in range(count)}}

    def deep(levels: int) -> Doc:
        found: Doc = {"type": "string"}
        for _ in range(levels):
            found = {"type": "object", "properties": {"a": found}}
        return found

    yield asked("40,000 fields", lambda: fields(40_000))
    yield asked("20,000 defaults", lambda: fields(20_000, default="x"))
    yield asked("5,000 patterns", lambda: fields(5_000, pattern="^(a+)+$"))
    yield asked(
        "1,000 rules",
        lambda: {
            **fields(10),
            "x-kubernetes-validations": [{"rule": f"self.field1 != '{each}'"} for each in range(1_000)],
        },
    )
    yield asked(
        "a rule of 100 kB",
        lambda: {**fields(2), "x-kubernetes-validations": [{"rule": " || ".join(["self.field1 == 'x'"] * 5_000)}]},
    )
    yield asked(
        "a rule of 200 brackets",
        lambda: {**fields(2), "x-kubernetes-validations": [{"rule": "(" * 200 + "true" + ")" * 200}]},
    )
    yield asked("a rule of dots", lambda: {**fields(2), "x-kubernetes-validations": [{"rule": "self" + " ." * 50_000}]})
    yield asked(
        "a rule of quotes",
        lambda: {**fields(2), "x-kubernetes-validations": [{"rule": "self.field1 == " + "\\'" * 50_000}]},
    )
    yield asked("40 levels", lambda: deep(40))
    yield asked(
        "anyOf 10,000", lambda: {"type": "string", "anyOf": [{"pattern": f"^a{each}$"} for each in range(10_000)]}
    )
    yield asked(
        "an enumeration of 150,000", lambda: {"type": "string", "enum": [f"choice-{each}" for each in range(150_000)]}
    )
    yield asked(
        "1,000 columns",
        lambda: fields(2),
        additionalPrinterColumns=[
            {"name": f"c{each}", "type": "string", "jsonPath": f".spec.field{each}"} for each in range(10_000)
        ],
    )
    yield asked(
        "a path of brackets",
        lambda: fields(2),
        additionalPrinterColumns=[{"name": "c", "type": "string", "jsonPath": ".spec" + "['" * 100_000}],
    )


# many objects


def _lists() -> Iterator[Poison]:
    def listed(name: str, accept: str = "", pods: int = 50_000, **query: str) -> Poison:
        return Poison(
            f"list of {pods:,}: {name}",
            lambda: Asked("GET", PODS, accept=accept, query=tuple(query.items())),
            pods=pods,
        )

    yield listed("all")
    yield listed("as a table", TABLE)
    yield listed("as metadata", METADATA)
    yield listed("by label", labelSelector="team=a")
    yield listed("by 3,000 labels", labelSelector=f"team notin ({','.join(f'x{each}' for each in range(3_000))})")
    yield listed("by 2,000 requirements", labelSelector=",".join(f"!x{each}" for each in range(2_000)))
    yield listed("by field", fieldSelector="status.phase!=Running")
    yield listed("by 900 fields", fieldSelector=",".join(f"metadata.name!=x{each}" for each in range(900)))
    yield listed("in pages of 500", limit="500")
    yield listed("of commas", labelSelector="a" + "," * 30_000)
    yield listed("of brackets", labelSelector="a in (" * 5_000)
    yield listed("of blanks", labelSelector="a" + " " * 30_000 + "in x")
    yield listed("of a long key", labelSelector="a" * 30_000 + "/b")
    yield listed("of equals", fieldSelector="a=" + "\\," * 15_000 + "=")
    yield Poison("10,000 pods: deletecollection", lambda: Asked("DELETE", PODS), pods=10_000)
    yield Poison(
        "watch of 50,000: begins",
        lambda: Asked("GET", PODS, query=(("watch", "true"), ("timeoutSeconds", "1"))),
        pods=50_000,
    )
    yield Poison(
        "500 watches: a pod changes",
        lambda: Asked("PATCH", f"{PODS}/pod-000001", {"metadata": {"labels": {"x": "y"}}}, MERGE),
        pods=1_000,
        watchers=500,
    )
    yield Poison(
        "500 watches: a pod of 2 MB",
        lambda: Asked("POST", PODS, pod(container={"env": [{"name": "E", "value": "x" * 2_000_000}]})),
        pods=10,
        watchers=500,
    )
    yield Poison("500 watches: 1,000 pods are deleted", lambda: Asked("DELETE", PODS), pods=1_000, watchers=500)


def _documents() -> Iterator[Poison]:
    def before() -> Iterator[Asked]:
        for number in range(200):
            spec = {
                "type": "object",
                "properties": {f"f{each}": {"type": "string", "description": "words " * 5} for each in range(200)},
            }
            yield Asked("POST", DEFINITIONS, definition(spec, f"things{number}", f"Thing{number}"))

    for path in ("/openapi/v2", "/openapi/v3", "/openapi/v3/apis/example.com/v1", "/openapi/v3/api/v1", "/apis"):
        yield Poison(f"200 definitions: {path}", partial(Asked, "GET", path), before)
    yield Poison(
        "200 definitions: one more",
        lambda: Asked("POST", DEFINITIONS, definition({"type": "object"}, "more", "More")),
        before,
    )
