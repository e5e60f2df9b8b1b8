/* vocab_json_words.c - tokenizer.json's WordPiece and Unigram: pieces of a word found in a trie.
 *
 * WordPiece takes the longest piece from the left, and the whole word is unknown when one is
 * missing. Unigram takes the pieces with the greatest sum of scores (Viterbi); an unknown character
 * costs 10 more than the worst piece, and unknown ones in a row are one. Source:
 * huggingface/tokenizers, models/wordpiece and models/unigram, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- WordPiece ------------------------------------------------------------------------------- */

/* A piece may open a word, and with the prefix it may go on: each trie has what applies. */
static zt_status fill_tries(zt_tj_reader *r, zt_tj *t)
{
    zt_status s = ZT_OK;
    t->trie = zt_trie_new(r->ctx);
    t->trie_more = zt_trie_new(r->ctx);
    if (!t->trie || !t->trie_more)
        return ZT_ENOMEM;
    for (int32_t id = 0; !s && id < t->n; id++) {
        zt_bytes text = t->text[id], more = {NULL, 0};
        if (!text.data || !text.n)
            continue;
        if (text.n > t->prefix.n && memcmp(text.data, t->prefix.data, t->prefix.n) == 0)
            more = (zt_bytes){text.data + t->prefix.n, text.n - t->prefix.n};
        s = zt_trie_put(t->trie, text, id);
        if (!s && more.n)
            s = zt_trie_put(t->trie_more, more, id);
    }
    return s;
}

static zt_status read_wordpiece(zt_tj_reader *r, const json_t *o, zt_tj *t)
{
    t->prefix = (zt_bytes){"##", 2};
    t->most_chars = 100;
    zt_status s = zt_vocab_object(r, o, t);
    if (!s)
        s = zt_model_unk(r, o, t, "[UNK]");
    if (!s)
        s = zt_tj_text(r, o, "continuing_subword_prefix", &t->prefix);
    if (!s)
        s = zt_tj_size(r, o, "max_input_chars_per_word", &t->most_chars);
    return s ? s : fill_tries(r, t);
}

/* Are there more characters than may be? */
static bool too_long(const zt_tj *t, const char *text, size_t n)
{
    int64_t chars = 0;
    for (size_t i = 0; i < n && chars <= t->most_chars; i++)
        chars += ((unsigned char)text[i] & 0xc0) != 0x80;
    return chars > t->most_chars;
}

/* The longest key that begins the text; its length, 0: none. */
static size_t longest(const zt_trie *trie, const char *text, size_t n, int32_t *id)
{
    size_t best = 0;
    uint32_t node = ZT_TRIE_ROOT;
    for (size_t i = 0; i < n; i++) {
        node = zt_trie_step(trie, node, (unsigned char)text[i]);
        if (node == ZT_TRIE_NONE)
            break;
        if (zt_trie_value(trie, node) >= 0) {
            *id = zt_trie_value(trie, node);
            best = i + 1;
        }
    }
    return best;
}

static zt_status wordpiece(const zt_tj *t, zt_tj_work *w, const char *text, size_t n)
{
    size_t before = w->ids->count;
    bool bad = too_long(t, text, n);
    zt_status s = ZT_OK;
    for (size_t at = 0; !s && !bad && at < n;) {
        int32_t id = -1;
        size_t len = longest(at ? t->trie_more : t->trie, text + at, n - at, &id);
        bad = !len;
        if (len)
            s = zt_tj_put(t, w, id);
        at += len;
    }
    if (!s && bad) {
        w->ids->count = before;
        s = zt_tj_put_unk(t, w);
    }
    return s;
}

const zt_model_row zt_model_wordpiece = {"WordPiece", read_wordpiece, wordpiece};

/* ---- Unigram --------------------------------------------------------------------------------- */

static const double unk_penalty = 10;

static zt_status read_piece(zt_tj_reader *r, zt_tj *t, int32_t id, const json_t *j)
{
    const json_t *text = json_array_get(j, 0), *score = json_array_get(j, 1);
    if (json_array_size(j) != 2 || !json_is_string(text) || !json_is_number(score) ||
        !isfinite(json_number_value(score)))
        return zt_fail(r->ctx, ZT_EDATA, "%s: token %d is not a text and a score", r->file, id);
    zt_bytes kept = zt_tj_keep(r, json_string_value(text), json_string_length(text));
    if (!kept.data)
        return ZT_ENOMEM;
    t->text[id] = kept;
    t->score[id] = json_number_value(score);
    if (t->score[id] - unk_penalty < t->unk_score)
        t->unk_score = t->score[id] - unk_penalty;
    zt_status s = zt_map_put(t->ids, kept.data, kept.n, id);
    return s ? s : zt_trie_put(t->trie, kept, id);
}

static zt_status read_unk_id(zt_tj_reader *r, const json_t *o, zt_tj *t)
{
    int64_t unk = -1;
    zt_status s = zt_tj_size(r, o, "unk_id", &unk);
    if (!s && unk >= t->n)
        s = zt_fail(r->ctx, ZT_EDATA, "%s: model: 'unk_id' is %lld, but there are %d tokens",
                    r->file, (long long)unk, t->n);
    t->unk = s ? -1 : (int32_t)unk;
    t->unk_missing = t->unk < 0;
    return s;
}

