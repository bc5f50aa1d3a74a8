"""Requests by the thousand against one server: objects of all kinds made by their schemas and changed, all verbs.

`Campaign.run` sends them and notes what must not be: an answer that is the server's mistake, a line in its log that
says so, an answer that takes too long. What the server does behind requests (garbage collection, draining, counting)
runs beside them, and so do watches, in all forms. `tests/fuzz/test_requests.py` has a short one in `make test`,
`python -m benchmarks fuzz-requests` a hundred thousand.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import random
import traceback
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic, process_time
from typing import Any, Final

import yaml

from bosket.api.crd import crd_manifests
from bosket.apiserver import ApiServer
from bosket.apiserver.handlers.watch import Watcher
from bosket.apiserver.objects.kind import Kind, Version
from bosket.apiserver.request.resource_request import User
from bosket.kube.transport import Request
from bosket.runtime.clock import SystemClock
from tests.fuzz.fuzzed import AS_IN_KUBERNETES, DEFINITIONS, MISTAKES, SECONDS, resident_mebibytes
from tests.fuzz.request_mutation import Json, expression, json_patch, merge, mutated, schema, selector
from tests.fuzz.request_sample import NAMES, Schemas
from tests.fuzz.test_every_path import ACCEPTS, OBJECTS, PATCHES, QUERIES

ADMIN: Final = User("admin", ("system:masters", "system:authenticated"))
#: Holds every right by a role: what only roles let pass is passed.
BOUND: Final = User("bound", ("system:authenticated",))
NAMESPACES: Final = ("default", "team-a")
#: Objects are removed, and definitions and policies with them, after so many requests.
_ROUND: Final = 400
_WATCHES: Final = 24
#: A webhook that was written would be called; its answers are not what is tested here.
_ONLY_DRY: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_BODIES: Final[dict[str, Json]] = {
    "eviction": {"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": {"gracePeriodSeconds": 0}},
    "binding": {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "a"}},
    "scale": {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 3}},
    "token": {"spec": {"audiences": ["a"], "expirationSeconds": 600}},
}
_DELETION: Final[Json] = {
    "kind": "DeleteOptions",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Background",
    "preconditions": {"uid": "x"},
    "dryRun": ["All"],
}


@dataclass(frozen=True)
class Failure:
    """One request that was not answered as it must be."""

    what: str
    number: int
    request: str


@dataclass
class Results:
    """What came of a campaign."""

    seed: int
    requests: int = 0
    by_action: Counter[str] = field(default_factory=Counter)
    by_status: Counter[int] = field(default_factory=Counter)
    kinds: set[str] = field(default_factory=set)
    #: kinds of which an object was stored
    stored: set[str] = field(default_factory=set)
    worst_seconds: float = 0.0
    worst_request: str = ""
    resident_mebibytes: float = 0.0
    #: one for each place that fails, the first that was found
    failures: dict[str, Failure] = field(default_factory=dict)

    def fail(self, key: str, what: str, request: str) -> None:
        self.failures.setdefault(key, Failure(what, self.requests, request))


class _Errors(logging.Handler):
    """Notes what the server logs as an error."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__(logging.ERROR)
        self._campaign = campaign

    def emit(self, record: logging.LogRecord) -> None:
        key, text = record.getMessage(), record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(record.exc_info[1]))
            frames = traceback.extract_tb(record.exc_info[2])
            key = f"{record.exc_info[0]} {frames[-1].filename}:{frames[-1].lineno}" if frames else trace
            text += f"\n{trace[-3000:]}"
        self._campaign.results.fail(key, text, self._campaign.last)


