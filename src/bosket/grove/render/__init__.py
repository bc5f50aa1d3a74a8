"""Children of a PodCliqueSet as objects: pure functions of the set, without a cluster."""
