/* unary.c - every function of one float, in f32 on each instruction set, against its row's own loop
 * in f64: within 2 ulp, signs of zero, NaN and infinity as there, and the same bits wherever in a
 * vector an element stands.
 *
 * By itself it looks at all exponents, mantissas at their edges, and one float in 65537. With
 * ZT_LONG set to 1 it looks at all 2^32 floats (an hour or two), with ZT_LONG set to the name of an
 * op at that op's.
 */
#include "tests/oneop.h"
#include "tests/tap.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, MAX_THREADS = 64 };

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
    float x[CHUNK], y[CHUNK], shifted[CHUNK];
    double wide[CHUNK], want[CHUNK];
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

static const uint32_t edges[] = {0,        1,        2,        3,        0x3fffff, 0x400000,
                                 0x400001, 0x3504f3, 0x3504f4, 0x490fda, 0x490fdb, 0x490fdc,
                                 0x317217, 0x317218, 0x7ffffe, 0x7fffff};
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
    for (int i = 0; i < n; i++)
        w->x[i] = of_bits(w->s->all ? (uint32_t)(from + i) : sampled(from + i));
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

/* In units in the last place; what is of another kind is infinitely wrong. */
static double error_of(float got, double want)
{
    const double most = 0x1.ffffffp127; /* from here on rounding gives infinity */
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (want == 0) return got == 0 && !signbit(got) == !signbit(want) ? 0 : INFINITY;
    if (fabs(want) >= most) want = copysign(0x1p128, want);
    double is = isinf(got) ? copysign(0x1p128, got) : (double)got;
    return isnan(got) ? INFINITY : fabs(is - want) / ulp_of(fabs(want) < 0x1p128 ? want : 1e38);
}