class Campaign:
    """A server, what is known to be on it, and random requests."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.results = Results(seed)
        self.last = ""
        self._schemas = Schemas()
        self._tokens: list[str] = []
        self._watches: list[tuple[Watcher, asyncio.Task[None]]] = []

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[None]:
        self.server = ApiServer(clock=SystemClock(), history=256)
        handler = _Errors(self)
        logging.getLogger("bosket").addHandler(handler)
        work = asyncio.create_task(self.server.run())
        try:
            for manifest in crd_manifests():
                await self._send("POST", DEFINITIONS, json.dumps(manifest).encode(), user=ADMIN)
            await self._begin_round()
            await self._schemas.read(self.server)
            yield
        finally:
            self._leave(len(self._watches))
            work.cancel()
            await asyncio.wait([work])
            logging.getLogger("bosket").removeHandler(handler)

    async def run(self, requests: int, seconds: float = 1e9) -> Results:
        """Send so many, or as many as there is time for."""
        end = monotonic() + seconds
        async with self._server():
            self.results.requests = 0
            self.results.by_status.clear()
            while self.results.requests < requests and monotonic() < end:
                if self.results.requests % _ROUND == 0:
                    await self._begin_round()
                before = self.results.requests
                await self._step()
                while self.results.requests == before:  # nothing was found to change
                    await self._create()
            self.results.resident_mebibytes = max(self.results.resident_mebibytes, resident_mebibytes())
        return self.results

    async def _begin_round(self) -> None:
        """Remove what was made, so that what is there stays small, and have what is needed."""
        counted = self.results.requests, Counter(self.results.by_status)
        self.results.resident_mebibytes = max(self.results.resident_mebibytes, resident_mebibytes())
        for kind in list(self.server.registry):
            if kind.plural in ("customresourcedefinitions", "clusterroles") or not kind.objects:
                continue
            for entry in list(kind.objects.entries()):
                if not (kind.plural == "namespaces" and entry.name in (*NAMESPACES, "kube-system", "kube-public")):
                    kind.objects.remove(entry, entry.decode())
        for kind in list(self.server.registry):
            if kind.group == "fuzz.example.com":
                await self._send("DELETE", f"{DEFINITIONS}/{kind.plural}.{kind.group}", user=ADMIN)
        grant: Json = {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        }
        grant |= {"metadata": {"name": "bound"}, "subjects": [{"kind": "User", "name": BOUND.name}]}
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        await self._send("POST", path, json.dumps(grant).encode(), user=ADMIN)
        for name in NAMESPACES:
            space = {"metadata": {"name": name}}
            await self._send("POST", "/api/v1/namespaces", json.dumps(space).encode(), user=ADMIN)
        self.results.requests, self.results.by_status = counted

    # what is asked

    async def _step(self) -> None:
        actions = (
            (self._create, 24), (self._seed, 6), (self._update, 12), (self._json_patch, 10), (self._merge_patch, 10),
            (self._apply, 12), (self._read, 8), (self._list, 10), (self._delete, 5), (self._subresource, 10),
            (self._definition, 4), (self._policy, 3), (self._review, 2), (self._noise, 3),
        )  # fmt: skip
        (action,) = self.rng.choices([each for each, _ in actions], [weight for _, weight in actions])
        before = self.results.requests
        await action()
        self.results.by_action[action.__name__.strip("_")] += self.results.requests - before

    def _kind(self) -> tuple[Kind, Version]:
        kinds = [kind for kind in self.server.registry if kind.verbs != ("create",)]
        kind = self.rng.choice(kinds)
        self.results.kinds.add(kind.resource)
        return kind, self.rng.choice(list(kind.versions.values()))

    def _collection(self, kind: Kind, version: Version, namespace: str | None = None) -> str:
        base = f"/apis/{kind.group}/{version.name}" if kind.group else f"/api/{version.name}"
        if kind.namespaced:
            base += f"/namespaces/{self.rng.choice(NAMESPACES) if namespace is None else namespace}"
        return f"{base}/{kind.plural}"

    def _object(self, kind: Kind, version: Version) -> Json:
        name = self.rng.choice(NAMES)
        made = self._schemas.object(self.rng, kind.group, version.name, kind.kind, name)
        return mutated(self.rng, made) if self.rng.random() < 0.4 else made

    def _there(self) -> tuple[Kind, Version, str, Json] | None:
        """Something that is stored: its kind, its path and its state."""
        for _ in range(8):
            kind, version = self._kind()
            entries = list(kind.objects.entries())
            if entries:
                entry = self.rng.choice(entries)
                self.results.stored.add(kind.resource)
                path = f"{self._collection(kind, version, entry.namespace)}/{entry.name}"
                doc = entry.decode()
                if version.from_storage is not None:
                    doc = version.from_storage(doc)
                return kind, version, path, doc
        return None

    def _options(self, kind: Kind) -> dict[str, str]:
        query = {name: self.rng.choice(QUERIES[name]) for name in self.rng.sample(list(QUERIES), self.rng.randrange(2))}
        if self.rng.random() < 0.3:
            query |= {"fieldValidation": self.rng.choice(("Strict", "Warn", "Ignore")), "fieldManager": "f"}
        if kind.plural in _ONLY_DRY:
            query["dryRun"] = "All"
        return query

    async def _create(self) -> None:
        kind, version = self._kind()
        await self._write("POST", self._collection(kind, version), self._object(kind, version), self._options(kind))

    async def _seed(self) -> None:
        """An object that is known to be accepted, more or less."""
        path = self.rng.choice(list(OBJECTS))
        whole = {**copy.deepcopy(OBJECTS[path])}
        whole["metadata"] = {**whole.get("metadata", {}), "name": self.rng.choice(NAMES)}
        if path == DEFINITIONS:
            whole["metadata"]["name"] = "fuzzes.fuzz.example.com"
        await self._write("POST", path, mutated(self.rng, whole) if self.rng.random() < 0.5 else whole, {})

    async def _update(self) -> None:
        if found := self._there():
            kind, version, path, doc = found
            other = self._schemas.object(self.rng, kind.group, version.name, kind.kind, doc["metadata"]["name"])
            if self.rng.random() < 0.7:
                doc["metadata"].pop("resourceVersion", None)
            new = mutated(self.rng, doc, other) if self.rng.random() < 0.8 else {**other, "metadata": doc["metadata"]}
            await self._write("PUT", path, new, self._options(kind))

    async def _json_patch(self) -> None:
        if found := self._there():
            kind, _, path, doc = found
            await self._write("PATCH", path, json_patch(self.rng, doc), self._options(kind), PATCHES[0])

    async def _merge_patch(self) -> None:
        if found := self._there():
            kind, _, path, doc = found
            strategic = self.rng.random() < 0.6
            body = mutated(self.rng, merge(self.rng, doc, strategic=strategic))
            await self._write("PATCH", path, body, self._options(kind), PATCHES[2 if strategic else 1])

    async def _apply(self) -> None:
        found = self._there() if self.rng.random() < 0.7 else None
        if found is None:
            kind, version = self._kind()
            doc = self._object(kind, version)
            path = f"{self._collection(kind, version)}/{self.rng.choice(NAMES)}"
        else:
            kind, version, path, doc = found
            if self.rng.random() < 0.9:
                doc["metadata"] = {"name": doc["metadata"]["name"]}
            doc = mutated(self.rng, doc)
        query = {"fieldManager": self.rng.choice(("f", "g", "h")), "force": self.rng.choice(("true", "false"))}
        await self._write("PATCH", path, doc, self._options(kind) | query, PATCHES[3])

    async def _read(self) -> None:
        if found := self._there():
            await self._send("GET", found[2], query=self._options(found[0]), accept=self.rng.choice(ACCEPTS))

    async def _list(self) -> None:
        """Lists, in pages and from the past, watches, and deletions of what is selected."""
        kind, version = self._kind()
        path = self._collection(kind, version)
        if kind.namespaced and self.rng.random() < 0.3:
            path = path.replace("/namespaces/default/", "/").replace("/namespaces/team-a/", "/")
        query = self._options(kind) | selector(self.rng)
        current = self.server.store.version
        if self.rng.random() < 0.3:
            query["resourceVersion"] = str(max(0, current - self.rng.choice((0, 1, 20, 5000, -5))))
        match self.rng.randrange(8):
            case 0 | 1:
                query["limit"] = str(self.rng.randrange(4))
            case 2 if self._tokens:
                query |= {"continue": self.rng.choice(self._tokens), "limit": "2"}
                query.pop("resourceVersion", None)
            case 3 | 4:
                query["watch"] = "true"
                query |= self.rng.choice(({}, {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}))
                query |= {"allowWatchBookmarks": "true"} if self.rng.random() < 0.5 else {}
            case 5 if kind.plural not in ("clusterroles", "customresourcedefinitions"):
                await self._send("DELETE", path, query=query)
                return
        await self._send("GET", path, query=query, accept=self.rng.choice(ACCEPTS))

    async def _delete(self) -> None:
        found = self._there()
        if found is not None and not found[2].endswith(("/default", "/clusterroles/cluster-admin")):
            body = mutated(self.rng, _DELETION) if self.rng.random() < 0.5 else {"gracePeriodSeconds": 0}
            await self._write("DELETE", found[2], body, self._options(found[0]))

    async def _subresource(self) -> None:
        for _ in range(8):
            found = self._there()
            if found is None or not found[1].subresources:
                continue
            kind, _version, path, doc = found
            part = self.rng.choice(sorted(found[1].subresources))
            if part == "status" and "status" not in doc:
                doc["status"] = self._schemas.object(self.rng, kind.group, _version.name, kind.kind, "a").get(
                    "status", {}
                )
            body: Any = copy.deepcopy(_BODIES.get(part, doc))
            method = self.rng.choice(("GET", "PUT", "PUT", "PATCH", "PATCH", "POST"))
            if part in ("eviction", "binding", "token"):
                method = "POST"
            body = mutated(self.rng, body) if self.rng.random() < 0.7 else body
            content_type = "application/json"
            if method == "PATCH":
                content_type = self.rng.choice(PATCHES)
                if content_type == PATCHES[0]:
                    body = json_patch(self.rng, body)
            query = self._options(kind) | ({"fieldManager": "s"} if content_type == PATCHES[3] else {})
            await self._write(method, f"{path}/{part}", body, query, content_type)
            return

    async def _definition(self) -> None:
        """A custom kind with random schemas and rules, and objects of it, whole and changed."""
        plural = self.rng.choice(("things", "stuffs"))
        body = copy.deepcopy(OBJECTS[DEFINITIONS])
        names = {"plural": plural, "kind": plural.capitalize()[:-1], "singular": plural[:-1]}
        body["metadata"] = {"name": f"{plural}.fuzz.example.com"}
        body["spec"]["names"] = names
        version = body["spec"]["versions"][0]
        properties = {"spec": schema(self.rng), "status": schema(self.rng, 1)}
        version["schema"]["openAPIV3Schema"] = {"type": "object", "properties": properties}
        if self.rng.random() < 0.5:
            del version["selectableFields"]
        if self.rng.random() < 0.3:
            body = mutated(self.rng, body)
        await self._write("POST", DEFINITIONS, body, {})
        path = f"/apis/fuzz.example.com/v1/namespaces/default/{plural}"
        maker = Schemas()
        for _ in range(3):
            spec = maker.value(self.rng, properties["spec"], "spec", 1)
            made: Json = {"metadata": {"name": self.rng.choice(NAMES)}, "spec": spec}
            await self._write("POST", path, mutated(self.rng, made) if self.rng.random() < 0.5 else made, {})

    async def _policy(self) -> None:
        """A policy with random expressions that counts for a while."""
        path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
        body = copy.deepcopy(OBJECTS[path])
        rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps", "things"]}]
        body["spec"]["matchConstraints"]["resourceRules"] = rules
        body["spec"]["failurePolicy"] = self.rng.choice(("Ignore", "Fail"))
        body["spec"]["validations"] = [
            {"expression": expression(self.rng), "messageExpression": expression(self.rng, 1)}
        ]
        body["spec"]["variables"] = [{"name": "v", "expression": expression(self.rng, 2)}]
        body["spec"]["matchConditions"] = [{"name": "m", "expression": expression(self.rng, 2)}]
        body["spec"]["auditAnnotations"] = [{"key": "k", "valueExpression": expression(self.rng, 1)}]
        body["metadata"] = {"name": self.rng.choice(NAMES)}
        await self._write("POST", path, mutated(self.rng, body) if self.rng.random() < 0.3 else body, {})
        bound = {"policyName": body["metadata"]["name"], "validationActions": ["Deny"]}
        name = {"name": self.rng.choice(NAMES)}
        await self._write("POST", path.replace("policies", "policybindings"), {"metadata": name, "spec": bound}, {})
        for _ in range(2):
            made = {"metadata": {"name": self.rng.choice(NAMES)}, "data": {"a": "b"}}
            await self._write("POST", "/api/v1/namespaces/default/configmaps", made, {})

    async def _review(self) -> None:
        reviews = [kind for kind in self.server.registry if kind.verbs == ("create",)]
        kind = self.rng.choice(reviews)
        self.results.kinds.add(kind.resource)
        version = next(iter(kind.versions.values()))
        await self._write("POST", self._collection(kind, version), self._object(kind, version), {})

    async def _noise(self) -> None:
        """A request that is changed as a whole: method, path, body."""
        found = self._there()
        path = found[2] if found else "/api/v1/pods"
        parts = path.split("/")
        parts[self.rng.randrange(1, len(parts))] = self.rng.choice(
            (*NAMES, "", "watch", "status", "..", "Ω", "%2F", "x" * 300)
        )
        method = self.rng.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
        body = bytearray(json.dumps(found[3] if found else {}).encode())
        for _ in range(self.rng.randrange(4)):
            body[self.rng.randrange(len(body))] = self.rng.randrange(256)
        content_type = self.rng.choice((*PATCHES, "application/yaml", "application/vnd.kubernetes.protobuf", "x"))
        if "protobuf" in content_type:
            body[:0] = b"k8s\0"
        if method != "DELETE" or path not in [f"/api/v1/namespaces/{name}" for name in NAMESPACES]:
            await self._send(method, "/".join(parts), bytes(body), content_type, selector(self.rng))

    # how it is asked

    async def _write(
        self, method: str, path: str, body: Any, query: dict[str, str], content_type: str = "application/json"
    ) -> None:
        encoded = json.dumps(body).encode()
        if content_type.endswith(("/json", "+yaml")) and self.rng.random() < 0.05:
            try:
                encoded = yaml.safe_dump(body).encode()
            except yaml.YAMLError:
                return
            content_type = content_type if content_type.endswith("+yaml") else "application/yaml"
        await self._send(method, path, encoded, content_type, query, self.rng.choice(ACCEPTS[:3]))

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "application/json",
        query: dict[str, str] | None = None,
        accept: str = "",
        user: User | None = None,
    ) -> None:
        headers = {"content-type": content_type, "user-agent": "fuzz/1", "accept": accept}
        request = Request(method, path, tuple((query or {}).items()), headers, body)
        self.last = f"{method} {path!r} {query} {content_type} {accept} {body[:3000]!r}"
        self.results.requests += 1
        began = process_time()
        try:
            async with asyncio.timeout(SECONDS):
                answer = await self.server.handle(request, user or (BOUND if self.rng.random() < 0.3 else ADMIN))
        except TimeoutError:
            self.results.fail(f"hang {method} {path}", f"no answer within {SECONDS} s", self.last)
            return
        took = process_time() - began
        if took > self.results.worst_seconds:
            self.results.worst_seconds, self.results.worst_request = took, self.last
        if took > SECONDS:
            self.results.fail(f"slow {method} {path}", f"the answer took {took:.1f} s of CPU", self.last)
        self.results.by_status[answer.status] += 1
        if isinstance(answer, Watcher):
            self._keep(answer)
        elif answer.status in MISTAKES and AS_IN_KUBERNETES not in answer.body:
            self.results.fail(
                f"{answer.status} {answer.body[:80]!r}", f"{answer.status} {answer.body[:500]!r}", self.last
            )
        elif b'"continue":"' in answer.body[:400]:
            self._tokens = [answer.body.partition(b'"continue":"')[2].partition(b'"')[0].decode(), *self._tokens[:5]]
        await asyncio.sleep(0)  # what runs behind requests has its turn

    def _keep(self, watcher: Watcher) -> None:
        """Read what the watch says while others write; the oldest watch goes."""

        async def read() -> None:
            async for _ in watcher:
                pass

        self._watches.append((watcher, asyncio.create_task(read())))
        self._leave(len(self._watches) - _WATCHES)

    def _leave(self, count: int) -> None:
        for _ in range(count):
            watcher, reading = self._watches.pop(0)
            if reading.done() and not reading.cancelled() and (error := reading.exception()) is not None:
                self.results.fail(f"watch {error!r}", f"a watch failed: {error!r}", self.last)
            watcher.close()
            reading.cancel()
