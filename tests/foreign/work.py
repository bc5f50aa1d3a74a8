"""Work for the foreign controllers: round after round of objects that are made, changed, finished and deleted.

Each step waits until what must come of it has come. What doesn't in time is stuck, and ends the work with `Stuck`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.apps import ReplicaSet
from bosket.api.batch import Job
from bosket.api.core import ConfigMap, Namespace, Pod
from bosket.kube.client import Client
from bosket.kube.errors import NotFound
from tests.foreign.candidate import LEADER
from tests.foreign.greeter import GROUP, PLURAL, VERSION

Doc = dict[str, Any]
T = TypeVar("T")

#: On a machine that has other things to do, too.
_PATIENCE_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 0.2
_PREFIX: Final = "work-"


class Stuck(Exception):
    """Something that must come has not come in time."""


@dataclass
class Done:
    """What was done so far."""

    counts: Counter[str] = field(default_factory=Counter)
    #: The longest that each step took, in seconds.
    longest: dict[str, float] = field(default_factory=dict)


async def define(client: Client) -> None:
    """The kind that the operator on kopf serves. The garbage collector looks for new kinds every 30 s only."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await client.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{PLURAL}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"plural": PLURAL, "singular": "greeting", "kind": "Greeting"},
                "versions": [
                    {
                        "name": VERSION,
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": schema},
                        "subresources": {"status": {}},
                    }
                ],
            },
        }
    )

    async def established() -> bool:
        found = await client.get(CustomResourceDefinition, f"{PLURAL}.{GROUP}")
        return any(each.type == "Established" and each.status == "True" for each in found.status.conditions or ())

    await _until("a definition is established", established, Done())


async def work(client: Client, seconds: float, done: Done, worker: str = "a") -> None:
    """Rounds until the time is over; the last one is finished."""
    deadline = time.monotonic() + seconds
    number = 0
    while time.monotonic() < deadline:
        await _Round(client, f"{_PREFIX}{worker}-{number}", done, number).run()
        number += 1
        done.counts["rounds"] += 1


async def leftovers(client: Client) -> list[str]:
    """What of the rounds is still there."""
    found = [each.metadata.name for each in (await client.list(Namespace)).items]
    left = [f"namespace {name}" for name in found if name.startswith(_PREFIX)]
    for pod in (await client.list(Pod)).items:
        if pod.metadata.namespace.startswith(_PREFIX):
            left.append(f"pod {pod.metadata.namespace}/{pod.metadata.name}")
    return left


async def leader(client: Client) -> tuple[str, int]:
    """Who leads in the election, and how often it has said so."""
    data = (await client.get(ConfigMap, LEADER, "default")).data
    return data["name"], int(data["count"])


async def until_leads(client: Client, accept: Callable[[str], bool], done: Done) -> str:
    """The name of a leader that is accepted, and that goes on leading."""

    async def leads() -> str | None:
        before = await leader(client)
        await asyncio.sleep(1.5)
        after = await leader(client)
        return after[0] if accept(after[0]) and before[0] == after[0] and before[1] < after[1] else None

    return await _until("a leader is elected", leads, done)


async def _until(what: str, look: Callable[[], Awaitable[T | None]], done: Done) -> T:
    started = time.monotonic()
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                try:
                    if found := await look():
                        taken = time.monotonic() - started
                        done.longest[what] = max(done.longest.get(what, 0.0), taken)
                        return found
                except NotFound:
                    pass
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise Stuck(f"after {_PATIENCE_SECONDS:.0f} s it isn't so: {what}") from None


