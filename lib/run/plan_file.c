/* plan_file.c - owns the text of plans: `#plan` lines written beside a program's, read and checked.
 *
 * What can be known without an engine is checked here: words, numbers, names of the program's
 * values, symbols and outputs, passes. Whether the places are right, plan_check.c finds when a session
 * is opened.
 */
#include "lib/run/plan_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/run/schedule.h"

enum { MAX_STATED = 256, MAX_WORDS = 8, MAX_LINE = 4096 };

struct zt_plan_file {
    zt_ctx *ctx;
    zt_arena *memory;
    zt_prog *prog;
    char engine[32];
    zt_isa isa;
    unsigned off;
    int n_stated, n_splits, n_at;
    zt_plan_layout *stated;
    zt_plan_layout_part *split;
    zt_plan_layout_place *at;
};

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct writer {
    const zt_prog *p;
    const zt_plan_file_opts *o;
    zt_chain chain;
    zt_bound *bound;
    zt_str *out;
} writer;

static zt_status put_head(const writer *w)
{
    zt_status status = zt_str_printf(w->out, "#plan engine %s isa=%s\n#plan passes",
                                zt_engine_inmost(w->o->engine)->vt->name, zt_isa_name(w->o->isa));
    for (int i = 0; zt_pass_at(i) && !status; i++)
        if (!(w->o->off >> i & 1)) status = zt_str_printf(w->out, " %s", zt_pass_at(i)->name);
    return status ? status : zt_str_putc(w->out, '\n');
}

static zt_status put_bind(const writer *w, const bool *want)
{
    zt_status status = zt_str_puts(w->out, "#plan bind");
    for (int i = 0; i < w->o->n_bind && !status; i++)
        status = zt_str_printf(w->out, " %s=%" PRId64, w->o->bind[i].symbol, w->o->bind[i].value);
    if (!status) status = zt_str_puts(w->out, " out=");
    bool first = true;
    for (int o = 0; o < zt_prog_n_outputs(w->p) && !status; o++) {
        if (!want[o]) continue;
        status = zt_str_printf(w->out, "%s%s", first ? "" : ",", zt_prog_output(w->p, o)->name);
        first = false;
    }
    return status ? status : zt_str_putc(w->out, '\n');
}

/* Values in the order of their numbers: of roots, those in the arena. */
static zt_status put_segment(const writer *w, const zt_partition *cut, const zt_segment *segment)
{
    zt_engine *engine = w->chain.engine[segment->engine];
    zt_status status = zt_str_printf(w->out, "#plan split %s %d..%d arena=%zu bound=%zu\n",
                                w->chain.name[segment->engine], segment->first, segment->last, segment->arena_bytes,
                                segment->liveness_bytes);
    for (int v = 0; v < w->bound->n_values && !status; v++) {
        if (cut->root[v] != v || segment->place[v].kind != ZT_PLACE_ARENA) continue;
        size_t bytes = (engine->vt->value_bytes(engine, &w->bound->type[v]) + 63) & ~(size_t)63;
        status = zt_str_printf(w->out, "#plan at %s %zu %zu", zt_prog_value(w->p, v)->name,
                          segment->place[v].offset, bytes);
        if (!status && segment->over[v] >= 0)
            status = zt_str_printf(w->out, " over %s", zt_prog_value(w->p, segment->over[v])->name);
        if (!status) status = zt_str_putc(w->out, '\n');
    }
    return status;
}

/* out[o] NULL: not wanted. */
static zt_status put_stated(writer *w, void *const *outputs)
{
    zt_partition cut;
    zt_status status = zt_partition_make(&cut, &w->chain, w->bound, false, outputs, NULL);
    if (status) return status;
    status = put_bind(w, cut.want);
    for (int i = 0; i < cut.n_segments && !status; i++) status = put_segment(w, &cut, &cut.segment[i]);
    zt_partition_free(&cut);
    return status;
}

/* All outputs, then each alone. */
static zt_status put_all(writer *w)
{
    int n = zt_prog_n_outputs(w->p);
    void **outputs = zt_calloc(w->o->engine->ctx, (size_t)n + 1, sizeof *outputs);
    if (!outputs) return ZT_ENOMEM;
    zt_status status = put_stated(w, NULL);
    for (int o = 0; o < n && n > 1 && !status; o++) {
        memset(outputs, 0, (size_t)n * sizeof *outputs);
        outputs[o] = w;
        status = put_stated(w, outputs);
    }
    zt_free(w->o->engine->ctx, outputs);
    return status;
}

