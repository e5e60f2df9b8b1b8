/* prompt.c - the prompt: where its text comes from, the chat template around it, and its ids.
 *
 * Special tokens of the template are tokens; the same words in the user's text are words, unless
 * --special says else. Nobody can end their own turn by typing the mark that ends it. Apart from
 * that the ids are those of the whole rendered text: what stands between two special tokens is
 * encoded in one piece, whoever wrote it.
 */
#include "tools/zt-run/run.h"

#include <string.h>
#include <unistd.h>

/* A prompt from a file or a pipe loses one newline at its end, "\n" or "\r\n", as $(...) in a shell
 * takes it away: who writes a line into a pipe means its words. Lines of --embed are cut there anyway,
 * and each counts. */
static void drop_newline(run *r)
{
    size_t n = r->input_bytes;
    bool lines = r->o->embed && r->cli->format == ZT_FMT_NDJSON;
    if (n == 0 || lines || r->o->verbatim || r->input[n - 1] != '\n')
        return;
    n -= n > 1 && r->input[n - 2] == '\r' ? 2 : 1;
    r->input[r->input_bytes = n] = 0;
}

zt_status run_read_prompt(run *r)
{
    const run_options *o = r->o;
    if (o->prompt) {
        r->input = zt_strdup(r->ctx, o->prompt);
        r->input_bytes = strlen(o->prompt);
    } else {
        r->input = zt_read_all(r->ctx, o->input ? o->input : "-", &r->input_bytes);
        if (r->input)
            drop_newline(r);
    }
    if (!r->input)
        return zt_ctx_status(r->ctx);
    bool tokens_only = o->tokenize || o->detokenize || o->count;
    if (r->input_bytes == 0 && !tokens_only)
        return zt_fail(r->ctx, ZT_EUSAGE, "the prompt is empty");
    return ZT_OK;
}

/* ---- the template ---------------------------------------------------------------------------- */

static zt_status unknown_template(run *r, const char *name)
{
    char shown[128];
    zt_str names;
    zt_str_init(&names, r->ctx);
    for (int i = 0; zt_template_list(i); i++)
        zt_str_printf(&names, "%s%s", i ? ", " : "", zt_template_list(i));
    zt_status s = zt_ctx_status(r->ctx);
    if (s == ZT_OK)
        s = zt_fail(r->ctx, ZT_EUSAGE, "--template '%s' is no file and none of %s; --raw uses none",
                    zt_escape(shown, sizeof shown, name, strlen(name)), names.data);
    zt_str_fini(&names);
    return s;
}

/* A name that is known, else a file. */
static zt_status named_template(run *r, const char *name)
{
    r->tmpl = zt_template_find(name);
    if (!r->tmpl)
        r->tmpl = r->tmpl_file; /* opened before */
    if (r->tmpl)
        return ZT_OK;
    if (access(name, F_OK) != 0 && !strchr(name, '/') && !strchr(name, '.'))
        return unknown_template(r, name);
    r->tmpl = r->tmpl_file = zt_template_open(r->ctx, name);
    return zt_ctx_status(r->ctx);
}

zt_status run_choose_template(run *r)
{
    if (r->o->raw)
        return ZT_OK;
    if (r->o->template)
        return named_template(r, r->o->template);
    r->tmpl = zt_template_of(r->gguf);
    return zt_ctx_status(r->ctx);
}

/* ---- a conversation into ids ----------------------------------------------------------------- */

typedef struct encoder {
    run *r;
    zt_ids *ids;
    zt_str own;   /* the template's words since the last message */
    zt_str plain; /* text since the last special token */
} encoder;

/* Encode the text since the last special token. */
static zt_status flush_plain(encoder *e)
{
    zt_status s = ZT_OK;
    if (e->plain.len > 0)
        s = zt_vocab_encode(e->r->vocab, e->plain.data, e->plain.len,
                            e->r->o->special ? ZT_TOK_SPECIAL : 0, e->ids);
    zt_str_clear(&e->plain);
    return s;
}

/* One special token of the template, whose text stands at or after `at`: what is before it is
 * plain. `*at` moves behind it. */
static zt_status add_special(encoder *e, int32_t id, const char *text, size_t n, size_t *at)
{
    zt_str word;
    zt_str_init(&word, e->r->ctx);
    zt_status s = zt_vocab_decode(e->r->vocab, id, true, false, &word);
    const char *hit = NULL;
    if (s == ZT_OK && word.len)
        hit = memmem(text + *at, n - *at, word.data, word.len);
    if (hit) {
        s = zt_str_put(&e->plain, text + *at, (size_t)(hit - text) - *at);
        *at = (size_t)(hit - text) + word.len;
        if (s == ZT_OK)
            s = flush_plain(e);
        if (s == ZT_OK)
            s = zt_ids_push(e->r->ctx, e->ids, id);
    }
    zt_str_fini(&word);
    return s;
}

