FROM python:3.11-slim

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

WORKDIR /app

# The dependencies change less often than the code, so they make a layer of their own.
# The extra index holds the build of torch without CUDA, gigabytes smaller.
COPY --chmod=755 requirements.txt constraints.txt ./
RUN pip install --no-cache-dir --disable-pip-version-check \
      --extra-index-url https://download.pytorch.org/whl/cpu \
      -r requirements.txt

# Readable by every user, whatever the clone's umask was.
COPY --chmod=755 LICENSE ./
COPY --chmod=755 data/ data/
COPY --chmod=755 index/ index/
COPY --chmod=755 service/ service/

# A named volume takes over the owner of the folder it first covers.
RUN useradd --system --uid 10001 --user-group --home-dir /nonexistent softdict \
    && install -d -o softdict -g softdict /var/lib/softdict
USER softdict

# Inside a container the loopback address answers nobody else. The volume is the one place that can
# be written, so a model that an encoder st:NAME downloads is kept there too.
ENV SOFTDICT_HOST=0.0.0.0 \
    SOFTDICT_PORT=8000 \
    SOFTDICT_HOME=/var/lib/softdict \
    HF_HOME=/var/lib/softdict/models
VOLUME /var/lib/softdict
EXPOSE 8000

HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]

CMD ["python", "-m", "service", "serve"]
