/* prompt.c - the prompt: where its text comes from, the chat template around it, and its ids.
 *
 * Special tokens of the template are tokens; the same words in the user's text are words, unless
 * --special says else. Nobody can end their own turn by typing the mark that ends it. Apart from
 * that the ids are those of the whole rendered text: what stands between two special tokens is
 * encoded in one piece, whoever wrote it.
 */
#include "tools/zt-run/run.h"

#include <string.h>

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

/* ---- a conversation into text ---------------------------------------------------------------- */

typedef struct rendered { /* a prompt, and of each byte whether somebody typed it */
    zt_str text, origin;
} rendered;

static rendered rendered_new(run *r)
{
    rendered p;
    zt_str_init(&p.text, r->ctx);
    zt_str_init(&p.origin, r->ctx);
    return p;
}

static void rendered_free(rendered *p)
{
    zt_str_fini(&p->text);
    zt_str_fini(&p->origin);
}

/* Of a template by rule. */
static zt_status add_piece(void *user, zt_bytes text, int message)
{
    rendered *p = user;
    zt_status s = zt_str_put(&p->text, text.data, text.n);
    for (size_t i = 0; s == ZT_OK && i < text.n; i++)
        s = zt_str_putc(&p->origin, message >= 0);
    return s;
}

static json_t *messages_array(run *r, const zt_message *m, int n)
{
    json_t *all = json_array();
    for (int i = 0; i < n && all; i++)
        if (json_array_append_new(all, run_message(r, m[i].role, m[i].content,
                                                   strlen(m[i].content))) != 0) {
            json_decref(all);
            all = NULL;
        }
    if (!all)
        zt_fail(r->ctx, ZT_ENOMEM, "no memory for a conversation");
    return all;
}

static zt_status render_messages(run *r, const zt_message *m, int n, rendered *p)
{
    if (!r->jinja)
        return zt_template_pieces(r->tmpl, r->gguf, r->vocab, m, n, add_piece, p);
    json_t *all = messages_array(r, m, n);
    zt_status s = all ? run_render_messages(r, all, NULL, &p->text, &p->origin) : ZT_ENOMEM;
    json_decref(all);
    return s;
}

/* ---- BOS ------------------------------------------------------------------------------------- */

static unsigned bos_flags(const run *r)
{
    return r->o->bos ? ZT_TOK_BOS : r->o->no_bos ? 0 : ZT_TOK_BOS_RULE;
}

/* By option or by the model's rule; a template that writes it does so itself. */
static bool wants_bos(run *r)
{
    zt_ids empty = {0};
    bool wants = zt_vocab_encode(r->vocab, "", 0, bos_flags(r), &empty) == ZT_OK && empty.count > 0 &&
                 empty.id[0] == zt_vocab_bos(r->vocab);
    zt_ids_fini(r->ctx, &empty);
    return wants;
}

/* A template may bring it too: there is one at the beginning, or with --no-bos none. */
static zt_status fix_bos(run *r, zt_ids *ids)
{
    int32_t bos = zt_vocab_bos(r->vocab);
    bool wants = wants_bos(r), has = ids->count > 0 && ids->id[0] == bos;
    if (bos < 0 || wants == has || (has && !r->o->no_bos))
        return zt_ctx_status(r->ctx);
    if (has) {
        memmove(ids->id, ids->id + 1, --ids->count * sizeof *ids->id);
        return ZT_OK;
    }
    zt_status s = zt_ids_push(r->ctx, ids, bos);
    if (s == ZT_OK) {
        memmove(ids->id + 1, ids->id, (ids->count - 1) * sizeof *ids->id);
        ids->id[0] = bos;
    }
    return s;
}

/* ---- ids ------------------------------------------------------------------------------------- */

static zt_status encode_from(run *r, const zt_str *text, const zt_str *origin, size_t from,
                             zt_ids *ids)
{
    unsigned flags = r->o->special ? ZT_TOK_SPECIAL : 0;
    if (text->len == from)
        return ZT_OK;
    return zt_vocab_encode_origin(r->vocab, text->data + from, text->len - from,
                                  origin->data + from, flags, ids);
}

