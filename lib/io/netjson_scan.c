/* netjson_scan.c - owns the way from a document to its frame: texts of weights are checked,
 * measured and left where they are; all else is kept.
 *
 * Whether the rest is JSON is found out later (netjson_walk.c): here only texts are told from what
 * is between them, and which of them is called "weights". */
#include "lib/io/netjson_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    BUFFER = 1 << 15,
    MAX_FRAME = 32 << 20 /* bytes: a hundred thousand layers */
};

typedef struct scanner {
    zt_netjson *j;
    const char *frame; /* the text is a frame, in memory; else the file's */
    uint64_t at, end;  /* next byte to fetch */
    size_t next, got;
    zt_str *out; /* NULL: what is read is kept already */
    char buffer[BUFFER];
} scanner;

static uint64_t here(const scanner *s)
{
    return s->at - (s->got - s->next);
}

static zt_status bad(const scanner *s, const char *what)
{
    return zt_fail(s->j->ctx, ZT_EDATA, "%s: byte %" PRIu64 ": %s", s->j->file, here(s), what);
}

/* The next byte without passing it; -1 at the end, and on a failure that the context has. */
static int peek(scanner *s)
{
    if (s->next < s->got)
        return (unsigned char)s->buffer[s->next];
    uint64_t left = s->end - s->at;
    size_t n = left < BUFFER ? (size_t)left : BUFFER;
    if (n == 0)
        return -1;
    if (s->frame)
        memcpy(s->buffer, s->frame + s->at, n);
    else if (zt_source_read(s->j->in, s->at, s->buffer, n) != ZT_OK)
        return -1;
    s->at += n;
    s->next = 0;
    s->got = n;
    return (unsigned char)s->buffer[0];
}

/* Passes the byte that peek gave, into the frame. */
static zt_status keep(scanner *s)
{
    char c = s->buffer[s->next++];
    if (!s->out)
        return ZT_OK;
    return s->out->len < MAX_FRAME ? zt_str_putc(s->out, c)
                                   : bad(s, "too much text beside the weights");
}

static zt_status keep_space(scanner *s)
{
    zt_status st = ZT_OK;
    for (int c; st == ZT_OK && (c = peek(s), c == ' ' || c == '\n' || c == '\r' || c == '\t');)
        st = keep(s);
    return st;
}

/* ---- weights --------------------------------------------------------------------------------- */

static int digit(int c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = c > 0 ? strchr(digits, c) : NULL;
    return p ? (int)(p - digits) : -1;
}

/* The base64 up to the quote; *bytes that it makes. It must be what encoding them would give. */
static zt_status pass_base64(scanner *s, uint64_t *bytes)
{
    uint64_t n = 0, pad = 0;
    int last = 0, c;
    for (; (c = peek(s)) != '"'; n++, s->next++) {
        int d = c == '=' ? 0 : digit(c);
        if (d < 0 || (pad && c != '='))
            return bad(s, "weights that are no base64");
        pad += c == '=';
        last = pad ? last : d;
    }
    if (n % 4 != 0 || pad > 2 || (pad && (last & ((1 << 2 * pad) - 1))))
        return bad(s, "weights that are no base64, or not as it is written");
    *bytes = n / 4 * 3 - pad;
    return ZT_OK;
}

/* A frame's own words for weights: #NUMBER:BYTES. */
static zt_status pass_number(scanner *s, uint64_t *bytes)
{
    char text[48], want[48];
    size_t n = 0;
    int64_t v = -1;
    while (n + 1 < sizeof text && peek(s) >= 0 && peek(s) != '"')
        text[n++] = s->buffer[s->next++];
    text[n] = 0;
    const char *colon = strchr(text, ':');
    if (colon && zt_parse_i64(colon + 1, &v))
        snprintf(want, sizeof want, "#%" PRId64 ":%" PRId64, s->j->n_weights, v);
    *bytes = (uint64_t)v;
    return v >= 0 && strcmp(text, want) == 0 ? ZT_OK : bad(s, "no frame: its weights are not told");
}

/* From the quote that begins a text of weights to that which ends it. */
static zt_status pass_weights(scanner *s)
{
    zt_netjson *j = s->j;
    nj_weights *list = zt_nj_room(j->ctx, j->weights, j->n_weights, sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    j->weights = list;
    nj_weights *w = &list[j->n_weights];
    zt_status st = keep(s);
    w->text = here(s);
    if (st == ZT_OK)
        st = s->frame ? pass_number(s, &w->bytes) : pass_base64(s, &w->bytes);
    w->frame = s->out ? s->out->len : (size_t)w->text;
    if (st == ZT_OK && s->out)
        st = zt_str_printf(s->out, "#%" PRId64 ":%" PRIu64, j->n_weights, w->bytes);
    w->frame_end = s->out ? s->out->len : (size_t)here(s);
    j->n_weights++;
    if (st == ZT_OK && peek(s) != '"')
        return bad(s, "it is cut");
    return st == ZT_OK ? keep(s) : st;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* From a quote to the one that ends its text; *is: it says weights, as plainly as that. */
static zt_status keep_text(scanner *s, bool *is)
{
    static const char word[] = "weights";
    size_t n = 0;
    zt_status st = keep(s);
    *is = true;
    for (int c; st == ZT_OK; n++) {
        c = peek(s);
        if (c < 0)
            return bad(s, "it is cut");
        if (c == '"')
            break;
        *is = *is && n < sizeof word - 1 && c == word[n];
        st = keep(s);
        if (st == ZT_OK && c == '\\' && peek(s) >= 0)
            st = keep(s);
    }
    *is = *is && n == sizeof word - 1;
    return st == ZT_OK ? keep(s) : st;
}

/* A text, and if it is the name "weights" of a text, that. */
static zt_status pass_text(scanner *s)
{
    bool is;
    zt_status st = keep_text(s, &is);
    if (st == ZT_OK && is)
        st = keep_space(s);
    if (st != ZT_OK || !is || peek(s) != ':')
        return st;
    st = keep(s);
    if (st == ZT_OK)
        st = keep_space(s);
    return st == ZT_OK && peek(s) == '"' ? pass_weights(s) : st;
}

static zt_status scan(scanner *s)
{
    zt_status st = ZT_OK;
    for (int c; st == ZT_OK && (c = peek(s)) >= 0;)
        st = c == '"' ? pass_text(s) : keep(s);
    return st == ZT_OK ? zt_ctx_status(s->j->ctx) : st;
}

static zt_status run(zt_netjson *j, const char *frame, uint64_t end, zt_str *out)
{
    scanner *s = zt_alloc(j->ctx, sizeof *s);
    if (!s)
        return ZT_ENOMEM;
    s->j = j;
    s->frame = frame;
    s->at = 0;
    s->end = end;
    s->next = s->got = 0;
    s->out = out;
    zt_status st = scan(s);
    zt_free(j->ctx, s);
    return st;
}

zt_status zt_nj_scan(zt_netjson *j)
{
    return run(j, NULL, zt_source_size(j->in), &j->frame);
}

zt_status zt_nj_scan_frame(zt_netjson *j)
{
    return run(j, j->frame.data, j->frame.len, NULL);
}
