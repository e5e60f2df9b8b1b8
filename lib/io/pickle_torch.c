/* pickle_torch.c - owns what calls in pickles of PyTorch's stand for: tensors, and plain values.
 *
 * Arguments: torch/_utils.py, torch/_tensor.py and torch/serialization.py of PyTorch 2, as facts.
 */
#include "lib/io/pickle.h"

#include <string.h>

enum { MAX_DIMS = 64 };

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
zt_status zt_pk_view(pickle *p, const pk_value *arg, const pk_dtype *dtype, pk_value *out)
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
    if (t->dtype->quantized)
        return zt_pk_fail(p, "a quantized tensor without its scale");
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

/* A tensor that zt does not hold. */
static zt_status foreign(const char *what, pk_value *out)
{
    *out = (pk_value){.kind = PK_FOREIGN, .n = (uint32_t)strlen(what), .text = what};
    return ZT_OK;
}

/* Its metadata: None, or a dictionary of marks, each of which changes what the bytes mean. */
static zt_status check_marks(pickle *p, pk_value marks, pk_value *out)
{
    if (marks.kind == PK_NONE)
        return ZT_OK;
    if (marks.kind != PK_DICT)
        return zt_pk_fail(p, "a tensor's metadata that is no dictionary");
    for (size_t i = 1; i < marks.list->n; i += 2)
        if (marks.list->item[i].kind != PK_BOOL || marks.list->item[i].i)
            return foreign("a tensor with its negative or conjugate bit set", out);
    return ZT_OK;
}

zt_status zt_pk_call_tensor(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    return n == 4 ? zt_pk_view(p, arg, NULL, out)
                  : zt_pk_fail(p, "_rebuild_tensor takes 4 arguments");
}

zt_status zt_pk_call_tensor_v2(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n != 6 && n != 7)
        return zt_pk_fail(p, "_rebuild_tensor_v2 takes 6 or 7 arguments");
    zt_status st = check_hooks(p, arg + 4);
    if (st == ZT_OK)
        st = zt_pk_view(p, arg, NULL, out);
    return st == ZT_OK && n == 7 ? check_marks(p, arg[6], out) : st;
}

zt_status zt_pk_call_tensor_v3(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if ((n != 7 && n != 8) || arg[6].kind != PK_GLOBAL || arg[6].global->what != PK_DTYPE)
        return zt_pk_fail(p, "_rebuild_tensor_v3 takes 7 or 8 arguments, one a dtype");
    zt_status st = check_hooks(p, arg + 4);
    if (st == ZT_OK && !arg[6].global->dtype)
        return foreign("a tensor of integers narrower than a byte", out);
    if (st == ZT_OK)
        st = zt_pk_view(p, arg, arg[6].global->dtype, out);
    return st == ZT_OK && n == 8 ? check_marks(p, arg[7], out) : st;
}

/* Is it a tensor, or may it be one? */
static bool may_be_tensor(pk_value v)
{
    return v.kind == PK_TENSOR || v.kind == PK_FOREIGN || v.kind == PK_OBJECT;
}

/* The tensor v with attributes. */
static zt_status with_state(pickle *p, pk_value v, pk_value state, pk_value *out)
{
    *out = v;
    if (v.kind != PK_TENSOR || state.kind == PK_NONE)
        return ZT_OK;
    pk_tensor *t = zt_pk_alloc(p, 1, sizeof *t);
    pk_value *kept = t ? zt_pk_alloc(p, 1, sizeof *kept) : NULL;
    if (!kept)
        return zt_ctx_status(p->ctx);
    *kept = state;
    *t = *v.tensor;
    t->state = kept;
    out->tensor = t;
    return ZT_OK;
}

/* A parameter is its tensor: _rebuild_parameter(data, requires_grad, hooks), with attributes in a
 * fourth argument, or the class Parameter(data, requires_grad). */
zt_status zt_pk_call_parameter(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n < 1 || n > 4 || !may_be_tensor(arg[0]))
        return zt_pk_fail(p, "a parameter without a tensor");
    zt_status st = n > 2 ? check_hooks(p, arg + 1) : ZT_OK;
    const pk_value none = {.kind = PK_NONE};
    return st == ZT_OK ? with_state(p, arg[0], n == 4 ? arg[3] : none, out) : st;
}

