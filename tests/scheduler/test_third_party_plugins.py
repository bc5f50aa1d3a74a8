"""Plugins of other packages are found by entry point; one that can't be had says which it is and what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bosket.scheduler.configuration.configuration import Configuration, ConfigurationError, PluginChoice
from bosket.scheduler.decide import decide, known_part, make_plugins, open_session
from bosket.scheduler.framework.extension_points import FrozenExtensionPoint
from bosket.scheduler.framework.plugin import ENTRY_POINT_GROUP, installed_plugins
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod_group, queue
from bosket.testing.cluster import NOW, snapshot_of, state_of

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin"

Install = Callable[[str, str, str], None]  #: package, plugin, what the entry point names


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Makes this process believe that a package with one plugin is installed."""

    def make(package: str, plugin: str, target: str) -> None:
        write_metadata(tmp_path, package, {plugin: target})
        installed_plugins.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    installed_plugins.cache_clear()
    yield make
    installed_plugins.cache_clear()
    for module in ("faulty_plugin", "bosket_prefer_label"):
        sys.modules.pop(module, None)


def write_metadata(folder: Path, package: str, plugins: dict[str, str]) -> None:
    """What pip leaves of an installed package beside its code."""
    info = folder / f"{package.replace('-', '_')}-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0.0\n")
    lines = "\n".join(f"{name} = {target}" for name, target in plugins.items())
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\n{lines}\n")


def choosing(name: str, **arguments: str) -> Configuration:
    return Configuration(plugins=(*Configuration().plugins, PluginChoice(name, arguments)))


def test_the_example_is_found_through_its_entry_point_and_decides(tmp_path: Path) -> None:
    """In a process of its own, with the metadata that pip would write for the example."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    write_metadata(tmp_path, project["name"], project["entry-points"][ENTRY_POINT_GROUP])
    objects = [node("a"), node("b", tier="spot"), queue("q"), pod_group("g"), *gang("g", 1)]
    file = tmp_path / "snapshot.zip"
    bosket = "import sys; from bosket.cli.main import main; sys.exit(main(sys.argv[1:]))"
    path = os.pathsep.join([str(tmp_path), str(EXAMPLE), os.environ.get("PYTHONPATH", "")])
    placed = []
    for configuration in (Configuration(), choosing("preferlabel", label="tier=spot")):
        file.write_bytes(zipped(take(state_of(objects), StateOptions(), configuration, NOW)))
        replay = subprocess.run(
            [sys.executable, "-c", bosket, "replay", str(file), "--json"],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        )
        assert replay.stderr == b""
        placed += [bind["node"] for bind in json.loads(replay.stdout)["binds"]]
    assert placed == ["a", "b"]


def test_the_example_s_configuration_can_be_followed(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    from bosket.scheduler.actions import ACTIONS
    from bosket.scheduler.configuration.file import parse_configuration

    monkeypatch.syspath_prepend(EXAMPLE)
    install("bosket-prefer-label", "preferlabel", "bosket_prefer_label:PreferLabel")
    complaints: list[str] = []
    text = (EXAMPLE / "scheduler.yaml").read_text()
    configuration = parse_configuration(text, known_actions=ACTIONS, report=complaints.append)
    assert complaints == []
    assert known_part(configuration) == (configuration, [])
    make_plugins(configuration)


def test_the_example_says_what_it_wants_to_be_told(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    install("bosket-prefer-label", "preferlabel", "bosket_prefer_label:PreferLabel")
    with pytest.raises(ConfigurationError, match="plugin preferlabel: argument label is missing"):
        make_plugins(choosing("preferlabel"))


CODE = """
class Fails:
    def __init__(self, arguments):
        raise KeyError("size")

class Mute:
    def __init__(self, arguments):
        pass

class FailsLater:
    def __init__(self, arguments):
        pass

    def open(self, session):
        raise ZeroDivisionError("division by zero")
"""


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        (
            "no_such_module:Plugin",
            "plugin 'x' of package acme (no_such_module:Plugin) can't be imported: ModuleNotFoundError: ",
        ),
        (
            "faulty_plugin:Absent",
            "plugin 'x' of package acme (faulty_plugin:Absent) can't be imported: AttributeError: ",
        ),
        ("faulty_plugin:Fails", "plugin 'x' of package acme (faulty_plugin:Fails) can't be made: KeyError: 'size'"),
        ("faulty_plugin:Mute", "plugin 'x' of package acme (faulty_plugin:Mute) is no plugin: it has no method open"),
    ],
)
def test_a_plugin_that_cannot_be_had_is_named_with_its_package(
    target: str, complaint: str, install: Install, tmp_path: Path
) -> None:
    (tmp_path / "faulty_plugin.py").write_text(CODE)
    install("acme", "x", target)
    with pytest.raises(ConfigurationError) as error:
        make_plugins(choosing("x"))
    assert str(error.value).startswith(complaint)


def test_a_plugin_registers_while_a_session_opens_and_not_later() -> None:
    """What was decided until then was decided without it."""
    session = open_session(snapshot_of(node("n")), Configuration())
    with pytest.raises(FrozenExtensionPoint, match="add it in open"):
        session.task_checks.add(lambda task: None)


def test_a_broken_plugin_that_nobody_configured_does_no_harm(install: Install) -> None:
    install("acme", "x", "no_such_module:Plugin")
    make_plugins(Configuration())


def test_a_plugin_that_fails_in_a_cycle_is_named_in_the_traceback(install: Install, tmp_path: Path) -> None:
    (tmp_path / "faulty_plugin.py").write_text(CODE)
    install("acme", "x", "faulty_plugin:FailsLater")
    with pytest.raises(ZeroDivisionError) as error:
        decide(snapshot_of(node("n")), choosing("x"))
    assert error.value.__notes__ == ["plugin 'x' failed when a session opened"]


def test_two_packages_that_offer_the_same_plugin_are_both_named(install: Install) -> None:
    install("acme", "x", "one:Plugin")
    install("globex", "x", "other:Plugin")
    with pytest.raises(ConfigurationError, match="'x' is offered by package acme and package globex: uninstall all"):
        make_plugins(choosing("x"))


def test_a_plugin_that_nobody_has_is_refused_with_those_that_are_there(install: Install) -> None:
    install("acme", "x", "one:Plugin")
    with pytest.raises(ConfigurationError, match=r"there is no plugin 'waltz'; known are .*, elastic, .*, x$"):
        make_plugins(choosing("waltz"))
