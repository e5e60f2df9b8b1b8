/* cluster.c - zt-train cluster: groups of samples, or of what a layer of a network gives for them. */
#include "tools/zt-train/cluster.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- points ------------------------------------------------------------------------------------ */

static zt_status check_finite(const train_clusters *work)
{
    const zt_points *points = &work->points;
    const char *name = work->learner ? work->options->model : strcmp(work->options->input, "-") ? work->options->input : "stdin";
    for (int64_t i = 0; i < points->count * points->width; i++)
        if (!isfinite(points->values[i]))
            return zt_fail(work->cli->ctx, ZT_EDATA, "%s: number %lld of sample %lld is not finite", name,
                           (long long)(i % points->width), (long long)(i / points->width));
    return ZT_OK;
}

/* The samples themselves. */
static zt_status take_samples(train_clusters *work)
{
    const zt_field *field = &work->data->fields[0];
    work->points = (zt_points){(const float *)(const void *)field->data.data, work->data->rows, zt_type_count(&field->row),
                               (zt_distance)work->options->distance};
    return check_finite(work);
}

/* Is `name` the place of the layer, "z,y,x,l"? */
static bool is_named(const zt_nn_layer *layer, const char *name)
{
    char place[96];
    snprintf(place, sizeof place, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, layer->place[0], layer->place[1],
             layer->place[2], layer->place[3]);
    return !strcmp(place, name);
}

/* The output of --layer, else the first of the program. */
static zt_status find_layer(const train_clusters *work, int *output)
{
    const train_learner *learner = work->learner;
    char shown[96];
    *output = 0;
    if (!work->options->layer) return ZT_OK;
    for (int i = 0; i < learner->observed_count; i++)
        if (is_named(learner->observed[i].layer, work->options->layer)) {
            *output = learner->observed[i].output;
            return ZT_OK;
        }
    return zt_fail(work->cli->ctx, ZT_EUSAGE, "%s: no layer '%s' (z,y,x,l); zt-dna layers lists them", work->options->model,
                   zt_escape(shown, sizeof shown, work->options->layer, strlen(work->options->layer)));
}

/* Numbers that the output has for each of `rows` samples. */
static zt_status count_numbers(const train_clusters *work, int output, int64_t rows, int64_t *count)
{
    const zt_prog *program = work->learner->forward;
    zt_binding binding = {zt_prog_n_symbols(program) ? zt_prog_symbol_name(program, 0) : "n", rows};
    zt_bound *bound = zt_prog_bind(program, &binding, 1);
    if (!bound) return zt_ctx_status(work->cli->ctx);
    zt_type type = bound->type[zt_prog_output(program, output)->value];
    zt_bound_free(bound);
    *count = type.rank > 0 && type.dim[0] == rows && type.dtype == ZT_F32 ? zt_type_count(&type) / rows : 0;
    return *count ? ZT_OK
                  : zt_fail(work->cli->ctx, ZT_EUSAGE, "%s: the output '%s' has no f32 row per sample", work->options->model,
                            zt_prog_output(program, output)->name);
}

static zt_status run_batches(train_clusters *work, zt_session *session, const zt_batches *batches, int output, int64_t width)
{
    const void *inputs[ZT_FIT_INPUTS];
    zt_binding bind[ZT_MAX_SYMBOLS];
    int64_t done = 0;
    zt_ctx *ctx = work->cli->ctx;
    void **out = zt_calloc(ctx, (size_t)zt_prog_n_outputs(work->learner->forward), sizeof *out);
    work->outputs = zt_alloc_array(ctx, (size_t)work->data->rows, (size_t)width * sizeof *work->outputs);
    zt_status status = out && work->outputs ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < batches->per_epoch && !status; i++) {
        int bind_count;
        int64_t rows;
        status = batches->get(batches->user, 0, i, inputs, bind, &bind_count, &rows);
        out[output] = work->outputs + done * width;
        if (!status) status = zt_session_step(session, bind, bind_count, inputs, out);
        done += rows;
    }
    zt_free(ctx, out);
    return status;
}

