/* auto.h - the engine that `auto` means: a GPU that runs all of a program, else the CPU.
 *
 * A GPU is detected by a file that its kernel driver makes, so that without one no driver library
 * is opened. It runs all of a program when it has a kernel for every step and its memory holds the
 * weights and states. The reason for not using it is logged.
 */
#ifndef ZT_AUTO_H
#define ZT_AUTO_H

#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name (static) of an engine in this build whose device this machine seems to have; NULL: none.
 * The environment variable ZT_CUDA_NODE names the file that means cuda, in the place of those of
 * NVIDIA's drivers. */
const char *zt_auto_device(void);
/* Opens the engine for the program with n symbols bound: the device if it runs all of program, else cpu.
 * The caller closes it with zt_engine_close. opts: as for zt_engine_open. NULL: failed, see ctx. */
zt_engine *zt_auto_open(zt_ctx *ctx, const zt_engine_opts *opts, const zt_prog *program, const zt_binding *bindings, int n);

#ifdef __cplusplus
}
#endif
#endif
