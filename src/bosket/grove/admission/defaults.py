"""Defaults of a PodCliqueSet, set before validation.

Works on the document, not on a Struct: what this program doesn't know of a pod's spec stays as it is. What the
definition of the kind fills in (cliqueStartupType, replicas and minAvailable of groups) is there already.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from bosket.api.time import InvalidDuration, format_duration, parse_duration

_TERMINATION_DELAY: Final = "4h0m0s"
_TERMINATION_GRACE_SECONDS: Final = 30

Document = dict[str, Any]


def completed(document: Document) -> Document:
    """A copy with everything that was left out. What has no sensible shape is left for the schema to refuse."""
    done = copy.deepcopy(document)
    template = _map(_map(done.get("spec")).get("template"))
    if not template:
        return done
    for clique in _list(template.get("cliques")):
        _complete_clique(_map(_map(clique).get("spec")), _map(clique).get("name"))
    for group in _list(template.get("podCliqueScalingGroups")):
        scaling = _map(_map(group).get("scaleConfig"))
        if scaling and scaling.get("minReplicas") is None:
            scaling["minReplicas"] = group.get("replicas", 1)
    template["terminationDelay"] = _duration(template.get("terminationDelay"))
    if template.get("headlessServiceConfig") is None:
        template["headlessServiceConfig"] = {"publishNotReadyAddresses": True}
    return done


def _complete_clique(spec: Document, name: Any) -> None:
    """The minimum is what was submitted, also where that was 0 and becomes 1: such a clique is refused, as by Grove.

    Unlike in Grove a role that isn't named is the clique's own: two cliques without one would be refused there.
    """
    if not spec:
        return
    submitted = spec.get("replicas") or 0
    spec["replicas"] = submitted or 1
    spec["roleName"] = spec.get("roleName") or name or ""
    if spec.get("minAvailable") is None:
        spec["minAvailable"] = submitted
    scaling = _map(spec.get("autoScalingConfig"))
    if scaling and scaling.get("minReplicas") is None:
        scaling["minReplicas"] = submitted
    pod = _map(spec.get("podSpec"))
    if pod:
        pod["restartPolicy"] = pod.get("restartPolicy") or "Always"
        if pod.get("terminationGracePeriodSeconds") is None:
            pod["terminationGracePeriodSeconds"] = _TERMINATION_GRACE_SECONDS


def _duration(text: Any) -> Any:
    """As Go writes it, so that equal ones look equal."""
    if text is None:
        return _TERMINATION_DELAY
    try:
        return format_duration(parse_duration(text)) if isinstance(text, str) else text
    except InvalidDuration:
        return text


def _map(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
