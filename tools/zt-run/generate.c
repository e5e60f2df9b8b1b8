/* generate.c - the prompt through the model, its logits to a file, then token after token.
 *
 * Text leaves as soon as it is certain: a character cut in the middle waits for its rest, and what
 * could become a --stop text waits until it is one or not.
 */
#include "lib/io/npy.h"
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --all-logits keeps no more than this many bytes of logits at a time. */
#define LOGITS_BYTES (256u << 20)

typedef struct generator {
    run *r;
    int64_t vocab;
    float *logits;        /* [rows, V]: of the last token, or of a piece of the prompt */
    int64_t rows;
    float *scratch;       /* of the sampler */
    int32_t *ends;        /* --eos */
    size_t n_ends;
    zt_str held;          /* text that is not certain yet */
    bool stopped;         /* a --stop text was met */
    zt_sink *npy;
} generator;

/* ---- text out -------------------------------------------------------------------------------- */

/* Certain text: to the reader at once, or to the object that --json writes at the end. */
static zt_status put_text(run *r, const char *text, size_t n)
{
    if (n == 0 || r->o->ids)
        return ZT_OK;
    return r->o->json ? zt_str_put(&r->text, text, n) : run_write(r, text, n);
}

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

/* The longest end of `s` with which `stop` begins. */
static size_t stop_begun(const char *s, size_t n, const char *stop)
{
    size_t len = strlen(stop), most = n < len ? n : len;
    for (size_t k = most; k > 0; k--)
        if (memcmp(s + n - k, stop, k) == 0)
            return k;
    return 0;
}

/* The first stop text in what is held; its offset, or the length when there is none. */
static size_t find_stop(generator *g)
{
    const zt_opt_list *stops = &g->r->o->stop;
    size_t first = g->held.len;
    for (int i = 0; i < stops->n && g->held.len; i++) {
        size_t len = strlen(stops->item[i]);
        const char *hit = len ? memmem(g->held.data, g->held.len, stops->item[i], len) : NULL;
        if (hit && (size_t)(hit - g->held.data) < first) {
            first = (size_t)(hit - g->held.data);
            g->stopped = true;
        }
    }
    return first;
}

/* Let go of what is certain; `end`: of everything. */
static zt_status release(generator *g, bool end)
{
    const zt_opt_list *stops = &g->r->o->stop;
    size_t certain = find_stop(g), hold = 0;
    if (!g->stopped && !end && g->held.len) {
        hold = cut_character(g->held.data, g->held.len);
        for (int i = 0; i < stops->n; i++) {
            size_t k = stop_begun(g->held.data, g->held.len, stops->item[i]);
            hold = k > hold ? k : hold;
        }
        certain -= hold;
    }
    zt_status s = put_text(g->r, g->held.data, certain);
    if (g->held.len)
        memmove(g->held.data, g->held.data + certain, hold);
    g->held.len = hold;
    return s;
}

/* A token's id, if those are wanted, and its text, if it is not the one that ends the text. */
static zt_status put_token(generator *g, int32_t id, bool ends)
{
    run *r = g->r;
    if (r->o->ids) {
        char text[16];
        const char *gap = r->ids.n > r->n_prompt + 1 ? " " : "";
        int n = snprintf(text, sizeof text, "%s%" PRId32, gap, id);
        zt_status s = run_write(r, text, (size_t)n);
        if (s != ZT_OK)
            return s;
    }
    zt_status s = ends ? ZT_OK : zt_vocab_decode(r->vocab, id, false, false, &g->held);
    return s == ZT_OK ? release(g, false) : s;
}

/* ---- the prompt ------------------------------------------------------------------------------ */

static zt_status begin_npy(generator *g)
{
    run *r = g->r;
    int64_t rows = r->o->all_logits ? (int64_t)r->n_prompt : 1;
    zt_type t = zt_type_make(ZT_F32, 2, (int64_t[]){rows, g->vocab});
    g->npy = zt_sink_open(r->ctx, r->o->logits, r->cli->force);
    return g->npy ? zt_npy_write_header(g->npy, r->ctx, &t) : zt_ctx_status(r->ctx);
}

