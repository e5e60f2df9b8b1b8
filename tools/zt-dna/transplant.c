/* transplant.c - zt-dna transplant: a model with the tokenizer of another. */
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

/* A model with its tokens as bytes. */
typedef struct token_model {
    zt_checkpoint *checkpoint;
    zt_gguf *gguf; /* its metadata */
    zt_vocab *vocab;
    zt_str bytes; /* of all texts */
    zt_transplant_token *tokens;
    zt_transplant_vocab listed;
} token_model;

typedef struct transplant_run {
    zt_cli *cli;
    token_model model, donor;
    zt_ids ids; /* of the last text */
} transplant_run;

const char *dna_transplant_names(const void *user, int i)
{
    (void)user;
    return zt_transplant_method_name(i);
}

/* ---- vocabularies ---------------------------------------------------------------------------- */

static zt_status no_tensor(void *user, int64_t i, uint64_t offset, void *dst, size_t count)
{
    (void)user, (void)i, (void)offset, (void)dst, (void)count;
    return ZT_EUSAGE;
}

/* The metadata of a checkpoint as a GGUF without tensors, from which a vocabulary is opened. */
static zt_gguf *open_metadata(zt_ctx *ctx, zt_checkpoint *checkpoint)
{
    static const zt_entry none;
    zt_checkpoint *bare = zt_checkpoint_of_made(ctx, &(zt_made){.name = zt_checkpoint_name(checkpoint),
                                                                .container = zt_container_named("gguf"),
                                                                .entries = &none,
                                                                .meta = zt_checkpoint_meta(checkpoint),
                                                                .read = no_tensor});
    return bare ? zt_checkpoint_gguf(bare) : NULL;
}

static bool is_byte_token(const zt_vocab *vocab, int32_t id, const char *byte)
{
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned char)*byte);
    return zt_vocab_find(vocab, name, strlen(name)) == id;
}

static void put_roles(token_model *model)
{
    static const char *const keys[ZT_TRANSPLANT_ROLES] = {"bos", "eos", "unknown", "seperator", "padding", "cls", "mask"};
    for (int role = 0; role < ZT_TRANSPLANT_ROLES; role++) {
        char key[80];
        int64_t id = -1;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", keys[role]); /* "seperator": so spelt in GGUF */
        model->listed.roles[role] = zt_gguf_i64(model->gguf, key, &id) ? id : -1;
    }
    if (zt_vocab_bos(model->vocab) >= 0) model->listed.roles[0] = zt_vocab_bos(model->vocab);
    if (zt_vocab_eos(model->vocab) >= 0) model->listed.roles[1] = zt_vocab_eos(model->vocab);
    enum { MOST = 64 };
    int64_t ends[MOST], count;
    zt_gguf_kind kind;
    const char *key = "tokenizer.ggml.eos_token_ids"; /* all that may end a text, EOS first */
    if (model->listed.roles[1] < 0 && zt_gguf_array(model->gguf, key, &kind, &count) && count > 0 && count <= MOST &&
        zt_gguf_array_i64(model->gguf, key, ends, count))
        model->listed.roles[1] = ends[0];
}

static zt_status list_tokens(zt_ctx *ctx, token_model *model)
{
    const int32_t count = zt_vocab_size(model->vocab);
    size_t *starts = zt_alloc_array(ctx, (size_t)count + 1, sizeof *starts);
    model->tokens = zt_calloc(ctx, (size_t)count + 1, sizeof *model->tokens);
    zt_status status = starts && model->tokens ? ZT_OK : ZT_ENOMEM;
    for (int32_t id = 0; id < count && status == ZT_OK; id++) {
        starts[id] = model->bytes.len;
        status = zt_vocab_decode(model->vocab, id, true, false, &model->bytes);
    }
    for (int32_t id = 0; id < count && status == ZT_OK; id++) {
        zt_transplant_token *token = &model->tokens[id];
        token->text =
            (zt_bytes){model->bytes.data + starts[id], (id + 1 < count ? starts[id + 1] : model->bytes.len) - starts[id]};
        token->kind = zt_vocab_is_control(model->vocab, id)                                     ? ZT_TRANSPLANT_SPECIAL
                      : token->text.n == 1 && is_byte_token(model->vocab, id, token->text.data) ? ZT_TRANSPLANT_BYTE
                                                                                                : ZT_TRANSPLANT_TEXT;
    }
    zt_free(ctx, starts);
    model->listed.tokens = model->tokens;
    model->listed.count = count;
    if (status == ZT_OK) put_roles(model);
    return status;
}

