#!/usr/bin/env bash
# check.sh CXX FLAGS.rsp INCLUDE_DIR MODE JOBS: compiles every header alone, in one of these modes.
#   plain            as our tests are: all warnings, as errors, the headers by -I
#   no-exceptions    and with -fno-exceptions -fno-rtti, which changes what is declared
#   hostile-macros   after a file that defines min, max, small, ERROR, I, _N and such, as <windows.h>,
#                    <complex.h> and others do
# Prints the first lines of the compiler's words for each header that fails, and how many were tried.
set -euo pipefail
cxx=$1 flags=$2 include=$3 mode=$4 jobs=$5
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Xbyak and oneDNN are others' headers, and need not stand such macros: those of ours that reach them are
# tried in the other modes only.
# (grep reads to the end: were it to stop at the first match, the compiler's broken pipe would be the answer.)
reaches_others() { "$cxx" "@$flags" -MM "$1" 2>/dev/null | grep -E 'jit/assembler\.hpp|backend/onednn' >/dev/null; }

case $mode in
  plain) extra=() ;;
  no-exceptions) extra=(-fno-exceptions -fno-rtti) ;;
  hostile-macros)
    # First what our headers include of others, standard and system headers alike.
    find "$include" -name '*.hpp' -exec sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*<\(.*\)>.*/\1/p' {} + |
      grep -vE '^(sinter|xbyak|oneapi)/|dnnl' | sort -u |
      sed 's|.*|#if __has_include(<&>)\n#include <&>\n#endif|' >"$work/prelude.hpp"
    extra=(-include "$work/prelude.hpp" -include "$here/hostile_macros.hpp")
    ;;
  *) echo "unknown mode $mode" >&2; exit 2 ;;
esac

count=0
while read -r header; do
  name=${header#"$include"/}
  if [ "$mode" = hostile-macros ] && reaches_others "$header"; then continue; fi
  # Twice: the include guard works.
  printf '#include <%s>\n#include <%s>\nint main() {}\n' "$name" "$name" \
    >"$work/${name//\//_}.cpp"
  count=$((count + 1))
done < <(find "$include" -name '*.hpp' | sort)

export cxx flags
compile_one() {
  local out own=()
  case $1 in */sinter_openmp.hpp.cpp) own=(-fopenmp) ;; esac  # it refuses to be compiled without
  if ! out=$("$cxx" "@$flags" -fsyntax-only ${own[@]+"${own[@]}"} "${@:2}" "$1" 2>&1); then
    printf '%s\n' "--- $(sed -n '1s/#include //p' "$1") fails:"
    head -n 15 <<<"$out"
    return 1
  fi
}
export -f compile_one
status=0
find "$work" -name '*.cpp' -print0 | sort -z |
  xargs -0 -P "$jobs" -I{} bash -c 'compile_one "$@"' _ {} ${extra[@]+"${extra[@]}"} || status=1
echo "$count headers, $mode, $("$cxx" --version | head -n 1)"
exit $status
