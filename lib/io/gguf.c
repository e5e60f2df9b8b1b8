/* gguf.c - owns open GGUF files: opening and closing, identity, the tensor list, the store; the tables of tensor
 * types and value kinds. */
#include "lib/base/require.h"
#include "lib/io/fault.h"
#include "lib/io/gguf_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ---- open and close ------------------------------------------------------------------------ */

/* Cuts head to what is before the data. Of a stream, what was read too far comes again. */
static bool trim_head(zt_gguf *gguf)
{
    size_t kept = gguf->head_size < gguf->data_start ? gguf->head_size : (size_t)gguf->data_start;
    if (gguf->head_size > kept && zt_source_unread(gguf->source, gguf->head + kept, gguf->head_size - kept) != ZT_OK)
        return false;
    gguf->head_size = kept;
    char *head = zt_realloc(gguf->ctx, gguf->head, kept);
    gguf->head = head ? head : gguf->head;
    return head != NULL;
}

/* What of the padding before the data is not in head, as far as the file has it. It may be 2 GiB. */
static bool hash_padding(zt_gguf *gguf, XXH3_state_t *hash)
{
    enum { STEP = 1 << 16 };
    uint64_t end = gguf->data_start < gguf->file_size ? gguf->data_start : gguf->file_size;
    char *buffer = gguf->head_size < end ? zt_alloc(gguf->ctx, STEP) : NULL;
    bool good = gguf->head_size >= end || buffer;
    size_t got = 1;
    for (uint64_t position = gguf->head_size; good && got && position < end; position += got) {
        size_t size = end - position < STEP ? (size_t)(end - position) : STEP;
        good = zt_source_read_some(gguf->source, position, buffer, size, size, &got) == ZT_OK;
        if (good) XXH3_128bits_update(hash, buffer, got);
    }
    zt_free(gguf->ctx, buffer);
    return good;
}

/* XXH3-128 of the bytes before the data, followed by the file's size as a little-endian u64. */
static bool compute_id(zt_gguf *gguf)
{
    XXH3_state_t *hash = XXH3_createState();
    if (!hash) {
        zt_fail(gguf->ctx, ZT_ENOMEM, "%s: out of memory", zt_gguf_name(gguf));
        return false;
    }
    XXH3_128bits_reset(hash);
    XXH3_128bits_update(hash, gguf->head, gguf->head_size);
    bool good = hash_padding(gguf, hash);
    XXH3_128bits_update(hash, &gguf->file_size, 8);
    XXH128_hash_t id = XXH3_128bits_digest(hash);
    XXH3_freeState(hash);
    snprintf(gguf->id, sizeof gguf->id, "%016" PRIx64 "%016" PRIx64, (uint64_t)id.high64, (uint64_t)id.low64);
    return good;
}

static bool add_name(zt_gguf *gguf, zt_map *map, const char *noun, const char *name, size_t length, int64_t i)
{
    char text[160];
    int64_t other;
    if (!zt_map_get(map, name, length, &other)) return zt_map_put(map, name, length, i) == ZT_OK;
    return zt_faults_tell(gguf->ctx, "%s: duplicate %s '%s'", zt_gguf_name(gguf), noun,
                          zt_escape(text, sizeof text, name, length)) == ZT_OK;
}

static bool map_keys(zt_gguf *gguf)
{
    gguf->keys = zt_map_new(gguf->ctx, (size_t)gguf->n_keys);
    if (!gguf->keys) return false;
    for (int64_t i = 0; i < gguf->n_keys; i++) {
        zt_bytes key = zt_gguf_key(gguf, i, NULL);
        if (!add_name(gguf, gguf->keys, "key", key.data, key.n, i)) return false;
    }
    return true;
}

/* Also closes every name by a zero byte, over the first byte of its rank, which is kept apart. */
static bool map_tensors(zt_gguf *gguf)
{
    gguf->tensors = zt_map_new(gguf->ctx, (size_t)gguf->n_tensors);
    if (!gguf->tensors) return false;
    for (int64_t i = 0; i < gguf->n_tensors; i++) {
        const gguf_tensor *tensor = &gguf->tensor[i];
        char *name = gguf->head + tensor->name;
        if (!add_name(gguf, gguf->tensors, "tensor", name, tensor->name_length, i)) return false;
        name[tensor->name_length] = 0;
    }
    return true;
}