class _Round:
    """One namespace's life."""

    def __init__(self, client: Client, namespace: str, done: Done, number: int) -> None:
        self._client = client
        self._namespace = namespace
        self._done = done
        self._number = number

    async def run(self) -> None:
        client, namespace = self._client, self._namespace
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        await asyncio.gather(self._job(), self._replica_set(), self._greeting())
        await client.delete(Namespace, namespace)
        await self._until("a namespace is drained", self._is_gone(Namespace, namespace, None))
        self._done.counts["namespaces"] += 1

    async def _job(self) -> None:
        client, namespace = self._client, self._namespace
        spec = {"completions": 4, "parallelism": 2, "template": _template("job", run_duration="500ms")}
        meta = {"name": "job"}
        await client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}, namespace)

        async def complete() -> bool:
            job = await client.get(Job, "job", namespace)
            return any(each.type == "Complete" and each.status == "True" for each in job.status.conditions)

        await self._until("a job completes", complete)
        self._done.counts["jobs"] += 1
        self._done.counts["pods"] += 4
        await client.delete(Job, "job", namespace, propagation="Foreground")
        await self._until("a job goes after its pods", self._is_gone(Job, "job", namespace))
        assert not await self._pods("job"), "the job went before its pods, though it was to go after them"

    async def _replica_set(self) -> None:
        client, namespace = self._client, self._namespace
        labels = {"app": "set"}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": _template("set")}
        meta = {"name": "set"}
        await client.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}, namespace)
        for replicas in (2, 4, 1):
            await client.patch(ReplicaSet, "set", {"spec": {"replicas": replicas}}, namespace=namespace)
            await self._until("replicas run", self._runs(replicas))
        self._done.counts["pods"] += 4
        if self._number % 2:
            await client.delete(ReplicaSet, "set", namespace, propagation="Orphan")
            await self._until("a replica set goes alone", self._is_gone(ReplicaSet, "set", namespace))
            (orphan,) = await self._pods("set")
            assert not orphan.metadata.ownerReferences, "an orphan names the owner that let it go"
            assert orphan.metadata.deletionTimestamp is None, "an orphan is deleted, though it was to stay"
        else:
            await client.delete(ReplicaSet, "set", namespace, propagation="Background")
            await self._until("pods go with their replica set", self._no_pods("set"))

    async def _greeting(self) -> None:
        client, namespace = self._client, self._namespace
        kind = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Greeting", "metadata": {"name": "hi"}}
        await client.raw("POST", kind, body={**body, "spec": {"text": "hello"}})
        await self._until("the operator has greeted", self._says("hello"))
        patch = {"content-type": "application/merge-patch+json"}
        await client.raw("PATCH", f"{kind}/hi", body={"spec": {"text": "bye"}}, headers=patch)
        await self._until("the operator has heard of a change", self._says("bye"))
        await client.raw("DELETE", f"{kind}/hi")
        await self._until("a greeting goes when the operator lets it", self._is_gone(ConfigMap, "hi", namespace))
        self._done.counts["greetings"] += 1

    # ── looks ──

    async def _until(self, what: str, look: Callable[[], Awaitable[bool]]) -> None:
        try:
            await _until(what, look, self._done)
        except Stuck as error:
            pods = (await self._client.list(Pod, self._namespace)).items
            seen = ", ".join(f"{pod.metadata.name} {pod.status.phase}" for pod in pods)
            raise Stuck(f"{self._namespace}: {error}; pods: {seen or 'none'}") from None

    async def _pods(self, app: str) -> list[Pod]:
        return list((await self._client.list(Pod, self._namespace, labels=f"app={app}")).items)

    def _runs(self, replicas: int) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            found = await self._client.get(ReplicaSet, "set", self._namespace)
            pods = await self._pods("set")
            return found.status.readyReplicas == replicas == len(pods)

        return look

    def _no_pods(self, app: str) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return not await self._pods(app)

        return look

    def _says(self, text: str) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return (await self._client.get(ConfigMap, "hi", self._namespace)).data == {"text": text}

        return look

    def _is_gone(self, kind: type[Any], name: str, namespace: str | None) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            try:
                await self._client.get(kind, name, namespace)
            except NotFound:
                return True
            return False

        return look


def _template(app: str, *, run_duration: str | None = None) -> Doc:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    annotations = {"bosket.dev/run-duration": run_duration} if run_duration else {}
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "example.com/work:1", "resources": resources}],
            **({"restartPolicy": "Never"} if run_duration else {}),
        },
    }
