/* tensors.h - private to zt-run: tensors as CSV, for programs and
 * networks of one input or output. */
#ifndef ZT_RUN_TENSORS_H
#define ZT_RUN_TENSORS_H

#include "tools/common/cli.h"

bool run_is_csv(const char *path);           /* by its name: of an output */
bool run_looks_csv(const zt_source *source); /* by its first bytes */

/* The numbers of a CSV file as an array of the type that is wanted; its dimensions below 0 are not known
 * yet. The layout of the file:
 *
 *   a first line that does not begin with a number is skipped: names of the columns
 *   a line for each index of the first dimension; in it the other dimensions, in row-major order
 *   an array of rank 1 may also be all in one line
 *
 * The checkpoint holds one array without a name. It reads *bytes, which is freed after it. */
zt_checkpoint *run_csv_read(zt_ctx *ctx, const zt_source *source, const zt_type *want, char **bytes);
/* The reverse: an array as CSV text. */
zt_status run_csv_put(const zt_type *type, const void *data, zt_str *out);

#endif
