"""Work on an object grows with the object, not with its square: twice the elements, about twice the operations."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.api.core import Pod
from bosket.api.crd import crd_manifest
from bosket.api.kai import POD_GROUP
from bosket.apiserver.apply.fieldset import Finder, places_of
from bosket.apiserver.apply.managed import Manager, after_update, conflicts, owned_places
from bosket.apiserver.apply.merge import merged, remove
from bosket.apiserver.apply.shape import SchemaShape
from bosket.apiserver.custom.check import Checker
from bosket.apiserver.custom.rules import Rules
from bosket.apiserver.custom.schema import Node
from bosket.apiserver.kinds.podrules import validate_pod
from bosket.apiserver.objects.field_validation import repeated_keys
from bosket.apiserver.objects.strategic import strategic_merge
from bosket.kube import patch
from bosket.kube.patch import _Patching, apply_json_patch, json_patch

Doc = dict[str, Any]


def operations(work: Callable[[], object]) -> int:
    """How many functions were called, Python's and C's, and how often strings were compared, for one piece of work."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    Counted.compared = 0
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count + Counted.compared


class Counted(str):
    """A string that counts how often it is compared."""

    compared: ClassVar[int] = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


class CountedMap(dict[str, Any]):
    """A map that counts how often it is compared."""

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return dict.__eq__(self, other)

    __hash__ = None


KEYED: Doc = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "size": {"type": "integer", "maximum": 9}},
                "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size"}],
            },
        }
    },
}


def keyed(count: int, size: int = 1, *, prefix: str = "n", turned: bool = False) -> Doc:
    names = [f"{prefix}{each}" for each in range(count)]
    return {"items": [{"name": name, "size": size} for name in (reversed(names) if turned else names)]}


def owned(count: int) -> Doc:
    return {"metadata": {}, **keyed(count)}


def manager(name: str, doc: Doc) -> Manager:
    return Manager(name, "Apply", "v1", "", owned_places(doc, SHAPE))


SHAPE = SchemaShape(Node(KEYED))


def pod_of(**spec: Any) -> Doc:
    return {"metadata": {"name": "p"}, "spec": {"containers": [], **spec}}


def tolerations(count: int) -> list[Doc]:
    return [CountedMap(key=f"k{each}") for each in range(count)]


def ported(count: int) -> Doc:
    return {"metadata": {"finalizers": [Counted(f"f{each}") for each in range(count)]}}


def gates(count: int, **more: Any) -> Doc:
    return {"spec": {"schedulingGates": [{"name": Counted(f"g{each}"), **more} for each in range(count)]}}


WORK: dict[str, Callable[[int], Callable[[], object]]] = {
    "rules of keyed lists": lambda n: lambda: Rules(Node(KEYED)).check(keyed(n, 2), keyed(n)),
    "errors in keyed lists": lambda n: lambda: Checker(KEYED).check(keyed(n, 10), keyed(n)),
    "ownership after an update": lambda n: (
        lambda: after_update(
            owned(n), {"metadata": {}, **keyed(n, 2)}, SHAPE, manager("a", {}), [manager("b", owned(n))]
        )
    ),
    "conflicts": lambda n: lambda: conflicts([manager("b", owned(n))], manager("a", owned(n)), keyed(n), keyed(n, 2)),
    "merging what is applied": lambda n: lambda: merged(keyed(n), keyed(n, prefix="m"), SHAPE),
    "removing what is no longer applied": lambda n: lambda: remove(keyed(n), places_of(keyed(n), SHAPE)),
    "strategic merge of elements": lambda n: lambda: strategic_merge(gates(n), gates(n), Pod),
    "strategic merge of new elements": lambda n: lambda: strategic_merge(gates(0), gates(n), Pod),
    "strategic removal of elements": lambda n: lambda: strategic_merge(gates(n), gates(n, **{"$patch": "delete"}), Pod),
    "strategic merge of values": lambda n: lambda: strategic_merge(ported(n), ported(n), Pod),
    "strategic order": lambda n: (
        lambda: strategic_merge(
            ported(n), {"metadata": {"$setElementOrder/finalizers": ported(n)["metadata"]["finalizers"][::-1]}}, Pod
        )
    ),
    "strategic removal of values": lambda n: (
        lambda: strategic_merge(
            ported(n), {"metadata": {"$deleteFromPrimitiveList/finalizers": ported(n)["metadata"]["finalizers"]}}, Pod
        )
    ),
    "a diff of lists that are turned around": lambda n: lambda: json_patch(keyed(n), keyed(n, turned=True)),
    "a diff of lists that have nothing in common": lambda n: lambda: json_patch(keyed(n), keyed(n, prefix="m")),
    "tolerations of a pod that changes": lambda n: (
        lambda: validate_pod(pod_of(tolerations=tolerations(n)[::-1]), pod_of(tolerations=tolerations(n)))
    ),
    "keys that are there twice": lambda n: (
        lambda: repeated_keys(b"{%s}" % b",".join(b'"k%d":1' % each for each in [*range(n)] * 2))
    ),
}


@pytest.mark.parametrize("name", WORK)
def test_twice_the_elements_are_twice_the_work(name: str) -> None:
    WORK[name](10)()  # what is worked out once for all is
    small, large = (operations(WORK[name](count)) for count in (200, 400))
    assert large < 2.5 * small


