/* weights.c - owns a network's weights: masters, from a document or drawn, and what layers compute
 * with, by name. */
#include "lib/io/netjson.h"
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Room for one more of a list that doubles. */
static void *grown(zt_ctx *ctx, void *list, int64_t n, int64_t *room, size_t size)
{
    if (n < *room) return list;
    int64_t more = *room ? 2 * *room : 32;
    void *p = zt_realloc(ctx, list, (size_t)more * size);
    if (p) *room = more;
    return p;
}

/* A block of masters that the network owns. */
static float *new_masters(zt_nn *nn, int64_t n)
{
    float **list = grown(nn->ctx, nn->masters, nn->n_masters, &nn->masters_room, sizeof *list);
    if (!list) return NULL;
    nn->masters = list;
    float *m = zt_alloc_array(nn->ctx, (size_t)n, sizeof *m);
    if (m) list[nn->n_masters++] = m;
    return m;
}

static zt_status add_weight(zt_nn *nn, zt_nn_layer *l, const nn_part *p, float *value)
{
    char name[1 << 12];
    zt_nn_weight *list = grown(nn->ctx, nn->weight, nn->n_weights, &nn->weights_room, sizeof *list);
    if (!list) return ZT_ENOMEM;
    nn->weight = list;
    snprintf(name, sizeof name, "%s.%s", l->path, p->name);
    zt_nn_weight *w = &list[nn->n_weights];
    *w = (zt_nn_weight){.name = zt_arena_strndup(nn->keep, name, strlen(name)),
                        .type = zt_type_make(ZT_F32, p->rank, p->dim),
                        .value = value,
                        .layer = l};
    if (!w->name) return ZT_ENOMEM;
    nn->n_weights++;
    return ZT_OK;
}

/* Masks are data of a program as weights are, but no weights: "layers.3.mask", f32 of 1 and 0. */
zt_status zt_layer_add_mask(zt_nn *nn, zt_nn_layer *l)
{
    zt_nn_layer **list = grown(nn->ctx, nn->masked, nn->n_masked, &nn->masked_room, sizeof *list);
    if (!list) return ZT_ENOMEM;
    nn->masked = list;
    l->mask_index = nn->n_masked;
    list[nn->n_masked++] = l;
    return ZT_OK;
}

/* ---- drawn ----------------------------------------------------------------------------------- */

/* Uniform by fan in and fan out (Glorot and Bengio, 2010); ones and zeros where a part begins so.
 */
static void draw(const zt_nn *nn, const nn_part *p, int64_t index, float *out, int64_t n)
{
    int64_t in = 1, outs = p->dim[0];
    for (int d = 1; d < p->rank; d++) in *= p->dim[d];
    for (int d = 2; d < p->rank; d++) outs *= p->dim[d];
    double most = sqrt(6.0 / (double)(in + outs));
    for (int64_t i = 0; i < n; i++)
        out[i] = p->init == NN_INIT_FAN
                     ? (float)(most * (2 * zt_uniform(nn->seed, (uint64_t)index, (uint64_t)i) - 1))
                     : (float)(p->init == NN_INIT_ONE);
}

/* ---- from a document ------------------------------------------------------------------------- */

static zt_status read_masters(zt_nn *nn, zt_nn_layer *l, zt_netjson *j, int64_t t, float *out,
                              int64_t n)
{
    zt_net_weights are = zt_netjson_weights(j, t);
    size_t bytes = zt_netjson_get(j, t)->bytes;
    if (bytes != zt_net_bytes(&are, n))
        return zt_layer_bad(nn, l, "%" PRId64 " weights of %s are %zu bytes, the document has %zu",
                            n, are.native ? zt_netjson_word(are.type) : "float32",
                            zt_net_bytes(&are, n), bytes);
    l->dtype = are.type;
    l->scale = are.scale;
    if (are.native) l->rule = are.rule;
    l->settled = are.native;
    void *raw = zt_alloc(nn->ctx, bytes);
    zt_status s = raw ? zt_netjson_read(j, t, 0, raw, bytes) : ZT_ENOMEM;
    if (!s) zt_net_decode(&are, raw, n, out);
    zt_free(nn->ctx, raw);
    for (int64_t i = 0; i < n && !s; i++)
        if (!isfinite(out[i]))
            s = zt_layer_bad(nn, l, "weight %" PRId64 " is %g", i, (double)out[i]);
    return s;
}

