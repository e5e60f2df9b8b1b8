/* pickle_object.c - owns opaque objects: what stands for an instance of a class, or the result of a
 * function, that is not known. What it is given is kept for the walk; nothing is done with it. */
#include "lib/io/pickle.h"

#include <string.h>

zt_status zt_pk_object(pickle *p, const pk_global *type, pk_value args, pk_value *out)
{
    pk_object *o = zt_pk_alloc(p, 1, sizeof *o);
    if (!o)
        return zt_ctx_status(p->ctx);
    *o = (pk_object){.type = type, .args = args};
    *out = (pk_value){.kind = PK_OBJECT, .object = o};
    return ZT_OK;
}

/* `known_too`: a known class may be made so, as PyTorch's safe reader allows it for NEWOBJ. */
zt_status zt_pk_instance(pickle *p, pk_value type, pk_value args, bool known_too, pk_value *out)
{
    bool unknown =
        type.kind == PK_OBJECT || (type.kind == PK_GLOBAL && type.global->what == PK_UNKNOWN);
    return unknown || known_too ? zt_pk_reduce(p, type, args, out)
                                : zt_pk_fail(p, "an instance of a class that is not made so");
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Attributes, names and values in turn. Those of Python itself are no data. */
static bool are_attributes(pk_value v)
{
    for (size_t i = 0; v.kind == PK_DICT && i < v.list->n; i += 2) {
        const pk_value *key = &v.list->item[i];
        if (key->kind != PK_TEXT || (key->n > 1 && memcmp(key->text, "__", 2) == 0))
            return false;
    }
    return v.kind == PK_DICT;
}

/* An OrderedDict's attributes, such as _metadata of a module's state. */
static zt_status build_dict(pickle *p, pk_value dict, pk_value state)
{
    if (!are_attributes(state))
        return zt_pk_fail(p, "a dictionary's state that is not its attributes");
    if (!dict.list->attr && !(dict.list->attr = zt_pk_list(p)))
        return zt_ctx_status(p->ctx);
    return zt_pk_append(p, dict.list->attr, state.list->item, state.list->n);
}

/* torch.Tensor() of long ago: (storage, offset, size, stride) follow as its state. */
static zt_status build_tensor(pickle *p, pk_object *o, pk_value state)
{
    pk_value v = {0};
    if (state.kind != PK_TUPLE || state.n != 4)
        return zt_pk_fail(p, "a tensor's state that is no tuple of four");
    zt_status st = zt_pk_view(p, state.item, NULL, &v);
    o->tensor = st == ZT_OK ? v.tensor : NULL;
    return st;
}

/* A state is kept as it is; a pair of attributes and slots as the two that it is. */
static zt_status build_object(pickle *p, pk_object *o, pk_value state)
{
    if (o->type->what == PK_TENSOR_CLASS)
        return build_tensor(p, o, state);
    bool pair = state.kind == PK_TUPLE && state.n == 2;
    for (uint32_t i = 0; pair && i < 2; i++)
        pair = state.item[i].kind == PK_NONE || state.item[i].kind == PK_DICT;
    return pair ? zt_pk_append(p, &o->state, state.item, 2) : zt_pk_append(p, &o->state, &state, 1);
}

zt_status zt_pk_build(pickle *p, pk_value object, pk_value state)
{
    if (object.kind == PK_OBJECT)
        return build_object(p, object.object, state);
    if (object.kind == PK_DICT && object.list->ordered)
        return build_dict(p, object, state);
    return zt_pk_fail(p, "an object's state, which is not allowed");
}
