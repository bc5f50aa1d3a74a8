"""Makes `apiserver/request/protobuf/messages.txt`: the numbers and types of the fields of Kubernetes' messages.

`python -m tests.controlplane.protobuf_table GOMODCACHE` reads them off the definitions in Go's module cache, where the
build of the control plane put them: numbers and types from `generated.proto`; names in JSON, and what is left out when
it is empty, from the tags of the Go types. Run it again for another release. The table says itself how it is read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.controlplane.release import KUBERNETES

TABLE: Final = Path(__file__).parents[2] / "src/bosket/apiserver/request/protobuf/messages.txt"

_MODULE: Final = KUBERNETES.replace("v1.", "v0.")
_META: Final = "k8s.io.apimachinery.pkg.apis.meta.v1"
#: Folder of a package in the module cache → the API version of its kinds. Versions that are gone are left out.
_PACKAGES: Final = {
    f"apimachinery@{_MODULE}/pkg/apis/meta/v1": "meta.k8s.io/v1",
    f"apiextensions-apiserver@{_MODULE}/pkg/apis/apiextensions/v1": "apiextensions.k8s.io/v1",
    f"kube-aggregator@{_MODULE}/pkg/apis/apiregistration/v1": "apiregistration.k8s.io/v1",
    **{
        f"api@{_MODULE}/{folder}": api_version
        for folder, api_version in (
            ("core/v1", "v1"),
            ("admissionregistration/v1", "admissionregistration.k8s.io/v1"),
            ("apps/v1", "apps/v1"),
            ("authentication/v1", "authentication.k8s.io/v1"),
            ("authorization/v1", "authorization.k8s.io/v1"),
            ("autoscaling/v1", "autoscaling/v1"),
            ("autoscaling/v2", "autoscaling/v2"),
            ("batch/v1", "batch/v1"),
            ("certificates/v1", "certificates.k8s.io/v1"),
            ("coordination/v1", "coordination.k8s.io/v1"),
            ("discovery/v1", "discovery.k8s.io/v1"),
            ("events/v1", "events.k8s.io/v1"),
            ("networking/v1", "networking.k8s.io/v1"),
            ("node/v1", "node.k8s.io/v1"),
            ("policy/v1", "policy/v1"),
            ("rbac/v1", "rbac.authorization.k8s.io/v1"),
            ("resource/v1", "resource.k8s.io/v1"),
            ("scheduling/v1", "scheduling.k8s.io/v1"),
            ("scheduling/v1beta1", "scheduling.k8s.io/v1beta1"),
            ("scheduling/v1alpha3", "scheduling.k8s.io/v1alpha3"),
            ("storage/v1", "storage.k8s.io/v1"),
        )
    },
}
_PLAIN: Final = {
    "string": "str",
    "bytes": "bytes",
    "bool": "bool",
    "double": "double",
    "int32": "int",
    "int64": "int",
}
#: Messages with a form of their own in JSON.
_SPECIAL: Final = {
    f"{_META}.Time": "time",
    f"{_META}.MicroTime": "microtime",
    f"{_META}.Duration": "duration",
    f"{_META}.FieldsV1": "json",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "json",
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "quantity",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "intorstring",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": "json",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "schemaorlist",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "schemaorbool",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "schemaorstrings",
}
_HEAD: Final = f"""\
# Messages of Kubernetes {KUBERNETES}, made by tests/controlplane/protobuf_table.py. A line is one message:
#     API-VERSION NAME FIELD=NUMBER:TYPE…
# A type is plain (str, bytes, bool, double, int), one with a form of its own in JSON (time, quantity…), or the name of
# a message, with its API version before a comma if that is another one. Before it: * for a list, % for a map from
# strings. After it: ! where an empty value is left out in JSON. FIELD is empty where the message's fields stand among
# those of its parent; the one field of a message that is a list in JSON is called [].
"""

_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:(optional|repeated|required) )?(map<string, ?[\w.]+>|[\w.]+) (\w+) = (\d+)", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_MEMBER = re.compile(r"^\t(?:\w+\s+)?(\S+)\s+`([^`]*protobuf:\"[^`]*)`", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Tag:
    """What Go's tags say of a field."""

    name: str
    pointer: bool
    omit_empty: bool
    omit_zero: bool


def table(cache: Path) -> str:
    """The whole table."""
    versions = {}
    for folder, api_version in _PACKAGES.items():
        package = re.search(
            r"^package (.+);", (cache / "k8s.io" / folder / "generated.proto").read_text(), re.MULTILINE
        )
        assert package is not None, folder
        versions[package[1]] = api_version
    lines: list[str] = []
    for folder in _PACKAGES:
        lines += _messages(cache / "k8s.io" / folder, versions)
    return _HEAD + "\n".join(sorted(lines)) + "\n"


def _messages(folder: Path, versions: dict[str, str]) -> Iterator[str]:
    proto = (folder / "generated.proto").read_text()
    package = re.search(r"^package (.+);", proto, re.MULTILINE)
    assert package is not None
    tags = _tags(folder)
    for name, body in _MESSAGE.findall(proto):
        full = f"{package[1]}.{name}"
        if full in _SPECIAL or (name.endswith("List") and "repeated" in body and "ListMeta" in body):
            continue
        fields = []
        for label, written, field, number in _FIELD.findall(body):
            tag = tags.get(name, {}).get(int(number))
            if name not in tags:
                fields.append(f"[]={number}:{_type(written, package[1], versions)}")
                continue
            assert tag is not None, (full, field)
            kind = _type(written, package[1], versions)
            mark = "*" if label == "repeated" and not written.startswith("map<") else ""
            fields.append(f"{tag.name}={number}:{mark}{kind}{'!' if _is_left_out(tag, kind, mark) else ''}")
        yield " ".join([versions[package[1]], name, *fields])


def _is_left_out(tag: _Tag, kind: str, mark: str) -> bool:
    """Whether Go's JSON has no such field when its value is empty; an empty time is null there, which is the same."""
    if mark or kind.startswith("%") or tag.pointer:
        return False
    if kind in ("time", "microtime"):
        return True
    plain = kind in _PLAIN.values()
    return tag.omit_zero or (plain and tag.omit_empty)


def _type(written: str, package: str, versions: dict[str, str]) -> str:
    if written.startswith("map<"):
        return "%" + _type(written.removeprefix("map<string,").removesuffix(">").strip(), package, versions)
    if written in _PLAIN:
        return _PLAIN[written]
    full = written.lstrip(".") if "." in written else f"{package}.{written}"
    if full in _SPECIAL:
        return _SPECIAL[full]
    home, _, name = full.rpartition(".")
    return name if home == package else f"{versions[home]},{name}"


def _tags(folder: Path) -> dict[str, dict[int, _Tag]]:
    """By struct and field number."""
    found: dict[str, dict[int, _Tag]] = {}
    for file in sorted(folder.glob("*.go")):
        if file.name.endswith("_test.go") or file.name.startswith(("zz_", "generated")):
            continue
        for name, body in _STRUCT.findall(file.read_text()):
            fields = found.setdefault(name, {})
            for kind, tag in _MEMBER.findall(body):
                number = re.search(r'protobuf:"\w+,(\d+)', tag)
                json = re.search(r'json:"([^"]*)"', tag)
                if number is None or json is None:
                    continue
                named, *options = json[1].split(",")
                fields[int(number[1])] = _Tag(
                    named, kind.startswith("*"), "omitempty" in options, "omitzero" in options
                )
    return found


if __name__ == "__main__":
    TABLE.write_text(table(Path(sys.argv[1])))
