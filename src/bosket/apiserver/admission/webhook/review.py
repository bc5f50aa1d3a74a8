"""AdmissionReview requests and responses, in v1 and v1beta1."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import msgspec

from bosket.api.admission import AdmissionResponse, AdmissionReview
from bosket.apiserver.admission.attributes import AdmissionAttributes
from bosket.apiserver.admission.webhook.hook import Hook
from bosket.apiserver.objects.kind import Version
from bosket.apiserver.request.body import drop_nulls
from bosket.apiserver.status import StatusError
from bosket.apiserver.store.entry import Doc

_GROUP = "admission.k8s.io"
_SPOKEN = ("v1", "v1beta1")


class InvalidWebhookResponse(Exception):
    """An answer that isn't one; says why."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """What a webhook says."""

    allowed: bool
    #: the status of a refusal, as the webhook has it
    status: Doc
    patch: list[Any]
    warnings: tuple[str, ...]


def review_request(hook: Hook, attributes: AdmissionAttributes, version: Version) -> tuple[bytes, str, str]:
    """The body to send, the uid that the answer must have, and the version of the review."""
    spoken = next((each for each in hook.review_versions if each in _SPOKEN), None)
    if spoken is None:
        raise InvalidWebhookResponse("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
    request = attributes.request(version)
    review = {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{spoken}", "request": request}
    return msgspec.json.encode(review), request["uid"], spoken


def read_response(body: bytes, uid: str, spoken: str, *, mutating: bool) -> WebhookResponse:
    """The answer in a body. Raises `InvalidWebhookResponse`."""
    try:
        raw = msgspec.json.decode(body)
        drop_nulls(raw)
        review = msgspec.convert(raw, AdmissionReview)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidWebhookResponse(f"the answer is not an AdmissionReview: {error}") from None
    response = review.response
    if response is None:
        raise InvalidWebhookResponse("webhook response was absent")
    if spoken == "v1":
        _check_identity(review, response, uid)
    if mutating:
        patch = _read_patch(response, spoken)
    else:
        if spoken == "v1" and response.patch:
            raise InvalidWebhookResponse("validating webhook may not return response.patch")
        if spoken == "v1" and response.patchType is not None:
            raise InvalidWebhookResponse("validating webhook may not return response.patchType")
        patch = []
    status: Doc = raw["response"].get("status", {})
    return WebhookResponse(response.allowed, status, patch, response.warnings)


def _check_identity(review: AdmissionReview, response: AdmissionResponse, uid: str) -> None:
    if response.uid != uid:
        raise InvalidWebhookResponse(f'expected response.uid="{uid}", got "{response.uid}"')
    if (review.apiVersion, review.kind) != (f"{_GROUP}/v1", "AdmissionReview"):
        raise InvalidWebhookResponse(
            f"expected webhook response of {_GROUP}/v1, Kind=AdmissionReview, "
            f"got {review.apiVersion or '/'}, Kind={review.kind}"
        )


def _read_patch(response: AdmissionResponse, spoken: str) -> list[Any]:
    if spoken == "v1":
        if response.patch and response.patchType is None:
            raise InvalidWebhookResponse("webhook returned response.patch but not response.patchType")
        if not response.patch and response.patchType is not None:
            raise InvalidWebhookResponse("webhook returned response.patchType but not response.patch")
        if response.patchType not in (None, "JSONPatch"):
            raise InvalidWebhookResponse(f'unsupported patch type "{response.patchType}"')
    if not response.patch:
        return []
    try:
        patch = msgspec.json.decode(base64.b64decode(response.patch, validate=True))
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidWebhookResponse(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(patch, list):
        raise InvalidWebhookResponse("received undecodable patch in webhook response: it is not a list of operations")
    return patch


def denial(hook: str, status: Doc) -> StatusError:
    """The refusal that the client gets: the webhook's own, and its name."""
    denied = f'admission webhook "{hook}" denied the request'
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    explanation = message or reason
    said = f"{denied}: {explanation}" if explanation else f"{denied} without explanation"
    given = status.get("code")
    code = given if isinstance(given, int) and 400 <= given <= 599 else 400
    error = StatusError(code, reason, said)
    error.status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": said}
    if reason:
        error.status["reason"] = reason
    if isinstance(status.get("details"), dict):
        error.status["details"] = status["details"]
    error.status["code"] = code
    return error
