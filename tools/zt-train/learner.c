/* learner.c - what -m names: a forward program with a loss, and its weights. */
#include "tools/zt-train/train_tool.h"

#include <math.h>
#include <string.h>

/* ---- a store over the weights, and what is below --------------------------------------------- */

static zt_status find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const train_learner *l = user;
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->weight[i].name, name)) {
            *type = l->weight[i].type;
            *handle = i;
            return ZT_OK;
        }
    zt_status s = l->below.find ? l->below.find(l->below.user, name, type, handle) : ZT_ENOENT;
    *handle += l->n;
    return s;
}

static zt_status read_bytes(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    const train_learner *l = user;
    if (handle >= l->n) return l->below.read(l->below.user, handle - l->n, offset, dst, n);
    memcpy(dst, (const char *)l->weight[handle].value + offset, n);
    return ZT_OK;
}

zt_store train_learner_store(train_learner *l) { return (zt_store){l, find, read_bytes}; }

/* ---- weights --------------------------------------------------------------------------------- */

/* What is in no file: normal, of deviation 1/sqrt(numbers that are summed) for matrices and
 * filters, 0 for vectors. Each weight has a sequence of its own, by its number. */
static void draw(train_weight *w, uint64_t seed, int number)
{
    int64_t count = zt_type_count(&w->type), fan = w->type.rank > 1 ? count / w->type.dim[0] : 0;
    double deviation = fan > 0 ? 1 / sqrt((double)fan) : 0;
    for (int64_t i = 0; i < count; i++)
        w->value[i] = (float)(deviation * zt_normal(seed, (uint64_t)number, (uint64_t)i));
}

/* From `store`, in any type that becomes f32; *found false: it has none of the name. */
static zt_status fetch(zt_ctx *ctx, train_weight *w, const zt_store *store, bool *found)
{
    char a[ZT_TYPE_TEXT], b[ZT_TYPE_TEXT];
    zt_type have;
    int64_t handle;
    zt_status s = store->find ? store->find(store->user, w->name, &have, &handle) : ZT_ENOENT;
    *found = s != ZT_ENOENT;
    if (s) return *found ? s : ZT_OK;
    zt_type as = have;
    as.dtype = ZT_F32;
    if (!zt_type_equal(&as, &w->type) ||
        (have.dtype != ZT_F32 && !zt_dtype_converts(have.dtype, ZT_F32)))
        return zt_fail(ctx, ZT_EDATA, "tensor '%s' is %s, and the program's %s", w->name,
                       zt_type_text(&have, a), zt_type_text(&w->type, b));
    char *raw = zt_alloc(ctx, zt_type_bytes(&have) + 1);
    s = raw ? store->read(store->user, handle, 0, raw, zt_type_bytes(&have)) : ZT_ENOMEM;
    if (!s) zt_dtype_convert(have.dtype, raw, ZT_F32, w->value, zt_type_count(&w->type));
    zt_free(ctx, raw);
    return s;
}

static zt_status add_weight(train_learner *l, const zt_value *v, const zt_store *store)
{
    zt_ctx *ctx = l->cli->ctx;
    train_weight *w = &l->weight[l->n];
    bool found = false;
    if (v->type.dtype != ZT_F32)
        return zt_fail(ctx, ZT_EUSAGE, "data '%s' is %s: weights that are trained are f32", v->name,
                       zt_dtype_get(v->type.dtype)->name);
    for (int d = 0; d < v->type.rank; d++)
        if (v->type.dim[d] < 0)
            return zt_fail(ctx, ZT_EUSAGE, "data '%s' has no fixed shape", v->name);
    w->name = zt_strdup(ctx, v->tensor);
    w->type = v->type;
    w->value = zt_alloc(ctx, zt_type_bytes(&v->type) + 1);
    l->n++;
    zt_status s = w->name && w->value ? fetch(ctx, w, store, &found) : ZT_ENOMEM;
    if (!s && !found) draw(w, l->cli->seed, l->n - 1);
    return s;
}

