/* pickle_torch.c - owns what pickles of PyTorch's may name, and what that stands for.
 *
 * A list of what is allowed, never one of what is not. Names and arguments: torch/_utils.py and
 * torch/serialization.py of PyTorch 2, as facts. */
#include "lib/io/pickle.h"

#include <string.h>

enum { MAX_DIMS = 64 };

const pk_dtype zt_pk_dtypes[] = {
    {"float64", "DoubleStorage", 8, 8, ZT_F64},
    {"float32", "FloatStorage", 4, 4, ZT_F32},
    {"float16", "HalfStorage", 2, 2, ZT_F16},
    {"bfloat16", "BFloat16Storage", 2, 2, ZT_BF16},
    {"int64", "LongStorage", 8, 8, ZT_I64},
    {"int32", "IntStorage", 4, 4, ZT_I32},
    {"int16", "ShortStorage", 2, 2, ZT_I16},
    {"int8", "CharStorage", 1, 1, ZT_I8},
    {"uint8", "ByteStorage", 1, 1, ZT_U8},
    {"bool", "BoolStorage", 1, 1, ZT_BOOL},
    {"uint64", NULL, 8, 8, ZT_U64},
    {"uint32", NULL, 4, 4, ZT_U32},
    {"uint16", NULL, 2, 2, ZT_U16},
    {"float8_e4m3fn", NULL, 1, 1, ZT_F8_E4M3},
    {"float8_e5m2", NULL, 1, 1, ZT_F8_E5M2},
    {"float8_e4m3fnuz", NULL, 1, 1, ZT_F8_E4M3FNUZ},
    {"float8_e5m2fnuz", NULL, 1, 1, ZT_F8_E5M2FNUZ},
    {"float8_e8m0fnu", NULL, 1, 1, ZT_F8_E8M0},
    {"float4_e2m1fn_x2", NULL, 1, 1, ZT_DTYPE_COUNT}, /* two values an element */
    {"complex32", NULL, 4, 2, ZT_DTYPE_COUNT},
    {"complex64", "ComplexFloatStorage", 8, 4, ZT_DTYPE_COUNT},
    {"complex128", "ComplexDoubleStorage", 16, 8, ZT_DTYPE_COUNT},
};
const size_t zt_pk_n_dtypes = sizeof zt_pk_dtypes / sizeof *zt_pk_dtypes;

typedef zt_status pk_call(pickle *p, const pk_value *arg, size_t n, pk_value *out);

/* A name that is allowed. */
typedef struct pk_global {
    const char *module, *name;
    pk_call *call;         /* NULL: it is only named */
    const pk_dtype *dtype; /* of a storage class or a dtype; NULL: untyped, or neither */
    bool storage, is_dtype;
} pk_global;

/* ---- what calls stand for -------------------------------------------------------------------- */

/* A tuple of counts, kept. */
static zt_status read_counts(pickle *p, pk_value v, const int64_t **out)
{
    if (v.kind != PK_TUPLE || v.n > MAX_DIMS)
        return zt_pk_fail(p, "a tensor whose size or stride is no tuple of at most 64 numbers");
    int64_t *dim = zt_pk_alloc(p, v.n, sizeof *dim);
    if (!dim)
        return zt_ctx_status(p->ctx);
    for (uint32_t i = 0; i < v.n; i++) {
        if (v.item[i].kind != PK_INT || v.item[i].i < 0)
            return zt_pk_fail(p, "a tensor whose size or stride is no count");
        dim[i] = v.item[i].i;
    }
    *out = dim;
    return ZT_OK;
}

/* The tensor lies in its storage. */
static zt_status check_bounds(pickle *p, const pk_tensor *t)
{
    int64_t count;
    uint64_t span, begin;
    const zt_layout l = {
        .rank = t->rank, .dim = t->dim, .stride = t->stride, .item = t->dtype->item};
    if (!zt_layout_check(&l, &count, &span) ||
        __builtin_mul_overflow((uint64_t)t->offset, t->dtype->item, &begin))
        return zt_pk_fail(p, "a tensor with too many elements");
    if (count && (begin > t->storage->some || t->storage->some - begin < span))
        return zt_pk_fail(p, "a tensor that reaches past its storage");
    return ZT_OK;
}

/* storage, offset, size, stride: a view of a storage. */
static zt_status make_tensor(pickle *p, const pk_value *arg, const pk_dtype *dtype, pk_value *out)
{
    if (arg[0].kind != PK_STORAGE || arg[1].kind != PK_INT || arg[1].i < 0)
        return zt_pk_fail(p, "a tensor without a storage and an offset");
    pk_tensor *t = zt_pk_alloc(p, 1, sizeof *t);
    if (!t)
        return zt_ctx_status(p->ctx);
    *t = (pk_tensor){.storage = arg[0].storage,
                     .dtype = dtype ? dtype : arg[0].storage->dtype,
                     .rank = (int)arg[2].n,
                     .offset = arg[1].i};
    if (!t->dtype)
        return zt_pk_fail(p, "a tensor without a dtype");
    zt_status st = read_counts(p, arg[2], &t->dim);
    if (st == ZT_OK)
        st = read_counts(p, arg[3], &t->stride);
    if (st == ZT_OK && arg[2].n != arg[3].n)
        st = zt_pk_fail(p, "a tensor with more sizes than strides, or less");
    if (st == ZT_OK)
        st = check_bounds(p, t);
    *out = (pk_value){.kind = PK_TENSOR, .tensor = t};
    return st;
}

