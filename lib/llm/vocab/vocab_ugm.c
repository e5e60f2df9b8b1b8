/* vocab_ugm.c - the 't5' tokenizer: SentencePiece's Unigram model.
 *
 * Text is normalized (a map of byte strings from the file; blanks), then cut into the tokens whose
 * scores add up best: Viterbi over byte positions, with a trie of the texts. A character that no
 * token covers costs as much as the worst token and 10 more. Source: SentencePiece (Kudo, 2018),
 * unigram_model.cc and normalizer.cc, and llama.cpp's src/llama-vocab.cpp, as facts.
 */
#include "lib/llm/vocab/vocab.h"

#include <math.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define UNKNOWN_PENALTY 10.0

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status fill(zt_vocab *v, double *worst)
{
    zt_status s = ZT_OK;
    for (int32_t i = 0; !s && i < v->n; i++) {
        int type = zt_vocab_type(v, i);
        if (!isfinite(v->score[i]))
            s = zt_fail(v->ctx, ZT_EDATA, "%s: the score of token %d is not a finite number",
                        v->file, i);
        else if (type == ZT_TOK_NORMAL || type == ZT_TOK_USER || type == ZT_TOK_UNUSED)
            s = zt_trie_put(v->trie, v->text[i], i);
        if (type == ZT_TOK_NORMAL && v->score[i] < *worst)
            *worst = v->score[i];
    }
    return s;
}

static zt_status open_ugm(zt_vocab *v, const zt_vocab_spec *spec)
{
    double worst = INFINITY;
    zt_vocab_hex_bytes(v);
    v->trie = zt_trie_new(v->ctx);
    zt_status s = v->trie ? fill(v, &worst) : ZT_ENOMEM;
    v->unk_score = (isfinite(worst) ? worst : 0) - UNKNOWN_PENALTY;
    if (!s && spec->charsmap.n) {
        v->charsmap = zt_charsmap_new(v->ctx, v->file, spec->charsmap);
        s = v->charsmap ? ZT_OK : zt_ctx_status(v->ctx);
    }
    return s;
}

static void close_ugm(zt_vocab *v)
{
    zt_trie_free(v->trie);
    zt_charsmap_free(v->charsmap);
}

/* ---- normalization --------------------------------------------------------------------------- */

typedef struct normal { /* text being normalized */
    const zt_vocab *v;
    zt_str *out;
    bool in_word;  /* what came last was no blank */
    bool prefixed; /* the space before the text is there */
} normal;

/* Blanks become U+2581: one each, or with merge_spaces one before each word. */
static zt_status put_byte(normal *m, char c)
{
    bool merge = m->v->merge_spaces;
    zt_status s = ZT_OK;
    if (c == ' ') {
        m->in_word = false;
        return merge ? ZT_OK : zt_str_put(m->out, ZT_SPACE, ZT_SPACE_LEN);
    }
    bool first = m->v->add_space && !m->prefixed;
    if (!m->in_word && (first || merge))
        s = zt_str_put(m->out, ZT_SPACE, ZT_SPACE_LEN);
    m->prefixed = m->in_word = true;
    return s ? s : zt_str_putc(m->out, c);
}

/* What text begins with, normalized: mapped, or one character; a byte
 * that is no UTF-8 is U+FFFD. */
static zt_status put_prefix(normal *m, const char *text, size_t n, size_t *used)
{
    zt_bytes to = {text, 0};
    uint32_t cp;
    *used = 0;
    const zt_charsmap *map = m->v->charsmap;
    zt_status s = map ? zt_charsmap_prefix(map, text, n, false, &to, used) : ZT_OK;
    if (!s && !*used) {
        int len = zt_utf8_decode(text, n, &cp);
        to = len ? (zt_bytes){text, (size_t)len} : (zt_bytes){REPLACEMENT, 3};
        *used = len ? (size_t)len : 1;
    }
    for (size_t i = 0; !s && i < to.n; i++)
        s = put_byte(m, to.data[i]);
    return s;
}

/* ---- Viterbi --------------------------------------------------------------------------------- */

enum { UNREACHED = -2, UNKNOWN = -1 };

typedef struct best { /* the best way to a position */
    double score;
    uint32_t from; /* where its last token starts */
    int32_t id;    /* that token, or UNKNOWN */
} best;

static void offer(best *b, double score, size_t from, int32_t id)
{
    if (b->id == UNREACHED || score > b->score)
        *b = (best){score, (uint32_t)from, id};
}

