"""kubectl changes things: apply of both kinds, diff, edit, create, label, set, replace."""

from __future__ import annotations

import json

import pytest
import yaml

from bosket.api.core import ConfigMap
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import Manifest, config_map, deployment


def text(*manifests: Manifest) -> str:
    return yaml.safe_dump_all(manifests)


async def data(cluster: Cluster, name: str) -> dict[str, str]:
    return dict((await cluster.client.get(ConfigMap, name, cluster.namespace)).data)


async def test_apply_removes_what_it_put_there_and_leaves_what_others_did(cluster: Cluster) -> None:
    first, second = config_map("a", {"mine": "1", "gone": "1"}), config_map("a", {"mine": "2"})
    await cluster.kubectl("apply", "-f", "-", stdin=text(first))
    await cluster.kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data": {"theirs": "1"}}')
    await cluster.kubectl("apply", "-f", "-", stdin=text(second))
    assert await data(cluster, "a") == {"mine": "2", "theirs": "1"}
    last = await cluster.kubectl("apply", "view-last-applied", "cm", "a", "-o", "json")
    assert json.loads(last)["data"] == {"mine": "2"}


async def test_apply_merges_containers_by_name(cluster: Cluster) -> None:
    manifest = deployment("web", replicas=0)
    await cluster.kubectl("apply", "-f", "-", stdin=text(manifest))
    added = '{"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}}'
    await cluster.kubectl("patch", "deployment", "web", "-p", added)
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/work:2"
    await cluster.kubectl("apply", "-f", "-", stdin=text(manifest))
    images = await cluster.kubectl(
        "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image}"
    )
    assert sorted(images.split()) == ["example.com/side:1", "example.com/work:2"]


async def test_apply_takes_away_what_is_no_longer_in_the_files(cluster: Cluster) -> None:
    labelled = [config_map(name, labels={"set": "mine"}) for name in ("a", "b")]
    prune = ("apply", "--prune", "-l", "set=mine", "-f", "-")
    await cluster.kubectl(*prune, stdin=text(*labelled))
    output = await cluster.kubectl(*prune, stdin=text(labelled[0]))
    assert "configmap/b pruned" in output
    assert await cluster.kubectl("get", "cm", "-l", "set=mine", "-o", "name") == "configmap/a\n"


async def test_an_apply_on_the_server_side_meets_the_owner_of_a_field(cluster: Cluster) -> None:
    def apply(manager: str) -> tuple[str, ...]:
        return ("apply", "--server-side", f"--field-manager={manager}", "-f", "-")

    await cluster.kubectl(*apply("ann"), stdin=text(config_map("a", {"colour": "red", "size": "1"})))
    theirs = text(config_map("a", {"colour": "blue"}))
    refusal = await cluster.kubectl(*apply("ben"), stdin=theirs, code=1)
    assert 'Apply failed with 1 conflict: conflict with "ann": .data.colour' in refusal
    assert await data(cluster, "a") == {"colour": "red", "size": "1"}
    forced = await cluster.kubectl(*apply("ben"), "--force-conflicts", stdin=theirs)
    assert forced == "configmap/a serverside-applied\n"
    assert await data(cluster, "a") == {"colour": "blue", "size": "1"}
    refusal = await cluster.kubectl(*apply("ann"), stdin=text(config_map("a", {"colour": "red"})), code=1)
    assert 'conflict with "ben": .data.colour' in refusal
    # What ann doesn't name any more goes; what is ben's stays.
    await cluster.kubectl(*apply("ann"), stdin=text(config_map("a")))
    assert await data(cluster, "a") == {"colour": "blue"}
    found = json.loads(await cluster.kubectl("get", "cm", "a", "-o", "json", "--show-managed-fields"))
    managers = {each["manager"]: each["operation"] for each in found["metadata"]["managedFields"]}
    assert managers["ben"] == "Apply"


async def test_a_client_side_apply_can_be_continued_on_the_server_side(cluster: Cluster) -> None:
    await cluster.kubectl("apply", "-f", "-", stdin=text(config_map("a", {"x": "1", "old": "1"})))
    await cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text(config_map("a", {"x": "2"})))
    assert await data(cluster, "a") == {"x": "2"}


