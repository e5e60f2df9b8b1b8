/* pt.h - read and write PyTorch's checkpoints (.pt, .pth, .bin): tensors by name.
 *
 *     zt_pt *checkpoint = zt_pt_open(ctx, "model.pt");
 *     for (int64_t i = 0; i < zt_pt_count(checkpoint); i++) ... zt_pt_get(checkpoint, i)->name ...
 *     zt_pt_close(checkpoint);
 *
 *     zt_pt_writer *writer = zt_pt_writer_new(ctx, sink);  // a pipe will do
 *     zt_pt_begin(writer, "fc.weight", &type);
 *     zt_pt_write(writer, bytes, zt_type_bytes(&type));  // in as many pieces as you like
 *     zt_pt_finish(writer);  // then zt_sink_commit(sink)
 *     zt_pt_writer_free(writer);
 *
 * Both formats are read: the zip of PyTorch 1.6 and later, either byte order, and what was before
 * it. A checkpoint is a pickle, whose opcodes could call anything: here nothing is called (pickle.h).
 * A tensor's name is its path: keys of dictionaries, numbers of lists and attributes of objects,
 * joined by dots; a module of PyTorch's gives the names of its state_dict. Numbers, strings
 * and other values besides tensors are skipped. Opening logs a warning (zt_log) that names unknown
 * globals, and one that names tensors which cannot be read: sparse, quantized and others, and
 * those that are arguments of unknown functions or without a name (in a set). A file with only
 * such tensors is ZT_EDATA.
 *
 * Views of any strides are read row-major and must lie within their storage; tied tensors are read
 * once for each name. The sum of all tensors may be 64 times the file plus 64 MiB: only heavily
 * overlapping tensors exceed that.
 *
 * Written is the zip format, an OrderedDict of tensors, each with a storage of its own;
 * torch.load(weights_only=True) reads it. The same tensors make the same bytes.
 */
#ifndef ZT_PT_H
#define ZT_PT_H

#include "lib/io/array.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_pt zt_pt;

zt_pt *zt_pt_open(zt_ctx *ctx, const char *path);  /* opens and owns a source */
zt_pt *zt_pt_from(zt_ctx *ctx, zt_source *source); /* borrows the source */
zt_pt *zt_pt_take(zt_ctx *ctx, zt_source *source); /* takes it over, also on failure */
void zt_pt_close(zt_pt *pt);                       /* NULL: nothing */

/* Do these first bytes of a file begin a checkpoint of the older format? 32 bytes suffice. */
bool zt_pt_sniff(const void *bytes, size_t size);
/* Is this zip a checkpoint, and no .npz? Looks for its data.pkl; fails without a message. */
bool zt_pt_is_zip(const zt_source *source);

int64_t zt_pt_count(const zt_pt *pt);                  /* tensors, numbered from 0 */
const zt_array *zt_pt_get(const zt_pt *pt, int64_t i); /* in the pickle's order */
int64_t zt_pt_find(const zt_pt *pt, const char *name); /* index or -1 */
/* `size` bytes at `offset` of tensor i. From any thread. In order is fastest. */
zt_status zt_pt_read(zt_pt *pt, int64_t i, size_t offset, void *dst, size_t size);
zt_store zt_pt_store(zt_pt *pt); /* valid as long as it is open */

typedef struct zt_pt_writer zt_pt_writer;

bool zt_pt_can(const zt_type *type); /* has PyTorch its dtype? */
/* Borrows the sink, which must outlive the writer. NULL: ZT_ENOMEM. */
zt_pt_writer *zt_pt_writer_new(zt_ctx *ctx, zt_sink *out);
void zt_pt_writer_free(zt_pt_writer *writer); /* the sink stays open. NULL: nothing */
/* The next tensor. A name that was there is ZT_EUSAGE, a dtype that PyTorch lacks ZT_ENOTSUP. */
zt_status zt_pt_begin(zt_pt_writer *writer, const char *name, const zt_type *type);
/* The next `size` bytes of the tensor, row-major, little endian. ZT_EUSAGE: it has not so many. */
zt_status zt_pt_write(zt_pt_writer *writer, const void *bytes, size_t size);
/* Ends the file; once, at the end. ZT_EUSAGE: the last tensor lacks bytes. */
zt_status zt_pt_finish(zt_pt_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
