"""What the scheduler reasons about: resources, nodes, tasks, jobs, queues. Plain values; no I/O, no policy."""
