/* members.c - owns the members that a network's document and its layers may have: one that nothing
 * reads is refused, for what was meant by it would be missing. */
#include "lib/base/near.h"
#include "lib/nn/nn_internal.h"

#include <stdio.h>
#include <string.h>

static const char *const network_members[] = {"id", "depth", "rows", "cols", "layers_per_cell", "layers", NULL};

#define NAME(key) #key,
static const char *const layer_members[] = {ZT_NN_INTS(NAME) ZT_NN_REALS(NAME) "z",
                                            "y",
                                            "x",
                                            "l",
                                            "type",
                                            "activation",
                                            "dtype",
                                            "softmax_type",
                                            "output_mode",
                                            "combine_mode",
                                            "weights",
                                            "native",
                                            "scale",
                                            "zt.rule",
                                            "mask",
                                            "hierarchy_levels",
                                            "is_disabled",
                                            "gumbel_noise",
                                            "use_tiling",
                                            "is_remote_link",
                                            "target_z",
                                            "target_y",
                                            "target_x",
                                            "target_l",
                                            "parallel_branches",
                                            "sequential_layers",
                                            "filter_gate",
                                            NULL};
#undef NAME

static bool is_one(const char *const *names, const char *key)
{
    while (*names && strcmp(*names, key)) names++;
    return *names != NULL;
}

zt_status zt_nn_check_member(const zt_nn *network, const char *key)
{
    char what[200], shown[120];
    if (is_one(network_members, key) || strcmp(key, "zt.gguf") == 0) /* metadata: lib/io */
        return ZT_OK;
    snprintf(what, sizeof what, "%s: the member", zt_escape(shown, sizeof shown, network->name, strlen(network->name)));
    return zt_fail_unknown(network->ctx, ZT_EDATA, what, key, strlen(key), zt_near_list, network_members);
}

zt_status zt_layer_check_member(const zt_nn *network, const zt_nn_layer *layer, const char *key)
{
    char shown[80];
    zt_near_hint hint;
    if (is_one(layer_members, key)) return ZT_OK;
    return zt_layer_bad(network, layer, "the member '%s' is not known%s", zt_escape(shown, sizeof shown, key, strlen(key)),
                        zt_near(hint, key, zt_near_list, layer_members));
}
