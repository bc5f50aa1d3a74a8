"""The live state of the cluster, from which snapshots are taken."""
