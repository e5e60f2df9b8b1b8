/* forward.c - a forward pass that a program describes, in place of a row of arch.c: its interface is checked, what is
 * needed outside of it is read from it, and it is adapted to the options.
 *
 *   in ids, pos, seq: i32[n]   table: i32[S,ctx/32]   rows: i32[m]      out logits: f32[m,V]
 *   state kc, vc, ...: [ctx,W] of a type that kv_put writes             out best: i32[m], optional
 *   with recurrent layers also in from, to: i32[n]   state: f32[slots,...]
 *   for embeddings (zt_llm_opts.embed)                                  out states: f32[m,W]
 *
 *   an encoder: in ids, types, pos, last: i32[n]                        out states: f32[n,W]
 *
 * Rewinding, batches and session files need caches in which a row holds what was computed at one position of one
 * sequence, and of which a token reads nothing behind its own position. This holds if each state is written by an op such
 * as kv_put and read by one such as attention, both by the program's inputs pos, seq and table; other uses are refused.
 */
#include "lib/llm/llm_internal.h"
#include "lib/prog/states.h"
#include "lib/run/partition.h"
#include "lib/tensor/block_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define MAX_CTX (INT32_MAX - ZT_KV_BLOCK)

enum { IN_IDS, IN_POS, IN_SEQ, IN_TABLE, IN_ROWS, IN_FROM, IN_TO, IN_TYPES, IN_LAST, IN_COUNT, SAMPLES = 2 };

static const char *const input_names[IN_COUNT] = {"ids", "pos", "seq", "table", "rows", "from", "to", "types", "last"};

/* The inputs of a program, in the order in which they are fed. */
typedef struct input_set {
    int count, input[IN_COUNT];
    const char *expected; /* for messages */
} input_set;

static const input_set encoder_inputs = {4, {IN_IDS, IN_TYPES, IN_POS, IN_LAST}, "ids, types, pos and last"};
static const input_set decoder_inputs = {
    5, {IN_IDS, IN_POS, IN_SEQ, IN_TABLE, IN_ROWS}, "ids, pos, seq, table, rows, from and to"};
static const input_set recurrent_inputs = {
    7, {IN_IDS, IN_POS, IN_SEQ, IN_TABLE, IN_ROWS, IN_FROM, IN_TO}, "ids, pos, seq, table, rows, from and to"};

static bool has_input(const zt_prog *program, int input)
{
    int value_id = zt_prog_find(program, input_names[input]);
    return value_id >= 0 && zt_prog_value(program, value_id)->kind == ZT_VALUE_IN;
}

/* Which inputs the program must have, by those that only one kind has. */
static const input_set *inputs_of(const zt_prog *program)
{
    if (has_input(program, IN_LAST)) return &encoder_inputs;
    return has_input(program, IN_FROM) || has_input(program, IN_TO) ? &recurrent_inputs : &decoder_inputs;
}

/* Two sets of numbers for the symbols: what has the right shape for both has it for all. */
static const zt_binding samples[SAMPLES][3] = {{{"n", 3}, {"m", 2}, {"ctx", 64}}, {{"n", 5}, {"m", 4}, {"ctx", 160}}};

/* What a message says of the first of them. */
#define FOR_SAMPLE "for n=3, m=2 and ctx=64"

/* The hyper-parameters that there are without a row. */
static const zt_arch program_arch = {.name = "program"}, encoder_arch = {.name = "program", .encoder = true};

typedef struct forward_text {
    zt_ctx *ctx;
    const zt_prog *program;
    const char *name; /* for messages */
    const input_set *inputs;
    zt_bound *bound[SAMPLES];
    int in[IN_COUNT];         /* values; -1: not an input of the program */
    int logits, best, states; /* outputs, as values; -1: there is none */
} forward_text;

static const zt_type *type_at(const forward_text *text, int value_id) { return &text->bound[0]->type[value_id]; }

static const char *value_name(const forward_text *text, int value_id) { return zt_prog_value(text->program, value_id)->name; }

static bool same_dim(const forward_text *text, int value_id, int axis)
{
    return text->bound[0]->type[value_id].dim[axis] == text->bound[1]->type[value_id].dim[axis];
}

