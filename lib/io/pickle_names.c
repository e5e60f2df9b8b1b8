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

#define FUNCTION(module, name, call)                                                               \
    {                                                                                              \
        module, name, call, NULL, PK_FUNCTION, NULL, NULL                                          \
    }
#define NAMED(module, name, what)                                                                  \
    {                                                                                              \
        module, name, NULL, NULL, what, NULL, NULL                                                 \
    }

static const pk_global known[] = {
    FUNCTION("torch._utils", "_rebuild_tensor_v2", zt_pk_call_tensor_v2),
    FUNCTION("torch._utils", "_rebuild_tensor_v3", zt_pk_call_tensor_v3),
    FUNCTION("torch._utils", "_rebuild_tensor", zt_pk_call_tensor),
    FUNCTION("torch._utils", "_rebuild_parameter", zt_pk_call_parameter),
    FUNCTION("torch._utils", "_rebuild_parameter_with_state", zt_pk_call_parameter),
    FUNCTION("torch._utils", "_rebuild_sparse_tensor", zt_pk_call_sparse),
    FUNCTION("torch._utils", "_rebuild_qtensor", zt_pk_call_quantized),
    FUNCTION("torch._utils", "_rebuild_nested_tensor", zt_pk_call_nested),
    FUNCTION("torch._utils", "_rebuild_meta_tensor_no_storage", zt_pk_call_meta),
    FUNCTION("torch._utils", "_rebuild_wrapper_subclass", zt_pk_call_wrapper),
    FUNCTION("torch._utils", "_rebuild_device_tensor_from_numpy", zt_pk_call_numpy),
    FUNCTION("torch._utils", "_rebuild_xla_tensor", zt_pk_call_numpy),
    FUNCTION("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", zt_pk_call_cpu_tensor),
    FUNCTION("torch._tensor", "_rebuild_from_type_v2", zt_pk_call_from_type),
    FUNCTION("torch._tensor", "_rebuild_from_type", zt_pk_call_from_type),
    FUNCTION("torch.tensor", "_rebuild_from_type", zt_pk_call_from_type),
    FUNCTION("torch.nn.parameter", "Parameter", zt_pk_call_parameter),
    FUNCTION("torch.serialization", "_get_layout", zt_pk_call_layout),
    FUNCTION("torch", "Size", zt_pk_call_size),
    FUNCTION("torch", "device", zt_pk_call_device),
    FUNCTION("collections", "OrderedDict", zt_pk_call_dict),
    FUNCTION("collections", "Counter", zt_pk_call_counter),
    FUNCTION("_codecs", "encode", zt_pk_call_encode),
    FUNCTION("builtins", "bytearray", zt_pk_call_bytearray),
    FUNCTION("builtins", "complex", zt_pk_call_complex),
    FUNCTION("builtins", "set", zt_pk_call_set),
    NAMED("torch.storage", "UntypedStorage", PK_STORAGE_CLASS),
    NAMED("torch.storage", "TypedStorage", PK_PLAIN), /* untyped, but its count is of elements */
    NAMED("torch", "Tensor", PK_TENSOR_CLASS),
    NAMED("torch", "per_tensor_affine", PK_PLAIN),
    NAMED("torch", "per_tensor_symmetric", PK_PLAIN),
    NAMED("torch", "per_channel_affine", PK_PLAIN),
    NAMED("torch", "per_channel_symmetric", PK_PLAIN),
    NAMED("torch", "per_channel_affine_float_qparams", PK_PLAIN),
};

bool zt_pk_is(const char *s, size_t n, const char *word)
{
    return word && strlen(word) == n && memcmp(s, word, n) == 0;
}

/* "FloatTensor" of a dtype whose storage class is "FloatStorage". */
static bool is_tensor_class(const char *name, size_t n, const pk_dtype *d)
{
    static const char tensor[] = "Tensor", storage[] = "Storage";
    size_t stem = d->storage ? strlen(d->storage) - (sizeof storage - 1) : 0;
    return d->storage && n == stem + sizeof tensor - 1 && memcmp(name, d->storage, stem) == 0 &&
           memcmp(name + stem, tensor, sizeof tensor - 1) == 0;
}

/* uint1 to uint7 and int1 to int7, dtypes that have a name and no storage. */
static bool is_narrow_int(const char *name, size_t n)
{
    bool u = n && *name == 'u';
    return n == 4u + u && memcmp(name + u, "int", 3) == 0 && name[n - 1] >= '1' &&
           name[n - 1] <= '7';
}

