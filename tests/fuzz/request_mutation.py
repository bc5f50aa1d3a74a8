"""Ways to break something that was whole: values, patches, selectors, expressions, schemas. All are random and pure."""

from __future__ import annotations

import copy
import random
from typing import Any, Final

Json = dict[str, Any]

#: Values that stand where others should.
ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1.5, 2**31, 2**63 - 1, 2**63, 2**70, -(2**70), 1e308, "", "x", "\0", "Ω", "-1", "1e999",
    "x" * 300, "9" * 400, [], {}, [None], [[]], [{}], {"": None}, {"x": {"y": []}}, ["x", "x"], {"metadata": 5},
    {"$patch": "delete"}, {"$patch": "replace"}, [{"$patch": "delete", "name": "x"}], {"$retainKeys": ["x"]},
    {"$setElementOrder/x": 5}, {"name": None}, [{"name": "x"}, {"name": "x"}], {"kind": 5}, "2020-01-01T00:00:00Z",
    "9999-99-99T99:99:99Z", "100Gi", "-5m", "1h", "..", "a/b", "a.b/c", "%", "100%", "{{}}", "\U0001f600",
    "\x7f", "١",
)  # fmt: skip
_LABELS: Final = ("a=b", "a!=b", "a==b", "a in (b,c)", "a notin (b)", "a", "!a", "n>2", "n<3", "x.io/a=b", "a=")
_FIELDS: Final = (
    "metadata.name=a", "metadata.namespace=default", "metadata.name!=a", "spec.nodeName=x", "status.phase=Running",
    "spec.x=1", "metadata.name=", "involvedObject.name=a", "type=Opaque",
)  # fmt: skip
_ATOMS: Final = (
    "self", "oldSelf", "object", "oldObject", "request", "params", "namespaceObject", "authorizer", "variables.v", "1",
    "-1", "0", "1.5", "1u", "9223372036854775807", "'a'", "''", "'aaaaaaaaaaaaaaaaaaaaaaaa!'", "true", "null", "[]",
    "{}", "[1,2,3]", "{'a': 1}", "b'x'", "duration('1h')", "timestamp('2026-01-01T00:00:00Z')", "quantity('1Gi')", "x",
    "self.metadata.name", "self.spec", "self.spec.x", "self.spec.l", "self.spec.m", "object.metadata.labels",
    "object.spec.replicas", "type(1)", "url('https://a/b')", "ip('1.2.3.4')", "optional.of(1)", "semver('1.2.3')",
)  # fmt: skip
_BINARY: Final = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in")
_CALLS: Final = (
    "size({0})", "has({0}.x)", "!({0})", "-({0})", "{0}.all(i, {1})", "{0}.exists(i, {1})", "{0}.exists_one(i, {1})",
    "{0}.map(i, {1})", "{0}.filter(i, {1})", "{0}.matches('^(a+)+$')", "{0}.startsWith({1})", "{0}[{1}]", "{0}.x",
    "({0}) ? ({1}) : ({0})", "string({0})", "int({0})", "double({0})", "uint({0})", "duration({0})", "timestamp({0})",
    "quantity({0})", "quantity({0}).isGreaterThan({1})", "{0}.split('a')", "{0}.lowerAscii()", "{0}.replace('a','b')",
    "{0}.find('[a-z]+')", "{0}.findAll('.')", "{0}.orValue({1})", "{0}.?x", "{0}.isSorted()", "{0}.sum()", "{0}.max()",
    "{0}.indexOf({1})", "{0}.format([{1}])", "dyn({0})", "[{0}, {1}]", "{{{0}: {1}}}", "{0}.getFullYear()",
    "{0}.join('a')",
    "authorizer.group('').resource('pods').check({0}).allowed()", "sets.contains({0}, {1})", "base64.encode({0})",
)  # fmt: skip
_PATTERNS: Final = ("^a$", "(a+)+$", "[", "(?=a)", "\\d{3,5}", "^(a|aa)+$", "x{1000}", "\\pL+", ".*.*.*x", "(?i)A")
_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "", "nonsense")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside a value."""
    found: list[tuple[Any, ...]] = []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found.append((*path, key))
        found += places(child, (*path, key))
    return found


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def mutated(rng: random.Random, value: Json, other: Json | None = None) -> Json:
    """A copy with a few things changed; `other` lends some of its parts."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        found = places(value)
        if not found:
            break
        path = rng.choice(found)
        parent, key = at(value, path[:-1]), path[-1]
        match rng.randrange(8):
            case 0 if isinstance(parent, dict):
                del parent[key]
            case 1 if isinstance(parent, dict):
                parent[rng.choice(("x", "", "$patch", "metadata", "Ω", "name", "kind"))] = parent[key]
            case 2 if isinstance(parent, list):
                parent += [copy.deepcopy(parent[key])] * rng.choice((1, 2, 30))
            case 3 if other:
                parent[key] = copy.deepcopy(at(other, rng.choice(places(other) or [()])))
            case 4:
                parent[key] = [parent[key]]
            case 5:
                for _ in range(rng.choice((1, 3, 60))):
                    parent[key] = {"x": parent[key]}
            case 6 if isinstance(parent[key], str):
                parent[key] = rng.choice((parent[key] * 2, parent[key].upper(), parent[key] + "\n", "-" + parent[key]))
            case 6 if isinstance(parent[key], int):
                parent[key] = rng.choice((-parent[key], parent[key] + 1, parent[key] * 2**40, str(parent[key])))
            case _:
                parent[key] = copy.deepcopy(rng.choice(ODD))
    return value