/* The error in the context again, after the text's name. */
static zt_status name_error(const forward_text *text)
{
    char message[512];
    zt_status status = zt_ctx_status(text->ctx);
    if (status == ZT_OK || status == ZT_ENOMEM) return status;
    snprintf(message, sizeof message, "%s", zt_ctx_error(text->ctx));
    zt_ctx_clear(text->ctx);
    return zt_fail(text->ctx, ZT_EDATA, "%s: %s", text->name, message);
}

/* ---- symbols, inputs, outputs ---------------------------------------------------------------- */

static zt_status bind_samples(forward_text *text)
{
    for (int symbol_id = 0; symbol_id < zt_prog_n_symbols(text->program); symbol_id++) {
        const char *name = zt_prog_symbol_name(text->program, symbol_id);
        if (strcmp(name, "n") != 0 && strcmp(name, "m") != 0 && strcmp(name, "ctx") != 0)
            return zt_fail(text->ctx, ZT_EDATA, "%s: unknown symbol '%s', expected n, m and ctx", text->name, name);
    }
    for (int i = 0; i < SAMPLES; i++) {
        text->bound[i] = zt_prog_bind(text->program, samples[i], 3);
        if (!text->bound[i]) return name_error(text);
    }
    return ZT_OK;
}

/* The type of an input for a sample. The table has as many rows as it likes: they become those of the session. */
static zt_type input_type(const forward_text *text, int input, int sample)
{
    int64_t n = samples[sample][0].value, m = samples[sample][1].value, ctx = samples[sample][2].value;
    if (input != IN_TABLE) return zt_type_make(ZT_I32, 1, input == IN_ROWS ? &m : &n);
    const zt_type *declared = &text->bound[sample]->type[text->in[IN_TABLE]];
    bool counted = declared->rank == 2 && declared->dim[0] > 0 && same_dim(text, text->in[IN_TABLE], 0);
    int64_t sequences = counted ? declared->dim[0] : 1;
    return zt_type_make(ZT_I32, 2, (int64_t[]){sequences, ctx / ZT_KV_BLOCK});
}

static zt_status check_input_type(const forward_text *text, int input)
{
    char declared_text[ZT_TYPE_TEXT], expected_text[ZT_TYPE_TEXT];
    for (int sample = 0; sample < SAMPLES; sample++) {
        zt_type expected = input_type(text, input, sample);
        const zt_type *declared = &text->bound[sample]->type[text->in[input]];
        if (zt_type_equal(&expected, declared)) continue;
        return zt_fail(text->ctx, ZT_EDATA,
                       "%s: input '%s' is %s for n=%" PRId64 ", m=%" PRId64 " and ctx=%" PRId64 ", expected %s", text->name,
                       input_names[input], zt_type_text(declared, declared_text), samples[sample][0].value,
                       samples[sample][1].value, samples[sample][2].value, zt_type_text(&expected, expected_text));
    }
    return ZT_OK;
}

static bool is_expected(const input_set *inputs, int input)
{
    for (int i = 0; i < inputs->count; i++)
        if (inputs->input[i] == input) return true;
    return false;
}

static zt_status check_inputs(forward_text *text)
{
    text->inputs = inputs_of(text->program);
    for (int i = 0; i < zt_prog_count(text->program, ZT_VALUE_IN); i++) {
        int value_id = zt_prog_nth(text->program, ZT_VALUE_IN, i), input = 0;
        while (input < IN_COUNT && strcmp(input_names[input], value_name(text, value_id)) != 0) input++;
        if (input == IN_COUNT || !is_expected(text->inputs, input))
            return zt_fail(text->ctx, ZT_EDATA, "%s: unknown input '%s', expected %s", text->name, value_name(text, value_id),
                           text->inputs->expected);
        text->in[input] = value_id;
    }
    zt_status status = ZT_OK;
    for (int i = 0; i < text->inputs->count; i++)
        if (text->in[text->inputs->input[i]] < 0)
            return zt_fail(text->ctx, ZT_EDATA, "%s: no input '%s'", text->name, input_names[text->inputs->input[i]]);
    for (int i = 0; i < text->inputs->count && !status; i++) status = check_input_type(text, text->inputs->input[i]);
    return status;
}

