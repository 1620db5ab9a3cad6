#!/usr/bin/env bash
# no_posix.sh CXX INCLUDE_DIR: the headers as a system without Linux and POSIX would read them, as far as this one can
# show it: with the macros that say so taken away, the umbrella with the reference backend compiles and includes no
# POSIX header by itself. And every header that does include one is in the table below, which says how it is guarded.
set -euo pipefail
cxx=$1 include=$2
posix='(sys/[a-z]+|unistd|sched|dlfcn|pthread|fcntl|linux/[a-z]+)\.h'

known='core/buffer.hpp isa/host.hpp run/mapped_file.hpp backend/onednn_api.hpp'  # under an #if
known+=' jit/code_memory.hpp jit/code_notes.hpp'                                 # an #error says: Linux on x86-64
status=0
while IFS= read -r header; do
  case " $known " in
    *" ${header#"$include"/sinter/} "*) ;;
    *) echo "$header includes a POSIX header; a place for system calls is wanted, with a way around it"; status=1 ;;
  esac
done < <(grep -rlE "#include <$posix>" "$include")

# -H lists each included file with its depth; the standard library's own includes stand below its headers.
listing=$(printf '#include <sinter/sinter.hpp>\nint main() {}\n' |
  "$cxx" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -U__linux__ -U__linux -Ulinux -U__unix__ -U__unix -Uunix \
    -DSINTER_WITH_ONEDNN=0 -DSINTER_WITH_JIT=0 -I "$include" -H -x c++ - 2>&1) || { echo "$listing"; exit 1; }
ours=$(awk '
  { depth = length($1) }
  $2 ~ /\/sinter\// { own[depth] = 1; next }
  own[depth - 1] { print $2 }
  { own[depth] = 0 }' <<<"$listing")
if grep -E "/$posix$" <<<"$ours"; then
  echo "the headers above are included without Linux and POSIX"
  status=1
fi
exit $status
