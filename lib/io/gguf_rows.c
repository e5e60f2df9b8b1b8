/* gguf_rows.c - owns tensors of ik_llama.cpp's types whose rows begin with a scale: their rows' bytes, and their numbers as f32.
 *
 *     tensor = rows; row = scale, then the blocks of its elements
 */
#include "lib/io/gguf_file.h"
#include "lib/tensor/row_types.h"

#include <string.h>

typedef struct row_format {
    uint8_t scale;            /* bytes (row_meta_size in ggml.c of ik_llama.cpp, as a fact) */
    zt_decode_row_fn *decode; /* NULL: the rows can only be copied */
} row_format;

/* By ggml's number of the type. */
static const row_format formats[] = {[134] = {2, zt_decode_iq1_bn},
                                     [135] = {4, zt_decode_iq2_bn},
                                     [144] = {4, zt_decode_iq4_ks},
                                     [145] = {2, zt_decode_iq2_ks},
                                     [146] = {4, zt_decode_iq4_kss},
                                     [152] = {4, zt_decode_iq5_ks},
                                     [153] = {4, NULL},
                                     [154] = {4, NULL},
                                     [155] = {4, NULL},
                                     [156] = {2, zt_decode_iq3_ks},
                                     [157] = {2, zt_decode_iq2_kl},
                                     [158] = {4, NULL}};

enum { N_FORMATS = sizeof formats / sizeof *formats, PIECE = 1 << 14 /* elements; a multiple of every block */ };

size_t zt_gguf_row_scale(uint32_t number) { return number < N_FORMATS ? formats[number].scale : 0; }

/* Not of a stream, which would have to go back to the scale of a row, nor of big-endian files. */
bool zt_gguf_decodes(const zt_gguf *gguf, const gguf_tensor *tensor)
{
    return tensor->type < N_FORMATS && formats[tensor->type].decode && !gguf->keeps_rows && !gguf->big_endian &&
           (gguf->over.read || !zt_source_streams(gguf->source));
}

void zt_gguf_keep_rows(zt_gguf *gguf)
{
    if (gguf) gguf->keeps_rows = true;
}

/* Where elements lie that are read together: from element `column` of a row on, in whole blocks. */
typedef struct row_piece {
    int64_t row, column, count;
    size_t skipped; /* bytes of f32 in front of those that are wanted */
} row_piece;

/* The piece that has byte `offset` of the f32 numbers, up to the end of the row at most. */
static row_piece find_piece(const gguf_type *type, int64_t columns, size_t offset)
{
    const int64_t element = (int64_t)(offset / sizeof(float));
    row_piece piece = {.row = element / columns};
    piece.column = element % columns / type->block * type->block;
    piece.count = columns - piece.column < PIECE ? columns - piece.column : PIECE;
    piece.skipped = offset - (size_t)(piece.row * columns + piece.column) * sizeof(float);
    return piece;
}

/* numbers: [PIECE]; blocks: [bytes of PIECE elements]. */
static zt_status read_piece(const zt_gguf *gguf, int64_t handle, int64_t columns, const row_piece *piece, float *numbers,
                            uint8_t *blocks)
{
    const uint32_t number = gguf->tensor[handle].type;
    const gguf_type *type = zt_gguf_type(number);
    const size_t scale_bytes = formats[number].scale, block_bytes = type->block_bytes;
    const size_t row = (size_t)piece->row * (scale_bytes + (size_t)(columns / type->block) * block_bytes);
    uint8_t scale[4] = {0};
    zt_status status = zt_gguf_read_stored(gguf, handle, row, scale, scale_bytes);
    if (!status)
        status = zt_gguf_read_stored(gguf, handle, row + scale_bytes + (size_t)(piece->column / type->block) * block_bytes,
                                     blocks, (size_t)(piece->count / type->block) * block_bytes);
    if (!status) formats[number].decode(scale, blocks, numbers, piece->count);
    return status;
}

zt_status zt_gguf_read_rows(const zt_gguf *gguf, int64_t handle, size_t offset, void *dst, size_t size)
{
    const gguf_tensor *tensor = &gguf->tensor[handle];
    const gguf_type *type = zt_gguf_type(tensor->type);
    const int64_t columns = (int64_t)zt_gguf_u64(gguf->head + tensor->dims); /* a multiple of the block, and rank is not 0 */
    char *out = dst;
    float *numbers = zt_alloc_array(gguf->ctx, PIECE, sizeof *numbers);
    uint8_t *blocks = zt_alloc_array(gguf->ctx, (size_t)(PIECE / type->block), type->block_bytes);
    zt_status status = numbers && blocks ? ZT_OK : ZT_ENOMEM;
    while (size && !status) {
        const row_piece piece = find_piece(type, columns, offset);
        const size_t there = (size_t)piece.count * sizeof(float) - piece.skipped, step = there < size ? there : size;
        status = read_piece(gguf, handle, columns, &piece, numbers, blocks);
        if (!status) memcpy(out, (const char *)numbers + piece.skipped, step);
        out += step;
        offset += step;
        size -= step;
    }
    zt_free(gguf->ctx, blocks);
    zt_free(gguf->ctx, numbers);
    return status;
}
