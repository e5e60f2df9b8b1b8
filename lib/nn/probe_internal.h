/* probe_internal.h - private to probe.c and prefix.c: a probe on its way. */
#ifndef ZT_NN_PROBE_INTERNAL_H
#define ZT_NN_PROBE_INTERNAL_H

#include "lib/nn/probe.h"

struct zt_nn_probe {
    zt_ctx *ctx;
    zt_arena *arena;
    const zt_nn_geometry *geometries;
    zt_nn_geometry *own_geometries; /* of a file; else NULL */
    int64_t tensor_count;
    bool *used, any_named;
    zt_nn_archetype *archetypes;
    int64_t archetype_count, archetype_capacity;
    zt_nn_role *roles; /* of the one that is being made, [tensor_count + 8] */
};

void zt_probe_role(zt_nn_probe *probe, zt_nn_archetype *archetype, const char *name, int64_t tensor);
void zt_probe_metric(zt_nn_archetype *archetype, const char *name, int64_t value);
zt_status zt_probe_put(zt_nn_probe *probe, zt_nn_archetype *archetype);

/* Layers that names tell: prefix.c. */
zt_status zt_probe_prefixes(zt_nn_probe *probe);

#endif
