// The executor for OpenMP refuses to be compiled where OpenMP is off.
// EXPECT: sinter/openmp.hpp wants OpenMP: compile with -fopenmp
#include "sinter/run/parallel.hpp"

#ifdef SINTER_BAD
#include "sinter/openmp.hpp"
#endif
