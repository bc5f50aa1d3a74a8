"""`bosket`: the command line. Parses, calls one command, and turns what went wrong into a sentence and an exit code.

Commands live in modules of their own, which are imported only when they are asked for. Exit codes: 0 done, 1
failed, 2 what was asked makes no sense.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, CycloptsError, Group, Parameter

from bosket import __version__
from bosket.cli.completion.command import COMPLETE
from bosket.cli.help_format import PipeHelp, TerminalHelp, add_long_description, leave_out_other_services
from bosket.cli.output import Flag, complain

#: What errors and help call the program: kubectl runs plugins under a name of its own.
PROGRAM = "kubectl bosket" if Path(sys.argv[0]).stem == "kubectl-bosket" else "bosket"

app = App(
    name=PROGRAM,
    help="Schedules AI workloads on Kubernetes: gangs, fair hierarchical queues, shared GPUs, topology.",
    help_epilogue="Start with: bosket demo\nEach command has examples: bosket up --help",
    help_format="plaintext",
    # Boxes are for people at a terminal.
    help_formatter=TerminalHelp() if sys.stdout.isatty() else PipeHelp(),
    version=__version__,
    print_error=False,
    exit_on_error=False,
    result_action="return_value",
)
app.meta.group_parameters = app.group_parameters


#: Commands as help lists them, in this order.
_GROUPS: Final = {
    "Ask about a cluster": (
        "explain", "plan", "eta", "queues", "jobs", "order", "nodes", "topology", "events", "top",
    ),
    "Try things out": ("demo", "up", "repair", "example", "simulate"),
    "Install and run": ("run", "crds", "manifests", "doctor", "migrate"),
    "Record and replay": ("snapshot", "record", "replay", "diff", "ledger", "profile"),
    "This program": ("completion", "version", "--help", "--version"),
}  # fmt: skip


def _place(name: str) -> tuple[Group, int]:
    """The group of a command, and its place there."""
    for title, names in _GROUPS.items():
        if name in names:
            return _group(title), names.index(name)
    return _group("More"), 0


@cache
def _group(title: str) -> Group:
    return Group(title, sort_key=[*_GROUPS, title].index(title))


def _add_command(
    path: str, purpose: str, *examples: str, to: App = app, name: str | Sequence[str] | None = None
) -> None:
    """Register the command at `module:function` without importing it."""
    epilogue = "\n".join(("Examples:", "", *(f"  {example}" for example in examples)))
    called = path.rpartition(":")[2] if name is None else name if isinstance(name, str) else next(iter(name))
    if to is app:
        group, place = _place(called)
        to.command(path, name=name, help_epilogue=epilogue, group=group, sort_key=place, help=purpose)
    else:
        to.command(path, name=name, help_epilogue=epilogue, sort_key=len(list(to)), help=purpose)


for _flag in ("--help", "--version"):
    app[_flag].group, app[_flag].sort_key = _place(_flag)
_add_command(
    "bosket.cli.demo.command:demo",
    "Watch gangs and queues at work, for a quarter of a minute.",
    "bosket demo",
    "bosket demo --json | jq .promises",
)
_add_command(
    "bosket.cli.up:up",
    "Start an embedded cluster to try things on, with a kubeconfig for kubectl.",
    "bosket up",
    "bosket up --nodes 125 --gpus 8 --racks 5 --kubeconfig /tmp/kubeconfig",
    "bosket up --services podgrouper,binder     # bring your own scheduler",
    "kubectl --kubeconfig kubeconfig apply -f examples/",
)
_add_command(
    "bosket.cli.run:run",
    "Run services against the cluster of your kubeconfig.",
    "bosket run podgrouper scheduler binder",
    "bosket run scheduler --help     # only what concerns the scheduler",
    "bosket run scheduler --kubeconfig ./kubeconfig --no-leader-elect --log-level debug",
    "bosket run scheduler --scheduler-config spread.yaml",
    "bosket run admission --gpu-sharing-enabled --webhook-host 0.0.0.0",
    "bosket run binder --listen 127.0.0.1:9090 --log-format json",
    "bosket run reservation     # in a pod that holds a shared GPU",
)
_add_command(
    "bosket.cli.repair:repair",
    "Make a damaged data directory of bosket up usable again, with what can be read of it.",
    "bosket repair cluster-data     # of: bosket up --data cluster-data",
)
_add_command(
    "bosket.cli.example.command:example",
    "Run a workload of a kind whose operator isn't there, and show how it is grouped.",
    "bosket example examples/00-queues.yaml examples/kinds/ray-job.yaml --kubeconfig kubeconfig",
)
_add_command(
    "bosket.cli.crds:crds",
    "Print the definitions of KAI's and Grove's kinds, or install them with namespace, queues and priority classes.",
    "bosket crds | kubectl apply -f -",
    "bosket crds --install --context staging",
)
_add_command(
    "bosket.cli.manifests:manifests",
    "Print everything that installs Bosket on a cluster: what the Helm chart renders, without Helm.",
    "bosket manifests --create-namespace > bosket.yaml",
    "bosket manifests --values values.yaml --set global.registry=registry.example.com/team",
    "bosket manifests --skip-crds --namespace scheduling | kubectl apply -f -",
)
_add_command(
    "bosket.cli.snapshot:snapshot",
    "Fetch all that a running scheduler knows, as a file for replay.",
    "bosket snapshot --kubeconfig kubeconfig     # of an embedded cluster: bosket up",
    "bosket snapshot --url 127.0.0.1:8081 -o monday.zip",
    "kubectl port-forward -n kai-scheduler deployment/kai-scheduler-default 8081 & bosket snapshot",
)
_add_command(
    "bosket.cli.profile:profile",
    "Take a CPU profile of a running scheduler, or of any other service.",
    "bosket profile --kubeconfig kubeconfig     # of an embedded cluster: bosket up",
    "bosket profile --seconds 10 --url 127.0.0.1:8182     # of: bosket run binder --enable-profiler",
    "kubectl port-forward -n kai-scheduler deployment/kai-scheduler-default 8081 & bosket profile",
)
_add_command(
    "bosket.cli.explain:explain",
    "Show why a job waits, who is in the way, and which changes would start it.",
    "bosket explain ml/training",
    "bosket why training -n ml --json | jq .changes",
    "bosket explain ml/training --snapshot snapshot.zip",
    "bosket explain --all --queue team-a",
    name=("explain", "why"),
)
_add_command(
    "bosket.cli.replay:replay",
    "Run one scheduling cycle on a recorded snapshot, or all cycles of a flight recording again.",
    "bosket replay snapshot.zip",
    "bosket replay snapshot.zip --json --repeat 5 | jq .cpu_ms",
    "bosket replay kubeconfig.recording                # all cycles of a flight recording",
    "bosket replay kubeconfig.recording --at 03:00     # one of them",
)
_record = App(
    name="record",
    help="Show a flight recording, and write its moments as snapshots.",
    group=_place("record")[0],
    sort_key=_place("record")[1],
)
app.command(_record)
_add_command(
    "bosket.cli.record:record_list",
    "Show what a flight recording holds: its span, its size, and the cycles that decided something.",
    "bosket record list --kubeconfig kubeconfig     # of: bosket up",
    "bosket record list /var/lib/bosket/recording --since 12h",
    to=_record,
    name="list",
)
_add_command(
    "bosket.cli.record:record_export",
    "Write the cluster of a moment as a snapshot file, as KAI and bosket replay read it.",
    "bosket record export --at 03:00 -o night.zip",
    "bosket record export --from 02:00 --to 04:00 -o night/",
    to=_record,
    name="export",
)
_add_command(
    "bosket.cli.diff:diff",
    "Show what is different between two moments of a recording, or two snapshots: queues, nodes, jobs, use.",
    "bosket diff 18:00 08:00                  # since yesterday evening",
    "bosket diff monday.zip tuesday.zip --json | jq .jobs",
)
_add_command(
    "bosket.cli.ledger:ledger",
    "Show where the GPU hours went: used, held, idle, down; deserved, borrowed, lent, lost.",
    "bosket ledger --from 7d",
    "bosket ledger --from 7d --by user",
    "bosket ledger kubeconfig.recording --from 18:00 --to 08:00 --csv > night.csv",
)
_add_command(
    "bosket.cli.topology:topology",
    "Show the domains of Topologies: what is free in each, and the largest gang that could start there.",
    "bosket topology",
    "bosket topology --topology cluster --level rack --gpus 8     # gangs of pods with 8 GPUs each",
    "bosket topology snapshot.zip --json | jq '.topologies[].root.gang'",
)
_add_command(
    "bosket.cli.queues:queues",
    "Show the tree of queues: used, fair share, quota, limit, and how many jobs wait.",
    "bosket queues",
    "bosket queues team-a --resource cpu",
    "bosket queues -o wide",
    "bosket queues --json | jq '.queues[] | select(.waitingJobs > 0)'",
)
_add_command(
    "bosket.cli.jobs:jobs",
    "Show jobs: state, queue, position, age, nodes, and why they wait.",
    "bosket jobs",
    "bosket jobs --queue team-a --state pending",
    "bosket jobs -n ml --watch",
    "bosket jobs --json | jq '.counts'",
)
_add_command(
    "bosket.cli.order:order",
    "Show whose turn it is next, and why.",
    "bosket order",
    "bosket order team-a --most 5",
    "bosket order --snapshot snapshot.zip --json | jq '.turns[0]'",
)
_add_command(
    "bosket.cli.nodes:nodes",
    "Show each GPU by the queue that holds it, rack by rack, and how many of the free ones pods can't use.",
    "bosket nodes",
    "bosket nodes --by topology.kubernetes.io/zone -o wide",
    "bosket nodes snapshot.zip --json | jq .fragmented_share",
)
_add_command(
    "bosket.cli.plan:plan",
    "Show what would happen: workloads submitted, quotas changed, nodes drained or added. Writes nothing.",
    "bosket plan -f train.yaml",
    "bosket plan -f train.yaml --set team-a.gpu.quota=16 --json | jq .evicts",
    "bosket plan --drain rack=r2 --cycles 10",
    "bosket plan --add-nodes 4:like=node-7 --delete Queue/old-team",
    "bosket plan --snapshot monday.zip --patch change.json     # a change that bosket explain offered",
)
_add_command(
    "bosket.cli.events:events",
    "Show which jobs started and which were evicted: when, for whom and by which rule.",
    "bosket events --since 12h",
    "bosket events --kind evicted --queue team-a",
    "bosket events --json | jq '[.events[].lostGpuHours | numbers] | add'",
)
_add_command(
    "bosket.cli.top:top",
    "Watch queues, jobs and what happened last, on one screen.",
    "bosket top",
    "bosket top --every 2",
    "bosket top --once > now.txt",
)
_add_command(
    "bosket.cli.doctor:doctor",
    "Check a cluster's installation, queues, shards, rights, capacity and workloads, and say what to change.",
    "bosket doctor",
    "bosket doctor --context staging --json | jq -r '.findings[].command'",
    "bosket doctor snapshot.zip     # from bosket snapshot",
    "kubectl get queues,nodes,pods,podgroups -A -o yaml > dump.yaml && bosket doctor dump.yaml",
)
_add_command(
    "bosket.cli.migrate:migrate",
    "Check a cluster that runs KAI: what would change if Bosket took it over, and the steps in order.",
    "bosket migrate",
    "bosket migrate --json | jq '.items[] | select(.outlook == \"needs action\")'",
    "bosket migrate dump.yaml snapshot.zip",
)
_add_command(
    "bosket.cli.eta:eta",
    "Show when a job will start.",
    "bosket eta train",
    "bosket eta team-a/train --snapshot snapshot.zip --json | jq .p50",
)
_simulate = App(
    name="simulate",
    help="Show what queues would get, once or over time, and how long jobs would wait.",
    group=_place("simulate")[0],
    sort_key=_place("simulate")[1],
)
app.command(_simulate)
_add_command(
    "bosket.cli.simulate:fairshare",
    "Divide resources among queues, as the scheduler does.",
    "bosket simulate fairshare request.json",
    "bosket simulate fairshare --k 2 < request.json | jq .",
    "bosket simulate fairshare --serve 8080 & curl -d @request.json 127.0.0.1:8080/simulate",
    to=_simulate,
)
_add_command(
    "bosket.cli.simulate:over_time",
    "Let queues compete over thousands of cycles, with what they used in the past.",
    "bosket simulate time examples/simulate/oscillation.yaml --chart oscillation.svg",
    "bosket simulate time scenario.yaml -o points.csv",
    to=_simulate,
    name="time",
)
_add_command(
    "bosket.cli.simulate_trace:trace",
    "Replay a trace of jobs: how long each would wait under a policy.",
    "bosket simulate trace jobs.csv --gpus 240 --chart waits.svg",
    "bosket simulate trace jobs.csv --gpus 240 --policy fifo --json | jq .wait_hours.ge32",
    "bosket simulate trace jobs.csv --gpus 240 --policy backfill --limits 3 --backfill after=12h",
    "bosket simulate trace jobs.csv --gpus 240 --quota team-a=64 team-b=128",
    to=_simulate,
)
_add_command(
    "bosket.cli.completion.command:completion",
    "Print the script that makes bash, zsh or fish complete commands, options and names.",
    'eval "$(bosket completion bash)"     # in ~/.bashrc',
    'eval "$(bosket completion zsh)"      # in ~/.zshrc, after compinit',
    "bosket completion fish > ~/.config/fish/completions/bosket.fish",
)
_add_command("bosket.cli.version:version", "Print the version.", "bosket version --json")


#: Commands whose exit codes from 2 on are answers: whatever goes wrong there is 1.
_ANSWER_BY_EXIT_CODE: Final = frozenset({"plan"})


def _error_code(tokens: Sequence[str], code: int) -> int:
    return 1 if not _ANSWER_BY_EXIT_CODE.isdisjoint(tokens[:1]) else code


@app.meta.default
def _launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    debug: Flag = False,
) -> int:
    """Run a command.

    Parameters
    ----------
    debug
        Show where in the program an error came from.
    """
    try:
        result = app(tokens)
        sys.stdout.flush()
    except (CycloptsError, BrokenPipeError):
        raise
    except Exception as error:
        if debug:
            raise
        from bosket.cli.failure import failure_of

        failure = failure_of(error)
        complain(failure.text)
        return _error_code(tokens, failure.exit_code)
    return result if isinstance(result, int) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments (by default, the process's own) name; gives the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == [COMPLETE]:
        from bosket.cli.completion.candidates import print_candidates

        print_candidates(app, given[1:])
        return 0
    leave_out_other_services(given)
    try:
        add_long_description(app, given)
        result = app.meta(given)
    except CycloptsError as error:
        command = " ".join((PROGRAM, *(error.command_chain or ())))
        complain(f"{' '.join(str(error).split())} (see {command} --help)")
        return _error_code(given, 2)
    except BrokenPipeError:
        # Whoever read our output has seen enough. What is left in the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