/* An output with a row for each row that is asked for: logits, or states. */
static zt_status check_rows(const forward_text *text, int value_id, const char *name, const char *expected)
{
    char found[ZT_TYPE_TEXT];
    const zt_type *type = type_at(text, value_id), *other = &text->bound[1]->type[value_id];
    int symbol = text->inputs == &encoder_inputs ? 0 : 1;
    if (type->dtype == ZT_F32 && type->rank == 2 && type->dim[0] == samples[0][symbol].value &&
        other->dim[0] == samples[1][symbol].value && same_dim(text, value_id, 1) && type->dim[1] >= 1 &&
        type->dim[1] <= INT32_MAX)
        return ZT_OK;
    return zt_fail(text->ctx, ZT_EDATA, "%s: output '%s' is %s " FOR_SAMPLE ", expected %s", text->name, name,
                   zt_type_text(type, found), expected);
}

static zt_status find_outputs(forward_text *text)
{
    for (int i = 0; i < zt_prog_n_outputs(text->program); i++) {
        const zt_output *output = zt_prog_output(text->program, i);
        if (!strcmp(output->name, "logits"))
            text->logits = output->value;
        else if (!strcmp(output->name, "best"))
            text->best = output->value;
        else if (!strcmp(output->name, "states"))
            text->states = output->value;
        else
            return zt_fail(text->ctx, ZT_EDATA, "%s: unknown output '%s', expected logits, best or states", text->name,
                           output->name);
    }
    return ZT_OK;
}

static zt_status check_best(const forward_text *text)
{
    if (text->best < 0) return ZT_OK;
    const zt_value *value = zt_prog_value(text->program, text->best);
    const zt_step *step = value->kind == ZT_VALUE_OP ? zt_prog_step(text->program, value->index) : NULL;
    if (step && step->op == ZT_OP_argmax && step->in[0] == text->logits &&
        zt_attrs_same(step->op, step->attrs, &(zt_argmax_attrs){.axis = -1}))
        return ZT_OK;
    return zt_fail(text->ctx, ZT_EDATA, "%s: output 'best' is not the argmax of 'logits'", text->name);
}

/* `embed`: states are wanted, else logits. */
static zt_status check_outputs(forward_text *text, bool embed)
{
    zt_status status = find_outputs(text);
    if (status) return status;
    if (embed && text->states < 0)
        return text->logits < 0 ? zt_fail(text->ctx, ZT_EDATA, "%s: no output 'states'", text->name)
                                : zt_fail(text->ctx, ZT_ENOTSUP,
                                          "%s: no output 'states': the program computes logits, not embeddings", text->name);
    if (!embed && text->logits < 0)
        return text->states < 0 ? zt_fail(text->ctx, ZT_EDATA, "%s: no output 'logits'", text->name)
                                : zt_fail(text->ctx, ZT_ENOTSUP,
                                          "%s: no output 'logits': the program computes embeddings, not text", text->name);
    if (text->states >= 0)
        status = check_rows(text, text->states, "states", text->inputs == &encoder_inputs ? "f32[n,W]" : "f32[m,W]");
    if (!status && text->logits >= 0) status = check_rows(text, text->logits, "logits", "f32[m,V]");
    return status ? status : check_best(text);
}

/* ---- caches ---------------------------------------------------------------------------------- */

/* Is the value the program's input, or its entries for the wanted rows? */
static bool is_input(const forward_text *text, int value_id, int input)
{
    if (value_id == text->in[input]) return true;
    const zt_value *value = zt_prog_value(text->program, value_id);
    const zt_step *step = value && value->kind == ZT_VALUE_OP ? zt_prog_step(text->program, value->index) : NULL;
    return step && input != IN_TABLE && step->op == ZT_OP_gather_elements && step->in[0] == text->in[input] &&
           step->in[1] == text->in[IN_ROWS];
}

