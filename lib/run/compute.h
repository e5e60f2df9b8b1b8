/* compute.h - programs that compute in less than f32. */
#ifndef ZT_RUN_COMPUTE_H
#define ZT_RUN_COMPUTE_H

#include "lib/engine/engine.h"
#include "lib/run/run.h"

/* The program with its f32 values in f16 or bf16 (fp8: bf16) wherever the rule of an op takes them:
 * casts are inserted before ops that now read less, and before ops that still need f32. Inputs, states, data and
 * outputs stay as declared. Ops that sum many numbers into few (reductions, losses), that draw or
 * that quantize stay in f32; products of matrices, norms and attention sum in f32 whatever they
 * read. fp8: plain matrices that linear ops multiply by become F8_E4M3. Casts of data alone
 * are computed once at load, by the pass fold. `sample`: some number for each symbol; where one is lacking,
 * and for ZT_COMPUTE_F32, it is a copy. */
zt_prog *zt_prog_computed(zt_ctx *ctx, const zt_prog *program, const zt_binding *sample, int n_sample, zt_compute how);

#endif