static zt_status open_model(zt_cli *cli, token_model *model, const char *path)
{
    zt_status status = zt_cli_refuse_same(cli, path, cli->output);
    zt_str_init(&model->bytes, cli->ctx);
    model->checkpoint = status == ZT_OK ? dna_open_checkpoint(cli, path) : NULL;
    model->gguf = model->checkpoint ? open_metadata(cli->ctx, model->checkpoint) : NULL;
    model->vocab = model->gguf ? zt_vocab_open(model->gguf) : NULL;
    if (!model->vocab) return zt_ctx_status(cli->ctx);
    if (zt_vocab_is_pieces(model->vocab))
        return zt_fail(cli->ctx, ZT_ENOTSUP, "%s: a tokenizer that is only a SentencePiece model cannot be transplanted", path);
    return list_tokens(cli->ctx, model);
}

static void close_model(zt_cli *cli, token_model *model)
{
    zt_vocab_free(model->vocab);
    zt_gguf_close(model->gguf);
    zt_checkpoint_close(model->checkpoint);
    zt_free(cli->ctx, model->tokens);
    zt_str_fini(&model->bytes);
}

/* ---- the work -------------------------------------------------------------------------------- */

static zt_status encode_text(void *user, zt_bytes text, const int32_t **ids, size_t *count)
{
    transplant_run *run = user;
    run->ids.count = 0;
    zt_status status = zt_vocab_encode(run->model.vocab, text.data, text.n, 0, &run->ids);
    *ids = run->ids.id;
    *count = run->ids.count;
    return status;
}

static void on_progress(void *user, const char *tensor, double done, double total)
{
    zt_progress(((transplant_run *)user)->cli, &(zt_work){"transplant", tensor, "rows", done, total});
}

static zt_status find_method(zt_cli *cli, const char *name, zt_transplant_method *method)
{
    int i = 0;
    while (name && zt_transplant_method_name(i) && strcmp(name, zt_transplant_method_name(i))) i++;
    *method = (zt_transplant_method)i;
    return zt_transplant_method_name(i) ? ZT_OK
                                        : zt_fail_unknown(cli->ctx, ZT_EUSAGE, "transplant: unknown method", name, strlen(name),
                                                          dna_transplant_names, NULL);
}

static zt_status write_transplant(transplant_run *run, const dna_options *options)
{
    zt_cli *cli = run->cli;
    zt_transplant_counts counts;
    zt_transplant_opts opts = {.k = options->k,
                               .threads = (int)cli->threads,
                               .encode = encode_text,
                               .stop = zt_cli_interrupted,
                               .progress = on_progress,
                               .user = run};
    zt_status status = find_method(cli, options->method, &opts.method);
    zt_checkpoint *made = status == ZT_OK ? zt_transplant_new(cli->ctx, run->model.checkpoint, &run->model.listed,
                                                              run->donor.checkpoint, &run->donor.listed, &opts, &counts)
                                          : NULL;
    if (!made) return zt_ctx_status(cli->ctx);
    if (cli->verbose)
        zt_cli_note(cli, "%lld tokens have rows of %s, %lld are approximated, %lld have zeros", (long long)counts.shared,
                    zt_checkpoint_name(run->model.checkpoint), (long long)counts.approximated, (long long)counts.without);
    return dna_write_made(cli, options, made, "transplant");
}

zt_status dna_transplant(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    (void)count;
    transplant_run run = {.cli = cli};
    if (!cli->output || !*cli->output) return zt_fail(cli->ctx, ZT_EUSAGE, "transplant: no output: specify one with -o FILE");
    zt_status status = open_model(cli, &run.model, operands[0]);
    if (status == ZT_OK) status = open_model(cli, &run.donor, operands[1]);
    if (status == ZT_OK) status = write_transplant(&run, options);
    zt_ids_fini(cli->ctx, &run.ids);
    close_model(cli, &run.model);
    close_model(cli, &run.donor);
    return status;
}
