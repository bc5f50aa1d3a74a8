"""The columns of workloads."""

from __future__ import annotations

from bosket.api.time import parse_time
from bosket.apiserver.objects.kind import Column
from bosket.apiserver.objects.status_condition import find_condition
from bosket.apiserver.printers.cell import NONE, UNSET, at, cell, containers, field, map_text, selector
from bosket.apiserver.printers.table import AGE, NAME, age, human_duration
from bosket.apiserver.store.entry import Doc

_TEMPLATE = "spec.template.spec.containers"
_JOB_TEMPLATE = "spec.jobTemplate.spec.template.spec.containers"


def _ready(doc: Doc) -> str:
    return f"{at(doc, 'status.readyReplicas', 0)}/{at(doc, 'spec.replicas', 0)}"


def _job_status(doc: Doc) -> str:
    conditions = at(doc, "status.conditions", [])

    def holds(kind: str) -> bool:
        return (find_condition(conditions, kind) or {}).get("status") == "True"

    for kind, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if holds(kind):
            return word
    if "deletionTimestamp" in doc["metadata"]:
        return "Terminating"
    if holds("Suspended"):
        return "Suspended"
    if holds("FailureTarget"):
        return "FailureTarget"
    return "SuccessCriteriaMet" if holds("SuccessCriteriaMet") else "Running"


def _completions(doc: Doc) -> str:
    succeeded = at(doc, "status.succeeded", 0)
    wanted = at(doc, "spec.completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = at(doc, "spec.parallelism", 1)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(doc: Doc, now: float) -> str:
    started = at(doc, "status.startTime")
    if started is None:
        return ""
    ended = at(doc, "status.completionTime")
    return human_duration((parse_time(ended) if ended else now) - parse_time(started))


def _last_schedule(doc: Doc, now: float) -> str:
    when = at(doc, "status.lastScheduleTime")
    return age(when, now) if when else NONE


def _suspended(doc: Doc) -> str:
    return str(at(doc, "spec.suspend", False))


def _number(name: str, path: str) -> Column:
    return field(name, path, 0, type="integer")


_SET = (
    NAME,
    _number("Desired", "spec.replicas"),
    _number("Current", "status.replicas"),
    _number("Ready", "status.readyReplicas"),
    AGE,
    *containers(_TEMPLATE),
)

COLUMNS = {
    ("apps", "Deployment"): (
        NAME,
        cell("Ready", _ready),
        _number("Up-to-date", "status.updatedReplicas"),
        _number("Available", "status.availableReplicas"),
        AGE,
        *containers(_TEMPLATE),
        selector(),
    ),
    ("apps", "ReplicaSet"): (*_SET, selector()),
    ("", "ReplicationController"): (
        *_SET,
        cell("Selector", lambda doc: map_text(at(doc, "spec.selector")), priority=1),
    ),
    ("apps", "StatefulSet"): (NAME, cell("Ready", _ready), AGE, *containers(_TEMPLATE)),
    ("apps", "DaemonSet"): (
        NAME,
        _number("Desired", "status.desiredNumberScheduled"),
        _number("Current", "status.currentNumberScheduled"),
        _number("Ready", "status.numberReady"),
        _number("Up-to-date", "status.updatedNumberScheduled"),
        _number("Available", "status.numberAvailable"),
        cell("Node Selector", lambda doc: map_text(at(doc, "spec.template.spec.nodeSelector"))),
        AGE,
        *containers(_TEMPLATE),
        selector(),
    ),
    ("apps", "ControllerRevision"): (NAME, field("Revision", "revision", type="integer"), AGE),
    ("batch", "Job"): (
        NAME,
        cell("Status", _job_status),
        cell("Completions", _completions),
        Column("Duration", _duration),
        AGE,
        *containers(_TEMPLATE),
        selector(),
    ),
    ("batch", "CronJob"): (
        NAME,
        field("Schedule", "spec.schedule"),
        field("Timezone", "spec.timeZone", NONE),
        cell("Suspend", _suspended),
        cell("Active", lambda doc: len(at(doc, "status.active", ())), type="integer"),
        Column("Last Schedule", _last_schedule),
        AGE,
        *containers(_JOB_TEMPLATE),
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): (
        NAME,
        cell("Reference", lambda doc: f"{at(doc, 'spec.scaleTargetRef.kind')}/{at(doc, 'spec.scaleTargetRef.name')}"),
        field("MinPods", "spec.minReplicas", UNSET),
        field("MaxPods", "spec.maxReplicas", type="integer"),
        _number("Replicas", "status.currentReplicas"),
        AGE,
    ),
}
