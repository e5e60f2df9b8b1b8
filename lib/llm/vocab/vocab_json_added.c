/* vocab_json_added.c - owns tokenizer.json's added tokens: their ids, and finding them in text.
 *
 * Those that are normalized are looked for in normalized text by their normalized content, the
 * others in raw text. At each place the longest counts; one that then fails to be a single word is
 * passed over, with all that is in it. Source: huggingface/tokenizers,
 * tokenizer/added_vocabulary.rs, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static zt_status read_token(zt_tj_reader *r, const json_t *o, zt_added *a)
{
    zt_status s = zt_tj_need(r, o, "content");
    if (!s)
        s = zt_tj_text(r, o, "content", &a->content);
    if (!s)
        s = zt_tj_bool(r, o, "special", &a->special);
    a->normalized = !a->special;
    if (!s)
        s = zt_tj_bool(r, o, "normalized", &a->normalized);
    if (!s)
        s = zt_tj_bool(r, o, "single_word", &a->single_word);
    if (!s)
        s = zt_tj_bool(r, o, "lstrip", &a->lstrip);
    return s ? s : zt_tj_bool(r, o, "rstrip", &a->rstrip);
}

/* A content that comes again replaces what it was; a new one has the model's id for it, or the next
 * that is free. The id in the file is not asked for: so does the library. */
static zt_status give_ids(zt_tj *t, zt_added_set *set, size_t n)
{
    zt_map *at = zt_map_new(t->ctx, n);
    zt_status s = at ? ZT_OK : ZT_ENOMEM;
    size_t next = t->entries, kept = 0;
    for (size_t i = 0; !s && i < n; i++) {
        zt_added a = set->token[i];
        int64_t old;
        if (!a.content.n)
            continue;
        if (zt_map_get(at, a.content.data, a.content.n, &old)) {
            a.id = set->token[old].id;
            set->token[old] = a;
            continue;
        }
        a.id = zt_model_find(t, a.content.data, a.content.n);
        if (a.id < 0)
            a.id = (int32_t)next++;
        set->token[kept] = a;
        s = zt_map_put(at, a.content.data, a.content.n, (int64_t)kept++);
    }
    set->n = kept;
    zt_map_free(at);
    return s;
}

/* The content as it is looked for and shown: normalized if that is wanted and changes it. */
static zt_status normalize(zt_tj_reader *r, zt_tj *t, zt_tj_work *w, zt_added *a)
{
    zt_text out;
    a->shown = a->content;
    if (!a->normalized)
        return ZT_OK;
    zt_status s = zt_norm_run(t, w, (zt_text){a->content.data, a->content.n, 0}, &out);
    if (s || (out.n == a->content.n && memcmp(out.s, a->content.data, out.n) == 0))
        return s;
    char *p = zt_arena_strndup(r->texts, out.n ? out.s : "", out.n);
    a->shown = (zt_bytes){p, out.n};
    return p ? ZT_OK : ZT_ENOMEM;
}

static zt_status fill(zt_tj_reader *r, zt_tj *t)
{
    zt_added_set *set = &t->added;
    zt_tj_work w;
    zt_status s = ZT_OK;
    zt_tj_work_init(&w, t, NULL, NULL);
    for (size_t i = 0; !s && i < set->n; i++) {
        zt_added *a = &set->token[i];
        s = normalize(r, t, &w, a);
        zt_trie **trie = a->normalized ? &set->normal : &set->raw;
        if (!s && !*trie && !(*trie = zt_trie_new(t->ctx)))
            s = ZT_ENOMEM;
        if (!s)
            s = zt_trie_put(*trie, a->shown, (int32_t)i);
    }
    zt_tj_work_fini(&w);
    return s;
}

zt_status zt_added_read(zt_tj_reader *r, const json_t *root, zt_tj *t)
{
    const json_t *list = json_object_get(root, "added_tokens");
    size_t n = json_array_size(list);
    r->where = "added_tokens";
    if (!list || json_is_null(list))
        return ZT_OK;
    if (!json_is_array(list) || n > INT32_MAX / 8)
        return zt_fail(r->ctx, ZT_EDATA, "%s: 'added_tokens' is no list, or too long", r->file);
    t->added.token = zt_calloc(r->ctx, n, sizeof *t->added.token);
    zt_status s = t->added.token ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; !s && i < n; i++)
        s = read_token(r, json_array_get(list, i), &t->added.token[i]);
    if (!s)
        s = give_ids(t, &t->added, n);
    return s ? s : fill(r, t);
}

void zt_added_free(zt_ctx *ctx, zt_added_set *a)
{
    zt_trie_free(a->raw);
    zt_trie_free(a->normal);
    zt_free(ctx, a->token);
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The longest token that begins at f->at; *end is where it ends. */
static const zt_added *longest(const zt_added_finder *f, size_t *end)
{
    const zt_added *best = NULL;
    uint32_t node = ZT_TRIE_ROOT;
    for (size_t i = f->at; i < f->n; i++) {
        node = zt_trie_step(f->trie, node, (unsigned char)f->text[i]);
        if (node == ZT_TRIE_NONE)
            break;
        if (zt_trie_value(f->trie, node) >= 0) {
            best = &f->t->added.token[zt_trie_value(f->trie, node)];
            *end = i + 1;
        }
    }
    return best;
}

/* Where the character before text[at] begins. */
static size_t char_before(const char *text, size_t at)
{
    do
        at--;
    while (at && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

static bool is_single_word(const zt_added_finder *f, size_t from, size_t to)
{
    size_t left = from ? char_before(f->text, from) : 0, right = to;
    return !(from && zt_char_word(zt_char_next(f->text, f->n, &left))) &&
           !(to < f->n && zt_char_word(zt_char_next(f->text, f->n, &right)));
}

/* White space before `from`, but not before what was told already. */
static size_t strip_left(const zt_added_finder *f, size_t from)
{
    while (from > f->done) {
        size_t at = char_before(f->text, from), i = at;
        if (!zt_char_space(zt_char_next(f->text, f->n, &i)))
            break;
        from = at;
    }
    return from > f->done ? from : f->done;
}

static size_t strip_right(const zt_added_finder *f, size_t to)
{
    for (size_t i = to; i < f->n && zt_char_space(zt_char_next(f->text, f->n, &i));)
        to = i;
    return to;
}

const zt_added *zt_added_next(zt_added_finder *f, size_t *from, size_t *to)
{
    while (f->trie && f->at < f->n) {
        size_t begin = f->at, end = 0;
        const zt_added *a = longest(f, &end);
        f->at = a ? end : f->at + 1;
        if (!a || (a->special && !f->special) || (a->single_word && !is_single_word(f, begin, end)))
            continue;
        *from = a->lstrip ? strip_left(f, begin) : begin;
        *to = a->rstrip ? strip_right(f, end) : end;
        return a;
    }
    return NULL;
}
