"""Authorization of changes to a set's children: only the operator, and accounts that an administrator exempts.

Pods may be deleted by anybody who may delete pods, and a set may give up its protection by an annotation. What a label
says is read from the object as it was: who takes the label away is still asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bosket.api.admission import AdmissionRequest
from bosket.api.grove.naming import PART_OF_LABEL, UNPROTECTED_ANNOTATION
from bosket.api.grove.operator_configuration import AuthorizerConfiguration
from bosket.grove.admission.lookup import Lookup
from bosket.runtime.webhook.verdict import ADMITTED, Refusal, Verdict


def authorize(
    request: AdmissionRequest, authorizer: AuthorizerConfiguration, operator: str, cluster: Lookup
) -> Verdict:
    """Whether the request may be carried out; `operator` is the operator's user name."""
    if request.operation == "CONNECT":
        return ADMITTED
    metadata = _metadata(request.object if request.operation == "CREATE" else request.oldObject)
    namespace, name = metadata.get("namespace") or request.namespace, metadata.get("name") or request.name
    where = f"{namespace}/{name}"
    owner = _labels(metadata).get(PART_OF_LABEL)
    if not owner:
        return Verdict(warnings=(f"{where} has no label {PART_OF_LABEL}: nobody knows whose it is",))
    annotations = cluster.set_annotations(namespace, owner)
    if annotations is None:
        return Verdict(warnings=(f"the PodCliqueSet {owner} of {where} was not found",))
    if annotations.get(UNPROTECTED_ANNOTATION) == "true":
        return ADMITTED
    kind = request.kind.kind if request.kind is not None else "object"
    if request.operation == "DELETE" and kind == "Pod":
        return ADMITTED
    user = request.userInfo.username
    if user == operator or user in authorizer.exemptServiceAccountUserNames:
        return ADMITTED
    done = {"CREATE": "created", "UPDATE": "changed", "DELETE": "deleted"}.get(request.operation, "changed")
    words = (
        f"{kind} {where} is managed by PodCliqueSet {namespace}/{owner} and may be {done} by Grove's operator only: "
        f"change the PodCliqueSet, or set its annotation {UNPROTECTED_ANNOTATION} to true"
    )
    return Verdict((Refusal("", words),), words=words)


def _metadata(document: Any) -> Mapping[str, Any]:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _labels(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    labels = metadata.get("labels")
    return labels if isinstance(labels, dict) else {}
