/* hf_classifier.c - classifiers of texts: which models have one, the names of its labels, and rerankers of Qwen 3, whose two
 * scores are the logits of the tokens "yes" and "no".
 *
 * Names as facts: convert_hf_to_gguf.py of llama.cpp (conversion/bert.py, qwen.py), modeling_bert.py, modeling_modernbert.py and
 * modeling_layers.py (GenericForSequenceClassification) of transformers; classifier.softmax, whether scores become shares, is
 * zt's own key. That converter leaves out BERT's first matrix (pooler.dense), which transformers' classifier reads; here it is
 * cls.weight.
 */
#include "lib/llm/hf/hf.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKED = 4, MOST_LABELS = 4096 };

bool zt_hf_has_classifier(const hf_import *import)
{
    const char *class = json_string_value(json_array_get(json_object_get(import->config, "architectures"), 0));
    const char *found = class ? strstr(class, "ForSequenceClassification") : NULL;
    return found && zt_hf_is(import, HF_SET(HF_BERT) | HF_SET(HF_MODERNBERT) | HF_SET(HF_QWEN3));
}

static zt_status put_labels(hf_import *import, const zt_bytes *labels, int64_t count)
{
    char key[128];
    snprintf(key, sizeof key, "%s.classifier.output_labels", import->arch.name);
    return zt_gguf_put_strs(import->writer, key, labels, count);
}

/* Of a decoder: its classifier is used, and its scores are what the last matrix gives; a reranker's are shares. */
static zt_status put_scores(hf_import *import)
{
    char key[128];
    snprintf(key, sizeof key, "%s.classifier.softmax", import->arch.name);
    zt_status status = zt_hf_put_int(import, "pooling_type", RANKED);
    return status == ZT_OK ? zt_gguf_put_int(import->writer, key, ZT_GGUF_BOOL, 0) : status;
}

zt_status zt_hf_put_labels(hf_import *import)
{
    const json_t *names = zt_hf_get(import, "id2label");
    size_t count = json_object_size(names);
    if (!zt_hf_has_classifier(import)) return ZT_OK;
    if (import->arch.id == HF_QWEN3) {
        zt_status put = put_scores(import);
        if (put != ZT_OK) return put;
    }
    const char *curve = json_string_value(zt_hf_get(import, "classifier_activation"));
    if (curve && strcmp(curve, "gelu") != 0)
        return zt_fail(import->ctx, ZT_ENOTSUP,
                       "%sconfig.json: a classifier with a classifier_activation other than gelu is not supported",
                       import->folder.data);
    if (count == 0) return ZT_OK;
    const char *first = json_string_value(json_object_get(names, "0"));
    if (count == 2 && first && strcmp(first, "LABEL_0") == 0) return ZT_OK; /* what transformers writes without labels */
    zt_bytes *labels = count <= MOST_LABELS ? zt_alloc_array(import->ctx, count, sizeof *labels) : NULL;
    zt_status status = labels ? ZT_OK : zt_ctx_status(import->ctx);
    for (size_t i = 0; status == ZT_OK && labels && i < count; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        const json_t *label = json_object_get(names, number);
        if (!json_is_string(label))
            status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: 'id2label' has no text for label %zu of %zu",
                             import->folder.data, i, count);
        else
            labels[i] = (zt_bytes){json_string_value(label), json_string_length(label)};
    }
    if (!labels && status == ZT_OK)
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: 'id2label' has %zu labels, the limit is %d", import->folder.data,
                         count, MOST_LABELS);
    if (status == ZT_OK) status = put_labels(import, labels, (int64_t)count);
    zt_free(import->ctx, labels);
    return status;
}

/* ---- rerankers of Qwen 3 --------------------------------------------------------------------- */

/* Is the word in the text, in letters of any case? */
static bool has_word(const char *text, size_t size, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++) {
        size_t k = 0;
        while (k < length && tolower((unsigned char)text[i + k]) == word[k]) k++;
        if (k == length) return true;
    }
    return false;
}

static bool is_named_reranker(const char *name) { return name && has_word(name, strlen(name), "qwen3-reranker"); }

/* By the names of the model and the directory, and the title of its card, as the converter does. */
static zt_status find_reranker(hf_import *import, bool *found)
{
    size_t length = strlen(import->path), size = 0;
    while (length > 1 && import->path[length - 1] == '/') length--;
    const char *slash = memrchr(import->path, '/', length), *last = slash ? slash + 1 : import->path;
    *found =
        import->arch.id == HF_QWEN3 && (is_named_reranker(json_string_value(json_object_get(import->config, "_name_or_path"))) ||
                                        (import->is_folder && is_named_reranker(last)));
    if (*found || import->arch.id != HF_QWEN3 || !zt_hf_has_file(import, "README.md")) return ZT_OK;
    char *card = zt_read_all(import->ctx, zt_hf_file(import, "README.md"), &size);
    if (!card) return zt_ctx_status(import->ctx);
    *found = has_word(card, size, "# qwen3-reranker");
    zt_free(import->ctx, card);
    return ZT_OK;
}

