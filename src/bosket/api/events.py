"""events.k8s.io/v1: events as they are written today; core/v1 serves the same objects in their old shape."""

from __future__ import annotations

from bosket.api.core.event import EventSource
from bosket.api.core.reference import ObjectReference
from bosket.api.object import KubeObject, Wire


class EventSeries(Wire):
    """How often an event happened, and when last."""

    count: int
    lastObservedTime: str | None = None


class Event(KubeObject):
    """Something that happened to an object."""

    eventTime: str | None = None
    series: EventSeries | None = None
    reportingController: str = ""
    reportingInstance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecatedSource: EventSource = EventSource()
    deprecatedFirstTimestamp: str | None = None
    deprecatedLastTimestamp: str | None = None
    deprecatedCount: int = 0
