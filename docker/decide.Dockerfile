# The consumer's image: a frozen policy behind the proxy, and nothing of the offline side.
#   docker build -f docker/decide.Dockerfile -t drsr-decide .
#   docker run -p 127.0.0.1:8100:8100 -v ./policy:/policy:ro drsr-decide --upstream https://...
# It asks nobody for a password, so only this machine reaches it; a name with a tag can be moved, so a release is built
# with --build-arg BASE_IMAGE=python@sha256:...
# /cache has the language model: docker run --rm -v models:/cache -e HF_HUB_OFFLINE=0 --entrypoint drsr drsr-decide backbone fetch NAME
# asks the hub for one, and nothing else does. The policy is a folder or a wheel; --device cuda where there is one. Which torch comes in is the package index's choice:
# give another one to pip with --build-arg PIP_EXTRA_INDEX_URL=...
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
RUN .venv/bin/python -m pip install --quiet --no-cache-dir --constraint constraints.txt '.[backbone,proxy]'

FROM ${BASE_IMAGE}
COPY --from=install /opt/drsr/.venv /opt/drsr/.venv
ENV PATH=/opt/drsr/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/cache \
    HF_HUB_OFFLINE=1 \
    DO_NOT_TRACK=1 \
    DRSR_CACHE=/cache
# A number, not a name: an orchestrator can then see that it is not root. /cache holds the language model.
USER 10001:10001
WORKDIR /cache
VOLUME ["/cache"]
EXPOSE 8100
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8100/healthz', timeout=4)"]
ENTRYPOINT ["drsr", "serve", "--host", "0.0.0.0", "--port", "8100", "--policy", "/policy"]