typedef struct answer_ids {
    zt_ctx *ctx;
    const char *file;
    int64_t yes, no;
} answer_ids;

static zt_status see_token(void *user, const char *key, const char *text, size_t size)
{
    answer_ids *ids = user;
    int64_t *id = strcmp(key, "yes") == 0 ? &ids->yes : strcmp(key, "no") == 0 ? &ids->no : NULL;
    char number[24];
    if (!id || size >= sizeof number) return ZT_OK;
    snprintf(number, sizeof number, "%.*s", (int)size, text);
    return zt_parse_i64(number, id) ? ZT_OK : zt_fail(ids->ctx, ZT_EDATA, "%s: the id of '%s' is not a number", ids->file, key);
}

static zt_status see_model(void *user, const char *key, const char *text, size_t size)
{
    answer_ids *ids = user;
    return strcmp(key, "vocab") == 0 ? zt_json_members(ids->ctx, ids->file, text, size, see_token, user) : ZT_OK;
}

static zt_status see_tokenizer(void *user, const char *key, const char *text, size_t size)
{
    answer_ids *ids = user;
    return strcmp(key, "model") == 0 ? zt_json_members(ids->ctx, ids->file, text, size, see_model, user) : ZT_OK;
}

static zt_status read_answers(hf_import *import, answer_ids *ids)
{
    size_t size = 0;
    const char *path = zt_hf_file(import, "tokenizer.json");
    *ids = (answer_ids){.ctx = import->ctx, .file = path, .yes = -1, .no = -1};
    char *text = path ? zt_read_all(import->ctx, path, &size) : NULL;
    if (!text) return zt_ctx_status(import->ctx);
    zt_status status = zt_json_members(import->ctx, path, text, size, see_tokenizer, ids);
    zt_free(import->ctx, text);
    if (status == ZT_OK && (ids->yes < 0 || ids->no < 0))
        status = zt_fail(import->ctx, ZT_EDATA, "%s: a reranker's tokens 'yes' and 'no' are missing",
                         zt_hf_file(import, "tokenizer.json"));
    return status;
}

/* The rows of both answers; a head that is not tied has no other use. */
static zt_status add_answers(hf_import *import, const answer_ids *ids)
{
    hf_tensors *tensors = import->tensors;
    int64_t head = -1, embedding = -1;
    for (int64_t i = 0; i < tensors->count; i++) {
        if (strcmp(tensors->list[i].name, "output.weight") == 0) head = i;
        if (strcmp(tensors->list[i].name, "token_embd.weight") == 0) embedding = i;
    }
    if (embedding < 0) return ZT_OK; /* which the reader of tensors misses */
    hf_tensor answers = tensors->list[head >= 0 ? head : embedding];
    int64_t *rows = zt_arena_alloc(tensors->arena, 2 * sizeof *rows);
    if (!rows) return ZT_ENOMEM;
    if (answers.type.rank != 2 || ids->yes >= answers.type.dim[0] || ids->no >= answers.type.dim[0])
        return zt_fail(import->ctx, ZT_EDATA, "%s: a reranker's tokens 'yes' and 'no' have no rows in '%s'", import->path,
                       answers.name);
    rows[0] = ids->yes;
    rows[1] = ids->no;
    answers.name = "cls.output.weight";
    answers.rows = rows;
    answers.type.dim[0] = 2;
    if (head >= 0) tensors->list[head] = tensors->list[--tensors->count];
    return zt_hf_tensors_add(tensors, &answers);
}

zt_status zt_hf_put_reranker(hf_import *import)
{
    static const zt_bytes labels[] = {{"yes", 3}, {"no", 2}};
    static const zt_bytes variant = {"rerank", 6};
    static const char prompt[] =
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note "
        "that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
        "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: "
        "{query}\n<Document>: {document}<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    bool found;
    answer_ids ids;
    if (zt_hf_has_classifier(import)) return ZT_OK;
    zt_status status = find_reranker(import, &found);
    if (status != ZT_OK || !found || !import->tensors->from || !zt_hf_has_file(import, "tokenizer.json")) return status;
    status = read_answers(import, &ids);
    if (status == ZT_OK) status = add_answers(import, &ids);
    if (status == ZT_OK) status = zt_hf_put_int(import, "pooling_type", RANKED);
    if (status == ZT_OK) status = put_labels(import, labels, 2);
    if (status == ZT_OK) status = zt_gguf_put_strs(import->writer, "tokenizer.chat_templates", &variant, 1);
    return status == ZT_OK ? zt_gguf_put_str(import->writer, "tokenizer.chat_template.rerank", prompt, sizeof prompt - 1)
                           : status;
}
