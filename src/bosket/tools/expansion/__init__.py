"""Workloads that aren't submitted yet, expanded into the pods and pod groups that a cluster would make of them.

manifests.py   reads files, directories and standard input
item.py        one object, and how rules make children of it
builtin.py     Kubernetes' workloads, JobSets, TrainJobs    kubeflow.py  ray.py  serving.py  workflow.py  other.py
grove.py       PodCliqueSets, by Grove's own rendering functions
rules.py       which kind follows which rule
expand.py      objects into pods, level by level
submission.py  pods into a draft: completed by admission, grouped by the pod grouper

The rules say what controllers make; what admission adds and how pods are grouped is decided by the code of these
services, so that a plan and the cluster can't differ in it.
"""
