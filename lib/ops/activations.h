/* activations.h - private to lib/ops: the curves that rows of one number and of gated units share. */
#ifndef ZT_OPS_ACTIVATIONS_H
#define ZT_OPS_ACTIVATIONS_H

#include "lib/ops/row.h"

#include <math.h>
#include <string.h>

typedef double zt_curve(double x);

static inline double silu(double x) { return x / (1 + exp(-x)); }

/* Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016): the tanh form and the exact one, both
 * written so that they keep their digits far below zero: (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)). */
static inline double gelu_tanh(double x) { return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

static inline double gelu_erf(double x) { return 0.5 * x * erfc(-x * M_SQRT1_2); }

/* ZT_EUSAGE unless `form` is "tanh" or "erf". */
static inline zt_status want_gelu_form(zt_ctx *ctx, const zt_enum_string *form)
{
    static const char *const forms[] = {"tanh", "erf"};
    return zt_row_word(ctx, "form", form, forms, ZT_LEN(forms));
}

static inline zt_curve *gelu_form(const zt_enum_string *form) { return strcmp(form->s, "erf") ? gelu_tanh : gelu_erf; }

#endif
