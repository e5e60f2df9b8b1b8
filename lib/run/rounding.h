/* rounding.h - private to lib/run: the error that rounding of activations makes in a product. */
#ifndef ZT_ROUNDING_H
#define ZT_ROUNDING_H

#include "lib/run/interpreter.h"

/* The expected sum of squared errors over output k of step s, of an engine that rounds the step's
 * first input to 8 or 16 bits in blocks of 32, or to bf16: what the interpreter holds of input and
 * weight. 0: the step rounds nothing, or is not a matrix product; or a value is not available, and the
 * context says why. */
double zt_rounding_error(zt_interpreter *interpreter, int step, int k);

#endif