/* func, type, args, state: what func makes of args, as an instance of a subclass. */
zt_status zt_pk_call_from_type(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n != 4 || arg[0].kind != PK_GLOBAL || arg[1].kind != PK_GLOBAL)
        return zt_pk_fail(p, "_rebuild_from_type takes a function, a class and 2 more arguments");
    zt_status st = zt_pk_reduce(p, arg[0], arg[2], out);
    if (st == ZT_OK && out->kind == PK_OBJECT && out->object->type->what == PK_UNKNOWN)
        return zt_pk_build(p, *out, arg[3]);
    return st == ZT_OK ? with_state(p, *out, arg[3], out) : st;
}

/* The tensor itself unless its dtype changes: data, dtype, device, requires_grad. */
zt_status zt_pk_call_cpu_tensor(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n != 4 || !may_be_tensor(arg[0]) || arg[1].kind != PK_GLOBAL ||
        arg[1].global->what != PK_DTYPE)
        return zt_pk_fail(p, "a tensor of a device takes a tensor, a dtype and 2 more arguments");
    if (arg[0].kind == PK_TENSOR && arg[0].tensor->dtype != arg[1].global->dtype)
        return foreign("a tensor that is converted when it is loaded", out);
    *out = arg[0];
    return ZT_OK;
}

/* ---- tensors that are not held: their arguments are counted, no more ------------------------- */

zt_status zt_pk_call_sparse(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    return n == 2 && arg[1].kind == PK_TUPLE
               ? foreign("a sparse tensor", out)
               : zt_pk_fail(p, "_rebuild_sparse_tensor takes a layout and a tuple");
}

zt_status zt_pk_call_quantized(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    return n == 7 && arg[0].kind == PK_STORAGE
               ? foreign("a quantized tensor", out)
               : zt_pk_fail(p, "_rebuild_qtensor takes a storage and 6 more arguments");
}

zt_status zt_pk_call_nested(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    return n == 4 && may_be_tensor(arg[0])
               ? foreign("a nested tensor", out)
               : zt_pk_fail(p, "_rebuild_nested_tensor takes 4 tensors");
}

zt_status zt_pk_call_meta(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    (void)arg;
    return n == 4 ? foreign("a tensor without data", out)
                  : zt_pk_fail(p, "_rebuild_meta_tensor_no_storage takes 4 arguments");
}

zt_status zt_pk_call_wrapper(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    return n == 8 && arg[0].kind == PK_GLOBAL
               ? foreign("a tensor subclass that wraps other tensors", out)
               : zt_pk_fail(p, "_rebuild_wrapper_subclass takes a class and 7 more arguments");
}

zt_status zt_pk_call_numpy(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    (void)arg;
    return n == 4 ? foreign("a tensor stored as a NumPy array", out)
                  : zt_pk_fail(p, "_rebuild_device_tensor_from_numpy takes 4 arguments");
}

/* ---- plain values ---------------------------------------------------------------------------- */

static zt_status none(pk_value *out)
{
    *out = (pk_value){.kind = PK_NONE};
    return ZT_OK;
}

zt_status zt_pk_call_layout(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    return n == 1 && arg[0].kind == PK_TEXT ? none(out)
                                            : zt_pk_fail(p, "_get_layout of what is no name");
}

zt_status zt_pk_call_complex(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    (void)arg;
    return n <= 2 ? none(out) : zt_pk_fail(p, "a complex number of more than two parts");
}

/* Of nothing, of bytes, or of a text and its encoding. */
zt_status zt_pk_call_bytearray(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    bool right = n == 0 || ((arg[0].kind == PK_TEXT || arg[0].kind == PK_NONE) &&
                            (n == 1 || (n == 2 && arg[1].kind == PK_TEXT)));
    return right ? none(out) : zt_pk_fail(p, "a bytearray of what is no bytes");
}

/* Bytes, which protocols before 3 write as a text whose characters they are. As all bytes here,
 * they are a text where they are UTF-8. */
