/* unary.c - every function of one float, in f32 on each instruction set, against its row's own loop
 * in f64: within 2 ulp, signs of zero, NaN and infinity as there, and the same bits wherever in a
 * vector an element stands.
 *
 * By itself it looks at all exponents, mantissas at their edges, and one float in 65537. With
 * ZT_LONG set to 1 it looks at all 2^32 floats, with ZT_LONG set to the name of an op at that op's,
 * in ZT_LONG_THREADS threads. Then the row, which takes most of the time, is asked only for one
 * float in 256 and where a screen (libmvec_screen.h) does not find an error below 1 ulp.
 */
#include "tests/common/one_op.h"
#include "tests/ops/libmvec_screen.h"
#include "tests/common/tap.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHUNK = 1 << 15, MAX_THREADS = 64, ASKED = 256 /* one float of so many */ };

/* What is looked at: the op with these attributes, and which floats. */
typedef struct subject {
    zt_op op;
    int64_t attrs[ZT_MAX_ATTR_BYTES / 8];
    bool all;
    int64_t n; /* chunks */
} subject;

typedef struct finding {
    double worst;
    uint32_t at;   /* the float's bits */
    int64_t wrong; /* over 2 ulp, or of the wrong kind */
    uint32_t first;
    bool moved; /* other bits in another place of the vector */
    bool failed;
} finding;

typedef struct worker {
    const subject *s;
    zt_ctx *ctx;
    zt_engine *engine[ZT_ISA_COUNT];
    finding found[ZT_ISA_COUNT];
    int64_t *next; /* chunk */
    float x[CHUNK], y[ZT_ISA_COUNT][CHUNK], shifted[CHUNK];
    double wide[CHUNK], row[CHUNK], want[CHUNK];
    int best;     /* the best instruction set: asked for once, it takes a virtual machine long */
    bool screens; /* this processor runs them */
    bool strays;  /* a screen from its row */
} worker;

static float of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* ---- the floats ------------------------------------------------------------------------------ */

static const uint32_t edges[] = {0,        1,        2,        3,        0x3fffff, 0x400000, 0x400001, 0x3504f3,
                                 0x3504f4, 0x490fda, 0x490fdb, 0x490fdc, 0x317217, 0x317218, 0x7ffffe, 0x7fffff};
enum { EDGES = sizeof edges / sizeof edges[0], N_EDGES = 512 * EDGES, STRIDE = 65537 };

static int64_t sample_size(void) { return N_EDGES + ((int64_t)1 << 32) / STRIDE + 1; }

static uint32_t sampled(int64_t i)
{
    if (i < N_EDGES) return (uint32_t)(i / EDGES) << 23 | edges[i % EDGES];
    return (uint32_t)((i - N_EDGES) * STRIDE);
}

static int chunk_of(worker *w, int64_t c)
{
    int64_t from = c * CHUNK, left = w->s->all ? CHUNK : sample_size() - from;
    int n = left < CHUNK ? (int)left : CHUNK;
    for (int i = 0; i < n; i++) w->x[i] = of_bits(w->s->all ? (uint32_t)(from + i) : sampled(from + i));
    return n;
}

/* ---- the judge ------------------------------------------------------------------------------- */

/* What one unit in the last place of a float of y's size is. */
static double ulp_of(double y)
{
    uint64_t u;
    double a = fabs(y);
    if (!(a >= 0x1p-126)) return 0x1p-149;
    memcpy(&u, &a, sizeof u);
    u = (u >> 52 << 52) - ((uint64_t)23 << 52);
    memcpy(&a, &u, sizeof a);
    return a;
}

/* In units in the last place; another kind and a zero of another sign are infinitely wrong. */
static double error_of(float got, double want)
{
    const double most = 0x1.ffffffp127; /* from here on rounding gives infinity */
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isnan(got) || (got == 0 && !signbit(got) != !signbit(want))) return INFINITY;
    if (want == 0) return got == 0 ? 0 : INFINITY;
    if (fabs(want) >= most) want = copysign(0x1p128, want);
    double is = isinf(got) ? copysign(0x1p128, got) : (double)got;
    return fabs(is - want) / ulp_of(fabs(want) < 0x1p128 ? want : 1e38);
}

