/* probe_internal.h - private to probe.c and prefix.c: a probe on its way. */
#ifndef ZT_NN_PROBE_INTERNAL_H
#define ZT_NN_PROBE_INTERNAL_H

#include "lib/nn/probe.h"

struct zt_nn_probe {
    zt_ctx *ctx;
    zt_arena *keep;
    const zt_nn_geometry *g;
    zt_nn_geometry *own; /* of a file; else NULL */
    int64_t n;
    bool *used, any_named;
    zt_nn_archetype *found;
    int64_t n_found, room;
    zt_nn_role *role; /* of the one that is being made, [n + 8] */
};

void zt_probe_role(zt_nn_probe *p, zt_nn_archetype *a, const char *name, int64_t tensor);
void zt_probe_metric(zt_nn_archetype *a, const char *name, int64_t value);
zt_status zt_probe_put(zt_nn_probe *p, zt_nn_archetype *a);

/* Layers that names tell: prefix.c. */
zt_status zt_probe_prefixes(zt_nn_probe *p);

#endif
