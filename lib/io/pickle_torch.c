/* pickle_torch.c - owns what calls in pickles of PyTorch's stand for: tensors, and plain values.
 *
 * Arguments: torch/_utils.py, torch/_tensor.py and torch/serialization.py of PyTorch 2, as facts.
 */
#include "lib/io/pickle.h"

#include <string.h>

enum { MAX_DIMS = 64 };

/* Messages of functions that check more than the table does. */
#define TENSOR_V3_USAGE  "_rebuild_tensor_v3 takes 7 or 8 arguments, the seventh a dtype"
#define CPU_TENSOR_USAGE "_rebuild_device_tensor_from_cpu_tensor takes a tensor, a dtype and 2 more arguments"
#define BYTES_USAGE      "bytes are not encoded as latin1 text"

/* ---- what calls stand for -------------------------------------------------------------------- */

/* A tuple of counts, kept. */
static zt_status read_counts(pickle_reader *pickle, pk_value value, const int64_t **out)
{
    if (value.kind != PK_TUPLE || value.count > MAX_DIMS)
        return zt_pk_fail(pickle, "tensor size or stride is not a tuple of at most 64 integers");
    int64_t *dim = zt_pk_alloc(pickle, value.count, sizeof *dim);
    if (!dim) return zt_ctx_status(pickle->ctx);
    for (uint32_t i = 0; i < value.count; i++) {
        if (value.items[i].kind != PK_INT || value.items[i].i < 0)
            return zt_pk_fail(pickle, "tensor size or stride is not a nonnegative integer");
        dim[i] = value.items[i].i;
    }
    *out = dim;
    return ZT_OK;
}

/* The tensor lies in its storage. */
static zt_status check_bounds(pickle_reader *pickle, const pk_tensor *tensor)
{
    int64_t count;
    uint64_t span, begin;
    const zt_layout layout = {.rank = tensor->rank, .dim = tensor->dim, .stride = tensor->stride, .item = tensor->dtype->item};
    if (!zt_layout_check(&layout, &count, &span) || __builtin_mul_overflow((uint64_t)tensor->offset, tensor->dtype->item, &begin))
        return zt_pk_fail(pickle, "tensor has too many elements");
    if (count && (begin > tensor->storage->size || tensor->storage->size - begin < span))
        return zt_pk_fail(pickle, "tensor exceeds its storage");
    return ZT_OK;
}

/* storage, offset, size, stride: a view of a storage. */
zt_status zt_pk_view(pickle_reader *pickle, const pk_value *arguments, const pk_dtype *dtype, pk_value *out)
{
    if (arguments[0].kind != PK_STORAGE || arguments[1].kind != PK_INT || arguments[1].i < 0)
        return zt_pk_fail(pickle, "tensor without a storage and an offset");
    pk_tensor *tensor = zt_pk_alloc(pickle, 1, sizeof *tensor);
    if (!tensor) return zt_ctx_status(pickle->ctx);
    *tensor = (pk_tensor){.storage = arguments[0].storage,
                          .dtype = dtype ? dtype : arguments[0].storage->dtype,
                          .rank = (int)arguments[2].count,
                          .offset = arguments[1].i};
    if (!tensor->dtype) return zt_pk_fail(pickle, "tensor without a dtype");
    if (tensor->dtype->quantized) return zt_pk_fail(pickle, "quantized tensor without a scale");
    zt_status status = read_counts(pickle, arguments[2], &tensor->dim);
    if (status == ZT_OK) status = read_counts(pickle, arguments[3], &tensor->stride);
    if (status == ZT_OK && arguments[2].count != arguments[3].count)
        status = zt_pk_fail(pickle, "tensor size and stride have different lengths");
    if (status == ZT_OK) status = check_bounds(pickle, tensor);
    *out = (pk_value){.kind = PK_TENSOR, .tensor = tensor};
    return status;
}

/* requires_grad, backward_hooks: a truth value, and a dictionary without items or None. */
static zt_status check_hooks(pickle_reader *pickle, const pk_value *arguments)
{
    bool set_none = arguments[1].kind == PK_NONE || (arguments[1].kind == PK_DICT && arguments[1].list->count == 0);
    return arguments[0].kind == PK_BOOL && set_none ? ZT_OK : zt_pk_fail(pickle, "tensor with hooks");
}

