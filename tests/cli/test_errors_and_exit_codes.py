"""What a person or a script gets when something is asked that can't be done."""

from __future__ import annotations

import json
import socket
from itertools import pairwise
from pathlib import Path

import pytest

from bosket import __version__
from bosket.cli import output
from bosket.cli.main import main
from bosket.embedded.kubeconfig import admin_kubeconfig, write_kubeconfig
from bosket.kube.errors import failure_in_words

SERVICE_NAMES = "admission, podgrouper, podgroup-controller, queue-controller, scheduler, binder"


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_the_version_is_data_when_asked_for_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bosket"] == __version__


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["frobnicate"], "frobnicate"),
        (["up", "--nodes", "many"], "many"),
        (["up", "--nodes", "-1"], "--nodes"),
        (["up", "--cpu", "1x"], "--cpu 1x"),
        (["up", "--memory=-1Gi"], "must not be negative"),
        (
            ["up", "--without", "job,oracle"],
            '--without job,oracle: there is no controller "oracle"; there are: job',
        ),
        (
            ["up", "--services", "scheduler,oracle"],
            f'there is no service "oracle"; there are: {SERVICE_NAMES}',
        ),
        (["up", "--kubeconfig=~no-such-user/config"], "~no-such-user/config"),
        (
            ["run"],
            f"which services? there are: {SERVICE_NAMES}",
        ),
        (["run", "oracle"], 'there is no service "oracle"'),
        (["run", "backend-slurm"], 'there is no service "backend-slurm"; there are: backend-default, backend-koord'),
        (["run", "scheduler", "--listen", "here"], "--listen here: not an address"),
        (["run", "scheduler", "--log-format", "xml"], "xml"),
        (["demo", "--nodes", "1"], "--nodes"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line_with_exit_code_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("bosket: ")
    assert captured.err.count("\n") == 1
    assert sentence in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "scheduler", "--kubeconfig", "MISSING"],
        ["queues", "--kubeconfig", "MISSING"],
        ["queues", "--snapshot", "MISSING"],
        ["jobs", "--snapshot", "MISSING"],
        ["nodes", "MISSING"],
        ["topology", "MISSING"],
        ["replay", "MISSING"],
        ["doctor", "MISSING"],
        ["migrate", "MISSING"],
        ["repair", "MISSING"],
        ["example", "MISSING"],
        ["manifests", "-f", "MISSING"],
        ["simulate", "fairshare", "MISSING"],
        ["simulate", "time", "MISSING"],
        ["run", "scheduler", "--scheduler-config", "MISSING"],
        ["up", "--scheduler-config", "MISSING"],
    ],
)
def test_a_file_that_is_not_there_is_named_with_exit_code_2(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "nowhere")
    assert main([missing if each == "MISSING" else each for each in arguments]) == 2
    said = capsys.readouterr().err
    assert missing in said
    assert said.count("\n") == 1
    assert "Errno" not in said


@pytest.mark.parametrize("server", ["https://127.0.0.1:PORT", "http://localhost:PORT"])
@pytest.mark.parametrize("command", ["queues", "jobs", "nodes", "topology", "doctor"])
def test_a_server_that_does_not_answer_is_said_in_the_users_language(
    command: str, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        kubeconfig = tmp_path / "config"
        address = server.replace("PORT", str(taken.getsockname()[1]))
        write_kubeconfig(kubeconfig, admin_kubeconfig(address, b"", "t"))
        kubeconfig.write_text(kubeconfig.read_text().replace('"certificate-authority-data": "",', ""))
        assert main([command, "--kubeconfig", str(kubeconfig)]) == 1
    said = capsys.readouterr().err
    assert f"the API server {address} doesn't answer: connection refused" in said
    assert "--context" in said, "what can be done about it is said"
    assert not {word for word in ("Errno", "ssl:", "GET /", "Traceback", "inside Bosket") if word in said}


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('::1', 1)"), "connection refused"),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] Connect"), "connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "the server's name can't be resolved"),
        (ValueError("'x' is no address"), "'x' is no address"),
    ],
)
def test_why_there_is_no_connection_has_no_numbers_of_the_system_in_it(error: Exception, sentence: str) -> None:
    assert failure_in_words(error) == sentence


