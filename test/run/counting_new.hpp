// Linking counting_new.cpp replaces operator new in a test program by one that counts.
#pragma once

/// Calls of any form of operator new so far, of all threads, but for those that libdnnl makes.
long allocation_count();

/// Those of libdnnl: dnnl_primitive_execute() makes some at each call, more at a primitive's first, and nobody outside
/// can help it.
long dnnl_allocation_count();
