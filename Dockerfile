# One image for the workers and Flower. It holds no configuration and no key: both come at run time, see docs/compose.md.

FROM python:3.12-slim AS build
# The Makefile's version. uv checks every package against the hashes of requirements.lock, which pip cannot do for
# constraints; what the lock names beyond our own dependencies (tests, the small local model) is not installed.
RUN pip install --no-cache-dir --disable-pip-version-check uv==0.13.8
WORKDIR /src
COPY pyproject.toml README.md requirements.lock ./
COPY config config
COPY worker worker
COPY tasks tasks
COPY staffel staffel
COPY staffel_wire staffel_wire
RUN python -m venv --without-pip /opt/staffel \
 && uv pip install --python /opt/staffel/bin/python --no-cache --compile-bytecode \
      --constraint requirements.lock --build-constraint requirements.lock .

FROM python:3.12-slim
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin staffel
COPY --from=build /opt/staffel /opt/staffel
ENV PATH=/opt/staffel/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    STAFFEL_CONFIG=/etc/staffel/staffel.toml
USER staffel
# An empty place: Celery looks for `worker` in the current folder first.
WORKDIR /var/empty
CMD ["celery", "-A", "worker", "worker", "-Q", "cloud", "-l", "INFO"]