/* Has the op inputs pos, seq and table, and are they the program's? `all`: of all rows, as a cache must be written. */
static bool is_addressed(const forward_text *text, const zt_step *step, bool all)
{
    const zt_opinfo *info = zt_op_info(step->op);
    int found = 0;
    for (int k = 0; k < info->n_in; k++)
        for (int input = IN_POS; input <= IN_TABLE; input++)
            found += !strcmp(info->in_name[k], input_names[input]) &&
                     (all ? step->in[k] == text->in[input] : is_input(text, step->in[k], input));
    return found == IN_TABLE - IN_POS + 1;
}

/* The step that updates a state in place; NULL: none. */
static const zt_step *update_of(const forward_text *text, int state)
{
    int keep = zt_prog_value(text->program, state)->keep;
    const zt_value *kept = zt_prog_value(text->program, keep);
    const zt_step *step = kept && kept->kind == ZT_VALUE_OP ? zt_prog_step(text->program, kept->index) : NULL;
    for (int k = 0; step && k < zt_op_info(step->op)->def->donates; k++)
        if (step->in[k] == state && step->out[k] == keep) return step;
    return NULL;
}

/* Does its first dimension not grow with the context? */
static bool is_slots(const zt_value *state) { return state->type.rank > 0 && state->type.dim[0] >= 0; }

/* The state of a recurrent layer: f32[slots,...], updated by an op with the program's inputs from and to. */
static zt_status check_slots(const forward_text *text, int state)
{
    char found[ZT_TYPE_TEXT];
    const zt_type *type = type_at(text, state);
    const zt_step *update = update_of(text, state);
    bool named = false, same = type->rank > 1 && type->dtype == ZT_F32;
    for (int axis = 0; axis < type->rank; axis++) same = same && same_dim(text, state, axis);
    if (!same)
        return zt_fail(text->ctx, ZT_EDATA, "%s: state '%s' is %s " FOR_SAMPLE ", expected f16[ctx,W], f32[ctx,W] or f32[S,...]",
                       text->name, value_name(text, state), zt_type_text(type, found));
    for (int k = 0; update && k + 1 < zt_op_info(update->op)->n_in; k++)
        named = named || (!strcmp(zt_op_info(update->op)->in_name[k], "from") && text->in[IN_FROM] >= 0 &&
                          update->in[k] == text->in[IN_FROM] && update->in[k + 1] == text->in[IN_TO]);
    if (named) return ZT_OK;
    return zt_fail(text->ctx, ZT_EDATA,
                   "%s: state '%s' is not that of a recurrent layer: it must keep the result of an op with from and to, such as "
                   "causal_conv",
                   text->name, value_name(text, state));
}

static zt_status check_state(const forward_text *text, int state)
{
    char found[ZT_TYPE_TEXT];
    if (is_slots(zt_prog_value(text->program, state))) return check_slots(text, state);
    const zt_type *type = type_at(text, state), *other = &text->bound[1]->type[state];
    const zt_step *update = update_of(text, state);
    bool shaped = zt_is_cache_type(type->dtype) && type->rank == 2 && type->dim[0] == samples[0][2].value &&
                  other->dim[0] == samples[1][2].value && same_dim(text, state, 1) && type->dim[1] > 0;
    if (!shaped)
        return zt_fail(text->ctx, ZT_EDATA, "%s: state '%s' is %s " FOR_SAMPLE ", expected f16[ctx,W] or f32[ctx,W]", text->name,
                       value_name(text, state), zt_type_text(type, found));
    if (update && is_addressed(text, update, true)) return ZT_OK;
    return zt_fail(text->ctx, ZT_EDATA,
                   "%s: state '%s' is not a KV cache: it must keep the result of kv_put with pos, seq and table", text->name,
                   value_name(text, state));
}

/* cache[v]: is v a state, or what one keeps. */
static void mark_caches(const forward_text *text, bool *cache)
{
    for (int i = 0; i < zt_prog_count(text->program, ZT_VALUE_STATE); i++) {
        int state = zt_prog_nth(text->program, ZT_VALUE_STATE, i);
        cache[state] = cache[zt_prog_value(text->program, state)->keep] = true;
    }
}