static void judge(worker *w, int isa, int n)
{
    finding *f = &w->found[isa];
    for (int i = 0; i < n; i++) {
        double e = error_of(w->y[i], w->want[i]);
        if (e > f->worst) f->at = bits_of(w->x[i]);
        if (e > f->worst) f->worst = e;
        if (!(e <= 2) && f->wrong++ == 0) f->first = bits_of(w->x[i]);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

static bool run(worker *w, int isa, const float *x, int n, float *y)
{
    zt_type t = zt_type_make(ZT_F32, 1, (int64_t[]){n});
    oneop o = {
        .op = w->s->op, .attrs = w->s->attrs, .in = {&t}, .data = {x}, .out = {t}, .result = {y}};
    return oneop_run(w->engine[isa], &o) == ZT_OK;
}

static void run_judge(worker *w, int n)
{
    zt_type t = zt_type_make(ZT_F64, 1, (int64_t[]){n});
    zt_trouble trouble = {0};
    for (int i = 0; i < n; i++) w->wide[i] = (double)w->x[i];
    zt_op_info(w->s->op)->def->ref(w->s->attrs, &(zt_arg){&t, w->wide, NULL},
                                   &(zt_arg){&t, w->want, NULL}, &trouble);
}

/* The same floats from the 5th on, in a vector that ends earlier, give the same bits. */
static bool stays(worker *w, int isa, int n)
{
    return n < 16 || (run(w, isa, w->x + 5, n - 12, w->shifted) &&
                      !memcmp(w->shifted, w->y + 5, (size_t)(n - 12) * sizeof(float)));
}

static void *work(void *user)
{
    worker *w = user;
    for (;;) {
        int64_t c = __atomic_fetch_add(w->next, 1, __ATOMIC_RELAXED);
        if (c >= w->s->n) return NULL;
        int n = chunk_of(w, c);
        run_judge(w, n);
        for (int isa = 0; isa <= (int)zt_isa_best(); isa++) {
            if (!run(w, isa, w->x, n, w->y)) w->found[isa].failed = true;
            judge(w, isa, n);
            if (c % 64 == 0 && !stays(w, isa, n)) w->found[isa].moved = true;
        }
    }
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

static void say(const subject *s, int isa, const finding *f)
{
    const zt_opinfo *info = zt_op_info(s->op);
    char attrs[64] = "";
    double d;
    memcpy(&d, s->attrs, sizeof d);
    if (info->n_attrs && info->attrs[0].kind == ZT_ATTR_f64)
        snprintf(attrs, sizeof attrs, " %s=%g", info->attrs[0].name, d);
    if (info->n_attrs && info->attrs[0].kind == ZT_ATTR_word)
        snprintf(attrs, sizeof attrs, " %s=%.23s", info->attrs[0].name, (const char *)s->attrs);
    ok(!f->wrong && !f->moved && !f->failed, "%s%s on %s: worst %.3f ulp at %a", info->name, attrs,
       zt_isa_name((zt_isa)isa), f->worst, (double)of_bits(f->at));
    if (f->wrong)
        diag("%lld floats off by more than 2 ulp, the first %a", (long long)f->wrong,
             (double)of_bits(f->first));
    if (f->moved) diag("other bits in another place of the vector");
    if (f->failed) diag("does not run");
}

static void look_at(subject *s, worker *const *workers, int n)
{
    pthread_t thread[MAX_THREADS];
    int64_t next = 0;
    s->n = ((s->all ? (int64_t)1 << 32 : sample_size()) + CHUNK - 1) / CHUNK;
    for (int i = 0; i < n; i++) {
        workers[i]->s = s;
        workers[i]->next = &next;
        memset(workers[i]->found, 0, sizeof workers[i]->found);
        if (i) pthread_create(&thread[i], NULL, work, workers[i]);
    }
    work(workers[0]);
    for (int i = 1; i < n; i++) {
        pthread_join(thread[i], NULL);
        for (int isa = 0; isa < ZT_ISA_COUNT; isa++)
            join(&workers[0]->found[isa], &workers[i]->found[isa]);
    }
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) say(s, isa, &workers[0]->found[isa]);
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
static void walk(worker *const *workers, int n, const char *which)
{
    bool all = which && strcmp(which, "0") != 0, one = all && strcmp(which, "1") != 0;
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        int64_t seen[16][ZT_MAX_ATTR_BYTES / 8];
        int n_seen = 0;
        zt_case c;
        if (one && strcmp(which, zt_op_info((zt_op)op)->name)) continue;
        for (int i = 0; n_seen < 16 && zt_op_case((zt_op)op, i, &c); i++) {
            int k = 0;
            while (k < n_seen && memcmp(seen[k], c.attrs, sizeof c.attrs)) k++;
            if (k < n_seen || !fits((zt_op)op, c.attrs)) continue;
            memcpy(seen[n_seen++], c.attrs, sizeof c.attrs);
            subject s = {.op = (zt_op)op, .all = all};
            memcpy(s.attrs, c.attrs, sizeof s.attrs);
            look_at(&s, workers, n);
            fflush(stdout);
        }
    }
}

static worker *new_worker(void)
{
    worker *w = calloc(1, sizeof *w);
    w->ctx = zt_ctx_new();
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) {
        zt_engine_opts opts = {.threads = 1, .isa = (zt_isa)isa};
        w->engine[isa] = zt_engine_open(w->ctx, "cpu", &opts);
        if (!w->engine[isa]) exit(1);
    }
    return w;
}

int main(void)
{
    worker *workers[MAX_THREADS];
    int n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (getenv("ZT_LONG_THREADS")) n = atoi(getenv("ZT_LONG_THREADS"));
    n = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
    for (int i = 0; i < n; i++) workers[i] = new_worker();
    walk(workers, n, getenv("ZT_LONG"));
    for (int i = 0; i < n; i++) {
        for (int isa = 0; isa < ZT_ISA_COUNT; isa++) zt_engine_close(workers[i]->engine[isa]);
        zt_ctx_free(workers[i]->ctx);
        free(workers[i]);
    }
    return tap_done();
}
