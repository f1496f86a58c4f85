#!/usr/bin/env bash
# Install the Debian packages that are missing, when root or sudo without a password allows it; otherwise say which.
# Arguments name optional programs that are installed as well, such as chromium. Never fails: without TeX a run still
# ends, with the paper's sources.
set -u
missing=()
need() { missing+=("$1"); }
has_tex() { command -v kpsewhich >/dev/null && kpsewhich "$1" >/dev/null; }

has_tex article.cls && command -v pdflatex >/dev/null || need texlive-latex-base
has_tex microtype.sty || need texlive-latex-recommended
has_tex ptmr8t.tfm || need texlive-fonts-recommended
command -v latexmk >/dev/null || need latexmk
command -v bwrap >/dev/null || need bubblewrap
command -v git >/dev/null || need git  # for the study of a repository
[ -z "${PYTHON:-}" ] || "$PYTHON" -c 'import ensurepip' 2>/dev/null || need python3-venv
optional=()
for program in "$@"; do command -v "$program" >/dev/null || optional+=("$program"); done
[ "${#missing[@]}${#optional[@]}" = 00 ] && exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
if command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
    echo "installing ${missing[*]} ${optional[*]}"
    apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
    install=("${apt[@]}" install -y --no-install-recommends)
    "${apt[@]}" update </dev/null || true
    # By themselves: a system that does not know these packages shall still get the others.
    [ "${#optional[@]}" = 0 ] || "${install[@]}" "${optional[@]}" </dev/null >/dev/null && optional=()
    [ "${#missing[@]}" = 0 ] || "${install[@]}" "${missing[@]}" </dev/null >/dev/null && missing=()
    [ "${#missing[@]}" = 0 ] || echo "that failed; without them papers are not typeset." >&2
fi
missing+=("${optional[@]}")
[ "${#missing[@]}" = 0 ] && exit 0
echo "Missing: ${missing[*]}. To install them: sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
exit 0