/* requires_grad, backward_hooks: a truth value, and a dictionary without items or None. */
static zt_status check_hooks(pickle *p, const pk_value *arg)
{
    bool none = arg[1].kind == PK_NONE || (arg[1].kind == PK_DICT && arg[1].list->n == 0);
    return arg[0].kind == PK_BOOL && none ? ZT_OK : zt_pk_fail(p, "a tensor with hooks");
}

static zt_status call_tensor(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    return n == 4 ? make_tensor(p, arg, NULL, out)
                  : zt_pk_fail(p, "_rebuild_tensor takes 4 arguments");
}

static zt_status call_tensor_v2(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n != 6 && n != 7)
        return zt_pk_fail(p, "_rebuild_tensor_v2 takes 6 or 7 arguments");
    zt_status st = check_hooks(p, arg + 4);
    return st == ZT_OK ? make_tensor(p, arg, NULL, out) : st;
}

static zt_status call_tensor_v3(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if ((n != 7 && n != 8) || arg[6].kind != PK_GLOBAL || !arg[6].global->is_dtype)
        return zt_pk_fail(p, "_rebuild_tensor_v3 takes 7 or 8 arguments, one a dtype");
    zt_status st = check_hooks(p, arg + 4);
    return st == ZT_OK ? make_tensor(p, arg, arg[6].global->dtype, out) : st;
}

static zt_status call_parameter(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if ((n != 3 && n != 4) || arg[0].kind != PK_TENSOR)
        return zt_pk_fail(p, "_rebuild_parameter takes a tensor and 2 or 3 more arguments");
    *out = arg[0];
    return check_hooks(p, arg + 1);
}

static zt_status add_pair(pickle *p, pk_list *l, pk_value pair)
{
    const pk_value *item = pair.kind == PK_LIST ? pair.list->item : pair.item;
    size_t n = pair.kind == PK_LIST ? pair.list->n : pair.n;
    if ((pair.kind != PK_LIST && pair.kind != PK_TUPLE) || n != 2)
        return zt_pk_fail(p, "an OrderedDict of what is no pair");
    return zt_pk_append(p, l, item, 2);
}

/* Without arguments, or of a list of pairs (Python 2). */
static zt_status call_dict(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    pk_list *l = zt_pk_list(p);
    zt_status st = ZT_OK;
    if (!l)
        return zt_ctx_status(p->ctx);
    if (n > 1 || (n && arg[0].kind != PK_LIST))
        return zt_pk_fail(p, "an OrderedDict of what is no list");
    for (size_t i = 0; st == ZT_OK && n && i < arg[0].list->n; i++)
        st = add_pair(p, l, arg[0].list->item[i]);
    l->ordered = true;
    *out = (pk_value){.kind = PK_DICT, .list = l};
    return st;
}

static zt_status call_size(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n != 1 || arg[0].kind != PK_TUPLE)
        return zt_pk_fail(p, "torch.Size of what is no tuple");
    *out = arg[0];
    return ZT_OK;
}

/* Of a list of values. */
static zt_status call_set(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    pk_list *l = zt_pk_list(p);
    if (!l)
        return zt_ctx_status(p->ctx);
    if (n > 1 || (n && arg[0].kind != PK_LIST))
        return zt_pk_fail(p, "a set of what is no list");
    if (n)
        *l = *arg[0].list;
    l->set = true;
    *out = (pk_value){.kind = PK_LIST, .list = l};
    return ZT_OK;
}

static zt_status call_device(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n < 1 || n > 2 || arg[0].kind != PK_TEXT || (n == 2 && arg[1].kind != PK_INT))
        return zt_pk_fail(p, "torch.device of what is no name");
    *out = (pk_value){.kind = PK_NONE};
    return ZT_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const pk_global functions[] = {
    {"torch._utils", "_rebuild_tensor_v2", call_tensor_v2, NULL, false, false},
    {"torch._utils", "_rebuild_tensor_v3", call_tensor_v3, NULL, false, false},
    {"torch._utils", "_rebuild_tensor", call_tensor, NULL, false, false},
    {"torch._utils", "_rebuild_parameter", call_parameter, NULL, false, false},
    {"torch._utils", "_rebuild_parameter_with_state", call_parameter, NULL, false, false},
    {"collections", "OrderedDict", call_dict, NULL, false, false},
    {"torch", "Size", call_size, NULL, false, false},
    {"torch", "device", call_device, NULL, false, false},
    {"builtins", "set", call_set, NULL, false, false},
    {"__builtin__", "set", call_set, NULL, false, false},
    {"torch.storage", "UntypedStorage", NULL, NULL, true, false},
};

static bool is(const char *s, size_t n, const char *word)
{
    return word && strlen(word) == n && memcmp(s, word, n) == 0;
}

