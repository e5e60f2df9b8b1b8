/* names.c - owns the names of layers, activations, softmax types and dtypes, as openfluke/loom's
 * package poly reads and writes them. */
#include "lib/io/netjson.h"
#include "lib/nn/nn_internal.h"

#include <string.h>
#include <strings.h>

static const char *const act_names[] = {"Linear", "ReLU", "Silu", "GELU", "Tanh", "Sigmoid"};
static const char *const softmax_names[] = {"Standard", "Grid",   "Hierarchical", "Temperature", "Gumbel",
                                            "Masked",   "Sparse", "Adaptive",     "Mixture",     "Entmax"};

const char *zt_nn_kind_name(zt_nn_kind number)
{
    const nn_kind *kind = zt_layer_kind_of(number);
    return kind ? kind->name : NULL;
}

const char *zt_nn_act_name(zt_nn_act act) { return act >= ZT_NN_LINEAR && act < ZT_NN_ACTS ? act_names[act + 1] : NULL; }

const char *zt_nn_softmax_name(zt_nn_softmax softmax)
{
    return (unsigned)softmax < ZT_NN_SOFTMAXES ? softmax_names[softmax] : NULL;
}

bool zt_nn_kind_parse(const char *name, zt_nn_kind *out)
{
    for (int k = 0; k < ZT_NN_KINDS; k++) {
        const nn_kind *kind = zt_layer_kind_of((zt_nn_kind)k);
        *out = (zt_nn_kind)k;
        if (!strcasecmp(name, kind->name)) return true;
        for (int i = 0; i < 2 && kind->aliases[i]; i++)
            if (!strcasecmp(name, kind->aliases[i])) return true;
    }
    *out = ZT_NN_DENSE;
    return false;
}

bool zt_nn_act_parse(const char *name, zt_nn_act *out)
{
    for (int act = ZT_NN_LINEAR; act < ZT_NN_ACTS; act++) {
        *out = (zt_nn_act)act;
        if (!strcasecmp(name, act_names[act + 1])) return true;
    }
    *out = ZT_NN_LINEAR;
    return false;
}

bool zt_nn_softmax_parse(const char *name, zt_nn_softmax *out)
{
    for (int softmax = 0; softmax < ZT_NN_SOFTMAXES; softmax++) {
        *out = (zt_nn_softmax)softmax;
        if (!strcmp(name, softmax_names[softmax])) return true;
    }
    *out = ZT_NN_STANDARD;
    return false;
}

bool zt_nn_dtype_parse(const char *name, zt_storage *out)
{
    static const struct {
        const char *name;
        zt_storage type;
    } other[] = {{"fp64", ZT_STORE_F64}, {"f64", ZT_STORE_F64}, {"fp32", ZT_STORE_F32},  {"f32", ZT_STORE_F32},
                 {"fp16", ZT_STORE_F16}, {"f16", ZT_STORE_F16}, {"bf16", ZT_STORE_BF16}, {"fp8", ZT_STORE_FP8E4M3},
                 {"i64", ZT_STORE_I64},  {"i32", ZT_STORE_I32}, {"i16", ZT_STORE_I16},   {"i8", ZT_STORE_I8},
                 {"u64", ZT_STORE_U64},  {"u32", ZT_STORE_U32}, {"u16", ZT_STORE_U16},   {"u8", ZT_STORE_U8},
                 {"f4", ZT_STORE_FP4}};
    for (int storage = 0; storage < ZT_STORE_COUNT; storage++) {
        *out = (zt_storage)storage;
        if (!strcasecmp(name, zt_netjson_word(*out))) return true;
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        *out = other[i].type;
        if (!strcasecmp(name, other[i].name)) return true;
    }
    *out = ZT_STORE_F32;
    return false;
}
