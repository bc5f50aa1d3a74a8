"""The admission chain: built-in admission, policies, and webhooks, in order.

`Writer` asks for every write that isn't the server's own doing, and those who delete, bind and evict ask through
`check_deletion` and `check_creation`. Where there are no webhooks and no policies, asking them costs a look at two
empty tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bosket.api.meta import DeleteOptions
from bosket.apiserver.admission.attributes import AdmissionAttributes, Operation, options_of
from bosket.apiserver.admission.policy.dispatch import Policies
from bosket.apiserver.admission.webhook.dispatch import Rounds, Webhooks
from bosket.apiserver.objects import metadata as meta
from bosket.apiserver.objects.kind import Kind
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.writing.writer import Write

#: What no webhook may change.
_KEPT = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "managedFields",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


class AdmissionPlugin(Protocol):
    """A part of the server, or of the program around it, that completes objects and refuses by raising."""

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None: ...


class ValidationPlugin(Protocol):
    """A part of the program around the server that looks at objects as they will be stored, and refuses by raising."""

    async def check(self, write: Write, new: Doc, old: Doc | None) -> None: ...


class RequestValidator(Protocol):
    """A part of the program around the server that is asked about requests that write no object: deletions, and what is
    posted to a subresource (bindings, evictions). Refuses by raising."""

    def handles(self, operation: Operation, kind: Kind, subresource: str) -> bool:
        """Whether it has anything to say; where nobody has, the object isn't decoded."""
        ...

    async def validate_request(self, attributes: AdmissionAttributes) -> None: ...


class CreatableCheck(Protocol):
    """Knows whether there is a place for a new object now, and refuses by raising."""

    def check_creatable(self, write: Write, new: Doc) -> None: ...


class AdmissionChain:
    """Asks several, one after the other; each sees what those before it made of the object."""

    def __init__(
        self,
        plugins: tuple[AdmissionPlugin, ...],
        policies: Policies,
        webhooks: Webhooks,
        last: tuple[AdmissionPlugin, ...] = (),
        validators: tuple[ValidationPlugin, ...] = (),
        *,
        request_validators: tuple[RequestValidator, ...] = (),
        creatable_check: CreatableCheck,
    ) -> None:
        self._plugins = plugins
        self._policies = policies
        self._webhooks = webhooks
        #: these see the object as it is after all changes
        self._last = last
        self._validators = validators
        self._request_validators = request_validators
        self._creatable_check = creatable_check

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        for plugin in self._plugins:
            await plugin.admit(write, new, old)
        if self._webhooks.mutate_any and not write.trusted:
            await self._mutate(write, new, old)
        for plugin in self._last:
            await plugin.admit(write, new, old)

    async def _mutate(self, write: Write, new: Doc, old: Doc | None) -> None:
        attributes = _attributes_of(write, new, old)
        complete = _completing(write, new)
        rounds = Rounds()
        if not await self._webhooks.mutate(attributes, complete, rounds):
            return
        _take_back(write, new, attributes)
        for plugin in self._plugins:
            await plugin.admit(write, new, old)
        rounds.begin_again(attributes.object)
        if await self._webhooks.mutate(attributes, complete, rounds):
            _take_back(write, new, attributes)

    async def validate(self, write: Write, new: Doc, old: Doc | None) -> None:
        if write.trusted:
            return
        for validator in self._validators:
            await validator.check(write, new, old)
        if not (self._policies.any or self._webhooks.validate_any):
            return
        attributes = _attributes_of(write, new, old)
        self._policies.check(attributes)
        await self._webhooks.validate(attributes)

    def check_creatable(self, write: Write, new: Doc) -> None:
        self._creatable_check.check_creatable(write, new)

    async def check_deletion(self, request: ResourceRequest, doc: Callable[[], Doc], options: DeleteOptions) -> None:
        """Ask whether an object may be deleted, alone or with others."""
        if not self._has_validators("DELETE", request):
            return
        said = {key: value for key, value in _options(options).items() if value is not None}
        attributes = _attributes_of_request(request, "DELETE", None, doc(), options_of("DeleteOptions", {}, **said))
        attributes.dry_run = "All" in options.dryRun
        await self._check(attributes)

    async def check_creation(
        self, request: ResourceRequest, form: tuple[str, str, str], doc: Callable[[], Doc], *, name: str, dry_run: bool
    ) -> None:
        """Ask about what is posted to a subresource of the object `name`: a Binding, an Eviction."""
        if not self._has_validators("CREATE", request):
            return
        attributes = _attributes_of_request(request, "CREATE", doc(), None, options_of("CreateOptions", request.query))
        attributes.name = name
        attributes.form = form
        attributes.dry_run = dry_run
        await self._check(attributes)

    def _has_validators(self, operation: Operation, request: ResourceRequest) -> bool:
        return (
            self._webhooks.mutate_any
            or self._policies.any
            or self._webhooks.validate_any
            or any(each.handles(operation, request.kind, request.subresource) for each in self._request_validators)
        )

    async def _check(self, attributes: AdmissionAttributes) -> None:
        def keep(_doc: Doc) -> None:
            """Such objects aren't stored: nothing needs to be completed."""

        for each in self._request_validators:
            if each.handles(attributes.operation, attributes.kind, attributes.subresource):
                await each.validate_request(attributes)
        await self._webhooks.mutate(attributes, keep, Rounds())
        self._policies.check(attributes)
        await self._webhooks.validate(attributes)


