/* pickle_names.c - owns the names that a pickle may use: those that PyTorch's safe reader accepts,
 * and the record of all others.
 *
 * A list of what is known, never one of what is bad. torch/_weights_only_unpickler.py and
 * torch/storage.py of PyTorch 2, as facts. */
#include "lib/io/pickle.h"

#include <string.h>

const pk_dtype zt_pk_dtypes[] = {
    {"float64", "DoubleStorage", 8, 8, ZT_F64, false},
    {"float32", "FloatStorage", 4, 4, ZT_F32, false},
    {"float16", "HalfStorage", 2, 2, ZT_F16, false},
    {"bfloat16", "BFloat16Storage", 2, 2, ZT_BF16, false},
    {"int64", "LongStorage", 8, 8, ZT_I64, false},
    {"int32", "IntStorage", 4, 4, ZT_I32, false},
    {"int16", "ShortStorage", 2, 2, ZT_I16, false},
    {"int8", "CharStorage", 1, 1, ZT_I8, false},
    {"uint8", "ByteStorage", 1, 1, ZT_U8, false},
    {"bool", "BoolStorage", 1, 1, ZT_BOOL, false},
    {"uint64", NULL, 8, 8, ZT_U64, false},
    {"uint32", NULL, 4, 4, ZT_U32, false},
    {"uint16", NULL, 2, 2, ZT_U16, false},
    {"float8_e4m3fn", NULL, 1, 1, ZT_F8_E4M3, false},
    {"float8_e5m2", NULL, 1, 1, ZT_F8_E5M2, false},
    {"float8_e4m3fnuz", NULL, 1, 1, ZT_F8_E4M3FNUZ, false},
    {"float8_e5m2fnuz", NULL, 1, 1, ZT_F8_E5M2FNUZ, false},
    {"float8_e8m0fnu", NULL, 1, 1, ZT_F8_E8M0, false},
    {"float4_e2m1fn_x2", NULL, 1, 1, ZT_DTYPE_COUNT, false}, /* two values an element */
    {"complex32", NULL, 4, 2, ZT_DTYPE_COUNT, false},
    {"complex64", "ComplexFloatStorage", 8, 4, ZT_DTYPE_COUNT, false},
    {"complex128", "ComplexDoubleStorage", 16, 8, ZT_DTYPE_COUNT, false},
    {"qint8", "QInt8Storage", 1, 1, ZT_DTYPE_COUNT, true},
    {"quint8", "QUInt8Storage", 1, 1, ZT_DTYPE_COUNT, true},
    {"qint32", "QInt32Storage", 4, 4, ZT_DTYPE_COUNT, true},
    {"quint4x2", "QUInt4x2Storage", 1, 1, ZT_DTYPE_COUNT, true},
    {"quint2x4", "QUInt2x4Storage", 1, 1, ZT_DTYPE_COUNT, true},
};
const size_t zt_pk_n_dtypes = sizeof zt_pk_dtypes / sizeof *zt_pk_dtypes;

/* ---- known names ----------------------------------------------------------------------------- */

#define NAMED(module_, name_, what_)                                                                                             \
    {                                                                                                                            \
        .module = module_, .name = name_, .what = what_                                                                          \
    }

static const pk_global constants[] = {
    NAMED("torch.storage", "UntypedStorage", PK_STORAGE_CLASS),
    NAMED("torch.storage", "TypedStorage", PK_PLAIN), /* untyped, but its count is of elements */
    NAMED("torch", "Tensor", PK_TENSOR_CLASS),
    NAMED("torch", "per_tensor_affine", PK_PLAIN),
    NAMED("torch", "per_tensor_symmetric", PK_PLAIN),
    NAMED("torch", "per_channel_affine", PK_PLAIN),
    NAMED("torch", "per_channel_symmetric", PK_PLAIN),
    NAMED("torch", "per_channel_affine_float_qparams", PK_PLAIN),
};

bool zt_pk_is(const char *text, size_t length, const char *word)
{
    return word && strlen(word) == length && memcmp(text, word, length) == 0;
}

/* "FloatTensor" of a dtype whose storage class is "FloatStorage". */
static bool is_tensor_class(const char *name, size_t length, const pk_dtype *dtype)
{
    static const char tensor[] = "Tensor", storage[] = "Storage";
    size_t stem = dtype->storage ? strlen(dtype->storage) - (sizeof storage - 1) : 0;
    return dtype->storage && length == stem + sizeof tensor - 1 && memcmp(name, dtype->storage, stem) == 0 &&
           memcmp(name + stem, tensor, sizeof tensor - 1) == 0;
}

/* uint1 to uint7 and int1 to int7, dtypes that have a name and no storage. */
static bool is_narrow_int(const char *name, size_t length)
{
    bool is_unsigned = length && *name == 'u';
    return length == 4u + is_unsigned && memcmp(name + is_unsigned, "int", 3) == 0 && name[length - 1] >= '1' &&
           name[length - 1] <= '7';
}

