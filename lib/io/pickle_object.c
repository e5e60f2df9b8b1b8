/* pickle_object.c - owns opaque objects: what stands for an instance of a class, or the result of a
 * function, that is not known. What it is given is kept for the walk; nothing is done with it. */
#include "lib/io/pickle.h"

#include <string.h>

zt_status zt_pk_object(pickle_reader *pickle, const pk_global *type, pk_value args, pk_value *out)
{
    pk_object *object = zt_pk_alloc(pickle, 1, sizeof *object);
    if (!object)
        return zt_ctx_status(pickle->ctx);
    *object = (pk_object){.type = type, .arguments = args};
    *out = (pk_value){.kind = PK_OBJECT, .object = object};
    return ZT_OK;
}

/* `known_too`: a known class may be made so, as PyTorch's safe reader allows it for NEWOBJ. */
zt_status zt_pk_instance(pickle_reader *pickle, pk_value type, pk_value args, bool known_too, pk_value *out)
{
    bool unknown =
        type.kind == PK_OBJECT || (type.kind == PK_GLOBAL && type.global->what == PK_UNKNOWN);
    return unknown || known_too ? zt_pk_reduce(pickle, type, args, out)
                                : zt_pk_fail(pickle, "an instance of a class that is not made so");
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Attributes, names and values in turn. Those of Python itself are no data. */
static bool are_attributes(pk_value value)
{
    for (size_t i = 0; value.kind == PK_DICT && i < value.list->count; i += 2) {
        const pk_value *key = &value.list->items[i];
        if (key->kind != PK_TEXT || (key->count > 1 && memcmp(key->text, "__", 2) == 0))
            return false;
    }
    return value.kind == PK_DICT;
}

/* An OrderedDict's attributes, such as _metadata of a module's state. */
static zt_status build_dict(pickle_reader *pickle, pk_value dict, pk_value state)
{
    if (!are_attributes(state))
        return zt_pk_fail(pickle, "a dictionary's state that is not its attributes");
    if (!dict.list->attr && !(dict.list->attr = zt_pk_list(pickle)))
        return zt_ctx_status(pickle->ctx);
    return zt_pk_append(pickle, dict.list->attr, state.list->items, state.list->count);
}

/* torch.Tensor() of long ago: (storage, offset, size, stride) follow as its state. */
static zt_status build_tensor(pickle_reader *pickle, pk_object *object, pk_value state)
{
    pk_value view = {0};
    if (state.kind != PK_TUPLE || state.count != 4)
        return zt_pk_fail(pickle, "a tensor's state that is no tuple of four");
    zt_status status = zt_pk_view(pickle, state.items, NULL, &view);
    object->tensor = status == ZT_OK ? view.tensor : NULL;
    return status;
}

/* A state is kept as it is; a pair of attributes and slots as the two that it is. */
static zt_status build_object(pickle_reader *pickle, pk_object *object, pk_value state)
{
    if (object->type->what == PK_TENSOR_CLASS)
        return build_tensor(pickle, object, state);
    bool pair = state.kind == PK_TUPLE && state.count == 2;
    for (uint32_t i = 0; pair && i < 2; i++)
        pair = state.items[i].kind == PK_NONE || state.items[i].kind == PK_DICT;
    return pair ? zt_pk_append(pickle, &object->state, state.items, 2) : zt_pk_append(pickle, &object->state, &state, 1);
}

zt_status zt_pk_build(pickle_reader *pickle, pk_value object, pk_value state)
{
    if (object.kind == PK_OBJECT)
        return build_object(pickle, object.object, state);
    if (object.kind == PK_DICT && object.list->ordered)
        return build_dict(pickle, object, state);
    return zt_pk_fail(pickle, "an object's state, which is not allowed");
}
