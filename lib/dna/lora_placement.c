/* lora_placement.c - owns the way from an adapter's names to a model's: which tensor each part is for, how
 * it lies there, and whether it is of the right shape.
 *
 * A model with GGUF's metadata has GGUF's names, and values as llama.cpp's converter leaves them:
 * rows of q and k in pairs for rope, matrices of GPT-2 transposed, 1 added to Gemma's norms. Other
 * models have the adapter's own names.
 */
#include "lib/dna/lora_internal.h"

#include <stdio.h>
#include <string.h>

/* ---- keys of the model ----------------------------------------------------------------------- */

/* The architecture whose names in GGUF the tensors have. A Hugging Face model of an architecture
 * that zt does not know comes with its own names, and its configuration as a key. */
static zt_bytes find_arch(const zt_meta *meta)
{
    int64_t key_index = zt_meta_find(meta, "huggingface.config.json") < 0 ? zt_meta_find(meta, "general.architecture") : -1;
    return key_index >= 0 ? zt_meta_text(zt_meta_get(meta, key_index)) : (zt_bytes){NULL, 0};
}

/* The layer in "blk.12.attn_q.weight"; -1: none. */
static int64_t parse_layer(const char *name)
{
    int64_t layer = 0;
    const char *digits = strncmp(name, "blk.", 4) ? "" : name + 4;
    size_t digit_count = strspn(digits, "0123456789");
    for (size_t i = 0; i < digit_count && i < 6; i++) layer = 10 * layer + (digits[i] - '0');
    return digit_count && digit_count <= 6 && digits[digit_count] == '.' ? layer : -1;
}

static int64_t read_number(const zt_meta_item *item, int64_t layer)
{
    zt_gguf_kind elem;
    uint64_t count;
    uint32_t number = 0;
    if (item->kind == ZT_GGUF_U32 || item->kind == ZT_GGUF_I32) memcpy(&number, item->value, 4);
    if (zt_meta_array(item, &elem, &count) && layer >= 0 && (uint64_t)layer < count &&
        (elem == ZT_GGUF_U32 || elem == ZT_GGUF_I32))
        memcpy(&number, item->value + 12 + 4 * layer, 4); /* behind kind and count */
    return number;
}

/* How many heads there are; -1: not known. */
static int64_t count_heads(zt_checkpoint *model, const char *name, bool kv)
{
    const zt_meta *meta = zt_checkpoint_meta(model);
    zt_bytes arch = find_arch(meta);
    char key[160];
    if (!arch.data || arch.n > 64) return -1;
    snprintf(key, sizeof key, "%.*s.attention.head_count%s", (int)arch.n, arch.data, kv ? "_kv" : "");
    int64_t key_index = zt_meta_find(meta, key);
    if (key_index < 0 && kv) {
        key[strlen(key) - 3] = 0;
        key_index = zt_meta_find(meta, key);
    }
    int64_t count = key_index >= 0 ? read_number(zt_meta_get(meta, key_index), parse_layer(name)) : 0;
    return count > 0 ? count : -1;
}

int64_t zt_lora_heads(zt_checkpoint *model, const char *name)
{
    static const char *const archs[] = {"llama", "smollm3", "granite"};
    zt_bytes arch = find_arch(zt_checkpoint_meta(model));
    bool is_query = strstr(name, ".attn_q."), k = strstr(name, ".attn_k."), paired = false;
    if (!is_query && !k) return 0;
    for (size_t i = 0; i < sizeof archs / sizeof *archs && arch.data; i++)
        paired = paired || (strlen(archs[i]) == arch.n && !memcmp(archs[i], arch.data, arch.n));
    return paired ? count_heads(model, name, k) : arch.data ? 0 : -1;
}

/* ---- the architecture ------------------------------------------------------------------------ */

