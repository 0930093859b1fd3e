# syntax=docker/dockerfile:1
# The image of sidecar and operator: two static programs and nothing else.
# `cargo xtask image` makes the same image without a container engine.

FROM rust:1.95.0-slim-bookworm AS build
ARG REVISION=unknown
# The toolchain that is there, without the components that rust-toolchain.toml wants for development.
ENV RUSTUP_TOOLCHAIN=1.95.0
# What the metric conclave_build_info says.
ENV CONCLAVE_REVISION=${REVISION}
WORKDIR /src
COPY . .
# A target that is named has a directory of its own, and its flags do not reach build scripts and
# procedural macros, which cannot be linked statically.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    set -eu; \
    target="$(rustc -vV | sed -n 's/^host: //p')"; \
    RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs" cargo build --release --locked --target "$target" \
        --package conclave-sidecar --bin conclave \
        --package conclave-operator --bin conclave-operator; \
    mkdir /out; \
    cp "target/$target/release/conclave" "target/$target/release/conclave-operator" /out/

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="conclave" \
      org.opencontainers.image.description="Sidecar and operator of Conclave: coordination among pods" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /out/conclave /out/conclave-operator /
USER 65532:65532
ENTRYPOINT ["/conclave"]