async def test_a_dry_run_on_the_server_checks_and_writes_nothing(cluster: Cluster) -> None:
    manifest = text(config_map("a", {"x": "1"}))
    output = await cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifest)
    assert output == "configmap/a created (server dry run)\n"
    assert "NotFound" in await cluster.kubectl("get", "cm", "a", code=1)


async def test_a_field_that_does_not_exist_is_refused_by_its_path(cluster: Cluster) -> None:
    manifest = deployment("web", replicas=1)
    manifest["spec"]["template"]["spec"]["colour"] = "red"
    output = await cluster.kubectl("apply", "-f", "-", stdin=text(manifest), code=1)
    assert 'unknown field "spec.template.spec.colour"' in output
    output = await cluster.kubectl("apply", "--validate=warn", "-f", "-", stdin=text(manifest))
    assert 'Warning: unknown field "spec.template.spec.colour"' in output


@pytest.mark.parametrize("flags", [(), ("--server-side",)])
async def test_diff_shows_what_would_change(cluster: Cluster, flags: tuple[str, ...]) -> None:
    await cluster.kubectl("apply", *flags, "-f", "-", stdin=text(config_map("a", {"x": "one", "z": "same"})))
    assert (
        await cluster.kubectl("diff", *flags, "-f", "-", stdin=text(config_map("a", {"x": "one", "z": "same"}))) == ""
    )
    output = await cluster.kubectl("diff", *flags, "-f", "-", stdin=text(config_map("a", {"x": "two"})), code=1)
    assert "-  x: one\n" in output
    assert "+  x: two\n" in output
    assert "-  z: same\n" in output
    assert await data(cluster, "a") == {"x": "one", "z": "same"}
    created = await cluster.kubectl("diff", *flags, "-f", "-", stdin=text(config_map("new", {"x": "1"})), code=1)
    assert "+  name: new\n" in created


async def test_edit_writes_what_the_editor_leaves(cluster: Cluster) -> None:
    await cluster.client.create(deployment("web", replicas=0), cluster.namespace)
    output = await cluster.kubectl("edit", "deployment", "web", editor="sed -i 's/replicas: 0/replicas: 3/'")
    assert output == "deployment.apps/web edited\n"
    assert await cluster.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"
    output = await cluster.kubectl("edit", "deployment", "web", editor="true")
    assert "Edit cancelled, no changes made." in output
    output = await cluster.kubectl("edit", "deployment", "web", editor="sed -i 's/replicas: 3/replicas: many/'", code=1)
    assert "deployments.apps" in output
    assert await cluster.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"


async def test_edit_writes_custom_objects(cluster: Cluster) -> None:
    queue = await cluster.add_queue()
    output = await cluster.kubectl("edit", "queue", queue, editor="sed -i 's/overQuotaWeight: 1/overQuotaWeight: 7/'")
    assert output == f"queue.scheduling.run.ai/{queue} edited\n"
    weight = await cluster.kubectl("get", "queue", queue, "-o", "jsonpath={.spec.resources.gpu.overQuotaWeight}")
    assert weight == "7"


@pytest.mark.parametrize(
    ("arguments", "created"),
    [
        (("configmap", "a", "--from-literal=k=v"), "configmap/a"),
        (("secret", "generic", "a", "--from-literal=k=v"), "secret/a"),
        (("serviceaccount", "a"), "serviceaccount/a"),
        (("role", "a", "--verb=get", "--resource=pods"), "role.rbac.authorization.k8s.io/a"),
        (("rolebinding", "a", "--role=a", "--user=ann"), "rolebinding.rbac.authorization.k8s.io/a"),
        (("job", "a", "--image=example.com/a"), "job.batch/a"),
        (("cronjob", "a", "--image=example.com/a", "--schedule=0 0 1 1 *"), "cronjob.batch/a"),
        (("deployment", "a", "--image=example.com/a", "--replicas=0"), "deployment.apps/a"),
        (("service", "clusterip", "a", "--tcp=80"), "service/a"),
        (("quota", "a", "--hard=pods=5"), "resourcequota/a"),
        (("poddisruptionbudget", "a", "--selector=a=b", "--min-available=1"), "poddisruptionbudget.policy/a"),
    ],
)
async def test_create_makes_things_of_every_kind(cluster: Cluster, arguments: tuple[str, ...], created: str) -> None:
    assert await cluster.kubectl("create", *arguments) == f"{created} created\n"
    assert await cluster.kubectl("get", created, "-o", "name") == f"{created}\n"
    assert "already exists" in await cluster.kubectl("create", *arguments, code=1)