static zt_status write_logits(generator *g, int64_t rows)
{
    size_t bytes = (size_t)rows * (size_t)g->vocab * sizeof(float);
    return g->npy ? zt_sink_write(g->npy, g->logits, bytes) : ZT_OK;
}

/* Feed the prompt in pieces; after the last, g->logits begins with the last token's. */
static zt_status feed_prompt(generator *g)
{
    run *r = g->r;
    bool all = r->o->all_logits;
    zt_status s = ZT_OK;
    size_t V = (size_t)g->vocab, most = all ? (size_t)g->rows : (size_t)r->o->chunk, n;
    for (size_t at = 0; at < r->n_prompt && s == ZT_OK; at += n) {
        if (zt_cli_interrupted())
            return ZT_EINTR;
        n = r->n_prompt - at < most ? r->n_prompt - at : most;
        bool last = at + n == r->n_prompt;
        s = zt_llm_feed(r->llm, r->ids.id + at, n, all, all || last ? g->logits : NULL);
        if (s == ZT_OK && (all || last))
            s = write_logits(g, all ? (int64_t)n : 1);
        if (all && last)
            memmove(g->logits, g->logits + (n - 1) * V, V * sizeof(float));
        if (r->n_prompt > most)
            zt_progress(r->cli, "prompt", (double)(at + n), (double)r->n_prompt);
    }
    return s == ZT_OK && g->npy ? zt_sink_commit(g->npy) : s;
}

/* ---- token after token ----------------------------------------------------------------------- */

static bool ends_text(const generator *g, int32_t id)
{
    if (!g->r->o->eos)
        return zt_vocab_is_eog(g->r->vocab, id);
    for (size_t i = 0; i < g->n_ends; i++)
        if (g->ends[i] == id)
            return true;
    return false;
}

static int32_t choose(generator *g)
{
    run *r = g->r;
    zt_sampler sampler = r->o->sampler;
    sampler.seed = r->cli->seed;
    for (int64_t id = 0; r->o->ignore_eos && id < g->vocab; id++)
        if (ends_text(g, (int32_t)id))
            g->logits[id] = -INFINITY;
    return zt_sample(&sampler, g->logits, g->vocab, r->ids.id, r->ids.n, (int64_t)r->ids.n,
                     g->scratch);
}

/* Choose a token and write it; then feed it, unless it was the last (r->stop says why). */
static zt_status next_token(generator *g)
{
    run *r = g->r;
    int32_t id = choose(g);
    if (id < 0)
        return zt_fail(r->ctx, ZT_EDATA, "%s: no logit is a number after token %zu",
                       zt_gguf_name(r->gguf), r->ids.n);
    bool ends = ends_text(g, id);
    zt_status s = zt_ids_push(r->ctx, &r->ids, id);
    if (s == ZT_OK)
        s = put_token(g, id, ends);
    if (r->first == 0)
        r->first = zt_seconds();
    if (ends)
        r->stop = "eos";
    else if (g->stopped)
        r->stop = "stop";
    else if (r->o->n >= 0 && r->ids.n - r->n_prompt >= (size_t)r->o->n)
        r->stop = "length";
    else if (zt_llm_position(r->llm) == zt_llm_get(r->llm).ctx_len)
        r->stop = "ctx";
    if (s != ZT_OK || r->stop)
        return s;
    return zt_llm_feed(r->llm, &id, 1, false, g->logits);
}

static zt_status generate(generator *g)
{
    run *r = g->r;
    zt_status s = ZT_OK;
    if (r->o->n == 0)
        r->stop = "length";
    while (s == ZT_OK && !r->stop)
        s = zt_cli_interrupted() ? ZT_EINTR : next_token(g);
    zt_status rest = release(g, true);
    return s == ZT_OK ? rest : s;
}

/* ---- setting up ------------------------------------------------------------------------------ */

