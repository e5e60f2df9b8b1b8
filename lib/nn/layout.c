/* layout.c - owns how the layers that a probe found stand in a network: read from text, and whether
 * what one gives is what the next takes. */
#include "lib/nn/probe_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_NODES = 1 << 14 };

static zt_nn_layout *new_node(zt_ctx *ctx, zt_nn_layout_kind kind)
{
    zt_nn_layout *l = zt_calloc(ctx, 1, sizeof *l);
    if (l) *l = (zt_nn_layout){.kind = kind, .layer = -1, .combine = "concat"};
    return l;
}

void zt_nn_layout_free(zt_ctx *ctx, zt_nn_layout *l)
{
    while (l) {
        zt_nn_layout *next = l->next;
        zt_nn_layout_free(ctx, l->inner);
        zt_free(ctx, l);
        l = next;
    }
}

bool zt_nn_layout_has(const zt_nn_layout *l, int64_t layer)
{
    for (; l; l = l->next)
        if ((l->kind == ZT_NN_LAYOUT_LAYER && l->layer == layer) ||
            zt_nn_layout_has(l->inner, layer))
            return true;
    return false;
}

/* ---- from text ------------------------------------------------------------------------------- */

typedef struct reader {
    zt_ctx *ctx;
    const zt_nn_probe *p;
    const char *at;
    bool *used; /* [layers] */
    int depth;
    int64_t nodes;
} reader;

static zt_status bad(const reader *r, const char *what, const char *text, size_t n)
{
    char shown[120];
    return zt_fail(r->ctx, ZT_EUSAGE, "order: '%s' %s", zt_escape(shown, sizeof shown, text, n),
                   what);
}

static void pass_blanks(reader *r)
{
    while (*r->at == ' ') r->at++;
}

/* A tensor by its index or its name; -1: none. */
static int64_t find_tensor(const reader *r, const char *text, size_t n)
{
    char *end;
    long long i = strtoll(text, &end, 10);
    if (n && *text >= '0' && *text <= '9' && end == text + n)
        return i < zt_nn_probe_tensors(r->p) ? i : -1;
    for (int64_t k = 0; k < zt_nn_probe_tensors(r->p); k++) {
        const char *name = zt_nn_probe_tensor(r->p, k)->name;
        if (name && strlen(name) == n && !memcmp(name, text, n)) return k;
    }
    return -1;
}

static int64_t layer_of(const reader *r, int64_t tensor)
{
    for (int64_t i = 0; i < zt_nn_probe_count(r->p); i++) {
        const zt_nn_archetype *a = zt_nn_probe_at(r->p, i);
        for (int64_t k = 0; k < a->n_roles; k++)
            if (a->role[k].tensor == tensor && zt_nn_mounts(r->p, a)) return i;
    }
    return -1;
}

static zt_status read_layer(reader *r, const char *text, size_t n, zt_nn_layout *to)
{
    int64_t tensor = find_tensor(r, text, n);
    if (tensor < 0) return bad(r, "is neither the index nor the name of a tensor", text, n);
    to->layer = layer_of(r, tensor);
    if (to->layer < 0) return bad(r, "is of no layer that a network can have (--probe)", text, n);
    if (r->used[to->layer]) return bad(r, "is of a layer that stands there already", text, n);
    r->used[to->layer] = true;
    return ZT_OK;
}

