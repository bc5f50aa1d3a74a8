"""`bosket crds` prints what a cluster needs."""

from __future__ import annotations

import json

import pytest
import yaml

from bosket.cli.main import main


def test_the_definitions_are_printed_as_yaml_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds"]) == 0
    printed = capsys.readouterr().out
    assert "&id" not in printed
    documents = list(yaml.load_all(printed, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    names = {document["metadata"]["name"] for document in documents}
    assert {"queues.scheduling.run.ai", "podgroups.scheduling.run.ai", "podcliquesets.grove.io"} <= names
    assert {document["kind"] for document in documents} == {"CustomResourceDefinition"}


def test_the_definitions_are_printed_as_one_json_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["kind"] == "List"
    assert len(printed["items"]) > 5
