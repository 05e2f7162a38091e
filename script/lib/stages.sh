#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# One stage of script/test, in a process of its own: stages.sh STAGE. script/test has set everything up before.
set -euo pipefail
# shellcheck source=script/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

VIEW=$WORK/view/ansible_collections/$NAMESPACE/$NAME
DIST=$WORK/dist
INSTALLED=$WORK/installed

# copy NAME: the files of this checkout (tracked, and new ones that are not ignored) in a folder where ansible-test
# accepts them: a real path .../ansible_collections/NAMESPACE/NAME with a git root of its own. Without that root it
# takes all files for ignored and passes with nothing tested. Prints the folder.
copy() {
  local top=$WORK/copy/$1/ansible_collections
  local into=$top/$NAMESPACE/$NAME
  rm -rf "$WORK/copy/$1"
  mkdir -p "$into"
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -co --exclude-standard -z
  else
    find . -path ./.cache -prune -o -name __pycache__ -prune -o -type f -print0
  fi | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
    tar --null --no-recursion -T - -cf - | tar -xf - -C "$into"
  for collection in "$WORK"/collections/ansible_collections/*/*; do
    mkdir -p "$top/$(basename "$(dirname "$collection")")"
    ln -sfn "$(readlink -f "$collection")" "$top/$(basename "$(dirname "$collection")")/$(basename "$collection")"
  done
  git -C "$into" init -q
  git -C "$into" add -A
  printf '%s\n' "$into"
}

# at VENV FOLDER ARGUMENT...: ansible-test of that environment in that copy. It has a home of its own, where it finds
# the stand-in for get-pip.py and keeps its environments for the next time.
at() {
  local venv=$1 folder=$2 home=$LLMHOST_CACHE/home version
  shift 2
  mkdir -p "$home/.ansible/test/cache" "$home/.config"
  for version in 24_2 25_2; do
    sed "s|@UV@|$UV|; s|@INDEX@|${UV_DEFAULT_INDEX:-}|" script/lib/get_pip.py >"$home/.ansible/test/cache/get_pip_$version.py"
  done
  [ ! -d ~/.config/pip ] || ln -sfn ~/.config/pip "$home/.config/pip"
  [ ! -d ~/.pip ] || ln -sfn ~/.pip "$home/.pip"
  (cd "$folder" && HOME=$home PATH=$venv/bin:$UNITS_PATH$BASE_PATH "$venv/bin/ansible-test" "$@" --color no)
}

# ran LOG WORDS MINIMUM: ansible-test passes too where it found nothing to do.
ran() {
  local count
  count=$(grep -cE "$2" "$1") || true
  if grep -q 'All targets skipped' "$1" || [ "$count" -lt "$3" ]; then
    say "FAILED: ansible-test ran $count tests, expected at least $3"
    return 1
  fi
}

# tested VENV FOLDER LOG ARGUMENT...: like at, with a log of its own; after a failure the errors once more, without
# the noise of pip between them.
tested() {
  local log=$3
  at "$1" "$2" "${@:4}" 2>&1 | tee "$log" && return
  say "--- errors, from $log"
  grep -E '^(ERROR|FATAL|FAILED|E  )' "$log" || true
  return 1
}

# for_both FUNCTION FOLDER: with the oldest core that meta/runtime.yml admits and with the newest, whatever the first says.
for_both() {
  local venv status=0
  for venv in "$OLDEST" "$DEV"; do
    say "--- ansible-core $(core_of "$venv")"
    "$1" "$venv" "$2" "$WORK/logs/$1-$(basename "$venv").log" || status=1
  done
  return $status
}

# each COMMAND...: run it; a failure is remembered, so that the next linter speaks too.
EACH=0
each() {
  say "--- $1 ${2:-}"
  "$@" || { EACH=1; say "FAILED: $1"; }
}

stage_lint() {
  local -a shell
  local slow log=$WORK/logs/ansible-lint.log
  ansible-lint --nocolor >"$log" 2>&1 & # as long as all others together, and more: beside them
  slow=$!
  mapfile -t shell < <(grep -rlIE --exclude-dir=.cache --exclude-dir=.git --exclude='*.py' '^#!.*(ba|/|env )sh$|^# shellcheck shell=' .ci script tests)
  each ruff check --output-format=concise .
  each ruff format --check .
  each yamllint --strict .
  each check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
  each mypy "$VIEW/plugins/module_utils"
  each shellcheck -x -P .:SCRIPTDIR "${shell[@]}"
  say "--- ansible-lint"
  wait "$slow" || { EACH=1; say "FAILED: ansible-lint"; }
  cat "$log"
  return $EACH
}

stage_house() { pytest -n0 tests/unit/house; }

stage_unit() {
  local -a coverage=()
  [ -z "${LLMHOST_FULL:-}" ] || coverage=(--cov --cov-report=term) # for people to read; it takes a third of the time
  COVERAGE_FILE=$WORK/coverage pytest -n2 "${coverage[@]}" tests/unit --ignore=tests/unit/house
}

stage_docs() { antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck --validate-collection-refs=self .; }

# The plays of the documentation, then the site from nothing but this checkout; a warning of Sphinx is an error.
stage_site() {
  local plays
  plays=$(mktemp -d) # .cache is what ansible-lint looks away from
  python script/lib/doc_blocks.py "$ROOT" "$plays"
  cp .ansible-lint "$plays"
  (cd "$plays" && ansible-lint --nocolor --offline -c .ansible-lint ./*.yml)
  rm -rf "$plays" "$WORK/site"
  "$SITE/bin/python" script/lib/site.py "$ROOT" "$WORK/site" "$WORK/view:$WORK/collections"
}

stage_changelog() { antsibull-changelog lint; }

stage_reuse() {
  local folder
  folder=$(copy reuse)
  (cd "$folder" && reuse lint)
}

sanity() {
  local skipped
  tested "$@" sanity --local || return 1
  ran "$3" '^Running sanity test "' 20 || return 1
  # Only PowerShell's may be missing, for there is no such file here, and a Python that the machine does not have. A test
  # that did not run for want of a tool is no pass.
  skipped=$(grep -iE 'WARNING: (Skipping|Required program)' "$3" | grep -vE 'pslint|pwsh|on Python 3\.[0-9]+ because it could not be found') || return 0
  say "FAILED, a test did not run: $skipped"
  return 1
}
stage_sanity() {
  local folder
  folder=$(copy sanity)
  # Its rules are for what is shipped, and for the integration tests; "lint" looks at the rest.
  (cd "$folder" && rm -rf .ci benchmarks script tests/corpus tests/fuzz tests/scenarios tests/unit && git add -A)
  for_both sanity "$folder"
}

# units VENV FOLDER PYTHON: ansible-test's own way to run the unit tests, on one Python of its controller.
units() {
  local log=$WORK/logs/units-$3.log
  say "--- ansible-test of ansible-core $(core_of "$1"), Python $3"
  tested "$1" "$2" "$log" units --local --num-workers 2 --python "$3" || return 1
  ran "$log" '^=+ .*[0-9]+ passed' 1
}

# Every Python that "unit" has not: the oldest that a controller has through the oldest core; the others with pytest
# alone, and there only the core's rooms, which is what runs on a target. Of Ansible a target gets module_utils, and that
# of the newest core knows every Python here.
stage_units() {
  local folder room version first status=0
  local -a rooms=()
  folder=$(copy units)
  # House rules, lab, delivery and docs are no part of the collection's code; "unit" runs them.
  rm -rf "$folder"/tests/unit/{house,lab,delivery,docs}
  git -C "$folder" add -A
  for room in plugins/module_utils/_*/; do
    room=tests/unit/$(basename "$room" | cut -c2-)
    [ ! -d "$room" ] || rooms+=("$room")
  done
  mkdir -p "$WORK/core"
  ln -sfn "$("$DEV/bin/python" -Ic 'import ansible; print(ansible.__path__[0])')" "$WORK/core/ansible"
  for first in 3.11 3.12 3.13; do [ ! -e "$WORK/python/python$first" ] || break; done
  for version in $PYTHON_VERSIONS; do
    [ "$version" != "$first" ] && [ "$version" != "$MAIN_VERSION" ] || continue
    say "--- pytest, Python $version"
    (PATH=$UNITS_PATH$PATH PYTHONPATH=$WORK/core && export PYTHONPATH &&
      "python$version" -m pytest -n2 "${rooms[@]}") || status=1
  done
  units "$OLDEST" "$folder" "$first" || status=1
  # The same tests on the same Python and core as "unit", by the other way in.
  [ -z "${LLMHOST_FULL:-}" ] || units "$DEV" "$folder" "$MAIN_VERSION" || status=1
  return $status
}

