"""The scheduler's values: resources, nodes, tasks, jobs, queues, decisions. No I/O, no policy."""
