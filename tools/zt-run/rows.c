/* rows.c - --chunk with a network: some rows of its input at a time. The keys and values of its attention are
 * kept from one step to the next. */
#include "tools/common/subject.h"
#include "tools/zt-run/run.h"

#include <string.h>

typedef struct rows_run {
    zt_cli *cli;
    const zt_bound_inputs *whole; /* of the program that takes all rows at once */
    zt_prog *program;             /* takes some rows at a time */
    zt_session *session;
    int64_t row_count, rows_per_step;
    int32_t *positions;      /* [row_count] */
    int64_t counter;         /* of the random numbers: one more each step */
    const void **inputs;     /* of `program`: the data of all rows */
    size_t *input_row_bytes; /* for each input, bytes of a row; 0: the same data in every step */
} rows_run;

static size_t row_bytes(const zt_type *type, int64_t rows) { return rows ? zt_type_bytes(type) / (size_t)rows : 0; }

/* The output must have a row for each row of the input. */
static zt_status check_rows(rows_run *pieces)
{
    const zt_type *output_type = &pieces->whole->bound->type[zt_prog_output(pieces->whole->prog, 0)->value];
    const zt_type *input_type = &pieces->whole->bound->type[zt_prog_nth(pieces->whole->prog, ZT_VALUE_IN, 0)];
    pieces->row_count = input_type->dim[0];
    if (output_type->rank > 0 && output_type->dim[0] == pieces->row_count) return ZT_OK;
    return zt_fail(pieces->cli->ctx, ZT_EUSAGE, "--chunk: the network must output one row for each input row");
}

/* Makes the network's program with caches, for the shape of the input. */
static zt_status lower_network(rows_run *pieces, const char *model, zt_engine *engine)
{
    zt_ctx *ctx = pieces->cli->ctx;
    const zt_type *input_type = &zt_prog_value(pieces->whole->prog, zt_prog_nth(pieces->whole->prog, ZT_VALUE_IN, 0))->type;
    zt_nn_shape shape = {.rank = input_type->rank};
    memcpy(shape.dim, input_type->dim, sizeof shape.dim);
    zt_prog *program = zt_cli_network(pieces->cli, model, &(zt_nn_options){.input = &shape, .cache = true});
    zt_binding sample[] = {{"n", pieces->rows_per_step}, {"ctx", pieces->row_count}};
    int symbol_count = program ? zt_prog_n_symbols(program) : 0;
    zt_pass_opts pass_options = {.sample = sample, .n_sample = symbol_count, .engine = engine};
    pieces->program = program ? zt_prog_passes(ctx, program, &pass_options, NULL) : NULL;
    zt_session_opts session_options = {.strict = pieces->cli->strict, .fixed = &sample[1], .n_fixed = symbol_count > 1};
    if (pieces->program) pieces->session = zt_session_open(engine, pieces->program, &pieces->whole->store, &session_options);
    zt_prog_free(program);
    return pieces->session ? ZT_OK : zt_ctx_status(ctx);
}

static int input_named(const zt_prog *program, const char *name)
{
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_IN); i++)
        if (!strcmp(zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_IN, i))->name, name)) return i;
    return -1;
}

static zt_status find_inputs(rows_run *pieces)
{
    int input_count = zt_prog_count(pieces->program, ZT_VALUE_IN);
    pieces->positions = zt_alloc_array(pieces->cli->ctx, (size_t)pieces->row_count + 1, sizeof *pieces->positions);
    pieces->inputs = zt_calloc(pieces->cli->ctx, (size_t)input_count + 1, sizeof *pieces->inputs);
    pieces->input_row_bytes = zt_calloc(pieces->cli->ctx, (size_t)input_count + 1, sizeof *pieces->input_row_bytes);
    if (!pieces->positions || !pieces->inputs || !pieces->input_row_bytes) return ZT_ENOMEM;
    for (int64_t i = 0; i < pieces->row_count; i++) pieces->positions[i] = (int32_t)i;
    for (int i = 0; i < input_count; i++) {
        const char *name = zt_prog_value(pieces->program, zt_prog_nth(pieces->program, ZT_VALUE_IN, i))->name;
        int input_index = input_named(pieces->whole->prog, name);
        const zt_type *type =
            input_index < 0 ? NULL : &pieces->whole->bound->type[zt_prog_nth(pieces->whole->prog, ZT_VALUE_IN, input_index)];
        pieces->inputs[i] = type ? pieces->whole->in[input_index] : pieces->positions;
        pieces->input_row_bytes[i] = !type              ? sizeof *pieces->positions
                                     : input_index == 0 ? row_bytes(type, pieces->row_count)
                                                        : 0;
        if (type && type->rank == 0 && !strcmp(name, "counter")) {
            memcpy(&pieces->counter, pieces->inputs[i], sizeof pieces->counter);
            pieces->inputs[i] = &pieces->counter;
        }
    }
    return ZT_OK;
}

static zt_status run_piece(rows_run *pieces, int64_t first_row, int64_t count)
{
    const zt_type *output_type = &pieces->whole->bound->type[zt_prog_output(pieces->whole->prog, 0)->value];
    const void *inputs[ZT_MAX_IN] = {0};
    void *output = (char *)pieces->whole->out[0] + (size_t)first_row * row_bytes(output_type, pieces->row_count);
    for (int i = 0; i < zt_prog_count(pieces->program, ZT_VALUE_IN) && i < ZT_MAX_IN; i++)
        inputs[i] = (const char *)pieces->inputs[i] + (size_t)first_row * pieces->input_row_bytes[i];
    zt_status status = zt_session_step(pieces->session, &(zt_binding){"n", count}, 1, inputs, &output);
    pieces->counter++;
    return status;
}

zt_status run_rows(zt_cli *cli, const run_options *options, const zt_bound_inputs *feed)
{
    rows_run pieces = {.cli = cli, .whole = feed, .rows_per_step = options->chunk};
    zt_status status = check_rows(&pieces);
    if (status || pieces.row_count == 0) return status;
    zt_engine *engine = zt_cli_engine(cli);
    status = engine ? lower_network(&pieces, options->model, engine) : zt_ctx_status(cli->ctx);
    if (!status) status = find_inputs(&pieces);
    for (int64_t row = 0; row < pieces.row_count && !status; row += pieces.rows_per_step)
        status = run_piece(&pieces, row,
                           pieces.row_count - row < pieces.rows_per_step ? pieces.row_count - row : pieces.rows_per_step);
    zt_free(cli->ctx, pieces.positions);
    zt_free(cli->ctx, pieces.inputs);
    zt_free(cli->ctx, pieces.input_row_bytes);
    zt_session_close(pieces.session);
    zt_prog_free(pieces.program);
    zt_engine_close(engine);
    return status;
}
