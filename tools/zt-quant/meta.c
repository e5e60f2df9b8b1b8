/* meta.c - what zt-quant reads in a model's metadata, and what it writes there. */
#include "tools/zt-quant/quant.h"

#include <stdio.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

/* One integer of a kind, from bytes; 0 for what is none. */
static int64_t integer(zt_gguf_kind kind, const char *p)
{
    static const struct {
        zt_gguf_kind kind;
        int bytes;
        bool is_signed;
    } kinds[] = {{ZT_GGUF_U8, 1, 0},  {ZT_GGUF_I8, 1, 1},  {ZT_GGUF_U16, 2, 0},
                 {ZT_GGUF_I16, 2, 1}, {ZT_GGUF_U32, 4, 0}, {ZT_GGUF_I32, 4, 1},
                 {ZT_GGUF_U64, 8, 0}, {ZT_GGUF_I64, 8, 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind) {
            uint64_t v = 0;
            int unused = 64 - 8 * kinds[i].bytes;
            memcpy(&v, p, (size_t)kinds[i].bytes); /* little endian here and there */
            return kinds[i].is_signed ? (int64_t)(v << unused) >> unused : (int64_t)v;
        }
    return 0;
}

int64_t quant_meta_i64(const zt_meta *m, const char *arch, const char *key)
{
    char name[256];
    zt_gguf_kind elem;
    uint64_t count;
    snprintf(name, sizeof name, "%s%s%s", arch, *arch ? "." : "", key);
    int64_t i = zt_meta_find(m, name);
    if (i < 0)
        return 0;
    const zt_meta_item *item = zt_meta_get(m, i);
    if (!zt_meta_array(item, &elem, &count))
        return integer(item->kind, item->value);
    enum { HEAD = 12 }; /* kind and count before the elements */
    return count > 0 ? integer(elem, item->value + HEAD) : 0;
}

/* ---- what is written ------------------------------------------------------------------------- */

/* The file type of most bytes that were quantized: what is chosen by size has no other name. */
static int file_type(const quant *q)
{
    uint64_t bytes[ZT_DTYPE_COUNT] = {0};
    zt_dtype most = ZT_DTYPE_COUNT;
    if (!quant_fits(q->o))
        return q->mix->file_type;
    for (int64_t i = 0; i < q->n; i++) {
        zt_dtype t = q->job[i].type.dtype;
        if (q->job[i].to.kept)
            continue;
        bytes[t] += zt_type_bytes(&q->job[i].type);
        most = most == ZT_DTYPE_COUNT || bytes[t] > bytes[most] ? t : most;
    }
    for (int i = 0; zt_mix_at(i); i++)
        if (zt_mix_at(i)->dtype == most)
            return zt_mix_at(i)->file_type;
    return q->mix->file_type;
}

static void drop(zt_meta *m, const char *key)
{
    int64_t i = zt_meta_find(m, key);
    if (i >= 0)
        zt_meta_remove(m, i);
}

/* As llama-quantize has it. */
static zt_status put_imatrix(const quant *q, zt_meta *m)
{
    const char *file = q->o->imatrix, *text = zt_imatrix_dataset(q->imatrix);
    int64_t chunks = zt_imatrix_chunks(q->imatrix);
    zt_status s = zt_meta_put_str(m, "quantize.imatrix.file", file, strlen(file));
    if (s == ZT_OK && text)
        s = zt_meta_put_str(m, "quantize.imatrix.dataset", text, strlen(text));
    if (s == ZT_OK)
        s = zt_meta_put_u32(m, "quantize.imatrix.entries_count",
                            (uint32_t)zt_imatrix_count(q->imatrix));
    if (s == ZT_OK && chunks > 0)
        s = zt_meta_put_u32(m, "quantize.imatrix.chunks_count", (uint32_t)chunks);
    return s;
}

/* What was asked for: the same words make the same tensors again. */
zt_status quant_put_history(quant *q, zt_meta *m)
{
    const quant_options *o = q->o;
    zt_str what;
    if (o->no_history)
        return ZT_OK;
    zt_str_init(&what, q->ctx);
    zt_status s = o->target    ? zt_str_printf(&what, "--target-size %zu", q->target)
                  : o->bpw > 0 ? zt_str_printf(&what, "--bpw %.10g", o->bpw)
                               : zt_str_printf(&what, "--type %s", q->mix ? q->mix->name : o->type);
    if (s == ZT_OK && o->rule == ZT_RULE_LOOM)
        s = zt_str_puts(&what, " --rule loom");
    if (s == ZT_OK && o->pure)
        s = zt_str_puts(&what, " --pure");
    for (int i = 0; i < o->wishes.n && s == ZT_OK; i++)
        s = zt_str_printf(&what, " --tensor-type %s", o->wishes.item[i]);
    if (s == ZT_OK && o->imatrix)
        s = zt_str_printf(&what, " --imatrix %s", o->imatrix);
    if (s == ZT_OK)
        s = zt_cli_history(q->cli, m, what.data);
    zt_str_fini(&what);
    return s;
}

zt_status quant_put_file_type(quant *q)
{
    int number = file_type(q);
    return number < 0 ? ZT_OK
                      : zt_meta_put_u32(zt_checkpoint_meta(q->in), "general.file_type",
                                        (uint32_t)number);
}

zt_status quant_meta(quant *q)
{
    zt_meta *m = zt_checkpoint_meta(q->in);
    enum { VERSION = 2 }; /* of the layouts: GGML_QNT_VERSION of llama.cpp, as a fact */
    drop(m, "split.no");
    drop(m, "split.count");
    drop(m, "split.tensors.count");
    zt_status s = zt_meta_put_u32(m, "general.quantization_version", VERSION);
    if (s == ZT_OK)
        s = quant_put_file_type(q);
    if (s == ZT_OK && q->imatrix)
        s = put_imatrix(q, m);
    return s;
}
