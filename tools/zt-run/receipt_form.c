/* receipt_form.c - a receipt of structured output: the form that the text was held to is a part of the settings, as the texts that the
 * grammar was compiled from, and is compiled again to check it.
 *
 *     "form":{"kind":"json_schema","texts":["{...}"],"digest":"..."}
 *
 * The digest is SHA-256 of the texts, each with a zero byte behind it: an identity for those who know the schema.
 */
#include "tools/zt-run/receipt.h"

#include <string.h>

static const struct {
    const char *name; /* of the option, and in the receipt */
    zt_grammar_kind kind;
    bool alternatives; /* it may have several texts, of which one is generated */
} forms[] = {{"json_schema", ZT_GRAMMAR_SCHEMA, false},
             {"grammar", ZT_GRAMMAR_GBNF, false},
             {"choices", ZT_GRAMMAR_TEXT, true},
             {"regex", ZT_GRAMMAR_REGEX, false}};
enum { FORMS = sizeof forms / sizeof *forms };

static zt_status digest_texts(zt_ctx *ctx, const json_t *texts, uint8_t digest[RECEIPT_LINK])
{
    zt_digest *whole = zt_digest_new(ctx);
    zt_status status = whole ? ZT_OK : zt_ctx_status(ctx);
    for (size_t i = 0; i < json_array_size(texts) && !status; i++) {
        const json_t *text = json_array_get(texts, i);
        status = zt_digest_add(whole, json_string_value(text), json_string_length(text) + 1);
    }
    if (!status) status = zt_digest_end(whole, digest);
    zt_digest_free(whole);
    return status;
}

zt_status run_receipt_form(run_state *run, const char *form, const zt_grammar_part *parts, size_t count)
{
    uint8_t digest[RECEIPT_LINK];
    char digits[ZT_DIGEST_TEXT];
    if (!run->options->receipt) return ZT_OK;
    json_t *texts = json_array();
    for (size_t i = 0; i < count; i++) {
        const zt_bytes text = parts[i].text;
        if (!memchr(text.data, 0, text.n) && !json_array_append_new(texts, json_stringn(text.data, text.n))) continue;
        json_decref(texts);
        return zt_fail(run->ctx, ZT_EDATA, "--receipt: the text of %s is not UTF-8 without zero bytes", parts[i].name);
    }
    zt_status status = digest_texts(run->ctx, texts, digest);
    json_decref(run->receipt_form);
    run->receipt_form =
        status ? NULL : json_pack("{s:s, s:O, s:s}", "kind", form, "texts", texts, "digest", zt_digest_text(digest, digits));
    json_decref(texts);
    return status || run->receipt_form ? status : zt_fail(run->ctx, ZT_ENOMEM, "--receipt: out of memory");
}

static zt_status refuse(zt_ctx *ctx, const receipt_record *record, const char *why)
{
    return zt_fail(ctx, ZT_EDATA, "%s: not a receipt: \"form\" %s", record->name, why);
}

static int find_form(const json_t *form)
{
    const char *kind = json_string_value(json_object_get(form, "kind"));
    int index = 0;
    while (index < FORMS && (!kind || strcmp(forms[index].name, kind))) index++;
    return index;
}

zt_status receipt_form_check(zt_ctx *ctx, receipt_record *record, const json_t *settings)
{
    uint8_t stated[RECEIPT_LINK], digest[RECEIPT_LINK];
    record->form = json_object_get(settings, "form");
    if (!record->form) return ZT_OK;
    const json_t *texts = json_object_get(record->form, "texts");
    const char *digits = json_string_value(json_object_get(record->form, "digest"));
    const int index = find_form(record->form);
    const size_t count = json_array_size(texts);
    if (index == FORMS) return refuse(ctx, record, "has no kind of json_schema, grammar, choices or regex");
    if (!count || (count > 1 && !forms[index].alternatives))
        return refuse(ctx, record, "does not have the number of texts of its kind");
    for (size_t i = 0; i < count; i++)
        if (!json_is_string(json_array_get(texts, i))) return refuse(ctx, record, "has texts that are not strings");
    if (!digits || !zt_digest_parse(digits, stated)) return refuse(ctx, record, "has no digest of 64 hex digits");
    zt_status status = digest_texts(ctx, texts, digest);
    if (!status) record->form_differs = memcmp(stated, digest, sizeof digest) != 0;
    return status;
}

zt_grammar_part *receipt_form_parts(zt_ctx *ctx, const receipt_record *record, size_t *count)
{
    const json_t *texts = json_object_get(record->form, "texts");
    const int index = find_form(record->form);
    *count = json_array_size(texts);
    zt_grammar_part *parts = zt_calloc(ctx, *count, sizeof *parts);
    for (size_t i = 0; parts && i < *count; i++) {
        const json_t *text = json_array_get(texts, i);
        parts[i] = (zt_grammar_part){.kind = forms[index].kind,
                                     .name = record->name,
                                     .text = {json_string_value(text), json_string_length(text)},
                                     .alternative = forms[index].alternatives};
    }
    return parts;
}
