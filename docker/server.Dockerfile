# Prefect's server: schedules, queues and its page. No language model, no torch.
#   docker build -f docker/server.Dockerfile -t drsr-server .
ARG BASE_IMAGE=python:3.11.14-slim-bookworm
FROM ${BASE_IMAGE} AS install
WORKDIR /opt/drsr
COPY pyproject.toml constraints.txt params.yaml README.md LICENSE ./
COPY drsr drsr
COPY flows flows
COPY expectations expectations
COPY migrations migrations
COPY corpora/public corpora/public
RUN python -m venv .venv
RUN .venv/bin/python -m pip install --quiet --no-cache-dir --constraint constraints.txt '.[server]'

FROM ${BASE_IMAGE}
COPY --from=install /opt/drsr/.venv /opt/drsr/.venv
# The address by variables: with --port the page would call the default one.
ENV PATH=/opt/drsr/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/state \
    DO_NOT_TRACK=1 \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    PREFECT_HOME=/state \
    PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE=prefect.server.concurrency.lease_storage.filesystem \
    PREFECT_SERVER_API_HOST=0.0.0.0 \
    PREFECT_SERVER_API_PORT=4200
USER 10001:10001
WORKDIR /state
VOLUME ["/state"]
EXPOSE 4200
HEALTHCHECK --interval=15s --timeout=5s --start-period=90s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:4200/api/health', timeout=4)"]
CMD ["prefect", "server", "start"]
