"""A pytest plugin that notes which call site asks the API server for what; `python -m tests.install` loads it.

What is asked for is read off the request as an API server does; who asks, off the stack: the innermost frame outside
`bosket.kube` that stands on a call site.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from bosket.api.keys import RESERVATION_NAMESPACE, SCALE_ADJUST_NAMESPACE, SYSTEM_NAMESPACE
from bosket.apiserver.request.request_info import Attributes, parse_request
from bosket.install.right import Right, Scope
from bosket.kube.client import Client, PatchType
from bosket.kube.codec import codec_of
from bosket.kube.informer import Informers
from bosket.kube.transport import Request
from tests.install.call_site import CallSite, sites_of

OUTPUT: Final = "BOSKET_RECORD_CALLS"
_SCOPES: Final[dict[str, Scope]] = {
    SYSTEM_NAMESPACE: "own",
    RESERVATION_NAMESPACE: "reservation",
    SCALE_ADJUST_NAMESPACE: "scale",
}
#: Objects of these kinds that we call by a name, and that are no user's, are one of a kind: their names are part of the
#: right.
_NAMED: Final = ("leases", "secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_found: set[tuple[str, Right]] = set()


def right_of(asked: Attributes) -> Right | None:
    """The right that a request needs; None for what everybody may ask."""
    if not asked.resource:
        return None
    namespaced = asked.namespace and asked.resource != "namespaces"
    scope = _SCOPES.get(asked.namespace, "cluster") if namespaced else "cluster"
    is_own = scope != "cluster" or not namespaced
    name = asked.name if asked.resource in _NAMED and is_own and asked.verb != "create" else ""
    return Right(asked.group, asked.combined, asked.verb, scope, name)


def _note(asked: Attributes) -> None:
    right = right_of(asked)
    site = _calling_site(sys._getframe(2)) if right is not None else None
    if right is not None and site is not None:
        _found.add((site.key, right))


def _calling_site(frame: FrameType | None) -> CallSite | None:
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("tests."):
            return None  # a test's own call, made while a service's is on its way
        if module.startswith("bosket.") and not module.startswith("bosket.kube"):
            for site in sites_of(module):
                if site.lines[0] <= frame.f_lineno <= site.lines[1]:
                    return site
            return None
        frame = frame.f_back
    return None


@pytest.fixture(scope="session", autouse=True)
def _record() -> Any:
    with pytest.MonkeyPatch.context() as patched:
        send, watch, of = Client._send, Client.watch, Informers.of

        async def recorded_send(self: Client, method: str, path: str, **rest: Any) -> Any:
            asked = parse_request(Request(method, path, rest.get("query", ()))).attributes
            _note(asked)
            if rest.get("content_type") == PatchType.APPLY:
                _note(replace(asked, verb="create", name=""))  # what isn't there is made
            return await send(self, method, path, **rest)

        async def recorded_watch(self: Client, kind: Any, *args: Any, **rest: Any) -> AsyncGenerator[Any, None]:
            resource = codec_of(kind).resource
            _note(Attributes("watch", resource.group, resource.plural, namespace=(args or ("",))[0] or ""))
            async for event in watch(self, kind, *args, **rest):
                yield event

        def recorded_of(self: Informers, kind: Any, *args: Any, **rest: Any) -> Any:
            resource = codec_of(kind).resource
            namespace = rest.get("namespace") or (args[0] if args else "") or ""
            for verb in ("list", "watch"):
                _note(Attributes(verb, resource.group, resource.plural, namespace=namespace))
            return of(self, kind, *args, **rest)

        patched.setattr(Client, "_send", recorded_send)
        patched.setattr(Client, "watch", recorded_watch)
        patched.setattr(Informers, "of", recorded_of)
        yield
    with Path(os.environ[OUTPUT]).open("a") as output:
        for key, right in sorted(_found):
            output.write(json.dumps([key, *right]) + "\n")
