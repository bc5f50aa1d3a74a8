"""Which webhooks are called for a write, in which order, and the result of their answers.

Those that mutate are asked one after the other, each about what the former ones made of the object; if one changed
something, the server's own admission and the webhooks that want it are asked once more. Those that validate are asked
all at once, about the object as it would be stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from bosket.apiserver.admission.attributes import AdmissionAttributes, convert
from bosket.apiserver.admission.webhook.address import AddressBook, NoAddress
from bosket.apiserver.admission.webhook.caller import Caller, CallFailed
from bosket.apiserver.admission.webhook.hook import Hook, HookTable
from bosket.apiserver.admission.webhook.review import (
    InvalidWebhookResponse,
    WebhookResponse,
    denial,
    read_response,
    review_request,
)
from bosket.apiserver.objects.kind import Version
from bosket.apiserver.status import StatusError, bad_request, internal_error
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.store import Store
from bosket.kube.patch import PatchError, apply_json_patch

_log = logging.getLogger(__name__)

#: Checks the types of an object that was patched, and fills in what was left out.
Complete = Callable[[Doc], None]


@dataclass(slots=True)
class Rounds:
    """Who was asked about one attempt, and who must be asked again."""

    again: bool = False
    #: asked, and willing to be asked again should something change after them
    _asked: set[tuple[str, str, int]] = field(default_factory=set)
    _due: set[tuple[str, str, int]] = field(default_factory=set)
    #: the object when the last round was over
    _left: bytes = b""

    def skips(self, hook: Hook) -> bool:
        return self.again and hook.identity not in self._due

    def object_changed(self) -> None:
        self._due |= self._asked
        self._asked.clear()

    def asked(self, hook: Hook) -> None:
        if hook.reinvocable:
            self._asked.add(hook.identity)

    def begin_again(self, doc: Doc | None) -> None:
        self.again = True
        if _encoded(doc) != self._left:
            self.object_changed()

    def end(self, doc: Doc | None) -> None:
        self._left = _encoded(doc)


def _encoded(doc: Doc | None) -> bytes:
    return msgspec.json.encode(doc, order="sorted")


class Webhooks:
    """Asks webhooks about attempts."""

    def __init__(self, store: Store) -> None:
        self._mutating = HookTable(store, "mutatingwebhookconfigurations")
        self._validating = HookTable(store, "validatingwebhookconfigurations")
        self._namespaces = store.resource("", "namespaces", namespaced=False)
        self._addresses = AddressBook(store)
        self._caller = Caller()

    @property
    def mutate_any(self) -> bool:
        """Whether there is a webhook to ask before rules are checked."""
        return bool(self._mutating.hooks)

    @property
    def validate_any(self) -> bool:
        """Whether there is a webhook to ask afterwards."""
        return bool(self._validating.hooks)

    async def aclose(self) -> None:
        await self._caller.aclose()

    async def mutate(self, attributes: AdmissionAttributes, complete: Complete, rounds: Rounds) -> bool:
        """Ask those that complete objects; whether one of them did."""
        if attributes.exempt:
            return False
        changed = False
        for hook in self._mutating.hooks:
            version = hook.concerned_version(attributes, self._namespaces)
            if version is None or rounds.skips(hook):
                continue
            response = await self._ask(hook, attributes, version, mutating=True)
            if response is not None and response.patch and _patch(hook, attributes, version, response, complete):
                changed = True
                rounds.object_changed()
            rounds.asked(hook)
        rounds.end(attributes.object)
        return changed

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Ask those that have the last word; raises the refusal of the first that refuses."""
        if attributes.exempt:
            return
        concerned = [
            (hook, version)
            for hook in self._validating.hooks
            if (version := hook.concerned_version(attributes, self._namespaces)) is not None
        ]
        if not concerned:
            return
        asking = (self._ask(hook, attributes, version, mutating=False) for hook, version in concerned)
        for outcome in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _ask(
        self, hook: Hook, attributes: AdmissionAttributes, version: Version, *, mutating: bool
    ) -> WebhookResponse | None:
        """The answer of a webhook that agrees; None if there was none and none is needed. Raises its refusal."""
        if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            response = await self._call(hook, attributes, version, mutating=mutating)
        except (InvalidWebhookResponse, CallFailed, NoAddress) as failure:
            if isinstance(failure, InvalidWebhookResponse):
                said = f"received invalid webhook response: {failure}"
            else:
                said = f"failed to call webhook: {failure}"
            if hook.ignores_failure:
                _log.warning("a webhook failed and is ignored", extra={"webhook": hook.name, "error": said})
                return None
            raise internal_error(f'failed calling webhook "{hook.name}": {said}') from None
        attributes.warnings.extend(response.warnings)
        if not response.allowed:
            raise denial(hook.name, response.status)
        return response

    async def _call(
        self, hook: Hook, attributes: AdmissionAttributes, version: Version, *, mutating: bool
    ) -> WebhookResponse:
        body, uid, spoken = review_request(hook, attributes, version)
        address = self._addresses.find(hook.target, hook.timeout_seconds)
        try:
            tls = hook.tls
        except ValueError as error:  # ssl.SSLError is one
            raise CallFailed(f"unable to load root certificates: {error}") from None
        content = await self._caller.post(address, body, tls, hook.timeout_seconds)
        return read_response(content, uid, spoken, mutating=mutating)


def _patch(
    hook: Hook, attributes: AdmissionAttributes, version: Version, response: WebhookResponse, complete: Complete
) -> bool:
    """Change the attempt's object as the webhook wants it; whether it is another now."""
    if attributes.object is None:
        raise internal_error(
            f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this operation'
        )
    before, _ = attributes.at(version)
    try:
        after = apply_json_patch(before, response.patch)
    except PatchError as error:
        raise internal_error(str(error)) from None
    if not isinstance(after, dict) or not isinstance(after.get("metadata", {}), dict):
        raise internal_error(f'admission webhook "{hook.name}" left no object')
    after.setdefault("metadata", {})
    if attributes.form is None:
        converted = convert(after, version, attributes.version)
        assert converted is not None
        after = _separate(converted)
        try:
            complete(after)
        except StatusError as error:
            raise internal_error(error.message) from None
    if after == attributes.object:
        return False
    attributes.object.clear()
    attributes.object.update(after)
    return True


def _separate(doc: Doc) -> Doc:
    """A copy that shares nothing: what a patch left alone is still part of the former object."""
    copy: Doc = msgspec.json.decode(msgspec.json.encode(doc))
    return copy
