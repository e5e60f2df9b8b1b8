/* vocab_bpe.c - the 'gpt2' tokenizer: byte-level BPE.
 *
 * Text is cut into pieces by regular expressions (the pre-tokenizer, named by the file); a piece's
 * bytes are its symbols; two neighbours merge when the file lists them, the earliest line first.
 * In the file a byte is written as one printable character. Source: GPT-2's encoder.py, as facts.
 *
 * Text may be any bytes: PCRE2 sees only the stretches that are UTF-8, and what lies between them is
 * a piece by itself.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/llm/vocab.h"

#include <pcre2.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- pre-tokenizers -------------------------------------------------------------------------------- */

/* Unicode's White_Space, which is what \s means to those who wrote these patterns; PCRE2's \s has
 * U+180E besides. */
#define WS "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define GPT2                                                                                       \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|[" WS "]+(?![^" WS       \
    "])|[" WS "]+"
#define DIGIT "\\p{N}"

enum { MAX_PATTERNS = 4 };

/* Each pattern cuts what the one before left: its matches, and what is between them. */
static const struct {
    const char *name; /* tokenizer.ggml.pre */
    const char *pattern[MAX_PATTERNS];
} pre_table[] = {
    {"default", {GPT2}},
    {"gpt-2", {GPT2}},
    {"gpt2", {GPT2}},
    {"phi-2", {GPT2}},
    {"mpt", {GPT2}},
    {"olmo", {GPT2}},
    {"smollm", {DIGIT, GPT2}},
    {"starcoder", {DIGIT, GPT2}},
    {"refact", {DIGIT, GPT2}},
    {"codeshell", {DIGIT, GPT2}},
};

struct zt_split {
    zt_ctx *ctx;
    pcre2_general_context *memory;
    pcre2_compile_context *compile;
    pcre2_code *code[MAX_PATTERNS];
    int n;
};

static void *pcre_alloc(size_t n, void *ctx)
{
    return zt_alloc(ctx, n);
}

static void pcre_free(void *p, void *ctx)
{
    zt_free(ctx, p);
}

static void split_free(zt_split *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        pcre2_code_free(s->code[i]);
    pcre2_compile_context_free(s->compile);
    pcre2_general_context_free(s->memory);
    zt_free(s->ctx, s);
}

/* Without JIT (a kernel that forbids it) PCRE2 interprets: slower, the same pieces. It says "no
 * memory" for that too: it was ours that lacked only when the context knows. */
static zt_status split_add(zt_split *s, const char *pattern)
{
    int code;
    PCRE2_SIZE at;
    pcre2_code *c = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                  PCRE2_UTF | PCRE2_UCP, &code, &at, s->compile);
    if (!c)
        return zt_fail(s->ctx, ZT_EBUG, "pre-tokenizer: PCRE2 error %d at %zu of '%s'", code, at,
                       pattern);
    s->code[s->n++] = c;
    int rc = pcre2_jit_compile(c, PCRE2_JIT_COMPLETE);
    return rc == PCRE2_ERROR_NOMEMORY && zt_ctx_status(s->ctx) ? ZT_ENOMEM : ZT_OK;
}

static zt_split *split_new(zt_ctx *ctx, const char *const *pattern)
{
    zt_split *s = zt_calloc(ctx, 1, sizeof *s);
    if (!s)
        return NULL;
    s->ctx = ctx;
    s->memory = pcre2_general_context_create(pcre_alloc, pcre_free, ctx);
    s->compile = s->memory ? pcre2_compile_context_create(s->memory) : NULL;
    if (!s->compile)
        goto fail;
    for (int i = 0; i < MAX_PATTERNS && pattern[i]; i++)
        if (split_add(s, pattern[i]))
            goto fail;
    return s;
fail:
    split_free(s);
    return NULL;
}

static zt_status open_split(zt_vocab *v, const zt_gguf *g)
{
    zt_bytes name;
    char buf[80];
    if (!zt_gguf_str(g, "tokenizer.ggml.pre", &name))
        name = (zt_bytes){"default", strlen("default")};
    for (size_t i = 0; i < COUNT(pre_table); i++)
        if (strlen(pre_table[i].name) == name.n && !memcmp(pre_table[i].name, name.data, name.n)) {
            v->split = split_new(v->ctx, pre_table[i].pattern);
            return v->split ? ZT_OK : ZT_ENOMEM;
        }
    return zt_fail(v->ctx, ZT_ENOTSUP, "%s: pre-tokenizer '%s' is not known", v->file,
                   zt_escape(buf, sizeof buf, name.data, name.n));
}

/* ---- bytes as printable characters ------------------------------------------------------------------ */

/* Bytes that print in Latin-1 stand for themselves; the others, in order, for U+0100 and on. */
static uint32_t char_of_byte(int b)
{
    return b <= 32                ? 256 + (uint32_t)b
           : b >= 127 && b <= 160 ? 256 + 33 + (uint32_t)(b - 127)
           : b == 173             ? 256 + 33 + 34
                                  : (uint32_t)b;
}

