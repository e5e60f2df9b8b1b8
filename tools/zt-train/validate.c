/* validate.c - the loss of samples that are not trained on, and how many of their classes are found. */
#include "tools/zt-train/train_tool.h"

#include <string.h>

typedef struct validation {
    const train_learner *learner;
    const zt_samples *samples;
    train_output output; /* whose classes are counted */
    float *room;         /* a batch of the output; NULL: targets are no classes */
    double loss, rows;   /* sums */
    int64_t right, all;
} validation;

static int find_loss(const zt_prog *program)
{
    int output = 0;
    while (strcmp(zt_prog_output(program, output)->name, "loss")) output++;
    return output;
}

/* Room for the output, if the target is a class for each of its positions. */
static zt_status prepare_classes(validation *work)
{
    zt_ctx *ctx = work->learner->cli->ctx;
    const zt_field *target = &work->samples->fields[work->samples->field_count - 1];
    if (target->row.dtype != ZT_I32 || work->learner->own_loss) return ZT_OK;
    zt_status status = train_find_output(work->learner, work->samples->batch_size, &work->output);
    if (status || work->output.classes < 2 || zt_type_count(&target->row) != work->output.positions) return status;
    work->room = zt_alloc_array(ctx, (size_t)work->samples->batch_size, (size_t)work->output.count * sizeof *work->room);
    return work->room ? ZT_OK : ZT_ENOMEM;
}

/* Samples of a validation are in the order of the data. */
static void count_classes(validation *work, int64_t first, int64_t rows)
{
    const zt_field *target = &work->samples->fields[work->samples->field_count - 1];
    for (int64_t i = 0; i < rows * work->output.positions; i++) {
        int32_t expected;
        memcpy(&expected, target->data.data + (size_t)(first * work->output.positions + i) * sizeof expected, sizeof expected);
        work->right += zt_prediction(work->room + i * work->output.classes, work->output.classes) == (double)expected;
        work->all++;
    }
}

/* Means over batches, weighted by their rows. */
static zt_status run_batches(validation *work, zt_session *session, const zt_batches *batches)
{
    const void *inputs[ZT_FIT_INPUTS];
    zt_binding bind[ZT_MAX_SYMBOLS];
    zt_ctx *ctx = work->learner->cli->ctx;
    float loss = 0;
    int64_t first = 0;
    void **out = zt_calloc(ctx, (size_t)zt_prog_n_outputs(work->learner->forward), sizeof *out);
    zt_status status = out ? ZT_OK : ZT_ENOMEM;
    if (out) out[find_loss(work->learner->forward)] = &loss;
    if (out && work->room) out[work->output.output] = work->room;
    for (int64_t i = 0; i < batches->per_epoch && !status; i++) {
        int binding_count;
        int64_t rows;
        status = batches->get(batches->user, 0, i, inputs, bind, &binding_count, &rows);
        if (!status) status = zt_session_step(session, bind, binding_count, inputs, out);
        if (!status && work->room) count_classes(work, first, rows);
        work->loss += (double)loss * (double)rows;
        work->rows += (double)rows;
        first += rows;
    }
    zt_free(ctx, out);
    return status;
}

zt_status train_validate(train_learner *learner, zt_engine *engine, zt_samples *samples, int64_t batch, double *loss,
                         double *accuracy)
{
    validation work = {.learner = learner, .samples = samples};
    zt_batches batches;
    zt_store store = learner->network ? learner->below : train_learner_store(learner);
    zt_status status = zt_samples_batches(samples, &(zt_shuffle){.batch = batch}, &batches);
    if (!status) status = prepare_classes(&work);
    zt_session *session =
        status ? NULL : zt_session_open(engine, learner->forward, &store, &(zt_session_opts){.strict = learner->cli->strict});
    if (!status) status = session ? run_batches(&work, session, &batches) : zt_ctx_status(learner->cli->ctx);
    zt_session_close(session);
    zt_free(learner->cli->ctx, work.room);
    *loss = work.rows > 0 ? work.loss / work.rows : NAN;
    *accuracy = work.all ? 100 * (double)work.right / (double)work.all : NAN;
    return status;
}
