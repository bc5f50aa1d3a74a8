"""Talking to an API server: client, watch, informers, patches, selectors, kubeconfig."""
