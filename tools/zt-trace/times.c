/* times.c - --times: what a run took, as zt-trace record wrote it: a line an object, of which
 *
 *     {"step":12,"seconds":1.5e-05,"engine":"cpu","track":0,"begin":0.25,"end":0.250015}
 *
 * step and seconds are needed; begin, end and track where there are slices; engine where it is not
 * that of --engine. Other members are passed over. A step that comes
 * several times was replayed as often: its mean counts.
 */
#include "tools/zt-trace/profile.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

typedef struct reading {
    trace_look *l;
    const char *path;
    int line;
    int64_t *times; /* [steps] that it came */
    size_t cap;     /* of slices */
} reading;

static zt_status bad(const reading *r, const char *what)
{
    char shown[256];
    return zt_fail(r->l->cli->ctx, ZT_EDATA, "%s:%d: %s",
                   zt_escape(shown, sizeof shown, r->path, strlen(r->path)), r->line, what);
}

/* A number of seconds that there can be; -1: it is not there, or none. */
static double seconds_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    double x = json_is_number(v) ? json_number_value(v) : -1;
    return isfinite(x) && x >= 0 && x < 1e12 ? x : -1;
}

/* Of a line that names none: the engine that --engine names, or the one that auto is. */
static const char *engine_of(const reading *r, const json_t *o)
{
    const char *name = json_string_value(json_object_get(o, "engine"));
    if (!name) name = strcmp(r->l->cli->engine, "auto") ? r->l->cli->engine : "cpu";
    for (int i = 0; name && zt_engine_list(i); i++)
        if (!strcmp(zt_engine_list(i), name)) return zt_engine_list(i);
    return "";
}

static zt_status add_slice(reading *r, const json_t *o, int step)
{
    trace_look *l = r->l;
    double begin = seconds_of(o, "begin"), end = seconds_of(o, "end");
    json_int_t track = json_integer_value(json_object_get(o, "track"));
    if (begin < 0 || end < begin || track < 0 || track > 4095) return ZT_OK;
    if (l->n_slices == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 256;
        trace_slice *more = zt_realloc(l->cli->ctx, l->slice, cap * sizeof *more);
        if (!more) return ZT_ENOMEM;
        l->slice = more;
        r->cap = cap;
    }
    l->slice[l->n_slices++] = (trace_slice){step, (int)track, begin, end};
    return ZT_OK;
}

static zt_status read_object(reading *r, const json_t *o)
{
    const json_t *step = json_object_get(o, "step");
    double seconds = seconds_of(o, "seconds");
    int n = zt_prog_n_steps(r->l->p);
    if (!json_is_object(o) || !json_is_integer(step) || seconds < 0)
        return bad(r, "not an object with \"step\" and \"seconds\"");
    json_int_t s = json_integer_value(step);
    if (s < 0 || s >= n) return bad(r, "a step that the program does not have");
    r->l->seconds[s] += seconds;
    r->l->ran_on[s] = engine_of(r, o);
    r->times[s]++;
    return add_slice(r, o, (int)s);
}

static zt_status read_line(reading *r, const char *line, size_t n)
{
    json_error_t e;
    json_t *o = json_loadb(line, n, JSON_REJECT_DUPLICATES, &e);
    zt_status status = o ? read_object(r, o) : bad(r, "not JSON");
    json_decref(o);
    return status;
}

zt_status trace_times_read(trace_look *l, const char *path)
{
    size_t n, steps = (size_t)zt_prog_n_steps(l->p);
    reading r = {.l = l, .path = path, .times = zt_calloc(l->cli->ctx, steps + 1, sizeof(int64_t))};
    char *text = r.times ? zt_read_all(l->cli->ctx, path, &n) : NULL;
    zt_status status = text ? ZT_OK : zt_ctx_status(l->cli->ctx);
    for (size_t at = 0; !status && at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - text) - at : n - at;
        r.line++;
        if (len > 0) status = read_line(&r, text + at, len);
        at += len + 1;
    }
    for (size_t i = 0; i < steps && !status; i++)
        if (r.times[i] > 1) l->seconds[i] /= (double)r.times[i];
    if (!status) trace_sort_slices(l);
    zt_free(l->cli->ctx, text);
    zt_free(l->cli->ctx, r.times);
    return status;
}