/* What the network gives for the samples. */
static zt_status take_outputs(train_clusters *work)
{
    int output;
    int64_t width = 0;
    zt_batches batches;
    zt_ctx *ctx = work->cli->ctx;
    zt_store store = train_learner_store(work->learner);
    zt_status status = find_layer(work, &output);
    if (!status) status = count_numbers(work, output, work->options->batch, &width);
    if (!status) status = zt_samples_batches(work->data, &(zt_shuffle){.batch = work->options->batch}, &batches);
    zt_engine *engine = status ? NULL : zt_cli_engine(work->cli);
    zt_session *session =
        engine ? zt_session_open(engine, work->learner->forward, &store, &(zt_session_opts){.strict = work->cli->strict}) : NULL;
    if (!status) status = session ? run_batches(work, session, &batches, output, width) : zt_ctx_status(ctx);
    zt_session_close(session);
    zt_engine_close(engine);
    work->points = (zt_points){work->outputs, work->data->rows, width, (zt_distance)work->options->distance};
    return status ? status : check_finite(work);
}

/* Classes of the samples, numbered by their first samples. */
static zt_status take_classes(train_clusters *work)
{
    if (!work->options->labels) return ZT_OK;
    const zt_field *field = &work->data->fields[work->data->field_count - 1];
    const float *values = (const float *)(const void *)field->data.data;
    size_t count = (size_t)work->data->rows;
    work->classes = zt_alloc_array(work->cli->ctx, count, sizeof *work->classes);
    work->class_values = zt_alloc_array(work->cli->ctx, count, sizeof *work->class_values);
    if (!work->classes || !work->class_values) return ZT_ENOMEM;
    for (int64_t i = 0; i < work->data->rows; i++) {
        int64_t class = 0;
        while (class < work->class_count && work->class_values[class] != values[i]) class ++;
        if (class == work->class_count) work->class_values[work->class_count++] = values[i];
        work->classes[i] = class;
    }
    return ZT_OK;
}

/* ---- clusters ---------------------------------------------------------------------------------- */

static zt_status run_kmeans(train_clusters *work)
{
    const train_options *options = work->options;
    zt_kmeans_opts opts = {.clusters = options->clusters,
                           .random_start = options->start == TRAIN_START_RANDOM,
                           .restarts = options->restarts,
                           .seed = work->cli->seed};
    zt_status status = zt_kmeans_run(work->cli->ctx, work->pool, &work->points, &opts, &work->kmeans);
    work->label = work->kmeans.label;
    work->cluster_count = options->clusters;
    if (!status && !work->kmeans.converged) zt_cli_note(work->cli, "warning: k-means did not converge");
    return status;
}

static zt_status run_linkage(train_clusters *work)
{
    const train_options *options = work->options;
    size_t count = (size_t)work->points.count;
    work->steps = zt_alloc_array(work->cli->ctx, count, sizeof *work->steps);
    work->cut = zt_alloc_array(work->cli->ctx, count, sizeof *work->cut);
    if (!work->steps || !work->cut) return ZT_ENOMEM;
    zt_status status = zt_linkage_find(work->cli->ctx, work->pool, &work->points, (zt_linkage)options->linkage, work->steps);
    if (status) return status;
    work->cluster_count =
        zt_linkage_cut(work->cli->ctx, work->steps, work->points.count, options->threshold, options->clusters, work->cut);
    work->label = work->cut;
    return work->cluster_count < 0 ? zt_ctx_status(work->cli->ctx) : ZT_OK;
}

