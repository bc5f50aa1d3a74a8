"""Errors of the server: each is a `StatusError`, which becomes a Status object.

Handlers raise; `ApiServer.handle` answers. Wording follows kube-apiserver's, because people and programs read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bosket.api.field_error import FieldError

JSON = "application/json"


class StatusError(Exception):
    """A request that is refused; `body` is the Status that says why."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        group: str = "",
        kind: str = "",
        name: str = "",
        uid: str = "",
        causes: Sequence[dict[str, str]] = (),
        retry_after_seconds: int = 0,
        continue_token: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.headers = headers or {}
        if retry_after_seconds:
            self.headers["retry-after"] = str(retry_after_seconds)
        details: dict[str, Any] = {
            key: value for key, value in (("name", name), ("group", group), ("kind", kind), ("uid", uid)) if value
        }
        if causes:
            details["causes"] = list(causes)
        if retry_after_seconds:
            details["retryAfterSeconds"] = retry_after_seconds
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": continue_token} if continue_token else {},
            "status": "Failure",
            "message": message,
            "reason": reason,
        }
        if details:
            self.status["details"] = details
        self.status["code"] = code

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.status) + b"\n"


def qualified(plural: str, group: str) -> str:
    """`pods`, `queues.scheduling.run.ai`: a resource as messages name it."""
    return f"{plural}.{group}" if group else plural


def bad_request(message: str) -> StatusError:
    """The request can't be understood."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Nobody knows who is asking."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, detail: str, *, causes: Sequence[dict[str, str]] = ()) -> StatusError:
    """It is known who is asking, and not allowed."""
    message = f'{qualified(plural, group)} "{name}" is forbidden: {detail}'
    return StatusError(403, "Forbidden", message, group=group, kind=plural, name=name, causes=causes)


def not_found(group: str, plural: str, name: str) -> StatusError:
    """There is no object of that name."""
    message = f'{qualified(plural, group)} "{name}" not found'
    return StatusError(404, "NotFound", message, group=group, kind=plural, name=name)


def no_such_path() -> StatusError:
    """There is no such kind, version or path."""
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed(method: str) -> StatusError:
    """The path is there, and this can't be done with it."""
    return StatusError(
        405, "MethodNotAllowed", f"the server does not allow this method ({method}) on the requested resource"
    )


def already_exists(group: str, plural: str, name: str) -> StatusError:
    """The name is taken."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, group=group, kind=plural, name=name)


def conflict(group: str, plural: str, name: str, detail: str, *, causes: Sequence[dict[str, str]] = ()) -> StatusError:
    """The object is not in the state that the client believes."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {detail}'
    return StatusError(409, "Conflict", message, group=group, kind=plural, name=name, causes=causes)


#: The message for a write with a stale resourceVersion.
OBJECT_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def gone(message: str, *, continue_token: str = "") -> StatusError:
    """What is asked for is no longer kept."""
    return StatusError(410, "Expired", message, continue_token=continue_token)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """An object breaks rules; the error names all of them."""
    described = f"{kind}.{group}" if group else kind
    sentences = [str(error) for error in errors]
    whole = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    causes = [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]
    message = f'{described} "{name}" is invalid: {whole}'
    return StatusError(422, "Invalid", message, group=group, kind=kind, name=name, causes=causes)


def invalid_options(kind: str, error: FieldError) -> StatusError:
    """A parameter of the request has a value that it can't have."""
    return invalid("meta.k8s.io", kind, "", [error])


class WrongType(StatusError):
    """A field has a value of another type than it should; a 400, or a 422 where a patch brought it in."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)

    def of_patch(self) -> StatusError:
        return invalid("", "", "", [FieldError("patch", "FieldValueInvalid", f"Invalid value: {self.message}")])


def describe(value: object) -> str:
    """A JSON value's type, in JSON's words."""
    if value is None:
        return "null"
    for python, name in (
        (bool, "a boolean"),
        (str, "a string"),
        (int, "a number"),
        (float, "a number"),
        (list, "a list"),
    ):
        if isinstance(value, python):
            return name
    return "an object"


def unprocessable(detail: str) -> StatusError:
    """A patch can't be applied."""
    message = f"the server rejected our request due to an error in our request: {detail}"
    return StatusError(422, "Invalid", message)


def unsupported_media_type(detail: str) -> StatusError:
    """The body is in a format that isn't read here."""
    return StatusError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format - {detail}")


def not_acceptable(detail: str) -> StatusError:
    """The client accepts no format that is written here."""
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {detail}")


def too_large(limit: int) -> StatusError:
    """The body is larger than allowed."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def headers_too_large(limit: int) -> StatusError:
    """The URL, or a header, is longer than allowed."""
    message = f"Request header fields too large: the URL and each header may have {limit} bytes"
    return StatusError(431, "RequestHeaderFieldsTooLarge", message)


def too_many_requests(
    message: str, *, retry_after_seconds: int = 0, causes: Sequence[dict[str, str]] = ()
) -> StatusError:
    """Not now; perhaps in a while."""
    return StatusError(429, "TooManyRequests", message, retry_after_seconds=retry_after_seconds, causes=causes)


def internal_error(detail: str) -> StatusError:
    """The server's own mistake."""
    return StatusError(500, "InternalError", f"Internal error occurred: {detail}")


def timeout(message: str, *, causes: Sequence[dict[str, str]] = ()) -> StatusError:
    """It would take too long."""
    return StatusError(504, "Timeout", message, retry_after_seconds=1, causes=causes)


def version_too_large(asked: int, current: int) -> StatusError:
    """The client has seen a future that isn't ours."""
    return timeout(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=[{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
    )
