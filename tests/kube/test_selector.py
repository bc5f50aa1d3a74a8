"""Label and field selectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.api.object import LabelSelector, LabelSelectorRequirement
from bosket.kube.selector import (
    InvalidSelector,
    Matcher,
    Requirement,
    Selector,
    label_selector,
    parse_fields,
    parse_labels,
)
from bosket.kube.selector import requirement as make_requirement


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("a=b", {"a": "b"}, {"a": "c"}),
        ("a==b", {"a": "b"}, {}),
        ("a != b", {}, {"a": "b"}),
        ("a!=b", {"a": "c"}, {"a": "b"}),
        ("a in (x, y)", {"a": "y"}, {"a": "z"}),
        ("a in (x,y)", {"a": "x"}, {}),
        ("a notin (x,y)", {}, {"a": "x"}),
        ("a", {"a": ""}, {}),
        ("!a", {"b": "1"}, {"a": ""}),
        ("! a", {}, {"a": "x"}),
        ("a>5", {"a": "6"}, {"a": "5"}),
        ("a<5", {"a": "-1"}, {"a": "five"}),
        ("a>5", {"a": "10"}, {}),
        ("a=", {"a": ""}, {"a": "b"}),
        ("a in (x,),b", {"a": "", "b": "1"}, {"a": ""}),
        ("x.dev/a=b,c in (d,e),!f", {"x.dev/a": "b", "c": "e"}, {"x.dev/a": "b", "c": "e", "f": ""}),
        (" a = b , c ", {"a": "b", "c": ""}, {"a": "b"}),
        ("in=notin", {"in": "notin"}, {"in": "x"}),
    ],
)
def test_the_string_form(text: str, matching: dict[str, str], other: dict[str, str]) -> None:
    selector = parse_labels(text)
    assert selector.matches(matching)
    assert not selector.matches(other)
    assert parse_labels(str(selector)) == selector


def test_no_selector_matches_everything() -> None:
    assert parse_labels("").matches({})
    assert parse_labels("  ").matches({"a": "b"})


@pytest.mark.parametrize(
    "text",
    [
        "a=b,",
        ",a",
        "a in x",
        "a in (x",
        "a in x)",
        "a=b=c",
        "=b",
        "a b",
        "!a=b",
        "a>x",
        "a>",
        "-a",
        "a/b/c",
        "a=-x-",
        "A_.dev/x=y",
    ],
)
def test_a_string_that_is_no_selector_is_quoted_in_the_error(text: str) -> None:
    with pytest.raises(InvalidSelector, match=r"selector|integer"):
        parse_labels(text)


def test_the_structured_form() -> None:
    selector = label_selector(
        LabelSelector(
            matchLabels={"a": "b"},
            matchExpressions=(
                LabelSelectorRequirement(key="c", operator="In", values=("d", "e")),
                LabelSelectorRequirement(key="f", operator="NotIn", values=("g",)),
                LabelSelectorRequirement(key="h", operator="Exists"),
                LabelSelectorRequirement(key="i", operator="DoesNotExist"),
            ),
        )
    )
    good = {"a": "b", "c": "e", "h": ""}
    assert selector.matches(good)
    for bad in ({"a": "x"}, {"c": "x"}, {"f": "g"}, {"i": ""}):
        assert not selector.matches({**good, **bad})
    assert not selector.matches({"a": "b", "c": "d"})


def test_an_absent_label_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not label_selector(None).matches({"a": "b"})
    assert label_selector(LabelSelector()).matches({})


@pytest.mark.parametrize(
    ("operator", "values", "complaint"),
    [
        ("Like", ("a",), "'Like' of 'key' is not one of"),
        ("In", (), "In needs at least one value"),
        ("Exists", ("a",), "Exists takes no values, got a"),
        ("Gt", ("a",), "needs one integer"),
        ("In", ("-a",), "'-a' is not a label value"),
    ],
)
def test_a_malformed_expression_is_said_with_key_and_value(
    operator: str, values: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(InvalidSelector, match=complaint):
        make_requirement("key", operator, values)


words = st.sampled_from(["a", "b", "x.dev/c", "d-1"])
labels = st.dictionaries(words, st.sampled_from(["", "v", "w"]))
requirements = st.one_of(
    st.builds(Requirement, words, st.sampled_from(["exists", "!"]), st.just(())),
    st.builds(
        Requirement,
        words,
        st.sampled_from(["in", "notin"]),
        st.lists(st.sampled_from(["", "v", "w"]), min_size=1, unique=True).map(lambda values: tuple(sorted(values))),
    ),
)


@given(st.lists(requirements, max_size=3).map(lambda each: Selector(tuple(each))), labels)
def test_what_is_written_reads_as_the_same(selector: Selector, some: dict[str, str]) -> None:
    assert parse_labels(str(selector)) == selector
    assert parse_labels(str(selector)).matches(some) == all(each.matches(some) for each in selector.requirements)


def test_field_selectors() -> None:
    fields = {"metadata.name": "a", "status.phase": "Running"}
    selector = parse_fields("metadata.name=a,status.phase!=Failed,spec.nodeName==")
    assert selector.matches(lambda path: fields.get(path, ""))
    assert not parse_fields("status.phase!=Running").matches(lambda path: fields.get(path, ""))
    assert not parse_fields("metadata.name=b").matches(lambda path: fields.get(path, ""))
    assert parse_fields("").matches(lambda path: "")
    assert selector.value_of("metadata.name") == "a"
    assert selector.value_of("status.phase") is None


def test_special_characters_in_field_values_are_escaped() -> None:
    selector = parse_fields(r"metadata.name=a\,b\=c\\d,spec.nodeName=n")
    assert [(each.path, each.value) for each in selector.requirements] == [
        ("metadata.name", r"a,b=c\d"),
        ("spec.nodeName", "n"),
    ]
    assert parse_fields(str(selector)) == selector


@pytest.mark.parametrize("text", ["metadata.name", "=a", "a=b=c", r"a=\x", ",a=b", "a=b c=d=e"])
def test_a_malformed_field_selector_is_quoted(text: str) -> None:
    with pytest.raises(InvalidSelector, match="invalid field selector"):
        parse_fields(text)


@given(st.lists(requirements, max_size=30), labels)
def test_a_matcher_says_what_its_selector_says(listed: list[Requirement], some: dict[str, str]) -> None:
    selector = Selector(tuple(listed))
    assert Matcher(selector).matches(some) == selector.matches(some)


def test_a_matcher_looks_at_labels_and_not_at_thousands_of_requirements() -> None:
    looks = 0

    class Watched(dict[str, str]):
        def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
            nonlocal looks
            looks += 1
            return super().get(key, default)

    matcher = Matcher(parse_labels(",".join(f"!x{each}" for each in range(3_000)) + ",team in (a,b)"))
    assert matcher.matches(Watched(team="a"))
    assert not matcher.matches(Watched(team="c"))
    assert looks == 0


def test_commas_within_brackets_are_between_values() -> None:
    assert str(parse_labels("a in (x,y),b,c notin (z),!d")) == "a in (x,y),b,c!=z,!d"
    for text in ("a in (x,y", "a,b)", "a in (x,(y)", "," * 30_000):
        with pytest.raises(InvalidSelector):
            parse_labels(text)
