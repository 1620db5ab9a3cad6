// The one translation unit of sinter::backends: the backends, compiled once. Whoever links that target
// gets SINTER_EXTERN_BACKENDS=1, so no other file of the program includes dnnl.hpp or xbyak.h.
// Without CMake: compile this file into the program, and define the macro for all of its files.
#include <sinter/backends.hpp>
