/* text.c - language models as learners: a new one or one from a file, and windows of a text. */
#include "tools/zt-train/train_tool.h"

#include <string.h>

struct train_text {
    zt_ctx *ctx;
    zt_ids ids;
    int64_t T, batch;
    uint64_t seed;
    int32_t *in, *target, *pos; /* [batch, T] */
};

/* ---- the model ------------------------------------------------------------------------------- */

static zt_gguf *new_model(train_learner *l, const train_options *o, const char *text, size_t n)
{
    zt_llm_shape s;
    if (zt_llm_shape_of(l->cli->ctx, (int64_t)o->size, o->vocab, &s)) return NULL;
    s.arch = o->arch;
    s.ctx = o->ctx;
    s.seed = l->cli->seed;
    return zt_llm_new(l->cli->ctx, &s, text, n);
}

/* Divisors of rope are the model's, not learned. */
static bool is_weight(const train_learner *l, const char *name)
{
    (void)l;
    return strncmp(name, "rope_", 5) != 0;
}

/* Weights and what is written beside them; g is taken over. */
static zt_status take_model(train_learner *l, zt_gguf *g)
{
    zt_ctx *ctx = l->cli->ctx;
    zt_checkpoint *c = zt_checkpoint_of_gguf(ctx, g);
    if (!c) return zt_ctx_status(ctx);
    zt_store store = zt_checkpoint_store(c);
    zt_status s = train_learner_weights(l, &store, is_weight);
    if (!s && l->n != zt_checkpoint_count(c))
        s = zt_fail(ctx, ZT_ENOTSUP,
                    "%s: models with tensors that are not learned cannot be trained",
                    zt_checkpoint_name(c));
    l->meta = s ? NULL : zt_meta_new(ctx);
    if (!s) s = l->meta ? zt_meta_join(l->meta, zt_checkpoint_meta(c)) : ZT_ENOMEM;
    zt_checkpoint_close(c);
    return s;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Texts begin anywhere: a draw of (seed, epoch, place in it). */
static zt_status get(void *user, uint64_t epoch, int64_t batch, const void **in, zt_binding *b,
                     int *n, int64_t *samples)
{
    train_text *t = user;
    double room = (double)((int64_t)t->ids.count - t->T);
    for (int64_t r = 0; r < t->batch; r++) {
        int64_t at = (int64_t)(room * zt_uniform(t->seed, epoch, (uint64_t)(batch * t->batch + r)));
        memcpy(t->in + r * t->T, t->ids.id + at, (size_t)t->T * sizeof *t->in);
        memcpy(t->target + r * t->T, t->ids.id + at + 1, (size_t)t->T * sizeof *t->in);
    }
    in[0] = t->in;
    in[1] = t->target;
    in[2] = t->pos;
    b[0] = (zt_binding){"n", t->batch};
    *n = 1;
    *samples = t->batch;
    return ZT_OK;
}

static zt_status make_room(train_text *t)
{
    size_t n = (size_t)(t->batch * t->T);
    t->in = zt_alloc_array(t->ctx, n, sizeof *t->in);
    t->target = zt_alloc_array(t->ctx, n, sizeof *t->in);
    t->pos = zt_alloc_array(t->ctx, n, sizeof *t->in);
    if (!t->in || !t->target || !t->pos) return ZT_ENOMEM;
    for (size_t i = 0; i < n; i++) t->pos[i] = (int32_t)(i % (size_t)t->T);
    return ZT_OK;
}

zt_batches train_text_batches(train_text *t)
{
    int64_t windows = (int64_t)t->ids.count / t->T, batches = windows / t->batch;
    return (zt_batches){.user = t, .per_epoch = batches ? batches : 1, .get = get};
}

const void *train_text_bytes(const train_text *t, size_t *n)
{
    *n = t->ids.count * sizeof *t->ids.id;
    return t->ids.id;
}

void train_text_free(train_text *t)
{
    if (!t) return;
    zt_ids_fini(t->ctx, &t->ids);
    zt_free(t->ctx, t->in);
    zt_free(t->ctx, t->target);
    zt_free(t->ctx, t->pos);
    zt_free(t->ctx, t);
}

/* ---- both ------------------------------------------------------------------------------------ */

static zt_status encode(train_text *t, const zt_gguf *g, const char *path, const char *text,
                        size_t n)
{
    zt_vocab *v = zt_vocab_open(g);
    zt_status s = v ? zt_vocab_encode(v, text, n, 0, &t->ids) : zt_ctx_status(t->ctx);
    zt_vocab_free(v);
    if (s || (int64_t)t->ids.count > t->T) return s;
    return zt_fail(t->ctx, ZT_EDATA, "%s: %zu tokens, and a window has %lld and the next one", path,
                   t->ids.count, (long long)t->T);
}

static zt_status open_both(train_learner *l, const train_options *o, train_text *t)
{
    size_t n;
    char *text = zt_read_all(t->ctx, o->text, &n);
    if (!text || zt_foreign_text_fail(t->ctx, o->text, text, n)) {
        zt_free(t->ctx, text);
        return zt_ctx_status(t->ctx);
    }
    zt_gguf *g = o->model ? zt_model_open(t->ctx, o->model) : new_model(l, o, text, n);
    zt_status s = g ? encode(t, g, o->text, text, n) : zt_ctx_status(t->ctx);
    zt_free(t->ctx, text);
    if (!s) s = make_room(t);
    l->forward = s ? NULL : zt_llm_training(g, o->ctx);
    if (!s && l->forward) return take_model(l, g);
    zt_gguf_close(g);
    return s ? s : zt_ctx_status(t->ctx);
}

train_learner *train_text_open(zt_cli *cli, const train_options *o, train_text **text)
{
    train_learner *l = zt_calloc(cli->ctx, 1, sizeof *l);
    train_text *t = zt_calloc(cli->ctx, 1, sizeof *t);
    if (l) l->cli = cli;
    if (t) *t = (train_text){.ctx = cli->ctx, .T = o->ctx, .batch = o->batch, .seed = cli->seed};
    *text = t;
    if (l && t && open_both(l, o, t) == ZT_OK) return l;
    train_learner_close(l);
    return NULL;
}
