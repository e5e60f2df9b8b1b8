/* zt/run.h - running.
 *
 *   run/run.h    sessions (whole programs), eager ops, recording, gradients
 *   run/pages.h  the bookkeeping of a paged KV cache: which sequence owns which block
 *   base/ranks.h the processes that mpirun starts, and messages between them
 */
#ifndef ZT_PUBLIC_RUN_H
#define ZT_PUBLIC_RUN_H

#include "lib/run/run.h"
#include "lib/run/pages.h"
#include "lib/base/ranks.h"

#endif
