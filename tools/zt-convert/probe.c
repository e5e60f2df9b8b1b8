/* probe.c - what layers a file's tensors may be, and networks made of them; S3's telemetry. */
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char order_word[] = "order=";

static bool is_order(const char *hint)
{
    return !strncmp(hint, order_word, sizeof order_word - 1);
}

/* --hint order=LIST: what stands behind the sign; NULL: it is not given. */
static const char *order_of(const job *j)
{
    for (int i = 0; i < j->o->hint.n; i++)
        if (is_order(j->o->hint.item[i])) return j->o->hint.item[i] + sizeof order_word - 1;
    return NULL;
}

/* --hint INDEX=TYPE; *n of them. */
static zt_status read_hints(job *j, zt_nn_hint *hint, int *n)
{
    char number[24], text[64];
    int orders = 0;
    *n = 0;
    for (int i = 0; i < j->o->hint.n; i++) {
        const char *at = j->o->hint.item[i], *eq = strchr(at, '=');
        if (is_order(at)) {
            if (orders++) return zt_fail(j->ctx, ZT_EUSAGE, "option '--hint': two orders");
            continue;
        }
        snprintf(number, sizeof number, "%.*s", eq && eq - at < 20 ? (int)(eq - at) : 0, at);
        zt_nn_hint *h = &hint[(*n)++];
        if (!eq || !zt_parse_i64(number, &h->index) || h->index < 0 ||
            !zt_nn_kind_parse(eq + 1, &h->kind))
            return zt_fail(j->ctx, ZT_EUSAGE,
                           "option '--hint': '%s' is not INDEX=TYPE, as 3=Dense, nor order=LIST",
                           zt_escape(text, sizeof text, at, strlen(at)));
    }
    return ZT_OK;
}

static zt_nn_probe *probe_of(job *j, zt_checkpoint *c)
{
    int n;
    zt_nn_hint *hint = zt_calloc(j->ctx, (size_t)j->o->hint.n + 1, sizeof *hint);
    zt_nn_probe *p = hint && read_hints(j, hint, &n) == ZT_OK
                         ? zt_nn_probe_of(j->ctx, c, hint, n)
                         : NULL;
    zt_free(j->ctx, hint);
    return p;
}

/* A row a tensor; what is no layer's has no layer. */
static zt_status put_tensor(zt_table *t, const zt_nn_probe *p, const zt_nn_archetype *a,
                            int64_t layer, const char *role, int64_t tensor)
{
    char number[24], index[24], shape[ZT_TYPE_TEXT], mean[32], variance[32];
    const zt_nn_geometry *g = zt_nn_probe_tensor(p, tensor);
    snprintf(number, sizeof number, a ? "%" PRId64 : "-", layer);
    snprintf(index, sizeof index, "%" PRId64, tensor);
    snprintf(mean, sizeof mean, "%.6g", (double)g->mean_abs);
    snprintf(variance, sizeof variance, "%.6g", (double)g->variance);
    return zt_table_row(t, (const char *[]){number, a ? zt_nn_kind_name(a->kind) : "-",
                                            a ? a->type : "unmatched", role, index, g->name,
                                            shape_text(&g->type, shape), mean, variance});
}

static zt_status put_probe(job *j, const zt_nn_probe *p)
{
    static const char *const columns[] = {"#layer", "type",  "archetype", "role",     "#index",
                                          "name",   "shape", "#mean_abs", "#variance"};
    zt_table *t = zt_table_new(j->cli, "convert.probe", columns, 9);
    zt_status s = t ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < zt_nn_probe_count(p) && !s; i++) {
        const zt_nn_archetype *a = zt_nn_probe_at(p, i);
        for (int64_t k = 0; k < a->role_count && !s; k++)
            s = put_tensor(t, p, a, i, a->roles[k].name, a->roles[k].tensor);
    }
    for (int64_t i = 0; i < zt_nn_probe_tensors(p) && !s; i++)
        if (!zt_nn_probe_matched(p, i)) s = put_tensor(t, p, NULL, 0, "-", i);
    if (!s) s = zt_table_print(t);
    zt_table_free(t);
    return s;
}

zt_status job_probe(job *j)
{
    if (order_of(j))
        return zt_fail(j->ctx, ZT_EUSAGE, "--hint order=... goes with a conversion to a network, not "
                                          "with --probe");
    zt_checkpoint *c = job_open_one(j, j->path[0], 0);
    zt_nn_probe *p = c ? probe_of(j, c) : NULL;
    zt_status s = p ? put_probe(j, p) : zt_ctx_status(j->ctx);
    zt_nn_probe_free(p);
    zt_checkpoint_close(c);
    return s;
}

/* ---- networks -------------------------------------------------------------------------------- */

static bool is_network(const zt_checkpoint *c)
{
    return zt_checkpoint_container(c) == zt_container_named("json");
}

