"""Writer: every creation and every change passes through it.

    decoded object → types → defaults → admission → what clients have no say in is undone → rules → validation → stored

Admission completes objects and may ask webhooks; validation, by policies and webhooks, only refuses.

Handlers (`rest`, `subresource`), the garbage collector and the namespace drain all write through here. The
methods are coroutines because admission may have to ask somebody; what was read is checked again before it is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bosket.api.field_error import FieldError, invalid_value, not_supported, required, too_long
from bosket.api.time import format_time
from bosket.apiserver.apply.managed import (
    Manager,
    after_creation,
    after_update,
    is_listing,
    known_managers,
    managers_of,
)
from bosket.apiserver.apply.shape import shape_of
from bosket.apiserver.objects import metadata as meta
from bosket.apiserver.objects.field_validation import repeated_keys
from bosket.apiserver.objects.kind import Kind, Version
from bosket.apiserver.request.executor import LargeObjectExecutor
from bosket.apiserver.request.resource_request import ResourceRequest, User
from bosket.apiserver.status import (
    OBJECT_MODIFIED,
    WrongType,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_options,
    not_found,
)
from bosket.apiserver.store.entry import Doc, Entry
from bosket.apiserver.writing.claims import StorageKey, WriteClaims
from bosket.runtime.clock import Clock

_MAX_MANAGER_LENGTH = 128
#: Attempts at a generated name before the collision is an error.
_NAME_ATTEMPTS = 8
#: For how long a change is worked out again because the object changed while admission was being asked: about the time
#: that kube-apiserver has for a request.
_CHANGE_SECONDS = 30.0

#: Who writes when the server does so by itself.
SERVER = User("system:apiserver", ("system:masters",))

#: Works out the new state from a private copy of the old one.
Change = Callable[[Doc], Doc]


@dataclass(frozen=True, slots=True)
class SubresourceView:
    """The form in which a subresource shows its object: a Deployment's scale is a Scale."""

    group: str
    version: str
    kind: str
    show: Callable[[Doc], Doc]
    #: puts a changed form back into the object
    write_back: Callable[[Doc, Doc], None]


@dataclass(slots=True)
class Write:
    """One write on its way in."""

    kind: Kind
    version: Version
    namespace: str
    subresource: str = ""
    dry_run: bool = False
    #: the server's own doing (a binding, a finalizer that is done): no types, defaults, admission or rules to ask
    trusted: bool = False
    #: who writes, as managedFields names it, and whether the client said so itself
    manager: str = "unknown"
    manager_given: bool = False
    #: what is written is a patch
    patching: bool = False
    #: an apply patch: it has settled managedFields already
    applying: bool = False
    #: Strict refuses fields that the kind doesn't have, Warn tells of them, Ignore says nothing
    field_validation: str = "Warn"
    #: the request's body, where duplicate keys are to be reported
    body: bytes = b""
    warnings: list[str] = field(default_factory=list)
    user: User = SERVER
    #: the parameters of the request
    query: Mapping[str, str] = field(default_factory=dict)
    #: how those who are asked about it see the object, where the subresource has a form of its own
    view: SubresourceView | None = None
    #: of the request's body; 0: what changes the object may look at the store, and stays on the loop
    size_bytes: int = 0


def write_of(request: ResourceRequest, *, trusted: bool = False, view: SubresourceView | None = None) -> Write:
    """The write that a call asks for."""
    options = {"create": "CreateOptions", "update": "UpdateOptions"}.get(request.verb, "PatchOptions")
    dry_run = request.query.get("dryRun")
    if dry_run not in (None, "All"):
        raise invalid_options(options, not_supported("dryRun", [dry_run], ("All",)))
    validation = request.query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        choices = ("", "Ignore", "Strict", "Warn")
        raise invalid_options(options, not_supported("fieldValidation", validation, choices))
    manager = request.query.get("fieldManager", "")
    if problem := manager_error(manager):
        raise invalid_options(options, problem)
    return Write(
        kind=request.kind,
        manager=manager or request.headers.get("user-agent", "").partition("/")[0] or "unknown",
        manager_given=bool(manager),
        version=request.version,
        namespace=request.namespace,
        subresource=request.subresource,
        dry_run=dry_run == "All",
        field_validation=validation,
        body=request.body if request.query.get("fieldValidation") in ("Warn", "Strict") and _is_json(request) else b"",
        trusted=trusted,
        warnings=request.warnings,
        user=request.user,
        query=request.query,
        view=view,
        patching=request.verb == "patch",
        size_bytes=0 if trusted else max(1, len(request.body)),
    )


