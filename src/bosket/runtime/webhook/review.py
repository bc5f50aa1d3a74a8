"""AdmissionReview v1: bytes in, bytes out. A review handler decides; this module decodes and encodes.

The webhook server calls `read_review` and `write_answer`. A review that can't be read is an error, for the API server's
failure policy to deal with; a refusal is an answer.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from bosket.api.admission import AdmissionRequest, AdmissionResponse, AdmissionReview
from bosket.api.object import Status, StatusCause, StatusDetails
from bosket.runtime.webhook.verdict import Verdict, sentence

#: Answers a request. Never waits; an exception is a bug.
ReviewHandler = Callable[[AdmissionRequest], Verdict]
#: The same, or a handler that first asks the API server. A KubeError of that is an error of the webhook, for the API
#: server's failure policy to deal with.
AnyReviewHandler = Callable[[AdmissionRequest], Verdict | Awaitable[Verdict]]

_API_VERSION: Final = "admission.k8s.io/v1"
_DECODER: Final = msgspec.json.Decoder(AdmissionReview)
_ENCODER: Final = msgspec.json.Encoder()
#: What an API server passes on of a warning.
_MAX_WARNING: Final = 250


class UnreadableReview(ValueError):
    """A request that is no AdmissionReview v1; says why."""


def read_review(body: bytes) -> AdmissionRequest:
    """The request of a review."""
    try:
        review = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableReview(f"not an AdmissionReview: {error}") from error
    if review.kind != "AdmissionReview" or review.apiVersion != _API_VERSION:
        given = f"{review.apiVersion or 'no apiVersion'}, {review.kind or 'no kind'}"
        raise UnreadableReview(f"expected {_API_VERSION}, AdmissionReview; got {given}")
    if review.request is None or not review.request.uid:
        raise UnreadableReview("an AdmissionReview without a request, or without its uid")
    return review.request


def write_answer(request: AdmissionRequest, verdict: Verdict) -> bytes:
    """The review that answers the request."""
    patch = _ENCODER.encode(verdict.patch) if verdict.patch and not verdict.refusals else b""
    response = AdmissionResponse(
        uid=request.uid,
        allowed=not verdict.refusals,
        status=_status(request, verdict) if verdict.refusals else None,
        patch=base64.b64encode(patch).decode(),
        patchType="JSONPatch" if patch else None,
        warnings=tuple(each[:_MAX_WARNING] for each in verdict.warnings),
    )
    # "allowed" must be there also when it is false, which a Struct leaves out as its default.
    plain = {"allowed": response.allowed, **msgspec.to_builtins(response)}
    return _ENCODER.encode({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": plain})


def _status(request: AdmissionRequest, verdict: Verdict) -> Status:
    kind = request.kind.kind if request.kind is not None else ""
    return Status(
        status="Failure",
        code=403,
        reason="Forbidden",
        message=verdict.words or f"{_subject(request, kind)}: {sentence(verdict.refusals)}",
        details=StatusDetails(
            name=request.name,
            kind=kind,
            causes=tuple(StatusCause(reason="FieldValueInvalid", message=m, field=f) for f, m in verdict.refusals),
        ),
    )


def _subject(request: AdmissionRequest, kind: str) -> str:
    """What is spoken of; pods with a generated name have none yet."""
    metadata = request.object.get("metadata", {}) if isinstance(request.object, dict) else {}
    beginning = metadata.get("generateName", "") if isinstance(metadata, dict) else ""
    name = request.name or (f"{beginning}…" if beginning else "")
    return f"{kind} {request.namespace}/{name}" if request.namespace else f"{kind} {name}"
