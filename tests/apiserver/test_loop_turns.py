"""Nobody waits for a large request: the loop gets its turn while it is worked on, and the outcome is the same."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from bosket.api.cel import CelError, Expression
from bosket.api.cel_cost import MAX_SOURCE
from bosket.api.crd import crd_manifest
from bosket.api.kai import POD_GROUP
from bosket.apiserver import ApiServer
from bosket.apiserver.request.executor import LARGE_BYTES, LargeObjectExecutor
from bosket.runtime.clock import SystemClock
from tests.apiserver.world import APPLY, CONFIG_MAPS, DEFINITIONS, JSON_PATCH, MERGE, PODS, World, definition, pod

GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Threaded(World):
    """A server that works on large objects in a thread, as it does in production."""

    def __init__(self) -> None:
        self.clock = SystemClock()  # type: ignore[assignment]
        self.server = ApiServer(clock=self.clock)
        self.transport = self.server.transport()
        self.turns = 0
        #: pieces of work that were given to the threads
        self.pieces = 0
        for executor in (self.server._executor, self.server._read_executor):
            assert executor._thread is not None
            executor._thread.submit = partial(self._counted, executor._thread.submit)  # type: ignore[method-assign]

    def _counted(self, submit: Any, *work: Any, **options: Any) -> Any:
        self.pieces += 1
        return submit(*work, **options)

    async def counting(self, method: str, path: str, *body: Any, **query: Any) -> Any:
        """The answer to a request; how many turns the loop had meanwhile is in `turns`."""
        self.turns = self.pieces = 0

        async def count() -> None:
            while True:
                await asyncio.sleep(0)
                self.turns += 1

        task = asyncio.create_task(count())
        try:
            return await self.ok(method, path, *body, **query)
        finally:
            task.cancel()


def group(count: int, minimum: int = 1) -> dict[str, Any]:
    sub_groups = [{"name": f"sub-group-{index}", "minMember": minimum} for index in range(count)]
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"queue": "q", "minMember": 1, "subGroups": sub_groups},
    }


COUNT = 1_500
REQUESTS: dict[str, tuple[str, str, Any, str, dict[str, str]]] = {
    "create": ("POST", GROUPS, group(COUNT), "application/json", {"fieldManager": "m"}),
    "merge patch": ("PATCH", f"{GROUPS}/g", {"spec": group(COUNT, 2)["spec"]}, MERGE, {}),
    "JSON patch": (
        "PATCH",
        f"{GROUPS}/g",
        [{"op": "replace", "path": f"/spec/subGroups/{each}/minMember", "value": 3} for each in range(COUNT)],
        JSON_PATCH,
        {},
    ),
    "apply": ("PATCH", f"{GROUPS}/g", group(COUNT, 4), APPLY, {"fieldManager": "a", "force": "true"}),
}


def comparable(doc: dict[str, Any]) -> dict[str, Any]:
    """An object without what differs from server to server."""
    for key in ("uid", "creationTimestamp", "resourceVersion"):
        del doc["metadata"][key]
    for entry in doc["metadata"].get("managedFields", ()):
        del entry["time"]
    return doc


async def test_the_loop_goes_on_while_large_objects_are_written_and_the_outcome_is_the_same() -> None:
    threaded, plain = Threaded(), World()
    for world in (threaded, plain):
        await world.ok("POST", DEFINITIONS, crd_manifest(POD_GROUP))
    for name, (method, path, body, content_type, query) in REQUESTS.items():
        assert len(json.dumps(body)) > LARGE_BYTES
        answer = await threaded.counting(method, path, body, content_type, **query)
        assert (threaded.pieces >= 3, threaded.turns >= threaded.pieces) == (True, True), name
        assert comparable(answer) == comparable(await plain.ok(method, path, body, content_type, **query)), name
    threaded.server.close()


async def test_a_change_that_came_first_is_not_lost_while_a_large_one_is_worked_on() -> None:
    world = Threaded()
    await world.ok("POST", DEFINITIONS, crd_manifest(POD_GROUP))
    await world.ok("POST", GROUPS, group(COUNT))
    large = asyncio.create_task(world.ok("PATCH", f"{GROUPS}/g", {"spec": group(COUNT, 2)["spec"]}, MERGE))
    await asyncio.sleep(0)  # it is being worked on
    await world.ok("PATCH", f"{GROUPS}/g/status", {"status": {"phase": "Running"}}, MERGE)
    await large
    found = await world.ok("GET", f"{GROUPS}/g")
    assert (found["status"]["phase"], found["spec"]["subGroups"][-1]["minMember"]) == ("Running", 2)
    world.server.close()


async def test_the_loop_goes_on_while_many_objects_are_listed_and_deleted() -> None:
    world = Threaded()
    resource_store = world.server.store.resource("", "pods")
    await world.ok("GET", PODS)
    for index in range(3_000):
        about = {"namespace": "default", "uid": f"u{index}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        resource_store.insert(pod(f"p{index:04d}", metadata=about, labels={"odd": str(index % 2)}))
    table = await world.counting("GET", PODS, accept=TABLE)
    assert (len(table["rows"]), world.pieces, world.turns >= 1) == (3_000, 1, True)
    listed = await world.counting("GET", PODS, labelSelector="odd=1," + ",".join(f"!x{each}" for each in range(200)))
    assert (len(listed["items"]), world.pieces, world.turns >= 1) == (1_500, 1, True)
    deleted = await world.counting("DELETE", PODS, labelSelector="odd=1")
    assert (len(deleted["items"]), len(resource_store), world.turns >= 1_500 // 20) == (1_500, 1_500, True)
    world.server.close()


METADATA = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"


@pytest.mark.parametrize("accept", ["", TABLE, METADATA.format("List")], ids=["as stored", "table", "metadata"])
async def test_a_list_of_few_huge_objects_is_made_in_the_thread_and_one_of_small_objects_is_not(accept: str) -> None:
    world = Threaded()
    await world.ok("POST", CONFIG_MAPS, {"metadata": {"name": "small"}, "data": {"k": "v"}})
    await world.counting("GET", CONFIG_MAPS, accept=accept)
    assert world.pieces == 0
    for name in ("a", "b", "c"):
        await world.ok("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": {"k": "v" * 1_000_000}})
    before = (await world.ok("GET", CONFIG_MAPS, limit=1))["metadata"]["resourceVersion"]
    found = await world.counting("GET", CONFIG_MAPS, accept=accept)
    assert (len(found.get("rows") or found["items"]), world.pieces) == (4, 1)
    for name in ("a", "b", "c"):
        await world.ok("DELETE", f"{CONFIG_MAPS}/{name}")
    past = {"resourceVersion": before, "resourceVersionMatch": "Exact"}
    found = await world.counting("GET", CONFIG_MAPS, accept=accept, **past)
    assert (len(found.get("rows") or found["items"]), world.pieces) == (4, 1)
    world.server.close()


async def test_one_huge_object_is_rendered_in_the_thread_and_handed_out_as_stored_without() -> None:
    world = Threaded()
    await world.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v" * 1_000_000}})
    for accept, pieces in ((TABLE, 1), (METADATA.format(""), 1), ("", 0)):
        await world.counting("GET", f"{CONFIG_MAPS}/a", accept=accept)
        assert world.pieces == pieces, accept
    world.server.close()


async def test_small_objects_are_done_between_two_turns() -> None:
    world = Threaded()
    await world.counting("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert world.pieces == 0
    world.server.close()


async def test_what_goes_wrong_in_the_thread_is_told_to_who_asked() -> None:
    executor = LargeObjectExecutor(threads=True)
    with pytest.raises(ZeroDivisionError):
        await executor.run(LARGE_BYTES, lambda: 1 // 0)
    executor.close()


async def test_an_enumeration_that_is_broken_everywhere_is_told_of_in_bounds(world: World) -> None:
    """Each message names all choices: a thousand of them would be a thousand times as long as the definition."""
    choices = {"type": "string", "enum": [f"choice-{each}" for each in range(2_000)]}
    listed = {"type": "object", "properties": {"l": {"type": "array", "items": choices}}}
    await world.ok("POST", DEFINITIONS, definition(listed))
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"l": ["x"] * 1_000}}
    refused = await world.refused(422, "POST", "/apis/example.com/v1/namespaces/default/widgets", body)
    assert "too many errors" in refused["message"]
    assert len(refused["message"]) < 2_000_000


LONG = list(range(3_000))


@pytest.mark.parametrize(
    "rule",
    [
        "self.l.map(x, x + 1).size() > 0",
        "self.l.filter(x, x > 0).size() > 0",
        "self.l.all(x, self.l.size() > 0)",
        "self.l.all(x, x in self.l)",
        "self.l.all(x, self.l == self.l)",
        "self.l.all(x, self.l.exists(y, x == y))",
    ],
)
def test_a_rule_that_copies_a_long_list_in_each_round_is_refused_before_it_is_evaluated(rule: str) -> None:
    with pytest.raises(CelError, match="cost limit exceeded"):
        Expression(rule).evaluate({"self": {"l": LONG}})
    assert Expression(rule).evaluate({"self": {"l": LONG[:100]}}) is True


def test_a_rule_that_looks_at_each_element_once_is_not_refused() -> None:
    assert Expression("self.l.all(x, x <= self.most)").evaluate({"self": {"l": LONG * 20, "most": 3_000}}) is True


@pytest.mark.parametrize("step", [".a", "+1", "[0]", ".a()"])
def test_an_expression_as_long_as_it_may_be_is_survived_and_a_longer_one_refused(step: str) -> None:
    """The parser of the package goes as deep as an expression is long; twice as long, and the process would end."""
    longest = "self" + step * ((MAX_SOURCE - 4) // len(step))
    with pytest.raises(CelError):
        Expression(longest).evaluate({"self": {}, "x": []})
    with pytest.raises(CelError, match=f"may have {MAX_SOURCE}"):
        Expression(longest + step * 5_000)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "a?" * 30 + "a" * 30, "(?=a)a", "(a)\\\\1"])
@pytest.mark.parametrize("function", ["find", "findAll"])
def test_patterns_that_backtrack_for_ever_are_refused(function: str, pattern: str) -> None:
    with pytest.raises(CelError, match=r"cost limit exceeded|not supported"):
        Expression(f"self.{function}('{pattern}') == self").evaluate({"self": "a" * 40 + "!"})


def test_patterns_that_people_write_are_found() -> None:
    assert Expression("self.find('[0-9]+') == '12'").evaluate({"self": "ab12cd"}) is True
    assert Expression("self.findAll('[a-z]+', 1) == ['ab']").evaluate({"self": "ab12cd"}) is True


async def test_wrong_elements_far_behind_in_long_lists_are_named_where_they_stand(world: World) -> None:
    numbers = {"type": "array", "items": {"type": "integer", "maximum": 5}, "maxItems": 3_000}
    nested = {"type": "object", "additionalProperties": {"type": "object", "properties": {"l": numbers}}}
    await world.ok("POST", DEFINITIONS, definition({"type": "object", "properties": {"m": nested}}))

    async def wrong(spec: dict[str, Any]) -> set[str]:
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}
        refused = await world.refused(422, "POST", "/apis/example.com/v1/namespaces/default/widgets", body)
        return {cause["field"] for cause in refused["details"]["causes"]}

    long = [0] * 1_000 + [6] + [0] * 1_000 + [7]
    assert await wrong({"m": {"a": {"l": long}}}) == {"spec.m.a.l[1000]", "spec.m.a.l[2001]"}
    many: dict[str, Any] = {f"k{each}": {"l": [0]} for each in range(500)}
    assert await wrong({"m": {**many, "z": {"l": long}}}) == {"spec.m.z.l[1000]", "spec.m.z.l[2001]"}
    assert await wrong({"m": {"a": {"l": [0] * 3_001}}}) == {"spec.m.a.l"}


REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
#: Requests whose bodies only say what is to be done.
ORDERS = {
    "review": ("POST", REVIEW),
    "delete": ("DELETE", f"{PODS}/a"),
    "delete many": ("DELETE", PODS),
    "evict": ("POST", f"{PODS}/a/eviction"),
    "bind": ("POST", f"{PODS}/a/binding"),
    "bind, the older way": ("POST", "/api/v1/namespaces/default/bindings"),
    "token": ("POST", f"{ACCOUNTS}/default/token"),
    "scale": ("PUT", f"{DEPLOYMENTS}/d/scale"),
    "scale by a patch": ("PATCH", f"{DEPLOYMENTS}/d/scale"),
}


async def with_something_to_order(world: World) -> None:
    await world.create_pod("a")
    if not await world.exists(f"{ACCOUNTS}/default"):
        await world.ok("POST", ACCOUNTS, {"metadata": {"name": "default"}})
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await world.ok("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})


@pytest.mark.parametrize("order", ORDERS)
async def test_a_body_that_says_what_to_do_is_small_and_is_read_in_the_thread(order: str) -> None:
    method, path = ORDERS[order]
    content_type, large = "application/yaml", b"- \n" * 5_000
    if method == "PATCH":
        content_type, large = MERGE, b"[%s0]" % (b"0," * 20_000)
    world = Threaded()
    await with_something_to_order(world)
    world.pieces = 0
    too_large = await world.call(method, path, large * 6, content_type)
    assert (too_large.status, world.pieces) == (413, 0)
    assert too_large.body["reason"] == "RequestEntityTooLarge"
    assert (await world.call(method, path, large, content_type)).status in (400, 422)
    assert world.pieces >= 1
    world.server.close()
