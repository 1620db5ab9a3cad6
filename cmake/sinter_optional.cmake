# Decides what is compiled in. Reads SINTER_ONEDNN and SINTER_JIT (AUTO, ON, OFF); sets
# SINTER_WITH_ONEDNN and SINTER_WITH_JIT (0, 1), and says in one line each what was found or why not.
# Versions are asked for, since under the same names older ones are shipped that do not work.
#
# GLOBAL: a project that adds Sinter as a subdirectory links sinter::sinter from outside this folder,
# where imported targets found here would otherwise be unknown.

set(SINTER_ONEDNN_MINIMUM 3.4)
set(SINTER_XBYAK_MINIMUM 7)

# _sinter_decide(RESULT SETTING FOUND WHAT REASON): the one rule for both. REASON: why it was not found.
function(_sinter_decide result setting found what reason)
  string(TOUPPER "${${setting}}" wish)
  set(with 0)
  if(NOT wish STREQUAL "AUTO" AND NOT wish)
    message(STATUS "Sinter: ${what} off (${setting}=${${setting}})")
  elseif(found)
    set(with 1)
    message(STATUS "Sinter: ${what} on, version ${found}")
  elseif(wish STREQUAL "AUTO")
    message(STATUS "Sinter: ${what} off, ${reason}")
  else()
    message(FATAL_ERROR "sinter: ${setting}=${${setting}}, but ${reason}")
  endif()
  set(${result} ${with} PARENT_SCOPE)
endfunction()

set(_sinter_found "")
set(_sinter_reason "")
if(SINTER_ONEDNN)  # AUTO is true as well
  find_package(dnnl ${SINTER_ONEDNN_MINIMUM} CONFIG QUIET GLOBAL)
  if(dnnl_FOUND)
    set(_sinter_found ${dnnl_VERSION})
  elseif(dnnl_CONSIDERED_VERSIONS)
    list(JOIN dnnl_CONSIDERED_VERSIONS ", " _sinter_reason)
    set(_sinter_reason "version ${_sinter_reason} is too old (${SINTER_ONEDNN_MINIMUM} or newer is needed)")
  else()
    set(_sinter_reason "no dnnl-config.cmake was found (name its prefix in CMAKE_PREFIX_PATH)")
  endif()
endif()
_sinter_decide(SINTER_WITH_ONEDNN SINTER_ONEDNN "${_sinter_found}" "oneDNN backend" "${_sinter_reason}")

set(_sinter_found "")
set(_sinter_reason "")
if(SINTER_JIT)
  list(PREPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
  find_package(SinterXbyak ${SINTER_XBYAK_MINIMUM} MODULE QUIET GLOBAL)
  list(POP_FRONT CMAKE_MODULE_PATH)
  if(SinterXbyak_FOUND)
    set(_sinter_found ${SinterXbyak_VERSION})
  elseif(SinterXbyak_VERSION)
    set(_sinter_reason "Xbyak ${SinterXbyak_VERSION} is too old (${SINTER_XBYAK_MINIMUM} or newer is needed)")
  else()
    set(_sinter_reason "no xbyak/xbyak.h was found (name its prefix in CMAKE_PREFIX_PATH)")
  endif()
endif()
_sinter_decide(SINTER_WITH_JIT SINTER_JIT "${_sinter_found}" "JIT backend" "${_sinter_reason}")
unset(_sinter_found)
unset(_sinter_reason)