/* The program's text with the head after its first line. */
static zt_status put_program(const writer *w)
{
    zt_str text;
    zt_str_init(&text, w->o->engine->ctx);
    zt_status status = zt_prog_print(w->p, &text);
    const char *end = status ? NULL : memchr(text.data, '\n', text.len);
    size_t first = end ? (size_t)(end - text.data) + 1 : 0;
    if (!status) status = zt_str_put(w->out, text.data, first);
    if (!status) status = put_head(w);
    if (!status) status = zt_str_put(w->out, text.data + first, text.len - first);
    zt_str_fini(&text);
    return status;
}

zt_status zt_plan_file_print(const zt_prog *program, const zt_plan_file_opts *o, zt_str *out)
{
    writer w = {.p = program, .o = o, .out = out};
    zt_status status = put_program(&w);
    if (status || o->n_bind < zt_prog_n_symbols(program)) return status;
    w.bound = zt_prog_bind(program, o->bind, o->n_bind);
    if (!w.bound) return zt_ctx_status(o->engine->ctx);
    zt_chain_init(&w.chain, o->engine);
    status = put_all(&w);
    zt_chain_fini(&w.chain);
    zt_bound_free(w.bound);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A #plan line in words; what they point to goes with the next line. */
typedef struct reader {
    zt_plan_file *p;
    const char *name; /* of the text, escaped */
    int line, n;
    char *word[MAX_WORDS + ZT_MAX_SYMBOLS + 32];
    char text[MAX_LINE];
    int cap_at, cap_splits;
} reader;

static zt_status bad(const reader *r, const char *fmt, const char *what)
{
    char said[128], shown[64];
    snprintf(said, sizeof said, fmt, zt_escape(shown, sizeof shown, what, strlen(what)));
    return zt_fail(r->p->ctx, ZT_EDATA, "%s:%d: %s", r->name, r->line, said);
}

static bool take_size(const char *text, size_t *out)
{
    int64_t v;
    if (!zt_parse_i64(text, &v) || v < 0) return false;
    *out = (size_t)v;
    return true;
}

/* "key=value" with that key: the value. */
static const char *after(const char *word, const char *key)
{
    size_t n = strlen(key);
    return !strncmp(word, key, n) && word[n] == '=' ? word + n + 1 : NULL;
}

static zt_status read_engine(reader *r)
{
    const char *isa = r->n == 4 ? after(r->word[3], "isa") : NULL;
    bool known = false;
    for (int i = 0; r->n > 2 && zt_engine_list(i); i++)
        known = known || !strcmp(zt_engine_list(i), r->word[2]);
    if (!isa || !known || !zt_isa_parse(isa, &r->p->isa) ||
        strlen(r->word[2]) >= sizeof r->p->engine)
        return bad(r, "no engine with its isa: '%s'", r->n > 2 ? r->word[2] : "");
    if (r->p->engine[0]) return bad(r, "a second %s", "engine");
    snprintf(r->p->engine, sizeof r->p->engine, "%s", r->word[2]);
    return ZT_OK;
}

static zt_status read_passes(reader *r)
{
    r->p->off = ~0u;
    for (int i = 2; i < r->n; i++) {
        int pass = zt_pass_find(r->word[i], strlen(r->word[i]));
        if (pass < 0) return bad(r, "pass '%s' is not known", r->word[i]);
        r->p->off &= ~(1u << pass);
    }
    return ZT_OK;
}

static int find_output(const zt_prog *program, const char *name, size_t n)
{
    for (int o = 0; o < zt_prog_n_outputs(program); o++)
        if (strlen(zt_prog_output(program, o)->name) == n && !memcmp(zt_prog_output(program, o)->name, name, n))
            return o;
    return -1;
}

static zt_status read_wanted(reader *r, zt_plan_layout *st, const char *list)
{
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",");
        int o = find_output(r->p->prog, at, n);
        if (o < 0) return bad(r, "'%s' are not the program's outputs", list);
        st->want[o] = true;
        at += n + (at[n] == ',');
    }
    return ZT_OK;
}

static zt_status read_symbol(reader *r, zt_plan_layout *st, char *word)
{
    char *eq = strchr(word, '=');
    const zt_prog *program = r->p->prog;
    for (int i = 0; eq && i < zt_prog_n_symbols(program); i++) {
        const char *name = zt_prog_symbol_name(program, i);
        if (strlen(name) != (size_t)(eq - word) || memcmp(name, word, strlen(name)) != 0) continue;
        if (st->sym[i] >= 0 || !zt_parse_i64(eq + 1, &st->sym[i]) || st->sym[i] < 0) break;
        return ZT_OK;
    }
    return bad(r, "'%s' gives no symbol a number", word);
}

