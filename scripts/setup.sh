# Sourced by ./run: finds what Sinter's build needs, and installs only what is missing.
#
#   setup demo     a compiler, CMake, Ninja, oneDNN, Xbyak, nlohmann-json, stb_image
#   setup test     those, and doctest, Google Benchmark and pkg-config; Conan if it can be had
#
# How each thing is found: a program on PATH, or a header under CMAKE_PREFIX_PATH, .deps/prefix,
# /usr/local or /usr, with its version read from the header. That is quick, needs no root and no
# network, and honours a oneDNN that the user keeps elsewhere.
#
# Debian 12 has oneDNN 2.6 and Xbyak 6.68, both too old. There, Debian 13's packages are used, with
# every other package of that suite pinned down (see add_next_suite). SINTER_SETUP=source builds
# oneDNN into .deps/prefix instead and leaves the system's packages alone (scripts/setup_source.sh).

readonly min_gxx=12 min_clang=14 min_cmake=3.25 min_dnnl=3.4 min_xbyak=7
readonly base_suite=bookworm next_suite=trixie
readonly apt_source=/etc/apt/sources.list.d/sinter-$next_suite.sources
readonly apt_pins=/etc/apt/preferences.d/sinter-$next_suite

say() { printf 'sinter: %s\n' "$*"; }
die() { printf 'sinter: %s\n' "$*" >&2; exit 1; }

# version_ge 3.25.1 3.25
version_ge() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Folders in which headers are looked for, best first.
include_dirs() {
  local prefixes prefix dir
  IFS=: read -r -a prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}" "$root/.deps/prefix" /usr/local /usr; do
    [ -n "$prefix" ] || continue
    for dir in "$prefix/include" "$prefix"/include/*-linux-gnu; do
      [ -d "$dir" ] && printf '%s\n' "$dir"
    done
  done
}

# find_header oneapi/dnnl/dnnl.hpp: prints the first one's path.
find_header() {
  local dir
  while read -r dir; do
    if [ -f "$dir/$1" ]; then printf '%s\n' "$dir/$1"; return 0; fi
  done < <(include_dirs)
  return 1
}

dnnl_version() {
  local header
  header=$(find_header oneapi/dnnl/dnnl_version.h) || return 1
  awk '/define DNNL_VERSION_(MAJOR|MINOR)/ { printf "%s%s", sep, $3; sep = "." }' "$header"
}

# xbyak.h says VERSION = 0x7240 for 7.24.
xbyak_version() {
  local header
  header=$(find_header xbyak/xbyak.h) || return 1
  sed -n 's/.*VERSION = 0x\([0-9A-F]\)\([0-9A-F]\{2\}\).*/\1.\2/p' "$header" | head -n 1
}

have_compiler() {
  local cxx version
  for cxx in ${CXX:-g++ c++ clang++}; do
    command -v "$cxx" >/dev/null || continue
    version=$("$cxx" -dumpfullversion 2>/dev/null || "$cxx" -dumpversion)
    case $("$cxx" --version | head -n 1) in
      *clang*) version_ge "$version" $min_clang && return 0 ;;
      *) version_ge "$version" $min_gxx && return 0 ;;
    esac
  done
  return 1
}

have_cmake() {
  command -v cmake >/dev/null &&
    version_ge "$(cmake --version | sed -n '1s/cmake version //p')" $min_cmake
}

have_dnnl() { local v; v=$(dnnl_version) && version_ge "$v" $min_dnnl; }
have_xbyak() { local v; v=$(xbyak_version) && version_ge "$v" $min_xbyak; }

# One row per thing: the packages that are missing, by Debian's and Ubuntu's name.
missing_packages() {
  have_compiler || echo g++
  have_cmake || echo cmake
  command -v ninja >/dev/null || echo ninja-build
  have_dnnl || echo libdnnl-dev
  have_xbyak || echo libxbyak-dev
  find_header nlohmann/json.hpp >/dev/null || echo nlohmann-json3-dev
  # Only sinter_classify wants it: no reason to stop those who cannot install it.
  find_header stb/stb_image.h >/dev/null || [ "$(id -u)" != 0 ] || echo libstb-dev
  [ "$1" = demo ] && return
  find_header doctest/doctest.h >/dev/null || echo doctest-dev
  find_header benchmark/benchmark.h >/dev/null || echo libbenchmark-dev
  command -v pkg-config >/dev/null || echo pkgconf
}

