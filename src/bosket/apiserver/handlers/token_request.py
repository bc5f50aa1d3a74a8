"""POST serviceaccounts/NAME/token: a token for whoever acts as a service account."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bosket.api.authentication import BoundObjectReference, TokenRequest
from bosket.api.field_error import invalid_value
from bosket.api.time import format_time
from bosket.apiserver.auth.service_account import ISSUER, TokenIssuer
from bosket.apiserver.request.body import decode_order
from bosket.apiserver.request.executor import LargeObjectExecutor
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.request.response import JSON_HEADERS
from bosket.apiserver.status import bad_request, conflict, invalid, not_found
from bosket.apiserver.store.entry import Entry
from bosket.apiserver.store.store import Store
from bosket.kube.transport import Response
from bosket.runtime.clock import Clock

_GROUP: Final = "authentication.k8s.io"
_DEFAULT_SECONDS: Final = 3600
_MIN_SECONDS, _MAX_SECONDS = 600, 1 << 32
_PLURALS: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class TokenRequests:
    """Answers requests for tokens."""

    def __init__(self, clock: Clock, store: Store, issuer: TokenIssuer, executor: LargeObjectExecutor) -> None:
        self._clock = clock
        self._store = store
        self._issuer = issuer
        self._executor = executor

    async def respond(self, request: ResourceRequest) -> Response:
        token_request = await self._decode(request)
        spec = token_request.spec
        account = request.kind.objects.get(request.namespace, request.name)
        if account is None:
            raise not_found("", "serviceaccounts", request.name)
        seconds = _DEFAULT_SECONDS if spec.expirationSeconds is None else spec.expirationSeconds
        _check_seconds(seconds)
        if token_request.metadata.uid not in ("", account.uid):
            detail = (
                f"the UID in the token request ({token_request.metadata.uid}) does not match the UID of the service "
                f"account ({account.uid})"
            )
            raise conflict(_GROUP, "TokenRequest", request.name, detail)
        bound = {} if spec.boundObjectRef is None else self._bind(account, spec.boundObjectRef)
        audiences = list(spec.audiences or (ISSUER,))
        now = int(self._clock.now())
        shown: dict[str, Any] = {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": None}
        if spec.boundObjectRef is not None:
            shown["boundObjectRef"] = msgspec.to_builtins(spec.boundObjectRef)
        response = {
            "kind": "TokenRequest",
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {
                "name": account.name,
                "namespace": account.namespace,
                "uid": account.uid,
                "creationTimestamp": format_time(now),
            },
            "spec": shown,
            "status": {
                "token": "" if request.dry_run else self._issuer.issue(account, seconds, audiences, bound),
                "expirationTimestamp": format_time(now + seconds),
            },
        }
        return Response(201, JSON_HEADERS, msgspec.json.encode(response) + b"\n")

    async def _decode(self, request: ResourceRequest) -> TokenRequest:
        token_request = await decode_order(request, self._executor, TokenRequest, "a TokenRequest", optional=True)
        for key, given, wanted in (
            ("name", token_request.metadata.name, request.name),
            ("namespace", token_request.metadata.namespace, request.namespace),
        ):
            if given not in ("", wanted):
                detail = f"must match the service account {key} if specified"
                raise invalid(_GROUP, "TokenRequest", request.name, [invalid_value(f"metadata.{key}", given, detail)])
        return token_request

    def _bind(self, account: Entry, reference: BoundObjectReference) -> dict[str, dict[str, str]]:
        """The claims that bind a token to an object, which must be there."""
        kind = reference.kind
        if reference.apiVersion not in ("", "v1") or kind not in _PLURALS:
            group, _, version = reference.apiVersion.rpartition("/")
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        namespace = "" if kind == "Node" else account.namespace
        entry = self._store.resource("", _PLURALS[kind], namespaced=bool(namespace)).get(namespace, reference.name)
        if entry is None:
            raise not_found("", _PLURALS[kind], reference.name)
        claims = {kind.lower(): {"name": entry.name, "uid": entry.uid}}
        if kind == "Pod":
            spec = entry.decode()["spec"]
            if spec.get("serviceAccountName", "") != account.name:
                raise bad_request(
                    f'cannot bind token for serviceaccount "{account.name}" to pod running with different '
                    "serviceaccount name."
                )
            node = self._store.resource("", "nodes", namespaced=False).get("", spec.get("nodeName", ""))
            if node is not None:
                claims["node"] = {"name": node.name, "uid": node.uid}
        if reference.uid not in ("", entry.uid):
            detail = (
                f"the UID in the bound object reference ({reference.uid}) does not match the UID in record. The object "
                "might have been deleted and then recreated"
            )
            raise conflict("", kind, reference.name, detail)
        return claims


def _check_seconds(seconds: int) -> None:
    detail = ""
    if seconds < _MIN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
    elif seconds > _MAX_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
    if detail:
        error = invalid_value("spec.expirationSeconds", seconds, detail)
        raise invalid(_GROUP, "TokenRequest", "", [error])
