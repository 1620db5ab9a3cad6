# Finds Xbyak by its header, since not every package of it ships a CMake config, and reads the version
# from the header's own constant: VERSION = 0x7242 is 7.24.2. Named after Sinter, and installed beside
# sinterConfig.cmake, so that it never stands in for a FindXbyak of the project that uses Sinter.
#
# Defines SinterXbyak_FOUND, SinterXbyak_VERSION, and the target SinterXbyak::SinterXbyak.
find_path(SinterXbyak_INCLUDE_DIR xbyak/xbyak.h)
mark_as_advanced(SinterXbyak_INCLUDE_DIR)

if(SinterXbyak_INCLUDE_DIR)
  file(STRINGS ${SinterXbyak_INCLUDE_DIR}/xbyak/xbyak.h _sinter_line
       REGEX "VERSION = 0x[0-9A-Fa-f]+" LIMIT_COUNT 1)
  if(_sinter_line MATCHES "VERSION = 0x([0-9A-Fa-f])([0-9A-Fa-f][0-9A-Fa-f])([0-9A-Fa-f])")
    set(SinterXbyak_VERSION ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3})
  endif()
  unset(_sinter_line)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SinterXbyak
  REQUIRED_VARS SinterXbyak_INCLUDE_DIR VERSION_VAR SinterXbyak_VERSION)

if(SinterXbyak_FOUND AND NOT TARGET SinterXbyak::SinterXbyak)
  add_library(SinterXbyak::SinterXbyak INTERFACE IMPORTED)
  target_include_directories(SinterXbyak::SinterXbyak INTERFACE ${SinterXbyak_INCLUDE_DIR})
endif()
