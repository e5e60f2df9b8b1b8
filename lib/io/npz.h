/* npz.h - read and write NumPy's .npz archives: arrays by name, each an .npy in a zip.
 *
 *     zt_npz *npz = zt_npz_open(ctx, "weights.npz");
 *     for (int64_t i = 0; i < zt_npz_count(npz); i++) ... zt_npz_get(npz, i)->name ...
 *     zt_npz_close(npz);
 *
 *     zt_npz_writer *writer = zt_npz_writer_new(ctx, sink);  // a pipe will do
 *     zt_npz_begin(writer, "layer/0/w", &type);
 *     zt_npz_write(writer, bytes, zt_type_bytes(&type));  // in as many pieces as you like
 *     zt_npz_finish(writer);  // then zt_sink_commit(sink)
 *     zt_npz_writer_free(writer);
 *
 * Members may be stored or deflated, with zip64; names lose their ".npy", and are never paths.
 * Members of other names are passed over. What npy.h says of arrays holds of each; a CRC-32 that is
 * wrong is ZT_EDATA when its array has been read. Written archives are stored and the same for the
 * same arrays.
 */
#ifndef ZT_NPZ_H
#define ZT_NPZ_H

#include "lib/io/array.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_npz zt_npz;

zt_npz *zt_npz_open(zt_ctx *ctx, const char *path);  /* opens and owns a source */
zt_npz *zt_npz_from(zt_ctx *ctx, zt_source *source); /* borrows the source */
zt_npz *zt_npz_take(zt_ctx *ctx, zt_source *source); /* takes it over, also on failure */
void zt_npz_close(zt_npz *npz);                      /* NULL: nothing */

/* Do these first bytes of a file begin a zip? 4 bytes suffice. PyTorch's (zt_pt_is_zip) are zips,
 * too. */
bool zt_npz_sniff(const void *bytes, size_t size);

int64_t zt_npz_count(const zt_npz *npz);                  /* arrays, numbered from 0 */
const zt_array *zt_npz_get(const zt_npz *npz, int64_t i); /* in the directory's order */
int64_t zt_npz_find(const zt_npz *npz, const char *name); /* index or -1 */
/* `size` bytes at `offset` of array i. From any thread. In order is fastest. */
zt_status zt_npz_read(zt_npz *npz, int64_t i, size_t offset, void *dst, size_t size);
zt_store zt_npz_store(zt_npz *npz); /* valid as long as it is open */

typedef struct zt_npz_writer zt_npz_writer;

bool zt_npz_can(const zt_type *type); /* has NumPy a word for its dtype? */

/* Borrows the sink, which must outlive the writer. NULL: ZT_ENOMEM. */
zt_npz_writer *zt_npz_writer_new(zt_ctx *ctx, zt_sink *out);
void zt_npz_writer_free(zt_npz_writer *writer); /* the sink stays open. NULL: nothing */
/* The next array. A name that was there is ZT_EUSAGE, a dtype without NumPy's word ZT_ENOTSUP. */
zt_status zt_npz_begin(zt_npz_writer *writer, const char *name, const zt_type *type);
/* The next `size` bytes of the array, row-major, little endian. ZT_EUSAGE: it has not so many. */
zt_status zt_npz_write(zt_npz_writer *writer, const void *bytes, size_t size);
/* Ends the file; once, at the end. ZT_EUSAGE: the last array lacks bytes. */
zt_status zt_npz_finish(zt_npz_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
