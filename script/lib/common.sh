# shellcheck shell=bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Shared by the commands in script/: where things are, and how what is missing gets here. To be sourced.
#
# Downloads and virtual environments go to LLMHOST_CACHE, shared by all checkouts, made to be kept.
# What belongs to this checkout goes to .cache/ in it, made to be thrown away.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
WORK=$ROOT/.cache
REQUIREMENTS=$ROOT/script/requirements
NAMESPACE=llmhost
NAME=sglang

account_home() { (unset HOME; printf '%s\n' ~); }
HOME=${HOME:-$(account_home)}
LLMHOST_CACHE=${LLMHOST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/llmhost-sglang}
PATH=${PATH:-/usr/local/sbin:/usr/local/bin}:/usr/sbin:/usr/bin:/sbin:/bin
export HOME LLMHOST_CACHE PATH
export LC_ALL=C.UTF-8 # Ansible refuses a locale that is not UTF-8

# Tools must neither write in the user's folders nor read this checkout's owner as a danger.
export ANSIBLE_HOME=$WORK/ansible ANSIBLE_NOCOLOR=1 ANSIBLE_COLLECTIONS_PATH=$WORK/view:$WORK/collections
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export UV_CACHE_DIR=$LLMHOST_CACHE/uv UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=1 UV_NO_PROGRESS=1 UV_LINK_MODE=copy

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# need COMMAND PACKAGE...: a command, and the packages that bring it on Debian.
need() {
  local command=$1
  shift
  command -v "$command" >/dev/null 2>&1 && return
  say "installing $* (apt-get; for $command)"
  apt_install "$@"
  command -v "$command" >/dev/null 2>&1 || die "$command is missing, and $* did not bring it"
}

apt_install() {
  command -v apt-get >/dev/null || die "missing: $* (and there is no apt-get to install it with)"
  [ "$(id -u)" = 0 ] || die "missing: $*. Install it, or run this as root"
  local log=$WORK/logs/apt.log
  mkdir -p "${log%/*}"
  if [ -z "${APT_UPDATED:-}" ]; then
    apt-get update >>"$log" 2>&1 || { tail -20 "$log"; die "apt-get update failed"; }
    APT_UPDATED=1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 ||
    { tail -20 "$log"; die "apt-get install $* failed"; }
}

