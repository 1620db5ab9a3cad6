#!/usr/bin/env bash
# What including and using Sinter costs: processor time and peak memory of the compiler, medians.
#
#   ./run bench compile_time [RUNS]      default: 5 runs of each
#   ./run bench compile_time --quick     1 run with one compiler, without the backends: half a minute
#
# The bars are for g++ 12; its lines say PASS or over beside them. A time never makes it fail, since the machine may be
# slow or busy; a program that does not compile does.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
quick=""
if [ "${1:-}" = --quick ]; then quick=1; shift; fi
runs=${1:-${quick:-5}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compilers=()
for c in g++ clang++; do
  if command -v "$c" >/dev/null; then compilers+=("$c"); fi
done
[ -z "$quick" ] || compilers=("${compilers[@]:0:1}")
[ ${#compilers[@]} -gt 0 ] || { echo "sinter: no compiler (g++ or clang++) is here" >&2; exit 1; }
"${compilers[0]}" -std=c++20 -O2 -o "$work/measure" "$here/measure.cpp"

# The headers of the backends, where they are: CMAKE_PREFIX_PATH, .deps/prefix, the system.
includes=(-I"$root/include")
IFS=: read -r -a prefixes <<<"${CMAKE_PREFIX_PATH:-}"
for p in "${prefixes[@]}" "$root/.deps/prefix"; do
  if [ -n "$p" ] && [ -d "$p/include" ]; then includes+=(-I"$p/include"); fi
done
has() { echo "#include <$1>" | "${compilers[0]}" "${includes[@]}" -x c++ -fsyntax-only - 2>/dev/null; }
backends=()
without=""
if has oneapi/dnnl/dnnl.h; then backends+=(-DSINTER_WITH_ONEDNN=1); else without+=" oneDNN"; fi
if has xbyak/xbyak.h; then backends+=(-DSINTER_WITH_JIT=1); else without+=" Xbyak"; fi
[ -z "$without" ] || echo "not found, so not counted:$without"

# ---- the programs ----

echo 'int main() {}' >"$work/nothing.cpp"
printf '#include <memory>\n#include <optional>\n#include <span>\n#include <string>\n#include <vector>\n' >"$work/std.cpp"
echo '#include <sinter/sinter.hpp>' >"$work/include.cpp"

cat >"$work/one_call.cpp" <<'CPP'
#include <sinter/sinter.hpp>
constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;
void run(float const* in, float const* filter, float const* bias, float* result) {
  auto kernel = sinter::compile<sinter::f32>(sinter::gelu_tanh(sinter::matmul(x, w) + b), x.dims(64, 64), w.dims(64, 64));
  auto packed = kernel.pack(w = sinter::view(filter, {64, 64}));
  auto call = kernel.bind(x = sinter::view(in, {64, 64}), packed, b = sinter::view(bias, {64}),
                          sinter::out = sinter::view(result, {64, 64}));
  call();
}
CPP

cat >"$work/chain12.cpp" <<'CPP'
#include <sinter/sinter.hpp>
using namespace sinter;
constexpr auto x = tensor<"x">;
constexpr auto w = weight<"w">;
constexpr auto b = sinter::vector<"b">;
constexpr auto r = tensor<"r">;
constexpr auto s = scalar<"s">;
constexpr auto y = sigmoid(gelu_tanh(relu(matmul(x, w) + b) * 0.5f + r));
constexpr auto chain12 = swish(clip(tanh((y - s) * r), -1, 1) + r);
static_assert(partition(chain12, bf16).group_count() == 1);
static_assert(partition(chain12, bf16).group(0).steps.size() == 13);
void run(bfloat16 const* in, float const* filter, float const* bias, bfloat16 const* skip, float scale, bfloat16* result) {
  auto kernel = sinter::compile<bf16>(chain12, x.dims(64, 64), w.dims(64, 64));
  auto packed = kernel.pack(w = view(filter, {64, 64}));
  kernel(x = view(in, {64, 64}), packed, b = view(bias, {64}), r = view(skip, {64, 64}), s = scale,
         out = view(result, {64, 64}));
}
CPP

# blocks N: N residual blocks of two convolutions, each with bias.
blocks() {
  local n=$1 i prev=x
  echo '#include <sinter/sinter.hpp>'
  echo 'using namespace sinter;'
  echo 'constexpr auto x = tensor<"x">;'
  for ((i = 0; i < n; ++i)); do echo "constexpr auto h$i = let<\"h$i\">;"; done
  echo 'constexpr auto net = define('
  for ((i = 0; i < n; ++i)); do
    echo "  h$i = relu(conv2d(relu(conv2d($prev, weight<\"w${i}a\">, {.pad = 1}) + sinter::vector<\"b${i}a\">)," \
      "weight<\"w${i}b\">, {.pad = 1}) + sinter::vector<\"b${i}b\"> + $prev),"
    prev=h$i
  done
  echo "  sigmoid($prev));"
  echo "static_assert(partition(net, bf16).group_count() == $((2 * n)));"
}
blocks 16 >"$work/blocks16.cpp"
blocks 64 >"$work/blocks64.cpp"

# ---- the table ----

# cost FLAGS... FILE: sets `seconds` and `megabytes`.
cost() {
  local line
  line=$("$work/measure" "$runs" "$compiler" -std=c++20 "${includes[@]}" "${backends[@]}" "$@" -c -o "$work/out.o") ||
    { echo "sinter: $compiler $* does not compile" >&2; exit 1; }
  read -r seconds megabytes <<<"$line"
}
# verdict VALUE BAR UNIT
verdict() {
  if awk -v v="$1" -v b="$2" 'BEGIN { exit !(v <= b) }'; then echo "PASS (bar $2 $3)"; else echo "over (bar $2 $3)"; fi
}
# line TEXT INCLUDES SECONDS-BAR MEGABYTES-BAR FLAGS... FILE: INCLUDES is the time of the includes alone.
line() {
  local text=$1 alone=$2 bar=$3 memory=$4 judged=""
  shift 4
  cost "$@"
  [ "$bar" = - ] || [ "$compiler" != g++ ] || judged=$(verdict "$seconds" "$bar" s)
  [ "$memory" = - ] || [ "$compiler" != g++ ] || judged+=" $(verdict "$megabytes" "$memory" MB)"
  [ "$alone" = - ] || text+=", includes alone $alone s"
  printf '  %6s s %5s MB  %-80s %s\n' "$seconds" "$megabytes" "$text" "${judged# }"
}

echo "processor time and peak memory of one compilation, median of $runs; load $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown)"
extern=-DSINTER_EXTERN_BACKENDS=1
for compiler in "${compilers[@]}"; do
  echo "$("$compiler" --version | head -n 1), -O2"
  line "an empty program" - - - -O2 "$work/nothing.cpp"
  line "five standard headers (memory, optional, span, string, vector)" - - - -O2 "$work/std.cpp"
  line "<sinter/sinter.hpp>, backends elsewhere" - 1 300 -O2 $extern "$work/include.cpp"
  alone=$seconds
  line "a chain of 12 post-ops, compiled and called" "$alone" 3 - -O2 $extern "$work/chain12.cpp"
  line "16 residual blocks in define(), partitioned" "$alone" - - -O2 $extern "$work/blocks16.cpp"
  line "one chain, compiled and bound" "$alone" - - -O2 $extern "$work/one_call.cpp"
  [ -z "$quick" ] || continue
  line "64 residual blocks in define(), partitioned" "$alone" - - -O2 $extern "$work/blocks64.cpp"
  line "<sinter/sinter.hpp>, backends in it" - 4 - -O2 "$work/include.cpp"
  line "one chain with the backends compiled in the same file" "$seconds" - - -O2 "$work/one_call.cpp"
  line "the same at -O0" - - - -O0 "$work/one_call.cpp"
done
