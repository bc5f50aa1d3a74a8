"""Events as core/v1 has them, and bindings."""

from __future__ import annotations

from bosket.api.core.reference import ObjectReference
from bosket.api.object import KubeObject, Wire


class EventSource(Wire):
    """Which component of which host reports an event."""

    component: str = ""
    host: str = ""


class EventSeries(Wire):
    """How often an event happened, and when last."""

    count: int = 0
    lastObservedTime: str | None = None


class Event(KubeObject):
    """Something that happened to an object."""

    involvedObject: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    firstTimestamp: str | None = None
    lastTimestamp: str | None = None
    count: int = 0
    type: str = ""
    eventTime: str | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reportingComponent: str = ""
    reportingInstance: str = ""


class Binding(KubeObject):
    """Assigns a pod to a node; posted to `pods/binding`."""

    target: ObjectReference = ObjectReference()
