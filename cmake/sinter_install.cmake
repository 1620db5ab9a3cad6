# Install and export: find_package(sinter) and pkg-config. The tree may be moved after installation.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(SINTER_INSTALL_CMAKEDIR ${CMAKE_INSTALL_DATADIR}/cmake/sinter CACHE STRING
  "Where sinterConfig.cmake goes, below the prefix")
mark_as_advanced(SINTER_INSTALL_CMAKEDIR)
set(sinter_config_dir ${SINTER_INSTALL_CMAKEDIR})

install(TARGETS sinter EXPORT sinterTargets FILE_SET HEADERS)
install(EXPORT sinterTargets NAMESPACE sinter:: DESTINATION ${sinter_config_dir})

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/sinterConfig.cmake.in ${PROJECT_BINARY_DIR}/sinterConfig.cmake
  INSTALL_DESTINATION ${sinter_config_dir} NO_SET_AND_CHECK_MACRO)
# While the major version is 0, a new minor version may break its users.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(sinter_compatibility SameMinorVersion)
else()
  set(sinter_compatibility SameMajorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sinterConfigVersion.cmake
  COMPATIBILITY ${sinter_compatibility} ARCH_INDEPENDENT)
install(
  FILES ${PROJECT_BINARY_DIR}/sinterConfig.cmake ${PROJECT_BINARY_DIR}/sinterConfigVersion.cmake
        ${CMAKE_CURRENT_LIST_DIR}/FindSinterXbyak.cmake ${CMAKE_CURRENT_LIST_DIR}/sinter_backends.cmake
        ${CMAKE_CURRENT_LIST_DIR}/sinter_backends_component.cmake ${CMAKE_CURRENT_LIST_DIR}/sinter_static_onednn.cmake
        ${PROJECT_SOURCE_DIR}/src/backends.cpp
  DESTINATION ${sinter_config_dir})

# sinter.pc requires neither dnnl.pc, which exists nowhere, nor xbyak.pc, which few packages of Xbyak
# have: it says their flags itself. A .pc with libraries belongs under lib, one without under share.
set(sinter_pc_libs "")
set(sinter_pc_cflags "-DSINTER_WITH_ONEDNN=${SINTER_WITH_ONEDNN} -DSINTER_WITH_JIT=${SINTER_WITH_JIT}")
set(sinter_pc_includes "")
if(SINTER_WITH_ONEDNN)
  foreach(config IN ITEMS "" _RELEASE _RELWITHDEBINFO _NONE _NOCONFIG _MINSIZEREL _DEBUG)
    get_target_property(library DNNL::dnnl IMPORTED_LOCATION${config})
    if(library)
      break()
    endif()
  endforeach()
  if(library)
    get_filename_component(library_dir ${library} DIRECTORY)
    get_filename_component(library_dir ${library_dir} REALPATH)
    if(NOT library_dir IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
      string(APPEND sinter_pc_libs "-L${library_dir} ")
    endif()
  endif()
  string(APPEND sinter_pc_libs "-ldnnl")
  if(library MATCHES "\\.a$" AND DNNL_CPU_RUNTIME STREQUAL "OMP")
    string(APPEND sinter_pc_libs " -fopenmp")  # a static oneDNN does not bring its own
  endif()
  get_target_property(directories DNNL::dnnl INTERFACE_INCLUDE_DIRECTORIES)
  list(APPEND sinter_pc_includes ${directories})
endif()
if(SINTER_WITH_JIT)
  list(APPEND sinter_pc_includes ${SinterXbyak_INCLUDE_DIR})
endif()
list(REMOVE_DUPLICATES sinter_pc_includes)
foreach(directory IN LISTS sinter_pc_includes)
  if(IS_DIRECTORY "${directory}")
    get_filename_component(directory ${directory} REALPATH)
    if(NOT directory IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      string(APPEND sinter_pc_cflags " -isystem ${directory}")
    endif()
  endif()
endforeach()
if(CMAKE_DL_LIBS)
  string(APPEND sinter_pc_libs " -l${CMAKE_DL_LIBS}")
endif()
string(STRIP "${sinter_pc_libs}" sinter_pc_libs)

if(sinter_pc_libs)
  set(sinter_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
else()
  set(sinter_pc_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)
endif()
# The prefix as seen from the .pc file, so that the tree can be moved.
file(RELATIVE_PATH sinter_pc_prefix
  ${CMAKE_INSTALL_PREFIX}/${sinter_pc_dir} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" sinter_pc_prefix "${sinter_pc_prefix}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/sinter.pc.in ${PROJECT_BINARY_DIR}/sinter.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sinter.pc DESTINATION ${sinter_pc_dir})
