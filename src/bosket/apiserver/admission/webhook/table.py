"""All webhooks of one kind of configuration, in the order in which they are asked: by the configurations' names."""

from __future__ import annotations

from bosket.apiserver.admission.webhook.hook import Hook
from bosket.apiserver.store.entry import Event
from bosket.apiserver.store.store import Store

_GROUP = "admissionregistration.k8s.io"


class HookTable:
    """Kept in step with the configurations; made anew when it is needed after one of them changed."""

    def __init__(self, store: Store, plural: str) -> None:
        self._objects = store.resource(_GROUP, plural, namespaced=False)
        self._objects.listen(self._on_event)
        self._hooks: tuple[Hook, ...] | None = None

    def _on_event(self, _event: Event) -> None:
        self._hooks = None

    @property
    def hooks(self) -> tuple[Hook, ...]:
        hooks = self._hooks
        if hooks is None:
            entries = sorted(self._objects.entries(), key=lambda entry: entry.name)
            hooks = self._hooks = tuple(
                Hook.compile(entry.name, index, raw)
                for entry in entries
                for index, raw in enumerate(entry.decode().get("webhooks") or ())
            )
        return hooks