zt_status zt_lora_check_arch(const zt_lora *adapter, zt_checkpoint *model)
{
    zt_bytes model_arch = find_arch(zt_checkpoint_meta(model));
    zt_bytes own_arch = adapter->gguf ? find_arch(zt_checkpoint_meta(adapter->file)) : (zt_bytes){NULL, 0};
    char shown_own[80], shown_model[80];
    zt_lora_place place;
    if (!model_arch.data || model_arch.n > 64) return ZT_OK;
    zt_escape(shown_model, sizeof shown_model, model_arch.data, model_arch.n);
    if (adapter->gguf && own_arch.data && (own_arch.n != model_arch.n || memcmp(own_arch.data, model_arch.data, model_arch.n)))
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: the adapter is for architecture '%s', but %s is '%s'", zt_lora_name(adapter),
                       zt_escape(shown_own, sizeof shown_own, own_arch.data, own_arch.n), zt_checkpoint_name(model), shown_model);
    if (adapter->gguf) return ZT_OK;
    bool known = adapter->place && (adapter->place(shown_model, "embed_tokens.weight", &place) ||
                                    adapter->place(shown_model, "wte.weight", &place) ||
                                    adapter->place(shown_model, "embeddings.word_embeddings.weight", &place));
    return known ? ZT_OK
                 : zt_fail(adapter->ctx, ZT_ENOTSUP, "%s: PEFT adapters are not supported for the architecture '%s' of %s",
                           zt_lora_name(adapter), shown_model, zt_checkpoint_name(model));
}

/* ---- embedding and head ---------------------------------------------------------------------- */

/* The tensor whose name ends in one of these; -1. */
static int64_t find_end(zt_checkpoint *model, const char *const *ends)
{
    for (int64_t tensor_index = 0; tensor_index < zt_checkpoint_count(model); tensor_index++) {
        zt_entry entry;
        zt_checkpoint_get(model, tensor_index, &entry);
        for (const char *const *candidate = ends; *candidate; candidate++)
            if (zt_name_ends_in(entry.name, *candidate)) return tensor_index;
    }
    return -1;
}

void zt_lora_ends(const zt_lora *adapter, zt_checkpoint *model, lora_ends *out)
{
    static const char *const embeddings[] = {"embed_tokens.weight", "wte.weight", NULL};
    static const char *const heads[] = {"lm_head.weight", "output.weight", NULL};
    zt_bytes arch = find_arch(zt_checkpoint_meta(model));
    char text[65];
    zt_lora_place place;
    *out = (lora_ends){.embedding = -1, .head = -1};
    if (adapter->gguf || (arch.data && arch.n > 64)) return; /* llama.cpp changes both at once */
    if (arch.data) {
        snprintf(text, sizeof text, "%.*s", (int)arch.n, arch.data);
        if (!adapter->place || !adapter->place(text, "lm_head.weight", &place)) return; /* an encoder */
        out->embedding = zt_checkpoint_find(model, "token_embd.weight");
        out->head = zt_checkpoint_find(model, "output.weight");
        out->head_name = out->head < 0 && out->embedding >= 0 ? "output.weight" : NULL;
        return;
    }
    out->embedding = find_end(model, embeddings);
    out->head = find_end(model, heads);
    out->head_name = out->head < 0 && out->embedding >= 0 ? "lm_head.weight" : NULL;
}

/* ---- a part ---------------------------------------------------------------------------------- */

/* By its own name, or without what a wrapping model puts before it. */
int64_t zt_lora_find_own(zt_checkpoint *model, const char *name)
{
    int64_t i = -1;
    for (const char *tail = name; tail && i < 0; tail = strchr(tail, '.') ? strchr(tail, '.') + 1 : NULL)
        if (strchr(tail, '.')) i = zt_checkpoint_find(model, tail);
    return i;
}

static zt_status fail_no_tensor(const zt_lora *adapter, zt_checkpoint *model, const lora_part *part)
{
    char shown[160];
    return zt_fail(adapter->ctx, ZT_EDATA, "%s: the adapter changes tensor '%s', which %s does not have", zt_lora_name(adapter),
                   zt_escape(shown, sizeof shown, part->name, strlen(part->name)), zt_checkpoint_name(model));
}

