# The port lies in Sinter's own repository and installs the tree that it lies in: use the folder `ports`
# as an overlay (vcpkg install sinter --overlay-ports=sinter/ports).
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(VCPKG_BUILD_TYPE release)  # headers only: there is nothing to debug

vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES
  onednn SINTER_ONEDNN
  jit SINTER_JIT
)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${options} -DSINTER_TESTS=OFF -DSINTER_BENCHMARKS=OFF -DSINTER_EXAMPLES=OFF -DSINTER_INSTALL=ON
          -DSINTER_INSTALL_CMAKEDIR=share/sinter
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup()
vcpkg_fixup_pkgconfig()

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
