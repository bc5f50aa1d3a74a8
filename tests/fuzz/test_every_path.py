"""Every path that is served, asked with every method, odd parameters and odd bodies; and valid objects, a bit broken.

No schema leads here: what is sent is what programs with bugs, and people with bad intentions, send.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest

from tests.fuzz.fuzzed import Fuzzed, budget_seconds, chance, resident_mebibytes

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "")
PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
TYPES = (
    *PATCHES,
    "application/json",
    "application/yaml",
    "text/plain",
    "application/vnd.kubernetes.protobuf",
    "",
    "*/*",
)
ACCEPTS = (
    "",
    "*/*",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=Nonsense;v=v9;g=",
    "application/vnd.kubernetes.protobuf",
    ";;;===,,,",
)
QUERIES: dict[str, tuple[str, ...]] = {
    "watch": ("true", "false", "1", "maybe"),
    "limit": ("-1", "0", "1", "99999999999999999999", "x", "1e9"),
    "continue": ("x", "e30", "eyJ2ZXJzaW9uIjoxfQ", "Ω", "=" * 50),
    "resourceVersion": ("0", "-1", "x", "99999999999999999999", "1 "),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "timeoutSeconds": ("0", "-5", "x", "9" * 30),
    "labelSelector": ("a=b", "a in (", "!", "a notin (b,c),d", "=,=", "x" * 5000, "a>1", "a in ()", "\0"),
    "fieldSelector": ("metadata.name=x", "spec.x=1", "=", "a", "metadata.name!=x", "\\", "metadata.name=" + "y" * 5000),
    "sendInitialEvents": ("true", "x"),
    "allowWatchBookmarks": ("true", "x"),
    "dryRun": ("All", "x", ""),
    "fieldManager": ("a", "x" * 300, "\n", ""),
    "fieldValidation": ("Strict", "Warn", "x"),
    "force": ("true", "x"),
    "gracePeriodSeconds": ("0", "-1", "x", "9" * 30),
    "propagationPolicy": ("Foreground", "Orphan", "x"),
    "orphanDependents": ("true", "x"),
    "includeObject": ("None", "Object", "x"),
    "pretty": ("true", "x"),
    "nonsense": ("", "Ω" * 100),
}
#: Values that stand where others should.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**70, -(2**70), 1e308, "", "x", "\0", "Ω", "-1", "1e999", "x" * 4000,
    [], {}, [None], [[]], [{}], {"": None}, {"x": {"y": []}}, ["x", "x"], {"metadata": 5}, {"$patch": "delete"},
    {"$patch": "replace"}, [{"$patch": "delete", "name": "x"}], {"$retainKeys": ["x"]}, {"$setElementOrder/x": 5},
    {"name": None}, [{"name": "x"}, {"name": "x"}], {"kind": 5}, "2020-01-01T00:00:00Z", "100Gi", "-5m", "1h", "..",
    "a/b",
)  # fmt: skip
BODIES = (
    b"",
    b"null",
    b"[]",
    b"{}",
    b"5",
    b'"x"',
    b"{",
    b"\xff\xfe",
    b'{"a":"\xff"}',
    b'{"metadata":null}',
    b'{"metadata":{"name":5}}',
    b'{"metadata":{"name":"fuzz","labels":5}}',
    b"[" * 5000,
    b'{"a":' * 5000,
    b"- " * 2000,
    b"a: &a [*a]",
    b"a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]",
    b"k8s\x00\x0a\x00",
    b"k8s\x00" + b"\xff" * 200,
    b'[{"op":"add","path":"/metadata/labels/x","value":{}}]',
    b'[{"op":"move","from":"/","path":"/spec"}]',
    b'[{"op":"copy","from":"/spec","path":"/spec/spec"}]',
    b'[{"op":"remove","path":"/metadata"}]',
    b'[{"op":"test","path":"/spec/x/-1","value":1}]',
    b'[{"op":"replace","path":"","value":5}]',
    b'[{"op":"add","path":"/spec/containers/999999999","value":1}]',
    b'[{"op":5}]',
)


@pytest.fixture
def fuzzed() -> Iterator[Fuzzed]:
    found = Fuzzed()
    found.teach()
    yield found
    found.close()


def every_path(fuzzed: Fuzzed) -> list[str]:
    paths = list(fuzzed.read("/")["paths"])
    for place in fuzzed.read("/openapi/v3")["paths"]:
        paths.append(f"/openapi/v3/{place}")
        paths += fuzzed.read(f"/openapi/v3/{place}")["paths"]
    return [path.replace("{namespace}", "default").replace("{name}", "fuzz") for path in paths]


def some_query(rng: random.Random) -> dict[str, str]:
    return {name: rng.choice(QUERIES[name]) for name in rng.sample(list(QUERIES), rng.randrange(4))}


def test_every_path_bears_every_method_odd_parameters_and_odd_bodies(fuzzed: Fuzzed) -> None:
    rng, end, before = chance(), monotonic() + budget_seconds(10), resident_mebibytes()
    paths = every_path(fuzzed)
    rng.shuffle(paths)
    rounds = 0
    while rounds == 0 or monotonic() < end:
        for path in paths:
            for method in METHODS[:5] if rounds else METHODS:
                if rounds and monotonic() > end:
                    break
                headers = {"accept": rng.choice(ACCEPTS)}
                body = rng.choice(BODIES) if method in ("POST", "PUT", "PATCH", "DELETE") else b""
                content_type = rng.choice(PATCHES if method == "PATCH" else TYPES)
                fuzzed.ask(method, path, body, content_type, some_query(rng), headers)
        rounds += 1
    print(f"{fuzzed.asked} requests to {len(paths)} paths, {rounds} rounds")
    assert fuzzed.ask("GET", "/api/v1/namespaces/default") == 200
    assert resident_mebibytes() - before < 300


TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "i",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "value": "b"}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "nodeSelector": {"a": "b"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "a",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {}},
            }
        ],
    },
}
SELECTOR = {"matchLabels": {"a": "b"}}
RULE = {"rule": "self.x > 1", "message": "m"}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [RULE],
            "properties": {
                "x": {"type": "integer", "minimum": 1, "default": 2},
                "l": {"type": "array", "items": {"type": "string", "pattern": "^a$"}, "x-kubernetes-list-type": "set"},
                "m": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
                "r": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"a": {"type": "string"}},
                },
            },
            "oneOf": [{"required": ["x"]}, {"required": ["l"]}],
        }
    },
}
OBJECTS: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/pods": {"apiVersion": "v1", "kind": "Pod", **TEMPLATE},
    "/api/v1/namespaces/default/services": {
        "spec": {"ports": [{"port": 80, "targetPort": "x"}], "selector": {"a": "b"}}
    },
    "/api/v1/namespaces/default/configmaps": {"data": {"a": "b"}, "binaryData": {"c": "aGk="}, "immutable": False},
    "/api/v1/namespaces/default/persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "/api/v1/namespaces/default/events": {"involvedObject": {"kind": "Pod", "name": "x", "namespace": "default"}},
    "/api/v1/nodes": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "1"}}},
    "/api/v1/namespaces": {"spec": {"finalizers": ["kubernetes"]}},
    "/apis/apps/v1/namespaces/default/deployments": {
        "spec": {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE, "strategy": {"type": "RollingUpdate"}}
    },
    "/apis/apps/v1/namespaces/default/statefulsets": {
        "spec": {"serviceName": "x", "selector": SELECTOR, "template": TEMPLATE, "volumeClaimTemplates": []}
    },
    "/apis/batch/v1/namespaces/default/jobs": {
        "spec": {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}, "parallelism": 1}
    },
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {"spec": {"minAvailable": "50%", "selector": SELECTOR}},
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": 5, "globalDefault": False},
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    },
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"},
        "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
    },
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "spec": {"holderIdentity": "x", "leaseDurationSeconds": 5}
    },
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": {
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
                ]
            },
            "validations": [{"expression": "object.metadata.name != 'x'"}],
        }
    },
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims": {
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": 1}}]}}
    },
    "/apis/scheduling.run.ai/v2/queues": {
        "spec": {"resources": {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 1}}, "parentQueue": "x"}
    },
    "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups": {"spec": {"minMember": 1, "queue": "q"}},
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
        "spec": {
            "group": "fuzz.example.com",
            "scope": "Namespaced",
            "names": {"plural": "fuzzes", "kind": "Fuzz", "shortNames": ["fz"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x"},
                    },
                    "additionalPrinterColumns": [{"name": "X", "type": "integer", "jsonPath": ".spec.x"}],
                    "selectableFields": [{"jsonPath": ".spec.x"}],
                }
            ],
        }
    },
}


DELETE_OPTIONS = {
    "kind": "DeleteOptions",
    "gracePeriodSeconds": 5,
    "propagationPolicy": "Background",
    "preconditions": {"uid": "x", "resourceVersion": "1"},
    "dryRun": ["All"],
}


def broken(rng: random.Random, value: Any) -> Any:
    """The value, with something odd at a place deep inside."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        parent, key = value, rng.choice(list(value))
        while rng.random() < 0.8:
            child = parent[key]
            if isinstance(child, dict) and child:
                parent, key = child, rng.choice(list(child))
            elif isinstance(child, list) and child:
                parent, key = child, rng.randrange(len(child))
            else:
                break
        parent[key] = copy.deepcopy(rng.choice(ODD))
        if isinstance(parent, dict) and rng.random() < 0.2:
            parent[rng.choice(("x", "", "$patch", "metadata", "Ω"))] = copy.deepcopy(rng.choice(ODD))
        if not isinstance(value, dict):
            break
    return value


