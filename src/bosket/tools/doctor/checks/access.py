"""Whether every service may do what it must. The answers are in the bundle: `collect` asked the API server."""

from __future__ import annotations

from collections.abc import Iterator

from bosket.tools.doctor.bundle import AccessNeed
from bosket.tools.doctor.finding import Finding, Severity, counted, some
from bosket.tools.doctor.installation import Installation


def check(installation: Installation) -> Iterator[Finding]:
    """Rights that services lack, one finding for each service."""
    by_account: dict[str, list[AccessNeed]] = {}
    for refused in installation.bundle.refused or ():
        by_account.setdefault(refused.need.service_account, []).append(refused.need)
    for account, lacking in by_account.items():
        yield Finding(
            "access-missing",
            Severity.ERROR,
            f"ServiceAccount {installation.namespace}/{account}",
            "",
            f"the service can't do its work: it lacks {counted(len(lacking), 'right')} ({some(lacking)})",
            "apply the roles that come with this version again",
            _question(lacking[0], installation.namespace),
        )


def _question(need: AccessNeed, namespace: str) -> str:
    """The same question for kubectl."""
    subresource = f" --subresource={need.subresource}" if need.subresource else ""
    what = f"{need.group_resource}/{need.name}" if need.name else need.group_resource
    where = f"-n {need.namespace}" if need.namespace else "--all-namespaces"
    account = f"--as=system:serviceaccount:{namespace}:{need.service_account}"
    return f"kubectl auth can-i {need.verb} {what}{subresource} {where} {account}"
