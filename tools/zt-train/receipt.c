/* receipt.c - --receipt and --verify: a record of a run that can be checked by training again. The file: zt-formats(5).
 *
 * The steps of a run are divided into links of EVERY. A link is the SHA-256 of
 *
 *     the link before it     32 bytes; before the first: the SHA-256 of the head
 *     steps                  u64, little endian: how many are done
 *     states                 of the trainer, weights and then moments: the bytes in memory
 *
 * The head is the object without the number of steps and the chain, as JSON with sorted keys and no blanks. A checkpoint after a
 * whole number of links is checked by its link alone, so that parts can be checked in parallel.
 */
#include "lib/base/digest.h"
#include "tools/zt-train/receipt.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA "zt.train-receipt/1"

enum { EVERY = 16, LINK = ZT_DIGEST_BYTES, MOST_BYTES = 1 << 28, MOST_EVERY = 1 << 20 };

struct train_receipt {
    zt_cli *cli;
    zt_trainer *trainer;
    zt_digest *digest;
    json_t *head;     /* of this run, */
    json_t *record;   /* and with --verify what is checked; else NULL */
    const char *name; /* of the file */
    uint64_t every;   /* steps of a link */
    uint64_t steps;   /* --verify: of the record */
    uint8_t *chain;   /* [count][LINK]: the links made so far, or all of the record, the head's first */
    size_t count, room;
    uint8_t link[LINK];  /* of the last whole link */
    uint64_t from, done; /* steps: where the check begins; the last that has its link */
    const char *differs; /* NULL: nothing does; "head", "start", "data", ..., "states", "steps" */
    uint64_t differs_at; /* the first step that may be another, from 0 */
};

/* ---- digests ---------------------------------------------------------------------------------- */

static zt_status add_state(train_receipt *receipt, int index)
{
    zt_ctx *ctx = receipt->cli->ctx;
    const zt_type type = zt_trainer_state_type(receipt->trainer, index);
    const size_t bytes = zt_type_bytes(&type);
    void *values = zt_alloc(ctx, bytes + 1);
    zt_status status = values ? zt_trainer_get(receipt->trainer, index, values) : ZT_ENOMEM;
    if (!status) status = zt_digest_add(receipt->digest, values, bytes);
    zt_free(ctx, values);
    return status;
}

/* The weights before the first step: names with their zeros, and bytes. */
static zt_status digest_start(train_receipt *receipt, uint8_t digest[LINK])
{
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_trainer_n_weights(receipt->trainer) && !status; i++) {
        const char *name = zt_trainer_state_name(receipt->trainer, i);
        status = zt_digest_add(receipt->digest, name, strlen(name) + 1);
        if (!status) status = add_state(receipt, i);
    }
    return status ? status : zt_digest_end(receipt->digest, digest);
}

static zt_status digest_head(train_receipt *receipt, const json_t *head, uint8_t digest[LINK])
{
    char *text = json_dumps(head, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) return zt_fail(receipt->cli->ctx, ZT_ENOMEM, "receipt: out of memory");
    zt_status status = zt_digest_add(receipt->digest, text, strlen(text));
    if (!status) status = zt_digest_end(receipt->digest, digest);
    free(text);
    return status;
}

/* The link that ends after so many steps, behind `before`. */
static zt_status digest_link(train_receipt *receipt, const uint8_t before[LINK], uint64_t steps, uint8_t link[LINK])
{
    zt_status status = zt_digest_add(receipt->digest, before, LINK);
    if (!status) status = zt_digest_add(receipt->digest, &steps, sizeof steps);
    for (int i = 0; i < zt_trainer_n_states(receipt->trainer) && !status; i++) status = add_state(receipt, i);
    return status ? status : zt_digest_end(receipt->digest, link);
}

static zt_status push_link(train_receipt *receipt)
{
    if (receipt->count == receipt->room) {
        const size_t room = receipt->room ? 2 * receipt->room : 64;
        uint8_t *chain = zt_realloc(receipt->cli->ctx, receipt->chain, room * LINK);
        if (!chain) return ZT_ENOMEM;
        receipt->chain = chain;
        receipt->room = room;
    }
    memcpy(receipt->chain + receipt->count++ * LINK, receipt->link, LINK);
    return ZT_OK;
}