static int byte_of_char(uint32_t cp) /* -1: stands for none */
{
    if (cp < 256)
        return char_of_byte((int)cp) == cp ? (int)cp : -1;
    cp -= 256;
    return cp < 33 ? (int)cp : cp < 67 ? (int)cp + 127 - 33 : cp == 67 ? 173 : -1;
}

static void open_bytes(zt_vocab *v)
{
    for (int b = 0; b < 256; b++) {
        char text[4];
        int n = zt_utf8_encode(char_of_byte(b), text);
        v->byte_id[b] = zt_vocab_find(v, text, (size_t)n);
    }
}

/* ---- merges ----------------------------------------------------------------------------------------- */

typedef struct merge {
    uint64_t key; /* left id << 32 | right id */
    uint32_t rank;
    uint32_t id;  /* one more than the merged token's, 0: a free slot */
} merge;

struct zt_merges {
    size_t mask; /* slots - 1 */
    merge slot[];
};

enum { MOST_PROBES = 4096 };

static size_t merge_home(const zt_merges *t, uint64_t key)
{
    uint64_t h = key * UINT64_C(0x9e3779b97f4a7c15); /* Fibonacci hashing: high bits are good */
    return (size_t)(h ^ h >> 32) & t->mask;
}

static zt_merges *merges_new(zt_ctx *ctx, int64_t n)
{
    size_t slots = 64, bytes;
    while (slots < 2 * (size_t)n)
        slots *= 2;
    if (!zt_mul_size(slots, sizeof(merge), &bytes) ||
        !zt_add_size(bytes, sizeof(zt_merges), &bytes)) {
        zt_fail(ctx, ZT_ENOMEM, "%lld merges are too many", (long long)n);
        return NULL;
    }
    zt_merges *t = zt_calloc(ctx, 1, bytes);
    if (t)
        t->mask = slots - 1;
    return t;
}

/* A pair listed twice keeps its first line. */
static bool merges_put(zt_merges *t, uint64_t key, uint32_t rank, int32_t id)
{
    size_t i = merge_home(t, key);
    for (int probes = 0; t->slot[i].id; i = (i + 1) & t->mask) {
        if (t->slot[i].key == key)
            return true;
        if (++probes > MOST_PROBES)
            return false;
    }
    t->slot[i] = (merge){key, rank, (uint32_t)id + 1};
    return true;
}

/* "left right": both, and both together, must be tokens. */
static zt_status read_merge(zt_vocab *v, zt_bytes line, uint32_t rank)
{
    const char *sp = line.n > 1 ? memchr(line.data + 1, ' ', line.n - 1) : NULL;
    char buf[80];
    zt_bytes none = {"", 0}, a, b;
    int32_t left = -1, right = -1, both = -1;
    if (sp && sp + 1 < line.data + line.n) {
        a = (zt_bytes){line.data, (size_t)(sp - line.data)};
        b = (zt_bytes){sp + 1, line.n - a.n - 1};
        uint64_t h = zt_hash_more(ZT_HASH_SEED, a.data, a.n);
        left = zt_vocab_lookup(v, h, a, none);
        right = zt_vocab_find(v, b.data, b.n);
        both = zt_vocab_lookup(v, zt_hash_more(h, b.data, b.n), a, b);
    }
    if (left < 0 || right < 0 || both < 0)
        return zt_fail(v->ctx, ZT_EDATA, "%s: merge %u, '%s', is not two tokens that make a third",
                       v->file, rank, zt_escape(buf, sizeof buf, line.data, line.n));
    if (!merges_put(v->merges, (uint64_t)left << 32 | (uint32_t)right, rank, both))
        return zt_fail(v->ctx, ZT_EDATA, "%s: %d merges all collide", v->file, MOST_PROBES);
    return ZT_OK;
}

static zt_status open_merges(zt_vocab *v, const zt_gguf *g)
{
    const char *key = "tokenizer.ggml.merges";
    zt_gguf_kind elem;
    int64_t n = 0;
    zt_status s = ZT_OK;
    if (!zt_gguf_array(g, key, &elem, &n) || elem != ZT_GGUF_STR)
        return zt_fail(v->ctx, ZT_EDATA, "%s: '%s' is missing or no list of texts", v->file, key);
    if (n > INT32_MAX / 4)
        return zt_fail(v->ctx, ZT_EDATA, "%s: %lld merges are too many", v->file, (long long)n);
    zt_bytes *line = zt_alloc_array(v->ctx, (size_t)n, sizeof *line);
    v->merges = merges_new(v->ctx, n);
    if (!line || !v->merges)
        s = ZT_ENOMEM;
    else if (!zt_gguf_array_strs(g, key, line, n))
        s = zt_fail(v->ctx, ZT_EDATA, "%s: '%s' cannot be read", v->file, key);
    for (int64_t i = 0; !s && i < n; i++)
        s = read_merge(v, line[i], (uint32_t)i);
    zt_free(v->ctx, line);
    return s;
}

