# The service in a small image: no compiler, no root, torch for the processor alone.
#   docker build -t nescio .
#   docker run --rm -p 8000:8000 nescio                                     the page, with the models of the package
#   docker run --rm -p 8000:8000 -v "$PWD/run:/models:ro" nescio /models    a model of your own
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
# Wheels of torch without CUDA, which is several gigabytes smaller. The version is that of constraints.txt.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/nescio
WORKDIR /src
# First what changes seldom: a change of our own code leaves the layer of torch as it is. Without what it needs, which
# that index may not have in our versions; the next step takes it from PyPI.
COPY constraints.txt ./
RUN /opt/nescio/bin/pip install --no-deps --index-url "${TORCH_INDEX}" --constraint constraints.txt torch
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src ./src
RUN /opt/nescio/bin/pip install --constraint constraints.txt ".[serve,text]" \
    && /opt/nescio/bin/pip uninstall --yes pip

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="nescio" \
      org.opencontainers.image.description="Neural classifiers that can say \"I do not know\", over HTTP" \
      org.opencontainers.image.licenses="MIT"
RUN useradd --system --uid 10001 --create-home --home-dir /home/nescio nescio
COPY --from=build /opt/nescio /opt/nescio
ENV PATH="/opt/nescio/bin:${PATH}" \
    PYTHONUNBUFFERED=1 \
    NESCIO_CACHE=/home/nescio/.cache/nescio
USER 10001
WORKDIR /home/nescio
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["nescio", "serve", "--host", "0.0.0.0", "--port", "8000"]