def test_valid_objects_that_are_broken_somewhere_are_answered(fuzzed: Fuzzed) -> None:
    rng, end, before = chance(), monotonic() + budget_seconds(20), resident_mebibytes()
    for path, found in OBJECTS.items():
        name = "fuzzes.fuzz.example.com" if "customresource" in path else "fuzz"
        found["metadata"] = {**found.get("metadata", {}), "name": name}
        status = fuzzed.ask("POST", path, json.dumps(found).encode())
        assert status == 201, (path, status)
    paths = list(OBJECTS)
    while monotonic() < end:
        path = rng.choice(paths)
        whole = OBJECTS[path]
        name = whole["metadata"]["name"]
        body = json.dumps(broken(rng, whole)).encode()
        match rng.randrange(7):
            case 6:
                options = broken(rng, DELETE_OPTIONS)
                fuzzed.ask("DELETE", f"{path}/{name}", json.dumps(options).encode(), query=some_query(rng))
                fuzzed.ask("POST", path, json.dumps(whole).encode())
            case 0:
                query = {"dryRun": "All"} if rng.random() < 0.7 else {}
                fuzzed.ask("POST", path, body.replace(b'"fuzz"', b'"fuzz2"'), query=query)
            case 1:
                fuzzed.ask("PUT", f"{path}/{name}", body)
            case 2 | 3 as number:
                kind = PATCHES[number - 1]
                fuzzed.ask("PATCH", f"{path}/{name}", body, kind, some_query(rng))
            case 4:
                fuzzed.ask("PATCH", f"{path}/{name}", body, PATCHES[3], {"fieldManager": "f", "force": "true"})
            case _:
                part = rng.choice(
                    ("status", "scale", "eviction", "binding", "ephemeralcontainers", "resize", "finalize")
                )
                method = rng.choice(("PUT", "POST", "PATCH", "GET"))
                fuzzed.ask(method, f"{path}/{name}/{part}", body, rng.choice(PATCHES) if method == "PATCH" else "")
        if rng.random() < 0.05:
            fuzzed.ask("GET", path, headers={"accept": rng.choice(ACCEPTS)})
    print(f"{fuzzed.asked} requests")
    assert fuzzed.ask("GET", "/api/v1/namespaces/default") == 200
    assert resident_mebibytes() - before < 300