zt_status zt_pk_call_encode(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n != 2 || arg[0].kind != PK_TEXT || arg[1].kind != PK_TEXT ||
        (!zt_pk_is(arg[1].text, arg[1].n, "latin1") && !zt_pk_is(arg[1].text, arg[1].n, "latin-1")))
        return zt_pk_fail(p, "bytes that are no text in latin1");
    const uint8_t *s = (const uint8_t *)arg[0].text;
    size_t made = 0;
    char *bytes = zt_pk_alloc(p, (size_t)arg[0].n + 1, 1);
    if (!bytes)
        return zt_ctx_status(p->ctx);
    for (size_t i = 0; i < arg[0].n; i++) {
        if (s[i] >= 0xc4)
            return zt_pk_fail(p, "a byte above 255");
        unsigned c = s[i] < 0x80 ? s[i] : (unsigned)((s[i] & 3) << 6 | (s[i + 1] & 0x3f));
        i += s[i] >= 0x80;
        bytes[made++] = (char)c;
    }
    bytes[made] = 0;
    *out = (pk_value){.kind = PK_TEXT, .n = (uint32_t)made, .text = bytes};
    return zt_utf8_valid(bytes, made) ? ZT_OK : none(out);
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
zt_status zt_pk_call_dict(pickle *p, const pk_value *arg, size_t n, pk_value *out)
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

/* Of nothing, or of a dictionary. */
zt_status zt_pk_call_counter(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n > 1 || (n && arg[0].kind != PK_DICT))
        return zt_pk_fail(p, "a Counter of what is no dictionary");
    return n ? (*out = arg[0], ZT_OK) : zt_pk_call_dict(p, NULL, 0, out);
}

zt_status zt_pk_call_size(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n != 1 || arg[0].kind != PK_TUPLE)
        return zt_pk_fail(p, "torch.Size of what is no tuple");
    *out = arg[0];
    return ZT_OK;
}

/* Of a list of values. */
zt_status zt_pk_call_set(pickle *p, const pk_value *arg, size_t n, pk_value *out)
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

zt_status zt_pk_call_device(pickle *p, const pk_value *arg, size_t n, pk_value *out)
{
    if (n < 1 || n > 2 || arg[0].kind != PK_TEXT || (n == 2 && arg[1].kind != PK_INT))
        return zt_pk_fail(p, "torch.device of what is no name");
    return none(out);
}

/* ---- calls ----------------------------------------------------------------------------------- */

zt_status zt_pk_reduce(pickle *p, pk_value f, pk_value args, pk_value *out)
{
    bool object = f.kind == PK_OBJECT;
    const pk_global *g = f.kind == PK_GLOBAL ? f.global : object ? f.object->type : NULL;
    if (!g || (!object && !g->call && g->what != PK_UNKNOWN && g->what != PK_TENSOR_CLASS))
        return zt_pk_fail(p, "a call of what is no function");
    if (args.kind != PK_TUPLE)
        return zt_pk_fail(p, "a call without a tuple of arguments");
    return g->call && !object ? g->call(p, args.item, args.n, out) : zt_pk_object(p, g, args, out);
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

/* The class of a module in the older format, ('module', class, source file, source), which is not
 * known. */
static bool is_module(pk_value id)
{
    const pk_value *v = id.item;
    return id.kind == PK_TUPLE && id.n == 4 && v[0].kind == PK_TEXT &&
           zt_pk_is(v[0].text, v[0].n, "module") && v[1].kind == PK_GLOBAL &&
           v[1].global->what == PK_UNKNOWN;
}

/* ('storage', its class, key, location, elements) and, in the older format, a view. */
zt_status zt_pk_persistent(pickle *p, pk_value id, pk_value *out)
{
    const pk_value *v = id.item;
    if (is_module(id)) {
        *out = v[1];
        return ZT_OK;
    }
    if (id.kind != PK_TUPLE || id.n < 5 || id.n > 6 || v[0].kind != PK_TEXT ||
        !zt_pk_is(v[0].text, v[0].n, "storage") || v[1].kind != PK_GLOBAL ||
        v[1].global->what != PK_STORAGE_CLASS || v[2].kind != PK_TEXT || v[3].kind != PK_TEXT ||
        v[4].kind != PK_INT || v[4].i < 0 || strlen(v[2].text) != v[2].n)
        return zt_pk_fail(p, "a persistent id that is no storage");
    pk_storage *s = zt_pk_alloc(p, 1, sizeof *s);
    if (!s)
        return zt_ctx_status(p->ctx);
    *s = (pk_storage){.key = v[2].text, .dtype = v[1].global->dtype, .before = p->storages};
    p->storages = s;
    size_t bytes;
    if (!zt_mul_size((size_t)v[4].i, s->dtype ? s->dtype->item : 1, &bytes))
        return zt_pk_fail(p, "a storage of too many elements");
    s->bytes = s->some = bytes;
    *out = (pk_value){.kind = PK_STORAGE, .storage = s};
    return id.n == 6 ? narrow(p, v[5], s) : ZT_OK;
}
