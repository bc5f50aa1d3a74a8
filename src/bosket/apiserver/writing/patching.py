"""The patch formats: which one a content type means, and how a document looks after it."""

from __future__ import annotations

from typing import Any

import msgspec

from bosket.apiserver.objects.kind import Kind
from bosket.apiserver.objects.strategic import strategic_merge
from bosket.apiserver.request.body import check_depth, media_type
from bosket.apiserver.status import StatusError, bad_request, describe, unprocessable, unsupported_media_type
from bosket.apiserver.store.entry import Doc
from bosket.kube.patch import PatchError, PatchTooLarge, apply_json_patch, merge_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
#: A JSON patch may have this many operations.
MAX_OPERATIONS = 10_000


def is_apply(content_type: str) -> bool:
    """Whether a patch is a server-side apply, which is not a patch of the document alone."""
    return media_type(content_type) == APPLY_PATCH


def patched(doc: Doc, patch: Any, content_type: str, kind: Kind, struct: type[msgspec.Struct] | None) -> Any:
    """`doc` after the patch; may share with both, and change neither."""
    form = media_type(content_type)
    if form == JSON_PATCH:
        if not isinstance(patch, list):
            raise bad_request(f"a JSON patch is a list of operations, not {describe(patch)}")
        if len(patch) > MAX_OPERATIONS:
            message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
            raise StatusError(413, "RequestEntityTooLarge", message)
        try:
            result = apply_json_patch(doc, patch)
            check_depth(result)  # operations may nest deeper than their body did
            return result
        except PatchTooLarge as error:
            raise StatusError(413, "RequestEntityTooLarge", f"the patch can't be applied: {error}") from None
        except PatchError as error:
            raise unprocessable(str(error)) from None
    if form in (MERGE_PATCH, STRATEGIC_PATCH):
        if not isinstance(patch, dict):
            raise bad_request(f"a merge patch is an object, not {describe(patch)}")
        if form == MERGE_PATCH:
            return merge_patch(doc, patch)
        if not kind.custom:
            return strategic_merge(doc, patch, struct)
    accepted = (JSON_PATCH, MERGE_PATCH, *(() if kind.custom else (STRATEGIC_PATCH,)), APPLY_PATCH)
    raise unsupported_media_type("accepted media types include: " + ", ".join(accepted))