static bool pair(const zt_vocab *v, const char *text, const zt_sym *a, const zt_sym *b,
                 uint32_t *rank, int32_t *id)
{
    (void)text;
    if (a->id < 0 || b->id < 0)
        return false;
    const zt_merges *t = v->merges;
    uint64_t key = (uint64_t)(uint32_t)a->id << 32 | (uint32_t)b->id;
    for (size_t i = merge_home(t, key); t->slot[i].id; i = (i + 1) & t->mask)
        if (t->slot[i].key == key) {
            *rank = t->slot[i].rank;
            *id = (int32_t)(t->slot[i].id - 1);
            return true;
        }
    return false;
}

static zt_status open_bpe(zt_vocab *v, const zt_gguf *g)
{
    zt_status s = open_split(v, g);
    open_bytes(v);
    return s ? s : open_merges(v, g);
}

static void close_bpe(zt_vocab *v)
{
    split_free(v->split);
    zt_free(v->ctx, v->merges);
}

/* ---- text to ids ------------------------------------------------------------------------------------ */

typedef struct job { /* one call of encode */
    const zt_vocab *v;
    zt_merger *m;
    zt_ids *ids;
    pcre2_match_data *match;
} job;

/* A byte that the vocabulary has no token for is left out, as everywhere: such files are made from
 * texts that never had it. */
static zt_status piece(const job *j, const char *text, size_t n)
{
    const zt_vocab *v = j->v;
    zt_status s = zt_merger_reserve(j->m, n);
    for (size_t i = 0; !s && i < n; i++)
        j->m->sym[i] = (zt_sym){.at = (uint32_t)i, .len = 1,
                                .id = v->byte_id[(unsigned char)text[i]]};
    if (s)
        return s;
    zt_merger_run(j->m, v, text, pair);
    for (int32_t i = 0; !s && i >= 0; i = j->m->sym[i].next)
        if (j->m->sym[i].id >= 0)
            s = zt_ids_push(v->ctx, j->ids, j->m->sym[i].id);
    return s;
}

/* Text (valid UTF-8) cut by pattern `level` and those after it. */
static zt_status cut(const job *j, int level, const char *text, size_t n)
{
    const zt_split *split = j->v->split;
    size_t at = 0; /* all before it is done */
    zt_status s = ZT_OK;
    if (level == split->n)
        return n ? piece(j, text, n) : ZT_OK;
    while (!s && at < n) {
        int rc = pcre2_match(split->code[level], (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK,
                             j->match, NULL);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc < 0)
            return zt_fail(j->v->ctx, ZT_ENOMEM, "pre-tokenizer: PCRE2 error %d at byte %zu of %zu",
                           rc, at, n);
        const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(j->match);
        size_t from = ov[0], to = ov[1]; /* the calls below overwrite ov */
        s = cut(j, level + 1, text + at, from - at);
        if (!s)
            s = cut(j, level + 1, text + from, to - from);
        at = to;
    }
    return s ? s : cut(j, level + 1, text + at, n - at);
}

/* Bytes at the start of text that are all UTF-8 (valid), or all not. */
static size_t stretch(const char *text, size_t n, bool valid)
{
    size_t i = 0;
    uint32_t cp;
    while (i < n) {
        int len = (unsigned char)text[i] < 0x80 ? 1 : zt_utf8_decode(text + i, n - i, &cp);
        if ((len > 0) != valid)
            break;
        i += len ? (size_t)len : 1;
    }
    return i;
}

static zt_status encode_bpe(const zt_vocab *v, const char *text, size_t n, zt_merger *m,
                            zt_ids *ids)
{
    job j = {v, m, ids, pcre2_match_data_create(1, v->split->memory)};
    zt_status s = j.match ? ZT_OK : ZT_ENOMEM;
    for (size_t at = 0; !s && at < n;) {
        size_t good = stretch(text + at, n - at, true);
        s = cut(&j, 0, text + at, good);
        at += good;
        size_t bad = stretch(text + at, n - at, false);
        if (!s && bad)
            s = piece(&j, text + at, bad);
        at += bad;
    }
    pcre2_match_data_free(j.match);
    return s;
}

/* ---- ids to text ------------------------------------------------------------------------------------ */

/* Characters that stand for no byte are kept as they are: added tokens are written plainly. */
static zt_status decode_bpe(const zt_vocab *v, int32_t id, zt_str *out)
{
    zt_bytes t = v->text[id];
    zt_status s = ZT_OK;
    for (size_t i = 0; !s && i < t.n;) {
        uint32_t cp = 0;
        int len = zt_utf8_decode(t.data + i, t.n - i, &cp);
        int b = len ? byte_of_char(cp) : -1;
        len = len ? len : 1;
        s = b >= 0 ? zt_str_putc(out, (char)b) : zt_str_put(out, t.data + i, (size_t)len);
        i += (size_t)len;
    }
    return s;
}

const zt_vocab_kind zt_vocab_gpt2 = {
    .name = "gpt2",
    .bos = -1,
    .eos = -1,
    .unk = -1,
    .open = open_bpe,
    .close = close_bpe,
    .encode = encode_bpe,
    .decode = decode_bpe,
};
