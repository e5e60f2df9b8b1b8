/* text.c - generated tokens become text, which leaves as soon as it is certain.
 *
 * A character cut in the middle waits for its rest. What could become a --stop text, or the words
 * with which the template opens a user's turn, waits until it is one or not: special tokens count
 * there, although they are not shown.
 */
#include "tools/zt-run/run.h"

#include <string.h>

/* ---- out ------------------------------------------------------------------------------------- */

zt_status run_write(run *r, const void *bytes, size_t n)
{
    if (r->sink)
        return zt_sink_write(r->sink, bytes, n);
    zt_status s = zt_cli_write(r->cli, bytes, n);
    return s == ZT_OK ? zt_cli_flush(r->cli) : s;
}

/* Lines and tabs stay; other control characters a terminal would obey. */
static zt_status write_escaped(run *r, const char *text, size_t n)
{
    zt_str s;
    zt_str_init(&s, r->ctx);
    zt_status st = ZT_OK;
    for (size_t at = 0, end; st == ZT_OK && at < n; at = end) {
        for (end = at; end < n && text[end] != '\n' && text[end] != '\t';)
            end++;
        st = zt_str_put_escaped(&s, text + at, end - at);
        if (st == ZT_OK && end < n)
            st = zt_str_putc(&s, text[end++]);
    }
    if (st == ZT_OK)
        st = run_write(r, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

zt_status run_write_text(run *r, const char *text, size_t n)
{
    if (n == 0)
        return ZT_OK;
    return r->terminal ? write_escaped(r, text, n) : run_write(r, text, n);
}

zt_status run_write_table(run *r, const zt_table *t)
{
    zt_str s;
    zt_str_init(&s, r->ctx);
    zt_status st = zt_table_put(t, r->terminal, &s);
    if (st == ZT_OK && s.len)
        st = run_write(r, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* Certain text: to the reader at once, or to the object that --json writes at the end. */
static zt_status put_text(run *r, const char *text, size_t n)
{
    if (n == 0 || r->o->ids)
        return ZT_OK;
    bool kept = r->o->json || r->o->jsonl;
    zt_status s = kept || r->o->chat ? zt_str_put(&r->text, text, n) : ZT_OK;
    return s == ZT_OK && !kept ? run_write_text(r, text, n) : s;
}

/* What is shown of the first n bytes held. */
static zt_status put_shown(run *r, size_t n)
{
    zt_status s = ZT_OK;
    for (size_t at = 0, end; s == ZT_OK && at < n; at = end) {
        bool shown = r->shown.data[at];
        for (end = at; end < n && (bool)r->shown.data[end] == shown;)
            end++;
        if (shown)
            s = put_text(r, r->held.data + at, end - at);
    }
    return s;
}

/* ---- certain or not -------------------------------------------------------------------------- */

/* Bytes at the end of `s` that begin a UTF-8 character and are too few for it. */
static size_t cut_character(const char *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)s[n - back];
        size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        if (c < 0x80 || c >= 0xc0)
            return whole > back ? back : 0;
    }
    return 0;
}

/* The i-th text that ends an answer, empty after the last: those of --stop, then what opens a
 * user's turn. Who wants no end by a token wants none by a turn either. */
static zt_bytes stop_text(const run *r, int i, const char **why)
{
    const zt_opt_list *stops = &r->o->stop;
    *why = i < stops->n ? "stop" : "turn";
    if (i < stops->n)
        return (zt_bytes){stops->item[i], strlen(stops->item[i])};
    return i == stops->n && !r->o->ignore_eos ? run_turn_text(r) : (zt_bytes){NULL, 0};
}

/* The longest end of `s` with which `stop` begins. */
static size_t stop_begun(const char *s, size_t n, zt_bytes stop)
{
    for (size_t k = n < stop.n ? n : stop.n; k > 0; k--)
        if (memcmp(s + n - k, stop.data, k) == 0)
            return k;
    return 0;
}

/* The first stop text in what is held; its offset, or the length when there is none. */
static size_t find_stop(run *r)
{
    const char *why;
    size_t first = r->held.len;
    for (int i = 0; i <= r->o->stop.n && r->held.len; i++) {
        zt_bytes stop = stop_text(r, i, &why);
        const char *hit = stop.n ? memmem(r->held.data, r->held.len, stop.data, stop.n) : NULL;
        if (hit && (size_t)(hit - r->held.data) < first) {
            first = (size_t)(hit - r->held.data);
            r->stop = why;
        }
    }
    return first;
}

/* Bytes at the end of what is held that may yet become something else. */
static size_t uncertain(const run *r)
{
    const char *why;
    if (r->held.len == 0)
        return 0;
    size_t hold = cut_character(r->held.data, r->held.len);
    for (int i = 0; i <= r->o->stop.n; i++) {
        size_t k = stop_begun(r->held.data, r->held.len, stop_text(r, i, &why));
        hold = k > hold ? k : hold;
    }
    return hold;
}

void run_text_begin(run *r)
{
    zt_str_clear(&r->held);
    zt_str_clear(&r->shown);
    zt_str_clear(&r->text);
    zt_str_clear(&r->logprobs);
    r->stop = NULL;
    r->cut = 0;
}

zt_status run_text_put(run *r, int32_t id)
{
    bool shown = !zt_vocab_is_control(r->vocab, id);
    zt_status s = zt_vocab_decode(r->vocab, id, true, false, &r->held);
    while (s == ZT_OK && r->shown.len < r->held.len)
        s = zt_str_putc(&r->shown, shown);
    if (s != ZT_OK || r->held.len == 0)
        return s;
    size_t certain = find_stop(r), hold = r->stop ? 0 : uncertain(r);
    r->cut = r->held.len - certain;
    certain -= hold;
    s = put_shown(r, certain);
    memmove(r->held.data, r->held.data + certain, hold);
    memmove(r->shown.data, r->shown.data + certain, hold);
    r->held.len = r->shown.len = hold;
    return s;
}

zt_status run_text_end(run *r)
{
    zt_status s = put_shown(r, r->held.len);
    r->held.len = r->shown.len = 0;
    return s;
}