static zt_status read_unigram(zt_tj_reader *r, const json_t *o, zt_tj *t)
{
    const json_t *list = json_object_get(o, "vocab");
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > INT32_MAX / 4)
        return zt_fail(r->ctx, ZT_EDATA, "%s: model: 'vocab' is no list, or too long", r->file);
    t->n = (int32_t)n;
    t->entries = n;
    t->unk_score = INFINITY;
    t->text = zt_calloc(r->ctx, n, sizeof *t->text);
    t->score = zt_calloc(r->ctx, n, sizeof *t->score);
    t->ids = zt_map_new(r->ctx, n);
    t->trie = zt_trie_new(r->ctx);
    zt_status s = t->text && t->score && t->ids && t->trie ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; !s && i < n; i++)
        s = read_piece(r, t, (int32_t)i, json_array_get(list, i));
    if (!s)
        s = read_unk_id(r, o, t);
    if (!s)
        s = zt_tj_bool(r, o, "byte_fallback", &t->byte_fallback);
    for (int b = 0; !s && b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", b);
        t->byte[b] = zt_model_find(t, text, 6);
    }
    return s;
}

typedef struct node { /* the best way to where a piece ends */
    double score;
    uint32_t from; /* where the piece begins; NOWHERE: no way yet */
    int32_t id;
} node;
enum { NOWHERE = UINT32_MAX };

static zt_status path_room(const zt_tj *t, zt_tj_work *w, size_t n)
{
    size_t bytes;
    if (!zt_mul_size(n + 1, sizeof(node), &bytes))
        return zt_fail(t->ctx, ZT_ENOMEM, "a piece of %zu bytes is too long", n);
    if (bytes <= w->path_cap)
        return ZT_OK;
    zt_free(t->ctx, w->path);
    w->path_cap = 0;
    w->path = zt_alloc(t->ctx, bytes + bytes / 2);
    w->path_cap = w->path ? bytes + bytes / 2 : 0;
    return w->path ? ZT_OK : ZT_ENOMEM;
}

static void reach(node *to, double score, size_t from, int32_t id)
{
    if (to->from == NOWHERE || score > to->score)
        *to = (node){score, (uint32_t)from, id};
}

/* All pieces that begin at `at`. False: the character is unknown and there is no token for that. */
static bool advance(const zt_tj *t, node *path, const char *text, size_t n, size_t at,
                    size_t char_len)
{
    bool single = false;
    uint32_t place = ZT_TRIE_ROOT;
    for (size_t i = at; i < n; i++) {
        place = zt_trie_step(t->trie, place, (unsigned char)text[i]);
        if (place == ZT_TRIE_NONE)
            break;
        int32_t id = zt_trie_value(t->trie, place);
        if (id < 0)
            continue;
        reach(&path[i + 1], path[at].score + t->score[id], at, id);
        single = single || i + 1 - at == char_len;
    }
    node *to = &path[at + char_len];
    double score = path[at].score + t->unk_score;
    if (single || (to->from != NOWHERE && score <= to->score))
        return true;
    reach(to, score, at, t->unk);
    return t->unk >= 0;
}

/* The ids of one piece of the best path, which is known or a run of unknown characters. */
static zt_status put_piece(const zt_tj *t, zt_tj_work *w, const char *text, size_t n)
{
    int32_t id = zt_model_find(t, text, n);
    zt_status s = ZT_OK;
    if (id >= 0)
        return zt_tj_put(t, w, id);
    if (!t->byte_fallback || !zt_tj_has_bytes(t, text, n))
        return zt_tj_put_unk(t, w);
    for (size_t i = 0; !s && i < n; i++)
        s = zt_tj_put(t, w, t->byte[(unsigned char)text[i]]);
    return s;
}

/* Turns the path around: each node on it then says where its piece ends. */
static void turn(node *path, size_t n)
{
    int32_t id = path[n].id, before;
    for (size_t end = n, from; end; end = from, id = before) {
        from = path[end].from;
        before = path[from].id;
        path[from].score = (double)end;
        path[from].id = id;
    }
}

static zt_status unigram(const zt_tj *t, zt_tj_work *w, const char *text, size_t n)
{
    zt_status s = path_room(t, w, n);
    node *path = w->path;
    for (size_t i = 0; !s && i <= n; i++)
        path[i] = (node){0, NOWHERE, -1};
    for (size_t at = 0, next = 0; !s && at < n; at = next) {
        zt_char_next(text, n, &next);
        if (!advance(t, path, text, n, at, next - at))
            s = zt_fail(t->ctx, ZT_EDATA, "the text needs an unknown token, which the vocabulary "
                        "does not have");
    }
    if (s)
        return s;
    turn(path, n);
    for (size_t at = 0, end; !s && at < n; at = end) {
        int32_t id = path[at].id;
        end = (size_t)path[at].score;
        while (id == t->unk && end < n && path[end].id == t->unk)
            end = (size_t)path[end].score;
        s = put_piece(t, w, text + at, end - at);
    }
    return s;
}

const zt_model_row zt_model_unigram = {"Unigram", read_unigram, unigram};