def own_write(kind: Kind, namespace: str, manager: str) -> Write:
    """A write of the server itself; `manager` is the part of it that writes."""
    version = kind.versions.get(kind.storage_version) or next(iter(kind.versions.values()))
    return Write(kind=kind, version=version, namespace=namespace, manager=manager, trusted=True)


class Admission(Protocol):
    """Those who are asked about what is written; they refuse by raising."""

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        """Complete the new object."""
        ...

    async def validate(self, write: Write, new: Doc, old: Doc | None) -> None:
        """Have the last word on it."""
        ...

    def check_creatable(self, write: Write, new: Doc) -> None:
        """Whether a new object has a place: asked when it is stored, since much may have gone while others were."""
        ...


class Writer:
    """Creates, changes and removes objects."""

    def __init__(self, clock: Clock, admission: Admission, executor: LargeObjectExecutor) -> None:
        self._clock = clock
        self._admission = admission
        self._claims = WriteClaims()
        #: where large objects are worked on
        self.executor = executor
        self._now: tuple[int, str] = (0, "")

    def now(self) -> str:
        """The time as objects carry it."""
        second = int(self._clock.now())
        if self._now[0] != second:
            self._now = (second, format_time(second))
        return self._now[1]

    # creating

    async def create(self, write: Write, doc: Doc) -> Entry:
        kind, version, strategy = write.kind, write.version, write.version.strategy
        size = write.size_bytes * strategy.effort
        await self.executor.run(size, self._begin, write, doc, self._author(write))
        await self._admission.admit(write, doc, None)
        metadata = doc["metadata"]
        meta.begin(metadata, now=self.now(), generation=strategy.has_generation)
        if not metadata.get("name"):
            metadata["name"] = self._generate_name(write, metadata.get("generateName"))
        strategy.prepare_create(doc)
        await self.executor.run(size, self._check, write, doc, None)
        await self._admission.validate(write, doc, None)
        self._admission.check_creatable(write, doc)
        resource_store = kind.objects
        if resource_store.get(write.namespace, metadata["name"]) is not None:
            raise already_exists(kind.group, kind.plural, metadata["name"])
        if version.to_storage is not None:
            doc = version.to_storage(doc)
        return resource_store.preview(doc) if write.dry_run else resource_store.insert(doc, creator=write.manager)

    def _begin(self, write: Write, doc: Doc, author: Manager) -> None:
        """What is done about a new object before anybody is asked: types, defaults, owners of its fields."""
        strategy, metadata = write.version.strategy, doc["metadata"]
        meta.check_metadata_types(metadata)
        self._settle_namespace(write, metadata)
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if not write.applying:
            metadata.pop("managedFields", None)
        self._complete(write, doc)
        if write.manager_given and not write.applying:
            shown = {key: value for key, value in doc.items() if key != "status" or not strategy.has_status}
            after_creation(shown, shape_of(write.version), author)

    def _check(self, write: Write, new: Doc, old: Doc | None) -> None:
        """Raise what is wrong with an object by the rules of its kind."""
        strategy = write.version.strategy
        errors = meta.validate_metadata(write.version, new["metadata"], None if old is None else old["metadata"])
        if write.subresource == "status" and old is not None:
            errors += strategy.validate_status(new, old)
        elif write.subresource in ("", "scale"):
            errors += strategy.validate(new, old)
        if errors:
            name = (new if old is None else old)["metadata"]["name"]
            raise invalid(write.kind.group, write.kind.kind, name, errors)

    def _generate_name(self, write: Write, base: str | None) -> str:
        if not base:
            errors = [required("metadata.name", "name or generateName is required")]
            raise invalid(write.kind.group, write.kind.kind, "", errors)
        name = meta.generate_name(base)
        for _ in range(_NAME_ATTEMPTS):
            if write.kind.objects.get(write.namespace, name) is None:
                break
            name = meta.generate_name(base)
        return name

    def _settle_namespace(self, write: Write, metadata: dict[str, Any]) -> None:
        given = metadata.get("namespace", "")
        if given != write.namespace:
            if given:
                raise bad_request(
                    f"the namespace of the provided object ({given}) does not match the namespace sent on the request "
                    f"({write.namespace})"
                )
            metadata["namespace"] = write.namespace
        if not write.namespace:
            metadata.pop("namespace", None)

    def _complete(self, write: Write, doc: Doc) -> None:
        """Types and defaults."""
        strategy = write.version.strategy
        unknown = strategy.check_types(doc)
        if (unknown or write.body) and write.field_validation != "Ignore":
            _tell(write, unknown)
        strategy.default(doc)

    # changing

    async def update(self, write: Write, name: str, change: Change) -> Entry:
        """Replace an object by what `change` makes of it.

        A resourceVersion in the new state must be the current one. An update that changes nothing
        isn't one: the version stays.
        """
        kind = write.kind
        key = StorageKey(kind.group, kind.plural, write.namespace, name)
        if not write.trusted:
            await self._claims.wait(key)
        if (stored := await self._try(write, name, change)) is not None:
            return stored
        await self._work_out(write, name, change)  # one that insists on its version has lost, and need not wait
        give_up = self._clock.monotonic() + _CHANGE_SECONDS
        async with self._claims.claim(key):
            while self._clock.monotonic() < give_up:
                if (stored := await self._try(write, name, change)) is not None:
                    return stored
        raise conflict(kind.group, kind.plural, name, OBJECT_MODIFIED)

    async def _try(self, write: Write, name: str, change: Change) -> Entry | None:
        """The object as it was stored; None if it changed while admission was asked, or while it was worked on."""
        entry, old, new = await self._work_out(write, name, change)
        size = _size(write, entry)
        if not write.trusted:
            await self._settle(write, new, old, size)
        unchanged = await self.executor.run(size, self._finish, write, entry, new, old, self._author(write))
        if write.kind.objects.get(write.namespace, name) is not entry:
            return None
        return entry if unchanged else self._store(write, entry, new)

    async def _work_out(self, write: Write, name: str, change: Change) -> tuple[Entry, Doc, Doc]:
        """The object as it is stored, and what it was and would be in the version of the request."""
        kind = write.kind
        entry = kind.objects.get(write.namespace, name)
        if entry is None:
            raise not_found(kind.group, kind.plural, name)
        old, new = await self.executor.run(_size(write, entry), self._changed, write, entry, change)
        given = new["metadata"].get("resourceVersion")
        if given and given != str(entry.version):
            raise conflict(kind.group, kind.plural, name, OBJECT_MODIFIED)
        return entry, old, new

    def _changed(self, write: Write, entry: Entry, change: Change) -> tuple[Doc, Doc]:
        """The object as it is, and as the change makes it."""
        return self._at_version(entry, write), change(self._at_version(entry, write))

    def _at_version(self, entry: Entry, write: Write) -> Doc:
        doc = entry.decode()
        convert = write.version.from_storage
        return doc if convert is None else convert(doc)

    async def _settle(self, write: Write, new: Doc, old: Doc, size: int) -> None:
        """Make `new` what may be stored in place of `old`, or raise."""
        await self.executor.run(size, self._restrict, write, new, old)
        await self._admission.admit(write, new, old)
        strategy = write.version.strategy
        if write.subresource == "status":
            strategy.prepare_status(new, old)
        else:
            strategy.prepare_update(new, old)
        await self.executor.run(size, self._check, write, new, old)
        await self._admission.validate(write, new, old)

    def _restrict(self, write: Write, new: Doc, old: Doc) -> None:
        """Types and defaults of a changed object, and what the client has no say in as it was."""
        kind = write.kind
        metadata, old_metadata = new["metadata"], old["metadata"]
        meta.check_metadata_types(metadata)
        if (uid := metadata.get("uid")) and uid != old_metadata["uid"]:
            if write.patching:
                raise invalid(
                    kind.group,
                    kind.kind,
                    old_metadata["name"],
                    [invalid_value("metadata.uid", uid, "field is immutable")],
                )
            raise conflict(
                kind.group,
                kind.plural,
                old_metadata["name"],
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old_metadata['uid']}",
            )
        for key in ("name", "namespace"):
            given, there = metadata.get(key, ""), old_metadata.get(key, "")
            if given != there:
                raise bad_request(f"the {key} of the object ({given}) does not match the {key} on the URL ({there})")
        self._complete(write, new)
        meta.carry_over(metadata, old_metadata)
        if not write.applying:
            if metadata.get("managedFields") in ([], [{}]):  # resets, as in Kubernetes
                del metadata["managedFields"]
            elif not metadata.get("managedFields") or not is_listing(metadata["managedFields"]):
                meta.put_back(metadata, old_metadata, "managedFields")
        metadata["resourceVersion"] = old_metadata["resourceVersion"]

    def _author(self, write: Write) -> Manager:
        """Who writes, as an owner of nothing yet."""
        api_version = write.kind.api_version(write.version.name)
        return Manager(write.manager, "Update", api_version, write.subresource, set(), self.now())

    def _finish(self, write: Write, entry: Entry, new: Doc, old: Doc, author: Manager) -> bool:
        """Note who owns what now, and count the generation; whether nothing changed at all."""
        if new == old:
            return True
        metadata = new["metadata"]
        begins = write.manager_given and not old["metadata"].get("managedFields")
        if not write.applying and (begins or metadata.get("managedFields")):
            shape = shape_of(write.version)
            managers = known_managers(old, entry.creator, shape) if begins else managers_of(new)
            after_update(new, old, shape, author, managers)
        strategy = write.version.strategy
        if strategy.has_generation and write.subresource != "status" and _spec_differs(new, old, strategy.has_status):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        return False

    def _store(self, write: Write, entry: Entry, new: Doc) -> Entry:
        resource_store = write.kind.objects
        if write.version.to_storage is not None:
            new = write.version.to_storage(new)
        if write.dry_run:
            return resource_store.preview(new)
        if write.version.strategy.may_go(new):
            return resource_store.remove(entry, new)
        return resource_store.replace(entry, new)


