"""The store: reading, indexes, handlers, and own writes until they are observed."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.kube.store import HANDLER_ERRORS, Change, Store
from tests.kube.scripted import pod


def a_pod(name: str, version: int, app: str = "x", uid: str | None = None) -> Pod:
    return msgspec.convert(pod(name, version, labels={"app": app}, uid=uid or f"uid-{name}"), Pod)


def key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


def by_app(obj: Pod) -> Iterable[str]:
    return [obj.metadata.labels["app"]]


def seen(store: Store[Pod]) -> list[tuple[str | None, str | None]]:
    """A list that fills with the (old, new) versions of every change."""
    changes: list[tuple[str | None, str | None]] = []

    def note(change: Change[Pod]) -> None:
        changes.append(
            (
                change.old.metadata.resourceVersion if change.old else None,
                change.new.metadata.resourceVersion if change.new else None,
            )
        )

    store.subscribe(note)
    return changes


def filled(version: int = 10, *pods: Pod) -> Store[Pod]:
    store: Store[Pod] = Store("Pod", {"app": by_app})
    store.begin_listing()
    store.replace(pods, str(version))
    return store


def version(store: Store[Pod], name: str) -> str | None:
    found = store.get(key(name))
    return found.metadata.resourceVersion if found else None


# --- reading and changes


def test_a_list_fills_it() -> None:
    store = filled(10, a_pod("a", 5), a_pod("b", 6))
    assert len(store) == 2
    assert version(store, "a") == "5"
    assert key("b") in store
    assert {each.metadata.name for each in store} == {"a", "b"}
    assert store.get(key("c")) is None


def test_a_second_list_tells_handlers_the_difference_deletions_first() -> None:
    store = filled(10, a_pod("a", 5), a_pod("b", 6), a_pod("c", 7))
    changes = seen(store)
    changes.clear()
    store.begin_listing()
    store.replace([a_pod("b", 6), a_pod("c", 12), a_pod("d", 13)], "20")
    assert changes == [("5", None), ("7", "12"), (None, "13")]


def test_handlers_see_the_whole_new_list_whichever_change_they_are_called_for() -> None:
    store = filled(10, a_pod("a", 5))
    sizes: list[int] = []
    store.subscribe(lambda change: sizes.append(len(store)))
    store.begin_listing()
    store.replace([a_pod("b", 6), a_pod("c", 7)], "20")
    assert sizes[1:] == [2, 2, 2]


def test_objects_under_kept_keys_survive_a_list_without_them() -> None:
    store = filled(10, a_pod("a", 5), a_pod("b", 6))
    store.begin_listing()
    store.replace([a_pod("b", 6)], "20", keep=[key("a"), key("never-seen")])
    assert version(store, "a") == "5"
    assert len(store) == 2


def test_events_add_change_and_remove() -> None:
    store = filled(10)
    changes = seen(store)
    store.observe(key("a"), a_pod("a", 11), "11")
    store.observe(key("a"), a_pod("a", 12), "12")
    store.observe(key("a"), None, "13")
    store.observe(key("a"), None, "14")
    assert changes == [(None, "11"), ("11", "12"), ("12", None)]


def test_the_same_version_again_is_no_change() -> None:
    store = filled(10, a_pod("a", 5))
    first = store.get(key("a"))
    changes = seen(store)
    changes.clear()
    store.observe(key("a"), a_pod("a", 5), "5")
    assert not changes
    assert store.get(key("a")) is first


def test_a_server_that_counts_from_the_beginning_again_is_believed() -> None:
    store = filled(100, a_pod("a", 5, uid="first"), a_pod("b", 90))
    store.put(a_pod("b", 101))
    store.begin_listing()
    store.replace([a_pod("a", 5, app="other", uid="second")], "7")
    assert len(store) == 1
    assert store.by_index("app", "other")
    store.put(a_pod("a", 8, uid="second"))
    assert version(store, "a") == "8"


def test_a_late_subscriber_is_told_of_what_is_there() -> None:
    assert seen(filled(10, a_pod("a", 5))) == [(None, "5")]


def test_a_handler_that_raises_is_logged_and_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    store = filled(10)
    counter = HANDLER_ERRORS.labels("Pod")
    before = next(iter(counter.collect())).samples[0].value

    def broken(change: Change[Pod]) -> None:
        raise RuntimeError("boom")

    store.subscribe(broken)
    changes = seen(store)
    with caplog.at_level(logging.ERROR):
        store.observe(key("a"), a_pod("a", 11), "11")
        store.observe(key("a"), None, "12")
    assert changes == [(None, "11"), ("11", None)]
    assert "Pod ns/a" in caplog.text
    assert "boom" in caplog.text
    assert next(iter(counter.collect())).samples[0].value == before + 2


def test_a_transformation_is_applied_to_everything_that_is_kept() -> None:
    def slim(obj: Pod) -> Pod:
        if obj.metadata.name == "bad":
            raise RuntimeError("boom")
        return msgspec.structs.replace(obj, spec=None)

    store: Store[Pod] = Store("Pod", transform=slim)
    store.replace([a_pod("a", 5), a_pod("bad", 6)], "10")
    store.observe(key("b"), a_pod("b", 11), "11")
    store.put(a_pod("c", 12))
    assert {each.metadata.name: each.spec is None for each in store} == {"a": True, "bad": False, "b": True, "c": True}


# --- indexes


def test_an_index_follows_every_change() -> None:
    store = filled(10, a_pod("a", 5, app="x"), a_pod("b", 6, app="y"))
    store.observe(key("b"), a_pod("b", 11, app="x"), "11")
    assert {each.metadata.name for each in store.by_index("app", "x")} == {"a", "b"}
    assert store.by_index("app", "y") == []
    store.observe(key("a"), None, "12")
    assert [each.metadata.resourceVersion for each in store.by_index("app", "x")] == ["11"]


def test_an_index_added_later_covers_what_is_there() -> None:
    store = filled(10, a_pod("a", 5))
    store.add_index("version", lambda obj: [obj.metadata.resourceVersion])
    assert len(store.by_index("version", "5")) == 1


def test_an_index_may_be_asked_for_twice_but_not_mean_two_things() -> None:
    store = filled(10)
    store.add_index("app", by_app)
    with pytest.raises(ValueError, match="index 'app' of Pod exists already"):
        store.add_index("app", lambda obj: [])


def test_an_index_function_that_raises_leaves_the_object_out_of_the_index_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store: Store[Pod] = Store("Pod", {"app": by_app})
    store.observe(key("a"), msgspec.convert(pod("a", 5), Pod), "5")
    assert len(store) == 1
    assert store.by_index("app", "x") == []
    assert "an index function failed for Pod ns/a" in caplog.text


# --- own writes


def test_an_own_write_shows_at_once_and_its_event_is_no_second_change() -> None:
    store = filled(10, a_pod("a", 5))
    changes = seen(store)
    store.put(a_pod("a", 11, app="new"))
    assert version(store, "a") == "11"
    assert store.by_index("app", "new")
    store.observe(key("a"), a_pod("a", 11, app="new"), "11")
    assert changes == [(None, "5"), ("5", "11")]


def test_an_older_event_does_not_take_an_own_write_back() -> None:
    store = filled(10, a_pod("a", 5))
    store.put(a_pod("a", 12))
    store.observe(key("a"), a_pod("a", 11), "11")
    assert version(store, "a") == "12"
    store.observe(key("a"), a_pod("a", 12), "12")
    store.observe(key("a"), a_pod("a", 13), "13")
    assert version(store, "a") == "13"


def test_an_own_write_never_replaces_something_newer() -> None:
    store = filled(10, a_pod("a", 9))
    store.put(a_pod("a", 8))
    assert version(store, "a") == "9"


def test_an_own_creation_that_the_watch_has_already_seen_deleted_stays_deleted() -> None:
    store = filled(10)
    store.observe(key("a"), a_pod("a", 11), "11")
    store.observe(key("a"), None, "12")
    store.put(a_pod("a", 11))
    assert len(store) == 0


def test_an_own_write_that_leaves_the_selection_goes_when_the_watch_has_passed_it() -> None:
    """The watch never mentions the object, because it is not among those selected."""
    store = filled(10)
    changes = seen(store)
    store.put(a_pod("a", 11))
    store.reached("15")
    assert len(store) == 0
    assert changes == [(None, "11"), ("11", None)]


def test_what_was_observed_comes_to_light_again_under_several_own_writes() -> None:
    store = filled(10, a_pod("a", 5))
    store.put(a_pod("a", 11))
    store.put(a_pod("a", 12))
    store.reached("15")
    assert version(store, "a") == "5"


def test_versions_that_are_no_numbers_can_t_be_compared_so_only_the_watch_counts() -> None:
    store: Store[Pod] = Store("Pod")
    store.replace([], "abc")
    store.put(msgspec.convert(pod("a", "xyz"), Pod))
    assert len(store) == 0
    store.observe(key("a"), msgspec.convert(pod("a", "xyz"), Pod), "xyz")
    assert version(store, "a") == "xyz"


def test_a_discarded_object_is_out_of_sight_until_something_newer_is_heard_of_it() -> None:
    store = filled(10, a_pod("a", 5))
    changes = seen(store)
    store.discard(key("a"))
    store.reached("11")
    assert len(store) == 0
    assert store.by_index("app", "x") == []
    store.observe(key("a"), None, "12")
    store.observe(key("a"), a_pod("a", 13, uid="reborn"), "13")
    assert changes == [(None, "5"), ("5", None), (None, "13")]


def test_a_discarded_object_that_only_begins_to_terminate_comes_back_into_sight() -> None:
    store = filled(10, a_pod("a", 5))
    store.discard(key("a"))
    store.observe(key("a"), a_pod("a", 11), "11")
    assert version(store, "a") == "11"


def test_discarding_by_uid_spares_a_namesake() -> None:
    store = filled(10, a_pod("a", 5, uid="second"))
    store.discard(key("a"), uid="first")
    assert len(store) == 1
    store.discard(key("a"), uid="second")
    store.discard(key("b"))
    assert len(store) == 0


def test_a_list_that_was_under_way_does_not_take_own_writes_back() -> None:
    store = filled(10, a_pod("a", 5), a_pod("b", 6))
    store.begin_listing()
    store.put(a_pod("a", 22))
    store.put(a_pod("c", 23))
    store.discard(key("b"))
    store.replace([a_pod("a", 5), a_pod("b", 6)], "20")
    assert version(store, "a") == "22"
    assert version(store, "b") is None
    assert version(store, "c") == "23"
    store.observe(key("a"), a_pod("a", 22), "22")
    store.observe(key("c"), a_pod("c", 23), "23")
    store.observe(key("b"), None, "24")
    assert {each.metadata.name for each in store} == {"a", "c"}


def test_a_later_list_is_the_truth() -> None:
    store = filled(10, a_pod("a", 5), a_pod("b", 6))
    store.put(a_pod("a", 12))
    store.discard(key("b"))
    store.begin_listing()
    store.replace([a_pod("b", 6)], "30")
    assert {each.metadata.name for each in store} == {"b"}


def test_deleting_an_own_creation_before_the_watch_shows_it() -> None:
    store = filled(10)
    store.put(a_pod("a", 11))
    store.discard(key("a"))
    store.observe(key("a"), a_pod("a", 11), "11")
    assert len(store) == 0
    store.observe(key("a"), None, "12")
    assert len(store) == 0


writes = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["write", "delete"]), st.booleans(), st.integers(0, 4)),
    max_size=25,
)


@given(writes)
def test_once_the_watch_has_caught_up_the_store_is_the_server_whatever_was_laid_over(
    script: list[tuple[str, str, bool, int]],
) -> None:
    """A server's history with own and foreign writes; events arrive late, own answers at once."""
    server: dict[str, Pod] = {}
    pending: list[tuple[ObjectKey, Pod | None, str]] = []
    store = filled(0)
    mirror: dict[ObjectKey, Pod] = {}

    def follow(change: Change[Pod]) -> None:
        if change.new is not None:
            assert mirror.get(change.new.key) == change.old
            mirror[change.new.key] = change.new
        elif change.old is not None:
            assert mirror.pop(change.old.key) == change.old

    store.subscribe(follow)
    for number, (name, action, own, catch_up) in enumerate(script, start=1):
        if action == "write":
            server[name] = a_pod(name, number, uid=server[name].metadata.uid if name in server else str(number))
            pending.append((key(name), server[name], str(number)))
            if own:
                store.put(server[name])
        elif name in server:
            gone = server.pop(name)
            pending.append((key(name), None, str(number)))
            if own:
                store.discard(key(name), gone.metadata.uid)
        for _ in range(min(catch_up, len(pending))):
            store.observe(*pending.pop(0))
    for each in pending:
        store.observe(*each)
    assert {each.metadata.name: each for each in store} == server
    assert {each.key: each for each in store} == mirror
    assert {each.metadata.name for each in store.by_index("app", "x")} == set(server)


