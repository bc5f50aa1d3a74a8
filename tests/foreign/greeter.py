"""An operator on kopf, run by `kopf run`: every Greeting gets a ConfigMap, and a status that follows it.

It uses what operators use: finalizers, annotations with the last state, adoption, status, timers.
"""

from __future__ import annotations

from typing import Any

import kopf
from kubernetes import client, config

GROUP, VERSION, PLURAL = "foreign.bosket.dev", "v1", "greetings"

_untyped: Any = client
_kopf: Any = kopf


@_kopf.on.startup()
def connect(**_: Any) -> None:
    """The official client writes what kopf doesn't."""
    loader: Any = config
    loader.load_kube_config()


@_kopf.on.create(GROUP, VERSION, PLURAL)
def create(spec: dict[str, Any], name: str, namespace: str, **_: Any) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": spec["text"]}}
    _kopf.adopt(body)
    _untyped.CoreV1Api().create_namespaced_config_map(namespace, body)
    return {"text": spec["text"]}


@_kopf.on.update(GROUP, VERSION, PLURAL, field="spec.text")
def update(new: str, name: str, namespace: str, patch: Any, **_: Any) -> None:
    _untyped.CoreV1Api().patch_namespaced_config_map(name, namespace, {"data": {"text": new}})
    patch.status["create"] = {"text": new}


@_kopf.timer(GROUP, VERSION, PLURAL, interval=2.0)
def count(status: dict[str, Any], patch: Any, **_: Any) -> None:
    patch.status["looks"] = status.get("looks", 0) + 1


@_kopf.on.delete(GROUP, VERSION, PLURAL)
def delete(**_: Any) -> None:
    """Nothing to do: the ConfigMap is owned. But until kopf has been here, the Greeting has to stay."""
