"""A candidate in an election of the official client: `python candidate.py NAME`.

Who leads says so in a ConfigMap, over and over.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Final

from kubernetes import client, config
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

NAMESPACE: Final = "default"
LEASE: Final = "election"
LEADER: Final = "leader"


def main() -> None:
    """Take part until killed."""
    name = sys.argv[1]
    loader: Any = config
    loader.load_kube_config(os.environ["KUBECONFIG"])

    def lead() -> None:
        core: Any = client.CoreV1Api()
        body = {"metadata": {"name": LEADER}, "data": {"name": name, "count": "0"}}
        try:
            core.create_namespaced_config_map(NAMESPACE, body)
        except client.exceptions.ApiException as error:
            if error.status != 409:
                raise
        count = 0
        while True:
            count += 1
            core.patch_namespaced_config_map(LEADER, NAMESPACE, {"data": {"name": name, "count": str(count)}})
            time.sleep(0.5)

    settings: Any = electionconfig.Config(
        LeaseLock(LEASE, NAMESPACE, name),
        lease_duration=6,
        renew_deadline=4,
        retry_period=1,
        onstarted_leading=lead,
        onstopped_leading=lambda: print(f"ERROR {name} lost the lease", flush=True),
    )
    elector: Any = leaderelection.LeaderElection(settings)
    elector.run()


if __name__ == "__main__":
    main()