/* A storage class or a dtype of torch's. */
static zt_status torch_name(pickle *p, const char *name, size_t n, const pk_global **found)
{
    *found = NULL;
    for (size_t i = 0; i < zt_pk_n_dtypes; i++) {
        const pk_dtype *d = &zt_pk_dtypes[i];
        bool storage = is(name, n, d->storage);
        if (!storage && !is(name, n, d->name))
            continue;
        pk_global *g = zt_pk_alloc(p, 1, sizeof *g);
        if (!g)
            return zt_ctx_status(p->ctx);
        *g = (pk_global){.module = "torch",
                         .name = storage ? d->storage : d->name,
                         .dtype = d,
                         .storage = storage,
                         .is_dtype = !storage};
        *found = g;
        return ZT_OK;
    }
    return ZT_OK;
}

zt_status zt_pk_global(pickle *p, const char *module, size_t m, const char *name, size_t n,
                       pk_value *out)
{
    const pk_global *found = NULL;
    char what[80], which[80];
    for (size_t i = 0; !found && i < sizeof functions / sizeof *functions; i++)
        if (is(module, m, functions[i].module) && is(name, n, functions[i].name))
            found = &functions[i];
    zt_status st = p->plain ? zt_pk_fail(p, "a name, where only plain values may be") : ZT_OK;
    if (st == ZT_OK && !found && is(module, m, "torch"))
        st = torch_name(p, name, n, &found);
    if (st == ZT_OK && !found)
        st = zt_fail(p->ctx, ZT_EDATA, "%s: its pickle names %s.%s, which is not allowed", p->file,
                     zt_escape(what, sizeof what, module, m),
                     zt_escape(which, sizeof which, name, n));
    *out = (pk_value){.kind = PK_GLOBAL, .global = found};
    return st;
}

zt_status zt_pk_reduce(pickle *p, pk_value f, pk_value args, pk_value *out)
{
    if (f.kind != PK_GLOBAL || !f.global->call)
        return zt_pk_fail(p, "a call of what is no function");
    if (args.kind != PK_TUPLE)
        return zt_pk_fail(p, "a call without a tuple of arguments");
    return f.global->call(p, args.item, args.n, out);
}

/* The one state that PyTorch sets: an OrderedDict's attribute _metadata. It is passed over. */
zt_status zt_pk_build(pickle *p, pk_value object, pk_value state)
{
    bool right = object.kind == PK_DICT && object.list->ordered && state.kind == PK_DICT;
    for (size_t i = 0; right && i < state.list->n; i += 2) {
        const pk_value *key = &state.list->item[i];
        right = key->kind == PK_TEXT && is(key->text, key->n, "_metadata");
    }
    return right ? ZT_OK : zt_pk_fail(p, "an object's state, which is not allowed");
}

/* ---- storages -------------------------------------------------------------------------------- */

/* A view of a storage, of before PyTorch 0.4: (key, offset, elements). */
static zt_status narrow(pickle *p, pk_value view, pk_storage *s)
{
    size_t item = s->dtype ? s->dtype->item : 1;
    if (view.kind == PK_NONE)
        return ZT_OK;
    if (view.kind != PK_TUPLE || view.n != 3 || view.item[1].kind != PK_INT ||
        view.item[2].kind != PK_INT)
        return zt_pk_fail(p, "a view of a storage that is no tuple of three");
    int64_t from = view.item[1].i, n = view.item[2].i;
    uint64_t all = s->bytes / item;
    if (from < 0 || n < 0 || (uint64_t)from > all || all - (uint64_t)from < (uint64_t)n)
        return zt_pk_fail(p, "a view that reaches past its storage");
    s->begin = (uint64_t)from * item;
    s->some = (uint64_t)n * item;
    return ZT_OK;
}

/* ('storage', its class, key, location, elements) and, in the older format, a view. */
zt_status zt_pk_persistent(pickle *p, pk_value id, pk_value *out)
{
    const pk_value *v = id.item;
    if (id.kind != PK_TUPLE || id.n < 5 || id.n > 6 || v[0].kind != PK_TEXT ||
        !is(v[0].text, v[0].n, "storage") || v[1].kind != PK_GLOBAL || !v[1].global->storage ||
        v[2].kind != PK_TEXT || v[3].kind != PK_TEXT || v[4].kind != PK_INT || v[4].i < 0 ||
        strlen(v[2].text) != v[2].n)
        return zt_pk_fail(p, "a persistent id that is no storage");
    pk_storage *s = zt_pk_alloc(p, 1, sizeof *s);
    if (!s)
        return zt_ctx_status(p->ctx);
    *s = (pk_storage){.key = v[2].text, .dtype = v[1].global->dtype};
    size_t bytes;
    if (!zt_mul_size((size_t)v[4].i, s->dtype ? s->dtype->item : 1, &bytes))
        return zt_pk_fail(p, "a storage of too many elements");
    s->bytes = s->some = bytes;
    *out = (pk_value){.kind = PK_STORAGE, .storage = s};
    return id.n == 6 ? narrow(p, v[5], s) : ZT_OK;
}
