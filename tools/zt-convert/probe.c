/* probe.c - what layers a file's tensors may be, and networks made of them; S3's telemetry. */
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char order_word[] = "order=";

static bool is_order(const char *hint) { return !strncmp(hint, order_word, sizeof order_word - 1); }

/* --hint order=LIST: what stands behind the sign; NULL: it is not given. */
static const char *find_order(const convert_job *job)
{
    for (int i = 0; i < job->options->hint.n; i++)
        if (is_order(job->options->hint.item[i])) return job->options->hint.item[i] + sizeof order_word - 1;
    return NULL;
}

/* --hint INDEX=TYPE; *count of them. */
static zt_status read_hints(convert_job *job, zt_nn_hint *hints, int *count)
{
    char number[24], text[64];
    int orders = 0;
    *count = 0;
    for (int i = 0; i < job->options->hint.n; i++) {
        const char *rule = job->options->hint.item[i], *equals = strchr(rule, '=');
        if (is_order(rule)) {
            if (orders++) return zt_fail(job->ctx, ZT_EUSAGE, "option '--hint': order is given twice");
            continue;
        }
        snprintf(number, sizeof number, "%.*s", equals && equals - rule < 20 ? (int)(equals - rule) : 0, rule);
        zt_nn_hint *hint = &hints[(*count)++];
        if (!equals || !zt_parse_i64(number, &hint->index) || hint->index < 0 || !zt_nn_kind_parse(equals + 1, &hint->kind))
            return zt_fail(job->ctx, ZT_EUSAGE, "option '--hint': '%s' is neither INDEX=TYPE, such as 3=Dense, nor order=LIST",
                           zt_escape(text, sizeof text, rule, strlen(rule)));
    }
    return ZT_OK;
}

static zt_nn_probe *run_probe(convert_job *job, zt_checkpoint *checkpoint)
{
    int count;
    zt_nn_hint *hints = zt_calloc(job->ctx, (size_t)job->options->hint.n + 1, sizeof *hints);
    zt_nn_probe *probe =
        hints && read_hints(job, hints, &count) == ZT_OK ? zt_nn_probe_of(job->ctx, checkpoint, hints, count) : NULL;
    zt_free(job->ctx, hints);
    return probe;
}

/* A row a tensor; what is no layer's has no layer. */
static zt_status put_tensor(zt_table *table, const zt_nn_probe *probe, const zt_nn_archetype *archetype, int64_t layer,
                            const char *role, int64_t tensor)
{
    char number[24], index[24], shape[ZT_TYPE_TEXT], mean[32], variance[32];
    const zt_nn_geometry *geometry = zt_nn_probe_tensor(probe, tensor);
    snprintf(number, sizeof number, archetype ? "%" PRId64 : "-", layer);
    snprintf(index, sizeof index, "%" PRId64, tensor);
    snprintf(mean, sizeof mean, "%.6g", (double)geometry->mean_abs);
    snprintf(variance, sizeof variance, "%.6g", (double)geometry->variance);
    return zt_table_row(table, (const char *[]){number, archetype ? zt_nn_kind_name(archetype->kind) : "-",
                                                archetype ? archetype->type : "unmatched", role, index, geometry->name,
                                                shape_text(&geometry->type, shape), mean, variance});
}

static zt_status put_probe(convert_job *job, const zt_nn_probe *probe)
{
    static const char *const columns[] = {"#layer", "type",  "archetype", "role",     "#index",
                                          "name",   "shape", "#mean_abs", "#variance"};
    zt_table *table = zt_table_new(job->cli, "convert.probe", columns, 9);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < zt_nn_probe_count(probe) && !status; i++) {
        const zt_nn_archetype *archetype = zt_nn_probe_at(probe, i);
        for (int64_t k = 0; k < archetype->role_count && !status; k++)
            status = put_tensor(table, probe, archetype, i, archetype->roles[k].name, archetype->roles[k].tensor);
    }
    for (int64_t i = 0; i < zt_nn_probe_tensors(probe) && !status; i++)
        if (!zt_nn_probe_matched(probe, i)) status = put_tensor(table, probe, NULL, 0, "-", i);
    if (!status) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}

zt_status job_probe(convert_job *job)
{
    if (find_order(job))
        return zt_fail(job->ctx, ZT_EUSAGE, "--hint order=... applies only to a conversion to a network, not to --probe");
    zt_checkpoint *checkpoint = job_open_one(job, job->paths[0], 0);
    zt_nn_probe *probe = checkpoint ? run_probe(job, checkpoint) : NULL;
    zt_status status = probe ? put_probe(job, probe) : zt_ctx_status(job->ctx);
    zt_nn_probe_free(probe);
    zt_checkpoint_close(checkpoint);
    return status;
}

/* ---- networks -------------------------------------------------------------------------------- */

static bool is_network(const zt_checkpoint *checkpoint)
{
    return zt_checkpoint_container(checkpoint) == zt_container_named("json");
}

