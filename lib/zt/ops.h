/* zt/ops.h - the table of ops: types, costs, test cases, and functions of your own (zt_func).
 *
 *   ops/ops.h       what every op means
 *   ops/ops.def     the list of ops, with their inputs, outputs and attributes; zt-ops(7) explains it
 *   ops/ops_list.h  macros that take that list apart
 */
#ifndef ZT_PUBLIC_OPS_H
#define ZT_PUBLIC_OPS_H

#include "lib/ops/ops.h"
#include "lib/ops/ops_list.h"

#endif