@pytest.mark.parametrize(
    ("arguments", "help_of"),
    [
        (["frobnicate"], "bosket"),
        (["queues", "--frobnicate"], "bosket queues"),
        (["simulate", "time", "x", "--frobnicate"], "bosket simulate time"),
    ],
)
def test_the_help_of_the_command_in_question_is_named(
    arguments: list[str], help_of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"(see {help_of} --help)" in capsys.readouterr().err


def test_a_traceback_is_shown_on_request_only() -> None:
    with pytest.raises(output.UsageError):
        main(["--debug", "run", "oracle"])


def test_a_bug_is_called_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("bosket.api.crd.crd_manifests", broken)
    assert main(["crds"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("bosket: ZeroDivisionError: division by zero (an error inside Bosket: ")
    assert "--debug, and report what it prints" in said
    assert said.count("\n") == 1


def test_a_persons_own_kubeconfig_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "config"
    own.write_text("apiVersion: v1\nkind: Config\nclusters: [{name: production}]\n")
    assert main(["up", "--kubeconfig", str(own)]) == 2
    assert "is not an embedded cluster's" in capsys.readouterr().err
    assert "production" in own.read_text()


def test_a_home_directory_that_the_shell_left_to_us_is_looked_at_before_it_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shells expand `--kubeconfig ~/x`, and most of them not `--kubeconfig=~/x`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path / "config"
    own.write_text("apiVersion: v1\nkind: Config\nclusters: [{name: production}]\n")
    assert main(["up", "--kubeconfig=~/config"]) == 2
    assert f"--kubeconfig {own}: is there, and is not an embedded cluster's" in capsys.readouterr().err
    assert "production" in own.read_text()


@pytest.mark.parametrize("arguments", [["run", "scheduler"], ["crds", "--install"]])
def test_a_kubeconfig_in_the_home_directory_is_found_there(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main([*arguments, "--kubeconfig=~/nowhere"]) == 2
    assert f"bosket: no kubeconfig: {tmp_path / 'nowhere'} not found" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["demo", "up", "run", "crds", "snapshot", "replay", "version"])
def test_every_command_explains_itself_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert f"  bosket {command}" in text


def test_help_names_every_command_with_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for line in (
        "demo: Watch",
        "up: Start",
        "run: Run",
        "crds: Print",
        "snapshot: Fetch",
        "replay: Run",
        "version: Print",
    ):
        assert line in text


def test_services_are_listed_with_their_purposes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [
        "admission",
        "podgrouper",
        "podgroup-controller",
        "queue-controller",
        "scheduler",
        "binder",
        "node-scale-adjuster",
        "operator",
        "grove-admission",
        "grove-operator",
        "grove-backends",
        "reservation",
        "numa-exporter",
        "scaling-pod",
        "grove-initc",
    ]
    assert [line.split()[0] for line in lines] == names


def test_commands_stand_in_groups_in_the_order_in_which_people_need_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    titles = ["Ask about a cluster:", "Try things out:", "Install and run:", "Record and replay:", "This program:"]
    places = [text.index(title) for title in titles]
    assert places == sorted(places)
    assert places[0] < text.index("  queues: ") < places[1]
    for title in ("Commands:", "More:"):
        assert f"\n{title}" not in text, "a command is in none of the groups of bosket.cli.main"


@pytest.mark.parametrize("command", [["run"], ["up"], ["queues"], ["simulate", "time"], []])
def test_help_fits_eighty_columns_wherever_docstrings_end_their_lines(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    explained = lines[: lines.index("Examples:")] if "Examples:" in lines else lines
    assert max(map(len, explained)) <= 80
    # A line that ends in the middle of a sentence would have had room for the next word.
    for line, following in pairwise(explained):
        if line.startswith("  ") and following.startswith("      ") and not line.endswith(":"):
            assert len(line) + 1 + len(following.split()[0]) > 80


def test_help_says_what_the_docstring_says_and_no_empty_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["order", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Show whose turn it is next, and why. Jobs start in this order as room comes free: " in text
    assert "[default: 20]" in text
    assert main(["events", "--help"]) == 0
    assert "[default: ()]" not in capsys.readouterr().out


def test_help_for_one_service_leaves_out_the_flags_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "scheduler", "--help"]) == 0
    text = capsys.readouterr().out
    assert "--schedule-period" in text
    assert "--kubeconfig" in text
    assert "--volume-binding-timeout-seconds" not in text, "which is the binder's"
    assert main(["run", "--help"]) == 0
    text = capsys.readouterr().out
    assert "--schedule-period" in text
    assert "--volume-binding-timeout-seconds" in text