/* What stands before a parenthesis: "parallel:add". */
static zt_status read_container(const reader *r, const char *text, size_t n, zt_nn_layout *to)
{
    static const struct {
        const char *word;
        zt_nn_layout_kind kind;
        const char *combine;
    } words[] = {{"sequential", ZT_NN_LAYOUT_SEQUENTIAL, "concat"},
                 {"residual", ZT_NN_LAYOUT_RESIDUAL, "concat"},
                 {"parallel", ZT_NN_LAYOUT_PARALLEL, "concat"},
                 {"parallel:concat", ZT_NN_LAYOUT_PARALLEL, "concat"},
                 {"parallel:add", ZT_NN_LAYOUT_PARALLEL, "add"},
                 {"parallel:avg", ZT_NN_LAYOUT_PARALLEL, "avg"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == n && !memcmp(words[i].word, text, n)) {
            to->kind = words[i].kind;
            to->combine = words[i].combine;
            return ZT_OK;
        }
    return bad(r, "is none of sequential, residual, parallel, parallel:add, parallel:avg", text, n);
}

static zt_status read_list(reader *r, zt_nn_layout **to);

static zt_status read_item(reader *r, zt_nn_layout **to)
{
    pass_blanks(r);
    const char *text = r->at;
    size_t n = strcspn(text, "(),");
    while (n && text[n - 1] == ' ') n--;
    r->at += strcspn(text, "(),");
    *to = new_node(r->ctx, ZT_NN_LAYOUT_LAYER);
    if (!*to) return ZT_ENOMEM;
    if (++r->nodes > MAX_NODES) return bad(r, "is one of too many", text, n);
    if (*r->at != '(') return read_layer(r, text, n, *to);
    zt_status s = read_container(r, text, n, *to);
    if (s) return s;
    if (++r->depth > MAX_DEPTH) return bad(r, "stands too deep in others", text, n);
    r->at++;
    s = read_list(r, &(*to)->inner);
    r->depth--;
    if (!s && *r->at != ')') return bad(r, "has no closing parenthesis", text, n);
    r->at += !s;
    pass_blanks(r);
    return s;
}

static zt_status read_list(reader *r, zt_nn_layout **to)
{
    zt_status s = read_item(r, to);
    while (!s && *r->at == ',') {
        to = &(*to)->next;
        r->at++;
        s = read_item(r, to);
    }
    return s;
}

zt_nn_layout *zt_nn_layout_parse(zt_ctx *ctx, const zt_nn_probe *p, const char *text)
{
    zt_nn_layout *first = NULL;
    reader r = {.ctx = ctx, .p = p, .at = text};
    r.used = zt_calloc(ctx, (size_t)zt_nn_probe_count(p) + 1, sizeof *r.used);
    zt_status s = r.used ? read_list(&r, &first) : ZT_ENOMEM;
    if (!s && *r.at) s = bad(&r, "is more than a list of layers", r.at, strlen(r.at));
    zt_free(ctx, r.used);
    if (!s) return first;
    zt_nn_layout_free(ctx, first);
    return NULL;
}

/* ---- one after the other, as they were found ------------------------------------------------- */

zt_nn_layout *zt_nn_layout_found(zt_ctx *ctx, const zt_nn_probe *p)
{
    zt_nn_layout *first = NULL, **to = &first;
    for (int64_t i = 0; i < zt_nn_probe_count(p); i++) {
        if (!zt_nn_mounts(p, zt_nn_probe_at(p, i))) continue;
        *to = new_node(ctx, ZT_NN_LAYOUT_LAYER);
        if (!*to) {
            zt_nn_layout_free(ctx, first);
            return NULL;
        }
        (*to)->layer = i;
        to = &(*to)->next;
    }
    return first;
}

/* ---- do they chain --------------------------------------------------------------------------- */

/* What is on its way: so many numbers a row, of which `each` belong together; 0: nothing is known. */
typedef struct width {
    int64_t n;
    bool several;    /* n of each of some ids, or of each place of a plane: multiples fit too */
    int64_t from;    /* the layer that gave it; -1: what comes in */
} width;

static int64_t metric(const zt_nn_archetype *a, const char *name)
{
    for (int64_t i = 0; i < a->n_metrics; i++)
        if (!strcmp(a->metric[i].name, name)) return a->metric[i].value;
    return 0;
}

/* Of kinds: what they take and give, by the metrics' names. */
static const struct {
    zt_nn_kind kind;
    const char *takes, *gives;
    bool several; /* what it gives */
} kinds[] = {{ZT_NN_DENSE, "in", "out", false},   {ZT_NN_EMBEDDING, "", "d", true},
             {ZT_NN_RMSNORM, "d", "d", false},    {ZT_NN_LAYERNORM, "d", "d", false},
             {ZT_NN_SWIGLU, "h", "h", false},     {ZT_NN_MHA, "d", "d", false},
             {ZT_NN_LSTM, "h", "h", false},       {ZT_NN_CNN1, "c", "f", true},
             {ZT_NN_CNN2, "c", "f", true}};

static bool is_plane(zt_nn_kind k)
{
    return k == ZT_NN_CNN1 || k == ZT_NN_CNN2;
}

/* "layer 2 ('b.weight', Dense)" */
static const char *layer_text(const zt_nn_probe *p, int64_t i, char buf[200])
{
    const zt_nn_archetype *a = zt_nn_probe_at(p, i);
    const char *name = zt_nn_probe_tensor(p, a->role[0].tensor)->name;
    char shown[120];
    snprintf(buf, 200, "layer %" PRId64 " ('%s', %s)", i,
             zt_escape(shown, sizeof shown, name ? name : "", strlen(name ? name : "")),
             zt_nn_kind_name(a->kind));
    return buf;
}

typedef struct checker {
    zt_ctx *ctx;
    const zt_nn_probe *p;
    const char *file;
} checker;

static zt_status broken(const checker *c, const width *w, int64_t layer, int64_t takes)
{
    char a[200], b[200], ids[32];
    snprintf(ids, sizeof ids, "%" PRId64, takes);
    return zt_fail(c->ctx, ZT_EDATA,
                   "%s: its layers do not chain: %s gives %" PRId64 " numbers, and %s takes %s; "
                   "--hint order=... says in which order and in which others they stand",
                   c->file, layer_text(c->p, w->from, a), w->n, layer_text(c->p, layer, b),
                   takes ? ids : "ids");
}

static zt_status check_layer(const checker *c, int64_t layer, width *w)
{
    const zt_nn_archetype *a = zt_nn_probe_at(c->p, layer);
    size_t k = 0;
    while (k < sizeof kinds / sizeof *kinds && kinds[k].kind != a->kind) k++;
    if (k == sizeof kinds / sizeof *kinds) {
        *w = (width){.from = layer};
        return ZT_OK;
    }
    int64_t takes = metric(a, kinds[k].takes);
    bool ids = a->kind == ZT_NN_EMBEDDING, known = w->from >= 0 && w->n > 0;
    bool fits = w->n == takes || (w->several && takes && takes % w->n == 0) ||
                (is_plane(a->kind) && takes && w->n % takes == 0);
    if (known && (ids || !fits)) return broken(c, w, layer, ids ? 0 : takes);
    *w = (width){metric(a, kinds[k].gives), kinds[k].several, layer};
    return ZT_OK;
}

static zt_status check_list(const checker *c, const zt_nn_layout *l, width *w);

/* What the first layer of these takes; 0: its shape does not tell. */
static int64_t first_takes(const checker *c, const zt_nn_layout *l)
{
    while (l && l->kind != ZT_NN_LAYOUT_LAYER) l = l->inner;
    const zt_nn_archetype *a = l ? zt_nn_probe_at(c->p, l->layer) : NULL;
    for (size_t k = 0; a && k < sizeof kinds / sizeof *kinds; k++)
        if (kinds[k].kind == a->kind && !is_plane(a->kind)) return metric(a, kinds[k].takes);
    return 0;
}

/* Branches of the input itself, of which nothing is known, take equally much. */
static zt_status check_takes(const checker *c, const zt_nn_layout *branch)
{
    int64_t n = 0, one;
    for (; branch; branch = branch->next) {
        one = first_takes(c, branch);
        if (n && one && one != n)
            return zt_fail(c->ctx, ZT_EDATA,
                           "%s: its layers do not chain: branches take %" PRId64 " numbers and %" PRId64,
                           c->file, n, one);
        n = one ? one : n;
    }
    return ZT_OK;
}

/* Branches take the same; what they give is beside each other, or of one size. */
static zt_status check_branches(const checker *c, const zt_nn_layout *l, width *w)
{
    width in = *w, all = {.from = -1};
    bool sum = strcmp(l->combine, "concat") != 0;
    zt_status s = in.from < 0 ? check_takes(c, l->inner) : ZT_OK;
    char a[200], b[200];
    for (const zt_nn_layout *branch = l->inner; branch && !s; branch = branch->next) {
        width out = in;
        zt_nn_layout alone = *branch;
        alone.next = NULL;
        s = check_list(c, &alone, &out);
        if (!s && sum && all.n && out.n && all.n != out.n)
            s = zt_fail(c->ctx, ZT_EDATA,
                        "%s: its layers do not chain: branches that are combined by %s give %" PRId64
                        " numbers (%s) and %" PRId64 " (%s)",
                        c->file, l->combine, all.n, layer_text(c->p, all.from, a), out.n,
                        layer_text(c->p, out.from, b));
        if (branch == l->inner) all = out;
        else if (!sum) all.n = all.n && out.n ? all.n + out.n : 0;
        all.several = all.several || out.several;
    }
    *w = all;
    return s;
}

static zt_status check_list(const checker *c, const zt_nn_layout *l, width *w)
{
    zt_status s = ZT_OK;
    char a[200];
    for (; l && !s; l = l->next) {
        width in = *w;
        if (l->kind == ZT_NN_LAYOUT_LAYER)
            s = check_layer(c, l->layer, w);
        else
            s = l->kind == ZT_NN_LAYOUT_PARALLEL ? check_branches(c, l, w)
                                                 : check_list(c, l->inner, w);
        if (in.from < 0) in.n = first_takes(c, l);
        if (s || l->kind != ZT_NN_LAYOUT_RESIDUAL || !in.n || !w->n || in.n == w->n) continue;
        s = zt_fail(c->ctx, ZT_EDATA,
                    "%s: its layers do not chain: a residual block takes %" PRId64 " numbers and %s "
                    "gives %" PRId64, c->file, in.n, layer_text(c->p, w->from, a), w->n);
    }
    return s;
}

zt_status zt_nn_layout_check(zt_ctx *ctx, const zt_nn_probe *p, const zt_nn_layout *l,
                             const char *file)
{
    checker c = {ctx, p, file};
    width w = {.from = -1};
    return p->any_named ? ZT_OK : check_list(&c, l, &w);
}