# In words, for a person without apt or without root.
describe_package() {
  case $1 in
    g++) echo "a C++20 compiler (g++ $min_gxx or clang $min_clang, or newer)" ;;
    cmake) echo "CMake $min_cmake or newer" ;;
    ninja-build) echo "Ninja" ;;
    libdnnl-dev) echo "oneDNN $min_dnnl or newer (found: $(dnnl_version || echo none))" ;;
    libxbyak-dev) echo "Xbyak $min_xbyak or newer (found: $(xbyak_version || echo none))" ;;
    nlohmann-json3-dev) echo "nlohmann-json" ;;
    libstb-dev) echo "stb_image, which reads pictures" ;;
    doctest-dev) echo "doctest" ;;
    libbenchmark-dev) echo "Google Benchmark" ;;
    pkgconf) echo "pkg-config" ;;
    clang-format) echo "clang-format" ;;
    *) echo "$1" ;;
  esac
}

refuse_without_root() {
  local package
  {
    echo "sinter: these packages are missing, and installing them needs root:"
    for package in "$@"; do printf '  %-18s %s\n' "$package" "$(describe_package "$package")"; done
    echo "Run './run setup' as root once. Or keep oneDNN and Xbyak anywhere and name the folder in"
    echo "CMAKE_PREFIX_PATH; or SINTER_SETUP=source builds these two into .deps/ without root."
  } >&2
  exit 1
}

# Quiet and never asking. Its words go to a log, shown only if it fails.
apt_quiet() {
  local log=$root/build/setup.log
  mkdir -p "$root/build"
  if ! DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 NEEDRESTART_MODE=l \
    apt-get -y -qq -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
    "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    die "apt-get $* failed, see above."
  fi
}

# A source of somebody else's that cannot be reached is no reason to stop: what is wanted may well be known.
apt_update() {
  (apt_quiet update "$@") || say "apt-get update failed (above); going on with the lists that are there."
}

# The version that apt would install, without epoch; nothing if apt has none.
apt_candidate() {
  LC_ALL=C apt-cache policy "$1" | sed -n 's/^  Candidate: \([0-9]*:\)\{0,1\}//p' | grep -v none
}

# Reads this machine's apt sources, both formats, and prints those that serve Debian 12, one a
# line: URI, a tab, keyring. A key that is written into the file itself is left out.
debian_sources() {
  local file
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] && [ "$file" != "$apt_source" ] || continue
    awk -v suite=$base_suite '
      function flush(  i, n, list, hit) {
        n = split(f["suites"], list, /[ \t]+/)
        for (i = 1; i <= n; i++) if (list[i] == suite) hit = 1
        if (hit && f["enabled"] != "no" && f["types"] ~ /(^|[ \t])deb([ \t]|$)/) {
          split(f["uris"], list, /[ \t]+/)
          print list[1] "\t" (f["signed-by"] ~ /^\// ? f["signed-by"] : "")
        }
        split("", f)
      }
      /^#/ { next }
      /^[ \t]*$/ { flush(); next }
      /^[A-Za-z-]+:/ {
        key = tolower($0); sub(/:.*/, "", key)
        value = $0; sub(/^[^:]*:[ \t]*/, "", value); sub(/[ \t]+$/, "", value)
        f[key] = value
      }
      END { flush() }' "$file"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] || continue
    awk -v suite=$base_suite '
      $1 == "deb" {
        options = ""
        if (match($0, /\[[^]]*\]/)) {
          options = substr($0, RSTART + 1, RLENGTH - 2)
          $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
        }
        if ($3 != suite || $2 ~ /^cdrom:/) next
        keyring = match(options, /signed-by=[^ \t]+/) ? substr(options, RSTART + 10, RLENGTH - 10) : ""
        print $2 "\t" keyring
      }' "$file"
  done
}

# print_next_suite deb: a source for Debian 13 from the very mirror that this machine uses already.
print_next_suite() {
  local uri keyring
  IFS=$'\t' read -r uri keyring < <(debian_sources) || true
  [ -n "${uri:-}" ] || return 1
  printf 'Types: %s\nURIs: %s\nSuites: %s\nComponents: main\n' "$1" "$uri" $next_suite
  printf 'Signed-By: %s\n' "${keyring:-/usr/share/keyrings/debian-archive-keyring.gpg}"
}

