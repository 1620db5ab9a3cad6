# cmake -DCOMPILER=gcc|clang -DCXX=... -DFLAGS=flags.rsp -DFILE=x.cpp -P check.cmake
#
# Compiles FILE twice. As it is, it must compile; with -DSINTER_BAD it must not, and the compiler's words
# must match the regular expression (CMake's kind) of every line in FILE that reads
#   // EXPECT: regex            for both compilers
#   // EXPECT-GCC: regex        for one
#   // EXPECT-CLANG: regex
# At least one must apply. A message that a user cannot read is a fault, so on a mismatch all is shown.
cmake_minimum_required(VERSION 3.25)
string(TOUPPER ${COMPILER} COMPILER_UPPER)
file(STRINGS ${FILE} lines REGEX "^// EXPECT(-${COMPILER_UPPER})?: ")
if(NOT lines)
  message(FATAL_ERROR "${FILE} has no '// EXPECT: regex' line for ${COMPILER}.")
endif()

set(command ${CXX} @${FLAGS} -fsyntax-only -fdiagnostics-color=never)

execute_process(COMMAND ${command} ${FILE} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "The good version does not compile:\n${text}")
endif()

execute_process(COMMAND ${command} -DSINTER_BAD ${FILE}
  RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(code EQUAL 0)
  message(FATAL_ERROR "The bad version (-DSINTER_BAD) compiles, and should not.")
endif()
if(NOT text MATCHES "error:")
  message(FATAL_ERROR "The compiler failed without an error message:\n${text}")
endif()
# The compiler quotes the source's lines, comments too: an EXPECT line must not prove itself.
string(REGEX REPLACE "[^\n]*// EXPECT[^\n]*" "" text_without_echo "${text}")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^// EXPECT[A-Z-]*: " "" regex "${line}")
  if(NOT text_without_echo MATCHES "${regex}")
    message(FATAL_ERROR "No message matches\n  ${regex}\nThe compiler said:\n${text}")
  endif()
endforeach()