/* Where it is in a model with GGUF's names. */
static zt_status fit_gguf(const zt_lora *adapter, zt_checkpoint *model, const lora_part *part, const char **name,
                          lora_placement *placement)
{
    char arch[65], shown[160];
    zt_bytes model_arch = find_arch(zt_checkpoint_meta(model));
    zt_lora_place place;
    snprintf(arch, sizeof arch, "%.*s", (int)(model_arch.n < 64 ? model_arch.n : 64), model_arch.data);
    if (!adapter->place || !adapter->place(arch, part->name, &place)) return fail_no_tensor(adapter, model, part);
    *name = zt_arena_strndup(adapter->arena, place.name, strlen(place.name));
    if (!*name) return ZT_ENOMEM;
    placement->tensor = zt_checkpoint_find(model, *name);
    placement->flipped = part->embedding;
    placement->turned = place.transposed;
    placement->add = place.add;
    placement->expert = place.expert;
    placement->heads = place.pairs ? count_heads(model, *name, place.kv) : 0;
    if (placement->heads >= 0) return ZT_OK;
    return zt_fail(adapter->ctx, ZT_EDATA, "%s: '%s': unknown number of heads", zt_checkpoint_name(model),
                   zt_escape(shown, sizeof shown, *name, strlen(*name)));
}

/* All but the first dimension. */
static int64_t row_width(const zt_type *type) { return !type->rank ? 1 : type->dim[0] ? zt_type_count(type) / type->dim[0] : 0; }

static zt_status fail_shape(const lora_placement *placement, zt_checkpoint *model, const char *what, const zt_type *own,
                            const zt_type *wanted)
{
    const zt_lora *adapter = placement->adapter;
    char shown[160], text_own[ZT_TYPE_TEXT], text_wanted[ZT_TYPE_TEXT];
    return zt_fail(adapter->ctx, ZT_ESHAPE, "%s: %s of '%s' has type %s, but the tensor in %s has %s", zt_lora_name(adapter),
                   what, zt_escape(shown, sizeof shown, placement->part->name, strlen(placement->part->name)),
                   zt_type_text(own, text_own), zt_checkpoint_name(model), zt_type_text(wanted, text_wanted));
}

/* A and B of one expert's matrix, or of all, in a stacked tensor. */
static zt_status check_expert(const lora_placement *placement, zt_checkpoint *model, const zt_type *a, const zt_type *b,
                              const zt_type *wanted)
{
    const lora_part *part = placement->part;
    bool fits = wanted->rank == 3 && a->dim[a->rank - 1] == wanted->dim[2] && b->dim[b->rank - 2] == wanted->dim[1];
    fits = fits && (part->experts ? part->experts == wanted->dim[0] : a->rank == 2 && placement->expert < wanted->dim[0]);
    return fits ? ZT_OK : fail_shape(placement, model, "A", a, wanted);
}

/* Rows and columns that the product of A and B has in the model; in the model's matrix. */
static zt_status check_product(lora_placement *placement, zt_checkpoint *model, const zt_type *wanted)
{
    const lora_part *part = placement->part;
    zt_entry entry_a, entry_b;
    zt_checkpoint_get(placement->adapter->file, part->lora_a, &entry_a);
    zt_checkpoint_get(placement->adapter->file, part->lora_b, &entry_b);
    if (part->experts || placement->expert >= 0) return check_expert(placement, model, &entry_a.type, &entry_b.type, wanted);
    int64_t input_count = part->tokens ? entry_a.type.dim[0] : row_width(&entry_a.type), out = entry_b.type.dim[0];
    int64_t rows = wanted->rank ? wanted->dim[0] : 0, columns = rows ? row_width(wanted) : 0;
    bool straight = rows == out && columns == input_count, flipped = rows == input_count && columns == out;
    if (part->tokens || part->embedding) {
        placement->flipped = true;
    } else if (!placement->turned && wanted->rank == 2 && !find_arch(zt_checkpoint_meta(model)).data) {
        /* a layer that keeps its matrix as [in, out]: by the shape, else as the adapter says */
        placement->flipped = flipped && (!straight || placement->adapter->config.transposed);
    }
    if (wanted->rank >= 2 && (wanted->rank == entry_a.type.rank || part->tokens) && (placement->flipped ? flipped : straight))
        return ZT_OK;
    return fail_shape(placement, model, "A", &entry_a.type, wanted);
}