/* A tensor that zt does not hold. */
static zt_status set_foreign(const char *what, pk_value *out)
{
    *out = (pk_value){.kind = PK_FOREIGN, .count = (uint32_t)strlen(what), .text = what};
    return ZT_OK;
}

/* Its metadata: None, or a dictionary of marks, each of which changes what the bytes mean. */
static zt_status check_marks(pickle_reader *pickle, pk_value marks, pk_value *out)
{
    if (marks.kind == PK_NONE) return ZT_OK;
    if (marks.kind != PK_DICT) return zt_pk_fail(pickle, "tensor metadata is not a dictionary");
    for (size_t i = 1; i < marks.list->count; i += 2)
        if (marks.list->items[i].kind != PK_BOOL || marks.list->items[i].i)
            return set_foreign("a tensor with its negative or conjugate bit set", out);
    return ZT_OK;
}

static zt_status make_tensor(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    (void)count;
    return zt_pk_view(pickle, arguments, NULL, out);
}

static zt_status make_tensor_v2(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    zt_status status = check_hooks(pickle, arguments + 4);
    if (status == ZT_OK) status = zt_pk_view(pickle, arguments, NULL, out);
    return status == ZT_OK && count == 7 ? check_marks(pickle, arguments[6], out) : status;
}

static zt_status make_tensor_v3(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    if (arguments[6].kind != PK_GLOBAL || arguments[6].global->what != PK_DTYPE) return zt_pk_fail(pickle, TENSOR_V3_USAGE);
    zt_status status = check_hooks(pickle, arguments + 4);
    if (status == ZT_OK && !arguments[6].global->dtype) return set_foreign("a tensor of integers narrower than a byte", out);
    if (status == ZT_OK) status = zt_pk_view(pickle, arguments, arguments[6].global->dtype, out);
    return status == ZT_OK && count == 8 ? check_marks(pickle, arguments[7], out) : status;
}

/* The tensor `value` with attributes. */
static zt_status attach_state(pickle_reader *pickle, pk_value value, pk_value state, pk_value *out)
{
    *out = value;
    if (value.kind != PK_TENSOR || state.kind == PK_NONE) return ZT_OK;
    pk_tensor *tensor = zt_pk_alloc(pickle, 1, sizeof *tensor);
    pk_value *kept = tensor ? zt_pk_alloc(pickle, 1, sizeof *kept) : NULL;
    if (!kept) return zt_ctx_status(pickle->ctx);
    *kept = state;
    *tensor = *value.tensor;
    tensor->state = kept;
    out->tensor = tensor;
    return ZT_OK;
}

/* A parameter is its tensor: _rebuild_parameter(data, requires_grad, hooks), with attributes in a
 * fourth argument, or the class Parameter(data, requires_grad). */
static zt_status make_parameter(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    zt_status status = count > 2 ? check_hooks(pickle, arguments + 1) : ZT_OK;
    const pk_value none = {.kind = PK_NONE};
    return status == ZT_OK ? attach_state(pickle, arguments[0], count == 4 ? arguments[3] : none, out) : status;
}

/* func, type, args, state: what func makes of args, as an instance of a subclass. */
static zt_status make_from_type(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    (void)count;
    zt_status status = zt_pk_reduce(pickle, arguments[0], arguments[2], out);
    if (status == ZT_OK && out->kind == PK_OBJECT && out->object->type->what == PK_UNKNOWN)
        return zt_pk_build(pickle, *out, arguments[3]);
    return status == ZT_OK ? attach_state(pickle, *out, arguments[3], out) : status;
}

/* The tensor itself unless its dtype changes: data, dtype, device, requires_grad. */
static zt_status make_cpu_tensor(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    (void)count;
    if (arguments[1].global->what != PK_DTYPE) return zt_pk_fail(pickle, CPU_TENSOR_USAGE);
    if (arguments[0].kind == PK_TENSOR && arguments[0].tensor->dtype != arguments[1].global->dtype)
        return set_foreign("a tensor that is converted when it is loaded", out);
    *out = arguments[0];
    return ZT_OK;
}

/* ---- plain values ---------------------------------------------------------------------------- */

/* Plain values that hold no tensor: a layout, a complex number, a bytearray, a device. */
static zt_status make_none(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    (void)pickle;
    (void)arguments;
    (void)count;
    *out = (pk_value){.kind = PK_NONE};
    return ZT_OK;
}