static bool read_header(zt_gguf *gguf)
{
    return zt_gguf_parse(gguf) && trim_head(gguf) && compute_id(gguf) && map_keys(gguf) && map_tensors(gguf);
}

/* Takes over the source, also when it fails, if `owns`. */
static zt_gguf *open_source(zt_ctx *ctx, zt_source *source, bool owns)
{
    zt_gguf *gguf = zt_calloc(ctx, 1, sizeof *gguf);
    if (!gguf) {
        if (owns) zt_source_close(source);
        return NULL;
    }
    gguf->ctx = ctx;
    gguf->source = source;
    gguf->owns_source = owns;
    gguf->file_size = zt_source_size(source);
    if (!read_header(gguf)) {
        zt_gguf_close(gguf);
        return NULL;
    }
    return gguf;
}

zt_gguf *zt_gguf_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_source *source = zt_source_open(ctx, path);
    return source ? open_source(ctx, source, true) : NULL;
}

zt_gguf *zt_gguf_from(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, false);
}

zt_gguf *zt_gguf_take(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, true);
}

zt_gguf *zt_gguf_over(zt_ctx *ctx, const char *name, char *header, size_t size, uint64_t data_bytes, const zt_store *data,
                      void (*release)(void *user))
{
    bool fits = ctx && name && header && data;
    if (!fits) zt_fail(ctx, ZT_EUSAGE, "%s: invalid argument (required: name && header && data)", __func__);
    zt_gguf *gguf = fits ? zt_calloc(ctx, 1, sizeof *gguf) : NULL;
    if (!gguf) {
        if (ctx) zt_free(ctx, header);
        if (release && data) release(data->user);
        return NULL;
    }
    *gguf = (zt_gguf){.ctx = ctx, .owns_source = true, .over = *data, .release = release};
    gguf->head = header;
    gguf->head_size = size;
    gguf->file_size = size + data_bytes;
    gguf->source = zt_source_memory(ctx, name, NULL, 0); /* for its name */
    if (gguf->source && read_header(gguf)) return gguf;
    zt_gguf_close(gguf);
    return NULL;
}

void zt_gguf_close(zt_gguf *gguf)
{
    if (!gguf) return;
    zt_map_free(gguf->tensors);
    zt_map_free(gguf->keys);
    zt_free(gguf->ctx, gguf->tensor);
    zt_free(gguf->ctx, gguf->key);
    zt_free(gguf->ctx, gguf->head);
    if (gguf->owns_source) zt_source_close(gguf->source);
    if (gguf->release) gguf->release(gguf->over.user);
    zt_free(gguf->ctx, gguf);
}

zt_ctx *zt_gguf_ctx(const zt_gguf *gguf) { return gguf ? gguf->ctx : NULL; }

const char *zt_gguf_name(const zt_gguf *gguf) { return gguf ? zt_source_name(gguf->source) : NULL; }

const char *zt_gguf_id(const zt_gguf *gguf) { return gguf->id; }

uint64_t zt_gguf_file_size(const zt_gguf *gguf) { return gguf ? gguf->file_size : 0; }

/* ---- tensors ------------------------------------------------------------------------------- */

int64_t zt_gguf_n_tensors(const zt_gguf *gguf) { return gguf ? gguf->n_tensors : 0; }

/* ZT_DTYPE_COUNT: there is none. */
static zt_dtype type_of(const zt_gguf *gguf, const gguf_tensor *tensor)
{
    return zt_gguf_decodes(gguf, tensor) ? ZT_F32 : zt_gguf_type(tensor->type)->dtype;
}

/* Bytes of a tensor as it is read. */
static size_t bytes_of(const zt_gguf *gguf, const gguf_tensor *tensor)
{
    if (!zt_gguf_decodes(gguf, tensor)) return (size_t)tensor->bytes;
    size_t count = tensor->bytes > 0; /* the product fits where there are bytes */
    for (int d = 0; d < tensor->rank; d++) count *= (size_t)zt_gguf_u64(gguf->head + tensor->dims + 8 * (size_t)d);
    return count * sizeof(float);
}

