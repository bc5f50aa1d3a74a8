"""What the foreign controllers complained about, and how much memory they have."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

from tests.controlplane.process import Component

#: How the programs mark a line that somebody should look at: klog, kopf and Python's logging.
_SUSPICIOUS: Final = re.compile(r"^[EF]\d{4} |^\[[^]]*\] .*\[(ERROR|CRITICAL) *\]|ERROR|CRITICAL|Traceback")
#: Lines that are let pass, each with its reason. Not all of them were seen on a kube-apiserver, too.
_EXPECTED: Final = {
    "options.go": "kube-controller-manager and kube-scheduler say once that they have no manifest of static pods",
    "is not as new as written version": "a watch event came some 10 ms after the answer to the write; they look again",
    "the object has been modified": "two writers met, and one of them looks again",
    "because it is being terminated": "a controller was about to create something while its namespace went",
    r"(replicasets\.apps|jobs\.batch) \\?\"\w+\\?\" not found": "it was deleted while its controller looked at it",
    "ReplicaSet has no controller": "the replica-set controller says so of every one that belongs to no Deployment",
    "broadcaster already stopped": "kube-scheduler was stopped with events pending",
}
_EXPECTED_LINE: Final = re.compile("|".join(f"(?:{pattern})" for pattern in _EXPECTED))


def unexpected_lines(component: Component) -> Counter[str]:
    """What a program complained about, without times and numbers, and how often."""
    found: Counter[str] = Counter()
    for line in component.log.read_text(errors="replace").splitlines():
        if _SUSPICIOUS.search(line) and not _EXPECTED_LINE.search(line):
            found[re.sub(r"\d+", "#", line)[:300]] += 1
    return found


def resident_mib(component: Component) -> float:
    """Memory that the process holds."""
    status = Path(f"/proc/{component.process.pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(match[1]) / 1024 if match else 0.0
