# One image for every service: `bosket run scheduler`, `bosket run binder`, … The operator deploys all of them from it.
#
#   docker build -t bosket:0.1.0 .
#
# Needs a package index, and the base image. Everything that is installed is pinned by constraints.txt.
ARG PYTHON=python:3.11-slim

FROM ${PYTHON} AS build
WORKDIR /source
COPY constraints.txt pyproject.toml README.md LICENSE ./
# The build backend has an environment of its own, which isn't part of the image.
RUN python -m venv /build
RUN /build/bin/python -m pip install --no-cache-dir --disable-pip-version-check -c constraints.txt hatchling
COPY src src
RUN /build/bin/python -m pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation -w /wheels .
RUN python -m venv --without-pip /opt/bosket
RUN /build/bin/python -m pip --python /opt/bosket/bin/python install --no-cache-dir --disable-pip-version-check -c constraints.txt /wheels/*.whl
# Nothing is written while it runs: the file system of its containers is read-only.
RUN /opt/bosket/bin/python -m compileall -q /opt/bosket/lib

FROM ${PYTHON}
COPY --from=build /opt/bosket /opt/bosket
ENV PATH=/opt/bosket/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10000:10000
ENTRYPOINT ["bosket"]
CMD ["--help"]
