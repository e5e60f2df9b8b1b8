/* bpe_make.c - a byte-level BPE vocabulary from a text: again and again the pair of neighbours that
 * is most frequent becomes a token (R. Sennrich et al., 2016). Bytes are told by GPT-2's stand-ins.
 *
 * Pairs are counted within pieces (letters with the blank before them, digits, other signs), each
 * counted once with how often it is there, as the pre-tokenizer gpt-2 would cut them or finer.
 */
#include "lib/llm/bpe_make.h"

#include <string.h>

enum { BYTES = 256, FIRST = 1, MAX_PIECE = 48 };

typedef struct piece {
    int32_t id[MAX_PIECE];
    int n;
    int64_t times;
} piece;

typedef struct maker {
    zt_ctx *ctx;
    zt_map *index; /* piece's text -> number */
    piece *piece;
    size_t n, cap;
    int32_t n_tokens, most;
    zt_str text;      /* of all tokens, one behind the other */
    size_t *at;       /* [most + 1]: where each begins in text */
    int64_t *count;   /* [most][most]: pairs, of best_pair */
    int64_t n_merges;
    zt_str merges;
    size_t *merge_at;
} maker;

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Letters, digits, the blank, other white space, the rest. */
static int kind_of(unsigned char c)
{
    bool letter = ((c | 32) >= 'a' && (c | 32) <= 'z') || c >= 128;
    bool blank = c && memchr("\t\n\v\f\r", c, 5);
    return letter ? 1 : c >= '0' && c <= '9' ? 2 : c == ' ' ? 3 : blank ? 4 : 5;
}

/* Bytes of the piece at s: one blank goes with what follows. */
static size_t piece_length(const char *s, size_t n)
{
    size_t k = n > 1 && *s == ' ' && kind_of((unsigned char)s[1]) != 4 ? 1 : 0;
    int kind = kind_of((unsigned char)s[k]);
    do k++; while (k < n && k < MAX_PIECE && kind_of((unsigned char)s[k]) == kind);
    return k;
}

static zt_status add_piece(maker *m, const char *s, size_t n)
{
    int64_t i;
    if (zt_map_get(m->index, s, n, &i)) {
        m->piece[i].times++;
        return ZT_OK;
    }
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 1024;
        piece *more = zt_realloc(m->ctx, m->piece, cap * sizeof *more);
        if (!more) return ZT_ENOMEM;
        m->piece = more;
        m->cap = cap;
    }
    piece *p = &m->piece[m->n];
    *p = (piece){.n = (int)n, .times = 1};
    for (size_t k = 0; k < n; k++) p->id[k] = FIRST + (unsigned char)s[k];
    return zt_map_put(m->index, s, n, (int64_t)m->n++);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static zt_bytes token(const maker *m, int32_t i)
{
    return (zt_bytes){m->text.data + m->at[i], m->at[i + 1] - m->at[i]};
}

static zt_status close_token(maker *m)
{
    m->at[++m->n_tokens] = m->text.len;
    return zt_ctx_status(m->ctx);
}

