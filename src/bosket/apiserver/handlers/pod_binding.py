"""The binding subresource: assigns a node to a pod, once."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bosket.api.core import Binding
from bosket.api.field_error import not_supported, required
from bosket.apiserver.admission.chain import AdmissionChain
from bosket.apiserver.objects.status_condition import set_condition
from bosket.apiserver.request.body import decode_order
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.request.response import created
from bosket.apiserver.status import bad_request, conflict, invalid
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.writing.writer import Writer, write_of
from bosket.kube.transport import Response

#: What those who are asked about a binding see.
_FORM: Final = ("", "v1", "Binding")


async def bind(request: ResourceRequest, writer: Writer, admission: AdmissionChain) -> Response:
    """Answer to POST pods/NAME/binding, and to the older POST bindings."""
    binding = await decode_order(request, writer.executor, Binding, "a Binding")
    name = request.name or binding.metadata.name
    if binding.metadata.name not in ("", name):
        raise bad_request(f"name in URL ({name}) does not match name in Binding object ({binding.metadata.name})")
    errors = []
    if binding.target.kind not in ("", "Node"):
        errors.append(not_supported("target.kind", binding.target.kind, ["Node", "<empty>"]))
    if not binding.target.name:
        errors.append(required("target.name"))
    if errors:
        raise invalid("", "Binding", name, errors)

    await admission.check_creation(
        request, _FORM, lambda: _shown(request, name, binding), name=name, dry_run=request.dry_run
    )

    def change(pod: Doc) -> Doc:
        _check(name, binding, pod)
        metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
        spec["nodeName"] = binding.target.name
        if binding.metadata.annotations:
            metadata.setdefault("annotations", {}).update(binding.metadata.annotations)
        if binding.metadata.labels:
            metadata.setdefault("labels", {}).update(binding.metadata.labels)
        conditions: list[Any] = status.setdefault("conditions", [])
        set_condition(conditions, {"type": "PodScheduled", "status": "True"}, writer.now())
        return pod

    await writer.update(write_of(request, trusted=True), name, change)
    return created()


def _shown(request: ResourceRequest, name: str, binding: Binding) -> Doc:
    doc: Doc = msgspec.to_builtins(binding)
    metadata = {**doc.get("metadata", {}), "name": name, "namespace": request.namespace}
    return {**doc, "apiVersion": "v1", "kind": "Binding", "metadata": metadata}


def _check(name: str, binding: Binding, pod: Doc) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    for what, key, wanted in (
        ("UID", "uid", binding.metadata.uid),
        ("ResourceVersion", "resourceVersion", binding.metadata.resourceVersion),
    ):
        if wanted and wanted != meta[key]:
            detail = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {meta[key]}"
            raise conflict("", "pods/binding", name, detail)
    if "deletionTimestamp" in pod["metadata"]:
        raise conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
