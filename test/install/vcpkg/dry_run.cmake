# A dry run of the vcpkg port: the real portfile, with stubs for the functions of vcpkg that it calls. It is
# not vcpkg: the stubs do what vcpkg's documentation says of each, as far as this port uses it.
#   PORT  the port's folder     WORK  builds in WORK/build, installs to WORK/packages
#   FEATURES  the chosen ones   OPTIONS  further ones for the configuration   VERSION  what the port must say
cmake_minimum_required(VERSION 3.25)
set(CURRENT_PACKAGES_DIR ${WORK}/packages)
set(folder ${PORT})
file(READ ${folder}/vcpkg.json manifest)
string(JSON PORT GET ${manifest} name)
string(JSON said GET ${manifest} version-semver)
if(NOT said STREQUAL VERSION)
  message(FATAL_ERROR "the port's vcpkg.json says version ${said}; config.hpp says ${VERSION}")
endif()

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_check_features)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES")
  set(options "")
  while(arg_FEATURES)
    list(POP_FRONT arg_FEATURES feature variable)
    string(JSON described ERROR_VARIABLE missing GET ${manifest} features ${feature} description)
    if(missing)
      message(FATAL_ERROR "vcpkg.json has no feature ${feature}, which the portfile checks")
    endif()
    if(feature IN_LIST FEATURES)
      list(APPEND options -D${variable}=ON)
    else()
      list(APPEND options -D${variable}=OFF)
    endif()
  endwhile()
  set(${arg_OUT_FEATURE_OPTIONS} ${options} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  run(${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${WORK}/build ${OPTIONS} ${arg_OPTIONS}
    -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR})
endfunction()

function(vcpkg_cmake_install)
  run(${CMAKE_COMMAND} --build ${WORK}/build --target install)
endfunction()

# The config has to be where vcpkg wants it: in share/PORT.
function(vcpkg_cmake_config_fixup)
  if(NOT EXISTS ${CURRENT_PACKAGES_DIR}/share/${PORT}/${PORT}Config.cmake)
    message(FATAL_ERROR "there is no share/${PORT}/${PORT}Config.cmake")
  endif()
endfunction()

# A .pc under share/pkgconfig has no libraries; one with libraries lies under lib/pkgconfig.
function(vcpkg_fixup_pkgconfig)
  file(GLOB_RECURSE files ${CURRENT_PACKAGES_DIR}/*.pc)
  list(LENGTH files count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "one .pc file is wanted, and there are: ${files}")
  endif()
  file(STRINGS ${files} libs REGEX "^Libs: *[^ ]")
  if(libs AND NOT files MATCHES "/lib/pkgconfig/" OR NOT libs AND NOT files MATCHES "/share/pkgconfig/")
    message(FATAL_ERROR "${files} is in the wrong folder for its libraries: '${libs}'")
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(READ ${arg_FILE_LIST} text)
  file(WRITE ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright ${text})
endfunction()

include(${folder}/portfile.cmake)

# What vcpkg itself checks after each build.
foreach(wanted IN ITEMS share/${PORT}/copyright share/${PORT}/usage include)
  if(NOT EXISTS ${CURRENT_PACKAGES_DIR}/${wanted})
    message(FATAL_ERROR "the port installed no ${wanted}")
  endif()
endforeach()
if(EXISTS ${CURRENT_PACKAGES_DIR}/debug)
  message(FATAL_ERROR "the port left a debug folder")
endif()