/* The row's own loop. */
static void ask_row(const subject *s, double *x, double *want, int n)
{
    zt_type t = zt_type_make(ZT_F64, 1, (int64_t[]){n});
    zt_runtime_error trouble = {0};
    zt_op_info(s->op)->def->ref(s->attrs, &(zt_arg){&t, x, NULL}, &(zt_arg){&t, want, NULL}, &trouble);
}

/* Is the screen's result the row's but for what no float sees? */
static bool agree(double screened, double row)
{
    const double most = 0x1.ffffffp127;
    if (isnan(row) || isnan(screened)) return isnan(row) && isnan(screened);
    if (fabs(row) >= most && fabs(screened) >= most) return !signbit(row) == !signbit(screened);
    return fabs(screened - row) <= ulp_of(row) / 64;
}

static screen *screen_of(const worker *w) { return w->screens ? screens[w->s->op] : NULL; }

/* What the results should be: the row's, or of all floats the screen's, but for one in so many,
 * where it is held to the row. At infinity it may fail: there the row is asked when it does. */
static void find_wanted(worker *worker_state, int count)
{
    screen *s = screen_of(worker_state);
    int step = s && worker_state->s->all ? ASKED : 1, asked = (count + step - 1) / step;
    for (int i = 0; i < asked; i++) worker_state->wide[i] = (double)worker_state->x[i * step];
    ask_row(worker_state->s, worker_state->wide, s ? worker_state->row : worker_state->want, asked);
    if (!s) return;
    s(worker_state->s->attrs, worker_state->x, worker_state->want, count & ~7);
    for (int i = 0; i < asked; i++) {
        bool screened = i * step < (count & ~7) && !isinf(worker_state->wide[i]);
        worker_state->strays |= screened && !agree(worker_state->want[i * step], worker_state->row[i]);
        worker_state->want[i * step] = worker_state->row[i];
    }
}

/* Where the screen sees more than 1 ulp, or another kind, the row decides. */
static void ask_doubted(worker *worker_state, const float *y, int count)
{
    for (int at = 0; at < count; at += 64) {
        if (screen_worst(y + at, worker_state->want + at, 64) <= 1) continue;
        for (int i = at; i < at + 64; i++) {
            double x = (double)worker_state->x[i];
            if (!(error_of(y[i], worker_state->want[i]) <= 1)) ask_row(worker_state->s, &x, &worker_state->want[i], 1);
        }
    }
}

