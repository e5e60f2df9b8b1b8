/* text.c - generated tokens become text, which is written as soon as it is certain. Not certain, and held back:
 *
 *   - the first bytes of a UTF-8 character, until all of it is there
 *   - what may be the beginning of a stop text, until it is one or not
 *
 * Stop texts are those of --stop, and the text with which the template opens a user's turn. Special tokens
 * are not shown, but can be part of a stop text.
 */
#include "tools/zt-run/run.h"

#include <string.h>

/* ---- out ------------------------------------------------------------------------------------- */

zt_status run_write(run_state *run, const void *bytes, size_t size)
{
    if (run->sink) return zt_sink_write(run->sink, bytes, size);
    zt_status status = zt_cli_write(run->cli, bytes, size);
    return status == ZT_OK ? zt_cli_flush(run->cli) : status;
}

/* Escapes control characters, for a terminal; except newlines and tabs. */
static zt_status write_escaped(run_state *run, const char *text, size_t size)
{
    zt_str escaped;
    zt_str_init(&escaped, run->ctx);
    zt_status status = ZT_OK;
    for (size_t position = 0, end; status == ZT_OK && position < size; position = end) {
        for (end = position; end < size && text[end] != '\n' && text[end] != '\t';) end++;
        status = zt_str_put_escaped(&escaped, text + position, end - position);
        if (status == ZT_OK && end < size) status = zt_str_putc(&escaped, text[end++]);
    }
    if (status == ZT_OK) status = run_write(run, escaped.data, escaped.len);
    zt_str_fini(&escaped);
    return status;
}

zt_status run_write_text(run_state *run, const char *text, size_t size)
{
    if (size == 0) return ZT_OK;
    return run->terminal ? write_escaped(run, text, size) : run_write(run, text, size);
}

zt_status run_write_table(run_state *run, const zt_table *table)
{
    zt_str text;
    zt_str_init(&text, run->ctx);
    zt_status status = zt_table_put(table, run->terminal, &text);
    if (status == ZT_OK && text.len) status = run_write(run, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

/* Certain text: written at once, or kept for the object that --json writes at the end. */
static zt_status put_text(run_state *run, const char *text, size_t size)
{
    if (size == 0 || run->options->ids || run_receipt_is_verified(run)) return ZT_OK;
    bool kept = run->options->json || run_takes_requests(run->options);
    zt_status status = kept || run->options->chat ? zt_str_put(&run->answer_text, text, size) : ZT_OK;
    return status == ZT_OK && !kept ? run_write_text(run, text, size) : status;
}

/* Puts the first `size` bytes of the held text, as far as they are shown. */
static zt_status put_shown(run_state *run, size_t size)
{
    zt_status status = ZT_OK;
    for (size_t position = 0, end; status == ZT_OK && position < size; position = end) {
        bool shown = run->held_shown.data[position];
        for (end = position; end < size && (bool)run->held_shown.data[end] == shown;) end++;
        if (shown) status = put_text(run, run->held_text.data + position, end - position);
        if (status == ZT_OK && run->reply)
            status = zt_reply_put(run->reply, run->held_text.data + position, end - position, !shown);
    }
    return status;
}

/* ---- certain or not -------------------------------------------------------------------------- */

/* The number of bytes at the end of `text` that are the beginning of a UTF-8 character, but not all of it. */
static size_t cut_character(const char *text, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char byte = (unsigned char)text[size - back];
        size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        if (byte < 0x80 || byte >= 0xc0) return whole > back ? back : 0;
    }
    return 0;
}

/* The i-th stop text, empty after the last: those of --stop, then the text that opens a user's turn; the
 * latter not with --ignore-eos. */
static zt_bytes stop_text(const run_state *run, int i, const char **why)
{
    const zt_opt_list *stops = &run->options->stop_texts;
    *why = i < stops->n ? "stop" : "turn";
    if (i < stops->n) return (zt_bytes){stops->item[i], strlen(stops->item[i])};
    return i == stops->n && !run->options->ignore_eos ? run_turn_text(run) : (zt_bytes){NULL, 0};
}

/* The length of the longest end of `text` that is a beginning of `stop`. */
static size_t stop_begun(const char *text, size_t size, zt_bytes stop)
{
    for (size_t length = size < stop.n ? size : stop.n; length > 0; length--)
        if (memcmp(text + size - length, stop.data, length) == 0) return length;
    return 0;
}

/* The offset of the first stop text in the held text; the length of it if there is none. */
static size_t find_stop(run_state *run)
{
    const char *why;
    size_t first = run->held_text.len;
    for (int i = 0; i <= run->options->stop_texts.n && run->held_text.len; i++) {
        zt_bytes stop = stop_text(run, i, &why);
        const char *hit = stop.n ? memmem(run->held_text.data, run->held_text.len, stop.data, stop.n) : NULL;
        if (hit && (size_t)(hit - run->held_text.data) < first) {
            first = (size_t)(hit - run->held_text.data);
            run->stop_reason = why;
        }
    }
    return first;
}

/* The number of bytes at the end of the held text that are not certain. */
static size_t uncertain_bytes(const run_state *run)
{
    const char *why;
    if (run->held_text.len == 0) return 0;
    size_t held_bytes = cut_character(run->held_text.data, run->held_text.len);
    for (int i = 0; i <= run->options->stop_texts.n; i++) {
        size_t begun_bytes = stop_begun(run->held_text.data, run->held_text.len, stop_text(run, i, &why));
        held_bytes = begun_bytes > held_bytes ? begun_bytes : held_bytes;
    }
    return held_bytes;
}

void run_text_begin(run_state *run)
{
    zt_str_clear(&run->held_text);
    zt_str_clear(&run->held_shown);
    zt_str_clear(&run->answer_text);
    zt_str_clear(&run->logprobs);
    run->stop_reason = NULL;
    run->cut_bytes = 0;
}

zt_status run_text_put(run_state *run, int32_t id)
{
    bool shown = !zt_vocab_is_control(run->vocab, id);
    zt_status status = zt_vocab_decode(run->vocab, id, true, false, &run->held_text);
    while (status == ZT_OK && run->held_shown.len < run->held_text.len) status = zt_str_putc(&run->held_shown, shown);
    if (status != ZT_OK || run->held_text.len == 0) return status;
    size_t certain = find_stop(run), held_bytes = run->stop_reason ? 0 : uncertain_bytes(run);
    run->cut_bytes = run->held_text.len - certain;
    certain -= held_bytes;
    status = put_shown(run, certain);
    memmove(run->held_text.data, run->held_text.data + certain, held_bytes);
    memmove(run->held_shown.data, run->held_shown.data + certain, held_bytes);
    run->held_text.len = run->held_shown.len = held_bytes;
    return status;
}

zt_status run_text_end(run_state *run)
{
    zt_status status = put_shown(run, run->held_shown.len); /* less than the text where memory ran out */
    zt_str_clear(&run->held_text);
    zt_str_clear(&run->held_shown);
    return status == ZT_OK && run->reply ? zt_reply_end(run->reply) : status;
}