# Folders that may hold a real python3.X. pyenv's shims are none: they run whatever is enabled, or nothing.
python_dirs() {
  local dir root
  local -a path roots
  IFS=: read -ra path <<<"$PATH"
  roots=("${PYENV_ROOT:-}" "$HOME/.pyenv" "$(account_home)/.pyenv" /opt/pyenv)
  for dir in "${path[@]}"; do
    case $dir in */shims) roots+=("${dir%/shims}") ;; esac
  done
  for root in "${roots[@]}"; do
    for dir in "$root"/versions/*/bin; do
      [ -d "$dir" ] && say "$dir"
    done
  done
  for dir in "${path[@]}" /usr/local/bin /usr/bin; do
    case $dir in */shims | "$WORK"/* | "$LLMHOST_CACHE"/* | "") ;; *) say "$dir" ;; esac
  done
}

# is_python PROGRAM 3.X: it runs, and it is what its name says, and no virtual environment.
is_python() {
  [ "$("$1" -Ic 'import sys; print("%d.%d" % sys.version_info[:2], sys.prefix == sys.base_prefix)' 2>/dev/null)" = "$2 True" ]
}

# Links to the Pythons of this machine in .cache/python; MAIN_PYTHON is the newest that the tools run on.
link_pythons() {
  local dir version program
  PYTHON_DIRS=$(python_dirs | awk '!seen[$0]++')
  rm -rf "$WORK/python"
  mkdir -p "$WORK/python"
  PYTHONS=() MAIN_PYTHON='' MAIN_VERSION=''
  for version in 3.9 3.10 3.11 3.12 3.13; do
    while IFS= read -r dir; do
      program=$dir/python$version
      if ! [ -x "$program" ] || ! is_python "$program" "$version"; then continue; fi
      ln -s "$program" "$WORK/python/python$version"
      PYTHONS+=("$version")
      case $version in 3.11 | 3.12 | 3.13) MAIN_PYTHON=$program MAIN_VERSION=$version ;; esac
      break
    done <<<"$PYTHON_DIRS"
  done
}

find_pythons() {
  link_pythons
  if [ -z "$MAIN_PYTHON" ]; then
    say "installing python3 and python3-venv (apt-get; no Python 3.11, 3.12 or 3.13 in $(paste -sd' ' <<<"$PYTHON_DIRS"))"
    apt_install python3 python3-venv
    link_pythons
    [ -n "$MAIN_PYTHON" ] || die "the python3 of this machine is neither 3.11 nor 3.12 nor 3.13: install one of these"
  fi
  if ! "$MAIN_PYTHON" -Ic 'import ensurepip, venv' 2>/dev/null; then
    say "installing python3-venv (apt-get; $MAIN_PYTHON comes without venv)"
    apt_install python3-venv
    "$MAIN_PYTHON" -Ic 'import ensurepip, venv' 2>/dev/null || die "$MAIN_PYTHON has no venv, and python3-venv did not bring it"
  fi
  export MAIN_PYTHON MAIN_VERSION
}

# venv NAME [3.X]: a virtual environment (of the main Python, or of that one) with requirements/NAME.txt, named by its
# content, made once for all checkouts. Leaves its path in VENV. One that was interrupted has no stamp and is made anew.
venv() {
  local requirements=$REQUIREMENTS/$1.txt version=${2:-$MAIN_VERSION} python sum
  python=$(readlink -f "$WORK/python/python$version") # the environment outlives this checkout
  sum=$(cat "$requirements" <("$python" -VV) | sha256sum | cut -c1-10)
  VENV=$LLMHOST_CACHE/venv/$1-$version-$sum
  [ -e "$VENV/.complete" ] && [ -x "$VENV/bin/python" ] && return
  say "installing from PyPI: $1 for Python $version, in $VENV"
  rm -rf "$VENV"
  if [ "$1" = boot ]; then
    "$MAIN_PYTHON" -m venv "$VENV"
    "$VENV/bin/pip" install -q -r "$requirements"
  else
    "$UV" venv -q -p "$python" "$VENV"
    "$UV" pip install -q -p "$VENV" -r "$requirements"
  fi
  touch "$VENV/.complete"
}

# uv, and the package index for it where pip was given one: uv does not read pip's configuration.
setup_uv() {
  venv boot
  BOOT=$VENV UV=$VENV/bin/uv
  [ -n "${UV_DEFAULT_INDEX:-}" ] || UV_DEFAULT_INDEX=$("$BOOT/bin/pip" config get global.index-url 2>/dev/null || true)
  UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-}}
  export BOOT UV UV_DEFAULT_INDEX
  [ -n "$UV_DEFAULT_INDEX" ] || unset UV_DEFAULT_INDEX # uv has a default of its own
}

# core_of VENV: the version of its ansible-core.
core_of() { "$1/bin/python" -Ic 'import importlib.metadata; print(importlib.metadata.version("ansible-core"))'; }

# The tools of development first in PATH, and the collection where Ansible and Python look for it.
# setup [ENVIRONMENT...]: these too: oldest, importer, site, units (one for every Python that was found), and awx, which
# is a collection.
setup() {
  local name version
  mkdir -p "$WORK/logs" "$WORK/view/ansible_collections/$NAMESPACE" "$LLMHOST_CACHE"
  need git git
  need flock util-linux
  exec 9>"$LLMHOST_CACHE/lock"
  flock 9 # another checkout may be installing the same
  find_pythons
  setup_uv
  venv dev
  DEV=$VENV UNITS_PATH='' OLDEST='' IMPORTER='' SITE=''
  for name in "$@"; do
    case $name in
      units)
        for version in "${PYTHONS[@]}"; do
          venv units "$version"
          UNITS_PATH=$UNITS_PATH$VENV/bin:
        done
        ;;
      oldest) venv oldest && OLDEST=$VENV ;;
      importer) venv importer && IMPORTER=$VENV ;;
      site) venv site && SITE=$VENV ;;
      awx)
        "$MAIN_PYTHON" "$ROOT/script/lib/fetch_collections.py" "$BOOT/bin/python" "$REQUIREMENTS/awx.txt" \
          "$LLMHOST_CACHE/collections" "$WORK/awx"
        ;;
      *) die "no environment '$name'" ;;
    esac
  done
  "$MAIN_PYTHON" "$ROOT/script/lib/fetch_collections.py" "$BOOT/bin/python" "$REQUIREMENTS/collections.txt" \
    "$LLMHOST_CACHE/collections" "$WORK/collections"
  ln -sfn "$ROOT" "$WORK/view/ansible_collections/$NAMESPACE/$NAME"
  exec 9>&-
  # ansible-test takes whatever is called python3.X: the real ones first, and no shim.
  BASE_PATH=$WORK/python:$(tr : '\n' <<<"$PATH" | grep -v '/shims$' | paste -sd:)
  PATH=$DEV/bin:$BASE_PATH
  PYTHON_VERSIONS=${PYTHONS[*]}
  export PYTHON_VERSIONS DEV OLDEST IMPORTER SITE UNITS_PATH BASE_PATH PATH
}
