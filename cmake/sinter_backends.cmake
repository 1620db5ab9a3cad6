# sinter_add_backends(NAME SOURCE): the static library behind sinter::backends, from the one translation
# unit that includes the backends. It is compiled by whoever links it, with that project's flags, and not
# at all otherwise; so the installed package stays plain headers, the same for every compiler.
function(sinter_add_backends name source)
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${source})
  target_compile_definitions(${name} PUBLIC SINTER_EXTERN_BACKENDS=1)
  target_link_libraries(${name} PUBLIC sinter::sinter)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
