"""Files of examples are read, or refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from bosket.cli.example.document import InvalidExample, read_example

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


def written(path: Path, text: str) -> Path:
    file = path / "example.yaml"
    file.write_text(text)
    return file


def test_a_range_of_numbers_makes_copies(tmp_path: Path) -> None:
    text = 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: a-{1..3}\n  labels: {index: "{1..3}"}\n'
    pods = read_example(written(tmp_path, f"# two documents\n---\n{text}"))
    assert [(each["metadata"]["name"], each["metadata"]["labels"]["index"]) for each in pods] == [
        ("a-1", "1"),
        ("a-2", "2"),
        ("a-3", "3"),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{POD}---\n{POD}  bad", "document 2: "),
        ("- a\n", "document 1: is no object"),
        ("kind: Pod\nmetadata: {name: a}\n", "apiVersion is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata: a\n", "metadata.name is missing"),
        (f"{POD}# {{0..1}} {{0..2}}\n", "several ranges"),
        (f"{POD}# {{5..2}}\n", "must be 1 to 1000 numbers"),
        (f"{POD}# {{0..1000}}\n", "must be 1 to 1000 numbers"),
    ],
)
def test_what_is_no_example_is_refused_with_file_and_document(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InvalidExample, match=sentence) as caught:
        read_example(written(tmp_path, text))
    assert "example.yaml" in str(caught.value)