def _size(write: Write, entry: Entry) -> int:
    """Of what there is to work on in a change; 0 where it stays on the loop."""
    return max(write.size_bytes, len(entry.encoded)) * write.version.strategy.effort if write.size_bytes else 0


def _is_json(request: ResourceRequest) -> bool:
    kind = request.headers.get("content-type", "")
    return not kind or "json" in kind


def _tell(write: Write, unknown: list[str]) -> None:
    """Of fields that the kind doesn't have, and of keys that are there twice: by warnings, or by refusing."""
    repeated, write.body = repeated_keys(write.body) if write.body else [], b""
    described = [f'duplicate field "{path}"' for path in repeated] + [f'unknown field "{path}"' for path in unknown]
    if described and write.field_validation == "Strict":
        kind = write.kind.kind
        raise WrongType(
            f'{kind} in version "{write.version.name}" cannot be handled as a {kind}: '
            f"strict decoding error: {', '.join(described)}"
        )
    write.warnings += described


def manager_error(name: str) -> FieldError | None:
    """What keeps `name` from being the name of a field manager."""
    if len(name) > _MAX_MANAGER_LENGTH:
        return too_long("fieldManager", _MAX_MANAGER_LENGTH)
    for position, sign in enumerate(name):
        if not sign.isprintable():
            return invalid_value("fieldManager", name, f"invalid character U+{ord(sign):04X} (at position {position})")
    return None


def _spec_differs(new: Doc, old: Doc, has_status: bool) -> bool:
    """Whether anything but metadata changed; status, too, unless it is a part of its own."""
    for key in new.keys() | old.keys():
        apart = key in ("metadata", "apiVersion") or (key == "status" and has_status)
        if not apart and new.get(key) != old.get(key):
            return True
    return False