/* Bytes, which protocols before 3 write as a text whose characters they are. As all bytes here,
 * they are a text where they are UTF-8. */
static zt_status make_bytes(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    if (!zt_pk_is(arguments[1].text, arguments[1].count, "latin1") && !zt_pk_is(arguments[1].text, arguments[1].count, "latin-1"))
        return zt_pk_fail(pickle, BYTES_USAGE);
    const uint8_t *source = (const uint8_t *)arguments[0].text;
    size_t length = 0;
    char *bytes = zt_pk_alloc(pickle, (size_t)arguments[0].count + 1, 1);
    if (!bytes) return zt_ctx_status(pickle->ctx);
    for (size_t i = 0; i < arguments[0].count; i++) {
        if (source[i] >= 0xc4) return zt_pk_fail(pickle, "character above 255 in latin1 text");
        unsigned character = source[i] < 0x80 ? source[i] : (unsigned)((source[i] & 3) << 6 | (source[i + 1] & 0x3f));
        i += source[i] >= 0x80;
        bytes[length++] = (char)character;
    }
    bytes[length] = 0;
    *out = (pk_value){.kind = PK_TEXT, .count = (uint32_t)length, .text = bytes};
    return zt_utf8_valid(bytes, length) ? ZT_OK : make_none(pickle, arguments, count, out);
}

static zt_status add_pair(pickle_reader *pickle, pk_list *list, pk_value pair)
{
    const pk_value *item = pair.kind == PK_LIST ? pair.list->items : pair.items;
    size_t count = pair.kind == PK_LIST ? pair.list->count : pair.count;
    if ((pair.kind != PK_LIST && pair.kind != PK_TUPLE) || count != 2)
        return zt_pk_fail(pickle, "OrderedDict item is not a pair");
    return zt_pk_append(pickle, list, item, 2);
}

/* Without arguments, or of a list of pairs (Python 2). */
static zt_status make_dict(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    pk_list *list = zt_pk_list(pickle);
    zt_status status = ZT_OK;
    if (!list) return zt_ctx_status(pickle->ctx);
    for (size_t i = 0; status == ZT_OK && count && i < arguments[0].list->count; i++)
        status = add_pair(pickle, list, arguments[0].list->items[i]);
    list->ordered = true;
    *out = (pk_value){.kind = PK_DICT, .list = list};
    return status;
}

/* Of nothing, or of a dictionary. */
static zt_status make_counter(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    return count ? (*out = arguments[0], ZT_OK) : make_dict(pickle, NULL, 0, out);
}

static zt_status make_size(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    (void)pickle;
    (void)count;
    *out = arguments[0];
    return ZT_OK;
}