const char *zt_gguf_tensor(const zt_gguf *gguf, int64_t i, zt_type *type, uint64_t *offset, size_t *bytes)
{
    if (!gguf) return NULL;
    const gguf_tensor *tensor = &gguf->tensor[i];
    if (type) {
        *type = (zt_type){.dtype = type_of(gguf, tensor), .rank = tensor->rank};
        for (int d = 0; d < tensor->rank; d++)
            type->dim[d] = (int64_t)zt_gguf_u64(gguf->head + tensor->dims + 8 * (size_t)(tensor->rank - 1 - d));
        if (type->dtype == ZT_DTYPE_COUNT) type->rank = -1;
    }
    if (offset) *offset = gguf->data_start + tensor->offset;
    if (bytes) *bytes = bytes_of(gguf, tensor);
    return gguf->head + tensor->name;
}

const char *zt_gguf_tensor_word(const zt_gguf *gguf, int64_t i, int *rank)
{
    if (!gguf) return NULL;
    if (rank) *rank = gguf->tensor[i].rank;
    return zt_gguf_type(gguf->tensor[i].type)->name;
}

/* Bytes of a number that must be turned around when it is read; 1: nothing is. */
static size_t swap_width(const zt_gguf *gguf, const gguf_tensor *tensor)
{
    const gguf_type *type = zt_gguf_type(tensor->type);
    return gguf->big_endian && type->block == 1 ? type->block_bytes : 1;
}

bool zt_gguf_place(const zt_gguf *gguf, int64_t i, const zt_source **source, uint64_t *offset)
{
    if (!gguf || !source || !offset || i < 0 || i >= gguf->n_tensors) return false;
    const gguf_tensor *tensor = &gguf->tensor[i];
    if (gguf->over.read || swap_width(gguf, tensor) != 1 || zt_gguf_decodes(gguf, tensor)) return false;
    *source = gguf->source;
    *offset = gguf->data_start + tensor->offset;
    return true;
}

int64_t zt_gguf_find(const zt_gguf *gguf, const char *name)
{
    if (!gguf) return -1;
    ZT_REQUIRE(gguf->ctx, name, -1);
    return zt_map_find(gguf->tensors, name);
}

zt_status zt_gguf_end(zt_gguf *gguf)
{
    if (!gguf) return ZT_EUSAGE;
    enum { MOST = 1 << 20 }; /* a stream without end is no trap */
    char waste[4096];
    const gguf_tensor *last = gguf->n_tensors ? &gguf->tensor[gguf->n_tensors - 1] : NULL;
    uint64_t position = last ? gguf->data_start + last->offset + last->bytes : gguf->data_start;
    zt_status status = ZT_OK;
    for (size_t received = 1, total = 0; zt_source_streams(gguf->source) && status == ZT_OK && received && total < MOST;
         total += received, position += received)
        status = zt_source_read_some(gguf->source, position, waste, sizeof waste, 1, &received);
    return status;
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const zt_gguf *gguf = user;
    int64_t i = zt_gguf_find(gguf, name);
    char text[160];
    if (i < 0) return ZT_ENOENT;
    const gguf_type *number = zt_gguf_type(gguf->tensor[i].type);
    if (type_of(gguf, &gguf->tensor[i]) == ZT_DTYPE_COUNT)
        return zt_fail(gguf->ctx, ZT_ENOTSUP, "%s: tensor '%s': unsupported type %s", zt_gguf_name(gguf),
                       zt_escape(text, sizeof text, name, strlen(name)), number->name);
    zt_gguf_tensor(gguf, i, type, NULL, NULL);
    *handle = i;
    return ZT_OK;
}

/* `byte_count` bytes at `position` of a file whose numbers have `size` bytes the other way around; where a piece
 * begins or ends inside of a number, that one is read whole. */