static size_t char_len(const char *text, size_t n)
{
    uint32_t cp;
    int len = zt_utf8_decode(text, n, &cp);
    return len ? (size_t)len : 1;
}

/* All tokens that start at `at`. */
static void step(const zt_vocab *v, const char *text, size_t n, size_t at, size_t len, best *b)
{
    double score = b[at].score;
    bool whole = false; /* the character itself is a token */
    uint32_t node = ZT_TRIE_ROOT;
    for (size_t i = at; i < n; i++) {
        node = zt_trie_step(v->trie, node, (unsigned char)text[i]);
        if (node == ZT_TRIE_NONE)
            break;
        int32_t id = zt_trie_value(v->trie, node);
        if (id < 0)
            continue;
        whole = whole || i + 1 == at + len;
        offer(&b[i + 1], score + (zt_vocab_type(v, id) == ZT_TOK_USER ? 0 : v->score[id]), at, id);
    }
    if (!whole)
        offer(&b[at + len], score + v->unk_score, at, UNKNOWN);
}

/* Unknown text from a to b: its bytes where they are tokens, else one unknown token. */
static zt_status put_unknown(const zt_vocab *v, const char *text, size_t a, size_t b, zt_ids *ids)
{
    bool bytes = v->byte_fallback;
    zt_status s = ZT_OK;
    for (size_t i = a; bytes && i < b; i++)
        bytes = v->byte_id[(unsigned char)text[i]] >= 0;
    for (size_t i = a; bytes && !s && i < b; i++)
        s = zt_ids_push(v->ctx, ids, v->byte_id[(unsigned char)text[i]]);
    return !bytes && v->unk >= 0 ? zt_ids_push(v->ctx, ids, v->unk) : s;
}

/* Turns the best way round: each `from` becomes the end of the token
 * that comes next. Returns the end of the first. */
static size_t turn(best *b, size_t n)
{
    size_t at = n, next = n;
    for (;;) {
        size_t from = b[at].from;
        b[at].from = (uint32_t)next;
        if (!from)
            return at;
        next = at;
        at = from;
    }
}

static zt_status put_best(const zt_vocab *v, const char *text, size_t n, best *b, zt_ids *ids)
{
    zt_status s = ZT_OK;
    size_t start = 0, end = turn(b, n);
    while (!s && start < n) {
        int32_t id = b[end].id;
        while (id == UNKNOWN && end < n && b[b[end].from].id == UNKNOWN)
            end = b[end].from;
        s = id == UNKNOWN ? put_unknown(v, text, start, end, ids) : zt_ids_push(v->ctx, ids, id);
        start = end;
        end = b[end].from;
    }
    return s;
}

static zt_status tokens(const zt_vocab *v, const char *text, size_t n, zt_ids *ids)
{
    if (!n)
        return ZT_OK;
    if (n >= UINT32_MAX)
        return zt_fail(v->ctx, ZT_EUSAGE, "text of %zu bytes is too long", n);
    best *b = zt_alloc_array(v->ctx, n + 1, sizeof *b);
    if (!b)
        return ZT_ENOMEM;
    for (size_t i = 0; i <= n; i++)
        b[i].id = UNREACHED;
    b[0] = (best){0, 0, UNKNOWN};
    for (size_t at = 0, len; at < n; at += len) {
        len = char_len(text + at, n - at);
        if (b[at].id != UNREACHED)
            step(v, text, n, at, len, b);
    }
    zt_status s = put_best(v, text, n, b, ids);
    zt_free(v->ctx, b);
    return s;
}

static zt_status encode_ugm(const zt_vocab *v, const char *text, size_t n, zt_merger *m,
                            zt_ids *ids)
{
    zt_str out;
    normal norm = {.v = v, .out = &out};
    zt_status s = ZT_OK;
    (void)m;
    zt_str_init(&out, v->ctx);
    for (size_t at = 0, used; !s && at < n; at += used)
        s = put_prefix(&norm, text + at, n - at, &used);
    if (!s)
        s = tokens(v, out.data, out.len, ids);
    zt_str_fini(&out);
    return s;
}

const zt_vocab_kind zt_vocab_t5 = {
    .name = "t5",
    .open = open_ugm,
    .close = close_ugm,
    .encode = encode_ugm,
    .decode = zt_vocab_decode_spaced,
};
