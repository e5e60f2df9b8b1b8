/* merge_check.c - owns what parents must have in common beside names and shapes of tensors, and
 * heads that are embeddings.
 *
 * A model without a head has its embedding as the head. mergekit 0.1.5 (architecture files, the
 * tied_names of lm_head.weight, as facts) merges heads where any source has one, and takes the
 * embedding of those that do not.
 */
#include "lib/dna/merge_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- heads ----------------------------------------------------------------------------------- */

static const struct {
    const char *head, *embedding;
} ties[] = {{"output.weight", "token_embd.weight"},
            {"lm_head.weight", "embed_tokens.weight"},
            {"lm_head.weight", "wte.weight"},
            {"embed_out.weight", "embed_in.weight"}};

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end) && (n == k || name[n - k - 1] == '.');
}

static int64_t find_end(zt_checkpoint *c, const char *end)
{
    zt_entry e;
    for (int64_t i = 0; i < zt_checkpoint_count(c); i++) {
        zt_checkpoint_get(c, i, &e);
        if (ends_in(e.name, end)) return i;
    }
    return -1;
}

int64_t zt_merge_find(zt_checkpoint *c, const char *name)
{
    int64_t i = zt_checkpoint_find(c, name);
    for (size_t k = 0; k < sizeof ties / sizeof *ties && i < 0; k++)
        if (ends_in(name, ties[k].head)) i = find_end(c, ties[k].embedding);
    return i;
}

int64_t zt_merge_head(zt_checkpoint *c)
{
    int64_t i = -1;
    for (size_t k = 0; k < sizeof ties / sizeof *ties && i < 0; k++)
        if (find_end(c, ties[k].embedding) >= 0) i = find_end(c, ties[k].head);
    return i;
}