integration() {
  tested "$@" integration --local --continue-on-error || return 1
  ran "$3" '^Running .* integration test role' 1
}
stage_integration() { for_both integration "$(copy integration)"; }

stage_build() {
  local folder
  rm -rf "$DIST" "$INSTALLED"
  folder=$(copy again)
  python script/lib/release.py build "$folder" "$WORK/dist/again"
  folder=$(copy build)
  python script/lib/release.py build "$folder" "$DIST"
  cmp "$DIST"/*.tar.gz "$DIST"/again/*.tar.gz # the same files are the same bytes, whenever and wherever
  python script/lib/release.py check "$DIST"/*.tar.gz
  # Nothing of this checkout on the path: "already installed" would pass.
  ANSIBLE_COLLECTIONS_PATH=$INSTALLED ansible-galaxy collection install "$DIST"/*.tar.gz -p "$INSTALLED" --offline
  ANSIBLE_COLLECTIONS_PATH=$INSTALLED ansible-galaxy collection verify --offline "$NAMESPACE.$NAME"
  tar -tzf "$DIST"/*.tar.gz | sort
}

stage_importer() {
  cd "$DIST"
  printf '[galaxy-importer]\nRUN_ANSIBLE_LINT = False\nCHECK_REQUIRED_TAGS = True\nCHECK_CHANGELOG = True\n' >importer.cfg
  PATH=$IMPORTER/bin:$BASE_PATH GALAXY_IMPORTER_CONFIG=importer.cfg "$IMPORTER/bin/python" -m galaxy_importer.main ./*.tar.gz
}

stage_runner() {
  python script/lib/run_job.py "$WORK/job" "$INSTALLED:$WORK/collections" \
    "${LLMHOST_RUNNER_PLAYBOOK:-$NAMESPACE.$NAME.status}" "${LLMHOST_RUNNER_INVENTORY:-}"
}

# The execution environment of AWX, and AWX itself as far as its modules and its rules reach.
stage_ee() {
  ANSIBLE_COLLECTIONS_PATH=$WORK/view:$WORK/awx ansible-lint --nocolor extensions/awx/job_templates.yml extensions/awx/credential_type.yml
  LLMHOST_INSTALLED=$INSTALLED LLMHOST_COLLECTIONS=$WORK/collections LLMHOST_AWX=$WORK/awx pytest -n0 tests/ee
}

# One quick scenario, or all of them.
stage_molecule() { python script/lib/molecule.py "$ROOT" "$INSTALLED:$WORK/collections"; }

# The playbooks of the built tarball, as a user has them.
stage_scenarios() { ANSIBLE_COLLECTIONS_PATH=$INSTALLED:$WORK/collections pytest -n0 --maxfail=20 --durations=15 tests/scenarios; }

"stage_$1"