def test_a_json_patch_copies_each_list_once_however_many_operations_it_has() -> None:
    patching = _Patching(keyed(100))
    for index in range(100):
        patching.apply({"op": "replace", "path": f"/items/{index}/size", "value": 2})
        patching.apply({"op": "add", "path": "/items/-", "value": {"name": f"m{index}"}})
    assert patching.document["items"][:100] == keyed(100, 2)["items"]
    assert len(patching._own) == 2 + 100  # the object, its list, and each element


def test_a_json_patch_follows_a_long_path_without_copying_parts_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = 0

    class Path(list[str]):
        def __getitem__(self, at: Any) -> Any:
            nonlocal copied
            found = super().__getitem__(at)
            copied += len(found) if isinstance(at, slice) else 0
            return found

    split = patch._split_pointer
    monkeypatch.setattr(patch, "_split_pointer", lambda operation, field: Path(split(operation, field)))
    depth = 200
    document: Any = {}
    for _ in range(depth):
        document = {"a": [document]}
    steps = [
        {"op": "test", "path": "/a/0" * (depth - 1) + "/a", "value": [{}]},
        {"op": "add", "path": "/a/0" * depth + "/b", "value": 1},
    ]
    assert patch.resolve(apply_json_patch(document, steps), "/a/0" * depth) == {"b": 1}
    assert copied <= 6 * depth, "a few times the path, not its square"


def test_a_json_patch_that_shifts_a_long_list_too_often_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bosket.kube.patch.MAX_SHIFTED", 1_000)
    insertions = [{"op": "add", "path": "/items/0", "value": 1}] * 20
    assert len(apply_json_patch({"items": [0] * 10}, insertions)["items"]) == 30
    with pytest.raises(ValueError, match="move list elements more than 1000 times"):
        apply_json_patch({"items": [0] * 100}, insertions)


lists = st.lists(st.integers(0, 30), unique=True, max_size=20)


@given(lists, lists, st.integers(0, 3))
def test_a_diff_leads_from_one_list_to_the_other(before: list[int], after: list[int], salt: int) -> None:
    old = {"l": [{"name": f"n{each}", "v": each} for each in before]}
    new = {"l": [{"name": f"n{each}", "v": each * salt} for each in after]}
    assert apply_json_patch(old, json_patch(old, new)) == new


def test_a_patch_changes_neither_the_document_nor_its_own_values() -> None:
    document, value = {"a": {"b": [1]}}, {"c": [1]}
    patch = [
        {"op": "add", "path": "/v", "value": value},
        {"op": "add", "path": "/v/c/-", "value": 2},
        {"op": "copy", "from": "/v", "path": "/w"},
        {"op": "add", "path": "/w/c/-", "value": 3},
        {"op": "move", "from": "/a/b", "path": "/b"},
        {"op": "add", "path": "/b/-", "value": 4},
    ]
    result = apply_json_patch(document, patch)
    assert result == {"a": {}, "v": {"c": [1, 2]}, "w": {"c": [1, 2, 3]}, "b": [1, 4]}
    assert (document, value) == ({"a": {"b": [1]}}, {"c": [1]})


def test_others_elements_stay_behind_the_one_they_stood_behind() -> None:
    def names(doc: Doc) -> str:
        return "".join(each["name"] for each in doc["items"])

    def of(text: str) -> Doc:
        return {"items": [{"name": each} for each in text]}

    for live, applied, result in (
        ("abcde", "db", "adebc"),
        ("abc", "x", "abcx"),
        ("xay", "ba", "xbay"),
        ("", "a", "a"),
    ):
        assert names(merged(of(live), of(applied), SHAPE)) == result, (live, applied)


def test_places_are_found_by_their_keys() -> None:
    finder, doc = Finder(), keyed(3)
    assert finder.look_up(doc, ("f:items", 'k:{"name":"n2"}', "f:size")) == 1
    assert finder.find_element(doc["items"], 'k:{"name":"n3"}') is None
    assert finder.find_element([1, "a", {"b": 1}], 'v:"a"') == 1
    assert finder.find_element([1], "k:no json") is None
    ports = [{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}]
    assert finder.find_element(ports, 'k:{"containerPort":1,"protocol":"TCP"}') == 0


@given(st.randoms(use_true_random=False))
def test_removing_places_one_by_one_or_together_is_the_same(chance: random.Random) -> None:
    doc = keyed(6)
    places = [place for place in places_of(doc, SHAPE) if place[-1] != "f:name"]
    some = set(chance.sample(sorted(places), chance.randint(0, len(places))))
    together = remove(keyed(6), some)
    one_by_one = keyed(6)
    for place in sorted(some, key=len):
        remove(one_by_one, {place})
    assert together == one_by_one


def test_a_pod_group_with_a_rule_for_each_sub_group_is_checked_once_each() -> None:
    schema = crd_manifest(POD_GROUP)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

    def spec(count: int, minimum: int) -> Doc:
        return {"subGroups": [{"name": f"s{each}", "minMember": minimum} for each in range(count)]}

    rules = Rules(Node(schema))
    rules.check(spec(2, 1), spec(2, 2))
    small, large = (operations(lambda n=n: rules.check(spec(n, 1), spec(n, 2))) for n in (100, 200))  # type: ignore[misc]
    assert large < 2.5 * small