static zt_status read_swapped(const zt_gguf *gguf, uint64_t data, size_t position, char *dst, size_t byte_count, size_t size)
{
    char number[8];
    zt_status status = ZT_OK;
    while (byte_count && status == ZT_OK) {
        size_t within = position % size, step = byte_count - byte_count % size;
        if (within == 0 && step) {
            status = zt_source_read(gguf->source, data + position, dst, step);
            zt_swap_bytes(dst, step / size, (int)size);
        } else {
            step = size - within < byte_count ? size - within : byte_count;
            status = zt_source_read(gguf->source, data + position - within, number, size);
            zt_swap_bytes(number, 1, (int)size);
            memcpy(dst, number + within, step);
        }
        position += step;
        dst += step;
        byte_count -= step;
    }
    return status;
}

zt_status zt_gguf_read_stored(const zt_gguf *gguf, int64_t handle, size_t offset, void *dst, size_t size)
{
    const gguf_tensor *tensor = &gguf->tensor[handle];
    if (gguf->over.read) return gguf->over.read(gguf->over.user, handle, offset, dst, size);
    if (swap_width(gguf, tensor) != 1)
        return read_swapped(gguf, gguf->data_start + tensor->offset, offset, dst, size, swap_width(gguf, tensor));
    return zt_source_read(gguf->source, gguf->data_start + tensor->offset + offset, dst, size);
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    const zt_gguf *gguf = user;
    size_t end;
    if (handle < 0 || handle >= gguf->n_tensors)
        return zt_fail(gguf->ctx, ZT_EUSAGE, "%s: tensor index %lld is out of range", zt_gguf_name(gguf), (long long)handle);
    const gguf_tensor *tensor = &gguf->tensor[handle];
    if (!zt_add_size(offset, size, &end) || end > bytes_of(gguf, tensor))
        return zt_fail(gguf->ctx, ZT_EUSAGE,
                       "%s: tensor '%s': read of %zu bytes at offset %zu is out of range: the tensor has "
                       "%zu bytes",
                       zt_gguf_name(gguf), gguf->head + tensor->name, size, offset, bytes_of(gguf, tensor));
    return zt_gguf_decodes(gguf, tensor) ? zt_gguf_read_rows(gguf, handle, offset, dst, size)
                                         : zt_gguf_read_stored(gguf, handle, offset, dst, size);
}

zt_store zt_gguf_store(zt_gguf *gguf) { return (zt_store){.user = gguf, .find = store_find, .read = store_read}; }

/* ---- the format's numbers -------------------------------------------------------------------- */

// clang-format off
#define NONE ZT_DTYPE_COUNT

