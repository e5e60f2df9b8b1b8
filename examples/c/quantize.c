/* quantize.c - a model file read, its matrices quantized, and written as GGUF.
 *
 *     cc quantize.c $(pkg-config --cflags --libs zt) -o quantize
 *     ./quantize model.safetensors model.gguf q8_0
 *
 * Any container is read. One tensor is in memory at a time; the output is whole, or absent. zt-quant does more:
 * mixes of types, importance matrices, pieces of tensors on all threads.
 */
#include <stdio.h>
#include <string.h>
#include <zt.h>
#include <zt/quantize.h>

/* A matrix of plain floats whose rows are whole blocks of the type. */
static bool is_quantized(const zt_entry *entry, const zt_dtype_info *to)
{
    const zt_type *type = &entry->type;
    return type->rank == 2 && (type->dtype == ZT_F32 || type->dtype == ZT_F16 || type->dtype == ZT_BF16) &&
           type->dim[1] % to->block == 0;
}

/* Tensor i, as it is or quantized, to the writer. */
static zt_status write_tensor(zt_ctx *ctx, zt_checkpoint *in, int64_t i, const zt_entry *to, zt_writer *out)
{
    zt_entry from;
    zt_checkpoint_get(in, i, &from);
    void *bytes = zt_alloc(ctx, from.bytes);
    zt_status status = bytes ? zt_checkpoint_read(in, i, 0, bytes, from.bytes) : ZT_ENOMEM;
    if (!status && from.type.dtype == to->type.dtype)
        status = zt_writer_put(out, bytes, from.bytes);
    else if (!status) {
        int64_t count = zt_type_count(&from.type), rows = from.type.dim[0], columns = from.type.dim[1];
        float *floats = zt_alloc_array(ctx, (size_t)count, sizeof *floats);
        void *blocks = zt_alloc(ctx, to->bytes);
        zt_quantizer quantizer = {.dtype = to->type.dtype, .columns = columns, .name = from.name};
        status = floats && blocks ? ZT_OK : ZT_ENOMEM;
        if (!status) {
            zt_dtype_convert(from.type.dtype, bytes, ZT_F32, floats, count);
            status = zt_quantize_rows(ctx, &quantizer, floats, rows, blocks);
        }
        if (!status) status = zt_writer_put(out, blocks, to->bytes);
        zt_free(ctx, blocks);
        zt_free(ctx, floats);
    }
    zt_free(ctx, bytes);
    return status;
}

int main(int argc, char **argv)
{
    zt_dtype dtype;
    if (argc != 4 || !zt_dtype_parse(argv[3], strlen(argv[3]), &dtype) || !zt_quantize_has(dtype)) {
        fprintf(stderr, "usage: quantize INPUT OUTPUT.gguf TYPE (q8_0, q4_0, q4_k, ...)\n");
        return 64;
    }
    zt_ctx *ctx = zt_ctx_new();
    zt_checkpoint *in = zt_checkpoint_open(ctx, argv[1], 0);
    int64_t count = zt_checkpoint_count(in), quantized = 0;

    /* The header comes first: what each tensor will be. */
    zt_entry *entries = zt_alloc_array(ctx, (size_t)count, sizeof *entries);
    for (int64_t i = 0; entries && i < count; i++) {
        zt_checkpoint_get(in, i, &entries[i]);
        if (is_quantized(&entries[i], zt_dtype_get(dtype))) {
            entries[i].type.dtype = dtype;
            entries[i].dtype = zt_dtype_get(dtype)->name;
            entries[i].bytes = zt_type_bytes(&entries[i].type);
            quantized++;
        }
    }

    zt_checkpoint_opts options = {.to = zt_container_named("gguf"), .force = true};
    zt_writer *out = in ? zt_writer_open(ctx, argv[2], &options, zt_checkpoint_meta(in), entries, count) : NULL;
    for (int64_t i = 0; out && i < count && !zt_ctx_status(ctx); i++) write_tensor(ctx, in, i, &entries[i], out);
    if (out && !zt_ctx_status(ctx) && !zt_writer_commit(out))
        printf("%s: %lld of %lld tensors are %s\n", argv[2], (long long)quantized, (long long)count, argv[3]);

    int status = zt_ctx_status(ctx) ? 1 : 0;
    if (status) fprintf(stderr, "quantize: %s\n", zt_ctx_error(ctx));
    zt_writer_close(out);
    zt_free(ctx, entries);
    zt_checkpoint_close(in);
    zt_ctx_free(ctx);
    return status;
}