static bool is_regular(const char *path)
{
    struct stat info;
    return strcmp(path, "-") != 0 && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* What a config.json beside the file tells. */
static zt_status read_overrides(convert_job *job, zt_nn_overrides *overrides)
{
    const char *slash = strrchr(job->paths[0], '/');
    zt_str path;
    zt_str_init(&path, job->ctx);
    zt_str_printf(&path, "%.*sconfig.json", slash ? (int)(slash - job->paths[0]) + 1 : 0, job->paths[0]);
    zt_status status = zt_ctx_status(job->ctx);
    if (!status && is_regular(path.data)) status = zt_nn_overrides_read(job->ctx, path.data, overrides);
    zt_str_fini(&path);
    return status;
}

/* Tensors of no layer of the network. */
static int64_t count_left(const zt_nn_probe *probe, const zt_nn_layout *order)
{
    int64_t left = zt_nn_probe_left(probe);
    for (int64_t i = 0; order && i < zt_nn_probe_count(probe); i++) {
        const zt_nn_archetype *archetype = zt_nn_probe_at(probe, i);
        if (zt_nn_mounts(probe, archetype) && !zt_nn_layout_has(order, i))
            left += archetype->role_count - zt_nn_layer_left(archetype);
    }
    return left;
}

/* Where names tell no model, what one layer gives must be what the next takes. */
static zt_status check_chain(convert_job *job, const zt_nn_probe *probe, const zt_nn_layout *order)
{
    zt_nn_layout *found = order ? NULL : zt_nn_layout_found(job->ctx, probe);
    zt_status status = zt_nn_layout_check(job->ctx, probe, order ? order : found, job->paths[0]);
    zt_nn_layout_free(job->ctx, found);
    return status ? status : zt_ctx_status(job->ctx);
}

static zt_nn *mount_network(convert_job *job, const zt_nn_probe *probe, zt_checkpoint *checkpoint, bool chained)
{
    zt_nn_overrides overrides = {0};
    const char *text = find_order(job);
    zt_nn_layout *order = text ? zt_nn_layout_parse(job->ctx, probe, text) : NULL;
    zt_status status = zt_ctx_status(job->ctx);
    if (!status) status = read_overrides(job, &overrides);
    if (!status && chained) status = check_chain(job, probe, order);
    int64_t left_count = count_left(probe, order);
    zt_nn *network = status ? NULL : zt_nn_mount_as(job->ctx, probe, checkpoint, &overrides, order);
    if (network && left_count)
        zt_cli_note(job->cli, "%" PRId64 " tensor%s not in the network because no layer uses %s: see --probe", left_count,
                    left_count == 1 ? " is" : "s are", left_count == 1 ? "it" : "them");
    zt_nn_layout_free(job->ctx, order);
    return network;
}

/* The network that a file is, or what its tensors make. */
static zt_nn *open_network(convert_job *job, bool chained)
{
    zt_checkpoint *checkpoint = job_open_one(job, job->paths[0], 0);
    zt_nn *network = NULL;
    if (checkpoint && is_network(checkpoint) && job->options->hint.n)
        zt_fail(job->ctx, ZT_EUSAGE, "%s: is a network: --hint applies only to tensors without layers", job->paths[0]);
    else if (checkpoint && is_network(checkpoint))
        network = zt_nn_open(job->ctx, job->paths[0], 0);
    zt_nn_probe *probe = checkpoint && !is_network(checkpoint) ? run_probe(job, checkpoint) : NULL;
    if (probe) network = mount_network(job, probe, checkpoint, chained);
    zt_nn_probe_free(probe);
    zt_checkpoint_close(checkpoint);
    return network;
}

zt_status job_blueprint(convert_job *job)
{
    zt_nn *network = open_network(job, false);
    const char *slash = strrchr(job->paths[0], '/');
    zt_str out;
    zt_str_init(&out, job->ctx);
    zt_status status = network ? zt_nn_blueprint(network, slash ? slash + 1 : job->paths[0], &out) : zt_ctx_status(job->ctx);
    if (!status) status = zt_cli_write(job->cli, out.data, out.len);
    zt_str_fini(&out);
    zt_nn_close(network);
    return status;
}

/* Safetensors that never were a network, to a network's JSON. */
bool job_mounts(convert_job *job)
{
    const zt_container *container = job->options->to   ? zt_container_named(job->options->to)
                                    : job->output_path ? zt_container_for(job->output_path)
                                                       : NULL;
    if (job->input_count != 1 || !container || container != zt_container_named("json") || !is_regular(job->paths[0]))
        return false;
    zt_checkpoint *checkpoint = zt_checkpoint_open(job->ctx, job->paths[0], 0);
    bool mounts = checkpoint && zt_checkpoint_container(checkpoint) == zt_container_named("safetensors") &&
                  zt_meta_find(zt_checkpoint_meta(checkpoint), "zt.netjson") < 0;
    mounts = mounts || (checkpoint && is_network(checkpoint) && job->options->external);
    zt_checkpoint_close(checkpoint);
    return mounts;
}

/* "net.safetensors" of "net.json", which --external-data writes. */
static char *name_data(convert_job *job)
{
    const char *path = job->output_path, *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    zt_str name;
    zt_str_init(&name, job->ctx);
    if (!strcmp(path, "-"))
        zt_fail(job->ctx, ZT_EUSAGE, "--external-data writes two files: name the output");
    else
        zt_str_printf(&name, "%.*s.safetensors", dot ? (int)(dot - path) : (int)strlen(path), path);
    if (!zt_ctx_status(job->ctx)) return name.data;
    zt_str_fini(&name);
    return NULL;
}

static zt_status write_network(convert_job *job, const zt_nn *network, zt_sink *out)
{
    if (!job->options->external) return zt_nn_write(network, out);
    char *data = name_data(job);
    zt_status status = data ? zt_cli_refuse_same(job->cli, job->paths[0], data) : zt_ctx_status(job->ctx);
    if (!status) status = zt_nn_write_beside(network, out, data, job->cli->force);
    zt_free(job->ctx, data);
    return status;
}

zt_status job_mount(convert_job *job)
{
    zt_status status = zt_cli_refuse_same(job->cli, job->paths[0], job->output_path);
    zt_nn *network = status ? NULL : open_network(job, true);
    zt_sink *out = network ? zt_sink_open(job->ctx, job->output_path, job->cli->force) : NULL;
    if (!status) status = out ? write_network(job, network, out) : zt_ctx_status(job->ctx);
    if (!status) status = zt_sink_commit(out);
    zt_sink_close(out);
    zt_nn_close(network);
    return status;
}