# --- a list, bit by bit


def test_readers_see_the_state_before_a_list_or_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bosket.kube.store._OBJECTS_AT_ONCE", 1)
    monkeypatch.setattr("bosket.kube.store._CHANGES_AT_ONCE", 1)
    store = filled(10, a_pod("a", 5), a_pod("b", 6))
    before, after = {("a", "5"), ("b", "6")}, {("b", "7"), ("c", "8"), ("d", "9")}
    looks = []
    for _ in store.replacing([a_pod("b", 7), a_pod("c", 8), a_pod("d", 9)], "20"):
        looks.append({(each.metadata.name, each.metadata.resourceVersion) for each in store})
    assert looks == [before] * 3 + [after] * 4


def test_what_changes_before_its_turn_is_told_as_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bosket.kube.store._CHANGES_AT_ONCE", 1)
    store = filled(10, a_pod("a", 5), a_pod("b", 6), a_pod("c", 7))
    changes = seen(store)
    changes.clear()
    step = store.replacing([a_pod("a", 15), a_pod("b", 16), a_pod("d", 17)], "20")
    next(step)
    assert changes == [("7", None)]
    store.put(a_pod("b", 21))
    store.put(a_pod("d", 22))
    store.discard(key("d"))
    store.put(a_pod("e", 23))
    assert changes == [("7", None), (None, "23")]
    assert list(step)
    assert changes == [("7", None), (None, "23"), ("5", "15"), ("6", "21")]
    store.put(a_pod("b", 24))
    assert changes[-1] == ("21", "24")


def test_a_list_that_was_left_in_the_middle_is_told_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bosket.kube.store._CHANGES_AT_ONCE", 1)
    store = filled(10, a_pod("a", 5), a_pod("b", 6))
    changes = seen(store)
    changes.clear()
    next(store.replacing([a_pod("a", 15), a_pod("b", 16)], "20"))
    assert changes == [("5", "15")]
    store.replace([a_pod("a", 15), a_pod("b", 16)], "21")
    assert changes == [("5", "15"), ("6", "16")]
