# sinter_openmp_of_onednn(RESULT): what is linked beside DNNL::dnnl, which find_package(dnnl) has just defined. That is
# nothing, unless oneDNN is a static library for OpenMP's threads: its target does not name OpenMP (as of 3.7). OpenMP is
# then linked only; nobody's files are compiled with its flags. RESULT ends in -NOTFOUND where the compiler has none.
function(sinter_openmp_of_onednn result)
  set(${result} "" PARENT_SCOPE)
  get_target_property(type DNNL::dnnl TYPE)
  if(type STREQUAL STATIC_LIBRARY AND DNNL_CPU_RUNTIME STREQUAL OMP)
    find_package(OpenMP QUIET GLOBAL COMPONENTS CXX)
    set(${result} OpenMP-NOTFOUND PARENT_SCOPE)
    if(OpenMP_CXX_FOUND)
      set(${result} $<LINK_ONLY:OpenMP::OpenMP_CXX> PARENT_SCOPE)
    endif()
  endif()
endfunction()
