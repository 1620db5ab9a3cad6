#!/usr/bin/env bash
# consume.sh WAY: one way to use Sinter from outside, called by ctest with these variables set:
#   SOURCE   Sinter's source tree                WORK     a folder of this configuration's own
#   CXX, CMAKE, PKG_CONFIG_PROGRAM, CONAN        VERSION  what the consumer must print
#   ONEDNN, JIT  0 or 1: what is compiled in     DNNL_DIR, XBYAK_INCLUDE  where those are
# Way "install" comes first: it installs into WORK/stage and moves the tree to "WORK/moved here".
# Ways "docs_..." take files and commands from docs/embedding.md; "matrix_..." wants STD and maybe another CXX.
set -euo pipefail
way=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix="$WORK/moved here"  # a blank in the path, since users have such paths
build=$WORK/$way
CXX=${MATRIX_CXX:-$CXX}
common=(-G Ninja -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_BUILD_TYPE=Debug)
[ -z "$DNNL_DIR" ] || common+=(-Ddnnl_DIR="$DNNL_DIR")
[ -z "$XBYAK_INCLUDE" ] || common+=(-DSinterXbyak_INCLUDE_DIR="$XBYAK_INCLUDE")

# quiet LOG COMMAND...: shows the log only on failure.
quiet() {
  local log=$1
  shift
  mkdir -p "$WORK"
  "$@" >"$log" 2>&1 || { echo "failed: $*" >&2; cat "$log" >&2; exit 1; }
}

# The program, or what else the command prints, says the version and what is compiled in.
expect_output() {
  local output wanted="sinter $VERSION onednn=$ONEDNN jit=$JIT"
  output=$("$@")
  echo "$output"
  grep -qxF "$wanted" <<<"$output" || { echo "wanted the line: $wanted" >&2; exit 1; }
}

yes_or_no() { [ "$1" = 1 ] && echo True || echo False; }

