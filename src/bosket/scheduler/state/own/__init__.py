"""Parts of `OwnDecisions`: bind requests, evictions, annotations, back-offs, preemption history, memory."""