/* Points for --silhouette, all or drawn at random, in rising order: scored[i] is one of them. */
static zt_status score_points(train_clusters *work)
{
    int64_t count = work->points.count, most = work->options->silhouette, chosen_count = 0;
    zt_ctx *ctx = work->cli->ctx;
    int64_t *chosen = zt_alloc_array(ctx, (size_t)count, sizeof *chosen);
    double *scores = zt_alloc_array(ctx, (size_t)count, sizeof *scores);
    work->silhouette = zt_alloc_array(ctx, (size_t)count, sizeof *work->silhouette);
    zt_status status = chosen && scores && work->silhouette ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < count && !status; i++) {
        int64_t wanted = most - chosen_count, left = count - i;
        if (wanted >= left || zt_uniform(work->cli->seed, UINT64_MAX, (uint64_t)i) * (double)left < (double)wanted)
            chosen[chosen_count++] = i;
        work->silhouette[i] = NAN;
    }
    if (!status)
        status = zt_silhouettes(ctx, work->pool, &work->points, work->label, work->cluster_count, chosen, chosen_count, scores);
    for (int64_t i = 0; i < chosen_count && !status; i++) work->silhouette[chosen[i]] = scores[i];
    if (!status && chosen_count && chosen_count < count)
        zt_cli_note(work->cli, "silhouettes of %lld of %lld samples, drawn at random", (long long)chosen_count, (long long)count);
    zt_free(ctx, chosen);
    zt_free(ctx, scores);
    return status;
}

/* ---- all --------------------------------------------------------------------------------------- */

static zt_status check_cluster_options(zt_cli *cli, const train_options *options)
{
    if (options->linkage < 0 && !options->clusters)
        return zt_fail(cli->ctx, ZT_EUSAGE, "cluster needs --clusters, or --linkage with --threshold");
    if (options->linkage >= 0 && !options->clusters && isnan(options->threshold))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--linkage needs --clusters or --threshold");
    if (options->linkage == ZT_WARD && options->distance != ZT_EUCLIDEAN)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--linkage ward needs --distance euclidean");
    if (options->show == TRAIN_SHOW_STEPS && options->linkage < 0)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--show steps needs --linkage");
    if (!options->model)
        return zt_cli_refuse_given(cli, "engine|strict-engine|isa|compute|tile|batch", "samples without a network");
    return ZT_OK;
}

static zt_status check_count(const train_clusters *work)
{
    if (work->options->clusters <= work->data->rows) return ZT_OK;
    return zt_fail(work->cli->ctx, ZT_EDATA, "%s: has %lld samples, too few for %lld clusters", work->options->input,
                   (long long)work->data->rows, (long long)work->options->clusters);
}

static zt_status open_points(train_clusters *work)
{
    const train_options *options = work->options;
    if (options->model) {
        work->learner = train_learner_open(work->cli, options);
        if (work->learner) work->data = train_data_open(work->learner, options, options->input, options->target);
    } else {
        work->data = train_data_rows(work->cli, options, &work->program);
    }
    if (!work->data) return zt_ctx_status(work->cli->ctx);
    zt_status status = check_count(work);
    if (!status) status = work->learner ? take_outputs(work) : take_samples(work);
    return status ? status : take_classes(work);
}

static void close_clusters(train_clusters *work)
{
    zt_ctx *ctx = work->cli->ctx;
    zt_kmeans_free(ctx, &work->kmeans);
    zt_free(ctx, work->steps);
    zt_free(ctx, work->cut);
    zt_free(ctx, work->silhouette);
    zt_free(ctx, work->classes);
    zt_free(ctx, work->class_values);
    zt_free(ctx, work->outputs);
    zt_samples_free(work->data);
    zt_prog_free(work->program);
    train_learner_close(work->learner);
    zt_pool_free(work->pool);
}

zt_status train_cluster(zt_cli *cli, const train_options *options)
{
    train_options forward = *options;
    forward.forward_only = true;
    train_clusters work = {.cli = cli, .options = &forward};
    zt_status status = check_cluster_options(cli, options);
    if (!status) status = open_points(&work);
    if (!status)
        status = (work.pool = zt_pool_new(cli->ctx, cli->threads ? (int)cli->threads : zt_cpu_count())) ? ZT_OK
                                                                                                        : zt_ctx_status(cli->ctx);
    if (!status) status = options->linkage < 0 ? run_kmeans(&work) : run_linkage(&work);
    if (!status) status = score_points(&work);
    if (!status) status = train_cluster_print(&work);
    if (!status && options->plot) status = train_cluster_plot(&work);
    close_clusters(&work);
    return status;
}