/* A storage class, a tensor class or a dtype of torch's. */
static zt_status torch_name(pickle *p, const char *name, size_t n, const pk_global **found)
{
    pk_global g = {.module = "torch", .what = PK_UNKNOWN};
    for (size_t i = 0; g.what == PK_UNKNOWN && i < zt_pk_n_dtypes; i++) {
        const pk_dtype *d = g.dtype = &zt_pk_dtypes[i];
        if (zt_pk_is(name, n, d->storage))
            g.what = PK_STORAGE_CLASS;
        else if (zt_pk_is(name, n, d->name))
            g.what = PK_DTYPE;
        else if (is_tensor_class(name, n, d))
            g.what = PK_TENSOR_CLASS;
    }
    if (g.what == PK_UNKNOWN && is_narrow_int(name, n)) {
        g.what = PK_DTYPE;
        g.dtype = NULL;
    }
    *found = NULL;
    if (g.what == PK_UNKNOWN)
        return ZT_OK;
    pk_global *made = zt_pk_alloc(p, 1, sizeof *made);
    if (!made)
        return zt_ctx_status(p->ctx);
    *made = g;
    *found = made;
    return ZT_OK;
}

/* Modules whose classes are those of torch, for another device or layout. */
static bool is_torch(const char *module, size_t m)
{
    static const char *const same[] = {"torch", "torch.cuda", "torch.sparse", "torch.cuda.sparse"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (zt_pk_is(module, m, same[i]))
            return true;
    return false;
}

static zt_status find_known(pickle *p, const char *module, size_t m, const char *name, size_t n,
                            const pk_global **found)
{
    if (zt_pk_is(module, m, "__builtin__")) { /* what Python 2 called it, and protocol 2 does */
        module = "builtins";
        m = strlen(module);
    }
    *found = NULL;
    for (size_t i = 0; !*found && i < sizeof known / sizeof *known; i++)
        if (zt_pk_is(module, m, known[i].module) && zt_pk_is(name, n, known[i].name))
            *found = &known[i];
    return !*found && is_torch(module, m) ? torch_name(p, name, n, found) : ZT_OK;
}

/* ---- unknown names --------------------------------------------------------------------------- */

enum { SHOWN = 160 }; /* bytes of a name in a message */

/* A copy of s in p's memory, escaped and cut to SHOWN bytes. */
static char *show(pickle *p, const char *s, size_t n)
{
    char text[SHOWN];
    zt_escape(text, sizeof text, s, n);
    char *kept = zt_pk_alloc(p, strlen(text) + 1, 1);
    return kept ? strcpy(kept, text) : NULL;
}

/* Each name is kept once. */
static zt_status find_unknown(pickle *p, const char *module, size_t m, const char *name, size_t n,
                              const pk_global **found)
{
    size_t all = m + 1 + n;
    int64_t address;
    char *key = zt_pk_alloc(p, all + 1, 1);
    if (!p->names)
        p->names = zt_map_new(p->ctx, 16);
    if (!key || !p->names)
        return zt_ctx_status(p->ctx);
    memcpy(key, module, m);
    key[m] = '.';
    memcpy(key + m + 1, name, n);
    key[all] = 0;
    if (zt_map_get(p->names, key, all, &address)) {
        *found = (const pk_global *)(intptr_t)address;
        return ZT_OK;
    }
    pk_global *g = zt_pk_alloc(p, 1, sizeof *g + 64); /* 64: its place in the map */
    char *shown = g ? show(p, key, all) : NULL;
    if (!shown)
        return zt_ctx_status(p->ctx);
    *g = (pk_global){.what = PK_UNKNOWN, .shown = shown, .before = p->unknown};
    p->unknown = g;
    *found = g;
    p->n_unknown++;
    return zt_map_put(p->names, key, all, (int64_t)(intptr_t)g);
}

zt_status zt_pk_global(pickle *p, const char *module, size_t m, const char *name, size_t n,
                       pk_value *out)
{
    const pk_global *found = NULL;
    zt_status st = p->plain ? zt_pk_fail(p, "a name, where only plain values may be")
                            : find_known(p, module, m, name, n, &found);
    if (st == ZT_OK && !found)
        st = find_unknown(p, module, m, name, n, &found);
    *out = (pk_value){.kind = PK_GLOBAL, .global = found};
    return st;
}
