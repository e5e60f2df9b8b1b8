/* prompt.c - the prompt: where its text comes from, the chat template around it, and its ids.
 *
 * Special tokens of the template are tokens; the same words in the user's text are words, unless
 * --special says else. Nobody can end their own turn by typing the mark that ends it. Apart from
 * that the ids are those of the whole rendered text: what stands between two special tokens is
 * encoded in one piece, whoever wrote it.
 */
#include "tools/zt-run/run.h"

#include <string.h>

zt_status run_read_prompt(run *r)
{
    const run_options *o = r->o;
    if (o->prompt) {
        r->input = zt_strdup(r->ctx, o->prompt);
        r->input_bytes = strlen(o->prompt);
    } else {
        r->input = zt_read_all(r->ctx, o->input ? o->input : "-", &r->input_bytes);
    }
    if (!r->input)
        return zt_ctx_status(r->ctx);
    bool tokens_only = o->tokenize || o->detokenize || o->count;
    if (r->input_bytes == 0 && !tokens_only)
        return zt_fail(r->ctx, ZT_EUSAGE, "the prompt is empty");
    return ZT_OK;
}

/* ---- a rendered conversation, taken apart ---------------------------------------------------- */

enum { MAX_MESSAGES = 2 }; /* system, user */

typedef struct chat {
    run *r;
    const zt_template *tmpl;
    zt_message msg[MAX_MESSAGES];
    int n;
    zt_str plain; /* text since the last special token */
} chat;

/* Stands for a message's text in a rendering; no template holds this byte. */
#define MARK "\x01"

/* The conversation with MARK for every text but that of message `shown` (-1: none shown). */
static zt_status render(chat *c, int shown, zt_str *out)
{
    zt_message m[MAX_MESSAGES];
    for (int i = 0; i < c->n; i++)
        m[i] = (zt_message){c->msg[i].role, i == shown ? c->msg[i].content : MARK};
    return zt_template_render(c->tmpl, c->r->gguf, m, c->n, out);
}

/* Encode the text since the last special token. */
static zt_status flush_plain(chat *c)
{
    zt_status s = ZT_OK;
    if (c->plain.len > 0)
        s = zt_vocab_encode(c->r->vocab, c->plain.data, c->plain.len,
                            c->r->o->special ? ZT_TOK_SPECIAL : 0, &c->r->ids);
    zt_str_clear(&c->plain);
    return s;
}

/* One special token of the template, whose text stands at or after `at`: what is before it is
 * plain. `*at` moves behind it. */
static zt_status add_special(chat *c, int32_t id, const char *text, size_t n, size_t *at)
{
    zt_str word;
    zt_str_init(&word, c->r->ctx);
    zt_status s = zt_vocab_decode(c->r->vocab, id, true, false, &word);
    const char *hit = NULL;
    if (s == ZT_OK && word.len)
        hit = memmem(text + *at, n - *at, word.data, word.len);
    if (hit) {
        s = zt_str_put(&c->plain, text + *at, (size_t)(hit - text) - *at);
        *at = (size_t)(hit - text) + word.len;
        if (s == ZT_OK)
            s = flush_plain(c);
        if (s == ZT_OK)
            s = zt_ids_push(c->r->ctx, &c->r->ids, id);
    }
    zt_str_fini(&word);
    return s;
}

/* A piece of the template's own text. */
static zt_status add_template(chat *c, const char *text, size_t n)
{
    zt_ids ids = {0};
    size_t at = 0;
    zt_status s = zt_vocab_encode(c->r->vocab, text, n, ZT_TOK_SPECIAL, &ids);
    for (size_t i = 0; i < ids.n && s == ZT_OK; i++)
        if (zt_vocab_is_control(c->r->vocab, ids.id[i]))
            s = add_special(c, ids.id[i], text, n, &at);
    zt_ids_fini(c->r->ctx, &ids);
    return s == ZT_OK ? zt_str_put(&c->plain, text + at, n - at) : s;
}

/* Message k as the template writes it (some trim it): what stands where its MARK stood, at
 * `offset` of the rendering `bare` that has only MARKs. */
