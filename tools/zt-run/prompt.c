/* prompt.c - the prompt: where its text comes from, the chat template around it, and its ids.
 *
 * Special tokens in the template's text are tokens. The same characters in the user's text are plain text,
 * unless --special is given: a user cannot end their turn by typing the mark that ends it. The text between
 * two special tokens is encoded in one piece, no matter which part comes from the template and which from
 * the user.
 */
#include "tools/zt-run/run.h"

#include <string.h>

/* A prompt from a file or a pipe loses one newline at its end, "\n" or "\r\n", as with $(...) in a shell. Not
 * with --embed by lines, where each line counts. */
static void drop_newline(run_state *run)
{
    size_t size = run->prompt_bytes;
    bool lines = run->options->embed && run->cli->format == ZT_FMT_NDJSON;
    if (size == 0 || lines || run->options->verbatim || run->prompt_text[size - 1] != '\n') return;
    size -= size > 1 && run->prompt_text[size - 2] == '\r' ? 2 : 1;
    run->prompt_text[run->prompt_bytes = size] = 0;
}

zt_status run_read_prompt(run_state *run)
{
    const run_options *options = run->options;
    if (options->prompt) {
        run->prompt_text = zt_strdup(run->ctx, options->prompt);
        run->prompt_bytes = strlen(options->prompt);
    } else {
        run->prompt_text = zt_read_all(run->ctx, options->input ? options->input : "-", &run->prompt_bytes);
        if (run->prompt_text) drop_newline(run);
    }
    if (!run->prompt_text) return zt_ctx_status(run->ctx);
    bool tokens_only = options->tokenize || options->detokenize || options->count;
    if (run->prompt_bytes == 0 && !tokens_only) return zt_fail(run->ctx, ZT_EUSAGE, "the prompt is empty");
    return ZT_OK;
}

/* ---- a conversation into text ---------------------------------------------------------------- */

typedef struct rendered_prompt { /* a prompt; for each byte, whether it comes from the conversation */
    zt_str text, origin;
} rendered_prompt;

static rendered_prompt rendered_new(run_state *run)
{
    rendered_prompt rendered;
    zt_str_init(&rendered.text, run->ctx);
    zt_str_init(&rendered.origin, run->ctx);
    return rendered;
}

static void rendered_free(rendered_prompt *rendered)
{
    zt_str_fini(&rendered->text);
    zt_str_fini(&rendered->origin);
}

/* Called by a template by rule for each piece of the prompt. */
static zt_status add_piece(void *user, zt_bytes text, int message)
{
    rendered_prompt *rendered = user;
    zt_status status = zt_str_put(&rendered->text, text.data, text.n);
    for (size_t i = 0; status == ZT_OK && i < text.n; i++) status = zt_str_putc(&rendered->origin, message >= 0);
    return status;
}

static json_t *messages_array(run_state *run, const zt_message *messages, int message_count)
{
    json_t *all = json_array();
    for (int i = 0; i < message_count && all; i++)
        if (json_array_append_new(all, run_message(run, messages[i].role, messages[i].content, strlen(messages[i].content))) !=
            0) {
            json_decref(all);
            all = NULL;
        }
    if (!all) zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    return all;
}

static zt_status render_messages(run_state *run, const zt_message *messages, int message_count, rendered_prompt *rendered)
{
    if (!run->jinja)
        return zt_template_pieces(run->template, run->gguf, run->vocab, messages, message_count, add_piece, rendered);
    json_t *all = messages_array(run, messages, message_count);
    zt_status status = all ? run_render_messages(run, all, NULL, &rendered->text, &rendered->origin) : ZT_ENOMEM;
    json_decref(all);
    return status;
}

/* ---- BOS ------------------------------------------------------------------------------------- */

static unsigned bos_flags(const run_options *options)
{
    return options->bos ? ZT_TOK_BOS : options->no_bos ? 0 : ZT_TOK_BOS_RULE;
}

unsigned run_encode_flags(const run_options *options) { return bos_flags(options) | (options->special ? ZT_TOK_SPECIAL : 0); }

/* Does a BOS come first, by option or else by the model's rule? */
static bool wants_bos(run_state *run)
{
    zt_ids empty = {0};
    bool wants = zt_vocab_encode(run->vocab, "", 0, bos_flags(run->options), &empty) == ZT_OK && empty.count > 0 &&
                 empty.id[0] == zt_vocab_bos(run->vocab);
    zt_ids_fini(run->ctx, &empty);
    return wants;
}

/* A template may write a BOS itself: makes sure that there is one at the beginning, not two, or with --no-bos
 * none. */
static zt_status fix_bos(run_state *run, zt_ids *ids)
{
    int32_t bos = zt_vocab_bos(run->vocab);
    bool wants = wants_bos(run), has = ids->count > 0 && ids->id[0] == bos;
    if (bos < 0 || wants == has || (has && !run->options->no_bos)) return zt_ctx_status(run->ctx);
    if (has) {
        memmove(ids->id, ids->id + 1, --ids->count * sizeof *ids->id);
        return ZT_OK;
    }
    zt_status status = zt_ids_push(run->ctx, ids, bos);
    if (status == ZT_OK) {
        memmove(ids->id + 1, ids->id, (ids->count - 1) * sizeof *ids->id);
        ids->id[0] = bos;
    }
    return status;
}

/* ---- ids ------------------------------------------------------------------------------------- */

