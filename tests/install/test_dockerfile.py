"""The Dockerfile: what it copies is there, what it installs is pinned, and what it starts isn't root."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import bosket
from bosket.install.chart import operator_deployment
from tests.install.rendering import ROOT

Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def rests(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]


def last_stage() -> list[Instruction]:
    found = instructions()
    return found[max(number for number, (word, _) in enumerate(found) if word == "FROM") :]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for rest in rests("COPY") if "--from" not in rest for source in rest.split()[:-1]}
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_every_installation_is_pinned() -> None:
    installing = [rest for rest in rests("RUN") if re.search(r"\bpip\b.* install\b", rest)]
    assert installing
    assert all("--require-hashes -r constraints" in rest or "--no-index /wheels" in rest for rest in installing)
    assert all("--no-build-isolation" in rest for rest in rests("RUN") if " wheel " in rest), "or pip fetches a backend"


def pins(name: str) -> dict[str, frozenset[str]]:
    """Package and version → hashes of its files."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {words[0]: frozenset(words[1:]) for words in lines}


def packages(name: str) -> set[str]:
    return {each.partition("==")[0] for each in pins(name)}


def wanted(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~ ]", each)[0].lower() for each in requirements}


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-image.txt"])
def test_everything_that_is_needed_has_a_pin_and_every_pin_its_hashes(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert wanted(project["project"]["dependencies"]) <= packages(name)
    for package, hashes in pins(name).items():
        assert re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.]+", package)
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), package


def test_setup_has_the_tools_too_and_the_image_the_same_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert wanted(project["project"]["optional-dependencies"]["dev"]) <= packages("constraints.txt")
    assert set(project["build-system"]["requires"]) <= packages("constraints.txt")
    assert pins("constraints-image.txt").items() <= pins("constraints.txt").items()


def test_no_registry_is_named_and_no_image_by_its_tag_alone() -> None:
    """Whoever builds looks the digest up: a tag may be another image tomorrow."""
    assert set(rests("ARG")) == {"PYTHON"}
    assert all(rest.split()[0] == "${PYTHON}" for rest in rests("FROM"))


@pytest.mark.parametrize(
    ("base", "is_taken"),
    [("python:3.11-slim@sha256:" + "0" * 64, True), ("python:3.11-slim", False), ("", False)],
)
def test_a_base_image_without_a_digest_is_refused(base: str, is_taken: bool) -> None:
    """By the first command of the build."""
    found = instructions()
    first = next(rest for word, rest in found if word == "RUN")
    assert found.index(("RUN", first)) == 3, "right after ARG, FROM and ARG"
    done = subprocess.run(["sh", "-c", first], env={"PYTHON": base}, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == is_taken
    assert is_taken or "name the base image by its digest" in done.stderr


def test_it_runs_as_the_user_that_the_chart_names_and_starts_bosket() -> None:
    stage = dict(last_stage())
    container = operator_deployment()["spec"]["template"]["spec"]["containers"][0]
    (program,) = json.loads(stage["ENTRYPOINT"])
    assert stage["USER"] == "10000:10000"
    assert container["command"][0] == program
    assert program in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def test_the_last_stage_has_the_environment_on_its_path_and_builds_nothing() -> None:
    words = [word for word, _ in last_stage()]
    assert "RUN" not in words
    assert "COPY --from=build /opt/bosket /opt/bosket" in [" ".join(each) for each in last_stage()]
    assert "/opt/bosket/bin:" in dict(last_stage())["ENV"]


def test_data_files_are_part_of_the_package() -> None:
    """A wheel has all that is below src/bosket; what is read at run time must be there."""
    package = Path(bosket.__file__).parent / "install"
    assert (package / "rights.txt").is_file()
    assert (package / "values.yaml").is_file()