# Debian 13's suite on Debian 12, with the priorities that were tried: nothing of it comes by
# itself (50), but for oneDNN, Xbyak and what they stand on (990). A smaller second number makes
# apt remove build-essential, since libc6-dev and libc6 must stay at one version.
add_next_suite() {
  local text
  text=$(print_next_suite deb) ||
    die "no apt source of this machine serves Debian's $base_suite, so none can be made for $next_suite."
  say "this system's oneDNN or Xbyak is too old; adding Debian's $next_suite for these alone:"
  printf '  %s\n  %s\n' "$apt_source" "$apt_pins"
  printf '# Written by Sinter'\''s ./run setup; see %s\n%s\n' "$apt_pins" "$text" >"$apt_source"
  cat >"$apt_pins" <<PINS
# Written by Sinter's ./run setup. Nothing of $next_suite is installed unless it is named here.
Package: *
Pin: release n=$next_suite
Pin-Priority: 50

Package: libdnnl-dev libdnnl3.6 libxbyak-dev src:glibc src:gcc-14 src:dpkg src:libzstd base-files
Pin: release n=$next_suite
Pin-Priority: 990
PINS
  # An older Debian 12 does not know the newer suite's signing key yet.
  apt_quiet install --no-remove --only-upgrade debian-archive-keyring
  apt_update -o Dir::Etc::sourcelist="$apt_source" -o Dir::Etc::sourceparts=- \
    -o APT::Get::List-Cleanup=0
}

# needs_next_suite PACKAGE...: is one of them too old in every source that apt knows?
needs_next_suite() {
  local package minimum version
  for package in "$@"; do
    case $package in
      libdnnl-dev) minimum=$min_dnnl ;;
      libxbyak-dev) minimum=$min_xbyak ;;
      *) continue ;;
    esac
    version=$(apt_candidate "$package")
    [ -n "$version" ] && dpkg --compare-versions "$version" ge $minimum || return 0
  done
  return 1
}

# Simulates, says what would change, stops if anything would be removed, and only then installs.
apt_install() {
  local plan
  plan=$(LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -s -y -qq --no-install-recommends \
    install "$@" 2>&1) || { printf '%s\n' "$plan" >&2; die "apt cannot install: $*"; }
  if grep -q '^Remv ' <<<"$plan"; then
    sed -n 's/^Remv \([^ ]*\).*/  \1/p' <<<"$plan" >&2
    die "installing $* would remove the packages above, so nothing was done; SINTER_SETUP=source builds oneDNN without touching the system."
  fi
  say "installing: $*"
  sed -n 's/^Inst \([^ ]*\) \[\([^]]*\)\] (\([^ ]*\) .*/  upgrades \1  \2 -> \3/p' <<<"$plan"
  sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1/p' <<<"$plan" | xargs -r echo "  new:" | fold -s -w 98
  apt_quiet --no-install-recommends --no-remove install "$@"
}

apt_setup() {
  [ "$(id -u)" = 0 ] || refuse_without_root "$@"
  apt_update
  if needs_next_suite "$@"; then
    if [ -n "$(debian_sources)" ]; then
      add_next_suite
    else
      die "apt has no oneDNN $min_dnnl and Xbyak $min_xbyak here; SINTER_SETUP=source ./run setup builds them, or name a folder that has them in CMAKE_PREFIX_PATH."
    fi
  fi
  apt_install "$@"
}

# Conan is a Python package. Only the test of Sinter's own Conan recipe wants it, so it is no failure
# to be without: that test is then left out, and the configuration says so.
setup_conan() {
  local venv=$root/.deps/conan
  if command -v conan >/dev/null || [ -x "$venv/bin/conan" ]; then return 0; fi
  python3 -c 'import ensurepip, venv' 2>/dev/null || return 0
  python3 -m venv "$venv" &&
    "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 5 'conan>=2.1,<3' ||
    { rm -rf "$venv"; say "Conan could not be installed (above); the test of the Conan recipe is left out."; }
}

setup() {
  local scope=${1:-test} missing
  [ "$scope" = demo ] || setup_conan
  mapfile -t missing < <(missing_packages "$scope")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "${SINTER_SETUP:-}" = source ]; then
    source "$root/scripts/setup_source.sh"
    source_setup "${missing[@]}"
  elif command -v apt-get >/dev/null; then
    apt_setup "${missing[@]}"
  else
    refuse_without_root "${missing[@]}"
  fi
  mapfile -t missing < <(missing_packages "$scope")
  [ ${#missing[@]} -eq 0 ] || die "still missing after the set-up: ${missing[*]}"
}

setup_report() {
  say "ready: oneDNN $(dnnl_version), Xbyak $(xbyak_version), $(cmake --version | head -n 1), $(${CXX:-c++} --version | head -n 1)"
}