static zt_status check_whole(const lora_placement *placement, zt_checkpoint *model, const zt_type *wanted)
{
    zt_entry entry;
    zt_checkpoint_get(placement->adapter->file, placement->part->whole, &entry);
    zt_type own = entry.type;
    if (placement->turned && own.rank == 2) {
        own.dim[0] = entry.type.dim[1];
        own.dim[1] = entry.type.dim[0];
    }
    bool same = own.rank == wanted->rank;
    for (int k = 1; k < wanted->rank && same; k++) same = own.dim[k] == wanted->dim[k];
    /* only a vocabulary may grow */
    if (same && wanted->rank) {
        bool vocabulary = wanted->rank == 2 && (zt_name_ends_in(placement->part->module, "embed_tokens") ||
                                                zt_name_ends_in(placement->part->module, "wte") ||
                                                zt_name_ends_in(placement->part->module, "lm_head"));
        same = own.dim[0] == wanted->dim[0] || (vocabulary && own.dim[0] > wanted->dim[0]);
    }
    return same ? ZT_OK : fail_shape(placement, model, "the replacement", &own, wanted);
}

/* A vector of so many elements. */
static zt_status check_vector(const lora_placement *placement, zt_checkpoint *model, int64_t tensor, const char *what,
                              int64_t count, const zt_type *wanted)
{
    zt_entry entry;
    zt_checkpoint_get(placement->adapter->file, tensor, &entry);
    return zt_type_count(&entry.type) == count ? ZT_OK : fail_shape(placement, model, what, &entry.type, wanted);
}

static zt_status check_rows(const lora_placement *placement, zt_checkpoint *model, const zt_type *wanted)
{
    const lora_part *part = placement->part;
    zt_entry entry;
    char shown[160];
    zt_checkpoint_get(placement->adapter->file, part->rows, &entry);
    if (wanted->rank != 2 || entry.type.dim[1] != wanted->dim[1])
        return fail_shape(placement, model, "the trained rows", &entry.type, wanted);
    for (int64_t i = 0; i < part->row_count; i++)
        if (part->row_indices[i] >= wanted->dim[0])
            return zt_fail(placement->adapter->ctx, ZT_EDATA,
                           "%s: row %lld of '%s' is out of range: the tensor has %lld rows in %s",
                           zt_lora_name(placement->adapter), (long long)part->row_indices[i],
                           zt_escape(shown, sizeof shown, part->name, strlen(part->name)), (long long)wanted->dim[0],
                           zt_checkpoint_name(model));
    return ZT_OK;
}

static zt_status check_decodable(const zt_lora *adapter, zt_checkpoint *model, const zt_entry *entry)
{
    const zt_type *type = &entry->type;
    char shown[160];
    if (type->rank >= 0 && type->dtype != ZT_DTYPE_COUNT && zt_dtype_is_float(type->dtype) && zt_dtype_get(type->dtype)->decode)
        return ZT_OK;
    return zt_fail(adapter->ctx, ZT_ENOTSUP, "%s: tensor '%s': type %s cannot be decoded", zt_checkpoint_name(model),
                   zt_escape(shown, sizeof shown, entry->name, strlen(entry->name)), entry->dtype);
}

