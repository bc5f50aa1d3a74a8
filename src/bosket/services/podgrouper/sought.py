"""What groupers look other objects up by; the service keeps indexes for it."""

from __future__ import annotations

from typing import Final

#: On all pods of one of Kubeflow's training jobs: the job's name.
TRAINING_JOB_LABEL: Final = "training.kubeflow.org/job-name"
#: On all pods of a Knative service: the revision that they run.
KNATIVE_REVISION_LABEL: Final = "serving.knative.dev/revision"

#: Labels by which pods are found.
POD_LABELS: Final = (TRAINING_JOB_LABEL, KNATIVE_REVISION_LABEL)
