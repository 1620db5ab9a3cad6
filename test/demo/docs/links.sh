#!/usr/bin/env bash
# Links between pages lead somewhere: links.sh SOURCE_FOLDER. Blocks of code are left out.
set -euo pipefail
cd "$1"
missing=0
for page in *.md docs/*.md packaging/*/*.md examples/*/*.md; do
  while read -r target; do
    [ -e "$(dirname "$page")/$target" ] || { echo "$page: $target is not there"; missing=1; }
  done < <(awk '/^ *```/ { code = !code; next } !code' "$page" | sed 's/`[^`]*`//g' |
    grep -oE '\]\([^)#]+' | sed 's/^](//' | grep -vE '^[a-z]+:' || true)
done
exit $missing