zt_status train_learner_weights(train_learner *l, const zt_store *from,
                                bool (*is_weight)(const train_learner *l, const char *name))
{
    int n = zt_prog_count(l->forward, ZT_VALUE_DATA);
    l->weight = zt_calloc(l->cli->ctx, (size_t)n + 1, sizeof *l->weight);
    l->trained = zt_calloc(l->cli->ctx, (size_t)n + 1, sizeof *l->trained);
    zt_status s = l->weight && l->trained ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < n && !s; i++) {
        int v = zt_prog_nth(l->forward, ZT_VALUE_DATA, i);
        const zt_value *data = zt_prog_value(l->forward, v);
        if (is_weight && !is_weight(l, data->tensor)) continue;
        l->trained[l->n] = v;
        s = add_weight(l, data, from);
    }
    if (s || l->n) return s;
    return zt_fail(l->cli->ctx, ZT_EUSAGE, "the program has no weights that can be trained");
}

/* ---- programs -------------------------------------------------------------------------------- */

static bool has_loss(const zt_prog *p)
{
    for (int o = 0; o < zt_prog_n_outputs(p); o++)
        if (!strcmp(zt_prog_output(p, o)->name, "loss")) return true;
    return false;
}

/* Has the output y a prediction for each id of a row of x: [n, ids] and [n, ids, classes]? */
static int64_t positions_of(const zt_type *x, const zt_type *y)
{
    int64_t n = 1;
    if (x->rank < 2 || y->rank != x->rank + 1) return 1;
    for (int d = 1; d < x->rank; d++) {
        if (x->dim[d] != y->dim[d]) return 1;
        n *= x->dim[d];
    }
    return n;
}

static zt_status find_output(zt_cli *cli, const zt_prog *p, int64_t batch, train_output *out)
{
    zt_binding n = {zt_prog_n_symbols(p) ? zt_prog_symbol_name(p, 0) : "n", batch};
    zt_bound *b = zt_prog_bind(p, &n, 1);
    *out = (train_output){.output = 0};
    if (!b) return zt_ctx_status(cli->ctx);
    while (out->output < zt_prog_n_outputs(p) &&
           !strcmp(zt_prog_output(p, out->output)->name, "loss"))
        out->output++;
    bool there = out->output < zt_prog_n_outputs(p);
    zt_type t = there ? b->type[zt_prog_output(p, out->output)->value] : (zt_type){0};
    int first = zt_prog_nth(p, ZT_VALUE_IN, 0);
    out->positions = there && first >= 0 ? positions_of(&b->type[first], &t) : 1;
    zt_bound_free(b);
    if (!there || t.rank < 1 || t.dtype != ZT_F32 || t.dim[0] != batch)
        return zt_fail(cli->ctx, ZT_EUSAGE, "the program has no output of f32 with rows to judge");
    out->n = zt_type_count(&t) / batch;
    out->classes = t.rank > 1 ? t.dim[t.rank - 1] : 1;
    return out->n > 0 ? ZT_OK : zt_fail(cli->ctx, ZT_EUSAGE, "the program's output is empty");
}

zt_status train_find_output(const train_learner *l, int64_t batch, train_output *out)
{
    return find_output(l->cli, l->forward, batch, out);
}

/* To be judged, a program wants what is expected, after its own inputs: a number a row, or for each
 * position of a row, or one for each output. */
static zt_prog *with_expected(zt_cli *cli, zt_prog *p, const train_options *o)
{
    int first = zt_prog_nth(p, ZT_VALUE_IN, 0);
    const zt_type *x = first < 0 ? NULL : &zt_prog_value(p, first)->type;
    train_output y = {.output = 0};
    bool rows = x && x->rank > 0;
    if (!rows) zt_fail(cli->ctx, ZT_EUSAGE, "the program has no input with rows");
    bool good = rows && find_output(cli, p, o->batch, &y) == ZT_OK;
    int64_t dim[2] = {rows ? x->dim[0] : 0, o->wide ? y.n : y.positions};
    if (good && zt_prog_in(p, "target", ZT_F32, o->wide || y.positions > 1 ? 2 : 1, dim) >= 0)
        return p;
    zt_prog_free(p);
    return NULL;
}

/* The program itself where it has a loss, else one that has. */
zt_prog *train_with_loss(zt_cli *cli, zt_prog *p, const train_options *o)
{
    zt_binding rows = {zt_prog_n_symbols(p) ? zt_prog_symbol_name(p, 0) : "n", o->batch};
    if (has_loss(p) && o->loss < 0) return p;
    if (o->eval) return with_expected(cli, p, o);
    zt_prog *q = zt_train_with_loss(cli->ctx, p, NULL, o->loss < 0 ? ZT_LOSS_MSE
                                                                   : (zt_loss_kind)o->loss,
                                    &rows, 1);
    zt_prog_free(p);
    return q;
}

