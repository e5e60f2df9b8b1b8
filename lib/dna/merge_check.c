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
    size_t length = strlen(name), end_length = strlen(end);
    return length >= end_length && !strcmp(name + length - end_length, end) &&
           (length == end_length || name[length - end_length - 1] == '.');
}

static int64_t find_by_ending(zt_checkpoint *checkpoint, const char *end)
{
    zt_entry entry;
    for (int64_t i = 0; i < zt_checkpoint_count(checkpoint); i++) {
        zt_checkpoint_get(checkpoint, i, &entry);
        if (ends_in(entry.name, end)) return i;
    }
    return -1;
}

int64_t zt_merge_find(zt_checkpoint *checkpoint, const char *name)
{
    int64_t i = zt_checkpoint_find(checkpoint, name);
    for (size_t k = 0; k < sizeof ties / sizeof *ties && i < 0; k++)
        if (ends_in(name, ties[k].head)) i = find_by_ending(checkpoint, ties[k].embedding);
    return i;
}

int64_t zt_merge_head(zt_checkpoint *checkpoint)
{
    int64_t i = -1;
    for (size_t k = 0; k < sizeof ties / sizeof *ties && i < 0; k++)
        if (find_by_ending(checkpoint, ties[k].embedding) >= 0) i = find_by_ending(checkpoint, ties[k].head);
    return i;
}

const char *zt_merge_head_name(const zt_merge *merge)
{
    for (int i = 0; i < merge->recipe->model_count; i++) {
        zt_entry entry;
        int64_t head = zt_merge_head(merge->parents[i].model);
        if (head < 0) continue;
        zt_checkpoint_get(merge->parents[i].model, head, &entry);
        return entry.name;
    }
    return NULL;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static const zt_meta_item *find_item(zt_checkpoint *checkpoint, const char *key)
{
    const zt_meta *meta = zt_checkpoint_meta(checkpoint);
    int64_t i = zt_meta_find(meta, key);
    return i >= 0 ? zt_meta_get(meta, i) : NULL;
}

static zt_status check_arch(const zt_merge *merge, zt_checkpoint *first, zt_checkpoint *other, char arch[65])
{
    const zt_meta_item *first_item = find_item(first, "general.architecture"),
                       *other_item = find_item(other, "general.architecture");
    zt_bytes first_arch = first_item ? zt_meta_text(first_item) : (zt_bytes){NULL, 0},
             other_arch = other_item ? zt_meta_text(other_item) : (zt_bytes){NULL, 0};
    char shown_first[80], shown_other[80];
    arch[0] = 0;
    if (!first_arch.data || !other_arch.data) return ZT_OK;
    if (first_arch.n == other_arch.n && !memcmp(first_arch.data, other_arch.data, first_arch.n)) {
        snprintf(arch, 65, "%.*s", (int)(first_arch.n < 64 ? first_arch.n : 64), first_arch.data);
        return ZT_OK;
    }
    return zt_fail(merge->ctx, ZT_EDATA, "%s: is of the architecture '%s', %s is of '%s'", zt_checkpoint_name(other),
                   zt_escape(shown_other, sizeof shown_other, other_arch.data, other_arch.n), zt_checkpoint_name(first),
                   zt_escape(shown_first, sizeof shown_first, first_arch.data, first_arch.n));
}

/* Numbers by which the same matrices mean something else. */
static zt_status check_numbers(const zt_merge *merge, zt_checkpoint *first, zt_checkpoint *other, const char *arch)
{
    static const char *const names[] = {"attention.head_count", "attention.head_count_kv", "attention.key_length",
                                        "expert_used_count"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[160];
        uint32_t first_value, other_value;
        snprintf(key, sizeof key, "%s.%s", arch, names[i]);
        const zt_meta_item *first_item = find_item(first, key), *other_item = find_item(other, key);
        if (!first_item || !other_item || first_item->kind != ZT_GGUF_U32 || other_item->kind != ZT_GGUF_U32) continue;
        memcpy(&first_value, first_item->value, sizeof first_value);
        memcpy(&other_value, other_item->value, sizeof other_value);
        if (first_value != other_value)
            return zt_fail(merge->ctx, ZT_EDATA, "%s: '%s' is %" PRIu32 ", in %s it is %" PRIu32, zt_checkpoint_name(other), key,
                           other_value, zt_checkpoint_name(first), first_value);
    }
    return ZT_OK;
}

/* The same tokens: rows of embeddings are of the same words. */
static zt_status check_tokens(const zt_merge *merge, zt_checkpoint *first, zt_checkpoint *other)
{
    const char *key = "tokenizer.ggml.tokens";
    const zt_meta_item *first_item = find_item(first, key), *other_item = find_item(other, key);
    char shown_first[60], shown_other[60];
    size_t first_offset = 0, other_offset = 0;
    if (!first_item || !other_item ||
        (first_item->bytes == other_item->bytes && !memcmp(first_item->value, other_item->value, first_item->bytes)))
        return ZT_OK;
    for (int64_t i = 0;; i++) {
        zt_bytes first_token = zt_meta_next_str(first_item, &first_offset),
                 other_token = zt_meta_next_str(other_item, &other_offset);
        if (!first_token.data && !other_token.data) return ZT_OK;
        if (first_token.data && other_token.data && first_token.n == other_token.n &&
            !memcmp(first_token.data, other_token.data, first_token.n))
            continue;
        return zt_fail(merge->ctx, ZT_EDATA,
                       "%s: token %" PRId64 " is %s%s%s, in %s it is %s%s%s: models of other tokens "
                       "are not merged",
                       zt_checkpoint_name(other), i, other_token.data ? "'" : "",
                       other_token.data ? zt_escape(shown_other, sizeof shown_other, other_token.data, other_token.n) : "none",
                       other_token.data ? "'" : "", zt_checkpoint_name(first), first_token.data ? "'" : "",
                       first_token.data ? zt_escape(shown_first, sizeof shown_first, first_token.data, first_token.n) : "none",
                       first_token.data ? "'" : "");
    }
}

zt_status zt_merge_check_parents(const zt_merge *merge)
{
    zt_checkpoint *first = merge->parents[zt_recipe_first(merge->recipe)].model;
    zt_status status = ZT_OK;
    for (int i = 0; i < merge->recipe->model_count && status == ZT_OK; i++) {
        zt_checkpoint *other = merge->parents[i].model;
        char arch[65];
        status = check_arch(merge, first, other, arch);
        if (status == ZT_OK && *arch) status = check_numbers(merge, first, other, arch);
        if (status == ZT_OK && merge->recipe->tokens_from != TOKENS_UNION) status = check_tokens(merge, first, other);
    }
    return status;
}

/* ---- tensors that the lead does not have ----------------------------------------------------- */

/* Buffers that a model may have been saved with. */
static bool is_buffer(const char *name)
{
    static const char *const words[] = {"rotary_emb.", "rope_freqs", "rope_factors", "position_ids", "masked_bias", ".attn.bias"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i])) return true;
    return false;
}