static zt_status read_bind(reader *r)
{
    zt_plan_file *plan = r->p;
    if (plan->n_stated == MAX_STATED) return bad(r, "one %s too many", "bind");
    if (!plan->stated) plan->stated = zt_arena_alloc(plan->memory, MAX_STATED * sizeof *plan->stated);
    if (!plan->stated) return ZT_ENOMEM;
    size_t n_out = (size_t)zt_prog_n_outputs(plan->prog);
    char where[300];
    zt_plan_layout *st = &plan->stated[plan->n_stated];
    *st = (zt_plan_layout){.ctx = plan->ctx, .engine = plan->engine, .first_split = plan->n_splits};
    st->want = zt_arena_alloc(plan->memory, n_out + 1);
    int n = snprintf(where, sizeof where, "%s:%d", r->name, r->line);
    size_t len = (size_t)n < sizeof where ? (size_t)n : sizeof where - 1;
    st->where = zt_arena_strndup(plan->memory, where, len);
    if (!st->want || !st->where) return ZT_ENOMEM;
    memset(st->want, 0, n_out + 1);
    for (int i = 0; i < ZT_MAX_SYMBOLS; i++) st->sym[i] = -1;
    zt_status status = ZT_OK;
    for (int i = 2; i < r->n && !status; i++) {
        const char *list = after(r->word[i], "out");
        status = list ? read_wanted(r, st, list) : read_symbol(r, st, r->word[i]);
    }
    for (int i = 0; i < zt_prog_n_symbols(plan->prog) && !status; i++)
        if (st->sym[i] < 0)
            status = bad(r, "symbol '%s' has no number", zt_prog_symbol_name(plan->prog, i));
    plan->n_stated++;
    return status;
}

/* One more of an array in the plan's memory. */
static void *grow(reader *r, void *array, int n, int *cap, size_t size)
{
    if (n < *cap) return array;
    int more = *cap ? 2 * *cap : 64;
    void *to = zt_arena_alloc(r->p->memory, (size_t)more * size);
    if (to && n) memcpy(to, array, (size_t)n * size);
    if (to) *cap = more;
    return to;
}

static zt_status read_split(reader *r)
{
    zt_plan_file *plan = r->p;
    zt_plan_layout_part sp = {.first_at = plan->n_at};
    int used = 0;
    if (!plan->n_stated) return bad(r, "a %s before any bind", "split");
    bool good = r->n == 6 && strlen(r->word[2]) < sizeof sp.engine &&
                sscanf(r->word[3], "%9d..%9d%n", &sp.first, &sp.last, &used) == 2 &&
                !r->word[3][used] && after(r->word[4], "arena") && after(r->word[5], "bound") &&
                take_size(after(r->word[4], "arena"), &sp.arena) &&
                take_size(after(r->word[5], "bound"), &sp.bound);
    if (!good) return bad(r, "no split: '%s'", r->n > 3 ? r->word[3] : "");
    snprintf(sp.engine, sizeof sp.engine, "%s", r->word[2]);
    plan->split = grow(r, plan->split, plan->n_splits, &r->cap_splits, sizeof sp);
    if (!plan->split) return ZT_ENOMEM;
    plan->split[plan->n_splits++] = sp;
    plan->stated[plan->n_stated - 1].n_splits++;
    return ZT_OK;
}

static zt_status read_at(reader *r)
{
    zt_plan_file *plan = r->p;
    zt_plan_layout_place a = {.over = -1};
    if (!plan->n_stated || !plan->stated[plan->n_stated - 1].n_splits)
        return bad(r, "a place %s before any split", "at");
    bool good = (r->n == 5 || (r->n == 7 && !strcmp(r->word[5], "over"))) &&
                take_size(r->word[3], &a.offset) && take_size(r->word[4], &a.bytes);
    if (!good) return bad(r, "no place: '%s'", r->n > 2 ? r->word[2] : "");
    a.value = zt_prog_find(plan->prog, r->word[2]);
    if (r->n == 7) a.over = zt_prog_find(plan->prog, r->word[6]);
    if (a.value < 0 || (r->n == 7 && a.over < 0))
        return bad(r, "'%s' is no value of the program", a.value < 0 ? r->word[2] : r->word[6]);
    plan->at = grow(r, plan->at, plan->n_at, &r->cap_at, sizeof a);
    if (!plan->at) return ZT_ENOMEM;
    plan->at[plan->n_at++] = a;
    plan->split[plan->n_splits - 1].n_at++;
    return ZT_OK;
}