static zt_status add_message(chat *c, int k, const zt_str *bare, size_t offset)
{
    zt_str shown;
    zt_str_init(&shown, c->r->ctx);
    zt_status s = render(c, k, &shown);
    if (s == ZT_OK && shown.len + 1 < bare->len)
        s = zt_fail(c->r->ctx, ZT_EBUG, "template %s drops text", zt_template_name(c->tmpl));
    if (s == ZT_OK)
        s = zt_str_put(&c->plain, shown.data + offset, shown.len + 1 - bare->len);
    zt_str_fini(&shown);
    return s;
}

static zt_status add_all(chat *c, const zt_str *bare)
{
    size_t at = 0;
    zt_status s = ZT_OK;
    for (int k = 0; k < c->n && s == ZT_OK; k++) {
        const char *mark = memchr(bare->data + at, MARK[0], bare->len - at);
        if (!mark)
            return zt_fail(c->r->ctx, ZT_EBUG, "template %s drops a message",
                           zt_template_name(c->tmpl));
        size_t offset = (size_t)(mark - bare->data);
        s = add_template(c, bare->data + at, offset - at);
        if (s == ZT_OK)
            s = add_message(c, k, bare, offset);
        at = offset + 1;
    }
    if (s == ZT_OK)
        s = add_template(c, bare->data + at, bare->len - at);
    return s == ZT_OK ? flush_plain(c) : s;
}

/* ---- BOS ------------------------------------------------------------------------------------- */

static bool wants_bos(run *r)
{
    zt_ids empty = {0};
    unsigned flags = r->o->bos ? ZT_TOK_BOS : r->o->no_bos ? 0 : ZT_TOK_BOS_RULE;
    bool wants = zt_vocab_encode(r->vocab, "", 0, flags, &empty) == ZT_OK && empty.n > 0 &&
                 empty.id[0] == zt_vocab_bos(r->vocab);
    zt_ids_fini(r->ctx, &empty);
    return wants;
}

/* Templates may write BOS themselves: there is one at the beginning, or with --no-bos none. */
static zt_status fix_bos(run *r)
{
    zt_ids *ids = &r->ids;
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

static zt_status encode_chat(run *r, const zt_template *tmpl)
{
    chat c = {.r = r, .tmpl = tmpl};
    zt_str bare;
    if (strlen(r->input) != r->input_bytes)
        return zt_fail(r->ctx, ZT_EDATA, "a zero byte in the prompt: not in a chat (see --raw)");
    if (r->o->system)
        c.msg[c.n++] = (zt_message){"system", r->o->system};
    c.msg[c.n++] = (zt_message){"user", r->input};
    zt_str_init(&bare, r->ctx);
    zt_str_init(&c.plain, r->ctx);
    zt_status s = render(&c, -1, &bare);
    if (s == ZT_OK)
        s = add_all(&c, &bare);
    if (s == ZT_OK)
        s = fix_bos(r);
    zt_str_fini(&c.plain);
    zt_str_fini(&bare);
    return s;
}

static zt_status encode_raw(run *r)
{
    unsigned bos = r->o->bos ? ZT_TOK_BOS : r->o->no_bos ? 0 : ZT_TOK_BOS_RULE;
    unsigned flags = bos | (r->o->special ? ZT_TOK_SPECIAL : 0);
    if (r->o->system)
        return zt_fail(r->ctx, ZT_EUSAGE, "--system: the model has no chat template");
    return zt_vocab_encode(r->vocab, r->input, r->input_bytes, flags, &r->ids);
}

zt_status run_encode_prompt(run *r)
{
    const zt_template *tmpl = r->o->raw ? NULL : zt_template_of(r->gguf);
    zt_status s = zt_ctx_status(r->ctx);
    if (s == ZT_OK)
        s = tmpl ? encode_chat(r, tmpl) : encode_raw(r);
    r->n_prompt = r->ids.n;
    if (s == ZT_OK && r->ids.n == 0)
        return zt_fail(r->ctx, ZT_EUSAGE, "the prompt has no tokens");
    return s;
}
