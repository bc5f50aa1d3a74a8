"""The scheduler keeps of pods and nodes what decisions rest on, once for all that have it in common."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec
import pytest

from bosket.api.core import Container, Node, Pod
from bosket.kube.codec import codec_of
from bosket.kube.informer import Informers
from bosket.scheduler.io import feed, lean_kinds
from bosket.scheduler.io.lean_kinds import MOST_PARTS, PodSharing
from bosket.scheduler.plugins.predicates.unfit import required_config_maps
from bosket.scheduler.recording.redaction import bare, bare_pod
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import node, pod
from tests.present import present
from tests.rig import NAMESPACE, make_rig


def everything(kind: Any, depth: int = 0) -> Any:
    """A document of the kind in which every field is set."""
    origin, args = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {
            each.encode_name: everything(each.type, depth + 1)
            for each in msgspec.structs.fields(kind)
            if depth < 12 or each.required
        }
    if origin is dict:
        return {"key": everything(args[1], depth + 1)}
    if origin in (tuple, list):
        return [everything(args[0], depth + 1)]
    if args:  # a union, or a type with constraints
        options = [each for each in args if each is not type(None)]
        return everything(next((each for each in options if each is str), options[0]), depth)
    return {bool: True, int: 7, float: 7.0, str: "7"}.get(kind, "7")


def lean_and_whole(kind: type[Any], document: Any) -> tuple[Any, Any]:
    body = msgspec.json.encode(document)
    lean = codec_of(lean_kinds.lean_kinds()[kind].resource).decode(body)
    return lean, codec_of(kind).decode(body)


def test_all_of_a_pod_that_a_recording_keeps_is_kept() -> None:
    """Of mounts the volumes' names are, and of conditions no times."""
    document = everything(Pod)
    lean, whole = lean_and_whole(Pod, document)
    kept, wanted = msgspec.to_builtins(bare_pod(lean)), msgspec.to_builtins(bare_pod(whole))
    for part in (*wanted["spec"]["containers"], *wanted["spec"]["initContainers"]):
        part["volumeMounts"] = tuple({"name": each["name"]} for each in part["volumeMounts"])
    for condition in wanted["status"]["conditions"]:
        for name in ("lastProbeTime", "lastTransitionTime", "observedGeneration"):
            del condition[name]
    for name in ("generateName", "finalizers"):
        del wanted["metadata"][name]
    assert kept == wanted
    assert lean.spec.containers[0].image == ""
    assert whole.spec.containers[0].image == "7"


def test_of_a_node_only_images_volumes_and_times_are_left_out() -> None:
    lean, whole = lean_and_whole(Node, everything(Node))
    kept, wanted = msgspec.to_builtins(bare(lean)), msgspec.to_builtins(bare(whole))
    for name in ("images", "runtimeHandlers", "volumesAttached", "volumesInUse"):
        del wanted["status"][name]
    for condition in wanted["status"]["conditions"]:
        del condition["lastHeartbeatTime"], condition["lastTransitionTime"]
    for name in ("generateName", "finalizers"):
        del wanted["metadata"][name]
    assert kept == wanted


def decoded(made: Pod, share: PodSharing) -> Pod:
    return share(lean_and_whole(Pod, msgspec.to_builtins(made))[0])


def test_equal_parts_of_pods_are_one_object() -> None:
    share = PodSharing()
    first, second, other = (
        decoded(pod(name).gpu(gpus).cpu("1").tolerates("gpu").build(), share)
        for name, gpus in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first.spec.containers is second.spec.containers
    assert first.spec.tolerations is second.spec.tolerations is other.spec.tolerations
    assert first.spec.containers is not other.spec.containers
    assert other.spec.containers[0].resources.limits == {"nvidia.com/gpu": "2"}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]},
        {"envFrom": [{"configMapRef": {"name": "m"}}]},
        {"ports": [{"containerPort": 80, "hostPort": 80}]},
        {"resources": {"requests": {"cpu": "2"}}},
        {"resources": {"limits": {"cpu": "1"}}},
        {"resources": {"requests": {"cpu": "1"}, "claims": [{"name": "c"}]}},
        {"restartPolicy": "Always"},
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        {"volumeDevices": [{"name": "v", "devicePath": "/v"}]},
    ],
)
def test_containers_that_differ_in_anything_that_is_kept_are_not_shared(change: Mapping[str, Any]) -> None:
    share = PodSharing()
    plain = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    pods = [
        share(lean_and_whole(Pod, {"metadata": {"name": name}, "spec": {"containers": [each]}})[0])
        for name, each in (("a", plain), ("b", {**plain, **change}))
    ]
    assert pods[0].spec.containers is not pods[1].spec.containers
    assert pods[0].spec.containers != pods[1].spec.containers