static zt_status check_shapes(lora_placement *placement, zt_checkpoint *model, const zt_entry *entry)
{
    const lora_part *part = placement->part;
    const zt_type *wanted = &entry->type;
    char shown[160];
    zt_status decodable = check_decodable(placement->adapter, model, entry);
    if (decodable != ZT_OK) return decodable;
    if (placement->expert >= 0 && (part->lora_a < 0 || part->whole >= 0 || part->magnitude >= 0 || part->addend >= 0))
        return zt_fail(placement->adapter->ctx, ZT_ENOTSUP, "%s: '%s': of an expert only A and B are supported",
                       zt_lora_name(placement->adapter), zt_escape(shown, sizeof shown, part->name, strlen(part->name)));
    int64_t rows = wanted->rank ? wanted->dim[0] : 1;
    zt_status status = placement->heads && rows % (2 * placement->heads)
                           ? fail_shape(placement, model, "the permutation by heads", wanted, wanted)
                           : ZT_OK;
    zt_type current = *wanted; /* with the rows that the whole has */
    if (status == ZT_OK && part->whole >= 0) status = check_whole(placement, model, wanted);
    if (status == ZT_OK && part->whole >= 0 && !placement->turned && wanted->rank) {
        zt_entry whole_entry;
        zt_checkpoint_get(placement->adapter->file, part->whole, &whole_entry);
        current.dim[0] = whole_entry.type.dim[0];
    }
    if (status == ZT_OK && part->lora_a >= 0) status = check_product(placement, model, &current);
    if (status == ZT_OK && part->magnitude >= 0)
        status = check_vector(placement, model, part->magnitude, "lora_magnitude_vector",
                              placement->flipped ? row_width(&current) : current.dim[0], &current);
    if (status == ZT_OK && part->addend >= 0)
        status = check_vector(placement, model, part->addend, "lora_B.bias", zt_type_count(wanted), wanted);
    if (status == ZT_OK && part->rows >= 0) status = check_rows(placement, model, &current);
    return status;
}

zt_status zt_lora_place_part(const zt_lora *adapter, zt_checkpoint *model, const lora_ends *ends, const lora_part *part,
                             lora_placement *out)
{
    const char *name = part->name;
    bool gguf = find_arch(zt_checkpoint_meta(model)).data != NULL;
    zt_status status = ZT_OK;
    zt_entry entry;
    *out = (lora_placement){.adapter = adapter, .part = part, .tensor = -1, .expert = -1};
    if (adapter->gguf)
        out->tensor = zt_checkpoint_find(model, name);
    else if (gguf)
        status = fit_gguf(adapter, model, part, &name, out);
    else
        out->tensor = zt_lora_find_own(model, name);
    if (status != ZT_OK) return status;
    if (out->tensor < 0 && (!ends->head_name || !zt_name_ends_in(name, ends->head_name)))
        return fail_no_tensor(adapter, model, part);
    zt_checkpoint_get(model, out->tensor < 0 ? ends->embedding : out->tensor, &entry);
    return check_shapes(out, model, &entry);
}

zt_status zt_lora_place_all(const zt_lora *adapter, zt_checkpoint *model, const lora_ends *ends, const lora_part *part,
                            lora_placement *out, int64_t *count)
{
    zt_bytes arch = find_arch(zt_checkpoint_meta(model));
    char text[65];
    *count = 1;
    if (!part->parameter) return zt_lora_place_part(adapter, model, ends, part, out);
    snprintf(text, sizeof text, "%.*s", (int)(arch.n < 64 ? arch.n : 64), arch.data ? arch.data : "");
    zt_status status = zt_lora_place_parameter(adapter, model, arch.data ? text : NULL, part, out, count);
    for (int64_t i = 0; i < *count && status == ZT_OK; i++) {
        zt_entry entry;
        zt_checkpoint_get(model, out[i].tensor, &entry);
        status = check_decodable(adapter, model, &entry);
    }
    return status;
}
