/* auto.h - which engine `auto` means: a GPU, where there is one that
 * runs all of a program; else the processor.
 *
 * Whether there is one is seen by a file that its kernel driver makes, so that where there is none
 * no library of a driver is opened. "Runs all of it": it has a kernel for every step, and its
 * memory holds the weights and states. What speaks against it is told to the log.
 */
#ifndef ZT_AUTO_H
#define ZT_AUTO_H

#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The engine built in whose device this machine seems to have, or NULL. The environment's
 * ZT_CUDA_NODE is the file that speaks for cuda, instead of those of NVIDIA's drivers. */
const char *zt_auto_device(void);
/* For program p, bound by these numbers. */
zt_engine *zt_auto_open(zt_ctx *ctx, const zt_engine_opts *opts, const zt_prog *p,
                        const zt_binding *b, int n);

#ifdef __cplusplus
}
#endif
#endif
