"""JSON Patch: making and applying."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.kube.patch import PatchError, PatchTestError, PatchTooLarge, apply_json_patch, equal, json_patch

keys = st.sampled_from(["name", "type", "a", "b", "", "a/b", "~", "~1", "0"])
scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.5]) | st.sampled_from(["", "x", "y"])
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)


@given(before=documents, after=documents)
def test_a_patch_turns_one_document_into_the_other(before: Any, after: Any) -> None:
    untouched = copy.deepcopy(before)
    assert equal(apply_json_patch(before, json_patch(before, after)), after)
    assert equal(before, untouched)


named = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abcdef"), "v": scalars | st.dictionaries(keys, scalars, max_size=2)}
    ),
    max_size=6,
    unique_by=lambda e: str(e["name"]),
)


@given(before=named, after=named)
def test_lists_of_named_elements_may_be_shuffled_shortened_and_lengthened(before: Any, after: Any) -> None:
    operations = json_patch(before, after)
    assert equal(apply_json_patch(before, operations), after)
    kept = {element["name"] for element in before} & {element["name"] for element in after}
    added = {each["value"]["name"] for each in operations if each["op"] == "add" and each["path"].count("/") == 1}
    assert not kept & added, "an element that stays is moved or changed, never written anew"


@given(document=documents)
def test_equal_documents_have_an_empty_patch(document: Any) -> None:
    assert json_patch(document, copy.deepcopy(document)) == []


def test_a_changed_element_of_a_list_is_changed_in_place() -> None:
    before = {"l": [{"type": "A", "s": 1}, {"type": "B", "s": 1}]}
    after = {"l": [{"type": "A", "s": 1}, {"type": "B", "s": 2}]}
    assert json_patch(before, after) == [{"op": "replace", "path": "/l/1/s", "value": 2}]


def test_an_insertion_in_the_middle_is_one_operation() -> None:
    assert json_patch([1, 2, 3, 4], [1, 2, 9, 3, 4]) == [{"op": "add", "path": "/2", "value": 9}]


def test_true_is_not_one() -> None:
    assert json_patch({"a": 1}, {"a": True}) == [{"op": "replace", "path": "/a", "value": True}]
    assert json_patch([1, 0], [True, False]) != []


def test_tuples_count_as_lists() -> None:
    assert json_patch({"a": (1, 2)}, {"a": [1, 2]}) == []


@pytest.mark.parametrize(
    ("document", "operation", "result"),
    [
        ({"a": 1}, {"op": "add", "path": "/b", "value": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"op": "add", "path": "/a", "value": None}, {"a": None}),
        ([1], {"op": "add", "path": "/-", "value": 2}, [1, 2]),
        ([1, 3], {"op": "add", "path": "/1", "value": 2}, [1, 2, 3]),
        ({"a": [1, 2]}, {"op": "remove", "path": "/a/0"}, {"a": [2]}),
        ({"a/b": 1, "m~n": 2}, {"op": "replace", "path": "/a~1b", "value": 3}, {"a/b": 3, "m~n": 2}),
        ({"~1": 1}, {"op": "remove", "path": "/~01"}, {}),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a/b", "path": "/c"}, {"a": {}, "c": 1}),
        ([1, 2, 3], {"op": "move", "from": "/0", "path": "/2"}, [2, 3, 1]),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": [1], "b": [1]}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1}, {"a": 1}),
        ({"a": 1}, {"op": "replace", "path": "", "value": [1]}, [1]),
        ({"": 1}, {"op": "replace", "path": "/", "value": 2}, {"": 2}),
    ],
)
def test_each_operation_does_what_the_standard_says(document: Any, operation: Any, result: Any) -> None:
    assert apply_json_patch(document, [operation]) == result


@pytest.mark.parametrize(
    ("document", "operation", "complaint"),
    [
        ({}, {"op": "remove", "path": "/a"}, "/a does not exist"),
        ({}, {"op": "replace", "path": "/a/b", "value": 1}, "/a does not exist"),
        ({}, {"op": "add", "path": "/a/b", "value": 1}, "/a does not exist"),
        ({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}, "/a is neither map nor list"),
        ([1], {"op": "add", "path": "/2", "value": 1}, "index 2 is beyond"),
        ([1], {"op": "remove", "path": "/1"}, "index 1 is beyond"),
        ([1], {"op": "remove", "path": "/-"}, "'-' is not an index"),
        ([1], {"op": "remove", "path": "/01"}, "'01' is not an index"),
        ([1], {"op": "remove", "path": "/-2"}, "'-2' is not an index"),
        ([1], {"op": "remove", "path": "/x"}, "'x' is not an index"),
        ({}, {"op": "add", "path": "a", "value": 1}, "must begin with /"),
        ({}, {"op": "add", "path": "/a"}, "has no value"),
        ({}, {"op": "add"}, "has no path"),
        ({}, {"op": "explode", "path": "/a"}, "unknown op 'explode'"),
        ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}, "into its own child"),
        ({"a": 1}, {"op": "move", "path": "/b"}, "has no from"),
        ({"a": 1}, {"op": "remove", "path": ""}, "the whole document"),
        ({}, "remove", "an operation is an object"),
    ],
)
def test_what_can_t_be_done_is_said(document: Any, operation: Any, complaint: str) -> None:
    with pytest.raises(PatchError, match="operation 0: .*" + complaint.replace("(", r"\(")):
        apply_json_patch(document, [operation])


def test_a_failed_test_says_what_was_found() -> None:
    with pytest.raises(PatchTestError, match="operation 1: test of /a failed: it is 1, not 2"):
        apply_json_patch({"a": 1}, [{"op": "add", "path": "/b", "value": 1}, {"op": "test", "path": "/a", "value": 2}])


def test_a_patch_is_a_list() -> None:
    with pytest.raises(PatchError, match="a list of operations, not dict"):
        apply_json_patch({}, {"op": "add"})


@pytest.mark.parametrize(
    ("document", "operation", "result"),
    [
        ({}, {"op": "replace", "path": "/a", "value": 1}, {"a": 1}),
        ([1, 2], {"op": "remove", "path": "/-1"}, [1]),
        ({"a": 1}, {"op": "test", "path": "/b", "value": None}, {"a": 1}),
    ],
)
def test_what_api_servers_allow_beyond_the_standard_is_allowed(document: Any, operation: Any, result: Any) -> None:
    assert apply_json_patch(document, [operation]) == result


def test_copies_of_copies_end_before_they_fill_the_memory() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/{step}"} for step in range(40)]
    with pytest.raises(PatchTooLarge, match="copies of more than"):
        apply_json_patch({"a": {"text": "x" * 100}}, doubling)