/* Of the floats of a chunk; where the worst lies only if `known` is not as bad. */
static finding judge(worker *worker_state, const float *y, int count, double known)
{
    finding f = {0};
    if (worker_state->screens && count % 8 == 0) f.worst = screen_worst(y, worker_state->want, count);
    if (worker_state->s->all && screen_of(worker_state) && f.worst > 1) {
        ask_doubted(worker_state, y, count);
        f.worst = screen_worst(y, worker_state->want, count);
    }
    if (worker_state->screens && worker_state->s->all && f.worst <= 2 && f.worst <= known) return f;
    double worst = 0;
    for (int i = 0; i < count; i++) {
        double e = error_of(y[i], worker_state->want[i]);
        if (e > worst) f.at = bits_of(worker_state->x[i]);
        if (e > worst) worst = e;
        if (!(e <= 2) && f.wrong++ == 0) f.first = bits_of(worker_state->x[i]);
    }
    if (worker_state->screens && count % 8 == 0) worker_state->strays |= f.worst != worst;
    f.worst = worst;
    return f;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool run_function(worker *w, int isa, const float *x, int n, float *y)
{
    zt_type t = zt_type_make(ZT_F32, 1, (int64_t[]){n});
    oneop o = {.op = w->s->op, .attrs = w->s->attrs, .in = {&t}, .data = {x}, .out = {t}, .result = {y}};
    return oneop_run(w->engine[isa], &o) == ZT_OK;
}

/* The same floats from the 5th on, in a vector that ends earlier, give the same bits. */
static bool stays(worker *w, int isa, int n)
{
    return n < 16 || (run_function(w, isa, w->x + 5, n - 12, w->shifted) &&
                      !memcmp(w->shifted, w->y[isa] + 5, (size_t)(n - 12) * sizeof(float)));
}

static void join(finding *all, const finding *f)
{
    if (f->worst > all->worst) all->at = f->at;
    if (f->worst > all->worst) all->worst = f->worst;
    if (f->wrong && !all->wrong) all->first = f->first;
    all->wrong += f->wrong;
    all->moved |= f->moved;
    all->failed |= f->failed;
}

/* One chunk on every instruction set: what has the bits of the best one's is as that is. */
static void look_at_chunk(worker *worker_state, int64_t c)
{
    const int best = worker_state->best, n = chunk_of(worker_state, c);
    finding top, f;
    double known = INFINITY;
    find_wanted(worker_state, n);
    for (int isa = best; isa >= 0; isa--) known = fmin(known, worker_state->found[isa].worst);
    for (int isa = best; isa >= 0; isa--) {
        bool runs = run_function(worker_state, isa, worker_state->x, n, worker_state->y[isa]);
        if (isa == best) top = judge(worker_state, worker_state->y[isa], n, known);
        bool same = !memcmp(worker_state->y[isa], worker_state->y[best], (size_t)n * sizeof(float));
        f = same ? top : judge(worker_state, worker_state->y[isa], n, known);
        f.failed = !runs;
        f.moved = c % 128 == 0 && !stays(worker_state, isa, n);
        join(&worker_state->found[isa], &f);
    }
}

static void *work(void *user)
{
    worker *worker_state = user;
    for (;;) {
        int64_t c = __atomic_fetch_add(worker_state->next, 1, __ATOMIC_RELAXED);
        if (c >= worker_state->s->n) return NULL;
        look_at_chunk(worker_state, c);
    }
}

static void name_attrs(const subject *s, char *name, size_t room)
{
    const zt_opinfo *info = zt_op_info(s->op);
    double d;
    name[0] = '\0';
    memcpy(&d, s->attrs, sizeof d);
    if (info->n_attrs && info->attrs[0].kind == ZT_ATTR_f64) snprintf(name, room, " %s=%g", info->attrs[0].name, d);
    if (info->n_attrs && info->attrs[0].kind == ZT_ATTR_word)
        snprintf(name, room, " %s=%.23s", info->attrs[0].name, (const char *)s->attrs);
}

static void report_finding(const subject *s, int isa, const finding *f)
{
    char attrs[64];
    name_attrs(s, attrs, sizeof attrs);
    ok(!f->wrong && !f->moved && !f->failed, "%s%s on %s: worst %.3f ulp at %a", zt_op_info(s->op)->name, attrs,
       zt_isa_name((zt_isa)isa), f->worst, (double)of_bits(f->at));
    if (f->wrong) diag("%lld floats off by more than 2 ulp, the first %a", (long long)f->wrong, (double)of_bits(f->first));
    if (f->moved) diag("other bits in another place of the vector");
    if (f->failed) diag("does not run");
}

/* After all floats, a line of docs/ulp.md. */
static void say_row(const subject *s, const finding *f)
{
    char attrs[64];
    name_attrs(s, attrs, sizeof attrs);
    printf("# | %s%s |", zt_op_info(s->op)->name, attrs);
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) printf(" %.3f |", f[isa].worst);
    printf(" %s |\n", screens[s->op] ? "screen" : "row");
}

