/* verify.c - --verify: a receipt is checked by generating again. The tokens that it states are fed ahead, as a draft is, so
 * that a step checks as many as a step of a prompt has rows. With --from, the tokens before are fed without a check. */
#include "tools/zt-run/receipt.h"
#include "lib/llm/model_digest.h"

#include <stdio.h>
#include <string.h>

/* What differs before a token is generated: the head or the model. NULL: neither. */
static zt_status compare_heads(run_state *run, const receipt_record *record, const char **differs)
{
    uint8_t digest[RECEIPT_LINK];
    zt_status status = receipt_head_digest(run->ctx, record->head, digest);
    if (!status && (record->form_differs || memcmp(digest, record->chain, RECEIPT_LINK) != 0)) *differs = "head";
    if (status || *differs) return status;
    status = zt_model_digest(run->gguf, zt_cli_interrupted, digest);
    if (!status && memcmp(digest, record->model, RECEIPT_LINK) != 0) *differs = "model";
    return status;
}

/* Which tokens are checked: whole links. */
static zt_status choose_range(run_state *run, const receipt_record *record, struct run_receipt *receipt)
{
    const size_t count = record->tokens.count, from = (size_t)run->options->from;
    if (from > count) return zt_fail(run->ctx, ZT_EUSAGE, "option '--from': %zu: the receipt has %zu tokens", from, count);
    receipt->from = from / (size_t)record->every * (size_t)record->every;
    receipt->limit = run->options->new_tokens < 0 ? SIZE_MAX : from + (size_t)run->options->new_tokens;
    return ZT_OK;
}

static zt_status check_ids(run_state *run, const receipt_record *record)
{
    const zt_ids *lists[] = {&record->prompt, &record->tokens};
    for (int list = 0; list < 2; list++)
        for (size_t i = 0; i < lists[list]->count; i++)
            if (lists[list]->id[i] >= zt_vocab_size(run->vocab))
                return zt_fail(run->ctx, ZT_EDATA, "%s: token id %" PRId32 " is not in the vocabulary of %" PRId32 " tokens",
                               record->name, lists[list]->id[i], zt_vocab_size(run->vocab));
    return ZT_OK;
}

/* The prompt, and what was generated before the first token that is checked. */
static zt_status take_ids(run_state *run, const receipt_record *record, size_t from)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; i < record->prompt.count && !status; i++) status = zt_ids_push(run->ctx, &run->ids, record->prompt.id[i]);
    run->prompt_count = run->ids.count;
    for (size_t i = 0; i < from && !status; i++) status = zt_ids_push(run->ctx, &run->ids, record->tokens.id[i]);
    return status;
}

/* A text that ends before the tokens do, or after them, is not the record's. */
static void compare_ends(const run_state *run, struct run_receipt *receipt)
{
    const receipt_record *record = receipt->record;
    const size_t count = run->ids.count - run->prompt_count;
    if (receipt->differs || !strcmp(run->stop_reason, "checked")) return;
    if (count == record->tokens.count && !strcmp(run->stop_reason, record->stop)) return;
    receipt->differs = "stop";
    receipt->differs_at = count;
}

static zt_status print_result(run_state *run, const struct run_receipt *receipt)
{
    static const char *const columns[] = {"result", "#from", "#to", "#of", "differs", "#at"};
    char from[24], to[24], of[24], at[24] = "";
    const size_t end = receipt->differs ? receipt->differs_at : run->ids.count - run->prompt_count;
    const bool in_tokens = receipt->differs && strcmp(receipt->differs, "head") && strcmp(receipt->differs, "model");
    snprintf(from, sizeof from, "%zu", receipt->from);
    snprintf(to, sizeof to, "%zu", end);
    snprintf(of, sizeof of, "%zu", receipt->record->tokens.count);
    if (in_tokens) snprintf(at, sizeof at, "%zu", receipt->differs_at);
    zt_table *table = zt_table_new(run->cli, "receipt", columns, 6);
    if (!table) return zt_ctx_status(run->ctx);
    zt_status status = zt_table_row(table, (const char *const[]){receipt->differs ? "different" : "same", from, to, of,
                                                                 receipt->differs ? receipt->differs : "", at});
    if (!status) status = run_write_table(run, table);
    zt_table_free(table);
    if (!status && receipt->differs) zt_cli_no(run->cli);
    return status;
}

/* The form of structured output that the receipt states, if there is one. */
static zt_status hold_to_form(run_state *run, const receipt_record *record)
{
    size_t count;
    if (!record->form) return ZT_OK;
    zt_grammar_part *parts = receipt_form_parts(run->ctx, record, &count);
    if (!parts) return ZT_ENOMEM;
    zt_status status = run_hold_to(run, json_string_value(json_object_get(record->form, "kind")), parts, count);
    zt_free(run->ctx, parts);
    return status;
}

static zt_status generate_again(run_state *run, const receipt_record *record)
{
    struct run_receipt *receipt = run->receipt;
    const uint8_t *before = record->chain + receipt->from / (size_t)record->every * RECEIPT_LINK;
    run->options = &record->options;
    zt_status status = hold_to_form(run, record);
    if (!status) status = take_ids(run, record, receipt->from);
    if (!status) status = run_open_llm(run, (int64_t)(record->prompt.count + record->tokens.count + ZT_DRAFT_ROWS), false);
    run->seed = record->seed;
    if (!status) status = run_receipt_check_engine(run, "--verify");
    if (!status) status = receipt_chain_open(run->ctx, &receipt->chain, record->every, before);
    if (!status) status = run_answer(run);
    if (!status) status = run_receipt_end(run);
    if (!status) compare_ends(run, receipt);
    return status;
}

zt_status run_verify(run_state *run)
{
    receipt_record record;
    const run_options *options = run->options;
    zt_status status = receipt_read(run, options->verify, &record);
    if (!status) run->receipt = zt_calloc(run->ctx, 1, sizeof *run->receipt);
    if (!status && !run->receipt) status = ZT_ENOMEM;
    if (!status) {
        run->receipt->record = &record;
        status = choose_range(run, &record, run->receipt);
    }
    if (!status) status = check_ids(run, &record);
    if (!status) status = compare_heads(run, &record, &run->receipt->differs);
    if (!status && !run->receipt->differs) status = generate_again(run, &record);
    if (!status) status = print_result(run, run->receipt);
    run_receipt_free(run);
    run->options = options;
    receipt_record_free(run->ctx, &record);
    return status;
}