/* Before its update a cache lacks the tokens of the step, so only what it keeps may be read. */
static zt_status check_readers(const forward_text *text, const bool *cache)
{
    for (int index = 0; index < zt_prog_n_steps(text->program); index++) {
        const zt_step *step = zt_prog_step(text->program, index);
        for (int k = zt_op_info(step->op)->def->donates; k < zt_op_info(step->op)->n_in; k++) {
            int value_id = step->in[k];
            if (value_id < 0 || !cache[value_id]) continue;
            if (is_addressed(text, step, false) && zt_prog_value(text->program, value_id)->kind == ZT_VALUE_OP) continue;
            return zt_fail(
                text->ctx, ZT_EDATA,
                "%s: '%s' = %s reads '%s', a state: only attention with pos, seq and table may read a KV cache, after its update",
                text->name, value_name(text, step->out[0]), zt_op_info(step->op)->name, value_name(text, value_id));
        }
    }
    return ZT_OK;
}

static zt_status check_caches(const forward_text *text)
{
    zt_status status = ZT_OK;
    if (text->inputs == &encoder_inputs && zt_prog_count(text->program, ZT_VALUE_STATE) > 0)
        return zt_fail(text->ctx, ZT_EDATA, "%s: state '%s' of an encoder, which has no caches", text->name,
                       value_name(text, zt_prog_nth(text->program, ZT_VALUE_STATE, 0)));
    for (int i = 0; i < zt_prog_count(text->program, ZT_VALUE_STATE) && !status; i++)
        status = check_state(text, zt_prog_nth(text->program, ZT_VALUE_STATE, i));
    bool *cache = status ? NULL : zt_calloc(text->ctx, (size_t)zt_prog_n_values(text->program) + 1, sizeof *cache);
    if (!cache) return status ? status : ZT_ENOMEM;
    mark_caches(text, cache);
    for (int i = 0; i < zt_prog_n_outputs(text->program) && !status; i++)
        if (cache[zt_prog_output(text->program, i)->value])
            status =
                zt_fail(text->ctx, ZT_EDATA, "%s: output '%s' is a state", text->name, zt_prog_output(text->program, i)->name);
    if (!status) status = check_readers(text, cache);
    zt_free(text->ctx, cache);
    return status;
}

/* ---- data ------------------------------------------------------------------------------------ */

static zt_status check_data(const forward_text *text, zt_gguf *gguf)
{
    zt_store store = zt_gguf_store(gguf);
    const char *id = zt_prog_model_id(text->program), *file = zt_prog_model_file(text->program);
    char shown[128];
    if (id && strcmp(id, zt_gguf_id(gguf)) != 0)
        return zt_fail(text->ctx, ZT_EDATA, "%s: the program is for model %s (id %s), not for %s (id %s)", text->name,
                       zt_escape(shown, sizeof shown, file, strlen(file)), id, zt_gguf_name(gguf), zt_gguf_id(gguf));
    for (int i = 0; i < zt_prog_count(text->program, ZT_VALUE_DATA); i++) {
        int value_id = zt_prog_nth(text->program, ZT_VALUE_DATA, i);
        const char *tensor = zt_prog_value(text->program, value_id)->tensor;
        int64_t handle;
        for (int sample = 0; sample < SAMPLES && !zt_is_derived(tensor); sample++)
            if (zt_store_weight(text->ctx, &store, tensor, &text->bound[sample]->type[value_id], &handle))
                return name_error(text);
    }
    return ZT_OK;
}

/* ---- what is needed outside the program ------------------------------------------------------ */

/* Tables whose rows token ids or positions name. One of embeddings has a row for each token, one of positions limits the
 * context. */