static const struct {
    const char *word;
    zt_status (*read)(reader *r);
} kinds[] = {
    {"engine", read_engine}, {"passes", read_passes}, {"bind", read_bind},
    {"split", read_split},   {"at", read_at},
};

static zt_status read_line(reader *r, const char *at, size_t n)
{
    if (n < 6 || memcmp(at, "#plan ", 6) != 0) return ZT_OK;
    if (n >= sizeof r->text || memchr(at, 0, n)) return bad(r, "no line of a %s", "plan");
    memcpy(r->text, at, n);
    r->text[n] = 0;
    r->n = 0;
    for (char *c = r->text; *c;) {
        while (*c == ' ' || *c == '\r' || *c == '\t') *c++ = 0;
        if (!*c) break;
        if (r->n == (int)(sizeof r->word / sizeof *r->word))
            return bad(r, "too many words: '%s'", c);
        r->word[r->n++] = c;
        while (*c && *c != ' ' && *c != '\r' && *c != '\t') c++;
    }
    for (size_t k = 0; r->n > 1 && k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(r->word[1], kinds[k].word)) return kinds[k].read(r);
    return bad(r, "'%s' begins no line of a plan", r->n > 1 ? r->word[1] : "");
}

static zt_status read_lines(zt_plan_file *plan, const char *name, const char *text, size_t n)
{
    char shown[256];
    reader *r = zt_arena_alloc(plan->memory, sizeof *r);
    if (!r) return ZT_ENOMEM;
    *r = (reader){.p = plan, .name = zt_escape(shown, sizeof shown, name, strlen(name))};
    const char *end = text + n;
    zt_status status = ZT_OK;
    for (r->line = 1; text < end && !status; r->line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        status = read_line(r, text, (size_t)((stop ? stop : end) - text));
        text = stop ? stop + 1 : end;
    }
    if (!status && !plan->engine[0])
        status = zt_fail(plan->ctx, ZT_EDATA, "%s: no plan: it says no engine", r->name);
    for (int i = 0; i < plan->n_stated && !status; i++) {
        if (plan->split) plan->stated[i].split = plan->split + plan->stated[i].first_split; /* else none */
        plan->stated[i].at = plan->at;
    }
    return status;
}

zt_plan_file *zt_plan_file_parse(zt_ctx *ctx, const char *name, const char *text, size_t n)
{
    zt_plan_file *plan = zt_calloc(ctx, 1, sizeof *plan);
    if (!plan) return NULL;
    plan->ctx = ctx;
    plan->memory = zt_arena_new(ctx, 0);
    plan->prog = plan->memory ? zt_prog_parse(ctx, name, text, n) : NULL;
    if (plan->prog && read_lines(plan, name, text, n) == ZT_OK) return plan;
    zt_plan_file_free(plan);
    return NULL;
}

void zt_plan_file_free(zt_plan_file *plan)
{
    if (!plan) return;
    zt_prog_free(plan->prog);
    zt_arena_free(plan->memory);
    zt_free(plan->ctx, plan);
}

/* ---- looking --------------------------------------------------------------------------------- */

const zt_prog *zt_plan_file_prog(const zt_plan_file *plan) { return plan->prog; }
const char *zt_plan_file_engine(const zt_plan_file *plan) { return plan->engine; }
zt_isa zt_plan_file_isa(const zt_plan_file *plan) { return plan->isa; }
unsigned zt_plan_file_off(const zt_plan_file *plan) { return plan->off; }
int zt_plan_file_count(const zt_plan_file *plan) { return plan->n_stated; }
const zt_plan_layout *zt_plan_file_nth(const zt_plan_file *plan, int i) { return &plan->stated[i]; }

const zt_plan_layout *zt_plan_file_find(const zt_plan_file *plan, const int64_t *sym, void *const *outputs)
{
    for (int i = 0; i < plan->n_stated; i++) {
        const zt_plan_layout *st = &plan->stated[i];
        bool same = !memcmp(st->sym, sym, (size_t)zt_prog_n_symbols(plan->prog) * sizeof *sym);
        for (int o = 0; o < zt_prog_n_outputs(plan->prog) && same; o++)
            same = st->want[o] == (!outputs || outputs[o]);
        if (same) return st;
    }
    return NULL;
}
