/* recipe_tokens.c - owns the part of a recipe that says which tokens the child has, and where their rows come from.
 *
 * The schema is that of mergekit 0.1.5 (tokenizer/config.py, as facts).
 */
#include "lib/dna/merge_internal.h"
#include "lib/dna/tree.h"

#include <string.h>

#define REFUSE(at, ...) zt_tree_fail(builder->ctx, builder->file, at, __VA_ARGS__)

/* ---- tokens ---------------------------------------------------------------------------------- */

static zt_status on_kind(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    static const zt_tree_word words[] = {{"zero", TOKEN_ZERO}, {"model_token", TOKEN_OTHER}, {0}};
    int kind = TOKEN_UNSET;
    zt_status status = zt_tree_read_word(builder, node, "kind", words, &kind);
    ((recipe_token *)into)->kind = (recipe_token_kind)kind;
    return status;
}

static zt_status on_model(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return zt_recipe_find_model(builder, node, &((recipe_token *)into)->model);
}

static zt_status on_name(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    return zt_tree_read_text(builder, node, "token", &((recipe_token *)into)->name);
}

static zt_status on_id(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    int64_t *id = &((recipe_token *)into)->id;
    if (node->kind == ZT_TREE_SCALAR && zt_parse_i64(node->text, id) && *id >= 0) return ZT_OK;
    return REFUSE(node, "token_id: expected a number from 0");
}

/* A model, {kind: zero}, or {kind: model_token, model, and token or token_id}. */
static zt_status on_source(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    static const zt_tree_key keys[] = {{"kind", on_kind}, {"model", on_model}, {"token", on_name}, {"token_id", on_id}, {0}};
    recipe_token *token = into;
    if (node->kind != ZT_TREE_MAP) {
        token->kind = TOKEN_MODEL;
        return zt_recipe_find_model(builder, node, &token->model);
    }
    zt_status status = zt_tree_read_keys(builder, node, "source", keys, token);
    if (status != ZT_OK) return status;
    if (token->kind == TOKEN_UNSET) return REFUSE(node, "source: missing key 'kind': zero or model_token");
    if (token->kind == TOKEN_ZERO)
        return token->model < 0 && !token->name && token->id < 0 ? ZT_OK : REFUSE(node, "source: zero has no other keys");
    if (token->model < 0) return REFUSE(node, "source: model_token needs the key 'model'");
    return !token->name != (token->id < 0) ? ZT_OK : REFUSE(node, "source: expected exactly one of 'token' and 'token_id'");
}

static zt_status on_force(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    double on;
    if (node->kind != ZT_TREE_SCALAR || !zt_recipe_is_switch(node, &on)) return REFUSE(node, "force: expected true or false");
    ((recipe_token *)into)->force = on != 0;
    return ZT_OK;
}

static zt_status on_tokens(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    static const zt_tree_key keys[] = {{"source", on_source}, {"force", on_force}, {0}};
    zt_recipe *recipe = into;
    if (node->kind != ZT_TREE_MAP) return REFUSE(node, "tokens: expected tokens and their settings");
    recipe->tokens = zt_tree_zeroed(builder, node->count, sizeof *recipe->tokens);
    if (!recipe->tokens) return ZT_ENOMEM;
    for (int64_t i = 0; i < node->count; i++) {
        const zt_tree *key = node->items[2 * i], *value = node->items[2 * i + 1];
        recipe_token *token = &recipe->tokens[recipe->token_count++];
        *token = (recipe_token){.model = -1, .id = -1};
        if (!*key->text) return REFUSE(key, "tokens: expected the text of a token");
        token->text = zt_arena_strndup(builder->arena, key->text, strlen(key->text));
        zt_status status = !token->text             ? ZT_ENOMEM
                           : zt_tree_is_null(value) ? ZT_OK
                                                    : zt_tree_read_keys(builder, value, "tokens", keys, token);
        if (status != ZT_OK) return status;
        if (token->force && token->kind == TOKEN_UNSET) return REFUSE(key, "tokens: 'force' without 'source'");
    }
    return ZT_OK;
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

static zt_status on_multiple(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    enum { MOST = 1 << 20 };
    int64_t *multiple = &((zt_recipe *)into)->pad_to_multiple;
    if (node->kind == ZT_TREE_SCALAR && zt_parse_i64(node->text, multiple) && *multiple >= 1 && *multiple <= MOST) return ZT_OK;
    return REFUSE(node, "pad_to_multiple_of: expected a number of tokens, 1 to %d", MOST);
}

/* The document may name the base later. */
zt_status zt_recipe_read_tokens_from(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    zt_recipe *recipe = into;
    recipe->aligns = true;
    recipe->tokens_from = TOKENS_OF_FIRST;
    if (node->kind == ZT_TREE_SCALAR && !strcmp(node->text, "base")) return ZT_OK;
    if (node->kind == ZT_TREE_SCALAR && !strcmp(node->text, "union")) return recipe->tokens_from = TOKENS_UNION, ZT_OK;
    return zt_recipe_find_model(builder, node, &recipe->tokens_from);
}

zt_status zt_recipe_read_tokenizer(zt_tree_reader *builder, const zt_tree *node, void *into)
{
    static const zt_tree_key keys[] = {
        {"source", zt_recipe_read_tokens_from}, {"tokens", on_tokens}, {"pad_to_multiple_of", on_multiple}, {0}};
    zt_recipe *recipe = into;
    recipe->aligns = true;
    recipe->tokens_from = TOKENS_UNION; /* without a source */
    return zt_tree_read_keys(builder, node, "tokenizer", keys, into);
}
