"""Lists: pages, expired continue tokens, malformed items."""

from __future__ import annotations

import gc
import logging

import msgspec
import pytest

from bosket.api.core import ConfigMap, Pod
from bosket.api.object import ObjectKey
from bosket.kube import codec
from bosket.kube.codec import MALFORMED, metadata_of, untyped
from bosket.kube.errors import Forbidden, Gone, UnexpectedBody
from tests.kube.scripted import Script, Watch, answer, client_of, event, failure, pod, pod_list


def malformed_count() -> float:
    return next(iter(MALFORMED.labels("Pod").collect())).samples[0].value


async def test_all_pages_are_fetched_and_the_version_is_the_first_one_s() -> None:
    script = Script(pod_list(10, pod("a"), pod("b"), token="more"), pod_list(11, pod("c")))
    page = await client_of(script).list(Pod, "ns", labels="x=y", page_size=2)
    assert [item.metadata.name for item in page.items] == ["a", "b", "c"]
    assert page.resource_version == "10"
    assert script.requests[0].query == (("labelSelector", "x=y"), ("limit", "2"))
    assert script.requests[1].query == (("labelSelector", "x=y"), ("limit", "2"), ("continue", "more"))


async def test_without_a_namespace_all_are_listed() -> None:
    script = Script(pod_list(1))
    await client_of(script).list(Pod)
    assert script.requests[0].path == "/api/v1/pods"


async def test_where_metadata_is_enough_nothing_else_is_asked_for() -> None:
    meta = {"name": "a", "namespace": "ns", "resourceVersion": "3"}
    listed = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
    page = {"kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": "5"}, "items": [listed]}
    script = Script(answer(page), watches=(Watch(event("DELETED", listed)),))
    client = client_of(script)
    (found,) = (await client.list(metadata_of(ConfigMap))).items
    assert (found.key, found.kind) == (ObjectKey("ns", "a"), "")
    accepted = "application/json;as={};g=meta.k8s.io;v=v1,application/json"
    assert script.requests[0].path == "/api/v1/configmaps"
    assert script.requests[0].headers["Accept"] == accepted.format("PartialObjectMetadataList")
    events = [each async for each in client.watch(metadata_of(ConfigMap), resource_version="5")]
    assert [(each.type, each.key) for each in events] == [("DELETED", ObjectKey("ns", "a"))]
    assert script.watch_requests[0].headers["Accept"] == accepted.format("PartialObjectMetadata")


async def test_an_expired_continue_token_starts_over_once_in_one_piece() -> None:
    script = Script(pod_list(10, pod("a"), token="t"), failure(410, "Expired"), pod_list(20, pod("a"), pod("b")))
    page = await client_of(script).list(Pod)
    assert [item.metadata.name for item in page.items] == ["a", "b"]
    assert page.resource_version == "20"
    assert script.requests[2].query == ()


async def test_a_list_that_expires_even_in_one_piece_is_an_error() -> None:
    script = Script(failure(410, "Expired"), failure(410, "Expired"))
    with pytest.raises(Gone):
        await client_of(script).list(Pod)


async def test_a_malformed_item_is_logged_counted_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    broken = pod("bad")
    broken["spec"]["priority"] = "high"
    before = malformed_count()
    with caplog.at_level(logging.ERROR):
        page = await client_of(Script(pod_list(5, pod("a"), broken, pod("z")))).list(Pod)
    assert [item.metadata.name for item in page.items] == ["a", "z"]
    assert page.left_out == (ObjectKey("ns", "bad"),)
    assert "Pod ns/bad" in caplog.text
    assert "$.spec.priority" in caplog.text
    assert malformed_count() == before + 1


async def test_an_item_with_nulls_is_not_malformed() -> None:
    nulls = pod("n", labels=None)
    page = await client_of(Script(pod_list(5, pod("a"), nulls))).list(Pod)
    assert [item.metadata.name for item in page.items] == ["a", "n"]
    assert page.left_out == ()


async def test_a_list_whose_items_are_null_is_empty() -> None:
    body = {"kind": "PodList", "metadata": {"resourceVersion": "5", "continue": None}, "items": None}
    page = await client_of(Script(answer(body))).list(Pod)
    assert (page.items, page.resource_version) == ([], "5")


@pytest.mark.parametrize(
    "body", [b"oops", b'{"items": 5}', b'{"items": [], "metadata": 1}', b"[1]", b"{}", b"", b"null"]
)
async def test_an_answer_that_is_no_list_is_an_error_and_not_an_empty_list(body: bytes) -> None:
    """An informer that took it for one would tell everybody that everything is gone."""
    with pytest.raises(UnexpectedBody, match=r"list of pods|expected JSON"):
        await client_of(Script(answer(body))).list(Pod)


async def test_a_list_answered_with_a_failure_status_is_that_failure_even_with_http_200() -> None:
    refused = msgspec.structs.replace(failure(403, "Forbidden", "not yours"), status=200)
    with pytest.raises(Forbidden, match="not yours"):
        await client_of(Script(refused)).list(Pod)


async def test_items_as_dicts_say_what_they_are_though_the_server_left_it_out() -> None:
    bare = pod("a")
    del bare["apiVersion"], bare["kind"]
    page = await client_of(Script(pod_list(5, bare))).list(untyped(codec.codec_of(Pod).resource))
    assert (page.items[0]["apiVersion"], page.items[0]["kind"]) == ("v1", "Pod")


async def test_typed_items_don_t_carry_what_their_type_says() -> None:
    page = await client_of(Script(pod_list(5, pod("a")))).list(Pod)
    assert (page.items[0].apiVersion, page.items[0].kind) == ("", "")


async def test_the_garbage_collector_pauses_for_decoding_and_goes_on_afterwards() -> None:
    seen: list[bool] = []
    with codec.gc_paused():
        seen.append(gc.isenabled())
    assert seen == [False]
    assert gc.isenabled()


def test_a_garbage_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with codec.gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


async def test_the_garbage_collector_goes_on_after_a_list_that_fails() -> None:
    with pytest.raises(UnexpectedBody):
        await client_of(Script(answer(b"oops"))).list(Pod)
    assert gc.isenabled()