/* A storage class, a tensor class or a dtype of torch's. */
static zt_status find_torch_name(pickle_reader *pickle, const char *name, size_t length, const pk_global **found)
{
    pk_global global = {.module = "torch", .what = PK_UNKNOWN};
    for (size_t i = 0; global.what == PK_UNKNOWN && i < zt_pk_n_dtypes; i++) {
        const pk_dtype *dtype = global.dtype = &zt_pk_dtypes[i];
        if (zt_pk_is(name, length, dtype->storage))
            global.what = PK_STORAGE_CLASS;
        else if (zt_pk_is(name, length, dtype->name))
            global.what = PK_DTYPE;
        else if (is_tensor_class(name, length, dtype))
            global.what = PK_TENSOR_CLASS;
    }
    if (global.what == PK_UNKNOWN && is_narrow_int(name, length)) {
        global.what = PK_DTYPE;
        global.dtype = NULL;
    }
    *found = NULL;
    if (global.what == PK_UNKNOWN) return ZT_OK;
    pk_global *made = zt_pk_alloc(pickle, 1, sizeof *made);
    if (!made) return zt_ctx_status(pickle->ctx);
    *made = global;
    *found = made;
    return ZT_OK;
}

/* Modules whose classes are those of torch, for another device or layout. */
static bool is_torch(const char *module, size_t module_length)
{
    static const char *const same[] = {"torch", "torch.cuda", "torch.sparse", "torch.cuda.sparse"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (zt_pk_is(module, module_length, same[i])) return true;
    return false;
}

static const pk_global *find_row(const pk_global *rows, size_t count, const char *module, size_t module_length, const char *name,
                                 size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (zt_pk_is(module, module_length, rows[i].module) && zt_pk_is(name, length, rows[i].name)) return &rows[i];
    return NULL;
}

static zt_status find_known(pickle_reader *pickle, const char *module, size_t module_length, const char *name, size_t length,
                            const pk_global **found)
{
    if (zt_pk_is(module, module_length, "__builtin__")) { /* what Python 2 called it, and protocol 2 does */
        module = "builtins";
        module_length = strlen(module);
    }
    *found = find_row(zt_pk_functions, zt_pk_function_count, module, module_length, name, length);
    if (!*found) *found = find_row(constants, sizeof constants / sizeof *constants, module, module_length, name, length);
    return !*found && is_torch(module, module_length) ? find_torch_name(pickle, name, length, found) : ZT_OK;
}

/* ---- unknown names --------------------------------------------------------------------------- */

enum { SHOWN = 160 }; /* bytes of a name in a message */

/* A copy of `source` in the reader's memory, escaped and cut to SHOWN bytes. */
static char *copy_escaped(pickle_reader *pickle, const char *source, size_t length)
{
    char text[SHOWN];
    zt_escape(text, sizeof text, source, length);
    char *kept = zt_pk_alloc(pickle, strlen(text) + 1, 1);
    return kept ? strcpy(kept, text) : NULL;
}

/* Each name is kept once. */
static zt_status find_unknown(pickle_reader *pickle, const char *module, size_t module_length, const char *name, size_t length,
                              const pk_global **found)
{
    size_t total = module_length + 1 + length;
    int64_t address;
    char *key = zt_pk_alloc(pickle, total + 1, 1);
    if (!pickle->names) pickle->names = zt_map_new(pickle->ctx, 16);
    if (!key || !pickle->names) return zt_ctx_status(pickle->ctx);
    memcpy(key, module, module_length);
    key[module_length] = '.';
    memcpy(key + module_length + 1, name, length);
    key[total] = 0;
    if (zt_map_get(pickle->names, key, total, &address)) {
        *found = (const pk_global *)(intptr_t)address;
        return ZT_OK;
    }
    pk_global *global = zt_pk_alloc(pickle, 1, sizeof *global + 64); /* 64: its place in the map */
    char *shown = global ? copy_escaped(pickle, key, total) : NULL;
    if (!shown) return zt_ctx_status(pickle->ctx);
    *global = (pk_global){.what = PK_UNKNOWN, .shown = shown, .previous = pickle->unknown};
    pickle->unknown = global;
    *found = global;
    pickle->unknown_count++;
    return zt_map_put(pickle->names, key, total, (int64_t)(intptr_t)global);
}

zt_status zt_pk_global(pickle_reader *pickle, const char *module, size_t module_length, const char *name, size_t length,
                       pk_value *out)
{
    const pk_global *found = NULL;
    zt_status status = pickle->plain ? zt_pk_fail(pickle, "unexpected global: only plain values are allowed here")
                                     : find_known(pickle, module, module_length, name, length, &found);
    if (status == ZT_OK && !found) status = find_unknown(pickle, module, module_length, name, length, &found);
    *out = (pk_value){.kind = PK_GLOBAL, .global = found};
    return status;
}
