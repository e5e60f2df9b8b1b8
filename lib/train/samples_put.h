/* samples_put.h - private to lib/train: how readers fill the fields of a data set. */
#ifndef ZT_TRAIN_SAMPLES_PUT_H
#define ZT_TRAIN_SAMPLES_PUT_H

#include "lib/train/samples.h"

/* One more number; false: it is none of the field's (no whole one, out of range), or no memory. */
bool zt_field_put(zt_field *f, double x);
const char *zt_field_wants(const zt_field *f); /* "number", "whole number" */
/* The k-th name under which input i is looked for; NULL past the last. */
const char *zt_field_name(const zt_samples *s, int i, int k);

#endif