zt_status run_encode_rendered(run *r, const zt_str *text, const zt_str *origin, size_t from,
                              zt_ids *ids)
{
    zt_status s = encode_from(r, text, origin, from, ids);
    return s == ZT_OK && from == 0 ? fix_bos(r, ids) : s;
}

zt_status run_encode_messages(run *r, const zt_message *m, int n, zt_ids *ids)
{
    rendered p = rendered_new(r);
    zt_status s = render_messages(r, m, n, &p);
    if (s == ZT_OK)
        s = run_encode_rendered(r, &p.text, &p.origin, 0, ids);
    rendered_free(&p);
    return s;
}

zt_status run_encode_json(run *r, const json_t *messages, const run_beside *beside, zt_ids *ids)
{
    rendered p = rendered_new(r);
    zt_status s = run_render_messages(r, messages, beside, &p.text, &p.origin);
    if (s == ZT_OK)
        s = run_encode_rendered(r, &p.text, &p.origin, 0, ids);
    rendered_free(&p);
    return s;
}

/* What a program writes from the end of an answer on: from a conversation of three messages, whose
 * answer is found again by its words. */
static zt_status render_next(run *r, const char *text, rendered *p)
{
    static const char answer[] = "zt-run's stand-in for the answer";
    const zt_message m[] = {{"user", "zt-run"}, {"assistant", answer}, {"user", text}};
    zt_status s = render_messages(r, m, 3, p);
    const char *hit = s == ZT_OK ? memmem(p->text.data, p->text.len, answer, strlen(answer)) : NULL;
    if (s == ZT_OK && !hit)
        return zt_fail(r->ctx, ZT_ENOTSUP, "the chat template does not keep answers: the session's "
                       "conversation cannot go on");
    if (s != ZT_OK)
        return s;
    size_t from = (size_t)(hit - p->text.data) + strlen(answer);
    p->text.len -= from;
    p->origin.len -= from;
    memmove(p->text.data, p->text.data + from, p->text.len);
    memmove(p->origin.data, p->origin.data + from, p->origin.len);
    return ZT_OK;
}

zt_status run_encode_next(run *r, const char *text, zt_ids *ids)
{
    rendered p = rendered_new(r);
    zt_status s = r->jinja ? render_next(r, text, &p)
                           : zt_template_next(r->tmpl, r->gguf, r->vocab, text, true, add_piece, &p);
    if (s == ZT_OK)
        s = encode_from(r, &p.text, &p.origin, 0, ids);
    rendered_free(&p);
    return s;
}

/* The prompt as a conversation; m has room for 2. */
static zt_status prompt_messages(run *r, zt_message m[2], int *n)
{
    *n = 0;
    if (strlen(r->input) != r->input_bytes)
        return zt_fail(r->ctx, ZT_EDATA, "a zero byte in the prompt: not in a chat (see --raw)");
    if (r->o->system)
        m[(*n)++] = (zt_message){"system", r->o->system};
    m[(*n)++] = (zt_message){"user", r->input};
    return ZT_OK;
}

static zt_status encode_chat(run *r)
{
    zt_message m[2];
    int n;
    zt_status s = prompt_messages(r, m, &n);
    return s == ZT_OK ? run_encode_messages(r, m, n, &r->ids) : s;
}

zt_status run_render(run *r)
{
    zt_message m[2];
    int n;
    rendered p = rendered_new(r);
    zt_status s = run_choose_template(r, false);
    if (s == ZT_OK && !run_has_template(r))
        s = zt_fail(r->ctx, ZT_EUSAGE, "--render: %s has no chat template: --template names one",
                    zt_gguf_name(r->gguf));
    if (s == ZT_OK)
        s = prompt_messages(r, m, &n);
    if (s == ZT_OK)
        s = render_messages(r, m, n, &p);
    if (s == ZT_OK && p.text.len)
        s = run_write_text(r, p.text.data, p.text.len);
    rendered_free(&p);
    return s;
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
    zt_status s = run_choose_template(r, false);
    if (s == ZT_OK)
        s = run_find_turn(r);
    if (s == ZT_OK)
        s = run_has_template(r) ? encode_chat(r) : encode_raw(r);
    r->n_prompt = r->ids.count;
    if (s == ZT_OK && r->ids.count == 0)
        return zt_fail(r->ctx, ZT_EUSAGE, "the prompt has no tokens");
    return s;
}