/* ---- the head --------------------------------------------------------------------------------- */

static zt_status make_head(train_receipt *receipt, const train_run_facts *facts)
{
    uint8_t start[LINK], data[LINK];
    char start_text[ZT_DIGEST_TEXT], data_text[ZT_DIGEST_TEXT], program[36], seed[24];
    const uint64_t *id = zt_trainer_id(receipt->trainer);
    zt_status status = digest_start(receipt, start);
    for (int i = 0; i < facts->data_count && !status; i++) {
        const uint64_t bytes = facts->data[i].n;
        status = zt_digest_add(receipt->digest, &bytes, sizeof bytes);
        if (!status && bytes) status = zt_digest_add(receipt->digest, facts->data[i].data, facts->data[i].n);
    }
    if (!status) status = zt_digest_end(receipt->digest, data);
    if (status) return status;
    snprintf(program, sizeof program, "%016" PRIx64 "%016" PRIx64, id[1], id[0]);
    snprintf(seed, sizeof seed, "%" PRIu64, receipt->cli->seed);
    receipt->head = json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "schema", SCHEMA, "version", ZT_VERSION,
                              "arithmetic", ZT_ARITHMETIC, "start", zt_digest_text(start, start_text), "data",
                              zt_digest_text(data, data_text), "program", program, "options", facts->options, "seed", seed,
                              "accumulate", (json_int_t)facts->accumulate, "every", (json_int_t)receipt->every);
    return receipt->head ? ZT_OK : zt_fail(receipt->cli->ctx, ZT_ENOMEM, "receipt: out of memory");
}

/* ---- a record --------------------------------------------------------------------------------- */

static zt_status refuse(const train_receipt *receipt, const char *member, const char *wanted)
{
    return zt_fail(receipt->cli->ctx, ZT_EDATA, "%s: not a receipt of training: \"%s\" is not %s", receipt->name, member, wanted);
}

static zt_status read_count(const train_receipt *receipt, const char *member, int64_t most, uint64_t *out)
{
    const json_t *value = json_object_get(receipt->record, member);
    *out = (uint64_t)json_integer_value(value);
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= most) return ZT_OK;
    return refuse(receipt, member, "a number that is possible");
}

static zt_status read_chain(train_receipt *receipt)
{
    const json_t *list = json_object_get(receipt->record, "chain");
    const size_t count = json_array_size(list), wanted = (size_t)((receipt->steps + receipt->every - 1) / receipt->every) + 1;
    if (!json_is_array(list) || count != wanted)
        return zt_fail(receipt->cli->ctx, ZT_EDATA,
                       "%s: not a receipt of training: \"chain\" is not a list of %zu digests, which %" PRIu64 " steps have",
                       receipt->name, wanted, receipt->steps);
    receipt->chain = zt_alloc_array(receipt->cli->ctx, count, LINK);
    if (!receipt->chain) return ZT_ENOMEM;
    receipt->count = count;
    for (size_t i = 0; i < count; i++) {
        const char *digits = json_string_value(json_array_get(list, i));
        if (!digits || !zt_digest_parse(digits, receipt->chain + i * LINK))
            return refuse(receipt, "chain", "a list of digests of 64 hex digits");
    }
    return ZT_OK;
}

static zt_status parse_record(train_receipt *receipt)
{
    const char *schema = json_string_value(json_object_get(receipt->record, "schema"));
    uint64_t arithmetic;
    if (!schema || strcmp(schema, SCHEMA)) return refuse(receipt, "schema", "'" SCHEMA "'");
    zt_status status = read_count(receipt, "arithmetic", INT32_MAX, &arithmetic);
    if (!status && arithmetic != ZT_ARITHMETIC)
        status =
            zt_fail(receipt->cli->ctx, ZT_ENOTSUP, "%s: a receipt of arithmetic %" PRIu64 ": this zt-train has arithmetic %d",
                    receipt->name, arithmetic, ZT_ARITHMETIC);
    if (!status) status = read_count(receipt, "every", MOST_EVERY, &receipt->every);
    if (!status && !receipt->every) status = refuse(receipt, "every", "at least 1");
    if (!status) status = read_count(receipt, "steps", INT64_MAX / MOST_EVERY, &receipt->steps);
    return status ? status : read_chain(receipt);
}

