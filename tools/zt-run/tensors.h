/* tensors.h - private to zt-run: tensors as CSV, for programs and
 * networks of one input or output. */
#ifndef ZT_RUN_TENSORS_H
#define ZT_RUN_TENSORS_H

#include "tools/common/cli.h"

bool run_is_csv(const char *path); /* by its name: of an output */
bool run_looks_csv(const zt_source *source); /* by its first bytes */

/* The numbers of a CSV file as an array of the type that is wanted, whose dimensions below 0 are
 * not known yet: a line for each place of the first dimension, in it the rest in row-major order;
 * of rank 1 also all in one line. One line that does not begin with a number may stand on top. The
 * checkpoint holds one array without a name and stands on *bytes, which is freed after it. */
zt_checkpoint *run_csv_read(zt_ctx *ctx, const zt_source *source, const zt_type *want, char **bytes);
/* The same back, as text. */
zt_status run_csv_put(const zt_type *type, const void *data, zt_str *out);

#endif
