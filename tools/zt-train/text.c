/* text.c - language models as learners: a new one or one from a file, and windows of a text. */
#include "tools/zt-train/train_tool.h"

#include <string.h>

struct train_text {
    zt_ctx *ctx;
    zt_ids ids;
    int64_t window, batch;
    uint64_t seed;
    int32_t *inputs, *target, *pos; /* [batch, window] */
};

/* ---- the model ------------------------------------------------------------------------------- */

static zt_gguf *new_model(train_learner *learner, const train_options *options, const char *text, size_t length)
{
    zt_llm_shape shape;
    if (zt_llm_shape_for(learner->cli->ctx, options->arch, (int64_t)options->size, options->vocab, &shape)) return NULL;
    shape.ctx = options->ctx;
    shape.seed = learner->cli->seed;
    return zt_llm_new(learner->cli->ctx, &shape, text, length);
}

/* Divisors of rope are the model's, not learned. */
static bool is_weight(const train_learner *learner, const char *name)
{
    (void)learner;
    return strncmp(name, "rope_", 5) != 0;
}

/* Is the tensor one of those that are learned? */
static bool is_learned(const train_learner *learner, const char *name)
{
    for (int i = 0; i < learner->weight_count; i++)
        if (!strcmp(learner->weights[i].name, name)) return true;
    return false;
}

/* The tensors of the file that are not learned: divisors of rope, and those that the forward pass does not read, such as some of the
 * first layer of RWKV-7. */
static zt_status keep_others(train_learner *learner, const zt_checkpoint *checkpoint, const zt_store *store)
{
    int unread = 0;
    zt_status status = ZT_OK;
    char first[160] = "";
    for (int64_t i = 0; i < zt_checkpoint_count(checkpoint) && !status; i++) {
        zt_entry entry;
        zt_checkpoint_get(checkpoint, i, &entry);
        if (is_learned(learner, entry.name)) continue;
        if (is_weight(learner, entry.name) && unread++ == 0) zt_escape(first, sizeof first, entry.name, strlen(entry.name));
        status = train_learner_keep(learner, &entry, store);
    }
    if (!status && unread == 1) zt_cli_note(learner->cli, "tensor '%s' is not used in training: it stays the same", first);
    if (!status && unread > 1)
        zt_cli_note(learner->cli, "%d tensors, such as '%s', are not used in training: they stay the same", unread, first);
    return status;
}