async def test_labels_are_kept_unless_they_are_to_be_overwritten(cluster: Cluster) -> None:
    for name in ("a", "b"):
        await cluster.client.create(config_map(name, labels={"set": "mine"}), cluster.namespace)
    labelled = await cluster.kubectl("label", "cm", "-l", "set=mine", "tier=front")
    assert labelled == "configmap/a labeled\nconfigmap/b labeled\n"
    refusal = await cluster.kubectl("label", "cm", "a", "tier=back", code=1)
    assert "'tier' already has a value (front), and --overwrite is false" in refusal
    await cluster.kubectl("label", "cm", "a", "tier=back", "--overwrite")
    assert "tier=back" in await cluster.kubectl("label", "cm", "a", "--list")
    assert "invalid label value" in await cluster.kubectl("label", "cm", "a", "tier=not a label", code=1)
    await cluster.kubectl("annotate", "cm", "a", "b", "note=hello")
    assert "'note' already has a value" in await cluster.kubectl("annotate", "cm", "a", "note=bye", code=1)
    assert await cluster.kubectl("annotate", "cm", "a", "note-") == "configmap/a annotated\n"
    header, *rows = (await cluster.kubectl("get", "cm", "-l", "set=mine", "-L", "tier")).splitlines()
    assert header.split() == ["NAME", "DATA", "AGE", "TIER"]
    assert [row.split()[-1] for row in rows] == ["back", "front"]


async def test_set_changes_images_variables_and_resources(cluster: Cluster) -> None:
    await cluster.client.create(deployment("web", replicas=0), cluster.namespace)
    for arguments in (
        ("image", "main=example.com/work:9"),
        ("env", "COLOUR=red"),
        ("resources", "--requests=cpu=50m"),
    ):
        what, value = arguments
        output = await cluster.kubectl("set", what, "deployment/web", value)
        assert output.startswith("deployment.apps/web ")
    found = json.loads(await cluster.kubectl("get", "deployment", "web", "-o", "json"))
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.com/work:9"
    assert container["env"] == [{"name": "COLOUR", "value": "red"}]
    assert container["resources"]["requests"]["cpu"] == "50m"


async def test_replace_puts_another_in_its_place(cluster: Cluster) -> None:
    await cluster.client.create(config_map("a", {"x": "1"}), cluster.namespace)
    before = (await cluster.client.get(ConfigMap, "a", cluster.namespace)).metadata.uid
    replaced = await cluster.kubectl("replace", "-f", "-", stdin=text(config_map("a", {"y.z": "2"})))
    assert replaced == "configmap/a replaced\n"
    assert await data(cluster, "a") == {"y.z": "2"}
    await cluster.kubectl("replace", "--force", "-f", "-", stdin=text(config_map("a")))
    assert (await cluster.client.get(ConfigMap, "a", cluster.namespace)).metadata.uid != before
    missing = await cluster.kubectl("replace", "-f", "-", stdin=text(config_map("missing")), code=1)
    assert "NotFound" in missing


async def test_whatever_can_be_created_is_validated_before_and_needs_no_switch_for_it(cluster: Cluster) -> None:
    kinds = {(each.api_version, each.kind) for each in await cluster.client.discover()}
    manifests = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "odd"}, "spec": {"noSuchField": 1}}
        for version, kind in sorted(kinds)
    ]
    # Most of them lack what they need, and are refused by the server; none by a validation that could not be made.
    output = await cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=text(*manifests), code=1)
    assert "failed to download openapi" not in output
    assert 'unknown field "spec.noSuchField"' in output