static zt_status read_record(train_receipt *receipt)
{
    size_t length;
    json_error_t error;
    zt_ctx *ctx = receipt->cli->ctx;
    char *text = zt_read_all(ctx, receipt->name, &length);
    if (!text) return zt_ctx_status(ctx);
    zt_status status = ZT_OK;
    if (length > MOST_BYTES)
        status = zt_fail(ctx, ZT_EDATA, "%s: %zu bytes: a receipt has at most %d", receipt->name, length, MOST_BYTES);
    if (!status) receipt->record = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!status && !receipt->record)
        status = zt_fail(ctx, ZT_EDATA, "%s:%d: not JSON: %s", receipt->name, error.line, error.text);
    zt_free(ctx, text);
    return status ? status : parse_record(receipt);
}

/* What of the head differs: the cause before what follows from it. The seed is part of the options, as a hash of the data is, and may
 * decide the network and its weights. The version may be another. */
static zt_status compare_heads(train_receipt *receipt)
{
    static const char *const members[] = {"seed", "accumulate", "program", "data", "options", "start"};
    uint8_t digest[LINK];
    json_t *head = json_copy(receipt->record);
    if (!head) return zt_fail(receipt->cli->ctx, ZT_ENOMEM, "receipt: out of memory");
    json_object_del(head, "steps");
    json_object_del(head, "chain");
    zt_status status = digest_head(receipt, head, digest);
    json_decref(head);
    if (!status && memcmp(digest, receipt->chain, LINK) != 0) receipt->differs = "head";
    for (size_t i = 0; i < sizeof members / sizeof *members && !status && !receipt->differs; i++)
        if (!json_equal(json_object_get(receipt->record, members[i]), json_object_get(receipt->head, members[i])))
            receipt->differs = members[i];
    return status;
}

/* ---- the run ---------------------------------------------------------------------------------- */

static zt_status begin(train_receipt *receipt, const train_run_facts *facts)
{
    if (receipt->name && read_record(receipt)) return zt_ctx_status(receipt->cli->ctx);
    zt_status status = make_head(receipt, facts);
    if (status) return status;
    if (receipt->record) return compare_heads(receipt);
    status = digest_head(receipt, receipt->head, receipt->link);
    return status ? status : push_link(receipt);
}

train_receipt *train_receipt_begin(zt_cli *cli, zt_trainer *trainer, const train_run_facts *facts, const char *record)
{
    train_receipt *receipt = zt_calloc(cli->ctx, 1, sizeof *receipt);
    if (!receipt) return NULL;
    *receipt = (train_receipt){.cli = cli, .trainer = trainer, .name = record, .every = EVERY, .digest = zt_digest_new(cli->ctx)};
    if (receipt->digest && !begin(receipt, facts)) return receipt;
    train_receipt_free(receipt);
    return NULL;
}

void train_receipt_free(train_receipt *receipt)
{
    if (!receipt) return;
    zt_digest_free(receipt->digest);
    json_decref(receipt->head);
    json_decref(receipt->record);
    zt_free(receipt->cli->ctx, receipt->chain);
    zt_free(receipt->cli->ctx, receipt);
}

bool train_receipt_differs(const train_receipt *receipt) { return receipt && receipt->differs; }

static void note_difference(train_receipt *receipt, const char *what, uint64_t step)
{
    if (receipt->differs) return;
    receipt->differs = what;
    receipt->differs_at = step;
}

/* The states after so many steps make the link that ends there. */
static zt_status add_link(train_receipt *receipt, uint64_t steps)
{
    const size_t index = (size_t)((steps + receipt->every - 1) / receipt->every);
    const uint64_t first = (uint64_t)(index - 1) * receipt->every;
    if (receipt->record && index >= receipt->count) {
        note_difference(receipt, "steps", receipt->steps);
        return ZT_OK;
    }
    const uint8_t *before = receipt->record ? receipt->chain + (index - 1) * LINK : receipt->link;
    zt_status status = digest_link(receipt, before, steps, receipt->link);
    receipt->done = steps;
    if (status || !receipt->record) return status ? status : push_link(receipt);
    if (memcmp(receipt->link, receipt->chain + index * LINK, LINK) != 0) note_difference(receipt, "states", first);
    return ZT_OK;
}

