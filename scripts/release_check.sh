#!/usr/bin/env bash
# ./run release-check [--quick]: is everything there for a release? Says each point, goes on after one that fails.
# --quick leaves out what has to be built: the packages, the headers by themselves, the site.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
quick=${1:-}
failures=0

# check WORDS COMMAND...: the command's output is shown where it fails.
check() {
  local words=$1 output
  shift
  if output=$("$@" 2>&1); then
    printf 'ok      %s\n' "$words"
  else
    printf 'FAILED  %s\n' "$words"
    [ -z "$output" ] || sed 's/^/        /' <<<"$output" | tail -n 20
    failures=$((failures + 1))
  fi
}

version=$(awk '/define SINTER_VERSION_(MAJOR|MINOR|PATCH) / { printf "%s%s", sep, $3; sep = "." }' \
  include/sinter/config.hpp)
minor=${version%.*}

# Files that have to say a version, since their readers cannot look into config.hpp, say this one.
same_version() {
  grep -qF "\"version-semver\": \"$version\"" ports/sinter/vcpkg.json || { echo "ports/sinter/vcpkg.json"; return 1; }
  ! git grep -nE 'sinter[/ ][0-9]+\.[0-9]+' -- '*.md' '*.txt' '*.py' '*.json' ':!CHANGELOG.md' ':!test' |
    grep -vE "sinter[/ ]$minor(\.[0-9]+)?([^0-9.]|$)"
}
# A changed version in any other file would be a second home.
one_home() { ! git grep -nE "(VERSION|version) *[:=]? *\"?$version" -- cmake CMakeLists.txt conanfile.py src include run; }
changelog_entry() { grep -qE "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md || { echo "wanted: ## [$version] - DATE"; return 1; }; }
todo_has_issue() { ! git grep -nwE 'TODO|FIXME|XXX|HACK' -- ':!scripts/release_check.sh' ':!*.md' | grep -vE '#[0-9]+'; }
clean_tree() { git diff --quiet HEAD || { git status --short; return 1; }; }
builds() { cmake --preset release && cmake --build build/release --parallel "${SINTER_JOBS:-2}"; }
tests() { ctest --test-dir build/release --no-tests=error --output-on-failure -R "$1"; }

echo "release check of sinter $version"
check "the version is said once, in config.hpp" one_home
check "files that repeat it say $version, or $minor" same_version
check "CHANGELOG.md has an entry of $version" changelog_entry
check "no TODO without the number of its issue" todo_has_issue
check "links between pages lead somewhere" bash test/demo/docs/links.sh .
check "everything is committed" clean_tree
check "the sources are formatted" bash run format --check
if [ "$quick" != --quick ]; then
  check "everything builds" builds
  check "headers are self-contained" tests '^headers'
  check "packages build and are used" tests '^install'
  check "pages compile, sentences are listed" tests '^docs'
  check "the site builds without a warning" bash run docs
fi
[ $failures -eq 0 ] && echo "ready" || { echo "$failures to do"; exit 1; }
