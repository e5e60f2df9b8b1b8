/* meta.c - what zt-quant reads in a model's metadata, and what it writes there. */
#include "tools/zt-quant/quant.h"

#include <stdio.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

/* One integer of a kind, from bytes; 0 for what is none. */
static int64_t read_integer(zt_gguf_kind kind, const char *record)
{
    static const struct {
        zt_gguf_kind kind;
        int bytes;
        bool is_signed;
    } kinds[] = {{ZT_GGUF_U8, 1, 0},  {ZT_GGUF_I8, 1, 1},  {ZT_GGUF_U16, 2, 0}, {ZT_GGUF_I16, 2, 1},
                 {ZT_GGUF_U32, 4, 0}, {ZT_GGUF_I32, 4, 1}, {ZT_GGUF_U64, 8, 0}, {ZT_GGUF_I64, 8, 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind) {
            uint64_t bits = 0;
            int unused = 64 - 8 * kinds[i].bytes;
            memcpy(&bits, record, (size_t)kinds[i].bytes); /* little endian here and there */
            return kinds[i].is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
        }
    return 0;
}

int64_t quant_meta_i64(const zt_meta *meta, const char *arch, const char *key)
{
    char name[256];
    zt_gguf_kind element_kind;
    uint64_t count;
    snprintf(name, sizeof name, "%s%s%s", arch, *arch ? "." : "", key);
    int64_t index = zt_meta_find(meta, name);
    if (index < 0) return 0;
    const zt_meta_item *item = zt_meta_get(meta, index);
    if (!zt_meta_array(item, &element_kind, &count)) return read_integer(item->kind, item->value);
    enum { HEAD = 12 }; /* kind and count before the elements */
    return count > 0 ? read_integer(element_kind, item->value + HEAD) : 0;
}

/* ---- what is written ------------------------------------------------------------------------- */

/* The file type of most bytes that were quantized: what is chosen by size has no other name. */
static int file_type(const quant_run *run)
{
    uint64_t bytes[ZT_DTYPE_COUNT] = {0};
    zt_dtype largest = ZT_DTYPE_COUNT;
    if (!quant_fits(run->options)) return run->mix->file_type;
    for (int64_t i = 0; i < run->tensor_count; i++) {
        zt_dtype dtype = run->jobs[i].type.dtype;
        if (run->jobs[i].choice.kept) continue;
        bytes[dtype] += zt_type_bytes(&run->jobs[i].type);
        largest = largest == ZT_DTYPE_COUNT || bytes[dtype] > bytes[largest] ? dtype : largest;
    }
    for (int i = 0; zt_mix_at(i); i++)
        if (zt_mix_at(i)->dtype == largest) return zt_mix_at(i)->file_type;
    return run->mix->file_type;
}

static void drop_key(zt_meta *meta, const char *key)
{
    int64_t index = zt_meta_find(meta, key);
    if (index >= 0) zt_meta_remove(meta, index);
}

/* As llama-quantize has it. */
static zt_status put_imatrix(const quant_run *run, zt_meta *meta)
{
    const char *file = run->options->imatrix, *text = zt_imatrix_dataset(run->imatrix);
    int64_t chunks = zt_imatrix_chunks(run->imatrix);
    zt_status status = zt_meta_put_str(meta, "quantize.imatrix.file", file, strlen(file));
    if (status == ZT_OK && text) status = zt_meta_put_str(meta, "quantize.imatrix.dataset", text, strlen(text));
    if (status == ZT_OK)
        status = zt_meta_put_u32(meta, "quantize.imatrix.entries_count", (uint32_t)zt_imatrix_count(run->imatrix));
    if (status == ZT_OK && chunks > 0) status = zt_meta_put_u32(meta, "quantize.imatrix.chunks_count", (uint32_t)chunks);
    return status;
}

/* What was asked for: the same words make the same tensors again. */
zt_status quant_put_history(quant_run *run, zt_meta *meta)
{
    const quant_options *options = run->options;
    zt_str what;
    if (options->no_history) return ZT_OK;
    zt_str_init(&what, run->ctx);
    zt_status status = options->target    ? zt_str_printf(&what, "--target-size %zu", run->target)
                       : options->bpw > 0 ? zt_str_printf(&what, "--bpw %.10g", options->bpw)
                                          : zt_str_printf(&what, "--type %s", run->mix ? run->mix->name : options->type);
    if (status == ZT_OK && options->rule == ZT_RULE_LOOM) status = zt_str_puts(&what, " --rule loom");
    if (status == ZT_OK && options->pure) status = zt_str_puts(&what, " --pure");
    for (int i = 0; i < options->wishes.n && status == ZT_OK; i++)
        status = zt_str_printf(&what, " --tensor-type %s", options->wishes.item[i]);
    if (status == ZT_OK && options->type_file) status = zt_str_printf(&what, " --tensor-type-file %s", options->type_file);
    if (status == ZT_OK && options->embedding_type)
        status = zt_str_printf(&what, " --token-embedding-type %s", options->embedding_type);
    if (status == ZT_OK && options->output_type) status = zt_str_printf(&what, " --output-tensor-type %s", options->output_type);
    if (status == ZT_OK && options->imatrix) status = zt_str_printf(&what, " --imatrix %s", options->imatrix);
    if (status == ZT_OK) status = zt_cli_history(run->cli, meta, what.data);
    zt_str_fini(&what);
    return status;
}

zt_status quant_put_file_type(quant_run *run)
{
    int number = file_type(run);
    return number < 0 ? ZT_OK : zt_meta_put_u32(zt_checkpoint_meta(run->input), "general.file_type", (uint32_t)number);
}

zt_status quant_meta(quant_run *run)
{
    zt_meta *meta = zt_checkpoint_meta(run->input);
    enum { VERSION = 2 }; /* of the layouts: GGML_QNT_VERSION of llama.cpp, as a fact */
    drop_key(meta, "split.no");
    drop_key(meta, "split.count");
    drop_key(meta, "split.tensors.count");
    zt_status status = zt_meta_put_u32(meta, "general.quantization_version", VERSION);
    if (status == ZT_OK) status = quant_put_file_type(run);
    if (status == ZT_OK && run->imatrix) status = put_imatrix(run, meta);
    return status;
}