/* Weights and what is written beside them; gguf is taken over. */
static zt_status take_model(train_learner *learner, zt_gguf *gguf)
{
    zt_ctx *ctx = learner->cli->ctx;
    zt_checkpoint *checkpoint = zt_checkpoint_of_gguf(ctx, gguf);
    if (!checkpoint) return zt_ctx_status(ctx);
    zt_store store = zt_checkpoint_store(checkpoint);
    zt_status status = train_learner_weights(learner, &store, is_weight);
    if (!status) status = keep_others(learner, checkpoint, &store);
    learner->meta = status ? NULL : zt_meta_new(ctx);
    if (!status) status = learner->meta ? zt_meta_join(learner->meta, zt_checkpoint_meta(checkpoint)) : ZT_ENOMEM;
    zt_checkpoint_close(checkpoint);
    return status;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Texts begin anywhere: a draw of (seed, epoch, place in it). */
static zt_status get_batch(void *user, uint64_t epoch, int64_t batch, const void **inputs, zt_binding *bindings,
                           int *binding_count, int64_t *samples)
{
    train_text *corpus = user;
    double room = (double)((int64_t)corpus->ids.count - corpus->window);
    for (int64_t row = 0; row < corpus->batch; row++) {
        int64_t offset = (int64_t)(room * zt_uniform(corpus->seed, epoch, (uint64_t)(batch * corpus->batch + row)));
        memcpy(corpus->inputs + row * corpus->window, corpus->ids.id + offset, (size_t)corpus->window * sizeof *corpus->inputs);
        memcpy(corpus->target + row * corpus->window, corpus->ids.id + offset + 1,
               (size_t)corpus->window * sizeof *corpus->inputs);
    }
    inputs[0] = corpus->inputs;
    inputs[1] = corpus->target;
    inputs[2] = corpus->pos;
    bindings[0] = (zt_binding){"n", corpus->batch};
    *binding_count = 1;
    *samples = corpus->batch;
    return ZT_OK;
}

static zt_status make_room(train_text *corpus)
{
    size_t length = (size_t)(corpus->batch * corpus->window);
    corpus->inputs = zt_alloc_array(corpus->ctx, length, sizeof *corpus->inputs);
    corpus->target = zt_alloc_array(corpus->ctx, length, sizeof *corpus->inputs);
    corpus->pos = zt_alloc_array(corpus->ctx, length, sizeof *corpus->inputs);
    if (!corpus->inputs || !corpus->target || !corpus->pos) return ZT_ENOMEM;
    for (size_t i = 0; i < length; i++) corpus->pos[i] = (int32_t)(i % (size_t)corpus->window);
    return ZT_OK;
}

zt_batches train_text_batches(train_text *corpus)
{
    int64_t windows = (int64_t)corpus->ids.count / corpus->window, batches = windows / corpus->batch;
    return (zt_batches){.user = corpus, .per_epoch = batches ? batches : 1, .get = get_batch};
}

const void *train_text_bytes(const train_text *corpus, size_t *size_out)
{
    *size_out = corpus->ids.count * sizeof *corpus->ids.id;
    return corpus->ids.id;
}

void train_text_free(train_text *corpus)
{
    if (!corpus) return;
    zt_ids_fini(corpus->ctx, &corpus->ids);
    zt_free(corpus->ctx, corpus->inputs);
    zt_free(corpus->ctx, corpus->target);
    zt_free(corpus->ctx, corpus->pos);
    zt_free(corpus->ctx, corpus);
}

/* ---- both ------------------------------------------------------------------------------------ */

static zt_status encode_text(train_text *corpus, const zt_gguf *gguf, const char *path, const char *text, size_t length)
{
    zt_vocab *vocab = zt_vocab_open(gguf);
    zt_status status = vocab ? zt_vocab_encode(vocab, text, length, 0, &corpus->ids) : zt_ctx_status(corpus->ctx);
    zt_vocab_free(vocab);
    if (status || (int64_t)corpus->ids.count > corpus->window) return status;
    return zt_fail(corpus->ctx, ZT_EDATA, "%s: %zu tokens are too few for a window of %lld and one more token", path,
                   corpus->ids.count, (long long)corpus->window);
}

static zt_status open_both(train_learner *learner, const train_options *options, train_text *corpus)
{
    size_t length;
    char *text = zt_read_all(corpus->ctx, options->text, &length);
    if (!text || zt_foreign_text_fail(corpus->ctx, options->text, text, length)) {
        zt_free(corpus->ctx, text);
        return zt_ctx_status(corpus->ctx);
    }
    zt_gguf *gguf = options->model ? zt_model_open(corpus->ctx, options->model) : new_model(learner, options, text, length);
    zt_status status = gguf ? encode_text(corpus, gguf, options->text, text, length) : zt_ctx_status(corpus->ctx);
    zt_free(corpus->ctx, text);
    if (!status) status = make_room(corpus);
    if (!status && options->lora) return train_adapter_open(learner, options, gguf);
    learner->forward = status ? NULL : zt_llm_training(gguf, options->ctx);
    if (!status && learner->forward) return take_model(learner, gguf);
    zt_gguf_close(gguf);
    return status ? status : zt_ctx_status(corpus->ctx);
}

train_learner *train_text_open(zt_cli *cli, const train_options *options, train_text **text)
{
    train_learner *learner = zt_calloc(cli->ctx, 1, sizeof *learner);
    train_text *corpus = zt_calloc(cli->ctx, 1, sizeof *corpus);
    if (learner) learner->cli = cli;
    if (corpus) *corpus = (train_text){.ctx = cli->ctx, .window = options->ctx, .batch = options->batch, .seed = cli->seed};
    *text = corpus;
    if (learner && corpus && open_both(learner, options, corpus) == ZT_OK) return learner;
    train_learner_close(learner);
    return NULL;
}
