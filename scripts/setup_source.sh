# Sourced by setup.sh when SINTER_SETUP=source: oneDNN and Xbyak from Debian's source packages, built into
# .deps/prefix. For those who do not want packages of another suite on their system. About 15 minutes on
# two cores. The system's apt settings are not touched: apt gets folders of its own under .deps/apt.
#
# All that is built of oneDNN is what Sinter calls: inference, these primitives, no graph API.

readonly deps=$root/.deps
readonly source_primitives="BINARY;CONCAT;CONVOLUTION;ELTWISE;INNER_PRODUCT;LAYER_NORMALIZATION;MATMUL;POOLING;PRELU;REDUCTION;REORDER;SOFTMAX;SUM"

# step WORDS LOG COMMAND...: says the step, keeps the command's words in a log, shows its end on failure.
step() {
  local words=$1 log=$deps/$2
  shift 2
  say "$words (log: .deps/${log##*/})"
  "$@" >"$log" 2>&1 </dev/null || { tail -n 40 "$log" >&2; die "this step failed: $words"; }
}

# An apt that knows one source, Debian 13's source packages, and keeps everything in .deps/apt.
private_apt() {
  apt-get -q -o Dir::Etc::sourcelist="$deps/apt/$next_suite.sources" -o Dir::Etc::sourceparts=- \
    -o Dir::Etc::preferencesparts=- -o Dir::State::lists="$deps/apt/lists" \
    -o Dir::Cache="$deps/apt/cache" -o APT::Sandbox::User="$(id -un)" "$@"
}

# apt checks each file against the signed list. Of Xbyak, which is plain headers, the upstream archive is
# enough; oneDNN is unpacked with Debian's patches, which make it build without its bundled libraries.
fetch_xbyak() {
  rm -rf "$deps/src/xbyak"
  mkdir -p "$deps/src/xbyak"
  (cd "$deps/src" && private_apt --download-only --tar-only source xbyak &&
    tar -xf xbyak_*.orig.tar.* -C xbyak --strip-components=1)
}

fetch_onednn() {
  rm -rf "$deps/src/onednn"
  (cd "$deps/src" && private_apt --download-only source onednn &&
    dpkg-source --no-copy -x onednn_*.dsc onednn)
}

build_xbyak() {
  step "fetching Xbyak's source" xbyak.log fetch_xbyak
  mkdir -p "$deps/prefix/include/xbyak"
  cp "$deps"/src/xbyak/xbyak/*.h "$deps/prefix/include/xbyak/"
}

build_onednn() {
  step "fetching oneDNN's source package" onednn-source.log fetch_onednn
  # It has its own Xbyak, and takes spdlog from the system.
  step "configuring oneDNN" onednn-configure.log cmake -S "$deps/src/onednn" -B "$deps/build/onednn" \
    -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$deps/prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DONEDNN_BUILD_GRAPH=OFF -DONEDNN_BUILD_TESTS=OFF \
    -DONEDNN_BUILD_EXAMPLES=OFF -DONEDNN_CPU_RUNTIME=OMP -DONEDNN_ENABLE_WORKLOAD=INFERENCE \
    -DONEDNN_ENABLE_PRIMITIVE="$source_primitives"
  step "compiling oneDNN, which takes about 15 minutes on two cores" onednn-build.log \
    nice cmake --build "$deps/build/onednn" --parallel "${SINTER_JOBS:-$(nproc)}"
  step "installing oneDNN into .deps/prefix" onednn-install.log \
    cmake --install "$deps/build/onednn"
}

# source_setup PACKAGE...: those that are missing; all but oneDNN and Xbyak come from apt as ever.
source_setup() {
  local package others=()
  command -v apt-get >/dev/null || refuse_without_root "$@"
  for package in "$@"; do
    case $package in libdnnl-dev | libxbyak-dev) ;; *) others+=("$package") ;; esac
  done
  if ! have_dnnl; then
    find_header spdlog/spdlog.h >/dev/null || others+=(libspdlog-dev)
  fi
  command -v dpkg-source >/dev/null || others+=(dpkg-dev)
  [ ${#others[@]} -eq 0 ] || apt_setup "${others[@]}"

  mkdir -p "$deps/apt/lists/partial" "$deps/apt/cache/archives/partial" "$deps/src"
  print_next_suite deb-src >"$deps/apt/$next_suite.sources" ||
    die "no apt source of this machine serves Debian's $base_suite, so none can be made for $next_suite."
  step "reading the list of Debian's $next_suite source packages" apt-update.log private_apt update
  have_xbyak || build_xbyak
  have_dnnl || build_onednn
}