/* Numbers of all parts; 0 and a message where they cannot be counted. */
static int64_t count_parts(const zt_nn *nn, const zt_nn_layer *l, const nn_part *part, int parts)
{
    int64_t n = 0, one;
    for (int k = 0; k < parts; k++) {
        one = 1;
        for (int d = 0; d < part[k].rank; d++)
            if (part[k].dim[d] < 1 || !zt_mul_i64(one, part[k].dim[d], &one) || one > INT32_MAX)
                return zt_layer_bad(nn, l, "weight %s is of no size, or of more than 2^31 numbers",
                                    part[k].name),
                       0;
        n += one;
    }
    return n;
}

/* By the field's rule masters count in its scale for them. */
static void scale_anew(const zt_nn *nn, zt_nn_layer *l)
{
    l->rule = ZT_RULE_FIELD;
    l->scale = zt_storage_scale(l->dtype, nn->weight[l->weights].value, zt_nn_layer_size(nn, l));
}

zt_status zt_layer_take_weights(zt_nn *nn, zt_nn_layer *l, zt_netjson *j, bool borrows)
{
    char path[1 << 12];
    nn_part part[NN_MAX_PARTS];
    const nn_kind *k = zt_layer_kind_of(l->kind);
    int parts = k->parts && !borrows ? k->parts(l, part) : 0;
    int64_t n = count_parts(nn, l, part, parts);
    l->weights = nn->n_weights;
    if (parts && !n) return zt_ctx_status(nn->ctx);
    snprintf(path, sizeof path, "%s.weights", l->path);
    int64_t t = j ? zt_netjson_find(j, path) : -1;
    if (t >= 0 && !parts && zt_netjson_get(j, t)->bytes)
        return zt_layer_bad(nn, l, "it has no weights, the document has some");
    float *m = parts ? new_masters(nn, n) : NULL;
    if (parts && !m) return ZT_ENOMEM;
    zt_status s = t >= 0 && parts ? read_masters(nn, l, j, t, m, n) : ZT_OK;
    for (int i = 0; i < parts && !s; i++) {
        int64_t size = 1;
        for (int d = 0; d < part[i].rank; d++) size *= part[i].dim[d];
        if (t < 0) draw(nn, &part[i], nn->n_weights, m, size);
        s = add_weight(nn, l, &part[i], m);
        m += size;
    }
    l->n_weights = nn->n_weights - l->weights;
    if (!s && t < 0 && parts && l->dtype != ZT_STORE_F32) scale_anew(nn, l);
    return s;
}

/* ---- looking --------------------------------------------------------------------------------- */

int64_t zt_nn_n_weights(const zt_nn *nn) { return nn->n_weights; }
const zt_nn_weight *zt_nn_weight_at(const zt_nn *nn, int64_t i) { return &nn->weight[i]; }

int64_t zt_nn_layer_size(const zt_nn *nn, const zt_nn_layer *l)
{
    int64_t n = 0;
    for (int64_t i = 0; i < l->n_weights; i++) n += zt_type_count(&nn->weight[l->weights + i].type);
    return n;
}

static zt_type mask_type(const zt_nn_layer *l) { return zt_type_make(ZT_F32, 1, &l->n_mask); }

/* Handles are numbers of weights and, behind these, of masks. */
static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    zt_nn *nn = user;
    *handle = zt_map_find(nn->names, name);
    if (*handle < 0) return ZT_ENOENT;
    *type = *handle < nn->n_weights ? nn->weight[*handle].type
                                    : mask_type(nn->masked[*handle - nn->n_weights]);
    return ZT_OK;
}

