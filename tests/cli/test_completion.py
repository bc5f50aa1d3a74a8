"""Completion: what may come next on a line, in bash, zsh and fish, and for `kubectl bosket`."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bosket.cli.completion.candidates import candidates
from bosket.cli.main import app, main
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.testing.build import pod_group, queue

BIN = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody's own cluster is asked for names."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


def values(*words: str) -> list[str]:
    return list(candidates(app, words).values)


def test_commands_come_with_what_they_do() -> None:
    assert candidates(app, ["que"]).values == {
        "queues": "Show the tree of queues: used, fair share, quota, limit, and how many jobs wait"
    }
    assert {"fairshare", "time"} <= set(values("simulate", ""))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["jobs", "--sta"], ["--state"]),
        (["jobs", "--state", "p"], ["pending", "pipelined"]),
        (["jobs", "--state=r"], ["--state=running"]),
        (["jobs", "--state", "=", "r"], ["running"]),
        (["jobs", "--state", "="], ["pending", "pipelined", "running", "evicted", "ending", "finished"]),
        (["jobs", "-n", "ml", "--json", "-o", ""], ["wide"]),
        (["run", "podg"], ["podgroup-controller", "podgrouper"]),
        (["run", "--log-level", "debug", "bin"], ["binder"]),
        (["simulate", "time", "x.yaml", "--cha"], ["--chart"]),
        (["oracle", ""], []),
    ],
)
def test_options_and_their_values_are_known(words: Sequence[str], expected: list[str]) -> None:
    assert sorted(values(*words)) == sorted(expected)


def test_files_are_left_to_the_shell() -> None:
    assert candidates(app, ["replay", "snap"]).takes_files
    assert candidates(app, ["queues", "--snapshot", ""]).takes_files
    assert not candidates(app, ["queues", "--resource", ""]).takes_files


def test_contexts_are_those_of_the_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "contexts: [{name: staging, context: {cluster: a, user: b}}, {name: live, context: {cluster: c, user: b}}]"
    )
    assert values("queues", "--kubeconfig", str(file), "--context", "") == ["live", "staging"]
    assert values("queues", "--kubeconfig", str(file), "--context=s") == ["--context=staging"]


def test_a_cluster_that_does_not_answer_costs_the_names_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["__complete", "jobs", "--queue", ""]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (":4\n", "")


async def test_queues_and_jobs_are_those_of_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig = tmp_path / "config"
    async with EmbeddedCluster(nodes=1, services=(), listen=Listen(kubeconfig=kubeconfig)) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        await client.create(queue("team-a"))
        for name, namespace in (("train", "default"), ("tune", "kube-system")):
            await client.create(pod_group(name, namespace=namespace, queue="team-a"))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        assert await asyncio.to_thread(values, "queues", "tea") == ["team-a"]
        assert await asyncio.to_thread(values, "jobs", "--queue=t") == ["--queue=team-a"]
        assert await asyncio.to_thread(values, "jobs", "t") == ["train"]
        assert await asyncio.to_thread(values, "jobs", "kube") == ["kube-system/tune"]
        assert await asyncio.to_thread(values, "jobs", "-n", "kube-system", "t") == ["tune"]
        assert await asyncio.to_thread(values, "jobs", "-n", "kube-s") == ["kube-system"]


# --- in shells


def run_in(shell: str, script: str, folder: Path) -> list[str]:
    """What the script prints in the shell, which finds `bosket` on its path."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb"}
    arguments = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}[shell]
    done = subprocess.run(
        [program, *arguments, script], capture_output=True, text=True, timeout=60, check=False, env=environment,
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bosket que", "queues"),
        ("bosket jobs --state pi", "pipelined"),
        ("bosket jobs --state = pi", "pipelined"),
        ("bosket simulate ti", "time"),
    ],
)
def test_bash_completes(line: str, expected: str, tmp_path: Path) -> None:
    script = f"""
        eval "$(bosket completion bash)"
        complete -p bosket
        COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _bosket
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert run_in("bash", script, tmp_path)[:2] == ["complete -F _bosket bosket", expected]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bosket que", "queues"),
        ("bosket jobs --state pi", "pipelined"),
        ("bosket jobs --state=pi", "--state=pipelined"),
    ],
)
def test_fish_completes(line: str, expected: str, tmp_path: Path) -> None:
    found = run_in("fish", f"bosket completion fish | source; complete -C '{line}'", tmp_path)
    assert found[0].split("\t")[0] == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [("bosket que", "bosket queues"), ("bosket jobs --state pi", "bosket jobs --state pipelined")],
)
def test_zsh_completes(line: str, expected: str, tmp_path: Path) -> None:
    """In a terminal of its own: what stands on the line after the tabulator key."""
    (tmp_path / ".zshrc").write_text(
        'autoload -Uz compinit; compinit -u -D\neval "$(bosket completion zsh)"\nPS1="% "\n'
        'show() { print -r -- "LINE=$BUFFER="; zle kill-whole-line; zle accept-line }\n'
        "zle -N show; bindkey '^X' show; print READY\n"
    )
    script = f"""
        zmodload zsh/zpty
        zpty shell zsh -d -i
        zpty -r -m shell line '*READY*'
        zpty -w -n shell $'{line}\\t\\x18'
        zpty -r -m shell line '*LINE=*='
        print -r -- ${{${{line##*LINE=}}%%=*}}
        zpty -d shell
    """
    assert expected in [each.strip() for each in run_in("zsh", script, tmp_path)]


def test_kubectl_completes_its_plugin(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}

    def said(*arguments: str) -> str:
        return subprocess.run(
            [kubectl, *arguments], capture_output=True, text=True, timeout=60, check=True, env=environment
        ).stdout

    assert said("__complete", "bosket", "jobs", "--state", "pi").splitlines() == ["pipelined", ":4"]
    assert said("bosket", "queues", "--help").startswith("Usage: kubectl bosket queues")
