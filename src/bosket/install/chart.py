"""The chart, and the same without Helm.

`chart_files` is the chart as files, which `python -m tests.install chart` writes to charts/bosket; `manifests` is what
Helm would render from it. Both are made from the same trees.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import yaml

from bosket import __version__
from bosket.api.crd import crd_manifests
from bosket.install import cluster_part, config_part, grove_part, policy_part
from bosket.install.account import ACCOUNTS, OPERATOR
from bosket.install.expression import Context, Text
from bosket.install.template import Tree, When, evaluate, write
from bosket.install.values import Values, check, completed, values_schema, values_text
from bosket.install.workload_part import Workload, deployment, image

_HEADER: Final = "# Made from src/bosket/install by: python -m tests.install chart\n"
_NAME: Final = "bosket"


def templates() -> dict[str, list[Tree]]:
    """Documents by the file that they are in, in an order in which they can be applied."""
    return {
        "namespaces.yaml": cluster_part.namespaces(),
        "service-accounts.yaml": cluster_part.accounts(),
        **{f"rbac/{account.name}.yaml": cluster_part.roles(account) for account in ACCOUNTS},
        "rbac/prometheus.yaml": cluster_part.prometheus_roles(),
        "policies.yaml": policy_part.policies(),
        "priority-classes.yaml": cluster_part.priority_classes(),
        "kai-config.yaml": [config_part.config()],
        "default-shard.yaml": [config_part.default_shard()],
        "default-queue.yaml": cluster_part.queues(),
        "operator.yaml": [operator_deployment()],
        "grove.yaml": grove_part.objects(),
    }


def manifests(values: Values, namespace: str, *, definitions: bool = True) -> list[dict[str, Any]]:
    """All objects of an installation; raises `InvalidValues`. `values` are those that differ from the defaults."""
    whole = completed(values)
    check(whole)
    context = Context(whole, namespace, __version__)
    documents = [
        evaluate(document, context)
        for group in templates().values()
        for document in group
        if not isinstance(document, When) or document.condition.evaluate(context)
    ]
    return [*(crd_manifests() if definitions else ()), *documents]


def namespace_manifest(name: str) -> dict[str, Any]:
    """The namespace itself, which Helm makes (`--create-namespace`) and the chart hasn't."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def chart_files() -> dict[str, str]:
    """The chart: text by path."""
    return {
        "Chart.yaml": _HEADER + as_yaml([_about()], explicit_start=False),
        "values.yaml": values_text(),
        "values.schema.json": msgspec.json.format(msgspec.json.encode(values_schema()), indent=2).decode() + "\n",
        **{f"crds/{each['metadata']['name']}.yaml": _HEADER + as_yaml([each]) for each in crd_manifests()},
        **{f"templates/{path}": _HEADER + write(documents) for path, documents in templates().items() if documents},
    }


def _about() -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": _NAME,
        "description": "Schedules AI workloads on Kubernetes: gangs, fair hierarchical queues, shared GPUs, topology",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.30.0-0",
    }


def as_yaml(documents: list[dict[str, Any]], *, explicit_start: bool = True) -> str:
    """YAML that any tool can read: what occurs twice is written twice."""
    # The dumper in C is some ten times as fast; wheels have it, a build from source may not.
    fastest = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    plain = type("PlainDumper", (fastest,), {"ignore_aliases": lambda _self, _data: True})
    text: str = yaml.dump_all(documents, Dumper=plain, sort_keys=False, explicit_start=explicit_start, width=120)
    return text


def operator_deployment() -> Tree:
    """The operator's Deployment, which deploys everything else but Grove's services.

    Two replicas by default, of which one works. It runs the services from its own image.
    """
    return deployment(Workload(OPERATOR, "operator", "operator", [Text(("--image=", image()))]))
