"""What can go wrong when talking to an API server.

KubeError
├── ConfigError             a kubeconfig or a credential that can't be used; names file and field
│   └── MissingKubeconfig   there is none
├── TransportError          no answer: refused, hung up, timed out
└── ApiError                an answer that says no; carries the server's Status
    ├── BadRequest          400
    ├── Unauthorized        401
    ├── Forbidden           403
    ├── NotFound            404
    ├── AlreadyExists       409, on create
    ├── Conflict            409, stale resourceVersion or a bound pod
    ├── Gone                410, resourceVersion or continue token too old
    ├── Invalid             422, the object or patch breaks a rule
    ├── TooManyRequests     429, overload, or a disruption budget
    ├── ServerError         500 and above
    └── UnexpectedBody      an answer that is not what was asked for: no JSON, another kind, a field of a wrong type
"""

from __future__ import annotations

import os
import re
import socket
import ssl

import msgspec

from bosket.api.object import Status, StatusDetails


class KubeError(Exception):
    """Anything that goes wrong in this layer."""


class ConfigError(KubeError):
    """A kubeconfig, or a credential it names, can't be used."""


class MissingKubeconfig(ConfigError):
    """There is no kubeconfig where one was looked for."""


class TransportError(KubeError):
    """No answer arrived. `maybe_carried_out` is False only if the request certainly never left.

    `why` is the cause in words, and `server` the address, for messages that don't name the request.
    """

    def __init__(self, message: str, *, maybe_carried_out: bool = True, why: str = "", server: str = "") -> None:
        super().__init__(message)
        self.maybe_carried_out = maybe_carried_out
        self.why, self.server = why or message, server


_ERROR_NUMBER = re.compile(r"\[Errno (-?\d+)\]")


def failure_in_words(error: BaseException) -> str:
    """The cause of a failed connection as a sentence, without error numbers."""
    error = getattr(error, "os_error", error)  # where aiohttp has wrapped it
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate isn't trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection ({(error.reason or str(error)).replace('_', ' ').lower()})"
    if isinstance(error, socket.gaierror):
        return "the server's name can't be resolved"
    if isinstance(error, OSError):
        # Where a name has several addresses, the numbers stand in the text alone.
        found = _ERROR_NUMBER.search(str(error))
        number = error.errno or (int(found[1]) if found else 0)
        if number > 0:
            return os.strerror(number).lower()
    return str(error) or type(error).__name__


class ApiError(KubeError):
    """The server answered with a failure."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status

    @property
    def code(self) -> int:
        return self.status.code

    @property
    def reason(self) -> str:
        return self.status.reason

    @property
    def message(self) -> str:
        return self.status.message

    @property
    def details(self) -> StatusDetails:
        return self.status.details or StatusDetails()

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}" if self.reason else f"{self.code}: {self.message}"


class BadRequest(ApiError):
    """The request can't be understood."""


class Unauthorized(ApiError):
    """The server doesn't know who is asking."""


class Forbidden(ApiError):
    """The server knows who is asking and refuses, by policy, quota or a namespace that is going away."""


class NotFound(ApiError):
    """No such object, or no such kind."""


class AlreadyExists(ApiError):
    """An object of that name is there."""


class Conflict(ApiError):
    """The object changed since it was read."""


class Gone(ApiError):
    """The history asked for is no longer kept: list again."""


class Invalid(ApiError):
    """The object, or the patch, breaks a rule; `details.causes` names the fields."""


class TooManyRequests(ApiError):
    """Slow down; or, of an eviction, a disruption budget says not now."""


class ServerError(ApiError):
    """The server failed."""


def is_namespace_going(error: BaseException) -> bool:
    """Whether a server refuses because the namespace is being deleted or gone: repeating the request never helps."""
    if isinstance(error, Forbidden):
        causes = {each.reason for each in error.details.causes}
        return "NamespaceTerminating" in causes or error.message.endswith("because it is being terminated")
    return isinstance(error, NotFound) and error.details.kind == "namespaces"


class UnexpectedBody(ApiError):
    """The server's answer is not what was asked for."""


_BY_REASON: dict[str, type[ApiError]] = {
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Gone,
    "Gone": Gone,
    "Invalid": Invalid,
    "TooManyRequests": TooManyRequests,
}

_BY_CODE: dict[int, tuple[type[ApiError], str]] = {
    400: (BadRequest, "BadRequest"),
    401: (Unauthorized, "Unauthorized"),
    403: (Forbidden, "Forbidden"),
    404: (NotFound, "NotFound"),
    409: (Conflict, "Conflict"),
    410: (Gone, "Gone"),
    422: (Invalid, "Invalid"),
    429: (TooManyRequests, "TooManyRequests"),
}


def api_error(status: Status) -> ApiError:
    """The exception for `status`: by its reason, else by its code."""
    by_reason = _BY_REASON.get(status.reason)
    if by_reason is not None:
        return by_reason(status)
    if status.code >= 500:
        return ServerError(status)
    kind, reason = _BY_CODE.get(status.code, (ApiError, ""))
    return kind(status if status.reason else msgspec.structs.replace(status, reason=reason))


_STATUS = msgspec.json.Decoder(Status)


def error_from_answer(code: int, body: bytes) -> ApiError:
    """The exception for an answer with status `code`, whether or not its body is a Status."""
    try:
        status = _STATUS.decode(body)
    except msgspec.MsgspecError:
        status = None
    if status is None or status.kind != "Status" or not (status.reason or status.message):
        return api_error(Status(status="Failure", code=code, message=f"the server answered: {quote_beginning(body)}"))
    return api_error(status if status.code else msgspec.structs.replace(status, code=code))


def quote_beginning(body: bytes, limit: int = 200) -> str:
    """The first characters of a body, for an error message."""
    if not body.strip():
        return "(nothing)"
    text = body[:limit].decode("utf-8", "replace").strip()
    return repr(text) + ("…" if len(body) > limit else "")