/* The template's words so far: those of its special tokens are tokens. */
static zt_status add_own(encoder *e)
{
    const char *text = e->own.data ? e->own.data : "";
    size_t n = e->own.len;
    zt_ids ids = {0};
    size_t at = 0;
    zt_status s = zt_vocab_encode(e->r->vocab, text, n, ZT_TOK_SPECIAL, &ids);
    for (size_t i = 0; i < ids.n && s == ZT_OK; i++)
        if (zt_vocab_is_control(e->r->vocab, ids.id[i]))
            s = add_special(e, ids.id[i], text, n, &at);
    zt_ids_fini(e->r->ctx, &ids);
    if (s == ZT_OK)
        s = zt_str_put(&e->plain, text + at, n - at);
    zt_str_clear(&e->own);
    return s;
}

static zt_status add_piece(void *user, zt_bytes text, int message)
{
    encoder *e = user;
    if (message < 0)
        return zt_str_put(&e->own, text.data, text.n);
    zt_status s = add_own(e);
    return s == ZT_OK ? zt_str_put(&e->plain, text.data, text.n) : s;
}

static encoder encoder_new(run *r, zt_ids *ids)
{
    encoder e = {.r = r, .ids = ids};
    zt_str_init(&e.own, r->ctx);
    zt_str_init(&e.plain, r->ctx);
    return e;
}

static zt_status encoder_end(encoder *e, zt_status s)
{
    if (s == ZT_OK)
        s = add_own(e);
    if (s == ZT_OK)
        s = flush_plain(e);
    zt_str_fini(&e->own);
    zt_str_fini(&e->plain);
    return s;
}

/* ---- BOS ------------------------------------------------------------------------------------- */

static unsigned bos_flags(const run *r)
{
    return r->o->bos ? ZT_TOK_BOS : r->o->no_bos ? 0 : ZT_TOK_BOS_RULE;
}

/* By option, by the model's rule, or because its own template writes it. */
static bool wants_bos(run *r)
{
    zt_ids empty = {0};
    bool wants = zt_vocab_encode(r->vocab, "", 0, bos_flags(r), &empty) == ZT_OK && empty.n > 0 &&
                 empty.id[0] == zt_vocab_bos(r->vocab);
    zt_ids_fini(r->ctx, &empty);
    return wants || (!r->o->no_bos && !r->o->template && zt_template_bos(r->gguf));
}

/* A template may bring it too: there is one at the beginning, or with --no-bos none. */
static zt_status fix_bos(run *r, zt_ids *ids)
{
    int32_t bos = zt_vocab_bos(r->vocab);
    bool wants = wants_bos(r), has = ids->n > 0 && ids->id[0] == bos;
    if (bos < 0 || wants == has || (has && !r->o->no_bos))
        return zt_ctx_status(r->ctx);
    if (has) {
        memmove(ids->id, ids->id + 1, --ids->n * sizeof *ids->id);
        return ZT_OK;
    }
    zt_status s = zt_ids_push(r->ctx, ids, bos);
    if (s == ZT_OK) {
        memmove(ids->id + 1, ids->id, (ids->n - 1) * sizeof *ids->id);
        ids->id[0] = bos;
    }
    return s;
}

/* ---- ids ------------------------------------------------------------------------------------- */

zt_status run_encode_messages(run *r, const zt_message *m, int n, zt_ids *ids)
{
    encoder e = encoder_new(r, ids);
    zt_status s = zt_template_pieces(r->tmpl, r->gguf, r->vocab, m, n, add_piece, &e);
    s = encoder_end(&e, s);
    return s == ZT_OK ? fix_bos(r, ids) : s;
}

zt_status run_encode_next(run *r, const char *text, zt_ids *ids)
{
    encoder e = encoder_new(r, ids);
    zt_status s = zt_template_next(r->tmpl, r->gguf, r->vocab, text, true, add_piece, &e);
    return encoder_end(&e, s);
}

static zt_status encode_chat(run *r)
{
    zt_message m[2];
    int n = 0;
    if (strlen(r->input) != r->input_bytes)
        return zt_fail(r->ctx, ZT_EDATA, "a zero byte in the prompt: not in a chat (see --raw)");
    if (r->o->system)
        m[n++] = (zt_message){"system", r->o->system};
    m[n++] = (zt_message){"user", r->input};
    return run_encode_messages(r, m, n, &r->ids);
}

static zt_status encode_raw(run *r)
{
    unsigned flags = bos_flags(r) | (r->o->special ? ZT_TOK_SPECIAL : 0);
    if (r->o->system)
        return zt_fail(r->ctx, ZT_EUSAGE, "--system: no chat template is used");
    return zt_vocab_encode(r->vocab, r->input, r->input_bytes, flags, &r->ids);
}

zt_status run_encode_prompt(run *r)
{
    zt_status s = run_choose_template(r);
    if (s == ZT_OK)
        s = r->tmpl ? encode_chat(r) : encode_raw(r);
    r->n_prompt = r->ids.n;
    if (s == ZT_OK && r->ids.n == 0)
        return zt_fail(r->ctx, ZT_EUSAGE, "the prompt has no tokens");
    return s;
}