/* --eos "2,7" into ids. */
static zt_status parse_eos(generator *g)
{
    run *r = g->r;
    int64_t id;
    zt_ids ids = {0};
    zt_status s = ZT_OK;
    for (const char *c = r->o->eos, *next; s == ZT_OK && c; c = next) {
        char text[16];
        size_t n = strcspn(c, ",");
        next = c[n] ? c + n + 1 : NULL;
        snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text), c);
        if (!zt_parse_i64(text, &id) || id < 0 || id >= zt_vocab_size(r->vocab))
            s = zt_fail(r->ctx, ZT_EUSAGE, "--eos: '%s': not token ids from 0 to %" PRId32,
                        r->o->eos, zt_vocab_size(r->vocab) - 1);
        else
            s = zt_ids_push(r->ctx, &ids, (int32_t)id);
    }
    g->ends = ids.id;
    g->n_ends = ids.n;
    return s;
}

/* The model, with a cache for as many tokens as can come. */
static zt_status open_model(run *r)
{
    zt_llm_opts opts = run_llm_opts(r->cli, r->o);
    r->engine = zt_cli_engine(r->cli);
    if (!r->engine)
        return zt_ctx_status(r->ctx);
    opts.engine = r->engine;
    opts.max_tokens = r->o->n < 0 ? 0 : (int64_t)r->n_prompt + r->o->n;
    r->llm = zt_llm_open(r->gguf, &opts);
    r->loaded = zt_seconds();
    if (!r->llm)
        return zt_ctx_status(r->ctx);
    int64_t limit = zt_llm_get(r->llm).ctx_len;
    if ((int64_t)r->n_prompt > limit)
        return zt_fail(r->ctx, ZT_ENOMEM,
                       "the prompt has %zu tokens, the context %" PRId64 ": see --ctx",
                       r->n_prompt, limit);
    return ZT_OK;
}

static zt_status make_buffers(generator *g)
{
    run *r = g->r;
    g->vocab = zt_llm_get(r->llm).vocab;
    size_t row = (size_t)g->vocab * sizeof(float);
    int64_t fit = (int64_t)(LOGITS_BYTES / row) + 1;
    g->rows = r->o->all_logits ? (int64_t)r->n_prompt : 1;
    g->rows = g->rows < r->o->chunk ? g->rows : r->o->chunk;
    g->rows = g->rows < fit ? g->rows : fit;
    g->logits = zt_alloc_array(r->ctx, (size_t)g->rows, row);
    g->scratch = zt_alloc_array(r->ctx, 2, row);
    return g->logits && g->scratch ? ZT_OK : ZT_ENOMEM;
}

static zt_status answer(generator *g)
{
    run *r = g->r;
    zt_status s = make_buffers(g);
    if (s == ZT_OK && r->o->logits)
        s = begin_npy(g);
    if (s == ZT_OK)
        s = feed_prompt(g);
    r->prompted = zt_seconds();
    if (s == ZT_OK)
        s = generate(g);
    r->ended = zt_seconds();
    return s;
}

/* What ends the output: the object, or the end of a line where one is wanted. */
static zt_status finish(run *r)
{
    bool terminal = !r->sink && isatty(STDOUT_FILENO) && r->ids.n > r->n_prompt;
    if (r->o->json)
        return run_report_json(r);
    return r->o->ids || terminal ? run_write(r, "\n", 1) : ZT_OK;
}

zt_status run_generate(run *r)
{
    generator g = {.r = r};
    zt_str_init(&g.held, r->ctx);
    zt_status s = run_encode_prompt(r);
    if (s == ZT_OK && r->o->eos)
        s = parse_eos(&g);
    if (s == ZT_OK)
        s = open_model(r);
    if (s == ZT_OK)
        s = answer(&g);
    if (s == ZT_OK)
        s = finish(r);
    if (s == ZT_OK && r->o->stats)
        run_report_stats(r);
    zt_sink_close(g.npy);
    zt_free(r->ctx, g.ends);
    zt_free(r->ctx, g.logits);
    zt_free(r->ctx, g.scratch);
    zt_str_fini(&g.held);
    return s;
}
