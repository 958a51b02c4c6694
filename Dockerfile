# pqd and pq in an image, with the embedded store alone or with both engines:
#
#   docker build --build-arg ENGINES=embedded -t pqbridge .
#   docker build -t pqbridge-foundationdb .
#
# To run one, with a login that pq, nats and the image read from the same variables:
#
#   export NATS_USER=pq NATS_PASSWORD=$(openssl rand -hex 32)
#   docker run -d --name pqd --stop-timeout 15 -e NATS_USER -e NATS_PASSWORD -v pqd:/data -p 127.0.0.1:4222:4222 -p 127.0.0.1:8622:8622 pqbridge
#
# The console is at http://127.0.0.1:8622/ and asks for a token: the password. It only
# shows; with -e PQ_CONSOLE=admin it changes, too. Without a login pqd does not start in
# the image, because it listens for other machines there.
#
# FoundationDB's client library must be of the minor version that the cluster
# runs (7.3); docs/foundationdb.md says how to upgrade both. FDB_SHA256 is the sum of
# its package for your architecture: with it the build checks what it has downloaded.
#
# It needs BuildKit, which skips the stages that an image does not need, so the embedded
# one downloads no library, and keeps what the compiler has made for the next build. Docker
# before 23, or without its plugin buildx, has it with DOCKER_BUILDKIT=1 in the environment.
#
# --build-arg VERSION=1.2.3 is the version that the programs tell; otherwise it is 0.0.0-devel.
ARG GO_VERSION=1.26
ARG FDB_VERSION=7.3.63
ARG FDB_SHA256=
ARG ENGINES=all

FROM debian:bookworm-slim AS client
ARG FDB_VERSION
ARG FDB_SHA256
# Without BuildKit the build ends here, and says so.
RUN --mount=type=tmpfs,target=/tmp \
 apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates curl \
 && case "$(dpkg --print-architecture)" in amd64) arch=amd64;; arm64) arch=aarch64;; *) echo "no FoundationDB client for $(dpkg --print-architecture)" >&2; exit 1;; esac \
 && curl -fsSL -o /tmp/clients.deb "https://github.com/apple/foundationdb/releases/download/${FDB_VERSION}/foundationdb-clients_${FDB_VERSION}-1_${arch}.deb" \
 && if [ -n "${FDB_SHA256}" ]; then echo "${FDB_SHA256}  /tmp/clients.deb" | sha256sum -c -; fi \
 && dpkg -x /tmp/clients.deb /client

FROM golang:${GO_VERSION}-bookworm AS source
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .

FROM source AS build-embedded
ARG VERSION=
RUN --mount=type=cache,target=/root/.cache/go-build \
 CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.release=${VERSION}" -o /out/bin/ ./cmd/pqd ./cmd/pq

FROM source AS build-all
COPY --from=client /client/usr/include/foundationdb /usr/include/foundationdb
COPY --from=client /client/usr/lib/libfdb_c.so /usr/lib/libfdb_c.so
ARG VERSION=
RUN --mount=type=cache,target=/root/.cache/go-build \
 CGO_ENABLED=1 go build -tags fdb -trimpath -ldflags "-s -w -X main.release=${VERSION}" -o /out/bin/ ./cmd/pqd ./cmd/pq \
 && install -D -m 644 /usr/lib/libfdb_c.so /out/lib/libfdb_c.so

FROM build-${ENGINES} AS build

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin pq \
 && install -d -o pq -g pq -m 700 /data
COPY --from=build /out/ /usr/local/
RUN ldconfig
USER pq
VOLUME /data
ENV PQ_STORE=local:/data PQ_LISTEN=0.0.0.0:4222 PQ_HTTP=0.0.0.0:8622 PQ_LOG=json
EXPOSE 4222 8622
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s \
  CMD ["pqd", "probe"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["pqd"]