def test_every_field_of_a_container_that_is_kept_tells_containers_apart() -> None:
    """The test above has one change for each of these, the name aside."""
    kept = {each.name for each in msgspec.structs.fields(Container)} & {
        *lean_kinds.CONTAINER_FIELDS,  # type: ignore[attr-defined]
        "env", "envFrom", "volumeMounts"
    }  # fmt: skip
    assert kept == {
        "name", "env", "envFrom", "ports", "resources", "restartPolicy", "volumeMounts", "volumeDevices"
    }  # fmt: skip


def test_the_volume_of_the_service_account_s_token_is_no_difference() -> None:
    share = PodSharing()

    def with_token(name: str, end: str) -> Pod:
        token = f"kube-api-access-{end}"
        maps = {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}, {"serviceAccountToken": {"path": "token"}}]}
        container = {"name": "main", "volumeMounts": [{"name": token, "mountPath": "/var/run"}]}
        spec = {"containers": [container], "volumes": [{"name": token, "projected": maps}]}
        return share(lean_and_whole(Pod, {"metadata": {"name": name}, "spec": spec})[0])

    first, second = with_token("a", "x1x2x"), with_token("b", "y1y2y")
    assert first.spec.containers is second.spec.containers
    assert first.spec.volumes is second.spec.volumes
    assert first.spec.containers[0].volumeMounts[0].name == first.spec.volumes[0].name
    assert present(present(present(first.spec.volumes[0].projected).sources)[0].configMap).name == "kube-root-ca.crt"


@pytest.mark.parametrize("mounting", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize("token", ["kube-api-access-x1x2x", "kube-api-access", "mine"])
@pytest.mark.parametrize("other", ["data", "kube-api-access-other"])
def test_a_pod_needs_the_same_config_maps_whatever_its_volumes_are_called(
    mounting: str, token: str, other: str
) -> None:
    """Only what is mounted counts."""
    volumes = [
        {"name": name, "projected": {"sources": [{"configMap": {"name": f"map-of-{name}"}}]}} for name in (token, other)
    ]
    spec = {
        "containers": [{"name": "main"}],
        "volumes": volumes,
        mounting: [{"name": "one", "volumeMounts": [{"name": token, "mountPath": "/var/run"}]}],
    }
    lean, whole = lean_and_whole(Pod, {"metadata": {"name": "p"}, "spec": spec})
    shared = PodSharing()(lean)
    assert required_config_maps(shared) == required_config_maps(whole) == {f"map-of-{token}"}


def test_parts_that_nobody_has_any_more_are_not_kept_for_ever() -> None:
    share = PodSharing()
    for number in range(MOST_PARTS * 2):
        share(pod("a").cpu(f"{number}m").build())
    assert len(share._parts) <= MOST_PARTS + 10


@pytest.mark.looptime
async def test_pods_are_whole_where_plugins_of_other_packages_may_look_at_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def images() -> set[str]:
        made = pod("p", NAMESPACE).build()
        rig = await make_rig([node("n1"), made])
        state, informers = ClusterState(), Informers(rig.client)
        following = feed.Feed(informers, state)
        running = asyncio.create_task(informers.run())
        await following.wait_synced()
        running.cancel()
        await asyncio.wait([running])
        return {each.spec.containers[0].image for each in state.objects(Pod) if isinstance(each, Pod)}

    assert await images() == {""}
    monkeypatch.setattr(feed, "installed_plugins", lambda: {"theirs": ()})
    assert await images() == {"example.com/work"}
