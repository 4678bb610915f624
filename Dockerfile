FROM python:3.11-slim
WORKDIR /srv/assay
COPY requirements/serve.lock requirements/
RUN pip install --no-cache-dir --require-hashes -r requirements/serve.lock
COPY pyproject.toml README.md ./
COPY app app
COPY workers workers
COPY kernels kernels
COPY migrations migrations
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable . \
 && useradd --system --home-dir /data assay && mkdir -p /data && chown assay /data
USER assay
ENV ASSAY_DATA=/data
VOLUME /data
EXPOSE 8000
CMD ["assay", "serve", "--host", "0.0.0.0"]
