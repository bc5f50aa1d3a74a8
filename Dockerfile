# One image for every service: `bosket run scheduler`, `bosket run binder`, … The operator deploys all of them from it.
#
#   docker build --build-arg PYTHON=python:3.11-slim@sha256:<digest> -t bosket:0.1.0 .
#
# Needs a package index, and the base image. Everything that is installed is pinned by constraints-image.txt, hashes
# included, and the build backend by constraints.txt. The base image is named by its digest, which is yours to look up: a
# tag may be another image tomorrow.
ARG PYTHON

FROM ${PYTHON} AS build
ARG PYTHON
RUN case "$PYTHON" in *@sha256:*) ;; *) echo "PYTHON is $PYTHON: name the base image by its digest, such as python:3.11-slim@sha256:..." >&2; exit 1 ;; esac
WORKDIR /source
COPY constraints.txt constraints-image.txt pyproject.toml README.md LICENSE ./
# The build backend has an environment of its own, which isn't part of the image.
RUN python -m venv /build
RUN /build/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r constraints.txt
COPY src src
RUN /build/bin/python -m pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation -w /wheels .
RUN python -m venv --without-pip /opt/bosket
RUN /build/bin/python -m pip --python /opt/bosket/bin/python install --no-cache-dir --disable-pip-version-check --require-hashes -r constraints-image.txt
RUN /build/bin/python -m pip --python /opt/bosket/bin/python install --no-cache-dir --disable-pip-version-check --no-deps --no-index /wheels/*.whl
# Nothing is written while it runs: the file system of its containers is read-only.
RUN /opt/bosket/bin/python -m compileall -q /opt/bosket/lib

FROM ${PYTHON}
COPY --from=build /opt/bosket /opt/bosket
ENV PATH=/opt/bosket/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10000:10000
ENTRYPOINT ["bosket"]
CMD ["--help"]
