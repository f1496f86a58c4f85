# An image with scientist, TeX and bubblewrap; how to run it, and which options the sandbox needs: docs/getting-started.md.
# Linted, never built.
FROM python:3.12-slim-bookworm
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# The versions are those of the release; a pinned one would be gone after its next security update.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends \
        bubblewrap git latexmk make \
        texlive-fonts-recommended texlive-latex-base texlive-latex-recommended \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /scientist
COPY . .
# Without development tools. PyPI's PyTorch brings CUDA; --build-arg PIP_INDEX_URL=... names an index of CPU builds.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir -c constraints.txt -e '.[torch]'
RUN useradd --create-home --uid 1000 scientist && mkdir -p runs && chown -R scientist runs
USER 1000
ENTRYPOINT ["scientist"]
CMD ["--help"]
