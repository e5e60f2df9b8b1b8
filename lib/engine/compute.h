/* compute.h - what an engine was opened to compute floats of f32 with. */
#ifndef ZT_ENGINE_COMPUTE_H
#define ZT_ENGINE_COMPUTE_H

#include "lib/engine/engine.h"

zt_compute zt_engine_compute(const zt_engine *e); /* of a wrapper: ZT_COMPUTE_F32 */
const char *zt_compute_name(zt_compute c);        /* "f16"; as --compute names them */

#endif