def _options(options: DeleteOptions) -> Doc:
    said: Doc = {
        "gracePeriodSeconds": options.gracePeriodSeconds,
        "orphanDependents": options.orphanDependents,
        "propagationPolicy": options.propagationPolicy,
        "dryRun": list(options.dryRun) or None,
    }
    if options.preconditions is not None:
        given = {"uid": options.preconditions.uid, "resourceVersion": options.preconditions.resourceVersion}
        said["preconditions"] = {key: value for key, value in given.items() if value is not None}
    return said


def _attributes_of(write: Write, new: Doc, old: Doc | None) -> AdmissionAttributes:
    view = write.view
    operation: Operation = "CREATE" if old is None else "UPDATE"
    return AdmissionAttributes(
        operation=operation,
        kind=write.kind,
        version=write.version,
        subresource=write.subresource,
        namespace=write.namespace,
        name=new["metadata"].get("name") or "",
        object=new if view is None else view.show(new),
        old=old if view is None or old is None else view.show(old),
        user=write.user,
        options=options_of("CreateOptions" if old is None else "UpdateOptions", write.query),
        dry_run=write.dry_run,
        warnings=write.warnings,
        form=None if view is None else (view.group, view.version, view.kind),
    )


def _attributes_of_request(
    request: ResourceRequest, operation: Operation, new: Doc | None, old: Doc | None, options: Doc
) -> AdmissionAttributes:
    return AdmissionAttributes(
        operation=operation,
        kind=request.kind,
        version=request.version,
        subresource=request.subresource,
        namespace=request.namespace,
        name=request.name,
        object=new,
        old=old,
        user=request.user,
        options=options,
        warnings=request.warnings,
    )


def _take_back(write: Write, new: Doc, attributes: AdmissionAttributes) -> None:
    """What was changed in the form of a subresource is changed in the object."""
    if write.view is not None and attributes.object is not None:
        write.view.write_back(new, attributes.object)


def _completing(write: Write, new: Doc) -> Callable[[Doc], None]:
    """Types and defaults of an object that a webhook changed, and what it may not change put back."""

    def complete(doc: Doc) -> None:
        metadata = doc["metadata"]
        meta.check_metadata_types(metadata)
        for key in _KEPT:
            meta.put_back(metadata, new["metadata"], key)
        strategy = write.version.strategy
        strategy.check_types(doc)
        strategy.default(doc)

    return complete