static zt_status encode_from(run_state *run, const zt_str *text, const zt_str *origin, size_t from, zt_ids *ids)
{
    unsigned flags = run->options->special ? ZT_TOK_SPECIAL : 0;
    if (text->len == from) return ZT_OK;
    return zt_vocab_encode_origin(run->vocab, text->data + from, text->len - from, origin->data + from, flags, ids);
}

zt_status run_encode_rendered(run_state *run, const zt_str *text, const zt_str *origin, size_t from, zt_ids *ids)
{
    zt_status status = encode_from(run, text, origin, from, ids);
    return status == ZT_OK && from == 0 ? fix_bos(run, ids) : status;
}

zt_status run_encode_messages(run_state *run, const zt_message *messages, int message_count, zt_ids *ids)
{
    rendered_prompt rendered = rendered_new(run);
    zt_status status = render_messages(run, messages, message_count, &rendered);
    if (status == ZT_OK) status = run_encode_rendered(run, &rendered.text, &rendered.origin, 0, ids);
    if (status == ZT_OK && run->jinja) status = run_reply_begin(run, &rendered.text, NULL);
    rendered_free(&rendered);
    return status;
}

zt_status run_encode_json(run_state *run, const json_t *messages, const run_beside *beside, zt_ids *ids)
{
    rendered_prompt rendered = rendered_new(run);
    zt_status status = run_render_messages(run, messages, beside, &rendered.text, &rendered.origin);
    if (status == ZT_OK) status = run_encode_rendered(run, &rendered.text, &rendered.origin, 0, ids);
    if (status == ZT_OK) status = run_reply_begin(run, &rendered.text, beside);
    rendered_free(&rendered);
    return status;
}

/* What a program writes after an answer: renders a conversation of three messages, and takes what follows the
 * words of the answer in it. */
static zt_status render_next(run_state *run, const char *text, rendered_prompt *rendered)
{
    static const char answer[] = "zt-run's stand-in for the answer";
    const zt_message messages[] = {{"user", "zt-run"}, {"assistant", answer}, {"user", text}};
    zt_status status = render_messages(run, messages, 3, rendered);
    const char *hit = status == ZT_OK ? memmem(rendered->text.data, rendered->text.len, answer, strlen(answer)) : NULL;
    if (status == ZT_OK && !hit)
        return zt_fail(run->ctx, ZT_ENOTSUP,
                       "the chat template drops previous answers: the conversation of the session cannot be continued");
    if (status != ZT_OK) return status;
    size_t from = (size_t)(hit - rendered->text.data) + strlen(answer);
    rendered->text.len -= from;
    rendered->origin.len -= from;
    memmove(rendered->text.data, rendered->text.data + from, rendered->text.len);
    memmove(rendered->origin.data, rendered->origin.data + from, rendered->origin.len);
    return ZT_OK;
}

zt_status run_encode_next(run_state *run, const char *text, zt_ids *ids)
{
    rendered_prompt rendered = rendered_new(run);
    zt_status status = run->jinja ? render_next(run, text, &rendered)
                                  : zt_template_next(run->template, run->gguf, run->vocab, text, true, add_piece, &rendered);
    if (status == ZT_OK) status = encode_from(run, &rendered.text, &rendered.origin, 0, ids);
    rendered_free(&rendered);
    return status;
}

/* The prompt as a conversation. */
static zt_status prompt_messages(run_state *run, zt_message messages[2], int *message_count)
{
    *message_count = 0;
    if (strlen(run->prompt_text) != run->prompt_bytes)
        return zt_fail(run->ctx, ZT_EDATA, "the prompt contains a zero byte, which a chat does not support (see --raw)");
    if (run->options->system) messages[(*message_count)++] = (zt_message){"system", run->options->system};
    messages[(*message_count)++] = (zt_message){"user", run->prompt_text};
    return ZT_OK;
}

static zt_status encode_chat(run_state *run)
{
    zt_message messages[2];
    int message_count;
    zt_status status = prompt_messages(run, messages, &message_count);
    return status == ZT_OK ? run_encode_messages(run, messages, message_count, &run->ids) : status;
}

zt_status run_render(run_state *run)
{
    zt_message messages[2];
    int message_count;
    rendered_prompt rendered = rendered_new(run);
    zt_status status = run_choose_template(run, false);
    if (status == ZT_OK && !run_has_template(run))
        status = zt_fail(run->ctx, ZT_EUSAGE, "--render: %s has no chat template: specify one with --template",
                         zt_gguf_name(run->gguf));
    if (status == ZT_OK) status = prompt_messages(run, messages, &message_count);
    if (status == ZT_OK) status = render_messages(run, messages, message_count, &rendered);
    if (status == ZT_OK && rendered.text.len) status = run_write_text(run, rendered.text.data, rendered.text.len);
    rendered_free(&rendered);
    return status;
}

static zt_status encode_raw(run_state *run)
{
    unsigned flags = run_encode_flags(run->options);
    if (run->options->system) return zt_fail(run->ctx, ZT_EUSAGE, "--system: no chat template is used");
    return zt_vocab_encode(run->vocab, run->prompt_text, run->prompt_bytes, flags, &run->ids);
}

zt_status run_encode_prompt(run_state *run)
{
    zt_status status = run_choose_template(run, false);
    if (status == ZT_OK) status = run_find_turn(run);
    if (status == ZT_OK) status = run_has_template(run) ? encode_chat(run) : encode_raw(run);
    run->prompt_count = run->ids.count;
    if (status == ZT_OK && run->ids.count == 0) return zt_fail(run->ctx, ZT_EUSAGE, "the prompt has no tokens");
    return status;
}