/* Number i of a tensor. */
static float number_at(const zt_nn *nn, int64_t handle, size_t i)
{
    if (handle >= nn->n_weights) return nn->masked[handle - nn->n_weights]->mask[i];
    const zt_nn_weight *w = &nn->weight[handle];
    return w->layer->settled ? w->value[i] : zt_layer_precise(w->layer, w->value[i]);
}

/* In whole numbers, as engines read f32. */
static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    zt_nn *nn = user;
    float *to = dst;
    if (offset % sizeof *to || n % sizeof *to)
        return zt_fail(nn->ctx, ZT_EBUG, "%s: part of a number is read", nn->name);
    for (size_t i = 0; i < n / sizeof *to; i++)
        to[i] = number_at(nn, handle, offset / sizeof *to + i);
    return ZT_OK;
}

static zt_status masters_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    const zt_nn *nn = user;
    if (handle >= nn->n_weights) return store_read(user, handle, offset, dst, n);
    memcpy(dst, (const char *)nn->weight[handle].value + offset, n);
    return ZT_OK;
}

static zt_status name_all(zt_nn *nn)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < nn->n_weights && !s; i++)
        s = zt_map_put(nn->names, nn->weight[i].name, strlen(nn->weight[i].name), i);
    for (int64_t i = 0; i < nn->n_masked && !s; i++) {
        const char *name = zt_layer_mask_name(nn, nn->masked[i]);
        s = name ? zt_map_put(nn->names, name, strlen(name), nn->n_weights + i) : ZT_ENOMEM;
    }
    return s;
}

const char *zt_layer_mask_name(const zt_nn *nn, const zt_nn_layer *l)
{
    char name[1 << 12];
    snprintf(name, sizeof name, "%s.mask", l->path);
    return zt_arena_strndup(nn->keep, name, strlen(name));
}

zt_store zt_nn_store(zt_nn *nn)
{
    if (!nn->names) nn->names = zt_map_new(nn->ctx, (size_t)(nn->n_weights + nn->n_masked) + 1);
    if (!nn->names || (zt_map_count(nn->names) == 0 && name_all(nn))) return (zt_store){0};
    return (zt_store){.user = nn, .find = store_find, .read = store_read};
}

zt_store zt_nn_masters(zt_nn *nn)
{
    zt_store s = zt_nn_store(nn);
    if (s.read) s.read = masters_read;
    return s;
}

zt_status zt_nn_put(zt_nn *nn, const char *name, const float *value, int64_t n)
{
    int64_t i = zt_nn_store(nn).read ? zt_map_find(nn->names, name) : -1;
    if (i < 0 || i >= nn->n_weights)
        return zt_fail(nn->ctx, ZT_EUSAGE, "%s: it has no weight '%s'", nn->name, name);
    const zt_nn_weight *w = &nn->weight[i];
    if (n != zt_type_count(&w->type))
        return zt_fail(nn->ctx, ZT_ESHAPE, "%s: '%s' has %" PRId64 " numbers, not %" PRId64,
                       nn->name, name, zt_type_count(&w->type), n);
    memcpy(w->value, value, (size_t)n * sizeof *value);
    if (w->layer->settled) w->layer->rule = ZT_RULE_FIELD; /* codes go to the nearest code */
    w->layer->settled = w->layer->dtype == ZT_STORE_F32;
    if (w->layer->rule == ZT_RULE_FIELD) scale_anew(nn, w->layer);
    return ZT_OK;
}

void zt_nn_set_dtype(zt_nn *nn, zt_storage t)
{
    for (int64_t i = 0; i < nn->n_weights; i++) {
        zt_nn_layer *l = nn->weight[i].layer;
        if (i != l->weights) continue;
        l->dtype = t;
        scale_anew(nn, l);
        l->settled = t == ZT_STORE_F32;
    }
}
