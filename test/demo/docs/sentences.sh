#!/usr/bin/env bash
# Every sentence of the headers stands in one of the documents: sentences.sh DOCUMENT... -- HEADER...
#
# A sentence is put together from string literals; each literal of 12 or more characters has to be found. So a new
# message, or a changed one, comes with its cause and cure. not_sentences.txt has the literals that no message holds.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
documents=()
while [ "$1" != -- ]; do documents+=("$1"); shift; done
shift
flat=$(cat "${documents[@]}" | tr -s ' \n' ' ' | sed 's/``//g')
missing=0
for header in "$@"; do
  while IFS= read -r literal; do
    case $flat in
      *"$literal"*) ;;
      *) echo "${documents[*]} lacks a sentence of $header: '$literal'"; missing=1 ;;
    esac
  done < <(sed 's|//.*||; /#include/d; /# *pragma/d' "$header" |
    grep -oE '"([^"\\]|\\.)*"' | sed 's/^" *//; s/ *"$//; s/\\"/"/g; s/^\\n//; s/\\n$//; s/ *$//; s/^ *//' |
    awk 'length($0) >= 12 && !/%/ && !/^[A-Z_]+$/' | grep -vxFf "$here/not_sentences.txt" || true)
done
exit $missing