zt_status zt_merge_check_extra(const zt_merge *merge, const merge_slice *slice, int lead)
{
    const merge_source *lead_source = &slice->sources[lead];
    zt_checkpoint *lead_model = merge->parents[lead_source->model].model;
    for (int k = 0; k < slice->source_count; k++) {
        const merge_source *source = &slice->sources[k];
        zt_checkpoint *other = merge->parents[source->model].model;
        int64_t end = source->end_layer < 0 ? merge->layer_counts[source->model] : source->end_layer;
        int64_t head = zt_merge_head(other);
        if (k == lead || source->model == lead_source->model) continue;
        for (int64_t i = 0; i < zt_checkpoint_count(other); i++) {
            zt_entry entry;
            size_t digits_at, digit_count;
            char name[512], shown[160];
            zt_checkpoint_get(other, i, &entry);
            int64_t layer = zt_merge_layer(entry.name, &digits_at, &digit_count);
            if (i == head || is_buffer(entry.name) || (layer >= 0 && (layer < source->first_layer || layer >= end))) continue;
            if (layer < 0)
                snprintf(name, sizeof name, "%s", entry.name);
            else
                snprintf(name, sizeof name, "%.*s%" PRId64 "%s", (int)digits_at, entry.name,
                         layer - source->first_layer + lead_source->first_layer, entry.name + digits_at + digit_count);
            if (strlen(entry.name) < 400 && zt_checkpoint_find(lead_model, name) < 0)
                return zt_fail(merge->ctx, ZT_EDATA, "%s: has a tensor '%s', which %s does not have", zt_checkpoint_name(other),
                               zt_escape(shown, sizeof shown, entry.name, strlen(entry.name)), zt_checkpoint_name(lead_model));
        }
    }
    return ZT_OK;
}