static zt_status add_bytes(maker *m)
{
    uint32_t other = 256;
    zt_str_puts(&m->text, "<|endoftext|>");
    zt_status s = close_token(m);
    for (uint32_t b = 0; b < BYTES && !s; b++) {
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        char utf8[4];
        zt_str_put(&m->text, utf8, (size_t)zt_utf8_encode(plain ? b : other++, utf8));
        s = close_token(m);
    }
    return s;
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* The most frequent pair, of equals the first; its count. count[] is of all pairs of tokens. */
static int64_t best_pair(maker *m, int32_t *a, int32_t *b)
{
    size_t wide = (size_t)m->most;
    memset(m->count, 0, wide * wide * sizeof *m->count);
    int64_t best = 0;
    for (size_t i = 0; i < m->n; i++)
        for (int k = 0; k + 1 < m->piece[i].n; k++)
            m->count[(size_t)m->piece[i].id[k] * wide + (size_t)m->piece[i].id[k + 1]] +=
                m->piece[i].times;
    for (size_t k = 0; k < wide * (size_t)m->n_tokens; k++)
        if (m->count[k] > best) {
            best = m->count[k];
            *a = (int32_t)(k / wide);
            *b = (int32_t)(k % wide);
        }
    return best;
}

static void join(piece *p, int32_t a, int32_t b, int32_t made)
{
    int to = 0;
    for (int k = 0; k < p->n; k++) {
        bool both = k + 1 < p->n && p->id[k] == a && p->id[k + 1] == b;
        p->id[to++] = both ? made : p->id[k];
        k += both;
    }
    p->n = to;
}

static zt_status add_merge(maker *m, int32_t a, int32_t b)
{
    zt_bytes x = token(m, a), y = token(m, b);
    zt_str_put(&m->merges, x.data, x.n);
    zt_str_putc(&m->merges, ' ');
    zt_str_put(&m->merges, y.data, y.n);
    m->merge_at[++m->n_merges] = m->merges.len;
    char both[8 * MAX_PIECE]; /* two texts of at most MAX_PIECE bytes, each by at most 2 */
    memcpy(both, x.data, x.n);
    memcpy(both + x.n, y.data, y.n);
    zt_str_put(&m->text, both, x.n + y.n);
    for (size_t i = 0; i < m->n; i++) join(&m->piece[i], a, b, m->n_tokens);
    return close_token(m);
}

static zt_status make(maker *m, const char *text, size_t n)
{
    zt_status s = add_bytes(m);
    for (size_t at = 0; at < n && !s;) {
        size_t k = piece_length(text + at, n - at);
        s = add_piece(m, text + at, k);
        at += k;
    }
    for (int32_t a, b; !s && m->n_tokens < m->most && best_pair(m, &a, &b) > 1;)
        s = add_merge(m, a, b);
    return s;
}

/* ---- out ------------------------------------------------------------------------------------- */

static zt_status put(zt_gguf_writer *w, maker *m)
{
    size_t most = (size_t)(m->n_tokens > m->n_merges ? m->n_tokens : m->n_merges) + 1;
    zt_bytes *t = zt_alloc_array(m->ctx, most, sizeof *t);
    int32_t *type = zt_alloc_array(m->ctx, (size_t)m->n_tokens, sizeof *type);
    if (t && type) {
        zt_gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
        zt_gguf_put_str(w, "tokenizer.ggml.pre", "gpt-2", 5);
        for (int32_t i = 0; i < m->n_tokens; i++) {
            t[i] = token(m, i);
            type[i] = i < FIRST ? 3 : 1; /* control, normal */
        }
        zt_gguf_put_strs(w, "tokenizer.ggml.tokens", t, m->n_tokens);
        zt_gguf_put_array(w, "tokenizer.ggml.token_type", ZT_GGUF_I32, type, m->n_tokens);
        for (int64_t i = 0; i < m->n_merges; i++)
            t[i] = (zt_bytes){m->merges.data + m->merge_at[i], m->merge_at[i + 1] - m->merge_at[i]};
        zt_gguf_put_strs(w, "tokenizer.ggml.merges", t, m->n_merges);
        zt_gguf_put_int(w, "tokenizer.ggml.bos_token_id", ZT_GGUF_U32, 0);
        zt_gguf_put_int(w, "tokenizer.ggml.eos_token_id", ZT_GGUF_U32, 0);
        zt_gguf_put_int(w, "tokenizer.ggml.add_bos_token", ZT_GGUF_BOOL, 0);
    }
    zt_free(m->ctx, t);
    zt_free(m->ctx, type);
    return t && type ? zt_gguf_writer_status(w) : ZT_ENOMEM;
}

zt_status zt_bpe_make(zt_gguf_writer *w, zt_ctx *ctx, const char *text, size_t n, int64_t most,
                      int64_t *n_tokens)
{
    enum { LEAST = BYTES + FIRST, MOST = 2048 };
    if (most < LEAST || most > MOST)
        return zt_fail(ctx, ZT_EUSAGE, "a vocabulary of %lld tokens: from %d to %d can be made",
                       (long long)most, LEAST, MOST);
    maker m = {.ctx = ctx, .most = (int32_t)most, .index = zt_map_new(ctx, 4096)};
    zt_str_init(&m.text, ctx);
    zt_str_init(&m.merges, ctx);
    m.at = zt_calloc(ctx, (size_t)most + 1, sizeof *m.at);
    m.merge_at = zt_calloc(ctx, (size_t)most + 1, sizeof *m.merge_at);
    m.count = zt_alloc_array(ctx, (size_t)(most * most), sizeof *m.count);
    zt_status s = m.index && m.at && m.merge_at && m.count ? make(&m, text, n) : ZT_ENOMEM;
    if (!s) s = put(w, &m);
    *n_tokens = m.n_tokens;
    zt_map_free(m.index);
    zt_str_fini(&m.text);
    zt_str_fini(&m.merges);
    zt_free(ctx, m.piece);
    zt_free(ctx, m.at);
    zt_free(ctx, m.merge_at);
    zt_free(ctx, m.count);
    return s;
}