zt_status train_receipt_resumed(train_receipt *receipt, uint64_t steps)
{
    if (!receipt || !steps) return ZT_OK;
    if (!receipt->record)
        return zt_fail(receipt->cli->ctx, ZT_EUSAGE,
                       "--receipt: a run that is resumed after step %" PRIu64 " cannot have a receipt of its beginning", steps);
    if (steps % receipt->every && steps != receipt->steps)
        return zt_fail(receipt->cli->ctx, ZT_EUSAGE,
                       "--verify: the checkpoint is of step %" PRIu64 ", which is not a multiple of %" PRIu64
                       ": see --checkpoint-every",
                       steps, receipt->every);
    receipt->from = steps;
    zt_status status = add_link(receipt, steps);
    if (!status && receipt->differs && !strcmp(receipt->differs, "states")) receipt->differs = "checkpoint";
    if (receipt->differs) receipt->differs_at = steps;
    return status;
}

zt_status train_receipt_step(train_receipt *receipt, uint64_t steps)
{
    if (!receipt || receipt->differs || steps % receipt->every) return ZT_OK;
    return add_link(receipt, steps);
}

/* ---- the end ---------------------------------------------------------------------------------- */

static zt_status print_result(const train_receipt *receipt)
{
    static const char *const columns[] = {"result", "#from", "#to", "#of", "differs", "#at"};
    char from[24], to[24], of[24], at[24] = "";
    const bool in_steps = receipt->differs && (!strcmp(receipt->differs, "states") || !strcmp(receipt->differs, "steps") ||
                                               !strcmp(receipt->differs, "checkpoint"));
    snprintf(from, sizeof from, "%" PRIu64, receipt->from);
    snprintf(to, sizeof to, "%" PRIu64, receipt->differs ? receipt->differs_at : receipt->done);
    snprintf(of, sizeof of, "%" PRIu64, receipt->steps);
    if (in_steps) snprintf(at, sizeof at, "%" PRIu64, receipt->differs_at);
    zt_table *table = zt_table_new(receipt->cli, "receipt", columns, 6);
    if (!table) return zt_ctx_status(receipt->cli->ctx);
    zt_status status = zt_table_row(table, (const char *const[]){receipt->differs ? "different" : "same", from, to, of,
                                                                 receipt->differs ? receipt->differs : "", at});
    if (!status) status = zt_table_print(table);
    zt_table_free(table);
    if (!status && receipt->differs) zt_cli_no(receipt->cli);
    return status;
}

static zt_status write_receipt(train_receipt *receipt, const char *path)
{
    zt_ctx *ctx = receipt->cli->ctx;
    char digits[ZT_DIGEST_TEXT];
    json_t *links = json_array();
    for (size_t i = 0; i < receipt->count; i++)
        json_array_append_new(links, json_string(zt_digest_text(receipt->chain + i * LINK, digits)));
    json_object_set_new(receipt->head, "steps", json_integer((json_int_t)receipt->done));
    json_object_set_new(receipt->head, "chain", links);
    char *line = json_dumps(receipt->head, JSON_COMPACT);
    if (!line) return zt_fail(ctx, ZT_ENOMEM, "--receipt: out of memory");
    zt_str text;
    zt_str_init(&text, ctx);
    zt_str_puts(&text, line);
    zt_status status = zt_str_putc(&text, '\n');
    if (!status) status = zt_sink_put_file(ctx, path, receipt->cli->force, text.data, text.len);
    zt_str_fini(&text);
    free(line);
    return status;
}

zt_status train_receipt_end(train_receipt *receipt, uint64_t steps, const char *path)
{
    if (!receipt) return ZT_OK;
    if (receipt->record && steps != receipt->steps)
        note_difference(receipt, "steps", steps < receipt->steps ? steps : receipt->steps);
    zt_status status = !receipt->differs && steps > receipt->done ? add_link(receipt, steps) : ZT_OK;
    if (status) return status;
    return receipt->record ? print_result(receipt) : write_receipt(receipt, path);
}
