"""Who gets in, and what they may do: bodies of typed clients, identities, roles, impersonation, limits."""

from __future__ import annotations

import json

from tests.e2e.cluster import Cluster


async def test_typed_clients_create_every_kind_of_object(cluster: Cluster) -> None:
    """kubectl create sends protobuf for the kinds that it knows."""
    for arguments in (
        ("deployment", "web", "--image=busybox:1", "--replicas=0", "--port=80"),
        ("quota", "small", "--hard=cpu=2,memory=1Gi,pods=5"),
        ("role", "reader", "--verb=get,list", "--resource=pods,deployments.apps", "--resource-name=a"),
        ("rolebinding", "reads", "--role=reader", "--user=jane", "--serviceaccount=default:bot"),
        ("configmap", "settings", "--from-literal=a=1"),
        ("secret", "generic", "hidden", "--from-literal=password=x"),
        ("job", "once", "--image=busybox:1", "--", "true"),
        ("cronjob", "often", "--image=busybox:1", "--schedule=*/5 * * * *"),
        ("poddisruptionbudget", "budget", "--selector=app=web", "--min-available=50%"),
        ("service", "clusterip", "front", "--tcp=80:8080"),
        ("serviceaccount", "bot"),
    ):
        assert "created" in await cluster.kubectl("create", *arguments)

    async def read(*what: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(await cluster.kubectl("get", *what, "-o", "json"))
        return found

    deployment = await read("deployment", "web")
    spec = deployment["spec"]
    assert isinstance(spec, dict)
    assert spec["replicas"] == 0
    assert spec["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert (await read("quota", "small"))["spec"] == {"hard": {"cpu": "2", "memory": "1Gi", "pods": "5"}}
    rules = (await read("role", "reader"))["rules"]
    assert rules == [
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a"], "verbs": ["get", "list"]},
    ]
    assert (await read("secret", "hidden"))["data"] == {"password": "eA=="}
    budget = (await read("pdb", "budget"))["spec"]
    assert isinstance(budget, dict)
    assert budget["minAvailable"] == "50%"