const char *zt_merge_head_name(const zt_merge *m)
{
    for (int i = 0; i < m->r->n_models; i++) {
        zt_entry e;
        int64_t head = zt_merge_head(m->parent[i].model);
        if (head < 0) continue;
        zt_checkpoint_get(m->parent[i].model, head, &e);
        return e.name;
    }
    return NULL;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static const zt_meta_item *item_of(zt_checkpoint *c, const char *key)
{
    const zt_meta *m = zt_checkpoint_meta(c);
    int64_t i = zt_meta_find(m, key);
    return i >= 0 ? zt_meta_get(m, i) : NULL;
}

static zt_status check_arch(const zt_merge *m, zt_checkpoint *a, zt_checkpoint *b, char arch[65])
{
    const zt_meta_item *x = item_of(a, "general.architecture"),
                       *y = item_of(b, "general.architecture");
    zt_bytes s = x ? zt_meta_text(x) : (zt_bytes){NULL, 0},
             t = y ? zt_meta_text(y) : (zt_bytes){NULL, 0};
    char p[80], q[80];
    arch[0] = 0;
    if (!s.data || !t.data) return ZT_OK;
    if (s.n == t.n && !memcmp(s.data, t.data, s.n)) {
        snprintf(arch, 65, "%.*s", (int)(s.n < 64 ? s.n : 64), s.data);
        return ZT_OK;
    }
    return zt_fail(m->ctx, ZT_EDATA, "%s: is of the architecture '%s', %s is of '%s'",
                   zt_checkpoint_name(b), zt_escape(q, sizeof q, t.data, t.n),
                   zt_checkpoint_name(a), zt_escape(p, sizeof p, s.data, s.n));
}

/* Numbers by which the same matrices mean something else. */
static zt_status check_numbers(const zt_merge *m, zt_checkpoint *a, zt_checkpoint *b,
                               const char *arch)
{
    static const char *const names[] = {"attention.head_count", "attention.head_count_kv",
                                        "attention.key_length", "expert_used_count"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[160];
        uint32_t p, q;
        snprintf(key, sizeof key, "%s.%s", arch, names[i]);
        const zt_meta_item *x = item_of(a, key), *y = item_of(b, key);
        if (!x || !y || x->kind != ZT_GGUF_U32 || y->kind != ZT_GGUF_U32) continue;
        memcpy(&p, x->value, sizeof p);
        memcpy(&q, y->value, sizeof q);
        if (p != q)
            return zt_fail(m->ctx, ZT_EDATA, "%s: '%s' is %" PRIu32 ", in %s it is %" PRIu32,
                           zt_checkpoint_name(b), key, q, zt_checkpoint_name(a), p);
    }
    return ZT_OK;
}

/* The same tokens: rows of embeddings are of the same words. */
static zt_status check_tokens(const zt_merge *m, zt_checkpoint *a, zt_checkpoint *b)
{
    const char *key = "tokenizer.ggml.tokens";
    const zt_meta_item *x = item_of(a, key), *y = item_of(b, key);
    char s[60], t[60];
    size_t at = 0, bt = 0;
    if (!x || !y || (x->bytes == y->bytes && !memcmp(x->value, y->value, x->bytes))) return ZT_OK;
    for (int64_t i = 0;; i++) {
        zt_bytes p = zt_meta_next_str(x, &at), q = zt_meta_next_str(y, &bt);
        if (!p.data && !q.data) return ZT_OK;
        if (p.data && q.data && p.n == q.n && !memcmp(p.data, q.data, p.n)) continue;
        return zt_fail(m->ctx, ZT_EDATA,
                       "%s: token %" PRId64 " is %s%s%s, in %s it is %s%s%s: models of other tokens "
                       "are not merged",
                       zt_checkpoint_name(b), i, q.data ? "'" : "",
                       q.data ? zt_escape(t, sizeof t, q.data, q.n) : "none", q.data ? "'" : "",
                       zt_checkpoint_name(a), p.data ? "'" : "",
                       p.data ? zt_escape(s, sizeof s, p.data, p.n) : "none", p.data ? "'" : "");
    }
}

zt_status zt_merge_check_parents(const zt_merge *m)
{
    zt_checkpoint *a = m->parent[zt_recipe_first(m->r)].model;
    zt_status s = ZT_OK;
    for (int i = 0; i < m->r->n_models && s == ZT_OK; i++) {
        zt_checkpoint *b = m->parent[i].model;
        char arch[65];
        s = check_arch(m, a, b, arch);
        if (s == ZT_OK && *arch) s = check_numbers(m, a, b, arch);
        if (s == ZT_OK && m->r->tokens != TOKENS_UNION) s = check_tokens(m, a, b);
    }
    return s;
}

/* ---- tensors that the lead does not have ----------------------------------------------------- */

/* Buffers that a model may have been saved with. */
static bool is_buffer(const char *name)
{
    static const char *const words[] = {"rotary_emb.", "rope_freqs", "rope_factors", "position_ids",
                                        "masked_bias", ".attn.bias"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i])) return true;
    return false;
}

zt_status zt_merge_check_extra(const zt_merge *m, const merge_slice *slice, int lead)
{
    const merge_source *to = &slice->source[lead];
    zt_checkpoint *a = m->parent[to->model].model;
    for (int k = 0; k < slice->n; k++) {
        const merge_source *from = &slice->source[k];
        zt_checkpoint *b = m->parent[from->model].model;
        int64_t end = from->to < 0 ? m->layers[from->model] : from->to;
        int64_t head = zt_merge_head(b);
        if (k == lead || from->model == to->model) continue;
        for (int64_t i = 0; i < zt_checkpoint_count(b); i++) {
            zt_entry e;
            size_t at, n;
            char name[512], shown[160];
            zt_checkpoint_get(b, i, &e);
            int64_t layer = zt_merge_layer(e.name, &at, &n);
            if (i == head || is_buffer(e.name) || (layer >= 0 && (layer < from->from || layer >= end)))
                continue;
            if (layer < 0)
                snprintf(name, sizeof name, "%s", e.name);
            else
                snprintf(name, sizeof name, "%.*s%" PRId64 "%s", (int)at, e.name,
                         layer - from->from + to->from, e.name + at + n);
            if (strlen(e.name) < 400 && zt_checkpoint_find(a, name) < 0)
                return zt_fail(m->ctx, ZT_EDATA, "%s: has a tensor '%s', which %s does not have",
                               zt_checkpoint_name(b),
                               zt_escape(shown, sizeof shown, e.name, strlen(e.name)),
                               zt_checkpoint_name(a));
        }
    }
    return ZT_OK;
}
