"""Whether every service may do what it must. The answers are in the bundle: `collect` asked the API server."""

from __future__ import annotations

from collections.abc import Iterator

from bosket.diagnosis.finding import Finding, Severity, counted, some
from bosket.diagnosis.installation import Installation


def check(installation: Installation) -> Iterator[Finding]:
    """Rights that services lack, one finding for each service."""
    by_account: dict[str, list[str]] = {}
    for refused in installation.bundle.refused or ():
        need = refused.need
        where = f" in namespace {need.namespace}" if need.namespace else ""
        by_account.setdefault(need.service_account, []).append(f"{need.verb} {need.group_resource}{where}")
    for account, lacking in by_account.items():
        verb, resource = lacking[0].split(" ")[:2]
        yield Finding(
            "access-missing",
            Severity.ERROR,
            f"ServiceAccount {installation.namespace}/{account}",
            "",
            f"the service can't do its work: it lacks {counted(len(lacking), 'right')} ({some(lacking)})",
            "apply the roles that come with this version again",
            f"kubectl auth can-i {verb} {resource} --as=system:serviceaccount:{installation.namespace}:{account}",
        )