/* Of a list of values. */
static zt_status make_set(pickle_reader *pickle, const pk_value *arguments, size_t count, pk_value *out)
{
    pk_list *list = zt_pk_list(pickle);
    if (!list) return zt_ctx_status(pickle->ctx);
    if (count) *list = *arguments[0].list;
    list->set = true;
    *out = (pk_value){.kind = PK_LIST, .list = list};
    return ZT_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

// clang-format off
#define KIND(kind) (1 << PK_##kind)
#define ANY_TENSOR (KIND(TENSOR) | KIND(FOREIGN) | KIND(OBJECT)) /* a tensor, or what may be one */

/* module, name; the function, or the kind of tensor that zt does not hold; fewest and most arguments, kinds of the
 * first and of the second; the message for others */
#define MAKES(module_, name_, make_, ...) {.module = module_, .name = name_, .what = PK_FUNCTION, .call = {make_, NULL, __VA_ARGS__}}
#define FOREIGN(module_, name_, kind_, ...) {.module = module_, .name = name_, .what = PK_FUNCTION, .call = {NULL, kind_, __VA_ARGS__}}

const pk_global zt_pk_functions[] = {
    MAKES("torch._utils", "_rebuild_tensor_v2", make_tensor_v2, 6, 7, 0, 0, "_rebuild_tensor_v2 takes 6 or 7 arguments"),
    MAKES("torch._utils", "_rebuild_tensor_v3", make_tensor_v3, 7, 8, 0, 0, TENSOR_V3_USAGE),
    MAKES("torch._utils", "_rebuild_tensor", make_tensor, 4, 4, 0, 0, "_rebuild_tensor takes 4 arguments"),
    MAKES("torch._utils", "_rebuild_parameter", make_parameter, 1, 4, ANY_TENSOR, 0, "parameter without a tensor"),
    MAKES("torch._utils", "_rebuild_parameter_with_state", make_parameter, 1, 4, ANY_TENSOR, 0, "parameter without a tensor"),
    FOREIGN("torch._utils", "_rebuild_sparse_tensor", "a sparse tensor", 2, 2, 0, KIND(TUPLE),
            "_rebuild_sparse_tensor takes a layout and a tuple"),
    FOREIGN("torch._utils", "_rebuild_qtensor", "a quantized tensor", 7, 7, KIND(STORAGE), 0,
            "_rebuild_qtensor takes a storage and 6 more arguments"),
    FOREIGN("torch._utils", "_rebuild_nested_tensor", "a nested tensor", 4, 4, ANY_TENSOR, 0,
            "_rebuild_nested_tensor takes 4 tensors"),
    FOREIGN("torch._utils", "_rebuild_meta_tensor_no_storage", "a tensor without data", 4, 4, 0, 0,
            "_rebuild_meta_tensor_no_storage takes 4 arguments"),
    FOREIGN("torch._utils", "_rebuild_wrapper_subclass", "a tensor subclass that wraps other tensors", 8, 8, KIND(GLOBAL), 0,
            "_rebuild_wrapper_subclass takes a class and 7 more arguments"),
    FOREIGN("torch._utils", "_rebuild_device_tensor_from_numpy", "a tensor stored as a NumPy array", 4, 4, 0, 0,
            "_rebuild_device_tensor_from_numpy takes 4 arguments"),
    FOREIGN("torch._utils", "_rebuild_xla_tensor", "a tensor stored as a NumPy array", 4, 4, 0, 0,
            "_rebuild_device_tensor_from_numpy takes 4 arguments"),
    MAKES("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", make_cpu_tensor, 4, 4, ANY_TENSOR, KIND(GLOBAL), CPU_TENSOR_USAGE),
    MAKES("torch._tensor", "_rebuild_from_type_v2", make_from_type, 4, 4, KIND(GLOBAL), KIND(GLOBAL), "_rebuild_from_type takes a function, a class and 2 more arguments"),
    MAKES("torch._tensor", "_rebuild_from_type", make_from_type, 4, 4, KIND(GLOBAL), KIND(GLOBAL), "_rebuild_from_type takes a function, a class and 2 more arguments"),
    MAKES("torch.tensor", "_rebuild_from_type", make_from_type, 4, 4, KIND(GLOBAL), KIND(GLOBAL), "_rebuild_from_type takes a function, a class and 2 more arguments"),
    MAKES("torch.nn.parameter", "Parameter", make_parameter, 1, 4, ANY_TENSOR, 0, "parameter without a tensor"),
    MAKES("torch.serialization", "_get_layout", make_none, 1, 1, KIND(TEXT), 0, "_get_layout takes a name"),
    MAKES("torch", "Size", make_size, 1, 1, KIND(TUPLE), 0, "torch.Size takes a tuple"),
    MAKES("torch", "device", make_none, 1, 2, KIND(TEXT), KIND(INT), "torch.device takes a name"),
    MAKES("collections", "OrderedDict", make_dict, 0, 1, KIND(LIST), 0, "OrderedDict takes a list"),
    MAKES("collections", "Counter", make_counter, 0, 1, KIND(DICT), 0, "Counter takes a dictionary"),
    MAKES("_codecs", "encode", make_bytes, 2, 2, KIND(TEXT), KIND(TEXT), BYTES_USAGE),
    MAKES("builtins", "bytearray", make_none, 0, 2, KIND(TEXT) | KIND(NONE), KIND(TEXT), "bytearray takes bytes"),
    MAKES("builtins", "complex", make_none, 0, 2, 0, 0, "complex takes at most 2 arguments"),
    MAKES("builtins", "set", make_set, 0, 1, KIND(LIST), 0, "set takes a list"),
};
// clang-format on
const size_t zt_pk_function_count = sizeof zt_pk_functions / sizeof *zt_pk_functions;

/* ---- calls ----------------------------------------------------------------------------------- */

static bool is_of_kind(const pk_value *arguments, size_t count, size_t i, unsigned kinds)
{
    return i >= count || !kinds || kinds >> arguments[i].kind & 1;
}

static zt_status make_call(pickle_reader *pickle, const pk_call *call, const pk_value *arguments, size_t count, pk_value *out)
{
    if (count < call->least || count > call->most || !is_of_kind(arguments, count, 0, call->first) ||
        !is_of_kind(arguments, count, 1, call->second))
        return zt_pk_fail(pickle, call->usage);
    return call->make ? call->make(pickle, arguments, count, out) : set_foreign(call->foreign, out);
}

zt_status zt_pk_reduce(pickle_reader *pickle, pk_value function, pk_value arguments, pk_value *out)
{
    bool object = function.kind == PK_OBJECT;
    const pk_global *global = function.kind == PK_GLOBAL ? function.global : object ? function.object->type : NULL;
    if (!global || (!object && global->what != PK_FUNCTION && global->what != PK_UNKNOWN && global->what != PK_TENSOR_CLASS))
        return zt_pk_fail(pickle, "call of an object that is not a function");
    if (arguments.kind != PK_TUPLE) return zt_pk_fail(pickle, "call arguments are not a tuple");
    return global->what == PK_FUNCTION && !object ? make_call(pickle, &global->call, arguments.items, arguments.count, out)
                                                  : zt_pk_object(pickle, global, arguments, out);
}

/* ---- storages -------------------------------------------------------------------------------- */

/* A view of a storage, of before PyTorch 0.4: (key, offset, elements). */
static zt_status narrow_storage(pickle_reader *pickle, pk_value view, pk_storage *storage)
{
    size_t item = storage->dtype ? storage->dtype->item : 1;
    if (view.kind == PK_NONE) return ZT_OK;
    if (view.kind != PK_TUPLE || view.count != 3 || view.items[1].kind != PK_INT || view.items[2].kind != PK_INT)
        return zt_pk_fail(pickle, "storage view is not a tuple of 3 elements");
    int64_t first = view.items[1].i, element_count = view.items[2].i;
    uint64_t total = storage->bytes / item;
    if (first < 0 || element_count < 0 || (uint64_t)first > total || total - (uint64_t)first < (uint64_t)element_count)
        return zt_pk_fail(pickle, "storage view exceeds its storage");
    storage->begin = (uint64_t)first * item;
    storage->size = (uint64_t)element_count * item;
    return ZT_OK;
}

/* The class of a module in the older format, ('module', class, source file, source), which is not
 * known. */
static bool is_module(pk_value id)
{
    const pk_value *item = id.items;
    return id.kind == PK_TUPLE && id.count == 4 && item[0].kind == PK_TEXT && zt_pk_is(item[0].text, item[0].count, "module") &&
           item[1].kind == PK_GLOBAL && item[1].global->what == PK_UNKNOWN;
}

/* ('storage', its class, key, location, elements) and, in the older format, a view. */
zt_status zt_pk_persistent(pickle_reader *pickle, pk_value id, pk_value *out)
{
    const pk_value *item = id.items;
    if (is_module(id)) {
        *out = item[1];
        return ZT_OK;
    }
    if (id.kind != PK_TUPLE || id.count < 5 || id.count > 6 || item[0].kind != PK_TEXT ||
        !zt_pk_is(item[0].text, item[0].count, "storage") || item[1].kind != PK_GLOBAL ||
        item[1].global->what != PK_STORAGE_CLASS || item[2].kind != PK_TEXT || item[3].kind != PK_TEXT ||
        item[4].kind != PK_INT || item[4].i < 0 || strlen(item[2].text) != item[2].count)
        return zt_pk_fail(pickle, "persistent id is not a storage");
    pk_storage *storage = zt_pk_alloc(pickle, 1, sizeof *storage);
    if (!storage) return zt_ctx_status(pickle->ctx);
    *storage = (pk_storage){.key = item[2].text, .dtype = item[1].global->dtype, .previous = pickle->storages};
    pickle->storages = storage;
    size_t bytes;
    if (!zt_mul_size((size_t)item[4].i, storage->dtype ? storage->dtype->item : 1, &bytes))
        return zt_pk_fail(pickle, "storage has too many elements");
    storage->bytes = storage->size = bytes;
    *out = (pk_value){.kind = PK_STORAGE, .storage = storage};
    return id.count == 6 ? narrow_storage(pickle, item[5], storage) : ZT_OK;
}