static zt_status read_tables(const forward_text *text, zt_hyper *hyper)
{
    for (int index = 0; index < zt_prog_n_steps(text->program); index++) {
        const zt_step *step = zt_prog_step(text->program, index);
        if (step->op != ZT_OP_gather) continue;
        const zt_type *table = type_at(text, step->in[0]);
        if (step->in[1] == text->in[IN_IDS]) {
            if (text->logits >= 0 && table->dim[0] < hyper->vocab)
                return zt_fail(text->ctx, ZT_EDATA, "%s: '%s' has rows for %" PRId64 " tokens, but there are logits of %" PRId64,
                               text->name, value_name(text, step->in[0]), table->dim[0], hyper->vocab);
            if (text->logits < 0 && (!hyper->vocab || table->dim[0] < hyper->vocab)) hyper->vocab = table->dim[0];
            if (!hyper->width && table->rank == 2) hyper->width = table->dim[1];
        }
        if (step->in[1] != text->in[IN_POS] || !same_dim(text, step->in[0], 0)) continue;
        hyper->parts |= ZT_PART_POSITIONS;
        if (table->dim[0] < hyper->ctx_train) hyper->ctx_train = table->dim[0];
    }
    if (hyper->vocab > 0) return ZT_OK;
    return zt_fail(text->ctx, ZT_EDATA, "%s: no gather takes rows 'ids' of a table: the number of tokens is unknown", text->name);
}

/* Sizes that reports show, from the ops that read caches, such as attention: their attribute head, q and k. */
static void read_heads(const forward_text *text, zt_hyper *hyper)
{
    for (int index = 0; index < zt_prog_n_steps(text->program); index++) {
        const zt_step *step = zt_prog_step(text->program, index);
        int64_t head = step->op == ZT_OP_attention           ? ((const zt_attention_attrs *)step->attrs)->head
                       : step->op == ZT_OP_attention_sinks   ? ((const zt_attention_sinks_attrs *)step->attrs)->head
                       : step->op == ZT_OP_attention_alibi   ? ((const zt_attention_alibi_attrs *)step->attrs)->head
                       : step->op == ZT_OP_attention_chunked ? ((const zt_attention_chunked_attrs *)step->attrs)->head
                       : step->op == ZT_OP_attention_indexed ? ((const zt_attention_indexed_attrs *)step->attrs)->head
                                                             : 0;
        if (head == 0 || hyper->n_layers++ > 0) continue;
        hyper->head = head;
        hyper->n_heads = type_at(text, step->in[0])->dim[1] / head;
        hyper->n_kv_heads = type_at(text, step->in[1])->dim[1] / head;
    }
}

/* A key of the file's architecture. False: the file does not have it. */
static bool read_key(const zt_gguf *gguf, const char *name, int64_t *value)
{
    char key[160];
    zt_bytes arch;
    if (!zt_gguf_str(gguf, "general.architecture", &arch) || arch.n > 128) return false;
    snprintf(key, sizeof key, "%.*s.%s", (int)arch.n, (const char *)arch.data, name);
    return zt_gguf_i64(gguf, key, value);
}

/* The context length of the file, if it has one. */
static zt_status read_context(const forward_text *text, const zt_gguf *gguf, zt_hyper *hyper)
{
    int64_t length = MAX_CTX;
    hyper->ctx_train = MAX_CTX;
    if (!read_key(gguf, "context_length", &length)) return ZT_OK;
    if (length < 1 || length > MAX_CTX)
        return zt_fail(text->ctx, ZT_EDATA, "%s: the context length is %" PRId64 ", expected 1 to %d", zt_gguf_name(gguf), length,
                       MAX_CTX);
    hyper->ctx_train = length;
    return ZT_OK;
}

/* Does the program read this tensor of the file? */
static bool reads_tensor(const forward_text *text, const char *tensor)
{
    for (int i = 0; i < zt_prog_count(text->program, ZT_VALUE_DATA); i++)
        if (!strcmp(zt_prog_value(text->program, zt_prog_nth(text->program, ZT_VALUE_DATA, i))->tensor, tensor)) return true;
    return false;
}

/* How states become one vector, by the file's key: GGUF's numbers, of which 4 are the scores of a classifier. Without the key they
 * are scores if the program reads the file's classifier, else states whose mean counts. */