case $way in
  install)
    rm -rf "$WORK/stage" "$prefix" "$build"
    quiet "$WORK/install.log" "$CMAKE" -S "$SOURCE" -B "$build" "${common[@]}" \
      -DCMAKE_INSTALL_PREFIX="$WORK/stage" -DSINTER_ONEDNN="$ONEDNN" -DSINTER_JIT="$JIT" \
      -DSINTER_TESTS=OFF -DSINTER_BENCHMARKS=OFF -DSINTER_EXAMPLES=OFF
    quiet "$WORK/install.log" "$CMAKE" --build "$build"
    quiet "$WORK/install.log" "$CMAKE" --install "$build"
    mv "$WORK/stage" "$prefix"
    # Nothing installed may know the folder that it was installed to, or came from.
    if grep -rlF -e "$WORK/stage" -e "$SOURCE/" "$prefix"; then
      echo "the files above name a folder of the build machine" >&2
      exit 1
    fi
    ;;

  find_package | add_subdirectory)
    rm -rf "$build"
    options=(-DCMAKE_PREFIX_PATH="$prefix")
    if [ "$way" = add_subdirectory ]; then
      options=(-DSINTER_SOURCE="$SOURCE" -DSINTER_ONEDNN="$ONEDNN" -DSINTER_JIT="$JIT")
    fi
    quiet "$WORK/$way.log" "$CMAKE" -S "$here/$way" -B "$build" "${common[@]}" "${options[@]}" \
      -DCMAKE_INSTALL_PREFIX="$build/prefix"
    quiet "$WORK/$way.log" "$CMAKE" --build "$build"
    expect_output "$build/consumer"
    [ "$way" = add_subdirectory ] || expect_output "$build/consumer_headers_only"
    quiet "$WORK/$way.log" "$CMAKE" --install "$build"
    installed=$(cd "$build/prefix" && find . -type f)
    [ "$installed" = ./bin/consumer ] || { echo "more was installed than asked for: $installed" >&2; exit 1; }
    ;;

  matrix_*)
    rm -rf "$build"
    quiet "$WORK/$way.log" "$CMAKE" -S "$here/find_package" -B "$build" "${common[@]}" \
      -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_STANDARD="$STD" -DCMAKE_CXX_EXTENSIONS=OFF
    quiet "$WORK/$way.log" "$CMAKE" --build "$build" --target consumer
    expect_output "$build/consumer"
    ;;

  docs_*)
    rm -rf "$build"
    mkdir -p "$build"/{find_package,add_subdirectory,fetch_content,pkg_config}
    mkdir -p "$build"/plain_include{,_all,_once}
    awk -v out="$build" -f "$here/from_docs.awk" "$SOURCE/docs/embedding.md"
    folder=$build/${way#docs_}
    folder=${folder%_installed}
    cp "$build/main.cpp" "$folder/"
    ln -s "$SOURCE" "$folder/sinter"
    ln -sfn "$prefix" "$WORK/prefix"  # what is shown there does not quote for paths with blanks
    export CXX CXXFLAGS=-O0 PREFIX=$WORK/prefix REPOSITORY=$SOURCE CMAKE_GENERATOR=Ninja
    export CMAKE_PREFIX_PATH=$(dirname "${DNNL_DIR:-/usr/none}"):${XBYAK_INCLUDE%/include}
    export CPLUS_INCLUDE_PATH= LIBRARY_PATH=
    case $XBYAK_INCLUDE in "" | /usr/include) ;; *) CPLUS_INCLUDE_PATH=$XBYAK_INCLUDE ;; esac
    case $DNNL_DIR in "" | /usr/*) ;; *)
      CPLUS_INCLUDE_PATH+=:${DNNL_DIR%%/lib*}/include
      LIBRARY_PATH=$(dirname "$(dirname "$DNNL_DIR")")
      export LD_RUN_PATH=$LIBRARY_PATH ;;
    esac
    # The reader's own settings, which no command on that page repeats.
    export CMAKE_TOOLCHAIN_FILE=$build/settings.cmake
    {
      echo "set(SINTER_ONEDNN $ONEDNN CACHE STRING \"\")"
      echo "set(SINTER_JIT $JIT CACHE STRING \"\")"
      case $way in
        *_installed) echo "list(APPEND CMAKE_PREFIX_PATH \"$PREFIX\")" ;;
        *) echo "set(FETCHCONTENT_SOURCE_DIR_SINTER \"$SOURCE\" CACHE PATH \"\")" ;;
      esac
    } >"$CMAKE_TOOLCHAIN_FILE"
    (cd "$folder" && bash -e ./build.sh) >"$WORK/$way.log" 2>&1 || { cat "$WORK/$way.log"; exit 1; }
    grep -qx "4.5 9 0 11" "$WORK/$way.log" || { cat "$WORK/$way.log"; exit 1; }
    case $way in
      *_installed)  # an installed Sinter was there, so nothing was fetched
        ! ls "$folder/build/_deps" 2>/dev/null | grep . || { echo "FetchContent fetched" >&2; exit 1; } ;;
    esac
    ;;

  pkg_config)
    PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name sinter.pc)")
    export PKG_CONFIG_PATH
    mkdir -p "$build"
    [ "$("$PKG_CONFIG_PROGRAM" --modversion sinter)" = "$VERSION" ]
    # eval: pkg-config escapes the blank in the path for a shell.
    eval "flags=($("$PKG_CONFIG_PROGRAM" --cflags --libs sinter))"
    "$CXX" -std=c++20 "$here/consumer/main.cpp" "${flags[@]}" -o "$build/consumer"
    expect_output "$build/consumer"
    ;;

  static_onednn)  # a stand-in: the name and the config of a static oneDNN, behind it the shared one and a call of OpenMP
    rm -rf "$build"
    mkdir -p "$build/onednn/lib"
    shared=$(echo "$DNNL_DIR"/../../libdnnl.so)
    echo 'extern "C" int omp_get_num_threads(); int wants_openmp() { return omp_get_num_threads(); }' |
      "$CXX" -c -x c++ - -o "$build/onednn/lib/wants_openmp.o"
    echo "INPUT($build/onednn/lib/wants_openmp.o $shared)" >"$build/onednn/lib/libdnnl.a"
    cp "$DNNL_DIR/dnnl-config-version.cmake" "$build/onednn/"
    cat >"$build/onednn/dnnl-config.cmake" <<TEXT
set(DNNL_CPU_RUNTIME OMP)
add_library(DNNL::dnnl STATIC IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION $build/onednn/lib/libdnnl.a
  INTERFACE_INCLUDE_DIRECTORIES ${DNNL_DIR%%/lib*}/include)
TEXT
    common+=(-Ddnnl_DIR="$build/onednn" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DSINTER_ONEDNN=ON -DSINTER_JIT="$JIT")
    quiet "$WORK/$way.log" "$CMAKE" -S "$here/find_package" -B "$build/found" "${common[@]}" \
      -DCMAKE_PREFIX_PATH="$prefix"
    quiet "$WORK/$way.log" "$CMAKE" -S "$here/add_subdirectory" -B "$build/added" "${common[@]}" \
      -DSINTER_SOURCE="$SOURCE"
    for project in found added; do
      quiet "$WORK/$way.log" "$CMAKE" --build "$build/$project" --target consumer
      expect_output "$build/$project/consumer"
    done
    if grep -e -fopenmp "$build"/*/compile_commands.json; then
      echo "OpenMP's flags came with its library" >&2
      exit 1
    fi
    quiet "$WORK/$way.log" "$CMAKE" -S "$SOURCE" -B "$build/installed" "${common[@]}" \
      -DSINTER_TESTS=OFF -DSINTER_BENCHMARKS=OFF -DSINTER_EXAMPLES=OFF
    grep -e "-ldnnl -fopenmp" "$build/installed/sinter.pc"
    ;;

  conan)  # with no remote: Xbyak is a stand-in of the test's own, oneDNN the system's by our wrapper
    rm -rf "$build"
    export CONAN_HOME=$build/home XBYAK_INCLUDE CC CXX
    case $CXX in *clang*) CC=clang ;; *) CC=gcc ;; esac
    prefix_of_dnnl=${DNNL_DIR%%/lib*}
    conf=(-c user.sinter:onednn_prefix="${prefix_of_dnnl:-/usr}")
    mkdir -p "$build"
    quiet "$WORK/conan.log" "$CONAN" profile detect
    quiet "$WORK/conan.log" "$CONAN" remote disable '*'
    [ "$ONEDNN" = 0 ] ||
      quiet "$WORK/conan.log" "$CONAN" create "$SOURCE/packaging/conan/onednn" "${conf[@]}"
    quiet "$WORK/conan.log" "$CONAN" create "$here/conan/xbyak" --version 7.24
    quiet "$WORK/conan.log" "$CONAN" create "$SOURCE" \
      -s compiler.cppstd=20 -s build_type=Debug -c tools.cmake.cmake_layout:test_folder="$build" \
      "${conf[@]}" \
      -o "sinter/*:with_onednn=$(yes_or_no "$ONEDNN")" -o "sinter/*:with_jit=$(yes_or_no "$JIT")"
    expect_output tail -n 20 "$WORK/conan.log"
    ;;

  vcpkg_dry_run)  # the real port, with the functions of vcpkg that it calls stubbed; not vcpkg itself
    rm -rf "$build"
    features=()
    [ "$ONEDNN" = 0 ] || features+=(onednn)
    [ "$JIT" = 0 ] || features+=(jit)
    quiet "$WORK/vcpkg.log" "$CMAKE" -DPORT="$SOURCE/ports/sinter" -DWORK="$build" -DVERSION="$VERSION" \
      -DFEATURES="$(IFS=';'; echo "${features[*]-}")" -DOPTIONS="$(IFS=';'; echo "${common[*]}")" \
      -P "$here/vcpkg/dry_run.cmake"
    quiet "$WORK/vcpkg.log" "$CMAKE" -S "$here/find_package" -B "$build/consumer" "${common[@]}" \
      -DCMAKE_PREFIX_PATH="$build/packages"
    quiet "$WORK/vcpkg.log" "$CMAKE" --build "$build/consumer" --target consumer
    expect_output "$build/consumer/consumer"
    ;;

  vcpkg)  # the real tool, with the system's oneDNN and Xbyak
    rm -rf "$build"
    quiet "$WORK/vcpkg.log" "$VCPKG_ROOT/vcpkg" install \
      --x-manifest-root="$SOURCE/packaging/vcpkg/example" --x-install-root="$build/installed" \
      --overlay-ports="$SOURCE/ports" --overlay-ports="$SOURCE/packaging/vcpkg"
    quiet "$WORK/vcpkg.log" "$CMAKE" -S "$here/find_package" -B "$build/consumer" "${common[@]}" \
      -DCMAKE_PREFIX_PATH="$(echo "$build"/installed/*-*)"
    quiet "$WORK/vcpkg.log" "$CMAKE" --build "$build/consumer"
    expect_output "$build/consumer/consumer"
    ;;

  *) echo "unknown way $way" >&2; exit 2 ;;
esac
