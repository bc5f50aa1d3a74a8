"""Chaos: a cluster under load while its services are killed, frozen and robbed of their leases.

`python -m benchmarks chaos --minutes 30 --server real` (or `embedded`) runs it:

    world      the control plane and Bosket's services, each a process that can be killed, frozen and started again
    load       what users and administrators do: workloads of all kinds, edits of queues and nodes
    fault      what goes wrong: kill -9, SIGSTOP, stolen leases, a paused or killed API server
    restart    reclaims whose scheduler is killed right after the first eviction
    judge      what must hold, from watch events alone; shares no code with Bosket
    watcher    feeds the judge through the official Kubernetes client
    run        all of it together, and the report
"""