static zt_status read_pooling(const forward_text *text, const zt_gguf *gguf, zt_hyper *hyper)
{
    static const zt_pooling known[] = {ZT_POOL_MEAN, ZT_POOL_MEAN, ZT_POOL_FIRST, ZT_POOL_LAST};
    enum { RANKED = sizeof known / sizeof *known };
    int64_t type = reads_tensor(text, "cls.weight") || reads_tensor(text, "cls.output.weight") ? RANKED : 0;
    read_key(gguf, "pooling_type", &type);
    if (type < 0 || type > RANKED)
        return zt_fail(text->ctx, ZT_ENOTSUP, "%s: pooling_type %" PRId64 " is not supported (expected 0 to %d)",
                       zt_gguf_name(gguf), type, RANKED);
    hyper->classifies = type == RANKED;
    hyper->pooling = type < RANKED ? known[type] : hyper->arch->encoder ? ZT_POOL_FIRST : ZT_POOL_LAST;
    hyper->width = hyper->labels = type_at(text, text->states)->dim[1];
    return ZT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status check_text(forward_text *text, zt_gguf *gguf, bool embed, zt_hyper *hyper)
{
    zt_status status = bind_samples(text);
    if (!status) status = check_inputs(text);
    if (!status) status = check_outputs(text, embed);
    if (!status) status = check_caches(text);
    if (!status) status = check_data(text, gguf);
    if (!status) status = read_context(text, gguf, hyper);
    if (status) return status;
    if (text->inputs == &encoder_inputs) hyper->arch = &encoder_arch;
    if (text->logits >= 0) hyper->vocab = type_at(text, text->logits)->dim[1];
    hyper->recurrent = text->inputs == &recurrent_inputs;
    read_heads(text, hyper);
    if (embed) status = read_pooling(text, gguf, hyper);
    return status ? status : read_tables(text, hyper);
}

zt_status zt_forward_read(zt_gguf *gguf, const zt_llm_opts *opts, zt_hyper *hyper)
{
    forward_text text = {.ctx = zt_gguf_ctx(gguf),
                         .program = opts->forward,
                         .name = opts->forward_name ? opts->forward_name : "program",
                         .in = {-1, -1, -1, -1, -1, -1, -1, -1, -1},
                         .logits = -1,
                         .best = -1,
                         .states = -1};
    if (opts->planned) return zt_fail(text.ctx, ZT_EUSAGE, "%s: either a program or a plan, not both", text.name);
    *hyper = (zt_hyper){.arch = &program_arch};
    zt_status status = check_text(&text, gguf, opts->embed, hyper);
    for (int i = 0; i < SAMPLES; i++) zt_bound_free(text.bound[i]);
    return status;
}

/* ---- adapting -------------------------------------------------------------------------------- */

typedef struct forward_copy {
    zt_ctx *ctx;
    const zt_prog *source;
    zt_prog *target;
    const zt_forward_opts *opts;
    int *map; /* [values of source] */
} forward_copy;

/* Activations that products round to 8 or 16 bits stay f32. */
static void make_exact(zt_op op, char *attrs)
{
    const zt_opinfo *info = zt_op_info(op);
    for (int i = 0; i < info->n_attrs; i++) {
        if (info->attrs[i].kind != ZT_ATTR_word ||
            (strcmp(info->attrs[i].name, "act") != 0 && strcmp(info->attrs[i].name, "act1") != 0))
            continue;
        zt_attr_word *word = (zt_attr_word *)(void *)(attrs + info->attrs[i].offset);
        if (!strcmp(word->s, "q8") || !strcmp(word->s, "q16")) *word = (zt_attr_word){"f32"};
    }
}

static zt_status copy_step(forward_copy *copy, int index)
{
    const zt_step *step = zt_prog_step(copy->source, index);
    const zt_opinfo *info = zt_op_info(step->op);
    _Alignas(16) char attrs[ZT_MAX_ATTR_BYTES];
    const char *names[ZT_MAX_OUT] = {0};
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    memcpy(attrs, step->attrs, info->attr_bytes);
    if (copy->opts->exact) make_exact(step->op, attrs);
    for (int k = 0; k < info->n_in; k++) inputs[k] = step->in[k] < 0 ? ZT_NONE : copy->map[step->in[k]];
    for (int k = 0; k < info->n_out; k++) names[k] = step->out[k] < 0 ? "_" : zt_prog_value(copy->source, step->out[k])->name;
    zt_status status = zt_prog_op(copy->target, step->op, attrs, inputs, names, outputs);
    for (int k = 0; k < info->n_out && !status; k++)
        if (step->out[k] >= 0) copy->map[step->out[k]] = outputs[k];
    return status;
}

/* The declarations: the inputs in the order in which they are fed, rows of the table, the type of the caches. */
static zt_status copy_declarations(forward_copy *copy)
{
    int first[IN_COUNT];
    zt_type *types = zt_alloc_array(copy->ctx, (size_t)zt_prog_n_values(copy->source) + 1, sizeof *types);
    if (!types) return ZT_ENOMEM;
    for (int value_id = 0; value_id < zt_prog_n_values(copy->source); value_id++) {
        const zt_value *value = zt_prog_value(copy->source, value_id);
        types[value_id] = value->type;
        if (value->kind != ZT_VALUE_STATE) continue;
        if (is_slots(value))
            types[value_id].dim[0] = copy->opts->slots;
        else if (copy->opts->kv != ZT_DTYPE_COUNT && types[value_id].dim[1] % zt_dtype_get(copy->opts->kv)->block == 0)
            types[value_id].dtype = copy->opts->kv;
        else if (copy->opts->kv != ZT_DTYPE_COUNT)
            return zt_fail(copy->ctx, ZT_ENOTSUP, "state '%s' has rows of %" PRId64 " columns: not a multiple of %d for %s",
                           value->name, types[value_id].dim[1], zt_dtype_get(copy->opts->kv)->block,
                           zt_dtype_get(copy->opts->kv)->name);
    }
    const input_set *inputs = inputs_of(copy->source);
    for (int i = 0; i < inputs->count; i++) {
        first[i] = zt_prog_find(copy->source, input_names[inputs->input[i]]);
        if (inputs->input[i] == IN_TABLE) types[first[i]].dim[0] = copy->opts->n_seq;
    }
    copy->target = zt_prog_like_types(copy->source, types, first, inputs->count, copy->map);
    zt_free(copy->ctx, types);
    return copy->target ? ZT_OK : zt_ctx_status(copy->ctx);
}

static zt_status copy_ends(forward_copy *copy)
{
    zt_status status = ZT_OK;
    int logits = -1, best = -1, states = -1;
    for (int i = 0; i < zt_prog_count(copy->source, ZT_VALUE_STATE) && !status; i++) {
        int state = zt_prog_nth(copy->source, ZT_VALUE_STATE, i);
        status = zt_prog_keep(copy->target, copy->map[state], copy->map[zt_prog_value(copy->source, state)->keep]);
    }
    for (int i = 0; i < zt_prog_n_outputs(copy->source); i++) {
        const zt_output *output = zt_prog_output(copy->source, i);
        *(!strcmp(output->name, "states") ? &states : !strcmp(output->name, "best") ? &best : &logits) = copy->map[output->value];
    }
    if (!status && copy->opts->embed) return zt_prog_out(copy->target, "states", states);
    if (!status) status = zt_prog_out(copy->target, "logits", logits);
    if (status) return status;
    return zt_prog_out(copy->target, "best", best < 0 ? zt_program_argmax(copy->target, NULL, logits, NULL) : best);
}

zt_prog *zt_forward_build(zt_ctx *ctx, const zt_prog *program, const zt_forward_opts *opts)
{
    forward_copy copy = {.ctx = ctx, .source = program, .opts = opts};
    copy.map = zt_alloc_array(ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *copy.map);
    zt_status status = copy.map ? copy_declarations(&copy) : ZT_ENOMEM;
    for (int index = 0; index < zt_prog_n_steps(program) && !status; index++) status = copy_step(&copy, index);
    if (!status) status = copy_ends(&copy);
    zt_free(ctx, copy.map);
    if (!status) return copy.target;
    zt_prog_free(copy.target);
    return NULL;
}

zt_status zt_forward_key(const zt_llm *model, char key[ZT_FORWARD_KEY])
{
    zt_str text;
    key[0] = 0;
    if (!model->opts.forward) return ZT_OK;
    zt_str_init(&text, model->ctx);
    zt_status status = zt_prog_print(model->prog, &text);
    if (!status) snprintf(key, ZT_FORWARD_KEY, " program %016" PRIx64, (uint64_t)XXH3_64bits(text.data, text.len));
    zt_str_fini(&text);
    return status;
}
