#!/usr/bin/env bash
# Every sentence of the headers stands in the document: sentences.sh DOCUMENT HEADER...
#
# A sentence is put together from string literals; each literal of 12 or more characters has to be found. So a new
# message, or a changed one, comes with its cause and cure.
set -euo pipefail
document=$1
shift
flat=$(tr -s ' \n' ' ' <"$document" | sed 's/``//g')
missing=0
for header in "$@"; do
  while IFS= read -r literal; do
    case $flat in
      *"$literal"*) ;;
      *) echo "$document lacks a sentence of $header: '$literal'"; missing=1 ;;
    esac
  done < <(sed 's|//.*||; /#include/d; /#error/d' "$header" |
    grep -oE '"([^"\\]|\\.)*"' | sed 's/^" *//; s/ *"$//; s/\\"/"/g' |
    awk 'length($0) >= 12 && !/%/ && !/^[A-Z_]+$/')
done
exit $missing
