# The component "backends" of an installed Sinter: the target sinter::backends. Read after sinter::sinter
# is there and sinter_backends.cmake has been read; backends.cpp lies beside this file.
if(NOT TARGET sinter::backends)
  sinter_add_backends(sinter_backends ${CMAKE_CURRENT_LIST_DIR}/backends.cpp)
  add_library(sinter::backends ALIAS sinter_backends)
endif()
