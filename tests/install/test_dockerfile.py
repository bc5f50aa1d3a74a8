"""The Dockerfile: what it copies is there, what it installs is pinned, and what it starts isn't root."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import bosket
from bosket.install.operator_part import deployment
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
    assert all("-c constraints.txt" in rest for rest in installing)
    assert all("--no-build-isolation" in rest for rest in rests("RUN") if " wheel " in rest), "or pip fetches a backend"


def test_everything_that_is_needed_has_a_pin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    wanted = {re.split(r"[<>=!~ ]", each)[0].lower() for each in project["project"]["dependencies"]}
    assert wanted | set(project["build-system"]["requires"]) <= pinned


def test_no_registry_is_named() -> None:
    (base,) = rests("ARG")
    assert re.fullmatch(r"PYTHON=python:3\.\d+-slim", base)
    assert all(rest.split()[0] == "${PYTHON}" for rest in rests("FROM"))


def test_it_runs_as_the_user_that_the_chart_names_and_starts_bosket() -> None:
    stage = dict(last_stage())
    container = deployment()["spec"]["template"]["spec"]["containers"][0]
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