static zt_status open_program(train_learner *l, const train_options *o)
{
    zt_ctx *ctx = l->cli->ctx;
    zt_prog *p = zt_cli_program(l->cli, o->model);
    if (!p) return zt_ctx_status(ctx);
    l->own_loss = has_loss(p) && o->loss < 0;
    l->forward = train_with_loss(l->cli, p, o);
    if (!l->forward) return zt_ctx_status(ctx);
    zt_checkpoint *c = o->data ? zt_checkpoint_open(ctx, o->data, 0) : NULL;
    if (o->data && !c) return zt_ctx_status(ctx);
    zt_store store = c ? zt_checkpoint_store(c) : (zt_store){0};
    zt_status s = train_learner_weights(l, &store, NULL);
    if (c && !s) {
        l->meta = zt_meta_new(ctx);
        s = l->meta ? zt_meta_join(l->meta, zt_checkpoint_meta(c)) : ZT_ENOMEM;
    }
    zt_checkpoint_close(c);
    return s;
}

/* ---- all ------------------------------------------------------------------------------------- */

train_learner *train_learner_open(zt_cli *cli, const train_options *o)
{
    train_learner *l = zt_calloc(cli->ctx, 1, sizeof *l);
    if (!l) return NULL;
    l->cli = cli;
    zt_status s = train_is_network(cli, o) ? train_open_network(l, o) : open_program(l, o);
    if (!s) return l;
    train_learner_close(l);
    return NULL;
}

void train_learner_close(train_learner *l)
{
    if (!l) return;
    zt_ctx *ctx = l->cli->ctx;
    for (int i = 0; i < l->n; i++) {
        zt_free(ctx, l->weight[i].name);
        zt_free(ctx, l->weight[i].value);
    }
    zt_free(ctx, l->weight);
    zt_free(ctx, l->trained);
    zt_meta_free(l->meta);
    zt_free(ctx, l->seen);
    zt_prog_free(l->forward);
    zt_nn_close(l->nn);
    zt_free(ctx, l);
}

zt_status train_learner_take(train_learner *l, zt_trainer *t)
{
    zt_status s = ZT_OK;
    for (int i = 0; i < zt_trainer_n_weights(t) && !s; i++) {
        const char *name = zt_trainer_state_name(t, i);
        const char *tensor = zt_prog_value(l->forward, zt_prog_find(l->forward, name))->tensor;
        zt_type type;
        int64_t k;
        s = find(l, tensor, &type, &k);
        if (!s) s = zt_trainer_get(t, i, l->weight[k].value);
    }
    return s;
}

/* Is the name one of a container of tensors? */
static bool is_container(const char *path)
{
    const zt_container *c = zt_container_for(path);
    return c && strcmp(zt_container_name(c), "json") != 0;
}

zt_status train_learner_write(train_learner *l, const char *path)
{
    zt_ctx *ctx = l->cli->ctx;
    if (l->nn && !is_container(path)) return train_write_network(l, path);
    zt_entry *e = zt_calloc(ctx, (size_t)l->n + 1, sizeof *e);
    zt_meta *none = l->meta ? NULL : zt_meta_new(ctx);
    for (int i = 0; e && i < l->n; i++)
        e[i] = (zt_entry){.name = l->weight[i].name, .dtype = "f32", .type = l->weight[i].type,
                          .bytes = zt_type_bytes(&l->weight[i].type)};
    zt_checkpoint_opts o = {.force = l->cli->force};
    zt_writer *w = e && (l->meta || none)
                       ? zt_writer_open(ctx, path, &o, l->meta ? l->meta : none, e, l->n)
                       : NULL;
    zt_status s = w ? ZT_OK : zt_ctx_status(ctx);
    for (int i = 0; i < l->n && !s; i++)
        s = zt_writer_put(w, l->weight[i].value, zt_type_bytes(&l->weight[i].type));
    if (!s) s = zt_writer_commit(w);
    zt_writer_close(w);
    zt_meta_free(none);
    zt_free(ctx, e);
    return s;
}