static bool is_regular(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* What a config.json beside the file tells. */
static zt_status read_told(job *j, zt_nn_overrides *told)
{
    const char *slash = strrchr(j->path[0], '/');
    zt_str path;
    zt_str_init(&path, j->ctx);
    zt_str_printf(&path, "%.*sconfig.json", slash ? (int)(slash - j->path[0]) + 1 : 0, j->path[0]);
    zt_status s = zt_ctx_status(j->ctx);
    if (!s && is_regular(path.data)) s = zt_nn_overrides_read(j->ctx, path.data, told);
    zt_str_fini(&path);
    return s;
}

/* Tensors of no layer of the network. */
static int64_t count_left(const zt_nn_probe *p, const zt_nn_layout *order)
{
    int64_t left = zt_nn_probe_left(p);
    for (int64_t i = 0; order && i < zt_nn_probe_count(p); i++) {
        const zt_nn_archetype *a = zt_nn_probe_at(p, i);
        if (zt_nn_mounts(p, a) && !zt_nn_layout_has(order, i)) left += a->role_count - zt_nn_layer_left(a);
    }
    return left;
}

/* Where names tell no model, what one layer gives must be what the next takes. */
static zt_status check_chain(job *j, const zt_nn_probe *p, const zt_nn_layout *order)
{
    zt_nn_layout *found = order ? NULL : zt_nn_layout_found(j->ctx, p);
    zt_status s = zt_nn_layout_check(j->ctx, p, order ? order : found, j->path[0]);
    zt_nn_layout_free(j->ctx, found);
    return s ? s : zt_ctx_status(j->ctx);
}

static zt_nn *mount(job *j, const zt_nn_probe *p, zt_checkpoint *c, bool chained)
{
    zt_nn_overrides told = {0};
    const char *text = order_of(j);
    zt_nn_layout *order = text ? zt_nn_layout_parse(j->ctx, p, text) : NULL;
    zt_status s = zt_ctx_status(j->ctx);
    if (!s) s = read_told(j, &told);
    if (!s && chained) s = check_chain(j, p, order);
    int64_t left = count_left(p, order);
    zt_nn *nn = s ? NULL : zt_nn_mount_as(j->ctx, p, c, &told, order);
    if (nn && left)
        zt_cli_note(j->cli,
                    "%" PRId64 " tensor%s not in the network, no layer has a place for %s: see --probe",
                    left, left == 1 ? " is" : "s are", left == 1 ? "it" : "them");
    zt_nn_layout_free(j->ctx, order);
    return nn;
}

/* The network that a file is, or what its tensors make. */
static zt_nn *open_network(job *j, bool chained)
{
    zt_checkpoint *c = job_open_one(j, j->path[0], 0);
    zt_nn *nn = NULL;
    if (c && is_network(c) && j->o->hint.n)
        zt_fail(j->ctx, ZT_EUSAGE, "%s: is a network: --hint is for tensors that are none",
                j->path[0]);
    else if (c && is_network(c))
        nn = zt_nn_open(j->ctx, j->path[0], 0);
    zt_nn_probe *p = c && !is_network(c) ? probe_of(j, c) : NULL;
    if (p) nn = mount(j, p, c, chained);
    zt_nn_probe_free(p);
    zt_checkpoint_close(c);
    return nn;
}

zt_status job_blueprint(job *j)
{
    zt_nn *nn = open_network(j, false);
    const char *slash = strrchr(j->path[0], '/');
    zt_str out;
    zt_str_init(&out, j->ctx);
    zt_status s = nn ? zt_nn_blueprint(nn, slash ? slash + 1 : j->path[0], &out)
                     : zt_ctx_status(j->ctx);
    if (!s) s = zt_cli_write(j->cli, out.data, out.len);
    zt_str_fini(&out);
    zt_nn_close(nn);
    return s;
}

/* Safetensors that never were a network, to a network's JSON. */
bool job_mounts(job *j)
{
    const zt_container *to =
        j->o->to ? zt_container_named(j->o->to) : j->out ? zt_container_for(j->out) : NULL;
    if (j->n_in != 1 || !to || to != zt_container_named("json") || !is_regular(j->path[0]))
        return false;
    zt_checkpoint *c = zt_checkpoint_open(j->ctx, j->path[0], 0);
    bool is = c && zt_checkpoint_container(c) == zt_container_named("safetensors") &&
              zt_meta_find(zt_checkpoint_meta(c), "zt.netjson") < 0;
    zt_checkpoint_close(c);
    return is;
}

zt_status job_mount(job *j)
{
    zt_status s = zt_cli_refuse_same(j->cli, j->path[0], j->out);
    zt_nn *nn = s ? NULL : open_network(j, true);
    zt_sink *out = nn ? zt_sink_open(j->ctx, j->out, j->cli->force) : NULL;
    if (!s) s = out ? zt_nn_write(nn, out) : zt_ctx_status(j->ctx);
    if (!s) s = zt_sink_commit(out);
    zt_sink_close(out);
    zt_nn_close(nn);
    return s;
}
