/* embed.c - --embed: a text, or each of its lines, as one vector: the states after the last norm,
 * pooled as the model says (mean where it says nothing). npy, or with --format a JSON object. */
#include "lib/io/npy.h"
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <string.h>

/* The vector of a text, f32[width]. *n: its tokens; where there are none there is no vector. */
static zt_status embed(run *r, const char *text, size_t bytes, float *out, size_t *n)
{
    const run_options *o = r->o;
    unsigned bos = o->bos ? ZT_TOK_BOS : o->no_bos ? 0 : ZT_TOK_BOS_RULE;
    r->ids.count = 0;
    zt_status s = zt_vocab_encode(r->vocab, text, bytes, bos | (o->special ? ZT_TOK_SPECIAL : 0),
                                  &r->ids);
    *n = r->ids.count;
    return s == ZT_OK && *n ? zt_llm_embed(r->llm, r->ids.id, *n, out) : s;
}

static zt_status write_npy(run *r, const float *v, int64_t width)
{
    zt_type t = zt_type_make(ZT_F32, 1, &width);
    zt_sink *sink = r->sink ? r->sink : zt_sink_open(r->ctx, "-", false);
    zt_status s = sink ? zt_npy_write_header(sink, r->ctx, &t) : zt_ctx_status(r->ctx);
    if (s == ZT_OK)
        s = zt_sink_write(sink, v, (size_t)width * sizeof *v);
    if (s == ZT_OK && !r->sink)
        s = zt_sink_commit(sink);
    if (!r->sink)
        zt_sink_close(sink);
    return s;
}

/* One object, one line. */
static zt_status write_json(run *r, int64_t index, const float *v, int64_t width, size_t tokens)
{
    zt_str s;
    zt_str_init(&s, r->ctx);
    zt_str_printf(&s, "{\"index\":%" PRId64 ",\"tokens\":%zu,\"embedding\":", index, tokens);
    for (int64_t i = 0; tokens && i < width; i++)
        zt_str_printf(&s, "%c%.9g", i ? ',' : '[', v[i]);
    zt_str_puts(&s, tokens ? "]}\n" : "null}\n");
    zt_status st = zt_ctx_status(r->ctx);
    if (st == ZT_OK)
        st = run_write(r, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* Of a line that ends at `stop`, without the \r that belongs to its end. */
static size_t line_bytes(const run *r, const char *line, const char *stop)
{
    bool ends = stop < r->input + r->input_bytes && stop > line && stop[-1] == '\r';
    return (size_t)(stop - line) - (ends && !r->o->verbatim);
}

/* What is wrong with a line says which it is. */
static zt_status number_error(run *r, int64_t index, zt_status s)
{
    char why[512];
    if (s == ZT_OK || s == ZT_EINTR || s == ZT_EBUG)
        return s;
    snprintf(why, sizeof why, "%s", zt_ctx_error(r->ctx));
    zt_ctx_clear(r->ctx);
    return zt_fail(r->ctx, s, "line %" PRId64 ": %s", index + 1, why);
}

static zt_status embed_lines(run *r, float *v, int64_t width)
{
    zt_status s = ZT_OK;
    int64_t index = 0;
    const char *end = r->input + r->input_bytes;
    for (const char *line = r->input, *next; s == ZT_OK && line < end; line = next) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t n;
        next = stop ? stop + 1 : end;
        if (zt_cli_interrupted())
            return ZT_EINTR;
        s = number_error(r, index, embed(r, line, line_bytes(r, line, stop ? stop : end), v, &n));
        if (s == ZT_OK)
            s = write_json(r, index++, v, width, n);
    }
    return s;
}

zt_status run_embed(run *r)
{
    size_t n = 0;
    zt_status s = run_open_llm(r, 0, true);
    int64_t width = s == ZT_OK ? zt_llm_get(r->llm).width : 0;
    float *v = s == ZT_OK ? zt_alloc_array(r->ctx, (size_t)width, sizeof *v) : NULL;
    if (!v)
        return zt_ctx_status(r->ctx);
    if (r->cli->format == ZT_FMT_NDJSON) {
        s = embed_lines(r, v, width);
    } else {
        s = embed(r, r->input, r->input_bytes, v, &n);
        if (s == ZT_OK && n == 0)
            s = zt_fail(r->ctx, ZT_EUSAGE, "the text has no tokens");
        if (s == ZT_OK)
            s = r->cli->format == ZT_FMT_JSON ? write_json(r, 0, v, width, n)
                                              : write_npy(r, v, width);
    }
    zt_free(r->ctx, v);
    return s;
}
