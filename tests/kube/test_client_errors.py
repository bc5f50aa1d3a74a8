"""What an answer that is not the object asked for turns into."""

from __future__ import annotations

import msgspec
import pytest

from bosket.api.core import ConfigMap, Pod
from bosket.kube import errors
from bosket.kube.retry import RetryPolicy
from tests.kube.scripted import Script, answer, client_of, failure, pod

ONCE = RetryPolicy(attempts=1)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Gone),
        (410, "Gone", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (503, "ServiceUnavailable", errors.ServerError),
        (404, "", errors.NotFound),
        (409, "", errors.Conflict),
    ],
)
async def test_each_reason_has_its_exception(code: int, reason: str, kind: type[errors.ApiError]) -> None:
    with pytest.raises(errors.ApiError, match="no") as caught:
        await client_of(Script(failure(code, reason)), retry=ONCE).get(Pod, "a", "ns")
    assert type(caught.value) is kind
    assert caught.value.code == code


async def test_a_status_this_client_has_no_name_for_is_a_plain_api_error() -> None:
    with pytest.raises(errors.ApiError, match="405 MethodNotAllowed: no") as caught:
        await client_of(Script(failure(405, "MethodNotAllowed"))).get(Pod, "a", "ns")
    assert type(caught.value) is errors.ApiError


async def test_an_error_page_that_is_not_json_is_quoted() -> None:
    page = b"<html><title>502 Bad Gateway</title>" + b"x" * 1000
    with pytest.raises(errors.ServerError) as caught:
        await client_of(Script(answer(page, 502))).get(Pod, "a", "ns")
    assert caught.value.code == 502
    assert "502 Bad Gateway" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("body", [b"", b"<html>hello", b'{"kind":"Pod","metadata":', b"[]", b"\xff\xfe"])
async def test_a_successful_answer_that_is_not_an_object_is_an_error_that_quotes_it(body: bytes) -> None:
    with pytest.raises(errors.UnexpectedBody, match="expected a Pod, got"):
        await client_of(Script(answer(body))).get(Pod, "a", "ns")


async def test_an_object_of_another_kind_is_an_error() -> None:
    with pytest.raises(errors.UnexpectedBody, match="expected a Pod, got a Scale"):
        await client_of(Script(answer({"kind": "Scale", "apiVersion": "autoscaling/v1"}))).get(Pod, "a", "ns")


async def test_a_create_answered_with_a_failure_status_is_an_error_even_with_http_201() -> None:
    # A ConfigMap has no field that a Status would contradict: only its kind gives it away.
    refused = msgspec.structs.replace(failure(409, "AlreadyExists", "c exists"), status=201)
    with pytest.raises(errors.AlreadyExists, match="c exists"):
        await client_of(Script(refused)).create(ConfigMap(), "ns")


async def test_a_create_answered_with_a_success_status_is_not_taken_for_an_object() -> None:
    done = answer({"kind": "Status", "apiVersion": "v1", "status": "Success", "message": "done"}, 201)
    with pytest.raises(errors.UnexpectedBody, match="expected a ConfigMap, got a Status: done"):
        await client_of(Script(done)).create(ConfigMap(), "ns")


async def test_a_field_of_a_wrong_type_is_named_with_the_object() -> None:
    broken = pod("a")
    broken["spec"]["containers"] = [{"name": 5}]
    with pytest.raises(
        errors.UnexpectedBody, match=r"Pod ns/a: .*containers\[0\]\.name|Pod ns/a: .*containers\[\.\.\.\]\.name"
    ):
        await client_of(Script(answer(broken))).get(Pod, "a", "ns")


async def test_null_for_a_list_or_map_counts_as_absent() -> None:
    """Go writes null for an empty slice or map."""
    nulls = pod("a", labels=None, ownerReferences=None)
    nulls["spec"] |= {"tolerations": None, "nodeSelector": None}
    found = await client_of(Script(answer(nulls))).get(Pod, "a", "ns")
    assert found.metadata.labels == {}
    assert found.spec is not None
    assert found.spec.tolerations == ()
    assert (found.apiVersion, found.kind) == ("", "")


async def test_a_delete_answered_with_garbage_is_an_error() -> None:
    with pytest.raises(errors.UnexpectedBody, match="expected JSON, got 'gone'"):
        await client_of(Script(answer(b"gone"))).delete(Pod, "a", "ns")


async def test_a_delete_answered_with_no_content_is_fine() -> None:
    await client_of(Script(answer(b"", 204))).delete(Pod, "a", "ns")