def json_patch(rng: random.Random, doc: Json) -> list[Any]:
    """Operations on places that are there, or nearly."""
    found = places(doc) or [()]

    def pointer() -> str:
        path = rng.choice(found)
        keys = [str(key).replace("~", "~0").replace("/", "~1") for key in path]
        return "/" + "/".join(keys) + rng.choice(("", "", "", "", "/-", "/0", "/x", "/", "/999999"))

    if rng.random() < 0.02:  # deeper than any body may be
        return [{"op": "copy", "from": "/metadata", "path": "/metadata/metadata"}] * rng.choice((20, 150, 600))
    operations: list[Any] = []
    for _ in range(rng.choice((1, 1, 2, 3, 20))):
        operation: Json = {"op": rng.choice(("add", "remove", "replace", "test", "move", "copy", "copy", "bogus"))}
        operation["path"] = pointer()
        if operation["op"] in ("move", "copy"):
            operation["from"] = pointer()
        else:
            operation["value"] = copy.deepcopy(rng.choice((*ODD, at(doc, rng.choice(found)))))
        operations.append(operation)
    return operations


def merge(rng: random.Random, doc: Json, *, strategic: bool) -> Json:
    """A part of the object, changed, with directives where they mean something."""
    patch: Json = {}
    for path in rng.sample(found := places(doc) or [("spec",)], min(len(found), rng.randrange(1, 4))):
        inner = patch
        keys = [key for key in path if isinstance(key, str)] or ["spec"]
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                return {keys[0]: inner}
        inner[keys[-1]] = copy.deepcopy(rng.choice(ODD))
        if strategic and rng.random() < 0.5:
            directive = rng.choice(
                ("$patch", "$retainKeys", f"$setElementOrder/{keys[-1]}", "$deleteFromPrimitiveList/x")
            )
            inner[directive] = rng.choice(("delete", "replace", "merge", ["x"], [{"name": "a"}], 5, None))
            inner[keys[-1]] = rng.choice(
                ([{"name": "a", "$patch": "delete"}], [{"name": "a"}, {"name": "a"}], ["a"], None)
            )
    return patch


def selector(rng: random.Random) -> dict[str, str]:
    """Selectors that are well formed, or nearly."""
    query: dict[str, str] = {}
    for key, choices in (("labelSelector", _LABELS), ("fieldSelector", _FIELDS)):
        if rng.random() < 0.5:
            text = ",".join(rng.choice(choices) for _ in range(rng.choice((1, 1, 2, 3, 40))))
            query[key] = text if rng.random() < 0.8 else text.replace(rng.choice(text), rng.choice(",()=!\\ \0Ω"), 1)
    return query


def expression(rng: random.Random, depth: int = 3) -> str:
    """CEL, mostly with a meaning."""
    if depth <= 0 or rng.random() < 0.2:
        return rng.choice((*_ATOMS, "i"))
    one, two = expression(rng, depth - 1), expression(rng, depth - 1)
    if rng.random() < 0.4:
        return f"({one}) {rng.choice(_BINARY)} ({two})"
    return rng.choice(_CALLS).format(one, two)


def schema(rng: random.Random, depth: int = 3) -> Json:
    """A schema of a definition: structural more often than not."""
    kind = rng.choice(_TYPES[:6] if rng.random() < 0.95 else _TYPES)
    if depth <= 0 and kind in ("object", "array"):
        kind = "string"
    made: Json = {"type": kind}
    if kind == "object":
        if rng.random() < 0.7:
            made["properties"] = {key: schema(rng, depth - 1) for key in rng.sample(("x", "l", "m", "s"), 2)}
        else:
            made["additionalProperties"] = schema(rng, depth - 1)
        if rng.random() < 0.2:
            made["x-kubernetes-preserve-unknown-fields"] = rng.choice((True, True, False, 1))
        if rng.random() < 0.1:
            made["x-kubernetes-embedded-resource"] = True
        if rng.random() < 0.2:
            made["required"] = rng.choice((["x"], ["nothing"], []))
    elif kind == "array":
        made["items"] = schema(rng, depth - 1)
        if rng.random() < 0.3:
            made["x-kubernetes-list-type"] = rng.choice(("set", "map", "atomic", "x"))
            made["x-kubernetes-list-map-keys"] = ["x"]
        made |= {"maxItems": rng.choice((0, 3, 100))} if rng.random() < 0.3 else {}
    elif kind == "string":
        made |= {"pattern": rng.choice(_PATTERNS)} if rng.random() < 0.3 else {}
        made |= (
            {"format": rng.choice(("date-time", "byte", "email", "uuid", "ipv4", "x"))} if rng.random() < 0.2 else {}
        )
        made |= {"enum": ["a", "b", rng.choice(ODD)]} if rng.random() < 0.1 else {}
    elif kind in ("integer", "number"):
        made |= {"minimum": rng.choice((0, -1.5, 2**63, 1e308))} if rng.random() < 0.3 else {}
        made |= {"multipleOf": rng.choice((1, 0, 0.1, -1))} if rng.random() < 0.1 else {}
    if rng.random() < 0.15:
        made["default"] = copy.deepcopy(rng.choice(ODD))
    if rng.random() < 0.1:
        made["nullable"] = True
    if rng.random() < 0.1:
        made[rng.choice(("anyOf", "oneOf", "allOf"))] = [{"required": ["x"]}, {"minimum": 1}]
    if rng.random() < 0.2:
        rule = {"rule": expression(rng, 2), "message": "m"}
        made["x-kubernetes-validations"] = [rule | rng.choice(({}, {"messageExpression": expression(rng, 1)}))]
    return made
