# The images of this project: `manager` (the default), `petstore`, and `dev` for `tilt up`.
# Every stage has the same base image, so all images on a node share nearly all layers.
# Among the versions of Python with wheels for every dependency, 3.13 starts with the least CPU and memory: a manager of all
# operators needs 0.54 s of CPU and 72 MB, on 3.14 0.59 s and 77 MB. Requests cost the same on 3.13 and 3.14.
# No digest: no registry was reachable when the tag changed. `scripts/pin image` writes the digest and removes this line.
ARG PYTHON_IMAGE=python:3.13.16-slim-trixie

# This stage installs the packages; the images do not contain its pip, build back-end and sources.
FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python -m venv --without-pip /opt/operator-manager
# Dependencies change seldom, so their layer is first. Only wheels are installed, so nothing is compiled.
COPY constraints.txt pyproject.toml ./
RUN sed '/^# Packages that build/,$d' constraints.txt >runtime.txt \
    && sed '/^# Packages of development/,$d' constraints.txt >build.txt \
    && python -m pip install --only-binary :all: --no-deps --require-hashes --requirement build.txt \
    && python -m pip --python /opt/operator-manager/bin/python install \
        --only-binary :all: --no-deps --require-hashes --requirement runtime.txt \
    && cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
        --output-file /opt/operator-manager/sbom.cdx.json /opt/operator-manager/bin/python
COPY LICENSE README.md ./
COPY apis apis
COPY controllers controllers
COPY devcluster devcluster
COPY manager manager
COPY manager_console manager_console
COPY manager_kinds manager_kinds
COPY manager_kubernetes_asyncio manager_kubernetes_asyncio
COPY manager_shards manager_shards
COPY manager_tools manager_tools
COPY manager_tracing manager_tracing
COPY petstore petstore
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist . ./controllers \
    && python -m pip --python /opt/operator-manager/bin/python install --no-deps dist/*.whl

# The base image without unused modules, and with bytecode for the rest. The official images have no bytecode, so
# every start of the program would compile half of the standard library again.
FROM ${PYTHON_IMAGE} AS slim
COPY --from=build /opt/operator-manager /opt/operator-manager
COPY scripts/slim-image /opt/slim-image
RUN python -I -B /opt/slim-image /opt/operator-manager && rm /opt/slim-image

# The common part of all images is one layer, so that removed files use no space. Without pip, nothing can be
# installed.
FROM scratch AS base
COPY --from=slim / /
ENV PATH=/opt/operator-manager/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /
USER 65532:65532

FROM base AS petstore
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="petstore" \
      org.opencontainers.image.description="A pet store behind gRPC, for the Pet operator of operator-manager" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
EXPOSE 6742 6743
ENTRYPOINT ["petstore"]
CMD ["serve", "--bind-address=:6742", "--metrics-bind-address=:6743", "--memory"]

# For `tilt up`: the sources precede the installed packages on the path, and belong to the user, so that Tilt can
# replace the sources in the running container and restart the program.
FROM base AS dev
COPY --chown=65532:65532 scripts/restarting /app/scripts/restarting
COPY --chown=65532:65532 apis /app/apis
COPY --chown=65532:65532 controllers /app/controllers
COPY --chown=65532:65532 manager /app/manager
COPY --chown=65532:65532 manager_console /app/manager_console
COPY --chown=65532:65532 manager_kinds /app/manager_kinds
COPY --chown=65532:65532 manager_kubernetes_asyncio /app/manager_kubernetes_asyncio
COPY --chown=65532:65532 manager_shards /app/manager_shards
COPY --chown=65532:65532 manager_tracing /app/manager_tracing
COPY --chown=65532:65532 petstore /app/petstore
ENV PYTHONPATH=/app
ENTRYPOINT ["python", "/app/scripts/restarting", "/tmp/restart"]
CMD ["operator-manager", "run"]

FROM base AS manager
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="operator-manager" \
      org.opencontainers.image.description="A Kubernetes controller manager: one asyncio process, shared watches, typed operators" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
EXPOSE 8080 8081 8443 9443
ENTRYPOINT ["operator-manager"]
CMD ["run"]
