"""A table that was handed out stays as it was, and shows the same as a dictionary that is copied each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from bosket.scheduler.model import shared
from bosket.scheduler.model.shared import Shared

KEYS = st.integers(0, 40)
CHANGES = st.lists(st.tuples(st.sampled_from(("put", "drop", "freeze")), KEYS, st.integers(0, 3)), max_size=120)


def same(table: Mapping[int, int] | shared.Layers[int, int], wanted: Mapping[int, int], probe: range) -> None:
    assert dict(table) == dict(table.items()) == wanted
    assert sorted(table.values()) == sorted(wanted.values())
    assert list(table) == [key for key, _ in table.items()]
    assert len(table) == len(wanted)
    for key in probe:
        assert (key in table) == (key in wanted)
        assert table.get(key, None) == wanted.get(key)
        assert table.get(key, "none") == wanted.get(key, "none")


@given(CHANGES, st.integers(0, 8), st.integers(0, 12), st.integers(0, 30))
def test_tables_handed_out_stay(
    changes: Sequence[tuple[str, int, int]], small: int, most_changes: int, filled: int
) -> None:
    """Whatever is copied as a whole, kept beside the table, or merged."""
    before = shared.SMALL, shared.MOST_CHANGES
    shared.SMALL, shared.MOST_CHANGES = small, most_changes  # type: ignore[misc]
    try:
        table: Shared[int, int] = Shared()
        plain: dict[int, int] = {}
        given_out = []
        for key in range(filled):
            table.put(key, 0)
            plain[key] = 0
        for what, key, value in changes:
            if what == "put":
                table.put(key, value)
                plain[key] = value
            elif what == "drop":
                table.drop(key)
                plain.pop(key, None)
            else:
                given_out.append((table.freeze(), dict(plain)))
                assert table.freeze() is given_out[-1][0]
            assert len(table) == len(plain)
            assert bool(table) == bool(plain)
            assert (key in table) == (key in plain)
            assert table.get(key, None) == plain.get(key)
            assert sorted(table.values()) == sorted(plain.values())
        for frozen, wanted in given_out:
            same(frozen, wanted, range(45))
    finally:
        shared.SMALL, shared.MOST_CHANGES = before  # type: ignore[misc]


def test_a_change_of_a_large_table_copies_no_more_than_what_changed() -> None:
    table: Shared[int, int] = Shared()
    for key in range(10 * shared.SMALL):
        table.put(key, key)
    first = table.freeze()
    table.put(1, 0)
    second = table.freeze()
    table.drop(2)
    third = table.freeze()
    assert (first[1], second[1], third[1]) == (1, 0, 0)
    assert (2 in first, 2 in second, 2 in third) == (True, True, False)
    assert isinstance(second, shared.Layers)
    assert isinstance(third, shared.Layers)
    assert second._base is third._base is first
