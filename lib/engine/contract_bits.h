/* contract_bits.h - private to the library: does an engine's kernel promise the bits of docs/arithmetic.md?
 *
 * The arguments are those of vt->has, for an op that a program has: engine, in and out are not NULL, attrs are the op's.
 */
#ifndef ZT_ENGINE_CONTRACT_BITS_H
#define ZT_ENGINE_CONTRACT_BITS_H

#include "lib/engine/engine.h"

/* Does the engine promise the bits for this op, which it has? */
bool zt_engine_has_contract_bits(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[]);
/* Does the engine run this op: has it a kernel, and with strict_bits one that promises those bits? */
bool zt_engine_runs(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[]);

#endif
