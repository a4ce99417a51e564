# The image of tenured: one supervisor as process 1, without root, on a root file system that may be read-only.
# docs/containers.md says how to run it. Secrets are never built in: they come as files or variables at run time.

ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /build
COPY pyproject.toml setup.cfg README.md LICENSE tenured.py ./
COPY tenured-stubs ./tenured-stubs
COPY supervisor ./supervisor
COPY workers ./workers
RUN pip wheel --no-cache-dir --disable-pip-version-check --wheel-dir /wheels . \
 && python -m venv --without-pip /opt/tenured \
 && pip --python /opt/tenured/bin/python install --no-cache-dir --disable-pip-version-check --no-index --find-links /wheels tenured

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="tenured" \
      org.opencontainers.image.description="Keeps persistent WebSocket connections alive across a fleet, and always knows who owns them." \
      org.opencontainers.image.licenses="Apache-2.0"
# Numbers, so that Kubernetes can see that it is not root and a volume can be given to it before the image is there.
RUN groupadd --gid 10001 tenured \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/tenured --no-create-home --shell /usr/sbin/nologin tenured \
 && install -d -m 0755 /etc/tenured \
 && install -d -m 0700 -o tenured -g tenured /var/lib/tenured /run/tenured
COPY --from=build /opt/tenured /opt/tenured
# The two folders win over what a file says, so that `tenured health` finds the supervisor whatever the file is.
ENV PATH=/opt/tenured/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    TENURED_STATE_DIR=/var/lib/tenured \
    TENURED_RUN_DIR=/run/tenured
# After the folders got their owner: a volume takes it over from here.
VOLUME ["/var/lib/tenured", "/run/tenured"]
WORKDIR /etc/tenured
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["tenured", "health"]
ENTRYPOINT ["tenured"]
CMD ["run", "-c", "/etc/tenured/tenured.ini"]
