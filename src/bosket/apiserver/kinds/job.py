"""Jobs and cron jobs."""

from __future__ import annotations

from typing import Any

from bosket.api.cron import InvalidCron, parse_schedule, time_zone
from bosket.api.field_error import FieldError, invalid_value, not_supported, required
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.kinds.workload import default_template, validate_template
from bosket.apiserver.store.entry import Doc

_RESTART = ("OnFailure", "Never")
_MAX_INT32 = 2**31 - 1
#: What may change in the template of a job that is suspended: where its pods may go.
_SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _default_job_spec(spec: dict[str, Any]) -> None:
    spec.setdefault("template", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def _prepare_create(doc: Doc) -> None:
    """Unless the user selects by hand, a job knows its pods by its own UID."""
    doc["status"] = {}
    spec, metadata = doc["spec"], doc["metadata"]
    if spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    uid, name = metadata["uid"], metadata["name"]
    labels.update(
        {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
    )
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault("batch.kubernetes.io/controller-uid", uid)


def _validate_job(new: Doc, old: Doc | None) -> list[FieldError]:
    spec = new["spec"]
    errors = _validate_job_spec(spec, "spec")
    name = new["metadata"]["name"]
    if old is None:
        if len(name) > 63:
            errors.append(invalid_value("metadata.name", name, "must be no more than 63 characters"))
        return errors
    before = old["spec"]
    if spec.get("selector") != before.get("selector"):
        errors.append(invalid_value("spec.selector", spec.get("selector"), "field is immutable"))
    if spec.get("completionMode") != before.get("completionMode"):
        errors.append(invalid_value("spec.completionMode", spec.get("completionMode"), "field is immutable"))
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if spec.get("completions") != before.get("completions") and not elastic:
        errors.append(invalid_value("spec.completions", spec.get("completions"), "field is immutable"))
    not_started = before.get("suspend", False) and not old.get("status", {}).get("startTime")
    if _fixed(spec["template"], not_started) != _fixed(before["template"], not_started):
        errors.append(invalid_value("spec.template", "the template", "field is immutable"))
    return errors


def _fixed(template: dict[str, Any], not_started: bool) -> Any:
    if not not_started:
        return template
    return {key: value for key, value in template["spec"].items() if key not in _SCHEDULING}


def _validate_job_spec(spec: dict[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        value = spec.get(key)
        if value is not None and value < 0:
            errors.append(invalid_value(f"{path}.{key}", value, "must be greater than or equal to 0"))
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        errors.append(not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    elif mode == "Indexed" and "completions" not in spec:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    template = spec.get("template")
    if template is not None and template["spec"]["restartPolicy"] == "Always":
        errors.append(required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
        return errors
    return errors + validate_template(spec, path, restart=_RESTART)


def _validate_cron_job(new: Doc, _old: Doc | None) -> list[FieldError]:
    spec = new["spec"]
    errors: list[FieldError] = []
    if not spec.get("schedule"):
        errors.append(required("spec.schedule"))
    else:
        errors += _validate_schedule(spec["schedule"])
    zone = spec.get("timeZone")
    if zone is not None:
        errors += _validate_time_zone(zone)
    for key in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        if spec.get(key, 0) < 0:
            errors.append(invalid_value(f"spec.{key}", spec[key], "must be greater than or equal to 0"))
    policies = ("Allow", "Forbid", "Replace")
    if spec["concurrencyPolicy"] not in policies:
        errors.append(not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], policies))
    template = spec.get("jobTemplate")
    if template is None:
        return [*errors, required("spec.jobTemplate")]
    return errors + _validate_job_spec(template["spec"], "spec.jobTemplate.spec")


def _validate_schedule(text: str) -> list[FieldError]:
    if "TZ" in text:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [invalid_value("spec.schedule", text, detail)]
    try:
        parse_schedule(text)
    except InvalidCron as error:
        return [invalid_value("spec.schedule", text, str(error))]
    return []


def _validate_time_zone(name: str) -> list[FieldError]:
    if not name:
        return [invalid_value("spec.timeZone", name, "timeZone must be nil or non-empty string")]
    if name.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid_value("spec.timeZone", name, detail)]
    try:
        time_zone(name)
    except InvalidCron as error:
        return [invalid_value("spec.timeZone", name, str(error))]
    return []


def behaviours(scheduler_name: str) -> dict[tuple[str, str], Behaviour]:
    """Jobs, with the scheduler of templates that name none."""

    def default_job(doc: Doc) -> None:
        spec = doc.setdefault("spec", {})
        _default_job_spec(spec)
        default_template(spec, scheduler_name)

    def default_cron_job(doc: Doc) -> None:
        spec = doc.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        if "jobTemplate" in spec:
            spec["jobTemplate"].setdefault("metadata", {})
            job = spec["jobTemplate"].setdefault("spec", {})
            _default_job_spec(job)
            default_template(job, scheduler_name)

    return {
        ("batch", "Job"): Behaviour(
            default=default_job,
            prepare_create=_prepare_create,
            validate=_validate_job,
            selectable={"status.successful": lambda doc: doc.get("status", {}).get("succeeded", 0)},
            generation=True,
            default_propagation="Orphan",
        ),
        ("batch", "CronJob"): Behaviour(default=default_cron_job, validate=_validate_cron_job, generation=True),
    }