/* enum ggml_type and the type traits of ggml 0.25 (ggml.h, ggml.c), as facts. */
static const gguf_type types[] = {
    [0] = {"f32", 1, 4, ZT_F32},              [1] = {"f16", 1, 2, ZT_F16},
    [2] = {"q4_0", 32, 18, ZT_Q4_0},          [3] = {"q4_1", 32, 20, ZT_Q4_1},
    [6] = {"q5_0", 32, 22, ZT_Q5_0},          [7] = {"q5_1", 32, 24, ZT_Q5_1},
    [8] = {"q8_0", 32, 34, ZT_Q8_0},          [9] = {"q8_1", 32, 36, NONE},
    [10] = {"q2_k", 256, 84, ZT_Q2_K},        [11] = {"q3_k", 256, 110, ZT_Q3_K},
    [12] = {"q4_k", 256, 144, ZT_Q4_K},       [13] = {"q5_k", 256, 176, ZT_Q5_K},
    [14] = {"q6_k", 256, 210, ZT_Q6_K},       [15] = {"q8_k", 256, 292, NONE},
    [16] = {"iq2_xxs", 256, 66, ZT_IQ2_XXS},  [17] = {"iq2_xs", 256, 74, ZT_IQ2_XS},
    [18] = {"iq3_xxs", 256, 98, ZT_IQ3_XXS},  [19] = {"iq1_s", 256, 50, ZT_IQ1_S},
    [20] = {"iq4_nl", 32, 18, ZT_IQ4_NL},     [21] = {"iq3_s", 256, 110, ZT_IQ3_S},
    [22] = {"iq2_s", 256, 82, ZT_IQ2_S},      [23] = {"iq4_xs", 256, 136, ZT_IQ4_XS},
    [24] = {"i8", 1, 1, ZT_I8},               [25] = {"i16", 1, 2, ZT_I16},
    [26] = {"i32", 1, 4, ZT_I32},             [27] = {"i64", 1, 8, ZT_I64},
    [28] = {"f64", 1, 8, ZT_F64},             [29] = {"iq1_m", 256, 56, ZT_IQ1_M},
    [30] = {"bf16", 1, 2, ZT_BF16},           [34] = {"tq1_0", 256, 54, ZT_TQ1_0},
    [35] = {"tq2_0", 256, 66, ZT_TQ2_0},      [39] = {"mxfp4", 32, 17, ZT_MXFP4},
    [40] = {"nvfp4", 64, 36, ZT_NVFP4},       [41] = {"q1_0", 128, 18, ZT_Q1_0},
    [42] = {"q2_0", 64, 18, ZT_Q2_0},
    /* of ik_llama.cpp (ggml.h, ggml.c), which numbers its own types from 133; of those with a scale for each row see gguf_rows.c */
    [134] = {"iq1_bn", 64, 13, NONE},         [135] = {"iq2_bn", 64, 16, NONE},
    [137] = {"iq2_k", 256, 76, ZT_IQ2_K},     [138] = {"iq3_k", 256, 110, ZT_IQ3_K},
    [139] = {"iq4_k", 256, 144, ZT_IQ4_K},    [140] = {"iq5_k", 256, 176, ZT_IQ5_K},
    [141] = {"iq6_k", 256, 212, ZT_IQ6_K},    [144] = {"iq4_ks", 256, 136, NONE},
    [145] = {"iq2_ks", 256, 70, NONE},       [146] = {"iq4_kss", 256, 128, NONE},
    [152] = {"iq5_ks", 256, 168, NONE},      [153] = {"iq2_kt", 256, 68, NONE},
    [154] = {"iq3_kt", 256, 100, NONE},      [155] = {"iq4_kt", 256, 128, NONE},
    [156] = {"iq3_ks", 256, 102, NONE},      [157] = {"iq2_kl", 256, 86, NONE},
    [158] = {"iq1_kt", 256, 56, NONE},
};
// clang-format on

static const gguf_kind kinds[] = {
    [ZT_GGUF_U8] = {"u8", 1, 'u'},       [ZT_GGUF_I8] = {"i8", 1, 'i'},     [ZT_GGUF_U16] = {"u16", 2, 'u'},
    [ZT_GGUF_I16] = {"i16", 2, 'i'},     [ZT_GGUF_U32] = {"u32", 4, 'u'},   [ZT_GGUF_I32] = {"i32", 4, 'i'},
    [ZT_GGUF_F32] = {"f32", 4, 'f'},     [ZT_GGUF_BOOL] = {"bool", 1, 'b'}, [ZT_GGUF_STR] = {"str", 0, 's'},
    [ZT_GGUF_ARRAY] = {"array", 0, 'a'}, [ZT_GGUF_U64] = {"u64", 8, 'u'},   [ZT_GGUF_I64] = {"i64", 8, 'i'},
    [ZT_GGUF_F64] = {"f64", 8, 'f'},
};

bool zt_gguf_type_bytes(const gguf_type *type, int64_t count, int64_t columns, int64_t *bytes)
{
    const int64_t scale = (int64_t)zt_gguf_row_scale((uint32_t)(type - types));
    int64_t scales = 0;
    if (!zt_mul_i64(count / type->block, type->block_bytes, bytes)) return false;
    if (columns > 0 && !zt_mul_i64(count / columns, scale, &scales)) return false;
    return !__builtin_add_overflow(*bytes, scales, bytes);
}

const gguf_type *zt_gguf_type(uint32_t number)
{
    return number < sizeof types / sizeof *types && types[number].name ? &types[number] : NULL;
}

const gguf_kind *zt_gguf_kind_get(uint32_t kind) { return kind < sizeof kinds / sizeof *kinds ? &kinds[kind] : NULL; }

void zt_swap_bytes(char *number, size_t count, int bytes)
{
    for (size_t i = 0; bytes > 1 && i < count; i++, number += bytes) {
        for (int low = 0, high = bytes - 1; low < high; low++, high--) {
            char byte = number[low];
            number[low] = number[high];
            number[high] = byte;
        }
    }
}