static void look_at(subject *s, worker *const *workers, int count)
{
    pthread_t thread[MAX_THREADS];
    int64_t next = 0;
    s->n = ((s->all ? (int64_t)1 << 32 : sample_size()) + CHUNK - 1) / CHUNK;
    for (int i = 0; i < count; i++) {
        workers[i]->s = s;
        workers[i]->next = &next;
        memset(workers[i]->found, 0, sizeof workers[i]->found);
        workers[i]->strays = false;
        if (i) pthread_create(&thread[i], NULL, work, workers[i]);
    }
    work(workers[0]);
    for (int i = 1; i < count; i++) {
        pthread_join(thread[i], NULL);
        for (int isa = 0; isa < ZT_ISA_COUNT; isa++) join(&workers[0]->found[isa], &workers[i]->found[isa]);
        workers[0]->strays |= workers[i]->strays;
    }
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) report_finding(s, isa, &workers[0]->found[isa]);
    if (workers[0]->strays) ok(false, "%s: the screen is as the row", zt_op_info(s->op)->name);
    if (s->all) say_row(s, workers[0]->found);
}

/* ---- which ----------------------------------------------------------------------------------- */

/* Is it a function of one float that gives one? */
static bool fits(zt_op op, const void *attrs)
{
    const zt_opinfo *info = zt_op_info(op);
    zt_type t = zt_type_make(ZT_F32, 1, (int64_t[]){16}), out[ZT_MAX_OUT];
    const zt_type *in[ZT_MAX_IN] = {&t};
    return info->n_in == 1 && info->n_out == 1 && info->def->flags & ZT_OPF_ELEMENTWISE &&
           zt_op_infer(NULL, op, attrs, in, out) == ZT_OK && zt_type_equal(&out[0], &t);
}

/* Each op with each set of attributes that its cases have. */
static void search_floats(worker *const *workers, int count, const char *which)
{
    bool all = which && strcmp(which, "0") != 0, one = all && strcmp(which, "1") != 0;
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        int64_t seen[16][ZT_MAX_ATTR_BYTES / 8];
        int n_seen = 0;
        zt_case op_case;
        if (one && strcmp(which, zt_op_info((zt_op)op)->name)) continue;
        for (int i = 0; n_seen < 16 && zt_op_case((zt_op)op, i, &op_case); i++) {
            int k = 0;
            while (k < n_seen && memcmp(seen[k], op_case.attrs, sizeof op_case.attrs)) k++;
            if (k < n_seen || !fits((zt_op)op, op_case.attrs)) continue;
            memcpy(seen[n_seen++], op_case.attrs, sizeof op_case.attrs);
            subject s = {.op = (zt_op)op, .all = all};
            memcpy(s.attrs, op_case.attrs, sizeof s.attrs);
            look_at(&s, workers, count);
            fflush(stdout);
        }
    }
}

static worker *new_worker(void)
{
    worker *w = calloc(1, sizeof *w);
    w->ctx = zt_ctx_new();
    w->best = (int)zt_isa_best();
    w->screens = w->best == ZT_ISA_AVX512;
    for (int isa = 0; isa <= w->best; isa++) {
        zt_engine_opts opts = {.threads = 1, .isa = (zt_isa)isa};
        w->engine[isa] = zt_engine_open(w->ctx, "cpu", &opts);
        if (!w->engine[isa]) exit(1);
    }
    return w;
}

int main(void)
{
    worker *workers[MAX_THREADS];
    int count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (getenv("ZT_LONG_THREADS")) count = atoi(getenv("ZT_LONG_THREADS"));
    count = count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
    for (int i = 0; i < count; i++) workers[i] = new_worker();
    search_floats(workers, count, getenv("ZT_LONG"));
    for (int i = 0; i < count; i++) {
        for (int isa = 0; isa < ZT_ISA_COUNT; isa++) zt_engine_close(workers[i]->engine[isa]);
        zt_ctx_free(workers[i]->ctx);
        free(workers[i]);
    }
    return tap_done();
}
