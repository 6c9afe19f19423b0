# What computes: all stages, the flows, the expectations, DVC. Two variants of one installation:
#   docker build -f docker/worker.Dockerfile --target cpu -t drsr-worker-cpu .
#   docker build -f docker/worker.Dockerfile --target cuda -t drsr-worker-cuda .
# The index decides which torch comes in. The usual one brings its CUDA libraries along, so `cuda` needs no other base, only
# the NVIDIA container runtime; for a small `cpu` image give an index of CPU wheels: --build-arg PIP_EXTRA_INDEX_URL=...
ARG BASE_IMAGE=python:3.11.14-slim-bookworm
FROM ${BASE_IMAGE} AS install
ARG PIP_EXTRA_INDEX_URL
WORKDIR /opt/drsr
COPY pyproject.toml constraints.txt params.yaml README.md LICENSE ./
COPY drsr drsr
COPY flows flows
COPY expectations expectations
COPY migrations migrations
COPY corpora/public corpora/public
RUN python -m venv .venv
RUN .venv/bin/python -m pip install --quiet --no-cache-dir --constraint constraints.txt '.[flows]'

FROM ${BASE_IMAGE} AS cpu
WORKDIR /opt/drsr
COPY --from=install /opt/drsr/.venv .venv
COPY params.yaml prefect.yaml dvc.yaml ./
COPY flows flows
COPY expectations expectations
ENV PATH=/opt/drsr/.venv/bin:$PATH \
    PYTHONPATH=/opt/drsr \
    PYTHONUNBUFFERED=1 \
    HOME=/cache \
    HF_HUB_OFFLINE=1 \
    DO_NOT_TRACK=1 \
    DVC_NO_ANALYTICS=1 \
    GX_ANALYTICS_ENABLED=false \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    PREFECT_HOME=/cache/prefect \
    OMP_NUM_THREADS=1 \
    DRSR_HOME=/opt/drsr \
    DRSR_CACHE=/cache \
    DRSR_DEVICE=cpu \
    DRSR_POOL=cpu
# A number, not a name: an orchestrator can then see that it is not root. /cache holds the language model, var what a night
# leaves: the index of published policies. WORKDIR makes a folder for the user of before, to which a volume then belongs.
USER 10001:10001
WORKDIR /cache
WORKDIR /opt/drsr/var
WORKDIR /opt/drsr
VOLUME ["/cache", "/opt/drsr/var"]
# The worker answers on this port once it is started with --with-healthcheck.
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=4)"]
CMD ["sh", "-c", "exec prefect worker start --pool \"$DRSR_POOL\" --type process --with-healthcheck"]

FROM cpu AS cuda
ENV DRSR_DEVICE=cuda \
    DRSR_POOL=gpu \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
